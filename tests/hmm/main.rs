//! The commands of hidden Markov models.

mod commands;
mod common;
mod filter;
mod train;
