//! Rows of a model in words: the actions of a state, where each may lead, and what it earns.

use std::io::{self, Write};

use serde::Serialize;

use crate::model::Mdp;
use warpkov_common::report::{Report, write_object};
use warpkov_common::terminal::escaped;

/// Successors of a row, and actions of a state, in a shortened text.
const SHOWN: usize = 12;

/// Some states of a model with all their rows.
pub struct Shown<'a> {
    mdp: &'a Mdp,
    states: Vec<u32>,
    /// The most successors of a row, and actions of a state.
    most: usize,
}

/// A state.
#[derive(Serialize)]
struct State<'a> {
    state: u32,
    name: String,
    labels: Vec<&'a str>,
    actions: Vec<Row>,
    /// Actions that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    more_actions: usize,
}

/// A state-action pair.
#[derive(Serialize)]
struct Row {
    action: u32,
    name: String,
    /// r(s, a) = Σ P·R plus the reward of the action.
    expected_reward: f64,
    /// The reward of the action, whatever the successor.
    action_reward: f64,
    successors: Vec<Successor>,
    /// Successors that are not listed, and their probability.
    #[serde(skip_serializing_if = "is_zero")]
    more_successors: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_probability: Option<f64>,
    /// The probability that the process ends.
    end: f64,
}

/// An entry of a row.
#[derive(Serialize)]
struct Successor {
    state: u32,
    name: String,
    probability: f64,
    /// R(s, a, s').
    reward: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl<'a> Shown<'a> {
    /// The rows of these states, which are states of the model; long rows are shortened unless `all`.
    #[must_use]
    pub fn new(mdp: &'a Mdp, states: Vec<u32>, all: bool) -> Self {
        Self { mdp, states, most: if all { usize::MAX } else { SHOWN } }
    }

    fn state(&self, state: u32) -> State<'a> {
        let mdp = self.mdp;
        let rows = mdp.choices().rows(state as usize);
        let labels = mdp.labels().iter().filter(|(_, states)| states.binary_search(&state).is_ok());
        State {
            state,
            name: mdp.state_name(state),
            labels: labels.map(|(label, _)| &**label).collect(),
            more_actions: rows.len().saturating_sub(self.most),
            actions: (0..).zip(rows.take(self.most)).map(|(action, row)| self.row(state, action, row)).collect(),
        }
    }

    fn row(&self, state: u32, action: u32, row: usize) -> Row {
        let mdp = self.mdp;
        let (successors, probs) = mdp.transitions().row(row);
        let earned: f64 = mdp.rewards_of(row).zip(probs).map(|(reward, p)| reward * p).sum();
        let listed = successors.iter().zip(probs).zip(mdp.rewards_of(row)).take(self.most);
        let more = successors.len().saturating_sub(self.most);
        Row {
            action,
            name: mdp.action_name(state, action),
            expected_reward: mdp.action_reward(row) + earned,
            action_reward: mdp.action_reward(row),
            successors: listed
                .map(|((&next, &probability), reward)| Successor {
                    state: next,
                    name: mdp.state_name(next),
                    probability,
                    reward,
                })
                .collect(),
            more_successors: more,
            more_probability: (more > 0).then(|| probs[self.most..].iter().sum()),
            end: mdp.end(row),
        }
    }
}

impl Report for Shown<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Record<'a> {
            states: Vec<State<'a>>,
        }
        write_object(out, &Record { states: self.states.iter().map(|&state| self.state(state)).collect() })
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let number = |named: bool, number: u32| if named { format!(" (number {number})") } else { String::new() };
        for (index, &state) in self.states.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let State { name, labels, actions, more_actions, .. } = self.state(state);
            write!(out, "State {}{}", escaped(&name), number(self.mdp.state_names().is_some(), state))?;
            for label in labels {
                write!(out, ", label {}", escaped(label))?;
            }
            writeln!(out)?;
            if actions.is_empty() {
                writeln!(out, "  no actions: the process ends here, with value 0")?;
            }
            for row in &actions {
                let action = number(self.mdp.action_names().is_some(), row.action);
                writeln!(out, "  Action {}{action}: reward {}", escaped(&row.name), row.expected_reward)?;
                row.write(out)?;
            }
            if more_actions > 0 {
                writeln!(out, "  … and {more_actions} more actions (--all lists them)")?;
            }
        }
        Ok(())
    }
}

impl Row {
    /// Writes a line for each successor. Rewards are shown where they depend on the successor.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let rewarded = self.successors.iter().any(|successor| successor.reward != 0.0);
        for Successor { name, probability, reward, .. } in &self.successors {
            write!(out, "    {probability:<8} to {}", escaped(name))?;
            if rewarded {
                write!(out, ", reward {}", reward + self.action_reward)?;
            }
            writeln!(out)?;
        }
        if let Some(probability) = self.more_probability {
            let more = self.more_successors;
            writeln!(out, "    {probability:<8} to {more} more states (--all lists them)")?;
        }
        if self.end > 0.0 {
            writeln!(out, "    {:<8} the process ends", self.end)?;
        }
        Ok(())
    }
}
