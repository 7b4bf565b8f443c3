//! Why a model is not solved.

use super::model::validate::Invalid;
use super::options::{BadBlocks, Method, Storage};
use crate::runtime;
use crate::runtime::choose::DeviceChoice;
use crate::runtime::error::from_devices;

/// Why a model is not solved.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The method does not run on the device.
    #[error("method {method} does not run on device {device}: {instead}")]
    Unsupported {
        /// The method asked for.
        method: Method,
        /// The device asked for.
        device: DeviceChoice,
        /// What would.
        instead: &'static str,
    },
    /// A start of another number of states.
    #[error("{found} initial values, expected one per state, {expected}")]
    Initial {
        /// Values given.
        found: usize,
        /// States of the model.
        expected: u32,
    },
    /// γ = 1, and no criterion that makes sense of it.
    #[error(
        "gamma is 1: discounted methods need less (option gamma); undiscounted ones have a criterion (option criterion)"
    )]
    Undiscounted,
    /// The model has no such layout.
    #[error("the model cannot be stored as {0}: its rows or its numbers differ too much")]
    Storage(Storage),
    /// Refinement needs a reward per row.
    #[error("precision refined needs a reward for every row: it works with storage slices or rows, not {0}")]
    Shared(Storage),
    /// The model is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// States cannot be divided into such blocks.
    #[error(transparent)]
    Blocks(#[from] BadBlocks),
    /// Where it ran failed, or was stopped.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

from_devices!(SolveError);
