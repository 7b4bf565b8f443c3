//! Markov decision processes.
pub mod bench;
pub mod compare;
mod dispatch;
pub mod model;
pub mod options;
pub mod plot;
pub mod report;
pub mod solve;
#[doc(hidden)]
pub mod standin;

pub use dispatch::{Observer, SolveError, solve_with};
pub use standin::{certificate, generate, io};
