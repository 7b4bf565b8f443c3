//! The lower bound: max over α ∈ Γ of b·α.

use super::graph::{Child, Edge, Node, Nodes};
use crate::alpha::AlphaVectors;
use crate::backend::Plans;
use crate::backends::cpu::{Assembler, Vectors};
use crate::support::Supports;

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

impl LowerBound<'_> {
    /// Γ.
    #[must_use]
    pub fn alpha(&self) -> &AlphaVectors {
        self.vectors.alpha()
    }

    /// The blind policies, which are never pruned.
    #[must_use]
    pub fn blind(&self) -> AlphaVectors {
        self.alpha().retain(|i| i < self.permanent)
    }

    /// The best of the vectors that were added since the last comparison at this node, and its value.
    #[must_use]
    pub fn best_new(&self, node: &Node) -> Option<(u32, f64)> {
        self.vectors.best_from(&node.belief, node.scanned as usize)
    }

    /// Multiplications of [`best_new`](Self::best_new).
    #[must_use]
    pub fn products(&self, node: &Node) -> usize {
        node.belief.states().len() * (self.alpha().len() - node.scanned as usize)
    }

    /// Adds a vector with its continuations to Γ.
    pub fn push(&mut self, action: u32, vector: &[f64], next: &[u32]) {
        self.vectors.push(action, vector);
        self.supports.push(next);
    }

    /// The backup vector of an edge: its action, its entries, and its continuations, one for each observation.
    #[must_use]
    pub fn backup(&self, edge: &Edge, nodes: &Nodes, observation_count: u32) -> (u32, Vec<f64>, Vec<u32>) {
        let Edge { action, ref children, .. } = *edge;
        // Observations of probability 0 continue like the most probable one.
        let likeliest = children.iter().max_by(|a, b| a.prob.total_cmp(&b.prob));
        let vector = |child: &Child| nodes[child.node as usize].vector;
        let mut next = vec![likeliest.map_or(0, vector); observation_count as usize];
        for child in children {
            next[child.observation as usize] = vector(child);
        }
        (action, self.assembler.vector(self.alpha(), action, &next), next)
    }

    /// The vectors from number `first` on, with their continuations.
    #[must_use]
    pub fn plans(&self, first: usize) -> Plans {
        Plans { vectors: self.alpha().from(first), next: self.supports.from(first).to_vec() }
    }

    /// Makes Γ the vectors of `plans`, which begin with blind policies, without changing these for the worse.
    pub fn resume(&mut self, Plans { vectors, next }: &Plans, states: u32, observation_count: u32) {
        let permanent = self.permanent;
        // The larger of two values of a blind policy supports all that continue with either.
        let mut blind = vectors.retain(|i| i < permanent);
        let fresh = self.blind();
        blind.values_mut().iter_mut().zip(fresh.values()).for_each(|(value, fresh)| *value = value.max(*fresh));
        self.vectors = Vectors::new(&blind);
        self.supports = Supports::new(states, observation_count, permanent);
        let width = observation_count as usize;
        for i in permanent..vectors.len() {
            self.push(vectors.actions()[i], vectors.vector(i), &next[i * width..][..width]);
        }
    }

    /// Bytes of the vectors and their continuations; [`needed`](Self::needed) without those for future ones.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.vectors.bytes() + self.supports.bytes()
    }

    /// Bytes in use.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.vectors.needed() + self.supports.bytes()
    }
}
