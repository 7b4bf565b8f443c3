//! The commands of Markov decision processes.

mod commands;
mod criteria;
mod formats_text;
mod guards;

#[path = "../support/exact.rs"]
mod exact;
#[allow(dead_code, reason = "policies are not enumerated here")]
#[path = "../support/rational.rs"]
mod rational;
