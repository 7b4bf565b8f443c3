//! Finite horizons: bounds on the expected sum of the first T rewards, discounted or not, that converge at b₀.
//!
//! For each number n of steps to go there is a value function, with V₀ = 0 and
//!
//! > Vₙ(b) = maxₐ Σₛ b(s) r(s, a) + γ Σₒ p(o|b, a) Vₙ₋₁(b^{a,o}).
//!
//! Each Vₙ has its own bounds. The lower bound is a set of vectors, initially those of one action repeated to the end.
//! The upper bound is the fast informed bound for n steps, lowered at beliefs and interpolated. A trial starts at b₀
//! with T steps to go. At each step it takes the best action by the upper bound, and the observation with the widest
//! weighted gap. On its way back it backs up the beliefs that it visited (heuristic search value iteration; Smith and
//! Simmons, *UAI*, 2004). Every vector stores its continuation after each observation, so it is the value of an n-step
//! plan, not only a bound.

use std::collections::HashMap;

use super::bounds::ActionValues;
use super::bounds::fib::sweep;
use super::bounds::sawtooth::Sawtooth;
use super::clock::{Clock, Standing};
use super::interval::{Interval, terms};
use super::upper::informed_bound;
use crate::alpha::AlphaVectors;
use crate::backends::cpu::{Assembler, Vectors};
use crate::belief::Belief;
use crate::model::Pomdp;
use crate::options::earned;
use crate::projection::Projection;
use crate::solution::{Round, Stage, Status};
use warpkov_common::numbers::max_norm;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Result of a finite-horizon search.
#[derive(Clone, Debug)]
pub struct Found {
    /// Policies for T, T − 1 … 1 steps to go. Vectors belong to the maximisation problem.
    pub stages: Vec<Stage>,
    /// Why the run ended, and its recorded rounds.
    pub ended: (Option<Status>, Vec<Round>),
}

/// Bounds on Vₙ for one n.
struct Level {
    /// Lower bound: one vector per plan.
    vectors: Vectors,
    /// Continuations: the plan of the next stage after observation o, at i·|Ω| + o.
    next: Vec<u32>,
    /// Initial upper bound: the fast informed bound.
    informed: ActionValues,
    /// Upper bound at visited beliefs, interpolated.
    sawtooth: Sawtooth,
    /// Indices of sawtooth points, by the nonzeros of their beliefs.
    points: HashMap<Vec<u64>, u32>,
}

/// An action at a belief: r(b, a), and for each possible observation (o, p(o|b, a), b^{a,o}).
struct Branch {
    reward: f64,
    outcomes: Vec<(u32, f64, Belief)>,
}

struct Search<'m> {
    model: &'m Pomdp,
    rewards: Vec<f64>,
    assembler: Assembler<'m>,
    projection: Projection,
    /// Initial beliefs and their probabilities; see [`Pomdp::starts`].
    starts: Vec<(f64, Belief)>,
    /// Bounds by number of steps to go, from 0.
    levels: Vec<Level>,
    backups: u64,
    /// Bound on the rounding error of both bounds.
    slack: f64,
}

/// Bounds on V_T(b₀) that hold for every plan, and what a step of good play [earns](earned). `model` is a maximisation problem.
#[must_use]
pub fn bounds(model: &Pomdp, horizon: u32) -> (Interval, f64) {
    let rewards = model.expected_rewards();
    let most = f64::from(horizon) * max_norm(&rewards);
    (Interval { lower: -most, upper: most }, earned(&rewards, model.actions() as usize))
}

/// Searches until the bounds on V_T(b₀) are within the limit of the gap or the clock ends the run. `model` is a maximisation problem.
/// More than `most` vectors end the run, too.
pub fn search(model: &Pomdp, horizon: u32, most: usize, mut clock: Clock) -> Found {
    let rewards = model.expected_rewards();
    let (largest, steps) = (max_norm(&rewards), f64::from(horizon));
    let assembler = Assembler::new(model, &rewards);
    // Each of T stages adds the rounding error of a backup of values of magnitude at most T · max |r|.
    let slack = 4.0 * terms(model) * UNIT * largest * steps * steps;
    let mut search = Search {
        model,
        rewards,
        assembler,
        projection: Projection::default(),
        starts: model.starts(),
        levels: Vec::new(),
        backups: 0,
        slack,
    };
    search.prepare(horizon, &mut clock);
    while search.levels.len() > horizon as usize && !clock.over(search.standing()) {
        // Half of the gap remains for beliefs that trials do not visit.
        let gap = clock.gap_limit();
        let risen = search.trial(gap, gap / (4.0 * steps), &mut clock);
        clock.iterations += 1;
        if search.vectors() > most {
            clock.status.get_or_insert(Status::Memory);
        } else if !risen {
            clock.status.get_or_insert(Status::Stalled);
        }
    }
    let ended = clock.end(search.standing());
    let stages = search.levels.into_iter().skip(1).rev();
    Found {
        stages: stages.map(|Level { vectors, next, .. }| Stage { vectors: vectors.into_alpha(), next }).collect(),
        ended,
    }
}

