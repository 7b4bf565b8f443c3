//! Markov decision processes as Rust code.

pub mod models;

use warpkov_cuda::Modules;

/// The kernels of the models, compiled for GPUs.
pub static MODULES: Modules = warpkov_cuda::modules!();
