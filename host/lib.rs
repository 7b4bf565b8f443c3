//! Markov models solved on NVIDIA GPUs, with every kernel written in Rust.
//!
//! A finite Markov decision process has states s, actions a, probabilities P(s'|s, a), rewards R(s, a, s') and a discount
//! factor γ ∈ [0, 1). Solving it is to find the optimal value function
//!
//! > V\*(s) = maxₐ Σ P(s'|s, a) · (R(s, a, s') + γ V\*(s'))
//!
//! and a policy π that attains it. Every solution carries a bound on ‖V − V\*‖∞ that has been computed, not assumed.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use warpkov::mdp::generate::SlipGrid;
//! use warpkov::mdp::options::{DeviceChoice, SolveOptions};
//! use warpkov::mdp::solve::{Limits, Target};
//! use warpkov::mdp::solve_with;
//!
//! let model = SlipGrid { width: 16, height: 16, ..SlipGrid::default() }.generate()?;
//! let options = SolveOptions {
//!     device: DeviceChoice::Auto, // a GPU where there is one
//!     limits: Limits { target: Target::Epsilon(1e-7), ..Limits::default() },
//!     ..SolveOptions::default()
//! };
//! let solution = solve_with(&model, &options, &mut |_round| ControlFlow::Continue(()))?;
//! assert!(solution.certificate.bound.is_some_and(|bound| bound <= 1e-7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where the state is not seen, V\* is a function of the belief b, and is bounded from both sides at the start:
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use warpkov::pomdp::generate::Tiger;
//! use crate::pomdp::options::{SolveOptions, Status};
//! use warpkov::pomdp::solve::solve_with;
//!
//! let model = Tiger::default().generate()?;
//! let solution = solve_with(&model, &SolveOptions::default(), &mut |_round| ControlFlow::Continue(()))?;
//! assert_eq!(solution.status, Status::Gap);
//! assert!((solution.end().lower - 19.3713).abs() < 1e-3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
