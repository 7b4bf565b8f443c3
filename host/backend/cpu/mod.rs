//! The CPU: one core as the baseline, or all of them.

mod mdp;
mod sequential;

pub use mdp::{Parallel, Serial};
pub use sequential::Sequential;
