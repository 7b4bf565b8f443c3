//! Markov decision processes.
pub mod model;
pub mod solve;
