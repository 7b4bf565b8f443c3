//! Models and sequences named on the command line.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use warpkov::common::choice::Choice;
use warpkov::hmm::device::{Limits, Scan};
use warpkov::hmm::io as formats;
use warpkov::hmm::io::Format;
use warpkov::hmm::io::sequences::{self, Missing, ReadOptions, Records, Table};
use warpkov::hmm::model::Hmm;
use warpkov::hmm::options::Precision;
use warpkov::hmm::place::{Dynamic, cost, recursions};
use warpkov::hmm::sequences::Sequences;
use warpkov::runtime::choose::{DeviceChoice, Place};

use super::Error;
use crate::cli::common::choice::choice;
use crate::cli::common::file::{ModelFile, extension, reads, reads_standard_input, writes};

/// The model that a command reads.
#[derive(Args)]
pub struct Input {
    /// The model's file, a folder of hmmlearn's arrays, or - for the standard input.
    #[arg(value_name = "MODEL")]
    pub model: ModelFile,
    /// Format of MODEL [default: as its extension says, or its content].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    model_format: Option<Format>,
}

impl Input {
    /// Reads the model.
    pub fn read(&self) -> Result<Hmm, Error> {
        Ok(match &self.model {
            ModelFile::Standard => {
                reads_standard_input()?;
                formats::read_from(io::stdin().lock(), "standard input", self.model_format)?
            }
            ModelFile::At(path) => {
                reads(path)?;
                formats::read(path, self.model_format)?
            }
        })
    }

    /// What pictures call the model.
    pub fn name(&self) -> String {
        match &self.model {
            ModelFile::Standard => "-".to_owned(),
            ModelFile::At(path) => path.display().to_string(),
        }
    }
}

/// The sequences that a command reads, and where it looks at them.
#[derive(Args)]
pub struct Data {
    /// The sequences' file, or - for the standard input.
    #[arg(value_name = "SEQUENCES")]
    sequences: ModelFile,
    /// Format of SEQUENCES [default: as its extension says, or its content].
    #[arg(long, value_parser = choice::<sequences::Format>(), value_name = "FORMAT")]
    format: Option<sequences::Format>,
    /// File of the sequences' lengths, where SEQUENCES is one array of NumPy's.
    #[arg(long, value_name = "FILE.npy")]
    lengths: Option<PathBuf>,
    /// Columns of a table that are observed, by name, or by number from 1: price,volume or '"price, USD",4' [default: all but --id].
    #[arg(long, value_name = "LIST", value_parser = list)]
    columns: Option<List>,
    /// Column of a table whose rows of equal value are one sequence, wherever they stand [default: the first, if it is called sequence].
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// Whether the first row of a table is a header. auto: if columns are named, the first one is called sequence, or no observed
    /// column has an observation there, or what looks like one.
    #[arg(long, value_parser = choice::<sequences::Header>(), value_name = "WHEN", default_value = "auto")]
    header: sequences::Header,
    /// What stands between columns: a character, or tab [default: what the first row has most of: commas, semicolons, tabs].
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    separator: Option<u8>,
    /// What to do where an observation is missing (NA, nan, empty) or ambiguous (N or R of DNA, gaps).
    #[arg(long, value_parser = choice::<Missing>(), value_name = "HOW", default_value = "refuse")]
    missing: Missing,
    /// Where to compute: auto, cpu, cuda:N or emulated.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Floating-point type of the recursions.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "f64")]
    precision: Precision,
    /// Whether a GPU cuts sequences into chunks, to look at all of them at one time: few and long ones of models of up to 64 states.
    #[arg(long, value_parser = choice::<Scan>(), value_name = "WHEN", default_value_t = Scan::Auto)]
    scan: Scan,
}

/// Names between commas; those with commas stand in quotes.
#[derive(Clone, Debug)]
pub struct List(pub Vec<String>);

/// Reads a list.
pub fn list(text: &str) -> Result<List, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let row = reader.records().next().transpose().map_err(|error| error.to_string())?;
    let names: Vec<String> = row.iter().flatten().map(|name| name.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) || names.is_empty() {
        true => Err("expected names or numbers between commas".to_owned()),
        false => Ok(List(names)),
    }
}

fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\n\r.".contains(&byte) => Ok(byte),
        _ => Err("expected one character, which is no letter, digit, point or quote, or tab".to_owned()),
    }
}

/// A model, and sequences for it.
pub struct Given {
    /// The model as it was read.
    pub model: Hmm,
    /// The sequences, and what their file says of them.
    pub records: Records,
    /// The model with symbols for what is ambiguous, where something is.
    extended: Option<Hmm>,
    /// The sequences' file, as messages call it.
    file: String,
    /// Why the recursions run where they do, if that was chosen on the user's behalf.
    chosen: OnceLock<String>,
}

impl Given {
    /// The sequences.
    pub fn sequences(&self) -> &Sequences {
        &self.records.sequences
    }

    /// The model by which the recursions look at the sequences.
    pub fn emitter(&self) -> &Hmm {
        self.extended.as_ref().unwrap_or(&self.model)
    }

    /// Why a sequence, by its number from 0, is not possible.
    pub fn why_impossible(&self, sequence: usize) -> String {
        format!("{}: {}", self.file, self.records.why_impossible(&self.model, sequence))
    }

    /// Says of the first sequence that is not possible why; `possible` tells of each whether it is.
    pub fn note_impossible(&self, possible: impl Fn(usize) -> bool) {
        let mut impossible = (0..self.sequences().len()).filter(|&sequence| !possible(sequence));
        if let Some(first) = impossible.next() {
            let more = match impossible.count() {
                0 => String::new(),
                more => format!("; and {more} more are not possible"),
            };
            eprintln!("note: {}{more}", self.why_impossible(first));
        }
    }

    /// Adds what a file says of its sequences to an object, and where the recursions run and why.
    pub fn describe(&self, object: &mut Value) {
        let Records { names, starts, notes, .. } = &self.records;
        if !names.is_empty() {
            object["names"] = names.clone().into();
        }
        if !starts.is_empty() {
            object["starts"] = starts.clone().into();
        }
        let notes: Vec<&String> = notes.iter().chain(self.chosen.get()).collect();
        if !notes.is_empty() {
            object["notes"] = json!(notes);
        }
    }
}

/// Where the time of a command goes, in seconds; phases are called as those of `mdp solve`.
#[derive(Debug, Serialize)]
pub struct Phases {
    /// Reading and checking model and sequences.
    pub read: f64,
    /// Until the device can be used.
    pub start: f64,
    /// The recursions, and on a device bringing sequences and models there.
    pub solve: f64,
    /// Writing files.
    pub write: f64,
}

/// Takes the time of one phase after the other.
#[derive(Clone, Copy)]
pub struct Watch(Instant);

impl Watch {
    /// Begins with the first.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the last phase ended: ends a phase, and begins the next.
    pub fn lap(&mut self) -> f64 {
        let begun = std::mem::replace(&mut self.0, Instant::now());
        (self.0 - begun).as_secs_f64()
    }
}

impl Data {
    /// Reads model and sequences.
    pub fn read(&self, input: &Input) -> Result<Given, Error> {
        if (&input.model, &self.sequences) == (&ModelFile::Standard, &ModelFile::Standard) {
            return Err(Error::Usage("model and sequences cannot both come from the standard input".to_owned()));
        }
        if (self.precision, self.device) == (Precision::Tf32, DeviceChoice::Cpu) {
            return Err(Error::Usage("--precision tf32 needs a GPU: on a CPU there is f32".to_owned()));
        }
        match &self.sequences {
            ModelFile::Standard => reads_standard_input()?,
            ModelFile::At(path) => reads(path)?,
        }
        self.lengths.as_deref().map_or(Ok(()), reads)?;
        let _starting = self.sequences.start(self.device);
        let model = input.read()?;
        let table = Table {
            header: self.header,
            columns: self.columns.clone().map(|List(names)| names).unwrap_or_default(),
            id: self.id.clone(),
            separator: self.separator,
        };
        let options = ReadOptions { format: self.format, lengths: self.lengths.clone(), table, missing: self.missing };
        let (records, file) = match &self.sequences {
            ModelFile::Standard if self.lengths.is_some() => {
                return Err(Error::Usage("--lengths needs sequences from a file".to_owned()));
            }
            ModelFile::Standard => {
                let file = "standard input";
                (sequences::read_from_with(io::stdin().lock(), file, &options, &model)?, file.to_owned())
            }
            ModelFile::At(path) => (sequences::read_with(path, &options, &model)?, path.display().to_string()),
        };
        for note in &records.notes {
            eprintln!("note: {note}");
        }
        let extended = (!records.sets.is_empty()).then(|| records.extended(&model).into_owned());
        Ok(Given { model, records, extended, file, chosen: OnceLock::new() })
    }

