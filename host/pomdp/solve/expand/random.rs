//! Walks with random actions, and what other walks share with them.

use rand_chacha::rand_core::Rng;

use super::super::search::Search;
use warpkov_common::random::{below, draw, unit};

/// Largest fraction of the discounted horizon beyond the end of a walk.
const TAIL: f64 = 0.01;

/// Probability of a random action on a walk.
pub const EXPLORED: f64 = 0.1;

/// Default maximum length of a walk: log 0.01 / log γ, clamped to 1 … 10 000.
#[must_use]
pub fn steps(gamma: f64) -> u32 {
    (TAIL.ln() / gamma.ln()).clamp(1.0, 10_000.0) as u32
}

/// Up to `count` nodes of a walk that restarts at b₀ after each step with probability 1 − γ.
pub fn walk(search: &mut Search, random: &mut impl Rng, count: usize) -> Vec<u32> {
    let mut nodes = Vec::with_capacity(count);
    let mut node = search.root;
    for _ in 0..count {
        if search.late() {
            break;
        }
        let action = below(random, u64::from(search.model.actions())) as u32;
        let successors = search.successors(node, action);
        let drawn = draw(random, successors.iter().enumerate().map(|(i, (_, prob, _))| (i, *prob)));
        let next = drawn.map(|i| successors[i].2.clone());
        node = next.map_or(search.root, |belief| search.intern(belief));
        nodes.push(node);
        if unit(random) > search.model.gamma() {
            node = search.root;
        }
    }
    nodes
}
