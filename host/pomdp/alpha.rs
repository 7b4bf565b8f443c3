//! Alpha vectors: a lower bound on V\*, linear in the belief piece by piece.

use rayon::prelude::*;

use super::belief::Belief;

/// Γ: vectors α with an entry per state and the action that each begins with. V(b) = max over α ∈ Γ of Σ b(s) α(s).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlphaVectors {
    /// |S|, the length of each.
    pub states: u32,
    /// α(s), vector after vector.
    pub values: Vec<f64>,
    /// The action of each vector.
    pub actions: Vec<u32>,
}

impl AlphaVectors {
    /// None yet.
    #[must_use]
    pub fn new(states: u32) -> Self {
        Self { states, ..Self::default() }
    }

    /// The number of vectors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Vector `i`.
    #[must_use]
    pub fn vector(&self, i: usize) -> &[f64] {
        let states = self.states as usize;
        &self.values[i * states..(i + 1) * states]
    }

    /// Adds a vector of `states` entries.
    pub fn push(&mut self, action: u32, vector: &[f64]) {
        debug_assert_eq!(vector.len(), self.states as usize);
        self.values.extend_from_slice(vector);
        self.actions.push(action);
    }

    /// The vector that is best at `belief`, the first of those, and V(b); `None` where Γ is empty.
    #[must_use]
    pub fn best(&self, belief: &Belief) -> Option<(usize, f64)> {
        let values = (0..self.len()).into_par_iter().with_min_len(64).map(|i| (i, belief.dot(self.vector(i))));
        values.reduce_with(|a, b| if b.1 > a.1 || (b.1 == a.1 && b.0 < a.0) { b } else { a })
    }

    /// The vectors from number `first` on.
    #[must_use]
    pub fn from(&self, first: usize) -> Self {
        let states = self.states as usize;
        Self {
            states: self.states,
            values: self.values[first * states..].to_vec(),
            actions: self.actions[first..].to_vec(),
        }
    }

    /// Every α times `sign`: −1 between rewards and costs.
    #[must_use]
    pub fn times(mut self, sign: f64) -> Self {
        self.values.iter_mut().for_each(|value| *value *= sign);
        self
    }

    /// Γ without the vectors that `keep` says no to, in the same order.
    #[must_use]
    pub fn retain(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::new(self.states);
        for i in (0..self.len()).filter(|&i| keep(i)) {
            kept.push(self.actions[i], self.vector(i));
        }
        kept
    }
}
