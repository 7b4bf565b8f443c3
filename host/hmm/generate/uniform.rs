//! Random models with uniformly drawn distributions.

use super::{Error, Kind, distribution};
use crate::model::{Hmm, HmmParts, Names};
use warpkov_common::parameters::{Parameters as _, parameters};
use warpkov_common::random::random;

parameters! {
    /// A random model. Every distribution is drawn uniformly from its simplex; all entries are positive.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Uniform {
        /// N, the number of states, 1 to 2¹⁵.
        pub states: u32 = 2, "N" in 1..=1 << 15;
        /// The emissions.
        pub kind: Kind = Kind::Symbols(2);
        /// Give states end probabilities, drawn together with the rows of A.
        pub ends: bool = false, "flag";
        /// Seed of the random numbers.
        pub seed: u64 = 42, "N";
    }
}

impl Uniform {
    /// Generates the model.
    ///
    /// # Errors
    /// If the number of states, symbols or dimensions is out of range.
    pub fn generate(&self) -> Result<Hmm, Error> {
        self.check()?;
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
