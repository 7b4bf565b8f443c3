//! Files of partially observable models, named on the command line.

use std::io::{self, Write};

use clap::Args;
use warpkov::pomdp::io as formats;
use warpkov::pomdp::io::Format;
use warpkov::pomdp::model::Pomdp;

use super::Error;
use crate::cli::file::{ModelFile, extension, folder_exists};

/// The model that a command reads.
#[derive(Args)]
pub struct Input {
    /// The model's file, or - for the standard input.
    #[arg(value_name = "FILE")]
    pub file: ModelFile,
    /// Format of FILE [default: as its extension says, or its content].
    #[arg(long, alias = "from", value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
}

impl Input {
    /// Reads the model.
    pub fn read(&self) -> Result<Pomdp, Error> {
        Ok(match &self.file {
            ModelFile::Standard => formats::read_from(io::stdin().lock(), "standard input", self.format)?,
            ModelFile::At(path) => formats::read(path, self.format)?,
        })
    }
}

/// The format to write `file` in: the one asked for, else the extension's, else JSON on the standard output.
pub fn output_format(file: &ModelFile, asked: Option<Format>) -> Result<Format, Error> {
    let ModelFile::At(path) = file else { return Ok(asked.unwrap_or(Format::Json)) };
    folder_exists(path)?;
    if let Some(format) = asked.or(Format::of_name(path)) {
        return Ok(format);
    }
    let known: Vec<_> = [Format::Json].iter().flat_map(|format| format.extensions()).copied().collect();
    extension(path, &known).map(|_| Format::Json)
}

/// Writes a model to a file or to the standard output.
pub fn write(file: &ModelFile, format: Format, model: &Pomdp, out: impl Write) -> Result<(), Error> {
    match file {
        ModelFile::Standard => formats::write_to(out, format, model)?,
        ModelFile::At(path) => formats::write(path, format, model)?,
    }
    Ok(())
}
