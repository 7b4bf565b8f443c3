//! `warpkov mdp q`.

use std::io::Write;

use clap::Args;
use warpkov::mdp::qfactors::{QReport, q_factors};
use warpkov::mdp::solution::Status;
use warpkov::mdp::solve::solve_with;
use warpkov::mdp::table::TableFormat;

use super::accuracy::{Arguments as Accuracy, Discount};
use super::file::Input;
use super::solve::observer;
use super::{Error, Outcome};
use crate::cli::common::choice::format;
use crate::cli::common::file::FileOrStd;
use crate::cli::common::output::Output;

/// Computes the Q-factors of the discounted criterion: the value of each action in each state, followed by optimal ones.
///
/// The advantage of an action is its Q-factor minus the best one of its state. The error of the Q-factors is at most γ times that of the
/// values, and certified. Exit code 0 if the values are within ε, 1 if a limit stopped the solver first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp q forest.json
  warpkov mdp q forest.json --epsilon 1e-9 --out q.csv
  warpkov mdp q grid.json --out q.npy")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    accuracy: Accuracy,
    #[command(flatten)]
    discount: Discount,
    /// Write the Q-factors to this file: .csv by names, .json, or .npy (S × A, NaN where a state lacks an action); or with - to the
    /// standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; csv on the standard output].
    #[arg(long, value_parser = format(TableFormat::extensions), value_name = "FORMAT", requires = "out")]
    to: Option<TableFormat>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

/// The model, its accuracy, and the destination.
pub struct Options {
    input: Input,
    accuracy: Accuracy,
    discount: Discount,
    output: Output<TableFormat>,
    quiet: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, accuracy, discount, out, to, json, quiet } = arguments;
        let output = Output::new(out, to, json, TableFormat::extensions, TableFormat::Csv)?;
        Ok(Self { input, accuracy, discount, output, quiet: quiet || json })
    }
}

/// Reads the model, solves it, writes the Q-factors, prints the report.
pub fn run(options: &Options, out: impl Write) -> Result<Outcome, Error> {
    let mdp = options.discount.apply(options.input.read()?)?;
    let solve = options.accuracy.discounted().discounted(mdp.gamma());
    let solution = solve_with(&mdp, &solve, &mut observer(mdp.states().into(), options.quiet))?;
    let factors = q_factors(&mdp, &solution.values, solution.certificate.bound);
    let converged = solution.converged(&solve.limits);
    let report = QReport { mdp: &mdp, solution: &solution, converged, factors: &factors };
    let written = options.output.write(&report);
    options.output.print(&report, out)?;
    written?;
    Ok(match solution.run.status {
        Status::Interrupted => Outcome::Interrupted,
        _ if converged => Outcome::Success,
        _ => Outcome::Negative,
    })
}
