//! Errors of the library as exceptions of Python.

use std::io::ErrorKind;

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{
    PyFileNotFoundError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};
use warpkov_common::io;

use warpkov_cli::error::{Error, message};

create_exception!(warpkov, DeviceError, PyRuntimeError, "A device does not exist, has too little memory, or failed.");

/// The exception with the text of an error: as the exit codes of the command line distinguish them.
pub fn exception(error: impl Into<Error>) -> PyErr {
    let error = error.into();
    let text = message(&error);
    match (&error, error.exit_code()) {
        (_, 130) => PyKeyboardInterrupt::new_err(()),
        (Error::File(io::Error::Read { source, .. } | io::Error::Write { source, .. }), _) => match source.kind() {
            ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
            ErrorKind::OutOfMemory => PyMemoryError::new_err(text),
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => PyValueError::new_err(text),
            _ => PyOSError::new_err(text),
        },
        (Error::Generate(_) | Error::Paths(_), 3) => PyMemoryError::new_err(text),
        (Error::Constrained(_), _) => PyValueError::new_err(text),
        (_, 1 | 3) => DeviceError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// An invalid value.
pub fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
