//! Markov decision processes: models and their formats, policy and value iteration, certificates and reports.
//!
//! The [loop](solve) is written once, over what it asks of a [backend](solve::State); [`solve_with`] chooses the backend
//! and certifies what comes out.

pub mod auto;
pub mod bench;
pub mod certificate;
pub mod compare;
pub mod criterion;
mod dispatch;
pub mod generate;
pub mod graph;
pub mod io;
pub mod krylov;
pub mod model;
pub mod options;
pub mod patterns;
pub mod plot;
pub mod quotient;
pub mod refine;
pub mod reorder;
pub mod report;
pub mod solve;
pub mod tiles;
pub mod validate;

pub use dispatch::{Observer, SolveError, solve_from, solve_with};
