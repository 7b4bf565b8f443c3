//! The recursions of hidden Markov models on every device, against the CPU and against the definitions.

mod chunks;
mod common;
mod models;
mod range;
mod recursions;
mod slices;
mod training;

pub use recursions::tensor_core;
pub use slices::slices;

use crate::Suite;

pub fn add(suite: &mut Suite) {
    recursions::add(suite);
    range::add(suite);
    training::add(suite);
    chunks::add(suite);
    slices::add(suite);
}
