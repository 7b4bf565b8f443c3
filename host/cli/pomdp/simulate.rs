//! `warpkov pomdp simulate`.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use warpkov_common::interrupt;
use warpkov_pomdp::plot::{FRAMES, draw_episode};
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::report::Episode;
use warpkov_pomdp::simulate::{Options, Step};

use super::evaluate::Extent;
use super::file::WithAnyPolicy;
use super::{Error, Outcome};
use crate::common::interrupts::handle_interrupts;
use crate::common::output::{Quiet, plots, print_short};

/// Shows one episode under alpha vectors or a controller, step by step.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp simulate tiger.json --policy tiger.alpha --steps 10
  warpkov pomdp simulate tiger.json --policy tiger.pg --steps 10
  warpkov pomdp simulate hallway.json --policy hallway.alpha --steps 20 --plot beliefs.svg
  warpkov pomdp simulate tag.json --policy tag.alpha --episode 3 --json | jq '.steps[].action'")]
pub struct Arguments {
    #[command(flatten)]
    files: WithAnyPolicy,
    #[command(flatten)]
    extent: Extent,
    /// Number of the episode: 0 is the first one that `evaluate` runs with the same seed.
    #[arg(long, value_name = "I", default_value_t = 0)]
    episode: u64,
    /// Draw the belief before each step, and the true state, to this file, .svg or .png. May be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

/// Reads model and policy, simulates one episode, prints its steps.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let plots = plots(&arguments.plot)?;
    let (model, policy) = arguments.files.read()?;
    handle_interrupts();
    let Extent { steps, seed } = arguments.extent;
    let simulator = policy.simulator(&model, &Options { episodes: 1, steps, seed })?;
    let (mut episode, mut drawn) = (Episode::new(&model, seed), Vec::new());
    let ended = simulator.episode(&mut Projection::default(), arguments.episode, |step: &Step| {
        episode.push(step);
        if !plots.is_empty() && drawn.len() < FRAMES {
            drawn.push(step.clone());
        }
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    episode.finish(ended);
    let outcome = if interrupt::requested() { Outcome::Interrupted } else { Outcome::Success };
    let title = format!("{}: episode {}, {}", arguments.files.name(), arguments.episode, episode.summary());
    let written = plots.iter().try_for_each(|plot| plot.draw(|format| draw_episode(&title, &model, &drawn, format)));
    let printed = print_short(&episode, arguments.json, arguments.quiet.quiet, out);
    written.and(printed).map(|()| outcome)
}
