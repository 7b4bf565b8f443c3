//! `warpkov pomdp evaluate`.

use std::io::{self, Write};
use std::time::Instant;

use clap::Args;
use warpkov::common::interrupt;
use warpkov::pomdp::simulate::{Options, Simulator};

use super::policy::WithPolicy;
use super::{Error, Outcome};
use crate::cli::common::interrupts::handle_interrupts;

/// Simulates a policy many times: what it earns, discounted, with a confidence interval of 95 %.
///
/// Beliefs are tracked exactly. The same seed gives the same result on any number of cores. After Ctrl-C the episodes count that
/// were run by then.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    files: WithPolicy,
    #[command(flatten)]
    extent: Extent,
    /// Number of episodes.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    episodes: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// How long episodes are, and what they draw from.
#[derive(Args)]
pub struct Extent {
    /// Steps of an episode at most [default: as many as make γ^steps 1e-6].
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// Seed of all that is random.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp evaluate tiger.json --policy tiger.alpha
  warpkov pomdp evaluate tag.pomdp --policy tag.policy.xml --episodes 100000 --json | jq .mean";

/// Simulates, then prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let (model, policy) = arguments.files.read()?;
    let Extent { steps, seed } = arguments.extent;
    let start = Instant::now();
    let simulator = Simulator::new(&model, &policy, &Options { episodes: arguments.episodes, steps, seed })?;
    handle_interrupts();
    let Some(found) = simulator.evaluate(&interrupt::requested) else { return Ok(Outcome::Interrupted) };
    let outcome = if interrupt::requested() { Outcome::Interrupted } else { Outcome::Success };
    let seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        #[derive(serde::Serialize)]
        struct Printed {
            #[serde(flatten)]
            found: warpkov::pomdp::simulate::Evaluation,
            interval: Option<[f64; 2]>,
            seed: u64,
            seconds: f64,
        }
        let interval = [found.mean - found.half_width, found.mean + found.half_width];
        let interval = found.half_width.is_finite().then_some(interval);
        serde_json::to_writer(&mut out, &Printed { found, interval, seed, seconds }).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(outcome);
    }
    let what = if model.process().objective().sign() > 0.0 { "reward" } else { "cost" };
    if found.half_width.is_finite() {
        writeln!(out, "Mean {what:<12} {:.6} ± {:.6} (95 %)", found.mean, found.half_width)?;
    } else {
        writeln!(out, "Mean {what:<12} {:.6}, of one episode: there is no interval", found.mean)?;
    }
    writeln!(out, "Episodes          {}, {} steps, {seconds:.3} s, seed {seed}", found.episodes, found.steps)?;
    writeln!(
        out,
        "Cut               {} after {} steps; their rest is worth {:.1e} at most",
        found.cut, found.horizon, found.tail
    )?;
    Ok(outcome)
}
