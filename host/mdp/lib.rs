#![doc = include_str!("README.md")]
//!
//! [`Solve`] selects a backend, runs the [solver loop](solve) on it, and certifies the result. The loop is written
//! once over the [backend traits](backend).

pub mod analysis;
pub mod ask;
pub mod auto;
pub mod backend;
pub mod backends;
pub mod baselines;
pub mod certificate;
pub mod checkpoint;
pub mod criterion;
pub mod error;
pub mod generate;
pub mod info;
pub mod io;
pub mod matrix_free;
pub mod model;
pub mod options;
pub mod plot;
pub mod report;
pub mod solution;
pub mod solve;
pub mod team;

pub use error::SolveError;
pub use matrix_free::many::{solve_many, solve_many_sparse};
pub use matrix_free::{ModelOptions, solve_model};
pub use solve::{Initial, Observer, Session, Solve};
