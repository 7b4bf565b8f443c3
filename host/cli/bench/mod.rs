//! `warpkov bench`.

use std::io::Write;

use clap::Subcommand;
use serde::Serialize;

use super::common::ranks;
use super::error::{Error, Outcome};

mod hmm;
mod mdp;
mod pomdp;

/// The model class to measure.
#[derive(Subcommand)]
pub enum BenchCommand {
    Mdp(Box<mdp::Arguments>),
    Pomdp(pomdp::Arguments),
    Hmm(hmm::Arguments),
}

impl BenchCommand {
    /// The options of ranks, if several can run this command together.
    pub fn ranks(&self) -> Option<&ranks::Arguments> {
        match self {
            Self::Pomdp(arguments) => Some(&arguments.ranks),
            Self::Mdp(arguments) => arguments.ranks(),
            Self::Hmm(_) => None,
        }
    }
}

pub const EXAMPLES: &str = "\
Examples:
  warpkov bench mdp
  warpkov bench mdp --case G1 --case G2 --method parallel --runs 1
  warpkov bench pomdp --case tag
  warpkov bench hmm --case 64x64x16";

/// Runs a benchmark.
pub fn run(command: BenchCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        BenchCommand::Mdp(arguments) => mdp::run(*arguments, out),
        BenchCommand::Pomdp(arguments) => pomdp::run(arguments, out),
        BenchCommand::Hmm(arguments) => hmm::run(arguments, out),
    }
}

/// `chosen`, or `default` if nothing is chosen.
fn or_default<T: Copy>(chosen: &[T], default: &[T]) -> Vec<T> {
    if chosen.is_empty() { default.to_vec() } else { chosen.to_vec() }
}

/// A ratio with two digits or more, such as 152×, 5.2× or 0.043×.
fn factor(ratio: f64) -> String {
    let digits = if ratio.is_normal() { (1.0 - ratio.abs().log10().floor()).clamp(0.0, 9.0) } else { 0.0 };
    format!("{ratio:.0$}×", digits as usize)
}

/// Prints the measurements as JSON.
fn print_json(measured: &impl Serialize, mut out: impl Write) -> Result<(), Error> {
    serde_json::to_writer(&mut out, measured).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Notes on stderr why `auto` chose a device.
fn note(reason: Option<String>) {
    if let Some(reason) = reason {
        eprintln!("note: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ratios_are_not_0() {
        for (ratio, text) in [
            (152.3, "152×"),
            (27.4, "27×"),
            (5.23, "5.2×"),
            (1.0, "1.0×"),
            (0.432, "0.43×"),
            (0.0123, "0.012×"),
            (0.0, "0×"),
        ] {
            assert_eq!(factor(ratio), text);
        }
    }
}
