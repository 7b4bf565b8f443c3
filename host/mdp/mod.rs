//! Markov decision processes.
pub mod certificate;
pub mod compare;
pub mod generate;
pub mod io;
pub mod model;
pub mod options;
pub mod plot;
pub mod report;
pub mod solve;
#[doc(hidden)]
pub mod standin;
pub mod validate;

pub use standin::{SolveError, solve_with};
