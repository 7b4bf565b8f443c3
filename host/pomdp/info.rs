//! The description of a model, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::model::Pomdp;
use warpkov_common::guard::{Warning, counted, write_warnings};
use warpkov_common::names::{distribution, name, named};
use warpkov_common::parameters::SUM_TOLERANCE;
use warpkov_common::report::{Report, write_object};
use warpkov_common::terminal::escaped;
use warpkov_mdp::info::{RowStatistics, dense_bytes, range, write_memory, write_objective};
use warpkov_mdp::model::Objective;

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
    transitions: RowStatistics,
    /// Whether every action leads from every state to exactly one state.
    deterministic: bool,
    observation: RowStatistics,
    /// Whether action and observation determine the state.
    observed: bool,
    /// Least and largest r(s, a).
    rewards: Option<[f64; 2]>,
    /// Whether any reward depends on the successor.
    transition_rewards: bool,
    /// Bytes of the arrays in memory.
    bytes: usize,
    /// Bytes of T and O as dense matrices of `f64`, at most 2⁶⁴ − 1.
    dense_bytes: u64,
    /// What looks wrong.
    warnings: Vec<Warning>,
}

impl From<&Pomdp> for Info {
    fn from(model: &Pomdp) -> Self {
        let process = model.process();
        let transitions = RowStatistics::from(process.transitions());
        Self {
            states: model.states(),
            actions: model.actions(),
            observations: model.observation_count(),
            gamma: model.gamma(),
            objective: process.objective(),
            start: model.start().states().len(),
            deterministic: transitions.longest_row == 1,
            transitions,
            observation: RowStatistics::from(model.observations()),
            observed: observed(model),
            rewards: range(&model.expected_rewards()),
            transition_rewards: process.rewards().nnz() > 0,
            bytes: model.bytes(),
            dense_bytes: dense_bytes(process.transitions(), model.states())
                .saturating_add(dense_bytes(model.observations(), model.observation_count())),
            warnings: warnings(model),
        }
    }
}

