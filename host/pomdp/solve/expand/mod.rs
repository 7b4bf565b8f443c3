//! Expansions: strategies that sample beliefs for backups.
//!
//! | module | samples |
//! | --- | --- |
//! | [`random`] | a walk with random actions |
//! | [`ssea`] | one successor per action of every belief; keeps the farthest |
//! | [`ger`] | all successors of every belief; keeps those with the largest error bound |
//! | [`ssga`] | a walk with the actions of the lower bound, or of the upper |
//! | [`fsvi`] | a walk with the optimal MDP actions of a simulated state |
//! | [`hsvi`] | a trial along the upper bound to the largest gap, optionally with SARSOP's targets |

pub mod fsvi;
pub mod ger;
pub mod hsvi;
pub mod random;
pub mod ssea;
pub mod ssga;

use std::collections::HashMap;

use rand_chacha::rand_core::Rng;

use super::branch::Branch;
use super::search::Search;
use crate::options::Expansion;

/// An expansion strategy and its state.
pub struct Expand {
    expansion: Expansion,
    /// Maximum number of beliefs per expansion.
    count: usize,
    predictions: hsvi::Predictions,
    /// Number of walks so far.
    walks: u64,
    turns: Turns,
    depth: Depth,
    /// Visits of each node since the last progress.
    visits: HashMap<u32, u32>,
    /// The way of this rank.
    branch: Branch,
}

/// Adaptive length limit of trials and walks. It grows only if the gap at b₀ stops shrinking: with γ near 1 a trial may
/// need thousands of steps, which cost as much as hundreds of short trials.
struct Depth {
    /// Maximum number of steps.
    max_steps: usize,
    /// Gap at the last check.
    gap: f64,
    /// Expansions since the last check.
    expansions: u32,
    /// Whether an expansion since then reached the limit.
    limit_reached: bool,
}

/// Expansions between two checks of the gap.
const GAP_CHECK_INTERVAL: u32 = 16;

/// Relative decrease of the gap between two checks that keeps the limit.
const LEAST_DECREASE: f64 = 0.01;

/// Upper limit of `max_steps`, after which discounting leaves nothing for any representable γ.
const MAX_STEPS: usize = 1 << 22;

impl Depth {
    /// Doubles the limit if trials reach it and the gap stagnates.
    fn note(&mut self, search: &mut Search, walked: usize) {
        self.limit_reached |= walked + 1 >= self.max_steps;
        self.expansions += 1;
        if self.expansions < GAP_CHECK_INTERVAL {
            return;
        }
        let bounds = search.bounds();
        let gap = bounds.upper - bounds.lower;
        if self.limit_reached && gap > (1.0 - LEAST_DECREASE) * self.gap {
            self.max_steps = (2 * self.max_steps).min(MAX_STEPS);
        }
        *self = Self { max_steps: self.max_steps, gap, expansions: 0, limit_reached: false };
    }
}

/// Takes turns between expansions: each gets a share of the work in proportion to the rate at which it closes the gap at b₀.
#[derive(Default)]
struct Turns {
    /// The last turn: its expansion, and the work and the gap before it.
    last: Option<(usize, u64, f64)>,
    arms: [Arm; TURNS.len()],
}

/// The record of one expansion.
#[derive(Clone, Copy, Default)]
struct Arm {
    /// Decrease of the logarithm of the gap, exponentially weighted.
    gained: f64,
    /// Work, exponentially weighted.
    spent: f64,
    /// Virtual time, work divided by the share: the smallest one is next.
    passed: f64,
}

/// The expansions that [`Expansion::Mixed`] mixes.
const TURNS: [Expansion; 3] = [Expansion::Sarsop, Expansion::Fsvi, Expansion::Hsvi];

/// Decay factor of the weights per turn.
const DECAY: f64 = 0.9;

/// Least share of the work.
const LEAST_SHARE: f64 = 0.1;

impl Turns {
    /// The expansion of the next turn: that with the least virtual time. After an `idle` turn it is not SARSOP, whose predictions may
    /// stay too high for ever, and after an idle walk it is HSVI, whose trials always reduce the gap.
    fn next(&mut self, search: &mut Search, idle: bool) -> Expansion {
        let bounds = search.bounds();
        let gap = bounds.upper - bounds.lower;
        if let Some((turn, work, before)) = self.last {
            let spent = (search.work - work).max(1) as f64;
            let gained = if gap > 0.0 && before > gap { (before / gap).ln() } else { 0.0 };
            let arm = &mut self.arms[turn];
            (arm.gained, arm.spent) = (DECAY * arm.gained + gained, DECAY * arm.spent + spent);
            let rate = |arm: &Arm| arm.gained / arm.spent.max(1.0);
            let (own, all) = (rate(arm), self.arms.iter().map(rate).sum::<f64>());
            let share = if own > 0.0 { own / all } else { 0.0 };
            self.arms[turn].passed += spent / share.max(LEAST_SHARE);
        }
        let walked = self.last.is_some_and(|(turn, ..)| TURNS[turn] == Expansion::Fsvi);
        let first = if !idle {
            0
        } else if walked {
            2
        } else {
            1
        };
        let least = (first..TURNS.len()).min_by(|&a, &b| self.arms[a].passed.total_cmp(&self.arms[b].passed));
        let turn = least.unwrap_or_default();
        self.last = Some((turn, search.work, gap));
        TURNS[turn]
    }
}

impl Expand {
    /// An expansion of at most `count` beliefs at a time. If ranks sample their own beliefs, `branch` is that of the rank.
    #[must_use]
    pub fn new(expansion: Expansion, count: usize, branch: Branch) -> Self {
        let predictions = hsvi::Predictions::default();
        let depth = Depth { max_steps: hsvi::DEEPEST, gap: f64::INFINITY, expansions: 0, limit_reached: false };
        let (walks, turns, visits) = (branch.0 as u64, Turns::default(), HashMap::new());
        Self { expansion, count, predictions, walks, turns, depth, visits, branch }
    }

    /// Whether longer trials may still help where shorter ones did not.
    #[must_use]
    pub fn deepens(&self) -> bool {
        self.depth.limit_reached && self.depth.max_steps < MAX_STEPS
    }

    /// Samples beliefs, adds them to B, and returns their nodes in the order of the walk. `target` is the requested gap
    /// at b₀. `idle` states that the last expansion made no progress. Trials avoid nodes visited since the last
    /// progress: by fruitless expansions, and by earlier trials (`turn`) of the same expansion.
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
        let (longest, visits, mut branch) = (self.depth.max_steps, &self.visits, self.branch);
        if turn == 0 {
            search.choose_root(&mut branch);
        }
        let expansion = match self.expansion {
            Expansion::Mixed => self.turns.next(search, idle),
            // As in mixed turns.
            Expansion::Sarsop if idle => Expansion::Hsvi,
            expansion => expansion,
        };
        let nodes = match expansion {
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
            Expansion::Hsvi | Expansion::Mixed => hsvi::trial(search, None, target, longest, visits, branch),
            Expansion::Sarsop => hsvi::trial(search, Some(&mut self.predictions), target, longest, visits, branch),
        };
        for &node in &nodes {
            search.add_point(node);
            *self.visits.entry(node).or_default() += 1;
        }
        self.depth.note(search, nodes.len());
        nodes
    }
}
