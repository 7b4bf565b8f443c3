//! `warpkov mdp q`.

use std::io::Write;

use clap::Args;
use warpkov_mdp::ask::q::{QReport, q_factors};
use warpkov_mdp::solution::Status;
use warpkov_mdp::solve::Solve;

use super::accuracy::{Arguments as Accuracy, Discount};
use super::file::Input;
use super::solve::observer;
use super::table::{self, Destination};
use super::{Error, Outcome};

/// Computes the Q-factors of the discounted criterion: the value of each action in each state, followed by optimal ones.
///
/// The advantage of an action is its Q-factor minus the best one of its state. The error of the Q-factors is at most γ times that of the
/// values, and certified. A .npy file of --out is S × A, with NaN where a state lacks an action. Exit code 0 if the values are within ε, 1
/// if a limit stopped the solver first.
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
    #[command(flatten)]
    table: table::Arguments,
}

/// The model, its accuracy, and the destination.
pub struct Options {
    input: Input,
    accuracy: Accuracy,
    discount: Discount,
    destination: Destination,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, accuracy, discount, table } = arguments;
        Ok(Self { input, accuracy, discount, destination: table.try_into()? })
    }
}

/// Reads the model, solves it, writes the Q-factors, prints the report.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    let Destination { output, quiet } = &options.destination;
    let mdp = options.discount.apply(options.input.read()?)?;
    let solve = options.accuracy.discounted().discounted(mdp.gamma());
    let mut observe = observer(mdp.states().into(), *quiet);
    let solution = Solve::new(&mdp, &solve).observed(&mut observe).run()?;
    let factors = q_factors(&mdp, &solution.values, solution.certificate.bound);
    let converged = solution.converged(&solve.limits);
    let report = QReport { mdp: &mdp, solution: &solution, converged, factors: &factors };
    let written = output.write(&report);
    output.print(&report, out)?;
    written?;
    Ok(match solution.run.status {
        Status::Interrupted => Outcome::Interrupted,
        _ if converged => Outcome::Success,
        _ => Outcome::Negative,
    })
}
