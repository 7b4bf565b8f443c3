//! Beliefs: sparse distributions over states.

use warpkov_common::parameters::SUM_TOLERANCE;

/// A belief b as its nonzeros: strictly ascending states with positive probabilities that sum to 1 within
/// [`SUM_TOLERANCE`]. The default has no states and is not a distribution.
///
/// ```compile_fail,E0451
/// use warpkov_pomdp::belief::Belief;
/// let nowhere = Belief { states: vec![1, 0], probs: vec![1.0] };
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Belief {
    states: Vec<u32>,
    probs: Vec<f64>,
}

/// Why states and probabilities are not a belief.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Invalid {
    #[error("needs strictly ascending states, each with one probability")]
    States,
    #[error("has {prob} for state {state}, expected a probability above 0, and at most 1")]
    Probability { state: u32, prob: f64 },
    #[error("sums to {0}, expected 1")]
    Sum(f64),
}

impl Belief {
    /// The belief with these strictly ascending states and their probabilities.
    ///
    /// # Errors
    /// If states do not ascend strictly, if the lengths differ, if a probability is not in (0, 1], or if the sum is not
    /// 1.
    pub fn new(states: Vec<u32>, probs: Vec<f64>) -> Result<Self, Invalid> {
        if states.len() != probs.len() || !states.is_sorted_by(|a, b| a < b) {
            return Err(Invalid::States);
        }
        Self { states, probs }.checked()
    }

    /// Like [`new`](Self::new), without checks: states must ascend strictly, and the sum may be any.
    pub fn built(states: Vec<u32>, probs: Vec<f64>) -> Self {
        debug_assert!(states.len() == probs.len() && states.is_sorted_by(|a, b| a < b));
        Self { states, probs }
    }

    /// Appends a state, which must be above all others.
    pub(crate) fn push(&mut self, state: u32, prob: f64) {
        debug_assert!(self.states.last().is_none_or(|&last| last < state));
        self.states.push(state);
        self.probs.push(prob);
    }

    /// Releases unused capacity.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.states.shrink_to_fit();
        self.probs.shrink_to_fit();
    }

    /// Sum of the probabilities.
    pub(crate) fn sum(&self) -> f64 {
        self.probs.iter().sum()
    }

    /// Divides every probability by `sum`.
    pub(crate) fn divided(mut self, sum: f64) -> Self {
        self.probs.iter_mut().for_each(|prob| *prob /= sum);
        self
    }

    /// Checks the probabilities and their sum.
    pub(crate) fn checked(self) -> Result<Self, Invalid> {
        let is_wrong = |prob: f64| !(prob > 0.0 && prob <= 1.0 + SUM_TOLERANCE);
        if let Some((state, prob)) = self.iter().find(|&(_, prob)| is_wrong(prob)) {
            return Err(Invalid::Probability { state, prob });
        }
        let sum = self.sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE { Err(Invalid::Sum(sum)) } else { Ok(self) }
    }

    /// Certainty: b(`state`) = 1.
    #[must_use]
    pub fn at(state: u32) -> Self {
        Self { states: vec![state], probs: vec![1.0] }
    }

    /// The uniform distribution over `states`.
    #[must_use]
    pub fn uniform(mut states: Vec<u32>) -> Self {
        states.sort_unstable();
        states.dedup();
        let probs = vec![1.0 / states.len() as f64; states.len()];
        Self { states, probs }
    }

    /// The belief of a dense vector with one entry per state.
    ///
    /// # Errors
    /// If an entry is not in [0, 1], or if the sum is not 1.
    pub fn dense(probs: &[f64]) -> Result<Self, Invalid> {
        let (states, probs) =
            probs.iter().enumerate().filter(|(_, prob)| **prob != 0.0).map(|(s, &prob)| (s as u32, prob)).unzip();
        Self { states, probs }.checked()
    }

    /// The support of b, ascending.
    #[inline]
    #[must_use]
    pub fn states(&self) -> &[u32] {
        &self.states
    }

    /// The probabilities of [`states`](Self::states).
    #[inline]
    #[must_use]
    pub fn probs(&self) -> &[f64] {
        &self.probs
    }

    /// Whether all states are below `states`, the number of states of a model.
    #[must_use]
    pub fn is_below(&self, states: u32) -> bool {
        self.states.last().is_none_or(|&last| last < states)
    }

    /// Pairs of state and probability.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> + Clone + '_ {
        self.states.iter().copied().zip(self.probs.iter().copied())
    }

    /// Σ b(s) x(s).
    #[must_use]
    pub fn dot(&self, x: &[f64]) -> f64 {
        self.iter().map(|(state, prob)| prob * x[state as usize]).sum()
    }

    /// b as a dense vector of `states` entries.
    #[must_use]
    pub fn to_dense(&self, states: u32) -> Vec<f64> {
        let mut dense = vec![0.0; states as usize];
        for (state, prob) in self.iter() {
            dense[state as usize] = prob;
        }
        dense
    }

    /// ‖b − b'‖₁, in [0, 2].
    #[must_use]
    pub fn distance(&self, other: &Self) -> f64 {
        let (mut sum, mut i, mut j) = (0.0, 0, 0);
        while i < self.states.len() || j < other.states.len() {
            let (own, its) = (self.states.get(i), other.states.get(j));
            if own.is_some_and(|s| its.is_none_or(|t| s <= t)) {
                let both = own == its;
                sum += (self.probs[i] - if both { other.probs[j] } else { 0.0 }).abs();
                i += 1;
                j += usize::from(both);
            } else {
                sum += other.probs[j];
                j += 1;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_dense_vectors() {
        let a = Belief::dense(&[0.5, 0.0, 0.25, 0.25, 0.0]).unwrap();
        let b = Belief::dense(&[0.25, 0.5, 0.0, 0.25, 0.0]).unwrap();
        assert_eq!(a.states, [0, 2, 3]);
        assert_eq!(a.distance(&b), 0.25 + 0.5 + 0.25);
        assert_eq!(a.distance(&a), 0.0);
        assert_eq!(Belief::at(1).distance(&Belief::at(4)), 2.0);
        assert_eq!(a.dot(&[4.0, 9.0, 8.0, 12.0, 9.0]), 7.0);
        assert_eq!(Belief::dense(&a.to_dense(5)), Ok(a));
    }
}
