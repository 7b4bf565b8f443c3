//! Left-right (Bakis) models: the chain never returns to a state that it has left.

use super::{Error, Kind, distribution};
use crate::model::{Hmm, HmmParts, Names};
use warpkov_common::parameters::count;
use warpkov_common::random::random;

/// A random left-right model. It starts in the first state and moves forward by at most `jump` states per step. The
/// last state is absorbing, or may end the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftRight {
    /// N, the number of states.
    pub states: u32,
    /// Maximum number of states per forward move, at least 1.
    pub jump: u32,
    /// The emissions.
    pub kind: Kind,
    /// Whether the last state has an end probability.
    pub ends: bool,
    /// Random seed.
    pub seed: u64,
}

impl LeftRight {
    /// Generates the model.
    ///
    /// # Errors
    /// If the number of states, symbols or dimensions, or the jump, is out of range.
    pub fn generate(&self) -> Result<Hmm, Error> {
        count("states", self.states, 1, 1 << 15)?;
        count("jump", self.jump, 1, 1 << 15)?;
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
