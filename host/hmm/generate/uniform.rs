//! Random models: every distribution is as likely as another.

use super::{Error, Kind, distribution};
use crate::common::parameters::count;
use crate::common::random::random;
use crate::hmm::model::{Hmm, HmmParts, Names};

/// A model whose distributions are drawn, all entries positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uniform {
    /// N.
    pub states: u32,
    /// What they emit.
    pub kind: Kind,
    /// Whether states end: as likely as each other state is to come next.
    pub ends: bool,
    /// Of all that is random.
    pub seed: u64,
}

impl Uniform {
    /// The model.
    ///
    /// # Errors
    /// If there are no states, no symbols or no dimensions, or too many.
    pub fn generate(&self) -> Result<Hmm, Error> {
        count("states", self.states, 1, 1 << 15)?;
        let random = &mut random(self.seed, 0);
        let n = self.states as usize;
        let start = distribution(random, n);
        let mut transitions = Vec::with_capacity(n * n);
        let mut end = self.ends.then(Vec::new);
        for _ in 0..n {
            let mut row = distribution(random, n + usize::from(self.ends));
            if let Some(end) = &mut end {
                end.extend(row.pop());
            }
            transitions.extend(row);
        }
        let emissions = self.kind.emissions(self.states, random)?;
        Ok(HmmParts { start, transitions, end, emissions, names: Names::default() }.validated()?)
    }
}
