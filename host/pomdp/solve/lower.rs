//! The lower bound: max over α ∈ Γ of b·α.

use rayon::prelude::*;

use super::graph::{Child, Edge, NONE};
use super::search::{PRODUCTS_PER_CHECK, Search};
use super::team::News;
use crate::alpha::AlphaVectors;
use crate::backend::Plans;
use crate::backends::cpu::{Assembler, Vectors};
use crate::support::Supports;

/// Successors may skip new vectors if together they hold at most this fraction of the sum of weighted gaps.
const SKIPPED_GAP: f64 = 0.05;

/// Number of multiplications that justifies parallel work.
const PARALLEL_PRODUCTS: usize = 1 << 18;

/// Γ, and what backups and pruning need of it.
pub struct LowerBound<'m> {
    /// Γ.
    pub vectors: Vectors,
    /// Continuations of the vectors of Γ, and retired vectors.
    pub supports: Supports,
    /// Assembles the vectors of backups.
    pub assembler: Assembler<'m>,
    /// The first `permanent` vectors of Γ, the blind policies, are never pruned.
    pub permanent: usize,
    /// Limit of |Γ| after pruning.
    pub max_vectors: usize,
    /// |Γ| after the last pruning.
    pub pruned: usize,
    /// Bound on the rounding errors.
    pub slack: f64,
}

impl Search<'_, '_> {
    /// The lower bound at a node: max over α ∈ Γ of b·α.
    pub fn lower(&mut self, node: u32) -> f64 {
        let found = self.best_new_vector(node);
        self.record_best(node, found)
    }

    /// The best of the vectors that were added since the last comparison at this node.
    fn best_new_vector(&self, node: u32) -> Option<(u32, f64)> {
        let node = &self.graph.nodes[node as usize];
        self.lower_bound.vectors.best_from(&node.belief, node.scanned as usize)
    }

    /// Records that the node has been compared with all vectors, of which `found` is the best new one.
    fn record_best(&mut self, node: u32, found: Option<(u32, f64)>) -> f64 {
        let (count, known) = (self.alpha().len(), self.graph.nodes[node as usize].scanned as usize);
        if self.apart.as_ref().is_some_and(|apart| known <= apart.shared && count > apart.shared) {
            self.note_moved(node);
        }
        let node = &mut self.graph.nodes[node as usize];
        self.work += (node.belief.states().len() * (count - known)) as u64;
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
                (node.vector, node.lower) =
                    (own, node.belief.dot(self.lower_bound.vectors.alpha().vector(own as usize)));
                self.note_moved(child.node);
            }
        }
        let count = self.alpha().len();
        let products = |node: u32| {
            let node = &self.graph.nodes[node as usize];
            node.belief.states().len() * (count - node.scanned as usize)
        };
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
        let count = self.alpha().len();
        let mut rest = nodes;
        while !rest.is_empty() {
            // Chunks bound the time between two checks of the clock.
            let (mut products, mut taken) = (0, 0);
            while products < PRODUCTS_PER_CHECK && taken < rest.len() {
                let node = &self.graph.nodes[rest[taken] as usize];
                products += node.belief.states().len() * (count - node.scanned as usize);
                taken += 1;
            }
            let (now, later) = rest.split_at(taken);
            rest = later;
            if products < PARALLEL_PRODUCTS {
                now.iter().for_each(|&node| _ = self.lower(node));
            } else {
                let (nodes, vectors) = (&self.graph.nodes, &self.lower_bound.vectors);
                let best = |&node: &u32| {
                    let node = &nodes[node as usize];
                    vectors.best_from(&node.belief, node.scanned as usize)
                };
                let found: Vec<_> = now.par_iter().map(best).collect();
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

    /// The backup vector of an edge: its action, its entries, and its continuations.
    pub(super) fn vector(&self, node: u32, edge: usize) -> (u32, Vec<f64>, Vec<u32>) {
        let Edge { action, ref children, .. } = self.graph.nodes[node as usize].edges[edge];
        // Observations of probability 0 continue like the most probable one.
        let likeliest = children.iter().max_by(|a, b| a.prob.total_cmp(&b.prob));
        let vector = |child: &Child| self.graph.nodes[child.node as usize].vector;
        let mut next = vec![likeliest.map_or(0, vector); self.model.observation_count() as usize];
        for child in children {
            next[child.observation as usize] = vector(child);
        }
        let LowerBound { assembler, vectors, .. } = &self.lower_bound;
        (action, assembler.vector(vectors.alpha(), action, &next), next)
    }

    /// Adds a vector with its continuations to Γ.
    pub fn push(&mut self, action: u32, vector: &[f64], next: &[u32]) {
        self.lower_bound.vectors.push(action, vector);
        self.lower_bound.supports.push(next);
    }

    /// Γ.
    #[must_use]
    pub fn alpha(&self) -> &AlphaVectors {
        self.lower_bound.vectors.alpha()
    }

    /// The blind policies, which are never pruned.
    #[must_use]
    pub fn blind(&self) -> AlphaVectors {
        self.alpha().retain(|i| i < self.lower_bound.permanent)
    }

    /// Vectors behind the blind policies that a resumed search begins with, and its points.
    #[must_use]
    pub fn known(&self) -> News {
        let LowerBound { vectors, supports, permanent, .. } = &self.lower_bound;
        let plans = Plans { vectors: vectors.alpha().from(*permanent), next: supports.from(*permanent).to_vec() };
        News { plans, points: self.upper_bound.sawtooth.changed(0).collect() }
    }
}
