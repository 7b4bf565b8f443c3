//! `warpkov hmm sample`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpkov_common::choice::Choice;
use warpkov_hmm::io::sequences::{self, Format};
use warpkov_hmm::model::Hmm;
use warpkov_hmm::report::StateFormat;
use warpkov_hmm::sample::{Error as SampleError, Sample, sample};

use super::file::Input;
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::file::{FileOrStd, room, write_whole, writes};

/// Draws sequences from a model.
///
/// If the model has end probabilities, a sequence ends at random, or at --length.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm sample model.json --sequences 10 --length 20
  warpkov hmm sample model.json --sequences 1000 --length 64 --out data.npy --lengths lengths.npy --states states.npy")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Number of sequences.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    sequences: u32,
    /// Number of observations of each sequence [default: until the model ends].
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    length: Option<u64>,
    /// Seed of the random numbers: equal seeds give equal sequences.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Write the sequences to this file, or with - to the standard output.
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    out: FileOrStd,
    /// Format of --out [default: that of its extension; lines on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
    /// Write the lengths of the sequences to this file. Several sequences in one NumPy array need it.
    #[arg(long, value_name = "FILE.npy")]
    lengths: Option<PathBuf>,
    /// Write the hidden states to this file: .txt with one sequence per line, or .npy with the numbers of the states.
    #[arg(long, value_name = "FILE")]
    states: Option<PathBuf>,
}

/// The sequences to draw, and their destination.
pub struct Options {
    input: Input,
    sequences: u32,
    length: Option<u64>,
    seed: u64,
    out: FileOrStd,
    format: Format,
    lengths: Option<PathBuf>,
    states: Option<(PathBuf, StateFormat)>,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, sequences, length, seed, out, to, lengths, states } = arguments;
        let format = out.format(to, Format::ALL, Format::Lines)?;
        out.writes()?;
        let states = states.map(|path| {
            let file = FileOrStd::At(path.clone());
            let format = file.format(None, StateFormat::ALL, StateFormat::Text)?;
            file.writes()?;
            Ok::<_, Error>((path, format))
        });
        lengths.as_deref().map_or(Ok(()), writes)?;
        Ok(Self { input, sequences, length, seed, out, format, lengths, states: states.transpose()? })
    }
}

impl Options {
    /// Checks that the files can hold the sequences, and that the disk has room for them.
    fn check(&self, model: &Hmm) -> Result<(), Error> {
        let several = self.sequences > 1;
        sequences::holds(self.format, model, several).map_err(|error| Error::Usage(format!("--out: {error}")))?;
        if self.format == Format::Npy && several && self.lengths.is_none() {
            let message = "several sequences in one array need --lengths, a file of their lengths";
            return Err(Error::Usage(message.to_owned()));
        }
        // End probabilities make the number of observations random.
        let Some(length) = self.length.filter(|_| model.end().is_none()) else { return Ok(()) };
        let observations = u64::from(self.sequences).saturating_mul(length);
        if let FileOrStd::At(path) = &self.out {
            room(path, observations.saturating_mul(least_bytes(self.format, model)))?;
        }
        match &self.states {
            Some((path, format)) => room(path, observations.saturating_mul(format.least_bytes())),
            None => Ok(()),
        }
    }

    /// Writes the hidden states and the sequences.
    fn write(&self, drawn: &Sample, model: &Hmm, out: impl Write) -> Result<(), Error> {
        if let Some((path, format)) = &self.states {
            write_whole(path, |out| format.write(out, model, drawn))?;
        }
        match &self.out {
            FileOrStd::Standard => sequences::write_to(out, self.format, &drawn.sequences, model)?,
            FileOrStd::At(path) => {
                sequences::write(path, self.lengths.as_deref(), self.format, &drawn.sequences, model)?;
            }
        }
        Ok(())
    }
}

/// A lower bound of the bytes per observation.
fn least_bytes(format: Format, model: &Hmm) -> u64 {
    let number = match format {
        Format::Npy => 8,
        Format::Fasta => 1,
        _ => 2,
    };
    match (model.emissions().dimensions(), format) {
        (None, Format::Npy) => 4,
        (None, _) => number,
        (Some(dimensions), _) => u64::from(dimensions) * number,
    }
}

/// Reads the model, draws sequences, writes them.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    let model = options.input.read()?;
    options.check(&model)?;
    let length = options.length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let drawn = sample(&model, options.sequences as usize, length, options.seed).map_err(|error| match error {
        SampleError::Endless => Error::Usage(format!("{error}, as in --length 100")),
        error => Error::Usage(error.to_string()),
    })?;
    options.write(&drawn, &model, out)?;
    Ok(Outcome::Success)
}
