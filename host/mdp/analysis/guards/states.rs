//! States that no action leaves, and states that nothing reaches.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::{Kind, Warning, census, listed, state_names, stays};
use crate::model::{CHUNK, Mdp};
use warpkov_common::choice::Choice;

/// States that all their actions leave alone. A state with a label other than "init", or with a special meaning in a
/// grid, is expected to be so.
pub(super) fn stuck(mdp: &Mdp) -> Option<Warning> {
    let expected = expected(mdp);
    let is_stuck = |state: usize| {
        let mut rows = mdp.choices().rows(state);
        !rows.is_empty() && !expected[state] && rows.all(|row| stays(mdp, row, state))
    };
    let (count, first) = census(mdp.states() as usize, is_stuck);
    if count == 0 {
        return None;
    }
    let earns = |state: usize| {
        let mut rows = mdp.choices().rows(state);
        rows.any(|row| mdp.action_reward(row) != 0.0 || mdp.rewards_of(row).any(|reward| reward != 0.0))
    };
    let (paid, _) = census(mdp.states() as usize, |state| is_stuck(state) && earns(state));
    let examples = state_names(mdp, &first);
    let (states, are) = if count == 1 { ("state", "is") } else { ("states", "are") };
    let paid = match paid {
        0 => String::new(),
        paid if paid == count => ", and earn rewards there for ever".to_owned(),
        paid => format!(", and {paid} of them earn rewards there for ever"),
    };
    let message = format!(
        "{count} {states} {are} left by no action: {}. All actions lead back with probability 1{paid}. If they are ends, \
         give them a label (such as \"goal\") or no actions; else check their rows (option show)",
        listed(&examples, count),
    );
    Some(Warning { kind: Kind::Stuck.name(), count, examples, message })
}

/// States that may well have no way out: those with labels, and the goal and the walls of a grid.
fn expected(mdp: &Mdp) -> Vec<bool> {
    let mut expected = vec![false; mdp.states() as usize];
    let labelled = mdp.labels().iter().filter(|(label, _)| *label != "init").flat_map(|(_, states)| states);
    labelled.for_each(|&state| expected[state as usize] = true);
    if let Some(grid) = mdp.grid() {
        grid.walls.iter().for_each(|&state| expected[state as usize] = true);
        if let Some(goal) = expected.get_mut(grid.goal as usize) {
            *goal = true;
        }
    }
    expected
}

/// States that no path from the initial states reaches; without initial states, those that no other state leads to.
pub(super) fn unreachable(mdp: &Mdp) -> Option<Warning> {
    let starts = mdp.labels().get("init").filter(|states| !states.is_empty());
    let walls = |state: usize| mdp.grid().is_some_and(|grid| grid.walls.binary_search(&(state as u32)).is_ok());
    let reached = match starts {
        Some(starts) => reachable(mdp, starts),
        None => entered(mdp),
    };
    let (count, first) = census(reached.len(), |state| !reached[state] && !walls(state));
    if count == 0 || (starts.is_none() && mdp.states() == 1) {
        return None;
    }
    let examples = state_names(mdp, &first);
    let (states, list) = (if count == 1 { "state" } else { "states" }, listed(&examples, count));
    let message = match starts {
        Some(starts) => format!(
            "{count} {states} cannot be reached from the {} of label init: {list}. Their values are right but play no part; \
             check the rows that should lead there",
            if starts.len() == 1 { "state" } else { "states" },
        ),
        None => format!(
            "no other state leads to {count} {states}: {list}. That is right if the process begins there (label init says \
             so); else check the rows that should lead there"
        ),
    };
    Some(Warning { kind: Kind::Unreachable.name(), count, examples, message })
}

/// The states that some path from `starts` reaches.
fn reachable(mdp: &Mdp, starts: &[u32]) -> Vec<bool> {
    let mut reached = vec![false; mdp.states() as usize];
    let mut stack = starts.to_vec();
    stack.iter().for_each(|&state| reached[state as usize] = true);
    while let Some(state) = stack.pop() {
        for row in mdp.choices().rows(state as usize) {
            let (successors, probs) = mdp.transitions().row(row);
            for (&next, &p) in successors.iter().zip(probs) {
                if p > 0.0 && !std::mem::replace(&mut reached[next as usize], true) {
                    stack.push(next);
                }
            }
        }
    }
    reached
}

/// The states that another state leads to.
fn entered(mdp: &Mdp) -> Vec<bool> {
    let states = mdp.states() as usize;
    let entered: Vec<AtomicBool> = (0..states).map(|_| AtomicBool::new(false)).collect();
    (0..states).into_par_iter().with_min_len(CHUNK).for_each(|state| {
        for row in mdp.choices().rows(state) {
            let (successors, probs) = mdp.transitions().row(row);
            let others = successors.iter().zip(probs).filter(|(next, p)| **p > 0.0 && **next as usize != state);
            others.for_each(|(&next, _)| entered[next as usize].store(true, Ordering::Relaxed));
        }
    });
    entered.into_iter().map(AtomicBool::into_inner).collect()
}
