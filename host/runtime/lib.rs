#![doc = include_str!("README.md")]
//!
//! | module | contents |
//! | --- | --- |
//! | [`choose`] | the `--device` choice, and the rule of `auto` |
//! | [`device`] | one type for GPU and emulator |
//! | [`error`] | errors of devices |
//! | [`precision`] | floating-point types |
//! | [`comm`] | ranks that work on one model together |
//! | [`cores`] | the description of the CPU |
//! | [`link`] | GPUs of several ranks that exchange data |
//! | [`gpu`] | GPUs and the table of compiled kernels |
//! | [`sparse`] | products of sparse matrices with vectors by cuSPARSE |
//! | [`prefix_sum`], [`mod@scratch`] | a device prefix sum and growable device memory, for the backends of all model classes |

pub mod choose;
pub mod comm;
pub mod cores;
pub mod device;
pub mod error;
pub mod gpu;
pub mod link;
pub mod precision;
pub mod prefix_sum;
pub mod scratch;
pub mod sparse;

pub use error::Error;
pub use precision::Precise;
use std::sync::OnceLock;

use warpkov_device::emulator::Emulator;
use warpkov_device::emulator::profile::Profiler;

use warpkov_common::interrupt;

static PROFILER: OnceLock<Profiler> = OnceLock::new();

/// Counts the launches of every [`emulator`] from now on.
pub fn profiler() -> &'static Profiler {
    PROFILER.get_or_init(Profiler::default)
}

/// The emulator for solvers. It cancels a launch that is still running 200 ms after a [stop request](interrupt).
#[must_use]
pub fn emulator() -> Emulator {
    let emulator = Emulator::default().until(interrupt::overdue());
    match PROFILER.get() {
        Some(profiler) => emulator.profiled_by(profiler),
        None => emulator,
    }
}
