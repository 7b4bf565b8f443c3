//! Markov models solved on NVIDIA GPUs, with every kernel written in Rust.
pub mod backend;
pub mod mdp;
pub mod output;

/// The README's Rust compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
