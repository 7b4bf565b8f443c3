//! File formats of models (JSON, hmmlearn's arrays, UMDHMM's text), of their [posteriors](beliefs), and of [`sequences`].

mod arrays;
pub mod beliefs;
mod channels;
mod json;
pub mod sequences;
mod umdhmm;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use super::channels::Channel;
use super::model::{Emissions, Hmm, HmmParts};
use warpkov_common::choice::file_format;
use warpkov_common::io::input::{Input, SNIFFED, plain_name};
use warpkov_common::io::lines::no_place;
use warpkov_common::io::output::atomic_write;
use warpkov_common::io::{BUFFER, invalid, of_extension};

pub use warpkov_common::io::Error;

/// The JSON Schema (draft 2020-12) of models as JSON.
pub const SCHEMA: &str = include_str!("schema.json");

file_format! {
    /// A format of models.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Format {
        /// JSON, for people and scripts.
        Json = "json" in ["json"],
        /// The arrays of an hmmlearn model, as .npz.
        Npz = "npz" in ["npz"],
        /// The text format of UMDHMM.
        Umdhmm = "umdhmm" in ["hmm"],
    }
}

impl Format {
    /// The format of a file name's extension.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        of_extension(path)
    }

    fn of_content(text: &[u8]) -> Self {
        if text.trim_ascii_start().starts_with(b"{") { Self::Json } else { Self::Umdhmm }
    }
}

/// Reads the model in `path`. Without a `format`, the extension of the name determines it, or else the content. A
/// folder holds the arrays of an hmmlearn model as separate files, `startprob_.npy` and so on.
///
/// # Errors
/// If the file cannot be read or does not hold a valid model.
pub fn read(path: &Path, format: Option<Format>) -> Result<Hmm, Error> {
    let file = path.display().to_string();
    if path.is_dir() {
        return validated(arrays::read_folder(path)?, file);
    }
    match format.or(Format::of_name(&plain_name(path))) {
        Some(Format::Npz) => validated(arrays::read(File::open(path).map_err(Error::read(path))?, file.clone())?, file),
        format => parse(Input::open(path), file, format),
    }
}

/// Reads a model from a stream. Messages refer to the stream as `name`.
///
/// # Errors
/// Those of [`read()`], and if the format is an archive.
pub fn read_from(reader: impl Read, name: &str, format: Option<Format>) -> Result<Hmm, Error> {
    parse(Input::new(reader), name.to_owned(), format)
}

/// Reads a model. JSON is parsed as a stream.
fn parse(input: io::Result<Input<'_>>, file: String, format: Option<Format>) -> Result<Hmm, Error> {
    let mut input = input.map_err(Error::read(&file))?;
    let format = match format {
        Some(format) => format,
        None => Format::of_content(input.start(SNIFFED).map_err(Error::read(&file))?),
    };
    let model = match format {
        Format::Json => match json::read(input, &file)? {
            (model, Some(durations)) => return model.with_durations(durations).map_err(invalid(file)),
            (model, None) => model,
        },
        Format::Umdhmm => umdhmm::read(&input.read_all().map_err(Error::read(&file))?, &file)?,
        Format::Npz => {
            return Err(Error::Content { file, message: "an archive cannot be streamed, expected a file".to_owned() });
        }
    };
    validated(model, file)
}

fn validated(model: HmmParts, file: String) -> Result<Hmm, Error> {
    model.validated().map_err(invalid(file))
}

/// Why no format holds some models.
const NO_CODE: &str = "no format has a place for emissions as Rust code";

/// Checks that a format can represent a model.
///
/// # Errors
/// If it cannot, with the missing feature.
pub fn holds(format: Format, model: &Hmm) -> Result<(), &'static str> {
    match (format, model.emissions(), model.end()) {
        (_, Emissions::Channels(channels), _) if channels.list.iter().any(Channel::is_code) => Err(NO_CODE),
        (Format::Umdhmm, Emissions::Gaussian { .. } | Emissions::Channels(_), _) | (Format::Umdhmm, _, Some(_)) => {
            Err(umdhmm::NO_PLACE)
        }
        (Format::Npz, Emissions::Channels(channels), _) if !arrays::holds(channels) => Err(arrays::NO_PLACE),
        _ => Ok(()),
    }
}

/// Writes a model to `path` atomically.
///
/// # Errors
/// Those of the file system, and if the format cannot represent the model.
pub fn write(path: &Path, format: Format, model: &Hmm) -> Result<(), Error> {
    let write = |out: &mut dyn Write| write_to(out, format, model);
    atomic_write(path, write).map_err(Error::write(path))
}

/// Writes a model to a stream.
///
/// # Errors
/// Those of `writer`, and if the format cannot represent the model.
pub fn write_to(writer: impl Write, format: Format, model: &Hmm) -> io::Result<()> {
    holds(format, model).map_err(|why| no_place(why.to_owned()))?;
    let mut out = BufWriter::with_capacity(BUFFER, writer);
    match format {
        Format::Json => json::write(&mut out, model)?,
        Format::Npz => arrays::write(&mut out, model)?,
        Format::Umdhmm => umdhmm::write(&mut out, model)?,
    }
    out.flush()
}
