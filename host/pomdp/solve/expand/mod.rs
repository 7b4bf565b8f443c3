//! Which beliefs to look at.
//!
//! | module | walks, and picks |
//! | --- | --- |
//! | [`random`] | random actions |
//! | [`ssea`] | one step by every action from every belief; the farthest |
//! | [`ger`] | all successors of every belief; those whose value may be off most |
//! | [`fsvi`] | a state that is seen, and the belief that comes with it |
//! | [`hsvi`] | by the upper bound to the largest gap, with SARSOP's targets or without |

pub mod fsvi;
pub mod ger;
pub mod hsvi;
pub mod random;
pub mod ssea;

use rand_chacha::rand_core::Rng;

use super::options::Expansion;
use super::search::Search;

/// An expansion, and what it remembers.
pub struct Expand {
    expansion: Expansion,
    /// Beliefs at a time.
    count: usize,
    predictions: hsvi::Predictions,
}

impl Expand {
    /// Expansion of `count` beliefs at a time at most.
    #[must_use]
    pub fn new(expansion: Expansion, count: usize) -> Self {
        Self { expansion, count, predictions: hsvi::Predictions::default() }
    }

    /// Nodes of beliefs to look at, in the order of a walk; they are of B then. `target` is the gap that is wanted at b₀, and
    /// `idle` says that the last ones were of no use.
    pub fn sample(&mut self, search: &mut Search, random: &mut impl Rng, target: f64, idle: bool) -> Vec<u32> {
        let nodes = match self.expansion {
            Expansion::Random => random::walk(search, random, self.count),
            Expansion::Ssea => ssea::farthest(search, random, self.count),
            Expansion::Ger => ger::greedy(search, random, self.count),
            Expansion::Fsvi => fsvi::walk(search, random),
            Expansion::Hsvi => hsvi::trial(search, None, target),
            // Predictions may be too high for ever; a trial without them always lowers the gap.
            Expansion::Sarsop if idle => hsvi::trial(search, None, target),
            Expansion::Sarsop => hsvi::trial(search, Some(&mut self.predictions), target),
        };
        nodes.iter().for_each(|&node| search.add_point(node));
        nodes
    }
}
