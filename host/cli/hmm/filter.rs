//! `warpkov hmm filter`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::iter;

use clap::{Args, ValueEnum};
use serde_json::json;
use warpkov_common::io::Error as FileError;
use warpkov_common::io::input::Input as Packed;
use warpkov_common::io::input::plain_name;
use warpkov_hmm::filter::{Filter, Refused};
use warpkov_hmm::io::sequences::{Format, Line, Stream, Table, field, write_row};
use warpkov_hmm::model::{Emissions, Hmm, name};
use warpkov_hmm::sequences::Observation;

use super::file::{Input, TableArguments};
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::file::FileOrStd;

/// Follows a stream: after each observation, the probability of every state given all observations so far.
///
/// OBSERVATIONS has one observation per line: a symbol, or the numbers of a vector, separated by blanks or commas. Each is answered by
/// one line, before the next is read. NA is a step without an observation, or a missing number of a vector. A blank line ends a
/// sequence, and the next line begins another one. A table (.csv, --format csv) has one row per observation and may have a header; all
/// rows with the same id form one sequence, adjacent or not, and a blank line ends all of them. The CPU computes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tail -f sensor.txt | warpkov hmm filter model.json -
  tail -f sensors.csv | warpkov hmm filter model.json - --format csv --id sensor --on-error missing
  warpkov hmm filter model.json - --lag 5
  warpkov hmm filter model.json - --ahead 1 --observation
  warpkov hmm filter model.json data.txt --json | jq -c .probs")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// File of the observations, or - for the standard input.
    #[arg(value_name = "OBSERVATIONS")]
    observations: FileOrStd,
    /// Format of OBSERVATIONS: lines or csv [default: that of its extension, else lines].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    table: TableArguments,
    /// What to do about a line that is unreadable or impossible under the model: stop; take it as missing; or restart, which begins
    /// another sequence, with the line if that is possible. A note names each line.
    #[arg(long, value_enum, value_name = "HOW", default_value = "stop")]
    on_error: OnError,
    /// Smooth: after observation t, write the states at step t - L. The last L steps follow when a sequence ends.
    #[arg(long, value_name = "L", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..1_000_000))]
    lag: u32,
    /// Predict: after observation t, write the states at step t + H.
    #[arg(long, value_name = "H", default_value_t = 0, conflicts_with = "lag", value_parser = clap::value_parser!(u32).range(..1_000_000))]
    ahead: u32,
    /// Write the distribution of the observation at that step, in place of that of the states: the probability of each symbol, or mean
    /// and standard deviation of each component.
    #[arg(long)]
    observation: bool,
    /// Print a JSON object on each line, in place of a table in CSV.
    #[arg(long)]
    json: bool,
}

/// What to do about lines that are unreadable or impossible.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum OnError {
    /// End with an error.
    Stop,
    /// Take the line as a missing observation.
    Missing,
    /// Begin another sequence.
    Restart,
}

/// The stream to follow, and what to write.
pub struct Options {
    input: Input,
    observations: FileOrStd,
    /// The columns of a table; `None` for lines.
    table: Option<Table>,
    on_error: OnError,
    lag: u32,
    ahead: u32,
    observation: bool,
    json: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, observations, format, table, on_error, lag, ahead, observation, json } = arguments;
        if input.model == FileOrStd::Standard && observations == FileOrStd::Standard {
            return Err(Error::Usage("model and observations cannot both come from the standard input".to_owned()));
        }
        observations.reads()?;
        let of_name = match &observations {
            FileOrStd::Standard => None,
            // Other files were always read as lines.
            FileOrStd::At(path) => Format::of_name(&plain_name(path)).filter(|format| *format == Format::Csv),
        };
        let table = match (format.or(of_name).unwrap_or(Format::Lines), table.table()) {
            (Format::Csv, table) => Some(table),
            (Format::Lines, table) if table == Table::default() => None,
            (Format::Lines, _) => {
                let message = "--columns, --id, --header and --separator are for tables: expected --format csv";
                return Err(Error::Usage(message.to_owned()));
            }
            (format, _) => {
                return Err(Error::Usage(format!("--format {format}: a stream is lines or csv")));
            }
        };
        Ok(Self { input, observations, table, on_error, lag, ahead, observation, json })
    }
}

