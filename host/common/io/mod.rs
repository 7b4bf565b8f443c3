//! Files: texts, compressed or not, arrays, JSON as a stream, outputs that are whole or not there; and what to say where one is wrong.

use std::io;
use std::path::Path;

use super::choice::Choice;

pub(crate) mod binary;
pub mod input;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod npy;
pub(crate) mod npz;
pub mod output;

/// Bytes read or written at a time.
pub(crate) const BUFFER: usize = 1 << 17;

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
    /// A line is not as its format has it.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file's name.
        file: String,
        /// Line, from 1.
        line: u64,
        /// What was found, and what was expected.
        message: String,
    },
    /// A file as a whole is not as its format has it, or does not fit the others of the model.
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
        /// The violation, of the type that the model's validation has.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// For `map_err`: the error of reading `file`, a path or the name of a stream.
    pub fn read(file: impl AsRef<Path>) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { file: file.as_ref().display().to_string(), source }
    }

    /// For `map_err`: the error of writing `file`.
    pub fn write(file: impl AsRef<Path>) -> impl Fn(io::Error) -> Self {
        move |source| Self::Write { file: file.as_ref().display().to_string(), source }
    }

    /// An error at a place, without an excerpt.
    pub(crate) fn at(file: String, line: usize, column: usize, message: String) -> Self {
        Self::Place { file, line: line as u64, column: column as u64, message, excerpt: String::new() }
    }
}

/// What makes an error of a violation that was found in `file`.
pub(crate) fn invalid<E: std::error::Error + Send + Sync + 'static>(
    file: impl Into<String>,
) -> impl FnOnce(E) -> Error {
    let file = file.into();
    move |source| Error::Invalid { file, source: Box::new(source) }
}

/// The first of the formats that have the extension of `path`, in upper or lower case.
#[must_use]
pub fn of_extension<F: Choice>(path: &Path, extensions: fn(F) -> &'static [&'static str]) -> Option<F> {
    let found = path.extension()?.to_str()?;
    let known = |format: &F| extensions(*format).iter().any(|known| found.eq_ignore_ascii_case(known));
    F::ALL.iter().copied().find(known)
}
