//! The extension module of the Python package `warpkov`: models in the memory of NumPy's arrays, solves without Python's
//! interpreter lock, and the command line. The modules of the package in `warpkov/` bring what users pass into the form
//! that these functions take, and document them.

#![allow(missing_docs, reason = "the stubs and the Python modules document what Python sees")]

use std::ffi::OsString;

use pyo3::prelude::*;

mod array;
mod dlpack;
mod error;
mod hmm;
mod mdp;
mod options;
mod pomdp;
mod wait;

/// Runs the command line. Returns the exit code.
#[pyfunction]
#[pyo3(name = "main")]
fn run(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| warpkov_cli::main(arguments))
}

#[pymodule]
fn _warpkov(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DeviceError", module.py().get_type::<error::DeviceError>())?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    dlpack::register(module)?;
    mdp::register(module)?;
    hmm::register(module)?;
    pomdp::register(module)
}
