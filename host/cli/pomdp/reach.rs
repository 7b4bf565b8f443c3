//! `warpkov pomdp reach`.

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use warpkov_mdp::criterion::Criterion;
use warpkov_mdp::model::MdpParts;
use warpkov_pomdp::criterion;
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::Limits;
use warpkov_pomdp::report::Reached;
use warpkov_runtime::choose::DeviceChoice;

use super::file::Input;
use super::search::{Ends, GraphFiles, ToGraph, observer};
use super::{Error, Outcome, outcome};
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::mdp::criterion::goal_states;

/// Bounds the best probability of reaching goal states from the start, or the best sum of rewards until then. Ignores the discount.
///
/// A controller attains the lower bound of a maximum, or the upper bound of a minimum. The other bound holds for every policy. They meet
/// if the goal, or the knowledge of the state, comes closer with time; if waiting for ever always promises to know more, they stay apart.
/// Exit code 0 if the bounds differ by at most --relative-gap or --gap, or the controller attains --target; 1 if a limit ended the run first.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Goal states: names or numbers, with ! (not), & (and), and | or a comma (or): done, 3,17, '!lost & !start'.
    #[arg(long, value_name = "STATES")]
    goal: String,
    /// The expected sum of rewards until the goal, instead of its probability. It is infinite if the goal may be missed.
    #[arg(long)]
    rewards: bool,
    /// Minimise the probability, or the sum whatever the objective of the model [default: maximise the probability, and the sum by the model].
    #[arg(long, conflicts_with = "maximize")]
    minimize: bool,
    /// Maximise the sum, whatever the objective of the model.
    #[arg(long)]
    maximize: bool,
    /// Device that solves the MDPs of beliefs: auto, cpu, cuda:N or emulated.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    #[command(flatten)]
    ends: Ends,
    /// Stop when the controller attains the value V.
    #[arg(long, value_name = "V", value_parser = number::finite, allow_hyphen_values = true)]
    target: Option<f64>,
    /// Maximum memory of beliefs, in bytes or as 4GiB [default: 8GiB].
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    memory: Option<u64>,
    /// Maximum number of rounds, each of which expands half as many beliefs as all before.
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
    #[command(flatten)]
    to: ToGraph,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp generate four-by-three --out grid.pomdp
  warpkov pomdp info grid.pomdp
  warpkov pomdp reach grid.pomdp --goal 3 --out grid.pg
  warpkov pomdp reach maze.json --goal exit --rewards --minimize --time 10 --json | jq .upper";

/// Reads the model, solves it, writes the controller and the plot, prints the report.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let files = GraphFiles::try_from(arguments.to)?;
    let limits = Limits {
        target: arguments.target,
        memory: arguments.memory,
        iterations: arguments.iterations,
        ..arguments.ends.limits(false)
    };
    let model = arguments.input.read()?;
    let goal = goal_of(&model, &arguments.goal)?;
    let criterion = match arguments.rewards {
        true => Criterion::TotalReward { goal: Some(goal) },
        false => Criterion::Reach { goal },
    };
    let minimize = (arguments.minimize || arguments.maximize).then_some(arguments.minimize);
    let model = criterion::directed(&model, &criterion, minimize);
    handle_interrupts();
    let found = criterion::solve(&model, &criterion, arguments.device, &limits, &mut observer(files.quiet))?;
    let outcome = outcome(found.status);
    let report = Reached { model: &model, criterion: &criterion, found: &found };
    let title = format!("{} from {:.4} to {:.4}", report.quantity(), found.lower, found.upper);
    files.write(&report, (&arguments.input.file.name(), &title), &found.rounds, out)?;
    Ok(outcome)
}

/// The states that the words of `--goal` mean.
pub fn goal_of(model: &Pomdp, words: &str) -> Result<Vec<u32>, Error> {
    let names = &model.names().states;
    let state_names = (!names.is_empty()).then(|| Arc::new(names.clone()));
    // The observed process, with the names of the model's states.
    let parts = MdpParts { state_names, ..model.process().clone().into_parts() };
    goal_states(words, &parts.validated().map_err(|error| Error::Solve(error.into()))?)
}
