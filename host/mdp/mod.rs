//! Markov decision processes.
pub mod bench;
pub mod certificate;
pub mod compare;
mod dispatch;
pub mod generate;
pub mod model;
pub mod options;
pub mod plot;
pub mod report;
pub mod solve;
#[doc(hidden)]
pub mod standin;
pub mod validate;

pub use dispatch::{Observer, SolveError, solve_with};
pub use standin::io;
