//! `warpkov mdp compare`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpkov_mdp::ask::compare::{Tolerance, compare};
use warpkov_mdp::io::Solved;

use super::{Error, Outcome};
use crate::common::number;
use crate::common::output::print;

/// Compares two solutions.
///
/// Two solutions agree if their policies match on enough states (solvers may break ties differently) and all values agree within the
/// tolerance. Exit code 0 if they agree, 1 if they differ.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// First solution or plan, as `warpkov mdp solve` writes it with --out or --all-steps.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Second solution.
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Smallest fraction of states on which the policies match, in [0, 1].
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = number::probability)]
    policy_agreement: f64,
    /// Largest difference of two values.
    #[arg(long, value_name = "E", default_value = "1e-4", value_parser = number::non_negative)]
    value_tolerance: f64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp compare gpu.json cpu.json
  warpkov mdp compare gpu.txt cpu.txt --policy-agreement 1 --value-tolerance 1e-8";

/// Reads both solutions, compares them, prints the differences.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let (first, second) = (Solved::read(&arguments.first)?, Solved::read(&arguments.second)?);
    let Arguments { policy_agreement, value_tolerance, json, .. } = arguments;
    let comparison = compare(&first, &second, Tolerance { policy_agreement, value_tolerance });
    print(&comparison, json, out)?;
    Ok(if comparison.agree { Outcome::Success } else { Outcome::Negative })
}