/// Reads the model, and answers each line of the stream.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    let model = options.input.read()?;
    if let (true, Emissions::Channels(_)) = (options.observation, model.emissions()) {
        let message = "--observation is for models of symbols or of normal densities, not of channels";
        return Err(Error::Usage(message.to_owned()));
    }
    let file = match &options.observations {
        FileOrStd::Standard => "standard input".to_owned(),
        FileOrStd::At(path) => path.display().to_string(),
    };
    let reader: Box<dyn Read> = match &options.observations {
        FileOrStd::Standard => Box::new(io::stdin().lock()),
        FileOrStd::At(path) if path.is_file() => Box::new(Packed::open(path).map_err(FileError::read(path))?),
        // A pipe: a compressed one would be recognised by its first bytes, and the first line may have fewer.
        FileOrStd::At(path) => Box::new(File::open(path).map_err(FileError::read(path))?),
    };
    let mut answers = Answers::new(&options, &model, out)?;
    let mut stream = match &options.table {
        Some(table) => Stream::of_table(&model, table.clone()),
        None => Stream::new(&model),
    };
    follow(BufReader::new(reader), &file, &mut stream, options.on_error, &mut answers)?;
    Ok(Outcome::Success)
}

/// Reads the stream to its end.
fn follow(
    mut reader: BufReader<impl Read>,
    file: &str,
    stream: &mut Stream<'_>,
    on_error: OnError,
    answers: &mut Answers<impl Write>,
) -> Result<(), Error> {
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let failed = |message: String| Error::File(FileError::Line { file: file.to_owned(), line, message });
        let read = reader.read_until(b'\n', &mut text).map_err(FileError::read(file))?;
        // What cannot be read or emitted, unless it ends the command.
        let survive = |message: &str, treatment: &str| match on_error {
            OnError::Stop => Err(failed(message.to_owned())),
            _ => {
                eprintln!("note: {file}:{line}: {message}; {treatment}");
                Ok(())
            }
        };
        let parsed = stream.parse(&text);
        if parsed == Ok(Line::Blank) {
            answers.end(|id, refused| {
                let whose = id.map_or_else(String::new, |id| format!("sequence {id}: "));
                survive(&format!("{whose}{refused}"), "the sequence breaks off")
            })?;
        }
        let readable = parsed.is_ok();
        let pushed = match parsed {
            Ok(Line::Header | Line::Blank) => Ok(false),
            // The options do not fit the table.
            Err(message) if !stream.has_columns() => return Err(failed(message)),
            Err(message) if stream.has_ids() && stream.id().is_none() => {
                survive(&message, "it belongs to no sequence")?;
                Ok(false)
            }
            parsed => {
                if let Some(id) = stream.id() {
                    answers.choose(id);
                }
                parsed.and_then(|_| answers.push(stream.observation()).map_err(|refused| refused.to_string()))
            }
        };
        let pushed = match (pushed, on_error) {
            (Ok(pushed), _) => pushed,
            (Err(message), OnError::Missing) => {
                survive(&message, "taken as missing")?;
                if answers.push(Observation::Missing).is_err() {
                    answers.break_off()?;
                    answers.push(Observation::Missing).map_err(|refused| failed(refused.to_string()))?;
                }
                true
            }
            (Err(message), _) => {
                survive(&message, "another sequence begins")?;
                answers.break_off()?;
                readable && answers.push(stream.observation()).is_ok()
            }
        };
        if pushed {
            answers.answer()?;
        }
        // Lines that arrive together are answered together.
        if !reader.buffer().contains(&b'\n') {
            answers.out.flush()?;
        }
        if read == 0 {
            break;
        }
    }
    Ok(())
}

/// A sequence that is followed.
struct Followed {
    filter: Filter,
    /// Its number, from 1.
    number: u64,
    /// Its name in a table.
    id: Option<String>,
}

/// Writes the answers.
struct Answers<'m, W: Write> {
    model: &'m Hmm,
    ahead: u32,
    lag: u64,
    observation: bool,
    json: bool,
    /// The sequences that have not ended, in order of appearance; never empty.
    open: Vec<Followed>,
    /// Index in `open` of each id; empty without ids.
    ids: HashMap<Vec<u8>, usize>,
    /// Index in `open` of the sequence of the last observation.
    at: usize,
    /// Number of the last sequence that has begun.
    last: u64,
    out: BufWriter<W>,
}

impl<'m, W: Write> Answers<'m, W> {
    /// Writes the header of a table.
    fn new(options: &Options, model: &'m Hmm, out: W) -> Result<Self, Error> {
        let &Options { lag, ahead, observation, json, .. } = options;
        let mut out = BufWriter::new(out);
        if !json {
            write!(out, "sequence,position,log_likelihood")?;
            columns(model, observation).iter().try_for_each(|column| write!(out, ",{}", field(column)))?;
            writeln!(out)?;
            out.flush()?;
        }
        let open = vec![Followed { filter: Filter::new(model, lag as usize), number: 1, id: None }];
        let ids = HashMap::new();
        Ok(Self { model, ahead, lag: lag.into(), observation, json, open, ids, at: 0, last: 1, out })
    }

