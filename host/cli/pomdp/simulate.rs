//! `warpkov pomdp simulate`.

use std::io::{self, Write};
use std::ops::ControlFlow;

use clap::Args;
use serde::Serialize;
use warpkov::common::interrupt;
use warpkov::common::names::name;
use warpkov::pomdp::projection::Projection;
use warpkov::pomdp::simulate::{Options, Simulator, Step};

use super::evaluate::Extent;
use super::policy::WithPolicy;
use super::{Error, Outcome};
use crate::cli::common::interrupts::handle_interrupts;

/// Shows one episode under a policy, step by step.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp simulate tiger.json --policy tiger.alpha --steps 10
  warpkov pomdp simulate tag.json --policy tag.alpha --episode 3 --json | jq '.steps[].action'")]
pub struct Arguments {
    #[command(flatten)]
    files: WithPolicy,
    #[command(flatten)]
    extent: Extent,
    /// Number of the episode among those that `evaluate` runs.
    #[arg(long, value_name = "I", default_value_t = 0)]
    episode: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A step as it is printed.
#[derive(Serialize)]
struct Line {
    step: usize,
    state: String,
    action: String,
    next: String,
    observation: String,
    reward: f64,
    value: f64,
    /// States that the belief holds possible.
    possible: usize,
}

/// Simulates, then prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let (model, policy) = arguments.files.read()?;
    let Extent { steps, seed } = arguments.extent;
    let simulator = Simulator::new(&model, &policy, &Options { episodes: 1, steps, seed })?;
    let (names, sign) = (model.names(), model.process().objective().sign());
    let (mut lines, mut earned, mut discount) = (Vec::new(), 0.0, 1.0);
    handle_interrupts();
    let ended = simulator.episode(&mut Projection::default(), arguments.episode, |step: &Step| {
        earned += discount * step.reward;
        discount *= model.gamma();
        lines.push(Line {
            step: lines.len(),
            state: name(&names.states, step.state),
            action: name(&names.actions, step.action),
            next: name(&names.states, step.next),
            observation: name(&names.observations, step.observation),
            reward: step.reward,
            value: sign * step.value,
            possible: step.belief.states().len(),
        });
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let outcome = if interrupt::requested() { Outcome::Interrupted } else { Outcome::Success };
    if arguments.json {
        let printed = serde_json::json!({ "discounted": earned, "ended": ended, "seed": seed, "steps": lines });
        serde_json::to_writer(&mut out, &printed).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(outcome);
    }
    let head = ["state", "action", "next", "seen"];
    let cells = |line: &Line| [line.state.clone(), line.action.clone(), line.next.clone(), line.observation.clone()];
    let width = |column: usize| {
        let of = lines.iter().map(|line| cells(line)[column].chars().count()).max().unwrap_or(0);
        of.max(head[column].len())
    };
    let widths = [0, 1, 2, 3].map(width);
    let [state, action, next, seen] = widths;
    let [a, b, c, d] = head;
    writeln!(out, "step  {a:<state$}  {b:<action$}  {c:<next$}  {d:<seen$}      reward        V(b)  possible")?;
    for line in &lines {
        let [a, b, c, d] = cells(line);
        let Line { step, reward, value, possible, .. } = line;
        writeln!(
            out,
            "{step:>4}  {a:<state$}  {b:<action$}  {c:<next$}  {d:<seen$}  {reward:>10.4}  {value:>10.4}  {possible:>8}"
        )?;
    }
    let end = if ended { "ended" } else { "cut" };
    writeln!(out, "{earned:.6} discounted, {end} after {} steps", lines.len())?;
    Ok(outcome)
}
