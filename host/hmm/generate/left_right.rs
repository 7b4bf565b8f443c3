//! Left-right (Bakis) models: the chain never returns to a state that it has left.

use super::{Error, Kind, distribution};
use crate::model::{Hmm, HmmParts, Names};
use warpkov_common::parameters::{Parameters as _, parameters};
use warpkov_common::random::random;

parameters! {
    /// A random left-right model. It starts in the first state and moves forward by at most `jump` states per step. The
    /// last state is absorbing, or may end the sequence.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LeftRight {
        /// N, the number of states, 1 to 2¹⁵.
        pub states: u32 = 2, "N" in 1..=1 << 15;
        /// Maximum number of states per forward move, 1 to 2¹⁵.
        pub jump: u32 = 1, "J" in 1..=1 << 15;
        /// The emissions.
        pub kind: Kind = Kind::Symbols(2);
        /// Give the last state an end probability.
        pub ends: bool = false, "flag";
        /// Seed of the random numbers.
        pub seed: u64 = 42, "N";
    }
}

impl LeftRight {
    /// Generates the model.
    ///
    /// # Errors
    /// If the number of states, symbols or dimensions, or the jump, is out of range.
    pub fn generate(&self) -> Result<Hmm, Error> {
        self.check()?;
        let random = &mut random(self.seed, 0);
        let n = self.states as usize;
        let mut start = vec![0.0; n];
        start[0] = 1.0;
        let mut transitions = vec![0.0; n * n];
        let mut end = self.ends.then(|| vec![0.0; n]);
        for state in 0..n {
            let next = state..n.min(state + self.jump as usize + 1);
            let mut probs = distribution(random, next.len() + usize::from(self.ends && state + 1 == n));
            if let Some(end) = end.as_mut().filter(|_| state + 1 == n) {
                end[state] = probs.pop().unwrap_or_default();
            }
            transitions[state * n..][next].copy_from_slice(&probs);
        }
        let emissions = self.kind.emissions(self.states, random)?;
        Ok(HmmParts { start, transitions, end, emissions, names: Names::default() }.validated()?)
    }
}
