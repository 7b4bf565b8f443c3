//! Stochastic simulation with greedy action (Pineau, Gordon and Thrun, *Journal of Artificial Intelligence Research* 27, 2006,
//! 4.2).

use rand_chacha::rand_core::Rng;

use super::super::search::Search;
use super::{EXPLORED, steps};
use crate::mdp::generate::{below, draw, unit};

/// Nodes of a walk from b₀ by the actions of the best vectors, b₀ first.
pub fn walk(search: &mut Search, random: &mut impl Rng) -> Vec<u32> {
    let mut node = search.root;
    let mut nodes = vec![node];
    for _ in 0..steps(search.model.gamma()) {
        search.lower(node);
        let vector = search.graph.nodes[node as usize].vector as usize;
        let explored = unit(random) < EXPLORED;
        let any = below(random, u64::from(search.model.actions())) as u32;
        let action = if explored { any } else { search.alpha().actions[vector] };
        let successors = search.successors(node, action);
        let Some(next) = draw(random, successors.iter().enumerate().map(|(i, (_, prob, _))| (i, *prob))) else { break };
        node = search.intern(successors[next].2.clone());
        nodes.push(node);
    }
    nodes
}
