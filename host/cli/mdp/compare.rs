//! `warpkov mdp compare`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpkov_mdp::ask::compare::{Tolerance, compare};
use warpkov_mdp::io::SolutionFile;

use super::accuracy::Discount;
use super::file::Reading;
use super::{Error, Outcome};
use crate::common::file::FileOrStd;
use crate::common::number;
use crate::common::output::print;

/// Compares two solutions.
///
/// Two solutions agree if their policies match on enough states and all values agree within the tolerance. Solvers break ties differently:
/// with --model, policies match also where the Q-factors of their actions agree within the tolerance. Exit code 0 if they agree, 1 if they
/// differ.
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
    /// Compare the Q-factors of actions that differ, by this model.
    #[arg(long, value_name = "FILE")]
    model: Option<FileOrStd>,
    /// Discount factor γ in [0, 1], in place of that of the model.
    #[arg(long, value_name = "G", requires = "model", value_parser = number::probability)]
    gamma: Option<f64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp compare gpu.json cpu.json
  warpkov mdp compare gpu.txt cpu.txt --model grid.json
  warpkov mdp compare gpu.txt cpu.txt --policy-agreement 1 --value-tolerance 1e-8";

/// Reads both solutions, compares them, prints the differences.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let (first, second) = (SolutionFile::read(&arguments.first)?, SolutionFile::read(&arguments.second)?);
    let Arguments { policy_agreement, value_tolerance, json, model, gamma, .. } = arguments;
    let model = match &model {
        Some(file) => Some(Discount { gamma }.apply(Reading::default().read(file)?)?),
        None => None,
    };
    let tolerance = Tolerance { policy_agreement, value_tolerance };
    let comparison =
        compare(&first, &second, tolerance, model.as_ref()).map_err(|error| Error::Usage(error.to_string()))?;
    print(&comparison, json, out)?;
    Ok(if comparison.agree { Outcome::Success } else { Outcome::Negative })
}
