//! `warpkov pomdp constrain`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpkov_pomdp::constrained::{self, Constraint};
use warpkov_pomdp::io as formats;
use warpkov_pomdp::options::{Limits, SolveOptions};
use warpkov_pomdp::report::Limited;
use warpkov_runtime::choose::DeviceChoice;

use super::file::Input;
use super::search::{Ends, GraphFiles, ToGraph, observer};
use super::{Error, Outcome, outcome};
use crate::common::file::reads;
use crate::common::interrupts::handle_interrupts;
use crate::common::number;

/// Bounds the best value of the start belief among the policies that keep the expected discounted sum of costs within a limit.
///
/// The best policy may throw a coin at the start: the result is a mixture of at most two controllers, of which the report says how probable
/// each is, and in which node of --out, which has them one behind the other, it begins. The price is how much the value changes with the limit.
/// Exit code 0 if the bounds differ by at most --relative-gap or --gap; 1 if a limit ended the run first, or if no policy is within --at-most
/// or --at-least.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// File of a model whose rewards are the costs: that of FILE but for these. Its discount, start and objective do not count.
    #[arg(long, value_name = "FILE")]
    costs: PathBuf,
    /// The sum of costs is to be at most D.
    #[arg(long, value_name = "D", value_parser = number::finite, allow_hyphen_values = true, required_unless_present = "at_least")]
    at_most: Option<f64>,
    /// The sum of costs is to be at least D.
    #[arg(long, value_name = "D", value_parser = number::finite, allow_hyphen_values = true, conflicts_with = "at_most")]
    at_least: Option<f64>,
    /// Device of the solves: auto, cpu, cuda:N or emulated.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// The sums of the first T rewards and costs. Required if γ is 1.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    horizon: Option<u32>,
    /// Solve a small model in all beliefs, by linear programs, for each price.
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    ends: Ends,
    /// Maximum memory of beliefs and vectors, in bytes or as 4GiB [default: 8GiB, or half of the free memory of a GPU].
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    memory: Option<u64>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    to: ToGraph,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp constrain machine.pomdp --costs repairs.pomdp --at-most 2.5
  warpkov pomdp constrain machine.pomdp --costs repairs.pomdp --at-most 2.5 --out machine.pg
  warpkov pomdp constrain tag.json --costs steps.pomdp --at-least 5 --time 60 --json | jq '.lower, .upper, .price'";

/// Reads the models, solves them, writes the controllers and the plot, prints the report.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let Arguments { input, costs, at_most, at_least, device, horizon, exact, ends, memory, seed, .. } = arguments;
    let files = GraphFiles::try_from(arguments.to)?;
    let constraint = match (at_most, at_least) {
        (Some(limit), _) => Constraint::AtMost(limit),
        (None, limit) => Constraint::AtLeast(limit.unwrap_or_default()),
    };
    let limits = Limits { memory, ..ends.limits(false) };
    let options = SolveOptions { device, horizon, exact, seed, limits, ..SolveOptions::default() };
    let model = input.read()?;
    reads(&costs)?;
    let costs = constrained::costs_of(&formats::read(&costs, None)?, &model)
        .map_err(|error| Error::Usage(format!("{}: {error}", costs.display())))?;
    handle_interrupts();
    let found = constrained::solve(&model, &costs, constraint, &options, &mut observer(files.quiet))?;
    let outcome = outcome(found.status);
    let report = Limited { model: &model, constraint, found: &found };
    let title = format!("value from {:.4} to {:.4}, cost {constraint}", found.lower, found.upper);
    files.write(&report, (&input.file.name(), &title), &found.rounds, out)?;
    Ok(outcome)
}
