//! Models in files: JSON for people and scripts, safetensors for large ones.

mod json;
mod safetensors;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use super::model::Mdp;
use super::validate::Invalid;
use crate::output::atomic_write;

/// Why a model is not read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened or read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file's name.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {file}: {source}")]
    Write {
        /// The file's name.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// No JSON, or not the JSON of a model.
    #[error("{file}:{line}:{column}: {message}")]
    Json {
        /// The file's name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 1; 0 at the start of a line.
        column: usize,
        /// What was found, what was expected, and the key it belongs to.
        message: String,
    },
    /// No safetensors, or not those of a model.
    #[error("{file}: {message}")]
    Safetensors {
        /// The file's name.
        file: String,
        /// What was found, and what was expected.
        message: String,
    },
    /// What the file holds is not valid.
    #[error("{file}: {source}")]
    Invalid {
        /// The file's name.
        file: String,
        /// Why.
        source: Invalid,
    },
}

/// Reads the model in `path`: `.json`, `.safetensors`, or under another name whichever its content is.
///
/// Safetensors are mapped to memory, not read: the file must not be changed in place while the model lives. (A file that
/// is replaced, as [`write()`] does, is safe.)
///
/// # Errors
/// If the file cannot be read, is neither, or its model is not valid.
pub fn read(path: &Path) -> Result<Mdp, Error> {
    let name = path.display().to_string();
    let opened = File::open(path).and_then(|mut file| {
        let mapped = extension(path, "safetensors") || (!extension(path, "json") && safetensors::sniff(&mut file)?);
        Ok((file, mapped))
    });
    match opened {
        Ok((file, true)) => safetensors::read(&file, name),
        Ok((file, false)) => json::read(file, name),
        Err(source) => Err(Error::Read { file: name, source }),
    }
}

/// Reads a model in JSON; `name` is what messages call the source. It is read in small pieces and never held as text.
///
/// # Errors
/// If `reader` fails, gives no JSON of a model, or the model is not valid.
pub fn read_json(reader: impl Read, name: &str) -> Result<Mdp, Error> {
    json::read(reader, name.to_owned())
}

/// Writes a model to `path`, whole or not at all: as safetensors if the name ends so, else as JSON.
///
/// # Errors
/// Those of the file system.
pub fn write(path: &Path, mdp: &Mdp) -> Result<(), Error> {
    let written = if extension(path, "safetensors") {
        atomic_write(path, |out| safetensors::write(out, mdp))
    } else {
        atomic_write(path, |mut out| json::write(&mut out, mdp))
    };
    written.map_err(|source| Error::Write { file: path.display().to_string(), source })
}

/// Writes a model as JSON. Numbers are as short as they can be and still be read back as the same bits.
///
/// # Errors
/// Those of `writer`.
pub fn write_json(writer: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    json::write(writer, mdp)
}

fn extension(path: &Path, expected: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(expected))
}
