//! Models and sequences named on the command line.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;
use warpkov::backend::device::hmm::{Limits, Scan};
use warpkov::hmm::dispatch::{Dynamic, Place, Precision};
use warpkov::hmm::io::{self as formats, Format, sequences};
use warpkov::hmm::model::Hmm;
use warpkov::hmm::sequences::Sequences;
use warpkov::mdp::options::DeviceChoice;

use super::Error;
use crate::cli::file::{ModelFile, extension, reads, reads_standard_input, writes};

/// The model that a command reads.
#[derive(Args)]
pub struct Input {
    /// The model's file, a folder of hmmlearn's arrays, or - for the standard input.
    #[arg(value_name = "MODEL")]
    pub model: ModelFile,
    /// Format of MODEL [default: as its extension says, or its content].
    #[arg(long, value_enum, value_name = "FORMAT")]
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
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<sequences::Format>,
    /// File of the sequences' lengths, where SEQUENCES is one array of NumPy's.
    #[arg(long, value_name = "FILE.npy")]
    lengths: Option<PathBuf>,
    /// Where to compute: auto, cpu or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Floating-point type of the recursions.
    #[arg(long, value_enum, default_value = "f64")]
    pub precision: Precision,
    /// Whether a GPU cuts sequences into pieces, to look at all of them at one time: few and long ones of models of up to 64 states.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Scan::Auto)]
    scan: Scan,
}

impl Data {
    /// Reads model and sequences.
    pub fn read(&self, input: &Input) -> Result<(Hmm, Sequences), Error> {
        if (&input.model, &self.sequences) == (&ModelFile::Standard, &ModelFile::Standard) {
            return Err(Error::Usage("model and sequences cannot both come from the standard input".to_owned()));
        }
        match &self.sequences {
            ModelFile::Standard => reads_standard_input()?,
            ModelFile::At(path) => reads(path)?,
        }
        self.lengths.as_deref().map_or(Ok(()), reads)?;
        let _starting = self.sequences.start(self.device);
        let model = input.read()?;
        let sequences = match (&self.sequences, &self.lengths) {
            (ModelFile::Standard, Some(_)) => {
                return Err(Error::Usage("--lengths needs sequences from a file".to_owned()));
            }
            (ModelFile::Standard, None) => {
                sequences::read_from(io::stdin().lock(), "standard input", self.format, &model)?
            }
            (ModelFile::At(path), lengths) => sequences::read(path, lengths.as_deref(), self.format, &model)?,
        };
        Ok((model, sequences))
    }

    /// Where the recursions are to run.
    pub fn place(&self, model: &Hmm, sequences: &Sequences) -> Result<Place, Error> {
        Ok(Place::open(self.device, model, sequences)?)
    }

    /// The recursions by one model.
    pub fn by<'p>(&self, place: &'p Place, model: &Hmm, sequences: &'p Sequences) -> Result<Dynamic<'p>, Error> {
        let mut recursions = self.recursions(place, model, 1, sequences)?;
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
        let limits = Limits { pieces: self.scan.steps(states, count, sequences), ..Limits::default() };
        Ok(place.recursions(sequences, self.precision, limits)?)
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
            let known = Format::value_variants().iter().flat_map(|format| format.extensions()).copied();
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
