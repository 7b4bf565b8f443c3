//! Heuristic search value iteration (Smith and Simmons, *UAI*, 2005) and SARSOP (Kurniawati, Hsu and Lee, *RSS*, 2008):
//! one trial from b₀ down to a small gap.

use std::collections::HashMap;

use super::super::branch::{Branch, first_largest};
use super::super::graph::{Child, Edge, Node};
use super::super::search::Search;

/// Initial length limit of a trial, in steps.
pub const DEEPEST: usize = 500;

/// Fraction of the gap at b₀ that a trial aims for.
const TARGET_FRACTION: f64 = 0.5;

/// SARSOP's value predictions: the mean lower bound of beliefs with a similar upper bound and a similar
/// entropy.
#[derive(Default)]
pub struct Predictions {
    bins: HashMap<(i64, i64), (f64, u32)>,
}

impl Predictions {
    /// The bin of a belief: its upper bound relative to the largest value, and its entropy relative to the largest
    /// entropy.
    fn bin(search: &Search, node: u32) -> (i64, i64) {
        let node = &search.graph.nodes[node as usize];
        let entropy: f64 = node.belief.probs().iter().map(|p| -p * p.ln()).sum();
        let most = f64::from(search.model.states()).ln().max(1e-9);
        ((50.0 * node.upper / search.magnitude.max(1e-300)) as i64, (20.0 * entropy / most) as i64)
    }

    /// Predicted V\* of a node.
    fn predict(&self, search: &Search, node: u32) -> f64 {
        let known = self.bins.get(&Self::bin(search, node));
        known.map_or(search.graph.nodes[node as usize].upper, |(sum, count)| sum / f64::from(*count))
    }

    fn learn(&mut self, search: &Search, node: u32) {
        let bin = self.bins.entry(Self::bin(search, node)).or_default();
        bin.0 += search.graph.nodes[node as usize].lower;
        bin.1 += 1;
    }
}

/// The nodes of one trial, b₀ first. With `predictions`, the trial continues while it may raise the lower bound at b₀
/// (SARSOP); without, while the gap exceeds its target (HSVI). It has at most `deepest` steps. It follows the
/// observation with the largest weighted excess gap, divided by 1 + the number of `visits` of its node since the last
/// progress; or another one as `branch` chooses.
pub fn trial(
    search: &mut Search,
    mut predictions: Option<&mut Predictions>,
    target: f64,
    deepest: usize,
    visits: &HashMap<u32, u32>,
    mut branch: Branch,
) -> Vec<u32> {
    let gamma = search.model.gamma();
    let mut node = search.root;
    let mut path = Vec::new();
    let (root_lower, root_upper) = (search.lower(node), search.upper(node));
    let epsilon = (TARGET_FRACTION * (root_upper - root_lower)).max(target / 2.0);
    let (mut least, mut most) = (root_lower, root_lower + epsilon);
    let mut scale = 1.0;
    while path.len() < deepest && !search.late() {
        let (lower, upper) = (search.lower(node), search.upper(node));
        let allowed = epsilon * scale;
        let promising = match &mut predictions {
            Some(predictions) => {
                predictions.learn(search, node);
                predictions.predict(search, node) > least || upper > most.max(lower + allowed)
            }
            None => true,
        };
        if !promising || upper - lower <= allowed {
            break;
        }
        path.push(node);
        let intervals = search.intervals(node);
        let uppers: Vec<f64> = intervals.iter().map(|interval| interval.upper).collect();
        let Some(edge) = first_largest(&uppers) else { break };
        let best_lower = intervals.iter().map(|interval| interval.lower).fold(f64::NEG_INFINITY, f64::max);
        least = least.max(best_lower);
        most = most.max(best_lower + allowed);
        let Edge { reward, ref children, .. } = search.graph.nodes[node as usize].edges[edge];
        let gap = |child: &Child| {
            let node = &search.graph.nodes[child.node as usize];
            let visits = visits.get(&child.node).copied().unwrap_or_default();
            child.prob * (node.upper - node.lower - allowed / gamma) / f64::from(1 + visits)
        };
        // The last of the largest is the best.
        let gaps: Vec<f64> = children.iter().rev().map(gap).collect();
        let Some(next) = branch.choose(&gaps).map(|i| &children[children.len() - 1 - i]) else { break };
        // Subtracts the contributions of the other observations from the targets.
        let others = |value: fn(&Node) -> f64| -> f64 {
            let others = children.iter().filter(|child| child.node != next.node);
            others.map(|child| child.prob * value(&search.graph.nodes[child.node as usize])).sum()
        };
        let share = gamma * next.prob;
        least = (least - reward - gamma * others(|node| node.lower)) / share;
        most = (most - reward - gamma * others(|node| node.upper)) / share;
        node = next.node;
        scale /= gamma;
    }
    path
}
