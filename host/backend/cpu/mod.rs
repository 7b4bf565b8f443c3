//! The CPU: one core as the baseline, all of them, and the engine, which is all of them on a compact copy of the model.

mod engine;
pub mod hmm;
mod krylov;
mod layout;
mod mdp;
mod pomdp;
mod sequential;

pub use engine::{Engine, EngineOptions, Order};
pub use krylov::System;
pub use layout::Storage;
pub use mdp::{Parallel, Serial};
pub use pomdp::{Assembler, PointBased, Vectors};
pub use sequential::Sequential;

/// All cores, in words.
#[must_use]
pub fn name() -> String {
    cores(rayon::current_num_threads())
}

/// So many cores, in words.
#[must_use]
pub fn cores(count: usize) -> String {
    format!("{count} CPU {}", if count == 1 { "core" } else { "cores" })
}
