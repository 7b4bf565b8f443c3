//! Tests of the library for hidden Markov models.

mod ambiguous;
mod channels;
mod classes;
mod divided;
mod durations;
mod formats;
mod gradient;
mod hmmlearn;
mod known;
mod lacking;
mod logarithms;
mod missing;
mod paths;
mod place;
mod potentials;
mod random;
mod reference;
mod slices;
mod stochastic;
mod ties;
mod training;
mod variational;

#[path = "../../../../tests/support/wide.rs"]
mod wide;
