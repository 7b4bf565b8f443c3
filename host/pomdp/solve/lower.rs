//! The lower bound: max over α ∈ Γ of b·α.

use super::gamma::Gamma;
use super::graph::{Child, Edge, Node, Nodes};
use crate::alpha::{AlphaVectors, VectorSet};
use crate::backend::Plans;
use crate::backends::cpu::Assembler;
use crate::belief::Belief;
use crate::support::Supports;

/// Γ, and what backups and pruning need of it.
pub struct LowerBound<'m> {
    /// Γ.
    pub vectors: Gamma,
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

/// A vector that a backup makes.
pub struct Made {
    /// Its group in Γ.
    pub group: u32,
    /// Its first action.
    pub action: u32,
    /// Its entries at the states of its group.
    pub values: Vec<f64>,
    /// Its continuations, one for each observation.
    pub next: Vec<u32>,
}

impl LowerBound<'_> {
    /// |Γ|.
    #[must_use]
    pub fn count(&self) -> usize {
        self.vectors.count()
    }

    /// The blind policies, which are never pruned.
    #[must_use]
    pub fn blind(&self) -> AlphaVectors {
        self.vectors.whole(0..self.permanent).into_owned()
    }

    /// The best of the vectors that were added since the last comparison at this node, and its value.
    #[must_use]
    pub fn best_new(&self, node: &Node) -> Option<(u32, f64)> {
        self.vectors.best_from(&node.belief, node.scanned as usize)
    }

    /// Multiplications of [`best_new`](Self::best_new).
    #[must_use]
    pub fn products(&self, node: &Node) -> usize {
        self.vectors.products(&node.belief, node.scanned as usize)
    }

    /// Adds a vector to Γ.
    pub fn push(&mut self, Made { group, action, values, next }: &Made) {
        self.vectors.push(*group, *action, values);
        self.supports.push(next);
    }

    /// Adds a vector with an entry for each state to Γ, with its continuations.
    pub fn push_whole(&mut self, action: u32, vector: &[f64], next: &[u32]) {
        self.vectors.push_whole(action, vector);
        self.supports.push(next);
    }

    /// Adds to Γ what a vector with an entry for each state is in the group of a belief.
    pub fn push_at(&mut self, belief: &Belief, action: u32, vector: &[f64], next: &[u32]) {
        self.vectors.push_part(self.vectors.group_of(belief), action, vector);
        self.supports.push(next);
    }

    /// The backup of an edge at a belief.
    #[must_use]
    pub fn backup(&self, belief: &Belief, edge: &Edge, nodes: &Nodes, observation_count: u32) -> Made {
        let Edge { action, ref children, .. } = *edge;
        // Observations of probability 0 continue like the most probable one.
        let likeliest = children.iter().max_by(|a, b| a.prob.total_cmp(&b.prob));
        let vector = |child: &Child| nodes[child.node as usize].vector;
        let mut next = vec![likeliest.map_or(0, vector); observation_count as usize];
        for child in children {
            next[child.observation as usize] = vector(child);
        }
        let group = self.vectors.group_of(belief);
        let values = self.vectors.assembled(&self.assembler, group, action, &next);
        Made { group, action, values, next }
    }

    /// The vectors from number `first` on, with their continuations.
    #[must_use]
    pub fn plans(&self, first: usize) -> Plans {
        Plans {
            vectors: self.vectors.whole(first..self.count()).into_owned(),
            next: self.supports.from(first).to_vec(),
        }
    }

    /// Makes Γ the vectors of `plans`, which begin with blind policies, without changing these for the worse.
    pub fn resume(&mut self, Plans { vectors, next }: &Plans, observation_count: u32) {
        let permanent = self.permanent;
        // The larger of two values of a blind policy supports all that continue with either.
        let mut blind = vectors.retain(|i| i < permanent);
        let fresh = self.blind();
        blind.values_mut().iter_mut().zip(fresh.values()).for_each(|(value, fresh)| *value = value.max(*fresh));
        self.vectors.truncate(0);
        (0..permanent).for_each(|i| self.vectors.push(0, blind.actions()[i], blind.vector(i)));
        self.supports = Supports::new(observation_count, permanent);
        let width = observation_count as usize;
        for i in permanent..vectors.len() {
            self.push_whole(vectors.actions()[i], vectors.vector(i), &next[i * width..][..width]);
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
