//! The description of a model, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::model::Pomdp;
use crate::common::report::{Report, write_object};
use crate::mdp::info::{Rows, bytes, range, write_memory, write_objective};
use crate::mdp::model::Objective;

/// Size, structure and memory of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// |S|.
    states: u32,
    /// |A|.
    actions: u32,
    /// |Ω|.
    observations: u32,
    /// γ.
    gamma: f64,
    objective: Objective,
    /// States of positive probability at the start.
    start: usize,
    transitions: Rows,
    /// Whether every action leads from every state to exactly one state.
    deterministic: bool,
    observation: Rows,
    /// Whether action and observation determine the state.
    observed: bool,
    /// Least and largest r(s, a).
    rewards: Option<[f64; 2]>,
    /// Whether any reward depends on the successor.
    transition_rewards: bool,
    /// Bytes of the arrays in memory.
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

/// Whether no observation is possible in two states after the same action.
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

impl Report for Info {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_object(out, self)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "States (S)       {}", self.states)?;
        writeln!(out, "Actions (A)      {}", self.actions)?;
        writeln!(out, "Observations (Ω) {}", self.observations)?;
        write_objective(out, self.gamma, self.objective)?;
        writeln!(out, "Start            {} states", self.start)?;
        let kind = if self.deterministic { ", deterministic" } else { "" };
        self.transitions.write(out, "Transitions", kind)?;
        let kind = if self.observed { ", the state is seen" } else { "" };
        self.observation.write(out, "Observations", kind)?;
        if let Some([least, largest]) = self.rewards {
            let kind = if self.transition_rewards { ", of transitions" } else { "" };
            writeln!(out, "Rewards r(s, a)  {least} to {largest}{kind}")?;
        }
        write_memory(out, self.bytes)
    }
}
