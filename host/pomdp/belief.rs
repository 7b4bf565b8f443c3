//! Beliefs: distributions over states, of which few have any weight.

/// b(s) where it is not 0. States ascend, probabilities are positive and sum to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Belief {
    /// States that may be the present one, ascending.
    pub states: Vec<u32>,
    /// Their probabilities.
    pub probs: Vec<f64>,
}

impl Belief {
    /// Certainty.
    #[must_use]
    pub fn at(state: u32) -> Self {
        Self { states: vec![state], probs: vec![1.0] }
    }

    /// The same probability for each of `states`, which ascend.
    #[must_use]
    pub fn uniform(states: Vec<u32>) -> Self {
        let probs = vec![1.0 / states.len() as f64; states.len()];
        Self { states, probs }
    }

    /// What a vector with an entry per state says; entries that are 0 are left out.
    #[must_use]
    pub fn dense(probs: &[f64]) -> Self {
        let (states, probs) =
            probs.iter().enumerate().filter(|(_, prob)| **prob != 0.0).map(|(s, &prob)| (s as u32, prob)).unzip();
        Self { states, probs }
    }

    /// States and their probabilities.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.states.iter().copied().zip(self.probs.iter().copied())
    }

    /// Σ b(s) x(s).
    #[must_use]
    pub fn dot(&self, x: &[f64]) -> f64 {
        self.iter().map(|(state, prob)| prob * x[state as usize]).sum()
    }

    /// A vector of `states` entries.
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
        let a = Belief::dense(&[0.5, 0.0, 0.25, 0.25, 0.0]);
        let b = Belief::dense(&[0.25, 0.5, 0.0, 0.25, 0.0]);
        assert_eq!(a.states, [0, 2, 3]);
        assert_eq!(a.distance(&b), 0.25 + 0.5 + 0.25);
        assert_eq!(a.distance(&a), 0.0);
        assert_eq!(Belief::at(1).distance(&Belief::at(4)), 2.0);
        assert_eq!(a.dot(&[4.0, 9.0, 8.0, 12.0, 9.0]), 7.0);
        assert_eq!(Belief::dense(&a.to_dense(5)), a);
    }
}
