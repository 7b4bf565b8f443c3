//! The commands of Markov decision processes.

mod commands;
mod common;
mod criteria;
mod files;
mod formats_piped;
mod formats_text;
mod guards;
mod models;
mod policies;
mod policy_commands;
mod program;

#[path = "../support/exact.rs"]
mod exact;
#[allow(dead_code, reason = "policies are not enumerated here")]
#[path = "../support/rational.rs"]
mod rational;
