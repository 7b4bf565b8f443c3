//! Guards: what looks wrong in a model, so that nobody solves another model than the one meant.
//!
//! A [`Warning`] is a hint and not an error: for each of them there are models that are right. [`inspect`] names
//! everything; [`inspect_quickly`] names what most likely means a wrong file, in about the time of reading the rewards
//! once.

use rayon::prelude::*;
use warpkov_common::parallel;

use crate::model::{CHUNK, Choices, Mdp};
use warpkov_common::choice::{Choice, choice};
pub use warpkov_common::guard::Warning;
use warpkov_common::guard::{EXAMPLES, listed};
use warpkov_common::terminal::escaped;

mod actions;
mod order;
mod rewards;
mod states;

pub use order::{looks_action_major, rewards_look_action_major};

choice! {
    /// What looks wrong.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// Rows seem to be in the order a·S + s, and are read in the order s·A + a.
        ActionMajor = "action-major",
        /// Rewards of actions seem to be in the order a·S + s, and are read in the order s·A + a.
        ActionMajorRewards = "action-major-rewards",
        /// There are as many actions as states: the first two indices of a table of P could be exchanged.
        Exchangeable = "exchangeable-indices",
        /// Columns of P sum to 1 as rows do: the transpose would pass as well.
        DoublyStochastic = "doubly-stochastic",
        /// All rewards are 0.
        NoReward = "no-reward",
        /// No value can be as large as ε.
        LargeEpsilon = "large-epsilon",
        /// Some rewards change no value by ε.
        SmallRewards = "small-rewards",
        /// Some rewards are below the rounding errors of the values in f32.
        WideRewards = "wide-rewards",
        /// γ is 1, which the discounted criterion does not allow.
        Undiscounted = "undiscounted",
        /// States that no action leaves.
        Stuck = "stuck-states",
        /// States that the process cannot reach.
        Unreachable = "unreachable-states",
        /// Actions that are copies of another action.
        CopiedActions = "copied-actions",
    }
}

/// What a solve is about to do, as far as warnings depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Purpose {
    /// Whether rewards count.
    pub rewards: bool,
    /// ε, if it is absolute and values are discounted.
    pub epsilon: Option<f64>,
}

impl Default for Purpose {
    fn default() -> Self {
        Self { rewards: true, epsilon: Some(1e-6) }
    }
}

/// Everything that looks wrong, the most serious first. Takes O(nnz) time on all cores.
#[must_use]
pub fn inspect(mdp: &Mdp, purpose: Purpose) -> Vec<Warning> {
    let mut found = inspect_quickly(mdp, purpose);
    if purpose.rewards
        && !found.iter().any(|warning| [Kind::NoReward.name(), Kind::LargeEpsilon.name()].contains(&warning.kind))
    {
        found.extend(rewards::small(mdp, purpose.epsilon));
        found.extend(rewards::wide(mdp));
    }
    found.extend(order::exchangeable(mdp));
    found.extend(order::doubly_stochastic(mdp));
    found.extend(undiscounted(mdp));
    found.extend(states::stuck(mdp));
    found.extend(states::unreachable(mdp));
    found.extend(actions::copied(mdp));
    found
}

/// What most likely means a wrong file.
#[must_use]
pub fn inspect_quickly(mdp: &Mdp, purpose: Purpose) -> Vec<Warning> {
    let mut found = Vec::new();
    found.extend(order::action_major(mdp));
    if purpose.rewards {
        found.extend(order::action_major_rewards(mdp));
        found.extend(rewards::none(mdp).or_else(|| rewards::below_epsilon(mdp, purpose.epsilon)));
    }
    found
}

fn undiscounted(mdp: &Mdp) -> Option<Warning> {
    (mdp.gamma() == 1.0).then(|| Warning {
        kind: Kind::Undiscounted.name(),
        count: 1,
        examples: Vec::new(),
        message: "gamma is 1: the discounted criterion needs gamma below 1 (option gamma), or choose an undiscounted \
                  criterion or a horizon"
            .to_owned(),
    })
}

/// The number of things for which `holds`, and the first of them.
fn census(count: usize, holds: impl Fn(usize) -> bool + Sync) -> (usize, Vec<usize>) {
    let of_chunk = |first: usize| {
        let found: Vec<_> = (first..count.min(first + CHUNK)).filter(|&thing| holds(thing)).collect();
        (found.len(), found.into_iter().take(EXAMPLES).collect::<Vec<_>>())
    };
    let chunks = parallel::map(0..count.div_ceil(CHUNK), |chunk| of_chunk(chunk * CHUNK));
    chunks.into_iter().fold((0, Vec::new()), |(count, mut first), (more, found)| {
        first.extend(found.into_iter().take(EXAMPLES - first.len()));
        (count + more, first)
    })
}

/// The names of states.
fn state_names(mdp: &Mdp, states: &[usize]) -> Vec<String> {
    states.iter().map(|&state| mdp.state_name(state as u32)).collect()
}

/// The name of a row: its state and its action.
fn row_name(mdp: &Mdp, row: usize) -> String {
    let state = mdp.choices().state_of(row);
    let action = row - mdp.choices().first(state);
    escaped(&format!("state {}, action {}", mdp.state_name(state as u32), mdp.action_name(state as u32, action as u32)))
}

/// The number of actions, if it is the same for all states.
fn uniform(mdp: &Mdp) -> Option<usize> {
    match mdp.choices() {
        Choices::Uniform(actions) => Some(*actions as usize),
        Choices::Ragged(offsets) => {
            let count = mdp.choices().count(0);
            let equal = |ends: &[u64]| (ends[1] - ends[0]) as usize == count;
            (mdp.states() > 0 && offsets.par_windows(2).with_min_len(CHUNK).all(equal)).then_some(count)
        }
    }
}

/// Whether a row leads to its state with probability 1.
fn stays(mdp: &Mdp, row: usize, state: usize) -> bool {
    let (successors, probs) = mdp.transitions().row(row);
    mdp.end(row) == 0.0 && successors.iter().zip(probs).all(|(&next, &p)| next as usize == state || p == 0.0)
}
