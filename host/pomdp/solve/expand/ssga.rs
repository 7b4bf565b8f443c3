//! Stochastic simulation with greedy action (Pineau, Gordon and Thrun, *Journal of Artificial Intelligence Research*
//! 27, 2006, 4.2).
//!
//! The action may also be the best by the upper bound, as in heuristic search (Smith and Simmons, *UAI*, 2005).

use rand_chacha::rand_core::Rng;

use super::super::branch::first_largest;
use super::super::search::Search;
use super::random::{EXPLORED, steps};
use crate::alpha::VectorSet;
use warpkov_common::random::{below, draw, unit};

/// The nodes of a walk from b₀ of at most `longest` steps, b₀ first. It takes the action of the best vector, or the
/// best by the upper bound if `optimistic`.
pub fn walk(search: &mut Search, random: &mut impl Rng, optimistic: bool, longest: usize) -> Vec<u32> {
    let mut node = search.root;
    let mut nodes = vec![node];
    for _ in 0..longest.min(steps(search.model.gamma()) as usize) {
        if search.late() {
            break;
        }
        let best = if optimistic {
            let uppers: Vec<f64> = search.intervals(node).iter().map(|interval| interval.upper).collect();
            first_largest(&uppers).unwrap_or_default() as u32
        } else {
            search.lower(node);
            search.lower_bound.vectors.action(search.graph.nodes[node as usize].vector as usize)
        };
        let explored = unit(random) < EXPLORED;
        let any = below(random, u64::from(search.model.actions())) as u32;
        let action = if explored { any } else { best };
        let successors = search.successors(node, action);
        let Some(next) = draw(random, successors.iter().enumerate().map(|(i, (_, prob, _))| (i, *prob))) else { break };
        node = search.intern(successors[next].2.clone());
        nodes.push(node);
    }
    nodes
}
