//! Errors of a solve.

use super::analysis::divide::DivideError;
use super::model::validate::Invalid;
use super::options::{InvalidBlocks, Method, Storage};
use warpkov_runtime as runtime;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::error::from_devices;

/// Why a solve failed.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The method does not support the device.
    #[error("method {method} does not run on device {device}: {instead}")]
    Unsupported {
        /// The method requested.
        method: Method,
        /// The device requested.
        device: DeviceChoice,
        /// The required device.
        instead: &'static str,
    },
    /// The method works on one rank.
    #[error("method {0} works on one rank: expected values, gauss-seidel, modified, parallel, projected or krylov")]
    OneRank(Method),
    /// Wrong number of initial values.
    #[error("{found} initial values, expected one per state, {expected}")]
    Initial {
        /// Number of values given.
        found: usize,
        /// Number of states of the model.
        expected: u64,
    },
    /// A rank cannot read its part of the model, or the part has too many states: the same message on all ranks.
    #[error("{0}")]
    Part(String),
    /// A model as code that is not a model, or that the options do not fit.
    #[error("the model as code: {0}")]
    Model(String),
    /// γ = 1 under the discounted criterion.
    #[error("gamma is 1, but discounted values need gamma < 1: set option gamma, or an undiscounted option criterion")]
    Undiscounted,
    /// The layout does not fit the model.
    #[error("the model cannot be stored as {0}: its rows or its numbers differ too much")]
    Storage(Storage),
    /// Refinement needs a layout with a separate reward per row.
    #[error("precision refined needs one stored reward per row: it works with storage slices or rows, not {0}")]
    Shared(Storage),
    /// cuSPARSE cannot take the part of our own products.
    #[error("method projected:spmv=cusparse needs {0}")]
    Spmv(&'static str),
    /// The model is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Invalid parameters of Block Divided Iteration.
    #[error(transparent)]
    Blocks(#[from] InvalidBlocks),
    /// The device failed or the run was stopped.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

from_devices!(SolveError);

impl From<DivideError> for SolveError {
    fn from(error: DivideError) -> Self {
        match error {
            DivideError::Part(message) => Self::Part(message),
            DivideError::Comm(error) => error.into(),
        }
    }
}
