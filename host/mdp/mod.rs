//! Markov decision processes.
pub mod bench;
pub mod certificate;
pub mod compare;
mod dispatch;
pub mod generate;
pub mod io;
pub mod model;
pub mod options;
pub mod plot;
pub mod report;
pub mod solve;
pub mod validate;

pub use dispatch::{Observer, SolveError, solve_with};
