//! The recursions of hidden Markov models on a device.

mod batch;
mod gaussian;
mod launch;
mod model;
mod packing;
mod pieces;
mod wide;

pub use batch::{Batch, Limits};
pub use pieces::{STEPS, Scan};
