//! Formats of hidden Markov models and of sequences: round trips, and error messages for invalid files.

mod common;
mod models;
mod sequences;
