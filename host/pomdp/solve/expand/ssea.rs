//! Stochastic simulation with exploratory action (Pineau, Gordon and Thrun, *Journal of Artificial Intelligence
//! Research* 27, 2006, 4.3).

use rand_chacha::rand_core::Rng;
use rayon::prelude::*;

use super::super::search::Search;
use crate::belief::Belief;
use warpkov_common::random::{below, draw};

/// For each of up to `count` beliefs of B: draws one successor per action, and adds the one farthest from B in the
/// 1-norm.
pub fn farthest(search: &mut Search, random: &mut impl Rng, count: usize) -> Vec<u32> {
    let mut nodes = Vec::new();
    for source in chosen(search, random, count) {
        if search.late() {
            break;
        }
        let mut candidates = Vec::new();
        for action in 0..search.model.actions() {
            let successors = search.successors(source, action);
            let drawn = draw(random, successors.iter().enumerate().map(|(i, (_, prob, _))| (i, *prob)));
            candidates.extend(drawn.map(|i| successors[i].2.clone()));
        }
        let (known, nodes_of) = (&search.points, &search.graph.nodes);
        let distance = |belief: &Belief| {
            let distances = known.par_iter().map(|&node| nodes_of[node as usize].belief.distance(belief));
            distances.reduce(|| f64::INFINITY, f64::min)
        };
        let farthest = candidates.iter().map(|belief| (belief, distance(belief)));
        let farthest = farthest.reduce(|best, next| if next.1 > best.1 { next } else { best });
        if let Some((belief, distance)) = farthest
            && distance > 0.0
        {
            let node = search.intern(belief.clone());
            search.add_point(node);
            nodes.push(node);
        }
    }
    nodes
}

/// Up to `count` distinct random nodes of B.
pub(super) fn chosen(search: &Search, random: &mut impl Rng, count: usize) -> Vec<u32> {
    let mut nodes = search.points.clone();
    for i in 0..count.min(nodes.len()) {
        let other = i + below(random, (nodes.len() - i) as u64) as usize;
        nodes.swap(i, other);
    }
    nodes.truncate(count);
    nodes
}
