//! The recursions of hidden Markov models on a device.

mod batch;
mod gaussian;
mod model;
mod packing;

pub use batch::{Batch, Limits};