    /// Turns to the sequence with this id, which may be new.
    fn choose(&mut self, id: &[u8]) {
        if let Some(&at) = self.ids.get(id) {
            self.at = at;
            return;
        }
        // The first sequence takes the first id.
        if !self.ids.is_empty() {
            let filter = self.open[0].filter.another();
            self.last += 1;
            self.open.push(Followed { filter, number: self.last, id: None });
        }
        self.at = self.open.len() - 1;
        self.open[self.at].id = Some(String::from_utf8_lossy(id).into_owned());
        self.ids.insert(id.to_owned(), self.at);
    }

    /// Takes an observation of the present sequence. Returns `true`.
    fn push(&mut self, observation: Observation<'_>) -> Result<bool, Refused> {
        self.open[self.at].filter.push(observation).map(|()| true)
    }

    /// Answers an observation.
    fn answer(&mut self) -> Result<(), Error> {
        let filter = &self.open[self.at].filter;
        let (steps, log_likelihood) = (filter.steps(), filter.log_likelihood());
        match self.ahead {
            0 => match filter.smoothed() {
                Some(probs) => self.write(steps - self.lag, log_likelihood, &probs),
                None => Ok(()),
            },
            ahead => {
                let probs = filter.predicted(ahead);
                self.write(steps + u64::from(ahead), log_likelihood, &probs)
            }
        }
    }

    /// Ends all sequences. Those that the model does not end here are broken off, if `survive` has no objection.
    fn end(&mut self, survive: impl Fn(Option<&str>, Refused) -> Result<(), Error>) -> Result<(), Error> {
        for at in 0..self.open.len() {
            self.at = at;
            let filter = &mut self.open[at].filter;
            let steps = filter.steps();
            if steps == 0 {
                continue;
            }
            match filter.finish() {
                Ok(last) => self.close(steps, last)?,
                Err(refused) => {
                    survive(self.open[at].id.as_deref(), refused)?;
                    self.break_off()?;
                }
            }
        }
        self.open.truncate(1);
        self.ids.clear();
        self.at = 0;
        Ok(())
    }

    /// Breaks the present sequence off, if observations have come.
    fn break_off(&mut self) -> Result<(), Error> {
        let filter = &mut self.open[self.at].filter;
        let steps = filter.steps();
        if steps == 0 {
            return Ok(());
        }
        let last = filter.break_off();
        self.close(steps, last)
    }

    /// Writes the steps that a lag has kept back. The next observation begins another sequence.
    fn close(&mut self, steps: u64, (smoothed, log_likelihood): (Vec<Vec<f64>>, f64)) -> Result<(), Error> {
        for (probs, step) in smoothed.iter().zip(steps + 1 - smoothed.len() as u64..) {
            self.write(step, log_likelihood, probs)?;
        }
        self.last += 1;
        self.open[self.at].number = self.last;
        Ok(())
    }

    fn write(&mut self, position: u64, log_likelihood: f64, states: &[f64]) -> Result<(), Error> {
        let Followed { filter, number, id } = &self.open[self.at];
        let observed = self.observation.then(|| filter.observation(states));
        let numbers = observed.as_deref().unwrap_or(states);
        if self.json {
            let sequence = id.as_ref().map_or_else(|| json!(number), |id| json!(id));
            let mut answer = json!({ "sequence": sequence, "position": position, "log_likelihood": log_likelihood });
            match (&observed, self.model.emissions()) {
                (Some(numbers), Emissions::Gaussian { dimensions, .. }) => {
                    let (means, deviations) = numbers.split_at(*dimensions as usize);
                    answer["means"] = json!(means);
                    answer["deviations"] = json!(deviations);
                }
                _ => answer["probs"] = json!(numbers),
            }
            writeln!(self.out, "{answer}")?;
            return Ok(());
        }
        Ok(write_row(
            &mut self.out,
            &id.as_ref().map_or_else(|| number.to_string(), |id| field(id)),
            position,
            iter::once(log_likelihood).chain(numbers.iter().copied()),
        )?)
    }
}

/// The names of the columns: states, symbols, or moments of components.
fn columns(model: &Hmm, observation: bool) -> Vec<String> {
    let names = |names: &[String], count: u32| (0..count).map(|number| name(names, number)).collect();
    match (observation, model.emissions()) {
        (false, _) => names(&model.names().states, model.states()),
        (true, Emissions::Categorical { symbols, .. }) => names(&model.names().symbols, *symbols),
        (true, Emissions::Gaussian { dimensions, .. }) => ["mean", "deviation"]
            .iter()
            .flat_map(|what| (1..=*dimensions).map(move |k| format!("{what}_{k}")))
            .collect(),
        // Refused before.
        (true, Emissions::Channels(_)) => Vec::new(),
    }
}
