//! The upper bound: interpolation between beliefs with known bounds, the sawtooth points, and the fast informed bound.

use rayon::prelude::*;

use super::bounds::ActionValues;
use super::bounds::sawtooth::Sawtooth;
use super::graph::{Child, Edge, NONE, Nodes};
use super::search::{Interval, PRODUCTS_PER_CHECK, Search, first_largest};
use crate::belief::Belief;

/// Work of comparing a belief with a sawtooth point, in multiplications.
const WORK_OF_POINT: u64 = 8;

/// Number of pairs of belief and sawtooth point that justifies parallel work.
const PARALLEL_POINTS: usize = 1 << 16;

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

impl Search<'_, '_> {
    /// The upper bound at a node, current with all sawtooth points.
    pub fn upper(&mut self, node: u32) -> f64 {
        let node = &mut self.graph.nodes[node as usize];
        if node.read == self.upper_bound.sawtooth.time() {
            return node.upper;
        }
        self.work += WORK_OF_POINT * u64::from(self.upper_bound.sawtooth.time() - node.read);
        node.upper = self.upper_bound.sawtooth.bound(&node.belief, node.upper, node.read);
        node.read = self.upper_bound.sawtooth.time();
        node.upper
    }

    /// Updates the upper bounds of nodes, in parallel if that pays.
    pub(super) fn update_upper_bounds(&mut self, mut nodes: Vec<u32>) {
        let time = self.upper_bound.sawtooth.time();
        nodes.sort_unstable();
        nodes.dedup();
        let points = |nodes: &Nodes, node: &u32| (time - nodes[*node as usize].read) as usize;
        let mut rest = &nodes[..];
        while !rest.is_empty() {
            let (mut work, mut taken) = (0, 0);
            while work < PRODUCTS_PER_CHECK / 8 && taken < rest.len() {
                work += points(&self.graph.nodes, &rest[taken]);
                taken += 1;
            }
            let (now, later) = rest.split_at(taken);
            rest = later;
            if work < PARALLEL_POINTS {
                now.iter().for_each(|&node| _ = self.upper(node));
            } else {
                let (nodes, sawtooth) = (&self.graph.nodes, &self.upper_bound.sawtooth);
                let bound = |&node: &u32| {
                    let node = &nodes[node as usize];
                    if node.read == time { node.upper } else { sawtooth.bound(&node.belief, node.upper, node.read) }
                };
                let bounds: Vec<f64> = now.par_iter().map(bound).collect();
                for (&node, bound) in now.iter().zip(bounds) {
                    let node = &mut self.graph.nodes[node as usize];
                    self.work += WORK_OF_POINT * u64::from(time - node.read);
                    (node.upper, node.read) = (bound, time);
                }
            }
            if !rest.is_empty() && self.clock.late() {
                return;
            }
        }
    }

    /// Lowers the upper bound at a belief to the bound of the vertices plus `drop`, if that is lower.
    pub fn add_upper(&mut self, belief: &Belief, drop: f64) {
        if drop >= 0.0 {
            return;
        }
        let value = self.upper_bound.sawtooth.base(belief) + drop;
        let Some(node) = self.graph.find(belief) else {
            let informed = informed_bound(&self.upper_bound.informed, self.model.actions() as usize, belief);
            if value < self.upper_bound.sawtooth.bound(belief, informed, 0) {
                self.upper_bound.sawtooth.put(belief, drop, None);
            }
            return;
        };
        if value < self.upper(node) {
            let node = &mut self.graph.nodes[node as usize];
            node.upper = value;
            node.point =
                self.upper_bound.sawtooth.put(belief, drop, (node.point != NONE).then_some(node.point)).unwrap_or(NONE);
        }
    }

    /// Upper bound on Q(b, a) from the stored bounds of the successors.
    pub(super) fn stored_upper_of(&self, edge: &Edge) -> f64 {
        let upper = |child: &Child| child.prob * self.graph.nodes[child.node as usize].upper;
        edge.reward + self.model.gamma() * edge.children.iter().map(upper).sum::<f64>()
    }

    /// Lowers the upper bound of a node to the largest upper bound of its actions. Returns the decrease.
    pub(super) fn reduce_upper(&mut self, node: u32, intervals: &[Interval]) -> f64 {
        let value = intervals.iter().map(|interval| interval.upper).fold(f64::NEG_INFINITY, f64::max);
        let known = self.upper(node);
        // `intervals` is empty if time ran out.
        if intervals.is_empty() || value >= known {
            return 0.0;
        }
        let node = &mut self.graph.nodes[node as usize];
        node.upper = value;
        let number = (node.point != NONE).then_some(node.point);
        node.point = self.upper_bound.sawtooth.lower(&node.belief, value, number).unwrap_or(NONE);
        known - value
    }

    /// Lowers the upper bound at a node to its one-step lookahead. Returns the decrease.
    pub fn tighten(&mut self, node: u32) -> f64 {
        let intervals = self.intervals(node);
        self.reduce_upper(node, &intervals)
    }

    /// [`tighten`](Self::tighten) for several nodes from the same bounds. Returns the total decrease.
    pub fn tighten_all(&mut self, nodes: &[u32]) -> f64 {
        let intervals = self.intervals_of(nodes);
        nodes.iter().zip(intervals).map(|(&node, intervals)| self.reduce_upper(node, &intervals)).sum()
    }

    /// The optimal action of the underlying MDP in a state.
    pub fn best_seen(&self, state: u32) -> u32 {
        let actions = self.model.actions();
        let factor = |action: u32| {
            let (successors, probs) = self.model.successors(state, action);
            let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * self.upper_bound.seen[s as usize]).sum();
            self.rewards[(state * actions + action) as usize] + self.model.gamma() * next
        };
        first_largest(&(0..actions).map(factor).collect::<Vec<_>>()).unwrap_or_default() as u32
    }

    /// The index of a belief's node. A new node gets the fast informed bound.
    pub fn intern(&mut self, belief: Belief) -> u32 {
        let node = self.graph.intern(belief);
        let new = &mut self.graph.nodes[node as usize];
        if new.upper == f64::INFINITY {
            new.upper = informed_bound(&self.upper_bound.informed, self.model.actions() as usize, &new.belief);
        }
        node
    }
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
