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

use super::search::Search;
use crate::pomdp::options::Expansion;

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
    depth: Depth,
    /// Where trials went since anything was learnt.
    visits: HashMap<u32, u32>,
}

/// How far trials and walks go: as far as it takes to close the gap at b₀. With γ near 1 a trial may need thousands of steps,
/// which cost as much as hundreds of short ones.
struct Depth {
    /// Steps at most.
    most: usize,
    /// The gap when it was last asked for, and expansions since.
    gap: f64,
    since: u32,
    /// Whether one of them went that far.
    met: bool,
}

/// Expansions after which the gap at b₀ is to be smaller.
const ASKED: u32 = 16;

/// By this part of it.
const SHRUNK: f64 = 0.01;

/// Steps at which nothing is left after discounting for any γ that there is.
const ENDLESS: usize = 1 << 22;

impl Depth {
    /// Goes deeper where the gap does not shrink.
    fn note(&mut self, search: &mut Search, walked: usize) {
        self.met |= walked + 1 >= self.most;
        self.since += 1;
        if self.since < ASKED {
            return;
        }
        let bounds = search.bounds();
        let gap = bounds.upper - bounds.lower;
        if self.met && gap > (1.0 - SHRUNK) * self.gap {
            self.most = (2 * self.most).min(ENDLESS);
        }
        *self = Self { most: self.most, gap, since: 0, met: false };
    }
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
        let depth = Depth { most: hsvi::DEEPEST, gap: f64::INFINITY, since: 0, met: false };
        Self { expansion, count, predictions, walks: 0, turns: Turns::default(), depth, visits: HashMap::new() }
    }

    /// Whether a trial that goes deeper may still be of use where others were not.
    #[must_use]
    pub fn deepens(&self) -> bool {
        self.depth.met && self.depth.most < ENDLESS
    }

    /// Nodes of beliefs to look at, in the order of a walk; they are of B then. `target` is the gap that is wanted at b₀, and
    /// `idle` says that the last ones were of no use. A trial goes where others went less that nothing was learnt from: those of
    /// this expansion, of which it is the number `turn`, and those before that were of no use.
    pub fn sample(
        &mut self,
        search: &mut Search,
        random: &mut impl Rng,
        target: f64,
        idle: bool,
        turn: usize,
    ) -> Vec<u32> {
        if turn == 0 && !idle {
            self.visits.clear();
        }
        let (longest, visits) = (self.depth.most, &self.visits);
        let nodes = match self.expansion {
            Expansion::Random => random::walk(search, random, self.count),
            Expansion::Ssea => ssea::farthest(search, random, self.count),
            Expansion::Ger => ger::greedy(search, random, self.count),
            Expansion::Ssga => ssga::walk(search, random, false, longest),
            Expansion::Fsvi => fsvi::walk(search, random, longest),
            Expansion::Walks => {
                self.walks += 1;
                match self.walks % 3 {
                    0 => ssga::walk(search, random, true, longest),
                    1 => fsvi::walk(search, random, longest),
                    _ => ssga::walk(search, random, false, longest),
                }
            }
            Expansion::Mixed if !idle && self.turns.next(search) == 1 => fsvi::walk(search, random, longest),
            Expansion::Hsvi => hsvi::trial(search, None, target, longest, visits),
            // Predictions may be too high for ever; a trial without them always lowers the gap.
            Expansion::Sarsop | Expansion::Mixed if idle => hsvi::trial(search, None, target, longest, visits),
            Expansion::Sarsop | Expansion::Mixed => {
                hsvi::trial(search, Some(&mut self.predictions), target, longest, visits)
            }
        };
        for &node in &nodes {
            search.add_point(node);
            *self.visits.entry(node).or_default() += 1;
        }
        self.depth.note(search, nodes.len());
        nodes
    }
}
