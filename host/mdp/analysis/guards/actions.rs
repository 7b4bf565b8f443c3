//! Actions that are copies of another one.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::{EXAMPLES, Kind, Warning, listed, stays};
use crate::model::{CHUNK, Mdp};
use warpkov_common::choice::Choice;
use warpkov_common::terminal::escaped;

/// Least share of the states that have both actions, and do not stay, in which a copy equals the other action.
const SHARE: f64 = 0.95;

/// Most pairs of actions that are counted.
const PAIRS: usize = 1 << 12;

/// Actions that equal an earlier one in (nearly) all states that have both. States that no action leaves do not count.
/// Actions with the same name, or without names with the same number, are one action.
pub(super) fn copied(mdp: &Mdp) -> Option<Warning> {
    let states = mdp.states() as usize;
    let mut candidates = pairs(mdp, (0..states).step_by((states / 64).max(1)));
    candidates.retain(|_, share| share.is_copy());
    if candidates.is_empty() {
        return None;
    }
    let chunks: Vec<_> = (0..states.div_ceil(CHUNK))
        .into_par_iter()
        .map(|chunk| pairs(mdp, chunk * CHUNK..states.min((chunk + 1) * CHUNK)))
        .collect();
    let mut all: BTreeMap<(u32, u32), Share> = BTreeMap::new();
    for (pair, share) in chunks.into_iter().flatten().filter(|(pair, _)| candidates.contains_key(pair)) {
        let sum = all.entry(pair).or_default();
        *sum = Share { equal: sum.equal + share.equal, both: sum.both + share.both };
    }
    // The first action that it equals, for each copy.
    let mut copies: BTreeMap<u32, (u32, Share)> = BTreeMap::new();
    for ((first, second), share) in all.into_iter().filter(|(_, share)| share.is_copy()) {
        copies.entry(second).or_insert((first, share));
    }
    let count = copies.len();
    if count == 0 {
        return None;
    }
    let name = |action: u32| match mdp.action_names() {
        Some(names) => escaped(&names.names[action as usize]),
        None => action.to_string(),
    };
    let sentence = |(copy, (original, Share { equal, both })): (&u32, &(u32, Share))| {
        format!("{} equals {} in {equal} of {both} states", name(*copy), name(*original))
    };
    let examples: Vec<_> = copies.iter().take(EXAMPLES).map(sentence).collect();
    let (actions, are) = if count == 1 { ("action", "is a copy") } else { ("actions", "are copies") };
    let message = format!(
        "{count} {actions} {are} of another one, with the same successors and rewards: {}. Check whether a table was \
         written twice",
        listed(&examples, count),
    );
    Some(Warning { kind: Kind::CopiedActions.name(), count, examples, message })
}

/// States in which two actions are equal, and states that have both.
#[derive(Clone, Copy, Default)]
struct Share {
    equal: u64,
    both: u64,
}

impl Share {
    fn is_copy(self) -> bool {
        self.equal > 0 && self.equal as f64 >= SHARE * self.both as f64
    }
}

/// The shares of pairs of actions, the earlier one first, over these states.
fn pairs(mdp: &Mdp, states: impl Iterator<Item = usize>) -> BTreeMap<(u32, u32), Share> {
    let mut found: BTreeMap<(u32, u32), Share> = BTreeMap::new();
    for state in states {
        let rows = mdp.choices().rows(state);
        if rows.len() < 2 || rows.clone().all(|row| stays(mdp, row, state)) {
            continue;
        }
        let identity = |row: usize| mdp.action_names().map_or((row - rows.start) as u32, |names| names.of_row[row]);
        for first in rows.clone() {
            for second in first + 1..rows.end {
                let (a, b) = (identity(first), identity(second));
                let pair = (a.min(b), a.max(b));
                if a == b || (found.len() >= PAIRS && !found.contains_key(&pair)) {
                    continue;
                }
                let share = found.entry(pair).or_default();
                share.both += 1;
                share.equal += u64::from(equal(mdp, first, second));
            }
        }
    }
    found
}

/// Whether two rows have the same successors, probabilities and rewards.
fn equal(mdp: &Mdp, first: usize, second: usize) -> bool {
    mdp.transitions().row(first) == mdp.transitions().row(second)
        && mdp.end(first) == mdp.end(second)
        && mdp.action_reward(first) == mdp.action_reward(second)
        && mdp.rewards_of(first).eq(mdp.rewards_of(second))
}
