//! Markov decision processes: models and their formats, policy and value iteration, certificates and reports.
//!
//! The [loop](solve) is written once, over what it asks of a [backend]; [`solve_with`] chooses the backend
//! and certifies what comes out.

pub mod analysis;
pub mod auto;
pub mod backend;
pub mod bench;
pub mod certificate;
pub mod compare;
pub mod cpu;
pub mod criterion;
pub mod device;
mod dispatch;
pub mod generate;
pub mod io;
pub mod krylov;
pub mod model;
pub mod options;
pub mod plot;
pub mod refine;
pub mod report;
pub mod solution;
pub mod solve;

pub use dispatch::{Observer, SolveError, solve_from, solve_with};
