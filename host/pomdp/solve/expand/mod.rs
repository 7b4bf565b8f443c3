//! Which beliefs to look at.
//!
//! | module | walks, and picks |
//! | --- | --- |
//! | [`random`] | random actions |
//! | [`ssea`] | one step by every action from every belief; the farthest |
//! | [`ger`] | all successors of every belief; those whose value may be off most |
//! | [`ssga`] | the actions of the lower bound, or of the upper |
//! | [`fsvi`] | a state that is seen, and the belief that comes with it |
//! | [`hsvi`] | by the upper bound to the largest gap, with SARSOP's targets or without |

pub mod fsvi;
pub mod ger;
pub mod hsvi;
pub mod random;
pub mod ssea;
pub mod ssga;

use std::collections::HashMap;

use rand_chacha::rand_core::Rng;

use super::options::Expansion;
use super::search::Search;

/// Part of the discounted time that may lie beyond the end of a walk.
const BEYOND: f64 = 0.01;

/// The probability of an action that is not the best, on a walk.
pub const EXPLORED: f64 = 0.1;

/// Steps of a walk.
#[must_use]
pub fn steps(gamma: f64) -> u32 {
    (BEYOND.ln() / gamma.ln()).clamp(1.0, 10_000.0) as u32
}

/// An expansion, and what it remembers.
pub struct Expand {
    expansion: Expansion,
    /// Beliefs at a time.
    count: usize,
    predictions: hsvi::Predictions,
    /// Walks so far.
    walks: u64,
    turns: Turns,
}

/// Two expansions by turns, the one that closes the gap at b₀ faster for the larger part of the backups.
#[derive(Default)]
struct Turns {
    /// Which it was, backups before it, and the gap before it.
    last: Option<(usize, u64, f64)>,
    /// By how much each closed the gap of late.
    gained: [f64; 2],
    /// After how many backups.
    spent: [f64; 2],
    /// Backups of each by its share: the smaller one is next.
    passed: [f64; 2],
}

/// The weight of what was before in what is of late.
const MEMORY: f64 = 0.9;

/// The least part of the backups.
const LEAST: f64 = 0.2;

impl Turns {
    /// Whose turn it is.
    fn next(&mut self, search: &mut Search) -> usize {
        let bounds = search.bounds();
        let gap = bounds.upper - bounds.lower;
        if let Some((turn, backups, before)) = self.last {
            let spent = (search.backups - backups).max(1) as f64;
            self.gained[turn] = MEMORY * self.gained[turn] + (before - gap);
            self.spent[turn] = MEMORY * self.spent[turn] + spent;
            let [one, other] = [turn, 1 - turn].map(|i| self.gained[i] / self.spent[i].max(1.0));
            let share = if one > 0.0 { one / (one + other) } else { 0.0 };
            self.passed[turn] += spent / share.clamp(LEAST, 1.0 - LEAST);
        }
        let turn = usize::from(self.passed[1] < self.passed[0]);
        self.last = Some((turn, search.backups, gap));
        turn
    }
}

impl Expand {
    /// Expansion of `count` beliefs at a time at most.
    #[must_use]
    pub fn new(expansion: Expansion, count: usize) -> Self {
        let predictions = hsvi::Predictions::default();
        Self { expansion, count, predictions, walks: 0, turns: Turns::default() }
    }

    /// Nodes of beliefs to look at, in the order of a walk; they are of B then. `target` is the gap that is wanted at b₀, and
    /// `idle` says that the last ones were of no use. Trials look at `visits` of others that nothing was yet learnt from.
    pub fn sample(
        &mut self,
        search: &mut Search,
        random: &mut impl Rng,
        target: f64,
        idle: bool,
        visits: &HashMap<u32, u32>,
    ) -> Vec<u32> {
        let nodes = match self.expansion {
            Expansion::Random => random::walk(search, random, self.count),
            Expansion::Ssea => ssea::farthest(search, random, self.count),
            Expansion::Ger => ger::greedy(search, random, self.count),
            Expansion::Ssga => ssga::walk(search, random, false),
            Expansion::Fsvi => fsvi::walk(search, random),
            Expansion::Walks => {
                self.walks += 1;
                match self.walks % 3 {
                    0 => ssga::walk(search, random, true),
                    1 => fsvi::walk(search, random),
                    _ => ssga::walk(search, random, false),
                }
            }
            Expansion::Mixed if !idle && self.turns.next(search) == 1 => fsvi::walk(search, random),
            Expansion::Hsvi => hsvi::trial(search, None, target, hsvi::DEEPEST, visits),
            // Predictions may be too high for ever; a trial without them always lowers the gap.
            Expansion::Sarsop | Expansion::Mixed if idle => hsvi::trial(search, None, target, hsvi::DEEPEST, visits),
            Expansion::Sarsop | Expansion::Mixed => {
                hsvi::trial(search, Some(&mut self.predictions), target, hsvi::DEEPEST, visits)
            }
        };
        nodes.iter().for_each(|&node| search.add_point(node));
        nodes
    }
}
