//! The bounds at the nodes of the belief graph.

use rayon::prelude::*;

use super::branch::first_largest;
use super::clock::PRODUCTS_PER_CHECK;
use super::graph::{Child, Edge, NONE};
use super::interval::Interval;
use super::search::Search;
use crate::belief::Belief;

/// Successors may skip new vectors if together they hold at most this fraction of the sum of weighted gaps.
const SKIPPED_GAP: f64 = 0.05;

/// Number of multiplications that justifies parallel work.
const PARALLEL_PRODUCTS: usize = 1 << 18;

/// Work of comparing a belief with a sawtooth point, in multiplications.
const WORK_OF_POINT: u64 = 8;

/// Number of pairs of belief and sawtooth point that justifies parallel work.
const PARALLEL_POINTS: usize = 1 << 16;

/// A successor below this fraction of the sum of its action's weighted gaps keeps its known upper bound.
const NEGLIGIBLE_GAP: f64 = 0.01;

/// Takes nodes from the front of `rest` until their work is at least `limit`, so that little time lies between two checks of the clock.
/// Returns them, and their work.
fn chunk<'a>(rest: &mut &'a [u32], limit: usize, work_of: impl Fn(&u32) -> usize) -> (&'a [u32], usize) {
    let (mut work, mut taken) = (0, 0);
    while work < limit && taken < rest.len() {
        work += work_of(&rest[taken]);
        taken += 1;
    }
    let (now, later) = rest.split_at(taken);
    *rest = later;
    (now, work)
}

impl Search<'_, '_> {
    /// The index of a belief's node. A new node gets the fast informed bound.
    pub fn intern(&mut self, belief: Belief) -> u32 {
        let node = self.graph.intern(belief);
        let new = &mut self.graph.nodes[node as usize];
        if new.upper == f64::INFINITY {
            new.upper = self.upper_bound.informed(&new.belief);
        }
        node
    }

    /// The lower bound at a node: max over α ∈ Γ of b·α.
    pub fn lower(&mut self, node: u32) -> f64 {
        let found = self.lower_bound.best_new(&self.graph.nodes[node as usize]);
        self.record_best(node, found)
    }

    /// Records that the node has been compared with all vectors, of which `found` is the best new one.
    fn record_best(&mut self, node: u32, found: Option<(u32, f64)>) -> f64 {
        let (count, known) = (self.lower_bound.count(), self.graph.nodes[node as usize].scanned as usize);
        self.work += self.lower_bound.products(&self.graph.nodes[node as usize]) as u64;
        if self.apart.as_ref().is_some_and(|apart| known <= apart.shared && count > apart.shared) {
            self.note_moved(node);
        }
        let node = &mut self.graph.nodes[node as usize];
        node.scanned = count as u32;
        if let Some((vector, value)) = found
            && value > node.lower
        {
            (node.vector, node.lower) = (vector, value);
        }
        node.lower
    }

    /// Updates the lower bounds of a node's successors with all new vectors, in parallel if that pays. Skips actions
    /// that cannot be optimal, and successors of little weight. Every successor has some vector afterwards.
    pub(super) fn update_successors(&mut self, node: u32, edges: &[Edge]) {
        let least = self.lower(node);
        let own = self.graph.nodes[node as usize].vector;
        for child in edges.iter().flat_map(|edge| &edge.children) {
            let node = &mut self.graph.nodes[child.node as usize];
            if node.vector == NONE {
                (node.vector, node.lower) = self.lower_bound.vectors.any(own, &node.belief);
                self.note_moved(child.node);
            }
        }
        let products = |node: u32| self.lower_bound.products(&self.graph.nodes[node as usize]);
        let mut stale = Vec::new();
        for edge in edges.iter().filter(|edge| self.stored_upper_of(edge) > least) {
            let off: f64 = edge.children.iter().map(|child| child.prob * self.gap(child.node)).sum();
            let enough = SKIPPED_GAP * off / edge.children.len() as f64;
            let heavy = edge.children.iter().filter(|child| child.prob * self.gap(child.node) >= enough);
            stale.extend(heavy.map(|child| child.node).filter(|&node| products(node) > 0));
        }
        self.update_lower_bounds(&stale);
    }

    /// Compares nodes with all new vectors, in parallel if that pays. Returns `false` if time ran out.
    pub(super) fn update_lower_bounds(&mut self, nodes: &[u32]) -> bool {
        let mut rest = nodes;
        while !rest.is_empty() {
            let products_of = |&node: &u32| self.lower_bound.products(&self.graph.nodes[node as usize]);
            let (now, products) = chunk(&mut rest, PRODUCTS_PER_CHECK, products_of);
            if products < PARALLEL_PRODUCTS {
                now.iter().for_each(|&node| _ = self.lower(node));
            } else {
                let (nodes, bound) = (&self.graph.nodes, &self.lower_bound);
                let found: Vec<_> = now.par_iter().map(|&node| bound.best_new(&nodes[node as usize])).collect();
                for (&node, found) in now.iter().zip(found) {
                    self.record_best(node, found);
                }
            }
            if products >= PRODUCTS_PER_CHECK && !rest.is_empty() && self.clock.late() {
                return false;
            }
        }
        true
    }

    /// The upper bound at a node, current with all sawtooth points.
    pub fn upper(&mut self, node: u32) -> f64 {
        let bound = self.upper_bound.at(&self.graph.nodes[node as usize]);
        self.record_upper(node, bound)
    }

