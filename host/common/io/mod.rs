//! Files: compressed and plain text, arrays, streamed JSON, atomic outputs, and the error of all file formats.

use std::io;
use std::path::Path;

use super::choice::FileFormat;

pub mod binary;
pub mod input;
pub mod json;
pub mod lines;
pub mod npy;
pub mod npz;
pub mod output;
pub mod safetensors;

/// Size of read and write buffers, in bytes.
pub const BUFFER: usize = 1 << 17;

/// A failure to read or write a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened or read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file's name.
        file: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {file}: {source}")]
    Write {
        /// The file's name.
        file: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A syntax error at a line and column.
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
        /// The line and a caret under the column: two lines, each after a line feed. Empty if the text is not
        /// available.
        excerpt: String,
    },
    /// A syntax error in a line.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file's name.
        file: String,
        /// Line, from 1.
        line: u64,
        /// What was found, and what was expected.
        message: String,
    },
    /// A file violates its format as a whole, or contradicts the other files of the model.
    #[error("{file}: {message}")]
    Content {
        /// The file's name.
        file: String,
        /// What was found, and what was expected.
        message: String,
    },
    /// The file is well-formed, and its model is not valid.
    #[error("{file}: {source}")]
    Invalid {
        /// The file's name.
        file: String,
        /// The error of the model's validation.
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

    /// An error at a line and column, without an excerpt.
    pub fn at(file: String, line: usize, column: usize, message: String) -> Self {
        Self::Place { file, line: line as u64, column: column as u64, message, excerpt: String::new() }
    }
}

/// Returns a function that wraps a validation error of the model in `file`.
pub fn invalid<E: std::error::Error + Send + Sync + 'static>(file: impl Into<String>) -> impl FnOnce(E) -> Error {
    let file = file.into();
    move |source| Error::Invalid { file, source: Box::new(source) }
}

/// The first format with the extension of `path`; case does not matter.
#[must_use]
pub fn of_extension<F: FileFormat>(path: &Path) -> Option<F> {
    let found = path.extension()?.to_str()?;
    let known = |format: &F| format.extensions().iter().any(|known| found.eq_ignore_ascii_case(known));
    F::ALL.iter().copied().find(known)
}
