//! `warpkov pomdp simulate`.

use std::io::Write;
use std::ops::ControlFlow;

use clap::Args;
use warpkov_common::interrupt;
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::report::Episode;
use warpkov_pomdp::simulate::{Options, Step};

use super::evaluate::Extent;
use super::file::WithAnyPolicy;
use super::{Error, Outcome};
use crate::common::interrupts::handle_interrupts;
use crate::common::output::{Quiet, print_short};

/// Shows one episode under alpha vectors or a controller, step by step.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp simulate tiger.json --policy tiger.alpha --steps 10
  warpkov pomdp simulate tiger.json --policy tiger.pg --steps 10
  warpkov pomdp simulate tag.json --policy tag.alpha --episode 3 --json | jq '.steps[].action'")]
pub struct Arguments {
    #[command(flatten)]
    files: WithAnyPolicy,
    #[command(flatten)]
    extent: Extent,
    /// Number of the episode: 0 is the first one that `evaluate` runs with the same seed.
    #[arg(long, value_name = "I", default_value_t = 0)]
    episode: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

/// Reads model and policy, simulates one episode, prints its steps.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let (model, policy) = arguments.files.read()?;
    handle_interrupts();
    let Extent { steps, seed } = arguments.extent;
    let simulator = policy.simulator(&model, &Options { episodes: 1, steps, seed })?;
    let mut episode = Episode::new(&model, seed);
    let ended = simulator.episode(&mut Projection::default(), arguments.episode, |step: &Step| {
        episode.push(step);
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    episode.finish(ended);
    let outcome = if interrupt::requested() { Outcome::Interrupted } else { Outcome::Success };
    print_short(&episode, arguments.json, arguments.quiet.quiet, out)?;
    Ok(outcome)
}
