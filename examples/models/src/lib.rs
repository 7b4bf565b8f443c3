//! Markov decision processes, and emissions of hidden Markov models, as Rust code.

pub mod models;
pub mod movement;

use warpkov_cuda::Modules;

/// The kernels of the models, compiled for GPUs.
pub static MODULES: Modules = warpkov_cuda::modules!();
