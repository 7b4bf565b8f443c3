//! Alpha vectors: a piecewise linear and convex lower bound on V\*.

use std::borrow::Cow;

use rayon::prelude::*;

use super::belief::Belief;

/// Γ: vectors α of |S| entries, each with its first action. V(b) = max over α ∈ Γ of Σ b(s) α(s).
///
/// Invariant: every vector has exactly `states` entries and one action.
///
/// ```compile_fail,E0616
/// use warpkov_pomdp::alpha::AlphaVectors;
/// let mut vectors = AlphaVectors::new(2);
/// vectors.states = 1000;
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlphaVectors {
    states: u32,
    values: Vec<f64>,
    actions: Vec<u32>,
}

/// Alpha vectors in a memory layout of their own: each spans all states, or those of a group of states, and is a lower bound in all others.
pub trait VectorSet: Sync {
    /// |Γ|.
    fn count(&self) -> usize;

    /// The action of vector `i`.
    fn action(&self, i: usize) -> u32;

    /// The group of vector `i`, 0 for all states, and its entries there.
    fn piece(&self, i: usize) -> (u32, &[f64]);

    /// b·α of vector `i`.
    fn value(&self, i: usize, belief: &Belief) -> f64;

    /// The entries of vector `i` at all states.
    fn row(&self, i: usize) -> Cow<'_, [f64]>;

    /// Index of the first best vector at `belief`, and V(b); `None` if Γ is empty.
    fn first_best(&self, belief: &Belief) -> Option<(usize, f64)> {
        let values = (0..self.count()).into_par_iter().with_min_len(64).map(|i| (i, self.value(i, belief)));
        values.reduce_with(|a, b| if b.1 > a.1 || (b.1 == a.1 && b.0 < a.0) { b } else { a })
    }
}

impl VectorSet for AlphaVectors {
    fn count(&self) -> usize {
        self.len()
    }

    fn action(&self, i: usize) -> u32 {
        self.actions[i]
    }

    fn piece(&self, i: usize) -> (u32, &[f64]) {
        (0, self.vector(i))
    }

    fn value(&self, i: usize, belief: &Belief) -> f64 {
        belief.dot(self.vector(i))
    }

    fn row(&self, i: usize) -> Cow<'_, [f64]> {
        self.vector(i).into()
    }
}

/// The number of values does not match the number of vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} values for {vectors} alpha vectors, expected {states} for each")]
pub struct Invalid {
    /// Values found.
    pub found: usize,
    /// |S|.
    pub states: u32,
    /// Number of vectors.
    pub vectors: usize,
}

impl AlphaVectors {
    /// An empty Γ.
    #[must_use]
    pub fn new(states: u32) -> Self {
        Self { states, ..Self::default() }
    }

    /// Γ from the concatenated vectors of `states` entries each and their actions.
    ///
    /// # Errors
    /// If `values` has more or fewer than `states` entries per action.
    pub fn from_parts(states: u32, values: Vec<f64>, actions: Vec<u32>) -> Result<Self, Invalid> {
        if actions.len().checked_mul(states as usize) == Some(values.len()) {
            Ok(Self { states, values, actions })
        } else {
            Err(Invalid { found: values.len(), states, vectors: actions.len() })
        }
    }

    /// |S|, the length of each vector.
    #[inline]
    #[must_use]
    pub fn states(&self) -> u32 {
        self.states
    }

    /// α(s), vector by vector.
    #[inline]
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Mutable α(s), vector by vector.
    pub fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// The action of each vector.
    #[inline]
    #[must_use]
    pub fn actions(&self) -> &[u32] {
        &self.actions
    }

    /// Whether the vectors have `states` entries and actions below `actions`.
    #[must_use]
    pub fn fit(&self, states: u32, actions: u32) -> bool {
        self.states == states && self.actions.iter().all(|&action| action < actions)
    }

    /// |Γ|.
    #[must_use]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether Γ is empty.
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

    /// Appends a vector of `states` entries.
    ///
    /// # Panics
    /// If the length differs.
    pub fn push(&mut self, action: u32, vector: &[f64]) {
        assert_eq!(vector.len(), self.states as usize, "an alpha vector has one entry per state");
        self.values.extend_from_slice(vector);
        self.actions.push(action);
    }

    /// Index of the first best vector at `belief`, and V(b); `None` if Γ is empty.
    #[must_use]
    pub fn best(&self, belief: &Belief) -> Option<(usize, f64)> {
        self.first_best(belief)
    }

    /// Multiplies every α by `sign`; −1 converts between rewards and costs.
    #[must_use]
    pub fn times(mut self, sign: f64) -> Self {
        self.values.iter_mut().for_each(|value| *value *= sign);
        self
    }

    /// A copy of the vectors that satisfy `keep`, in the same order.
    #[must_use]
    pub fn retain(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::new(self.states);
        for i in (0..self.len()).filter(|&i| keep(i)) {
            kept.push(self.actions[i], self.vector(i));
        }
        kept
    }

    /// Appends concatenated vectors with these actions.
    pub fn append(&mut self, values: impl IntoIterator<Item = f64>, actions: &[u32]) {
        self.values.extend(values);
        self.actions.extend_from_slice(actions);
        assert_eq!(
            self.values.len(),
            self.actions.len() * self.states as usize,
            "an alpha vector has one entry per state"
        );
    }

    /// The same vectors with other actions.
    ///
    /// # Panics
    /// If there is not one action per vector.
    pub(crate) fn with_actions(mut self, actions: &[u32]) -> Self {
        self.actions.copy_from_slice(actions);
        self
    }

    /// Reserves memory for exactly this many more vectors.
    pub(crate) fn reserve_exact(&mut self, vectors: usize) {
        self.values.reserve_exact(vectors * self.states as usize);
    }

    /// Capacity in values.
    pub(crate) fn capacity(&self) -> usize {
        self.values.capacity()
    }

    /// Number of vectors that fit without a new allocation.
    pub(crate) fn room(&self) -> usize {
        (self.values.capacity() - self.values.len()) / (self.states as usize).max(1)
    }

    /// Keeps only the first `count` vectors.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.values.truncate(count * self.states as usize);
        self.actions.truncate(count);
    }

    /// Releases unused capacity.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.values.shrink_to_fit();
    }

    /// Like [`retain`](Self::retain), in place.
    pub(crate) fn keep(&mut self, keep: impl Fn(usize) -> bool) {
        let (states, mut to) = (self.states as usize, 0);
        for from in (0..self.len()).filter(|&i| keep(i)) {
            if to < from {
                self.values.copy_within(from * states..(from + 1) * states, to * states);
                self.actions[to] = self.actions[from];
            }
            to += 1;
        }
        self.values.truncate(to * states);
        self.actions.truncate(to);
    }
}
