//! `warpkov hmm sample`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use warpkov::common::choice::Choice;
use warpkov::common::names::name;
use warpkov::hmm::io::sequences::{self, Format, word};
use warpkov::hmm::model::{Emissions, Hmm};
use warpkov::hmm::sample::sample;
use warpkov::mdp::io::write_npy;

use super::file::Input;
use super::{Error, Outcome};
use crate::cli::common::choice::choice;
use crate::cli::common::file::{ModelFile, extension, room, write_whole, writes};

/// Draws sequences from a model.
///
/// Where states end, sequences are as long as they come, --length at most.
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
    /// Observations of each sequence [default: until the model ends].
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    length: Option<u64>,
    /// Seed of what is random: equal seeds give equal sequences.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Where to write the sequences, or - for the standard output.
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    out: ModelFile,
    /// Format of --out [default: as its extension says; lines on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
    /// Where to write the sequences' lengths, which NumPy's array needs.
    #[arg(long, value_name = "FILE.npy")]
    lengths: Option<PathBuf>,
    /// Where to write the hidden states: .npy as numbers, or .txt, a sequence a line.
    #[arg(long, value_name = "FILE")]
    states: Option<PathBuf>,
}

/// Whether what is to be drawn can be written, and has room.
fn check(arguments: &Arguments, format: Format, model: &Hmm) -> Result<(), Error> {
    let several = arguments.sequences > 1;
    sequences::holds(format, model, several).map_err(|error| Error::Usage(format!("--out: {error}")))?;
    if format == Format::Npy && several && arguments.lengths.is_none() {
        return Err(Error::Usage("several sequences in one array need --lengths, a file of their lengths".to_owned()));
    }
    // Where states end, nobody knows how many observations come.
    let Some(length) = arguments.length.filter(|_| model.end().is_none()) else { return Ok(()) };
    let observations = u64::from(arguments.sequences).saturating_mul(length);
    let numbers = match model.emissions() {
        Emissions::Categorical { .. } => 1,
        Emissions::Gaussian { dimensions, .. } => u64::from(*dimensions),
    };
    if let ModelFile::At(path) = &arguments.out {
        let least = match (format, model.emissions()) {
            (Format::Npy, Emissions::Categorical { .. }) => 4,
            (Format::Npy, Emissions::Gaussian { .. }) => 8,
            (Format::Fasta, _) => 1,
            _ => 2,
        };
        room(path, observations.saturating_mul(numbers * least))?;
    }
    match &arguments.states {
        Some(path) => {
            room(path, observations.saturating_mul(if extension(path, &["npy", "txt"])? == "npy" { 4 } else { 2 }))
        }
        None => Ok(()),
    }
}

/// Reads, draws, writes.
pub fn run(arguments: &Arguments, out: impl Write) -> Result<Outcome, Error> {
    let format = match (&arguments.out, arguments.to) {
        (_, Some(format)) => format,
        (ModelFile::Standard, None) => Format::Lines,
        (ModelFile::At(path), None) => {
            let known = Format::ALL.iter().flat_map(|format| format.extensions()).copied();
            extension(path, &known.collect::<Vec<_>>())?;
            Format::of_name(path).unwrap_or(Format::Lines)
        }
    };
    if let ModelFile::At(path) = &arguments.out {
        writes(path)?;
    }
    let hidden = match &arguments.states {
        Some(path) => {
            writes(path)?;
            Some((path, extension(path, &["npy", "txt"])?))
        }
        None => None,
    };
    arguments.lengths.as_deref().map_or(Ok(()), writes)?;
    let model = arguments.input.read()?;
    check(arguments, format, &model)?;
    let length = arguments.length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let drawn = sample(&model, arguments.sequences as usize, length, arguments.seed)
        .map_err(|error| Error::Usage(format!("{error}, as in --length 100")))?;
    if let Some((path, format)) = hidden {
        write_whole(path, |out| match format {
            "npy" => write_npy(out, &drawn.states),
            _ => (0..drawn.sequences.len()).try_for_each(|sequence| {
                let states = drawn.states[drawn.sequences.range(sequence)].iter();
                let names: Vec<String> =
                    states.map(|&state| word(&name(&model.names().states, state)).into_owned()).collect();
                writeln!(out, "{}", names.join(" "))
            }),
        })?;
    }
    match &arguments.out {
        ModelFile::Standard => sequences::write_to(out, format, &drawn.sequences, &model)?,
        ModelFile::At(path) => {
            let lengths: Option<&Path> = arguments.lengths.as_deref();
            sequences::write(path, lengths, format, &drawn.sequences, &model)?;
        }
    }
    Ok(Outcome::Success)
}
