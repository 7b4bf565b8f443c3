//! Walks with random actions.

use rand_chacha::rand_core::Rng;

use super::super::search::Search;
use warpkov_common::random::{below, draw, unit};

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
