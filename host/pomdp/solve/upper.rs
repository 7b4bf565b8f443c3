//! The upper bound: interpolation between beliefs with known bounds, the sawtooth points, and the fast informed bound.

use super::bounds::ActionValues;
use super::bounds::sawtooth::Sawtooth;
use super::branch::first_largest;
use super::graph::{NONE, Node};
use crate::belief::Belief;
use crate::model::Pomdp;

/// What the upper bound at any belief is computed from.
pub struct UpperBound {
    /// Upper bound on the optimal value of the underlying MDP, per state.
    pub seen: Vec<f64>,
    /// Fast informed bound Q(s, a): its expectation at b is an upper bound on Q(b, a).
    pub informed: ActionValues,
    /// Upper bounds at beliefs, interpolated.
    pub sawtooth: Sawtooth,
    /// Number of sawtooth points after their last pruning.
    pub pruned: usize,
    /// Bound on the rounding errors.
    pub slack: f64,
}

impl UpperBound {
    /// The upper bound at a node, with all sawtooth points.
    #[must_use]
    pub fn at(&self, node: &Node) -> f64 {
        match node.read == self.sawtooth.time() {
            true => node.upper,
            false => self.sawtooth.bound(&node.belief, node.upper, node.read),
        }
    }

    /// The fast informed bound at a belief.
    #[must_use]
    pub fn informed(&self, belief: &Belief) -> f64 {
        informed_bound(&self.informed, self.informed.len() / self.seen.len(), belief)
    }

    /// Makes `value`, which is `drop` above the bound of the vertices, the upper bound at a belief and its node.
    pub fn put(&mut self, node: &mut Node, belief: &Belief, value: f64, drop: f64) {
        node.upper = value;
        node.point = self.sawtooth.put(belief, drop, number(node)).unwrap_or(NONE);
    }

    /// Lowers the upper bound at a node to `value`.
    pub fn lower(&mut self, node: &mut Node, value: f64) {
        node.upper = value;
        node.point = self.sawtooth.lower(&node.belief, value, number(node)).unwrap_or(NONE);
    }

    /// The optimal action of the underlying MDP in a state. `rewards` holds r(s, a) at s·A + a.
    #[must_use]
    pub fn best_seen(&self, model: &Pomdp, rewards: &[f64], state: u32) -> u32 {
        let actions = model.actions();
        let factor = |action: u32| {
            let (successors, probs) = model.successors(state, action);
            let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * self.seen[s as usize]).sum();
            rewards[(state * actions + action) as usize] + model.gamma() * next
        };
        first_largest(&(0..actions).map(factor).collect::<Vec<_>>()).unwrap_or_default() as u32
    }
}

/// The number of a node's sawtooth point.
fn number(node: &Node) -> Option<u32> {
    (node.point != NONE).then_some(node.point)
}

/// maxₐ Σ b(s) Q(s, a).
pub(super) fn informed_bound(informed: &ActionValues, actions: usize, belief: &Belief) -> f64 {
    let mut sums = vec![0.0; actions];
    for (state, prob) in belief.iter() {
        let factors = &informed[state as usize * actions..][..actions];
        sums.iter_mut().zip(factors).for_each(|(sum, factor)| *sum += prob * factor);
    }
    sums.into_iter().fold(f64::NEG_INFINITY, f64::max)
}
