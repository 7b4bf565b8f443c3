//! Alpha vectors: a lower bound on V\*, linear in the belief piece by piece.

use rayon::prelude::*;

use super::belief::Belief;

/// Γ: vectors α with an entry per state and the action that each begins with. V(b) = max over α ∈ Γ of Σ b(s) α(s).
///
/// Each has as many entries as there are states, and one action.
///
/// ```compile_fail,E0616
/// use warpkov::pomdp::alpha::AlphaVectors;
/// let mut vectors = AlphaVectors::new(2);
/// vectors.states = 1000;
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlphaVectors {
    states: u32,
    values: Vec<f64>,
    actions: Vec<u32>,
}

/// Numbers and actions that are no vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} numbers, expected {states} for each of {vectors} vectors")]
pub struct Invalid {
    /// Numbers.
    pub found: usize,
    /// |S|.
    pub states: u32,
    /// Actions.
    pub vectors: usize,
}

impl AlphaVectors {
    /// None yet.
    #[must_use]
    pub fn new(states: u32) -> Self {
        Self { states, ..Self::default() }
    }

    /// Vectors of `states` entries each, one behind the other, and their actions.
    ///
    /// # Errors
    /// If there are more or fewer entries.
    pub fn of(states: u32, values: Vec<f64>, actions: Vec<u32>) -> Result<Self, Invalid> {
        if actions.len().checked_mul(states as usize) == Some(values.len()) {
            Ok(Self { states, values, actions })
        } else {
            Err(Invalid { found: values.len(), states, vectors: actions.len() })
        }
    }

    /// |S|, the length of each.
    #[inline]
    #[must_use]
    pub fn states(&self) -> u32 {
        self.states
    }

    /// α(s), vector after vector.
    #[inline]
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// α(s), to be changed.
    pub fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// The action of each vector.
    #[inline]
    #[must_use]
    pub fn actions(&self) -> &[u32] {
        &self.actions
    }

    /// Whether these can be vectors of a model of so many states and actions.
    #[must_use]
    pub fn fit(&self, states: u32, actions: u32) -> bool {
        self.states == states && self.actions.iter().all(|&action| action < actions)
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
    ///
    /// # Panics
    /// If it has more or fewer.
    pub fn push(&mut self, action: u32, vector: &[f64]) {
        assert_eq!(vector.len(), self.states as usize, "an alpha vector of another number of states");
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

    /// Adds vectors, one behind the other, with these actions.
    pub(crate) fn append(&mut self, values: impl IntoIterator<Item = f64>, actions: &[u32]) {
        self.values.extend(values);
        self.actions.extend_from_slice(actions);
        assert_eq!(self.values.len(), self.actions.len() * self.states as usize, "values of whole alpha vectors");
    }

    /// Makes room for so many more vectors, and no more than these.
    pub(crate) fn reserve_exact(&mut self, vectors: usize) {
        self.values.reserve_exact(vectors * self.states as usize);
    }

    /// Numbers that there is room for in all.
    pub(crate) fn capacity(&self) -> usize {
        self.values.capacity()
    }

    /// Vectors that there is room for without a new allocation.
    pub(crate) fn room(&self) -> usize {
        (self.values.capacity() - self.values.len()) / (self.states as usize).max(1)
    }

    /// Gives memory back that no vector is in.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.values.shrink_to_fit();
    }

    /// [`retain`](Self::retain) in place.
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
