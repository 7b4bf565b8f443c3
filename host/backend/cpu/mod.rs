//! The CPU: one core as the baseline, or all of them.

mod mdp;

pub use mdp::{Parallel, Serial};
