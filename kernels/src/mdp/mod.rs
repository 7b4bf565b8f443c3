//! Kernels for Markov decision processes: one file per operation, ordered from the plain version to the fastest.
//!
//! A model has S states, each with its own [actions](choices). The transition matrix P is stored in compressed rows,
//! one row per state-action pair; r(s, a) is the expected reward of a row. V is stored in the precision T of the run;
//! sums are computed in f64.

pub mod backup;
pub mod block_divided;
pub mod change;
pub mod choices;
pub mod evaluate;
pub mod explicit;
pub mod generate;
pub mod ghosts;
pub mod improve;
pub mod matrix_free;
pub mod model;
pub mod project;
pub mod residual;
pub mod result_divided;
pub mod row;

pub use matrix_free::{END, Events, Model, Outcomes, Table};
