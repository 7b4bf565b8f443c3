//! Tests of the library for Markov decision processes.

mod criteria;
mod engine;
mod epsilon;
mod formats;
mod ranks;
mod reference;
mod threads;

#[path = "../../../../tests/support/exact.rs"]
mod exact;
#[path = "../../../../tests/support/random.rs"]
mod random;
#[path = "../../../../tests/support/rational.rs"]
mod rational;
