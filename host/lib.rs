//! Solvers for Markov models on NVIDIA GPUs and CPUs. All kernels are written in Rust.
//!
//! warpkov solves three classes of models.
//!
//! # Markov decision processes
//!
//! A finite *Markov decision process* has states s, actions a, probabilities P(s'|s, a), rewards R(s, a, s') and a
//! discount factor γ ∈ [0, 1). Its solution is the optimal value function
//!
//! > V\*(s) = maxₐ Σ P(s'|s, a) · (R(s, a, s') + γ V\*(s'))
//!
//! and a policy π that attains V\*. Every solution carries a computed bound on ‖V − V\*‖∞.
//!
//! ```
#![doc = include_str!("../examples/01_mdp.rs")]
//! ```
//!
//! # Partially observable Markov decision processes
//!
//! In a *partially observable* model the agent sees observations instead of states. V\* is a function of the belief b.
//! The solver computes a lower and an upper bound on V\* at the start belief.
//!
//! ```
#![doc = include_str!("../examples/02_pomdp.rs")]
//! ```
//!
//! # Hidden Markov models
//!
//! A *hidden Markov model* has no actions. For sequences of observations the library computes likelihoods, the most
//! probable path of states, and model parameters of higher likelihood.
//!
//! ```
#![doc = include_str!("../examples/03_hmm.rs")]
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! | --- | --- |
//! | [`mdp`] | Markov decision processes: models, formats, policy and value iteration, certificates |
//! | [`pomdp`] | partially observable models: formats, point-based solvers, simulation |
//! | [`hmm`] | hidden Markov models: scoring, decoding, training |
//! | [`verify`] | proofs about solutions, by code apart from the solvers |
//! | [`runtime`] | devices: CPU, GPU, emulator |
//! | [`common`] | code that all model classes share: files, plots, the stop request |
//!
//! Each module is a crate of its own, and those of the classes are features of this crate: `default-features = false` and
//! `features = ["mdp"]` compile one class, without the program. The crate `warpkov_kernels` contains the kernels.

pub use warpkov_common as common;
#[cfg(feature = "hmm")]
pub use warpkov_hmm as hmm;
#[cfg(feature = "mdp")]
pub use warpkov_mdp as mdp;
#[cfg(feature = "pomdp")]
pub use warpkov_pomdp as pomdp;
pub use warpkov_runtime as runtime;
#[cfg(feature = "verify")]
pub use warpkov_verify as verify;

/// Compiles the Rust examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
