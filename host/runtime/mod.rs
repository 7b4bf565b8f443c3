//! Where a run happens.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`choose`] | the places that can be asked for |
//! | [`error`] | what can go wrong there |
//! | [`precision`] | floating-point types |
//! | [`cores`] | the CPU, in words |
//! | [`gpu`] | GPUs, and the kernels that they run |
//! | [`prefix_sum`], [`scratch`] | what the host side of kernels shares |

pub mod choose;
pub mod cores;
pub mod error;
pub mod gpu;
pub mod precision;
pub mod prefix_sum;
pub mod scratch;

pub use error::Error;
pub use precision::Precise;
use warpkov_device::emulator::Emulator;

use crate::common::interrupt;

/// The emulator as solvers use it: a launch that goes on for long after a [request to stop](interrupt) is given up.
#[must_use]
pub fn emulator() -> Emulator {
    Emulator::default().until(interrupt::overdue())
}
