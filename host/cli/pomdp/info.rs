//! `warpkov pomdp info`.

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use warpkov::mdp::model::Objective;
use warpkov::pomdp::model::Pomdp;

use super::file::Input;
use super::{Error, Outcome};
use crate::cli::mdp::info::{Rows, bytes, range};

/// Describes a model.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp info hallway.pomdp
  warpkov pomdp info tag.json --json | jq .transitions";

/// What there is to say about a model.
#[derive(Serialize)]
struct Info {
    states: u32,
    actions: u32,
    observations: u32,
    gamma: f64,
    objective: Objective,
    /// States that the process may start in.
    start: usize,
    transitions: Rows,
    /// Whether every action leads from every state to one state.
    deterministic: bool,
    observation: Rows,
    /// Whether every state is told by what is observed there, after each action.
    observed: bool,
    /// Least and largest r(s, a).
    rewards: Option<[f64; 2]>,
    /// Whether any reward depends on the successor.
    transition_rewards: bool,
    bytes: usize,
}

impl From<&Pomdp> for Info {
    fn from(model: &Pomdp) -> Self {
        let process = model.process();
        let transitions = Rows::from(process.transitions());
        Self {
            states: model.states(),
            actions: model.actions(),
            observations: model.observation_count(),
            gamma: model.gamma(),
            objective: process.objective(),
            start: model.start().states().len(),
            deterministic: transitions.longest_row == 1,
            transitions,
            observation: Rows::from(model.observations()),
            observed: observed(model),
            rewards: range(&model.expected_rewards()),
            transition_rewards: process.rewards().nnz() > 0,
            bytes: [process.transitions(), process.rewards(), model.observations()].map(bytes).iter().sum::<usize>()
                + size_of_val(&process.action_rewards()[..]),
        }
    }
}

/// Whether no two states can show the same observation after the same action.
fn observed(model: &Pomdp) -> bool {
    let states = model.states() as usize;
    let mut owner = vec![None; model.observation_count() as usize];
    (0..model.observations().rows()).all(|row| {
        let (action, state) = (row / states, row % states);
        model.observations().row(row).0.iter().all(|&observation| {
            let before = owner[observation as usize].replace((action, state));
            before.is_none_or(|before| before == (action, state) || before.0 != action)
        })
    })
}

/// Reads, then prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let info = Info::from(&arguments.input.read()?);
    if arguments.json {
        serde_json::to_writer(&mut out, &info).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write(&info, &mut out)?;
    }
    Ok(Outcome::Success)
}

fn write(info: &Info, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "States (S)       {}", info.states)?;
    writeln!(out, "Actions (A)      {}", info.actions)?;
    writeln!(out, "Observations (Ω) {}", info.observations)?;
    writeln!(out, "Discount (γ)     {}", info.gamma)?;
    if info.objective == Objective::Minimize {
        writeln!(out, "Objective        minimize")?;
    }
    writeln!(out, "Start            {} states", info.start)?;
    let kind = if info.deterministic { ", deterministic" } else { "" };
    info.transitions.write(out, "Transitions", kind)?;
    let kind = if info.observed { ", the state is seen" } else { "" };
    info.observation.write(out, "Observations", kind)?;
    if let Some([least, largest]) = info.rewards {
        let kind = if info.transition_rewards { ", of transitions" } else { "" };
        writeln!(out, "Rewards r(s, a)  {least} to {largest}{kind}")?;
    }
    writeln!(out, "Memory           {:.1} MiB", info.bytes as f64 / (1u64 << 20) as f64)
}
