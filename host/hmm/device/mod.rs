//! The recursions of hidden Markov models on a device.

mod batch;
mod chunks;
mod gaussian;
mod launch;
mod model;
mod packing;
mod wide;

pub use batch::{Batch, Limits};
pub use chunks::{STEPS, Scan};
