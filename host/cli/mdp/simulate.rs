//! `warpkov mdp simulate`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use warpkov_common::interrupt;
use warpkov_mdp::ask::evaluate::{bounds, plan, unrolled};
use warpkov_mdp::ask::simulate::{Options as Extent, Simulated, Simulator};
use warpkov_mdp::criterion::Criterion;
use warpkov_mdp::solution::Status;

use super::accuracy::{Criteria, Question};
use super::file::Input;
use super::solve::observer;
use super::{Error, Outcome, policy, start};
use crate::common::file::{extension, write_whole, writes};
use crate::common::interrupts::handle_interrupts;
use crate::common::output::{Quiet, print_short};

/// Simulates a policy: estimates its value by sample paths, with a confidence interval.
///
/// Without POLICY, the model is solved by the criterion, and the policy of the solution is simulated. Equal seeds give equal results on
/// any number of cores. A path that is cut after --steps widens the interval by all that may follow. After Ctrl-C, the result is that of
/// the paths so far.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Policy: CSV with the columns state and action, by names or numbers; JSON; .npy; or a solution that mdp solve --out wrote
    /// [default: that of a solve].
    #[arg(value_name = "POLICY")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    question: Criteria,
    #[command(flatten)]
    start: start::Arguments,
    /// Number of paths [default: 10000; 1000 for the average].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    episodes: Option<u32>,
    /// Maximum number of steps of a path [default: the least with γ^steps ≤ 1e-6; without a discount 1000000; for the average 10000].
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Confidence of the interval, between 0 and 1.
    #[arg(long, value_name = "C", default_value = "0.95", value_parser = confidence)]
    confidence: f64,
    /// Write paths to this file, .csv: a line for each step, by names.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Number of paths to write.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "out", value_parser = clap::value_parser!(u32).range(1..))]
    paths: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp simulate forest.json --start 0
  warpkov mdp simulate forest.json policy.csv --episodes 100000 --confidence 0.99 --json | jq .mean
  warpkov mdp simulate coin.tra --criterion reach --goal finished --out paths.csv --paths 3";

/// A probability strictly between 0 and 1.
fn confidence(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|x: &f64| *x > 0.0 && *x < 1.0);
    number.ok_or_else(|| "expected a number between 0 and 1".to_owned())
}

/// The validated arguments.
pub struct Options {
    question: Question,
    arguments: Rest,
}

/// The arguments that clap validates alone.
struct Rest {
    input: Input,
    policy: Option<PathBuf>,
    start: start::Arguments,
    episodes: Option<u32>,
    steps: Option<u64>,
    seed: u64,
    confidence: f64,
    out: Option<PathBuf>,
    paths: u32,
    json: bool,
    quiet: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, policy, question, start, episodes, steps, seed, confidence, out, paths, json, .. } =
            arguments;
        if let Some(path) = &out {
            extension(path, &["csv"])?;
            writes(path)?;
        }
        let quiet = arguments.quiet.quiet || json;
        let arguments = Rest { input, policy, start, episodes, steps, seed, confidence, out, paths, json, quiet };
        Ok(Self { question: question.try_into()?, arguments })
    }
}

/// Reads the model, reads or finds the policy, simulates it, prints the statistics.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    let Options { question, arguments } = options;
    let (mdp, criterion, solve) = question.ask(arguments.input.read()?)?;
    let criterion = criterion.as_ref();
    let (starts, starts_from) = arguments.start.states(&mdp)?;
    let (policy, policy_from) = match &arguments.policy {
        Some(path) => (policy::read(path, &mdp)?, path.display().to_string()),
        None => {
            let mut observe = observer(mdp.states().into(), arguments.quiet);
            let solved = match criterion {
                Some(&Criterion::Horizon(steps)) => plan(&mdp, steps, &solve, &mut observe)?,
                criterion => bounds(&mdp, criterion, &solve, &mut observe)?,
            };
            if solved.status == Status::Interrupted {
                return Ok(Outcome::Interrupted);
            }
            let certified = if solved.converged { "" } else { ", not converged" };
            (solved.policy, format!("that of a solve{certified}"))
        }
    };
    let chain = unrolled(&mdp, &policy, criterion).map_err(|error| Error::Usage(error.to_string()))?;
    let average = matches!(criterion, Some(Criterion::Average));
    let extent = Extent {
        episodes: arguments.episodes.unwrap_or(if average { 1000 } else { 10_000 }),
        steps: arguments.steps,
        seed: arguments.seed,
        starts: starts.clone(),
        confidence: arguments.confidence,
    };
    let simulator = Simulator::new(&chain, criterion, extent).map_err(|error| Error::Usage(error.to_string()))?;
    handle_interrupts();
    let begun = Instant::now();
    let Some(evaluation) = simulator.evaluate(&interrupt::requested) else { return Ok(Outcome::Interrupted) };
    let outcome = if interrupt::requested() { Outcome::Interrupted } else { Outcome::Success };
    let (mdp, starts, starts_from, policy_from, seed) =
        (&mdp, &starts[..], &*starts_from, &*policy_from, arguments.seed);
    let elapsed = begun.elapsed();
    let report = Simulated { mdp, criterion, evaluation, starts, starts_from, policy_from, seed, elapsed };
    let written = arguments
        .out
        .as_deref()
        .map_or(Ok(()), |path| write_whole(path, |out| simulator.write_paths(arguments.paths, mdp, &policy, out)));
    print_short(&report, arguments.json, arguments.quiet, out)?;
    written?;
    Ok(outcome)
}
