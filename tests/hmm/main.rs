//! The commands of hidden Markov models.

mod commands;
