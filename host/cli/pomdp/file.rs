//! Files of partially observable models, named on the command line.

use std::io::{self, Write};

use clap::Args;
use warpkov::common::choice::Choice;
use warpkov::pomdp::io as formats;
use warpkov::pomdp::io::{Format, Kind};
use warpkov::pomdp::model::Pomdp;

use super::Error;
use crate::cli::common::choice::choice;
use crate::cli::common::file::{ModelFile, extension, reads, reads_standard_input, writes};

/// The model that a command reads.
#[derive(Args)]
pub struct Input {
    /// The model's file, or - for the standard input.
    #[arg(value_name = "FILE")]
    pub file: ModelFile,
    /// Format of FILE [default: as its extension says, or its content].
    #[arg(long, alias = "from", value_parser = choice::<Format>(), value_name = "FORMAT")]
    pub format: Option<Format>,
}

impl Input {
    /// Reads the model.
    pub fn read(&self) -> Result<Pomdp, Error> {
        Ok(match &self.file {
            ModelFile::Standard => {
                reads_standard_input()?;
                formats::read_from(io::stdin().lock(), "standard input", self.format)?
            }
            ModelFile::At(path) => {
                reads(path)?;
                formats::read(path, self.format)?
            }
        })
    }
}

/// The format to write `file` in, one of `kinds`: the one asked for, else the extension's, else JSON on the standard output.
pub fn output_format(file: &ModelFile, asked: Option<Format>, kinds: &[Kind]) -> Result<Format, Error> {
    let fits = |format: &Format| format.is_written() && kinds.contains(&format.kind());
    let format = match (file, asked) {
        (_, Some(format)) => format,
        (ModelFile::Standard, None) => Format::Json,
        (ModelFile::At(path), None) => match Format::of_name(path) {
            Some(format) => format,
            None => {
                let known = Format::ALL.iter().filter(|format| fits(format));
                let known: Vec<_> = known.flat_map(|format| format.extensions()).copied().collect();
                return extension(path, &known).map(|_| Format::Json);
            }
        },
    };
    if !format.is_written() {
        return Err(Error::Usage(format!("{format} is read and not written")));
    }
    if !fits(&format) {
        let kinds: Vec<_> = kinds.iter().map(Kind::to_string).collect();
        return Err(Error::Usage(format!(
            "a file in {format} holds {}, expected {}",
            format.kind(),
            kinds.join(" or ")
        )));
    }
    if let ModelFile::At(path) = file {
        writes(path)?;
    }
    Ok(format)
}

/// Writes a model to a file or to the standard output.
pub fn write(file: &ModelFile, format: Format, model: &Pomdp, out: impl Write) -> Result<(), Error> {
    match file {
        ModelFile::Standard => formats::write_to(out, format, model)?,
        ModelFile::At(path) => formats::write(path, format, model)?,
    }
    Ok(())
}
