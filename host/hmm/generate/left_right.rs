//! Left-right models, as Bakis has them: no state is come back to once it is left.

use super::{Error, Kind, distribution};
use crate::common::parameters::count;
use crate::common::random::random;
use crate::hmm::model::{Hmm, HmmParts, Names};

/// A model that starts in the first state and goes on by at most `jump` states at a time; from the last it goes nowhere, or
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftRight {
    /// N.
    pub states: u32,
    /// States that a step may go on by, at least 1.
    pub jump: u32,
    /// What states emit.
    pub kind: Kind,
    /// Whether the last state ends.
    pub ends: bool,
    /// Of all that is random.
    pub seed: u64,
}

impl LeftRight {
    /// The model.
    ///
    /// # Errors
    /// If there are no states, no symbols or no dimensions, or too many, or no jump.
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
