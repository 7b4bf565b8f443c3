//! The commands of hidden Markov models.

mod channels;
mod commands;
mod common;
mod files;
mod filter;
mod paths;
mod stochastic;
mod train;
mod variational;
