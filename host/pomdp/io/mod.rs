//! Models in files: Cassandra's `.pomdp`, the factored POMDPX, and JSON for scripts.

pub mod beliefs;
mod cassandra;
mod json;
mod place;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Deref;
use std::path::Path;

use clap::ValueEnum;
use memmap2::Mmap;

use super::model::{Invalid, Pomdp};
use crate::mdp;
use crate::mdp::io::BUFFER;
use crate::output::atomic_write;

pub use self::cassandra::nameable;

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
    /// Cassandra's .pomdp.
    Pomdp,
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
            Self::Pomdp => &["pomdp", "mdp"],
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

    /// The format of what `text` holds. What looks like nothing else is taken for Cassandra's.
    fn of_content(text: &[u8]) -> Self {
        match text.trim_ascii_start() {
            [b'{', ..] => Self::Json,
            _ => Self::Pomdp,
        }
    }
}

/// Reads the model in `path`, in `format`, or else in the one that the extension of the name tells, or else the content.
///
/// A file is mapped to memory while it is read, and must not be changed in place meanwhile.
///
/// # Errors
/// If the file cannot be read, or holds no valid model.
pub fn read(path: &Path, format: Option<Format>) -> Result<Pomdp, Error> {
    let file = path.display().to_string();
    let text = File::open(path).and_then(Text::of);
    let text = text.map_err(|source| Error::Read { file: file.clone(), source })?;
    valid(&text, file, format.or(Format::of_name(path)))
}

/// Reads a model from a stream; `name` is what messages call it.
///
/// # Errors
/// Those of [`read()`].
pub fn read_from(mut reader: impl Read, name: &str, format: Option<Format>) -> Result<Pomdp, Error> {
    let (file, mut text) = (name.to_owned(), Vec::new());
    match reader.read_to_end(&mut text) {
        Ok(_) => valid(&text, file, format),
        Err(source) => Err(Error::Read { file, source }),
    }
}

/// Reads the arrays of a model from `path`. In JSON, rows of O need not sum to 1: such a model cannot be solved, but what the
/// [reference](super::reference) computes is defined for it.
///
/// # Errors
/// Those of [`read()`].
pub fn read_arrays(path: &Path, format: Option<Format>) -> Result<Pomdp, Error> {
    let file = path.display().to_string();
    let text = File::open(path).and_then(Text::of);
    let text = text.map_err(|source| Error::Read { file: file.clone(), source })?;
    let model = parse(&text, file.clone(), format.or(Format::of_name(path)))?;
    model.with_any_observations().map_err(|source| Error::Invalid { file, source })
}

/// Reads the valid model that `text` holds.
fn valid(text: &[u8], file: String, format: Option<Format>) -> Result<Pomdp, Error> {
    parse(text, file.clone(), format)?.validated().map_err(|source| Error::Invalid { file, source })
}

/// Reads the model that `text` holds, not yet validated.
fn parse(text: &[u8], file: String, format: Option<Format>) -> Result<Pomdp, Error> {
    match format.unwrap_or_else(|| Format::of_content(text)) {
        Format::Pomdp => cassandra::read(text, file),
        Format::Json => json::read(text, file),
    }
}

/// What a file holds.
enum Text {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Text {
    /// Maps a file, or reads what is no regular file.
    fn of(mut file: File) -> io::Result<Self> {
        if file.metadata()?.is_file() {
            // SAFETY: the map is only read, and dropped before `read` returns. That nobody changes the file in place
            // meanwhile cannot be enforced on any file system; `read` demands it, and what writes here replaces files.
            if let Ok(map) = unsafe { Mmap::map(&file) } {
                return Ok(Self::Mapped(map));
            }
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(Self::Owned(text))
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(text) => text,
        }
    }
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
        Format::Pomdp => cassandra::write(&mut out, model)?,
        Format::Json => json::write(&mut out, model)?,
    }
    out.flush()
}