/// What looks wrong in a model.
fn warnings(model: &Pomdp) -> Vec<Warning> {
    let (states, actions, names) = (model.states(), model.actions(), model.names());
    let state = |s: u32| escaped(&name(&names.states, s));
    let action = |a: u32| escaped(&name(&names.actions, a));
    let (reached, seen) = reachable(model);
    let rewards = model.expected_rewards();
    let seen_as = |s: u32| (0..actions).map(move |a| model.observed(a, s));
    let tells_nothing = states > 1 && (1..states).all(|s| seen_as(s).eq(seen_as(0)));
    [
        Warning::new("unreachable-states", (0..states).filter(|&s| !reached[s as usize]).map(state), |count, list| {
            format!("no actions lead from the start to {}: {list}", counted(count, "state"))
        }),
        Warning::new("copied-actions", copies(model, &rewards).map(|[a, b]| format!("{} = {}", action(b), action(a))), |count, list| {
            format!("{} have the transitions, observations and rewards of another one: {list}", counted(count, "action"))
        }),
        Warning::new(
            "unseen-observations",
            (0..model.observation_count()).filter(|&o| !seen[o as usize]).map(|o| escaped(&name(&names.observations, o))),
            |count, list| format!("no state that can be reached gives {}: {list}", counted(count, "observation")),
        ),
        Warning::new("uninformative", tells_nothing.then(|| "O".to_owned()), |_, _| {
            "observations have the same probabilities in all states: they tell nothing".to_owned()
        }),
        Warning::new("fully-observed", (states > 1 && observed(model)).then(|| "O".to_owned()), |_, _| {
            "observations tell the state: an MDP, which `warpkov mdp solve` solves exactly".to_owned()
        }),
        Warning::new("no-reward", rewards.iter().all(|r| *r == 0.0).then(|| "R".to_owned()), |_, _| {
            "all rewards are 0: every policy is optimal".to_owned()
        }),
        Warning::new("transposed", (0..actions).filter(|&a| reads_both_ways(model, a)).map(action), |count, list| {
            format!(
                "the transition matrices of {} have columns that sum to 1 as their rows do: expected T(s, a, s') from s \
                 to s', not the transpose: {list}",
                counted(count, "action")
            )
        }),
        Warning::new("state-major", looks_state_major(model).then(|| "Z".to_owned()), |_, _| {
            "rows of O look ordered by state first: expected all states of action 0, then those of action 1".to_owned()
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The states that some actions lead to from the start, and the observations that they give.
fn reachable(model: &Pomdp) -> (Vec<bool>, Vec<bool>) {
    let (mut reached, mut seen) =
        (vec![false; model.states() as usize], vec![false; model.observation_count() as usize]);
    let mut open: Vec<u32> = model.start().states().to_vec();
    open.iter().for_each(|&s| reached[s as usize] = true);
    while let Some(from) = open.pop() {
        for a in 0..model.actions() {
            let (next, probs) = model.successors(from, a);
            for (&to, _) in next.iter().zip(probs).filter(|(_, p)| **p > 0.0) {
                let (observations, probs) = model.observed(a, to);
                observations.iter().zip(probs).filter(|(_, p)| **p > 0.0).for_each(|(&o, _)| seen[o as usize] = true);
                if !std::mem::replace(&mut reached[to as usize], true) {
                    open.push(to);
                }
            }
        }
    }
    (reached, seen)
}

/// Pairs of an action and a later one with equal transitions, observations and rewards.
fn copies(model: &Pomdp, rewards: &[f64]) -> impl Iterator<Item = [u32; 2]> {
    let actions = model.actions();
    let reward = move |s: u32, a: u32| rewards[s as usize * actions as usize + a as usize];
    let equal = move |a: u32, b: u32| {
        (0..model.states()).all(|s| {
            reward(s, a) == reward(s, b)
                && model.successors(s, a) == model.successors(s, b)
                && model.observed(a, s) == model.observed(b, s)
        })
    };
    (1..actions).filter_map(move |b| (0..b).find(|&a| equal(a, b)).map(|a| [a, b]))
}

/// Whether the matrix T(·, a, ·) differs from its transpose, and its columns sum to 1.
fn reads_both_ways(model: &Pomdp, action: u32) -> bool {
    let mut sums = vec![0.0; model.states() as usize];
    let mut symmetric = true;
    for s in 0..model.states() {
        let (next, probs) = model.successors(s, action);
        for (&to, &p) in next.iter().zip(probs) {
            sums[to as usize] += p;
            let (back, returns) = model.successors(to, action);
            symmetric &= p == back.binary_search(&s).map_or(0.0, |at| returns[at]);
        }
    }
    !symmetric && sums.iter().all(|sum| (sum - 1.0).abs() <= SUM_TOLERANCE)
}

/// Whether O depends on the action, but would not if its rows were ordered by the state first.
fn looks_state_major(model: &Pomdp) -> bool {
    let (states, actions, rows) = (model.states() as usize, model.actions() as usize, model.observations());
    let depends = (states..states * actions).any(|row| rows.row(row) != rows.row(row % states));
    depends && states > 1 && (0..states * actions).all(|row| rows.row(row) == rows.row(row - row % actions))
}

/// What one state does: for each action the reward, the successors and the observations that these give.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The state's number, from 0.
    state: u32,
    /// Its name, or its number.
    name: String,
    /// b₀(s).
    start: f64,
    actions: Vec<Choice>,
    /// For each action, O(a, s, ·): the observations that the action gives where it leads to this state.
    observations: Vec<Seen>,
}

/// What an action does in a state.
#[derive(Clone, Debug, Serialize)]
struct Choice {
    action: String,
    /// r(s, a).
    reward: f64,
    /// The positive T(s, a, s'), by the names of the states s'.
    transitions: Vec<(String, f64)>,
}

/// What is observed when an action has led to a state.
#[derive(Clone, Debug, Serialize)]
struct Seen {
    action: String,
    /// The positive O(a, s', o), by the names of the observations o.
    observations: Vec<(String, f64)>,
}

impl Row {
    /// The row of a state of the model.
    #[must_use]
    pub fn new(model: &Pomdp, state: u32) -> Self {
        let (rewards, names) = (model.expected_rewards(), model.names());
        let named = |(indices, probs): (&[u32], &[f64]), names: &[String]| named(indices.iter().copied(), probs, names);
        let action = |a: u32| name(&names.actions, a);
        let choice = |a: u32| Choice {
            action: action(a),
            reward: rewards[state as usize * model.actions() as usize + a as usize],
            transitions: named(model.successors(state, a), &names.states),
        };
        let seen =
            |a: u32| Seen { action: action(a), observations: named(model.observed(a, state), &names.observations) };
        let start = model.start().iter().find(|(s, _)| *s == state).map_or(0.0, |(_, p)| p);
        let (actions, observations) =
            ((0..model.actions()).map(choice).collect(), (0..model.actions()).map(seen).collect());
        Self { state, name: name(&names.states, state), start, actions, observations }
    }
}

impl Report for Row {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_object(out, self)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "State {}, {}", self.state, escaped(&self.name))?;
        writeln!(out, "  starts with    {}", self.start)?;
        for Choice { action, reward, transitions } in &self.actions {
            writeln!(out, "  {}: reward {reward}, leads to {}", escaped(action), distribution(transitions))?;
        }
        for Seen { action, observations } in &self.observations {
            writeln!(out, "  reached by {}: gives {}", escaped(action), distribution(observations))?;
        }
        Ok(())
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
        write_memory(out, self.bytes, self.dense_bytes)?;
        write_warnings(out, &self.warnings)
    }
}
