//! Models in files: Cassandra's `.pomdp`, the factored POMDPX, and JSON for scripts.

mod json;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use clap::ValueEnum;

use super::model::{Invalid, Pomdp};
use crate::mdp;
use crate::mdp::io::BUFFER;
use crate::output::atomic_write;

/// Why a file is not read or written.
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
    /// A place in the file is not as its format has it.
    #[error("{file}:{line}:{column}: {message}{excerpt}")]
    Place {
        /// The file's name.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Column in bytes, from 1; 0 at the start of a line.
        column: u64,
        /// What was found, and what was expected.
        message: String,
        /// The line with a caret under the place, where its text is at hand: two lines, each after a line feed.
        excerpt: String,
    },
    /// A file as a whole is not as its format has it.
    #[error("{file}: {message}")]
    Content {
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

impl From<mdp::io::Error> for Error {
    fn from(error: mdp::io::Error) -> Self {
        match error {
            mdp::io::Error::Read { file, source } => Self::Read { file, source },
            mdp::io::Error::Write { file, source } => Self::Write { file, source },
            mdp::io::Error::Json { file, line, column, message } => {
                let (line, column) = (line as u64, column as u64);
                Self::Place { file, line, column, message, excerpt: String::new() }
            }
            mdp::io::Error::Line { file, line, message } => {
                Self::Place { file, line, column: 0, message, excerpt: String::new() }
            }
            mdp::io::Error::Safetensors { file, message } | mdp::io::Error::Content { file, message } => {
                Self::Content { file, message }
            }
            mdp::io::Error::Invalid { file, source } => Self::Invalid { file, source: source.into() },
        }
    }
}

/// A format of models in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON, for scripts.
    Json,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

impl Format {
    /// Extensions of the names of such files; the first is the usual one.
    #[must_use]
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["json"],
        }
    }

    /// The format that the extension of `path` tells.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        let found = path.extension()?.to_str()?;
        let known = |format: &Self| format.extensions().iter().any(|known| found.eq_ignore_ascii_case(known));
        Self::value_variants().iter().copied().find(known)
    }
}

/// Reads the model in `path`, in `format`, or else in the one that the extension of the name tells.
///
/// # Errors
/// If the file cannot be read, or holds no valid model.
pub fn read(path: &Path, format: Option<Format>) -> Result<Pomdp, Error> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(opened) => read_from(opened, &file, format.or(Format::of_name(path))),
        Err(source) => Err(Error::Read { file, source }),
    }
}

/// Reads a model from a stream; `name` is what messages call it.
///
/// # Errors
/// Those of [`read()`].
pub fn read_from(reader: impl Read, name: &str, format: Option<Format>) -> Result<Pomdp, Error> {
    let file = name.to_owned();
    let model = match format.unwrap_or(Format::Json) {
        Format::Json => json::read(reader, file.clone())?,
    };
    model.validated().map_err(|source| Error::Invalid { file, source })
}

/// Writes a model to `path`, whole or not at all.
///
/// # Errors
/// Those of the file system.
pub fn write(path: &Path, format: Format, model: &Pomdp) -> Result<(), Error> {
    atomic_write(path, |out| write_to(out, format, model))
        .map_err(|source| Error::Write { file: path.display().to_string(), source })
}

/// Writes a model to a stream.
///
/// # Errors
/// Those of `writer`.
pub fn write_to(writer: impl Write, format: Format, model: &Pomdp) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, writer);
    match format {
        Format::Json => json::write(&mut out, model)?,
    }
    out.flush()
}