    /// Whether what is ambiguous is summed over.
    pub fn marginalises(&self) -> bool {
        self.missing == Missing::Marginalise
    }

    /// Where the recursions are to run; the reason is kept with what is `given`.
    pub fn place(&self, given: &Given) -> Result<Place, Error> {
        let cost = cost(given.emitter(), given.sequences());
        let (place, reason) = Place::open(self.device, Some(&cost))?;
        if let Some(reason) = reason {
            // For people; programs find it in the JSON.
            if io::stderr().is_terminal() {
                eprintln!("note: {reason}");
            }
            let _ = given.chosen.set(reason);
        }
        Ok(place)
    }

    /// The precision that the recursions have there: only a GPU has TF32, for products of many states.
    pub fn precision(&self, place: &Place, given: &Given) -> Precision {
        match (self.precision, place) {
            (Precision::Tf32, Place::Cpu) => Precision::F32,
            (Precision::Tf32, _) if given.model.states() <= Precision::TF32_STATES => Precision::F32,
            (precision, _) => precision,
        }
    }

    /// The recursions by one model.
    pub fn by<'p>(&self, place: &'p Place, given: &'p Given) -> Result<Dynamic<'p>, Error> {
        let model = given.emitter();
        let mut recursions = self.recursions(place, model, 1, given.sequences())?;
        recursions.set_models(std::slice::from_ref(model))?;
        Ok(recursions)
    }

    /// The recursions by `count` models like `model`.
    pub fn recursions<'p>(
        &self,
        place: &'p Place,
        model: &Hmm,
        count: usize,
        sequences: &'p Sequences,
    ) -> Result<Dynamic<'p>, Error> {
        let states = model.states();
        if self.scan == Scan::Always {
            if matches!(place, Place::Cpu) {
                return Err(Error::Usage("--scan always needs a GPU: on a CPU it would only add work".to_owned()));
            }
            if states > Scan::STATES {
                let most = Scan::STATES;
                return Err(Error::Usage(format!(
                    "--scan always takes up to {most} states, and the model has {states}"
                )));
            }
        }
        let limits = Limits { chunks: self.scan.steps(states, count, sequences), ..Limits::default() };
        Ok(recursions(place, sequences, self.precision, limits)?)
    }
}

/// What is said of the only model.
pub fn only<R: Default>(mut results: Vec<R>) -> R {
    results.pop().unwrap_or_default()
}

/// The format to write a model to `file` in: the one asked for, else the extension's, else JSON on the standard output.
pub fn output_format(file: &ModelFile, asked: Option<Format>) -> Result<Format, Error> {
    let ModelFile::At(path) = file else { return Ok(asked.unwrap_or(Format::Json)) };
    let format = match asked {
        Some(format) => format,
        None => {
            let known = Format::ALL.iter().flat_map(|format| format.extensions()).copied();
            extension(path, &known.collect::<Vec<_>>())?;
            Format::of_name(path).unwrap_or(Format::Json)
        }
    };
    writes(path)?;
    Ok(format)
}

/// Writes a model to a file or to the standard output.
pub fn write(file: &ModelFile, format: Format, model: &Hmm, out: impl Write) -> Result<(), Error> {
    match file {
        ModelFile::Standard => formats::write_to(out, format, model)?,
        ModelFile::At(path) => formats::write(path, format, model)?,
    }
    Ok(())
}

/// A number in JSON, which has no infinity.
pub fn number(x: f64) -> Value {
    if x.is_finite() { x.into() } else { x.to_string().into() }
}

/// Numbers in JSON.
pub fn numbers(x: &[f64]) -> Value {
    x.iter().copied().map(number).collect()
}

/// Prints one JSON object.
pub fn print_json(mut out: impl Write, value: &Value) -> Result<(), Error> {
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}
