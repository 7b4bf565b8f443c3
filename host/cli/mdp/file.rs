//! Models named on the command line.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use warpkov_common::choice::Choice;
use warpkov_common::io::output;
use warpkov_mdp::io as formats;
use warpkov_mdp::io::{Format, Mapped, ReadOptions};
use warpkov_mdp::model::Mdp;

use super::Error;
use crate::common::choice::choice;
use crate::common::file::{FileOrStd, reads, reads_standard_input, writes};
use crate::common::ranks;

/// The model that a command reads.
#[derive(Args)]
pub struct Input {
    /// File of the model, or - for the standard input.
    #[arg(value_name = "FILE")]
    pub file: FileOrStd,
    #[command(flatten)]
    reading: Reading,
}

/// How a file is read.
#[derive(Args, Default)]
pub struct Reading {
    /// Format of FILE [default: that of its extension, else of its content].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    format: Option<Format>,
    /// Name of the rewards to read, if FILE has several [default: the first].
    #[arg(long, value_name = "NAME")]
    reward: Option<String>,
    /// File of the costs of a PETSc model, whose probabilities are in FILE [default: NAME.g.bin for NAME.P.bin].
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
}

impl Input {
    /// Reads the model.
    pub fn read(&self) -> Result<Mdp, Error> {
        self.reading.read(&self.file)
    }
}

impl Reading {
    fn options(&self) -> ReadOptions {
        ReadOptions { format: self.format, reward: self.reward.clone(), costs: self.costs.clone(), map: true }
    }

    /// Opens the model to read it in parts, if its file permits.
    pub fn open_parts(&self, file: &FileOrStd) -> Result<Option<Mapped>, Error> {
        let FileOrStd::At(path) = file else { return Ok(None) };
        let options = self.options();
        formats::files_read(path, &options).iter().try_for_each(|file| reads(file))?;
        Ok(formats::open_parts(path, &options)?)
    }

    /// Reads the model.
    pub fn read(&self, file: &FileOrStd) -> Result<Mdp, Error> {
        let options = self.options();
        let mut note = |note: String| {
            if ranks::writes() {
                eprintln!("note: {}: {note}", file.name());
            }
        };
        Ok(match file {
            FileOrStd::Standard => {
                reads_standard_input()?;
                formats::read_from_noted(io::stdin().lock(), "standard input", &options, &mut note)?
            }
            FileOrStd::At(path) => {
                formats::files_read(path, &options).iter().try_for_each(|file| reads(file))?;
                formats::read_noted(path, &options, &mut note)?
            }
        })
    }
}

/// The format of a model that is written to `file`: the requested format, else that of the extension, else JSON on the standard output.
pub fn output_format(file: &FileOrStd, asked: Option<Format>) -> Result<Format, Error> {
    let format = file.format(asked, Format::ALL, Format::Json)?;
    let refused = || Error::Usage(format!("{format} cannot be streamed, expected the name of a file"));
    match file {
        FileOrStd::Standard => format.streams().then_some(format).ok_or_else(refused),
        FileOrStd::At(path) => {
            let files = format.files(path);
            if files.len() > 1 && !output::is_file(path).unwrap_or(true) {
                return Err(refused());
            }
            files.iter().try_for_each(|file| writes(file))?;
            Ok(format)
        }
    }
}

/// Writes a model to a file or to the standard output.
pub fn write(file: &FileOrStd, format: Format, model: &Mdp, out: impl Write) -> Result<(), Error> {
    match file {
        FileOrStd::Standard => formats::write_to(out, format, model)?,
        FileOrStd::At(path) => formats::write_as(path, format, model)?,
    }
    Ok(())
}
