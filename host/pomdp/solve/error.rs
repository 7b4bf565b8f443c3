//! Why a model was not solved.

use warpkov_mdp::SolveError;
use warpkov_runtime as runtime;
use warpkov_runtime::error::from_devices;

/// Why a model was not solved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// γ = 1 without a horizon.
    #[error("γ is 1, and the sum of rewards may diverge: expected a number of steps (option horizon)")]
    Endless,
    /// An option that a horizon excludes.
    #[error("a finite horizon runs on the CPU with heuristic search: expected no {0}")]
    Horizon(&'static str),
    /// Something that an exact solution excludes.
    #[error("an exact solution is found by one process on the CPU: expected no {0}")]
    Exact(&'static str),
    /// Another rank has another model.
    #[error("the ranks have read different models, expected one on all of them")]
    Models,
    /// The device of another rank cannot be opened. That rank has the reason.
    #[error("rank {0} cannot open its device")]
    Elsewhere(u32),
    /// The underlying MDP cannot be solved.
    #[error(transparent)]
    Process(#[from] SolveError),
    /// The backend failed or was stopped.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

impl Error {
    /// Whether the run was stopped during a launch. Results from before the launch remain valid.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Runtime(runtime::Error::Interrupted))
    }
}

from_devices!(Error);
