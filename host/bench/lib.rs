#![doc = include_str!("README.md")]

pub mod hmm;
pub mod mdp;
pub mod pomdp;
pub mod ranks;
mod used;

pub use used::{Kernel, Used, joules_per_1e9, used};