    /// Records the upper bound of a node with all sawtooth points.
    fn record_upper(&mut self, node: u32, bound: f64) -> f64 {
        let (node, time) = (&mut self.graph.nodes[node as usize], self.upper_bound.sawtooth.time());
        self.work += WORK_OF_POINT * u64::from(time - node.read);
        (node.upper, node.read) = (bound, time);
        bound
    }

    /// Updates the upper bounds of nodes, in parallel if that pays.
    pub(super) fn update_upper_bounds(&mut self, mut nodes: Vec<u32>) {
        let time = self.upper_bound.sawtooth.time();
        nodes.sort_unstable();
        nodes.dedup();
        let mut rest = &nodes[..];
        while !rest.is_empty() {
            let points_of = |&node: &u32| (time - self.graph.nodes[node as usize].read) as usize;
            let (now, points) = chunk(&mut rest, PRODUCTS_PER_CHECK / 8, points_of);
            if points < PARALLEL_POINTS {
                now.iter().for_each(|&node| _ = self.upper(node));
            } else {
                let (nodes, bound) = (&self.graph.nodes, &self.upper_bound);
                let bounds: Vec<f64> = now.par_iter().map(|&node| bound.at(&nodes[node as usize])).collect();
                now.iter().zip(bounds).for_each(|(&node, bound)| _ = self.record_upper(node, bound));
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
        match self.graph.find(belief) {
            Some(node) if value < self.upper(node) => {
                self.upper_bound.put(&mut self.graph.nodes[node as usize], belief, value, drop);
            }
            Some(_) => {}
            None => {
                let informed = self.upper_bound.informed(belief);
                if value < self.upper_bound.sawtooth.bound(belief, informed, 0) {
                    self.upper_bound.sawtooth.put(belief, drop, None);
                }
            }
        }
    }

    /// Upper bound on Q(b, a) from the stored bounds of the successors.
    pub(super) fn stored_upper_of(&self, edge: &Edge) -> f64 {
        let upper = |child: &Child| child.prob * self.graph.nodes[child.node as usize].upper;
        edge.reward + self.model.gamma() * edge.children.iter().map(upper).sum::<f64>()
    }

    /// Gap from the stored bounds.
    pub(super) fn gap(&self, node: u32) -> f64 {
        let node = &self.graph.nodes[node as usize];
        node.upper - node.lower
    }

    /// Bounds on Q(b, a) for each action. The upper bound is current for the action that maximises it, and possibly
    /// stale for the others.
    pub fn intervals(&mut self, node: u32) -> Vec<Interval> {
        self.intervals_of(&[node]).pop().unwrap_or_default()
    }

    /// [`intervals`](Self::intervals) of several nodes, whose successors are bounded together.
    pub(super) fn intervals_of(&mut self, nodes: &[u32]) -> Vec<Vec<Interval>> {
        for &node in nodes {
            self.expand(node);
            let edges = std::mem::take(&mut self.graph.nodes[node as usize].edges);
            self.update_successors(node, &edges);
            self.graph.nodes[node as usize].edges = edges;
        }
        // Upper bounds, and whether they are current.
        let known = |edge: &Edge| (self.stored_upper_of(edge), false);
        let edges_of = |node: &u32| &self.graph.nodes[*node as usize].edges;
        let mut uppers: Vec<Vec<(f64, bool)>> =
            nodes.iter().map(|node| edges_of(node).iter().map(known).collect()).collect();
        let mut left: Vec<usize> = (0..nodes.len()).collect();
        loop {
            let mut best_of = Vec::new();
            let mut heavy = Vec::new();
            left.retain(|&i| {
                let values: Vec<f64> = uppers[i].iter().map(|upper| upper.0).collect();
                let Some(best) = first_largest(&values).filter(|&best| !uppers[i][best].1) else { return false };
                let children = &self.graph.nodes[nodes[i] as usize].edges[best].children;
                // Stale bounds suffice for successors of little weight.
                let enough =
                    NEGLIGIBLE_GAP * children.iter().map(|child| child.prob * self.gap(child.node)).sum::<f64>();
                let weighs = |child: &&Child| child.prob * self.gap(child.node) >= enough;
                heavy.extend(children.iter().filter(weighs).map(|child| child.node));
                best_of.push(best);
                true
            });
            if left.is_empty() {
                break;
            }
            self.update_upper_bounds(heavy);
            for (&i, best) in left.iter().zip(best_of) {
                uppers[i][best] = (self.stored_upper_of(&self.graph.nodes[nodes[i] as usize].edges[best]), true);
            }
        }
        let gamma = self.model.gamma();
        let lower = |edge: &Edge| {
            let value = |child: &Child| child.prob * self.graph.nodes[child.node as usize].lower;
            edge.reward + gamma * edge.children.iter().map(value).sum::<f64>()
        };
        let of_node = |(node, uppers): (&u32, Vec<(f64, bool)>)| {
            let edges = self.graph.nodes[*node as usize].edges.iter();
            edges.zip(uppers).map(|(edge, (upper, _))| Interval { lower: lower(edge), upper }).collect()
        };
        nodes.iter().zip(uppers).map(of_node).collect()
    }

    /// Lowers the upper bound of a node to the largest upper bound of its actions. Returns the decrease.
    pub(super) fn reduce_upper(&mut self, node: u32, intervals: &[Interval]) -> f64 {
        let value = intervals.iter().map(|interval| interval.upper).fold(f64::NEG_INFINITY, f64::max);
        let known = self.upper(node);
        // `intervals` is empty if time ran out.
        if intervals.is_empty() || value >= known {
            return 0.0;
        }
        self.upper_bound.lower(&mut self.graph.nodes[node as usize], value);
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
}
