//! Where models are solved.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`cpu`] | one core, or all of them |
//! | [`device`] | the host side of the kernels, generic over the [`Device`](warpkov_kernels::launch::Device) they run on |
//! | [`cuda`] | the device that is a GPU; nothing outside of it knows cust |

pub mod cpu;
pub mod cuda;
pub mod device;
mod palette;
mod precision;

pub use precision::Precise;
use warpkov_kernels::emulator::Emulator;

use crate::interrupt;

/// The emulator as solvers use it: a launch that goes on for long after a [request to stop](interrupt) is given up.
#[must_use]
pub fn emulator() -> Emulator {
    Emulator::default().until(interrupt::overdue())
}
