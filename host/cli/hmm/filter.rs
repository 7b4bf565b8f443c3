//! `warpkov hmm filter`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::iter;

use clap::Args;
use serde_json::json;
use warpkov_common::io::Error as FileError;
use warpkov_common::io::input::Input as Packed;
use warpkov_hmm::filter::Filter;
use warpkov_hmm::io::sequences::{Stream, field, write_row};
use warpkov_hmm::model::{Emissions, Hmm, name};

use super::file::Input;
use super::{Error, Outcome};
use crate::common::file::FileOrStd;

/// Follows a stream: after each observation, the probability of every state given all observations so far.
///
/// OBSERVATIONS has one observation per line: a symbol, or the numbers of a vector, separated by blanks or commas. Each is answered by
/// one line, before the next is read. NA is a step without an observation. A blank line ends a sequence, and the next line begins
/// another one. The CPU computes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tail -f sensor.txt | warpkov hmm filter model.json -
  warpkov hmm filter model.json - --lag 5
  warpkov hmm filter model.json - --ahead 1 --observation
  warpkov hmm filter model.json data.txt --json | jq -c .probs")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// File of the observations, or - for the standard input.
    #[arg(value_name = "OBSERVATIONS")]
    observations: FileOrStd,
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

/// The stream to follow, and what to write.
pub struct Options {
    input: Input,
    observations: FileOrStd,
    lag: u32,
    ahead: u32,
    observation: bool,
    json: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, observations, lag, ahead, observation, json } = arguments;
        if input.model == FileOrStd::Standard && observations == FileOrStd::Standard {
            return Err(Error::Usage("model and observations cannot both come from the standard input".to_owned()));
        }
        observations.reads()?;
        Ok(Self { input, observations, lag, ahead, observation, json })
    }
}

/// Reads the model, and answers each line of the stream.
pub fn run(options: &Options, out: impl Write) -> Result<Outcome, Error> {
    let model = options.input.read()?;
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
    let mut answers = Answers::new(options, &model, out)?;
    follow(BufReader::new(reader), &file, &model, &mut answers)?;
    Ok(Outcome::Success)
}

/// Reads the stream to its end.
fn follow(
    mut reader: BufReader<impl Read>,
    file: &str,
    model: &Hmm,
    answers: &mut Answers<impl Write>,
) -> Result<(), Error> {
    let mut stream = Stream::new(model);
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let failed = |message: String| Error::File(FileError::Line { file: file.to_owned(), line, message });
        let read = reader.read_until(b'\n', &mut text).map_err(FileError::read(file))?;
        match stream.parse(&text).map_err(failed)? {
            Some(observation) => {
                answers.filter.push(observation).map_err(|refused| failed(refused.to_string()))?;
                answers.answer()?;
            }
            None if answers.filter.steps() > 0 => answers.end(failed)?,
            None => {}
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

/// Writes the answers.
struct Answers<'m, W: Write> {
    filter: Filter<'m>,
    model: &'m Hmm,
    ahead: u32,
    lag: u64,
    observation: bool,
    json: bool,
    sequence: u64,
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
        let filter = Filter::new(model, lag as usize);
        Ok(Self { filter, model, ahead, lag: lag.into(), observation, json, sequence: 1, out })
    }

    /// Answers an observation.
    fn answer(&mut self) -> Result<(), Error> {
        let steps = self.filter.steps();
        let log_likelihood = self.filter.log_likelihood();
        match self.ahead {
            0 => match self.filter.smoothed() {
                Some(probs) => self.write(steps - self.lag, log_likelihood, &probs),
                None => Ok(()),
            },
            ahead => self.write(steps + u64::from(ahead), log_likelihood, &self.filter.predicted(ahead)),
        }
    }

    /// Ends a sequence, with the steps that a lag has kept back.
    fn end(&mut self, failed: impl Fn(String) -> Error) -> Result<(), Error> {
        let steps = self.filter.steps();
        let (smoothed, log_likelihood) = self.filter.finish().map_err(|refused| failed(refused.to_string()))?;
        for (probs, step) in smoothed.iter().zip(steps + 1 - smoothed.len() as u64..) {
            self.write(step, log_likelihood, probs)?;
        }
        self.sequence += 1;
        Ok(())
    }

    fn write(&mut self, position: u64, log_likelihood: f64, states: &[f64]) -> Result<(), Error> {
        let observed = self.observation.then(|| self.filter.observation(states));
        let numbers = observed.as_deref().unwrap_or(states);
        if self.json {
            let mut answer =
                json!({ "sequence": self.sequence, "position": position, "log_likelihood": log_likelihood });
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
            self.sequence,
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
    }
}
