#![doc = include_str!("README.md")]
//!
//! The crate reads models by the types and readers of the other crates, and uses nothing else of them: neither their solvers
//! nor their certificates, kernels or graph algorithms. `tests/program/architecture.rs` checks so.

mod bounds;
mod density;
mod dyadic;
mod elementary;
mod graph;
pub mod hmm;
pub mod interval;
pub mod mdp;
pub mod pomdp;
pub mod rational;
mod reduce;
