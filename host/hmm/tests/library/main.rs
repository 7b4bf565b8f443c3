//! Tests of the library for hidden Markov models.

mod ambiguous;
mod channels;
mod classes;
mod durations;
mod formats;
mod hmmlearn;
mod known;
mod lacking;
mod logarithms;
mod missing;
mod paths;
mod random;
mod reference;
mod slices;
mod training;
mod variational;

#[path = "../../../../tests/support/wide.rs"]
mod wide;
