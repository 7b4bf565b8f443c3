//! `warpkov mdp policy`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use warpkov_mdp::ask::evaluate::{PolicyError, PolicyReport, bounds, value};
use warpkov_mdp::io::read_policy;
use warpkov_mdp::model::Mdp;
use warpkov_mdp::solution::Status;

use super::accuracy::{Criteria, Question};
use super::file::Input;
use super::solve::observer;
use super::table::{self, Destination};
use super::{Error, Outcome};
use crate::common::file::reads;

pub const EXAMPLES: &str = "\
Examples:
  warpkov mdp policy evaluate forest.json policy.csv
  warpkov mdp policy evaluate forest.json policy.csv --gap";

#[derive(Subcommand)]
pub enum PolicyCommand {
    Evaluate(Box<Arguments>),
}

/// Evaluates a policy: computes its certified values.
///
/// The policy makes the model a Markov chain, which is solved by the criterion. Bounds from both sides enclose the exact value of the
/// policy from each state. Exit code 0 if the bounds meet ε, 1 if a limit stopped the solver first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp policy evaluate forest.json policy.csv
  warpkov mdp policy evaluate forest.json policy.csv --gap --out values.csv
  warpkov mdp policy evaluate coin.tra policy.npy --criterion reach --goal finished --json | jq .init")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Policy: CSV with the columns state and action, by names or numbers; JSON; .npy; or a solution that mdp solve --out wrote.
    #[arg(value_name = "POLICY")]
    policy: PathBuf,
    #[command(flatten)]
    question: Criteria,
    /// Solve the model as well: show what the policy loses against an optimal one, and where.
    #[arg(long)]
    gap: bool,
    #[command(flatten)]
    table: table::Arguments,
}

/// The model, the policy, the criterion, and the destination.
pub struct Options {
    input: Input,
    policy: PathBuf,
    question: Question,
    gap: bool,
    destination: Destination,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, policy, question, gap, table } = arguments;
        Ok(Self { input, policy, question: question.try_into()?, gap, destination: table.try_into()? })
    }
}

/// Runs a command of a policy.
pub fn run(command: PolicyCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        PolicyCommand::Evaluate(arguments) => evaluate(&(*arguments).try_into()?, out),
    }
}

/// Reads a policy that fits the model.
pub fn read(path: &Path, mdp: &Mdp) -> Result<Vec<u32>, Error> {
    reads(path)?;
    Ok(read_policy(path, mdp)?)
}

/// Reads model and policy, solves the chain, writes the values, prints the report.
fn evaluate(options: &Options, out: impl Write) -> Result<Outcome, Error> {
    let Destination { output, quiet } = &options.destination;
    let (mdp, criterion, solve) = options.question.ask(options.input.read()?)?;
    let policy = read(&options.policy, &mdp)?;
    let mut observe = observer(mdp.states().into(), *quiet);
    let begun = Instant::now();
    let value = value(&mdp, &policy, criterion.as_ref(), &solve, &mut observe).map_err(|error| match error {
        PolicyError::Invalid(error) => Error::Usage(format!("{}: {error}", options.policy.display())),
        PolicyError::Solve(error) => error.into(),
    })?;
    let asked = options.gap && value.status != Status::Interrupted;
    let optimal = asked.then(|| bounds(&mdp, criterion.as_ref(), &solve, &mut observe)).transpose()?;
    let evaluation = PolicyReport {
        mdp: &mdp,
        // Of a plan, the first step.
        policy: &policy[..mdp.states() as usize],
        criterion: criterion.as_ref(),
        options: &solve,
        value: &value,
        optimal: optimal.as_ref(),
        elapsed: begun.elapsed(),
    };
    let interrupted = [Some(&value), optimal.as_ref()].into_iter().flatten().any(|of| of.status == Status::Interrupted);
    let written = output.write(&evaluation);
    output.print(&evaluation, out)?;
    written?;
    Ok(match evaluation.converged() {
        _ if interrupted => Outcome::Interrupted,
        true => Outcome::Success,
        false => Outcome::Negative,
    })
}
