//! `warpkov pomdp evaluate`.

use std::io::Write;

use clap::Args;
use warpkov_common::interrupt;
use warpkov_pomdp::report::Evaluated;
use warpkov_pomdp::simulate::Options;

use super::file::WithAnyPolicy;
use super::{Error, Outcome};
use crate::common::interrupts::handle_interrupts;
use crate::common::output::{Quiet, print_short};
use crate::common::watch::Watch;

/// Estimates the discounted return of a policy by simulation, with a 95 % confidence interval.
///
/// The policy is a set of alpha vectors, or a finite-state controller, whose exact value is printed too. Beliefs are tracked exactly.
/// Equal seeds give equal results on any number of cores. After Ctrl-C, the result is the mean of the episodes so far.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    files: WithAnyPolicy,
    #[command(flatten)]
    extent: Extent,
    /// Number of episodes.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    episodes: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

/// Length of the episodes, and seed.
#[derive(Args)]
pub struct Extent {
    /// Maximum number of steps of an episode [default: the least with γ^steps ≤ 1e-6].
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp evaluate tiger.json --policy tiger.alpha
  warpkov pomdp evaluate tag.pomdp --policy tag.policy.xml --episodes 100000 --json | jq .mean
  warpkov pomdp evaluate tiger.json --policy tiger.pg --node 0";

/// Reads model and policy, simulates, prints the mean return.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let (model, policy) = arguments.files.read()?;
    handle_interrupts();
    let Extent { steps, seed } = arguments.extent;
    let mut watch = Watch::start();
    let simulator = policy.simulator(&model, &Options { episodes: arguments.episodes, steps, seed })?;
    let Some(evaluation) = simulator.evaluate(&interrupt::requested) else { return Ok(Outcome::Interrupted) };
    let outcome = if interrupt::requested() { Outcome::Interrupted } else { Outcome::Success };
    let controller = policy.controller();
    let report = Evaluated { model: &model, evaluation, controller, seed, seconds: watch.lap() };
    print_short(&report, arguments.json, arguments.quiet.quiet, out)?;
    Ok(outcome)
}
