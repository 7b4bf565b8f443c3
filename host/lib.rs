//! Markov models solved on NVIDIA GPUs, with every kernel written in Rust.
//!
//! It solves three classes of models. A finite *Markov decision process* has states s, actions a, probabilities P(s'|s, a), rewards
//! R(s, a, s') and a discount factor γ ∈ [0, 1). Solving it is to find the optimal value function
//!
//! > V\*(s) = maxₐ Σ P(s'|s, a) · (R(s, a, s') + γ V\*(s'))
//!
//! and a policy π that attains it. Every solution carries a bound on ‖V − V\*‖∞ that has been computed, not assumed.
//!
//! ```
#![doc = include_str!("../examples/01_mdp.rs")]
//! ```
//!
//! In a *partially observable* one the state is not seen: V\* is a function of the belief b, and is bounded from both sides at the
//! start.
//!
//! ```
#![doc = include_str!("../examples/02_pomdp.rs")]
//! ```
//!
//! A *hidden Markov model* has no actions: what was observed has a probability, a most probable path of states, and a model that makes it
//! likelier.
//!
//! ```
#![doc = include_str!("../examples/03_hmm.rs")]
//! ```
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`mdp`] | Markov decision processes: models and formats, policy and value iteration, certificates |
//! | [`pomdp`] | partially observable models, their formats, point-based solvers, simulation |
//! | [`hmm`] | hidden Markov models: scoring, decoding, training |
//! | [`runtime`] | where a run happens: CPU, GPU, emulator |
//! | [`common`] | what all model classes share: files, pictures, the request to stop |
//!
//! The kernels are in the crate [`warpkov_kernels`].

pub mod common;
pub mod hmm;
pub mod mdp;
pub mod pomdp;
pub mod runtime;

/// The README's Rust compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