impl Search<'_> {
    /// Computes the initial bounds of all stages, or of as many as time permits.
    fn prepare(&mut self, horizon: u32, clock: &mut Clock) {
        let (states, actions) = (self.model.states() as usize, self.model.actions() as usize);
        let mut nothing = AlphaVectors::new(self.model.states());
        nothing.push(0, &vec![0.0; states]);
        self.levels.push(Level::new(nothing, Vec::new(), vec![0.0; states * actions], actions));
        for n in 1..=horizon as usize {
            if clock.late() {
                return;
            }
            let below = &self.levels[n - 1];
            let (mut blind, mut next) = (AlphaVectors::new(self.model.states()), Vec::new());
            for action in 0..actions as u32 {
                let follower = if n == 1 { 0 } else { action };
                blind.push(action, &self.assembler.ahead(action, below.vectors.alpha().vector(follower as usize)));
                next.resize(next.len() + self.model.observation_count() as usize, follower);
            }
            let informed = sweep(self.model, &self.rewards, &below.informed);
            self.levels.push(Level::new(blind, next, informed, actions));
        }
    }

    /// One trial: walks down and backs up on the way back. Returns whether a bound moved.
    fn trial(&mut self, gap: f64, min_improvement: f64, clock: &mut Clock) -> bool {
        let gamma = self.model.gamma();
        let horizon = self.levels.len() - 1;
        let width = |(prob, start): &(f64, Belief)| prob * (self.upper(horizon, start) - self.lower(horizon, start).1);
        let (widest, _) = self.starts.iter().map(width).enumerate().fold((0, f64::NEG_INFINITY), larger);
        let (mut belief, mut n, mut allowed) = (self.starts[widest].1.clone(), horizon, gap / 2.0);
        let mut path = Vec::new();
        while n > 0 && self.upper(n, &belief) - self.lower(n, &belief).1 > allowed && !clock.late() {
            let branches = self.branches(&belief);
            let upper = |branch: &Branch| self.backed_up(branch, |after| self.upper(n - 1, after));
            let best = branches.iter().map(upper).enumerate().fold((0, f64::NEG_INFINITY), larger);
            let width = |(_, prob, after): &(u32, f64, Belief)| {
                prob * (self.upper(n - 1, after) - self.lower(n - 1, after).1 - allowed / gamma.max(f64::MIN_POSITIVE))
            };
            let widths = branches[best.0].outcomes.iter().map(width).enumerate();
            let (widest, width) = widths.fold((0, f64::NEG_INFINITY), larger);
            let after = branches[best.0].outcomes.get(widest).map(|outcome| outcome.2.clone());
            path.push((n, std::mem::take(&mut belief), branches));
            let Some(after) = after.filter(|_| width > 0.0) else { break };
            (belief, n, allowed) = (after, n - 1, allowed / gamma.max(f64::MIN_POSITIVE));
        }
        let mut moved = false;
        for (n, belief, branches) in path.iter().rev() {
            moved |= self.back_up(*n, belief, branches, min_improvement);
        }
        moved
    }

    /// Backs up one belief: raises the lower bound and lowers the upper one. Returns whether a bound moved.
    fn back_up(&mut self, n: usize, belief: &Belief, branches: &[Branch], min_improvement: f64) -> bool {
        self.backups += 1;
        let upper = |branch: &Branch| self.backed_up(branch, |after| self.upper(n - 1, after));
        let upper = branches.iter().map(upper).fold(f64::NEG_INFINITY, f64::max);
        let lower = |branch: &Branch| self.backed_up(branch, |after| self.lower(n - 1, after).1);
        let (action, lower) = branches.iter().map(lower).enumerate().fold((0, f64::NEG_INFINITY), larger);
        let mut moved = false;
        if upper < self.upper(n, belief) {
            let key: Vec<u64> = belief.iter().flat_map(|(s, p)| [u64::from(s), p.to_bits()]).collect();
            let level = &mut self.levels[n];
            let number = level.points.get(&key).copied();
            if let Some(number) = level.sawtooth.lower(belief, upper, number) {
                level.points.insert(key, number);
            }
            moved = true;
        }
        if lower > self.lower(n, belief).1 + min_improvement {
            // Observations of probability 0 continue like the most probable one.
            let outcomes = &branches[action].outcomes;
            let likeliest =
                outcomes.iter().fold(
                    (0.0, 0),
                    |most, (_, prob, after)| {
                        if *prob > most.0 { (*prob, self.lower(n - 1, after).0) } else { most }
                    },
                );
            let mut next = vec![likeliest.1; self.model.observation_count() as usize];
            outcomes.iter().for_each(|(o, _, after)| next[*o as usize] = self.lower(n - 1, after).0);
            let vector = self.assembler.vector(self.levels[n - 1].vectors.alpha(), action as u32, &next);
            let level = &mut self.levels[n];
            level.vectors.push(action as u32, &vector);
            level.next.extend(next);
            moved = true;
        }
        moved
    }

    fn branches(&mut self, belief: &Belief) -> Vec<Branch> {
        let Self { model, rewards, projection, .. } = self;
        let branch = |action: u32| {
            let mut outcomes = Vec::new();
            projection
                .each(model, belief, action, |observation, prob, after| outcomes.push((observation, prob, after)));
            Branch { reward: model.reward(rewards, belief, action), outcomes }
        };
        (0..model.actions()).map(branch).collect()
    }

    /// r(b, a) + γ Σₒ p(o|b, a) V(b^{a,o}).
    fn backed_up(&self, branch: &Branch, value: impl Fn(&Belief) -> f64) -> f64 {
        let future: f64 = branch.outcomes.iter().map(|(_, prob, after)| prob * value(after)).sum();
        branch.reward + self.model.gamma() * future
    }

    /// The best plan at a belief, and its value.
    fn lower(&self, n: usize, belief: &Belief) -> (u32, f64) {
        self.levels[n].vectors.best(belief).unwrap_or((0, f64::NEG_INFINITY))
    }

    fn upper(&self, n: usize, belief: &Belief) -> f64 {
        let level = &self.levels[n];
        let informed = informed_bound(&level.informed, self.model.actions() as usize, belief);
        level.sawtooth.bound(belief, informed, 0)
    }

    fn vectors(&self) -> usize {
        self.levels.iter().map(|level| level.vectors.alpha().len()).sum()
    }

    fn standing(&self) -> Standing {
        let horizon = self.levels.len() - 1;
        let lower: f64 = self.starts.iter().map(|(prob, start)| prob * self.lower(horizon, start).1).sum();
        let upper: f64 = self.starts.iter().map(|(prob, start)| prob * self.upper(horizon, start)).sum();
        let bounds = Interval { lower: lower - self.slack, upper: upper + self.slack };
        let points: usize = self.levels.iter().map(|level| level.points.len()).sum();
        let bytes = |level: &Level| {
            level.vectors.bytes()
                + 4 * level.next.len()
                + 8 * level.informed.len()
                + level.sawtooth.bytes()
                + level.points.keys().map(|key| 8 * key.len() + 48).sum::<usize>()
        };
        Standing {
            bounds,
            backups: self.backups,
            beliefs: points + 1,
            vectors: self.vectors(),
            bytes: self.levels.iter().map(bytes).sum::<usize>() as u64,
        }
    }
}

impl Level {
    fn new(vectors: AlphaVectors, next: Vec<u32>, informed: ActionValues, actions: usize) -> Self {
        let most = |factors: &[f64]| factors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let corners = informed.chunks(actions).map(most).collect();
        Self {
            vectors: Vectors::new(&vectors),
            next,
            informed,
            sawtooth: Sawtooth::new(corners),
            points: HashMap::new(),
        }
    }
}

/// The larger of two, the first in case of ties.
fn larger(best: (usize, f64), next: (usize, f64)) -> (usize, f64) {
    if next.1 > best.1 { next } else { best }
}
