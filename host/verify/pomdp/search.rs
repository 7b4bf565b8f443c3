//! Both bounds of V\*, by trials: heuristic search value iteration in intervals (Smith and Simmons, *Heuristic search value iteration for
//! POMDPs*, 2004). Every point and every vector is proved when it is made.

use std::collections::{BTreeSet, HashMap};

use rayon::prelude::*;
use warpkov_common::interrupt;
use warpkov_pomdp::alpha::AlphaVectors;

use super::error::Unverifiable;
use super::instance::{Instance, Sparse, dot, exact, middle, near, row};
use crate::interval::{Interval, Sum};

/// Bounds of V\* for a number of steps to go, or for all steps.
struct Level {
    /// Q(s, a) at s·A + a.
    informed: Vec<f64>,
    /// V̄(eₛ).
    corners: Vec<f64>,
    points: Vec<Point>,
    /// The point at a belief.
    places: HashMap<Vec<(u32, u64)>, usize>,
    /// Vectors that are at most V\*, one after the other.
    lower: Vec<f64>,
}

/// vᵢ at bᵢ.
struct Point {
    belief: Sparse,
    /// Lower bound of Σ bᵢ(s) V̄(eₛ) − vᵢ.
    drop: f64,
}

/// An action in a belief: its b^{a,o} with V̄.
type Branches = Vec<(Sparse, f64)>;

/// A search for bounds of V\*(b₀).
pub(super) struct Search<'a> {
    instance: &'a Instance<'a>,
    /// By steps to go, from 0; a single one for all steps.
    levels: Vec<Level>,
    endless: bool,
    /// Vectors that guide the trials in place of lower bounds, and prove nothing.
    guide: &'a [f64],
    /// Remaining multiplications.
    pub visits: u64,
}

impl Level {
    fn new(informed: Vec<f64>, actions: usize, lower: Vec<f64>) -> Self {
        let corners = informed.chunks(actions).map(|q| q.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
        Self { informed, corners, points: Vec::new(), places: HashMap::new(), lower }
    }
}

impl<'a> Search<'a> {
    /// The first bounds for the first `horizon` rewards, or for all. A `guide` is for all rewards.
    pub fn new(
        instance: &'a Instance<'a>,
        horizon: Option<u32>,
        guide: &'a [f64],
        visits: u64,
    ) -> Result<Self, Unverifiable> {
        match horizon {
            Some(steps) => Self::within(instance, steps, visits).ok_or(Unverifiable::Interrupted),
            None => Ok(Self::endless(instance, guide, visits)),
        }
    }

    /// The first bounds for γσ < 1 and all rewards. A `guide` of concatenated vectors takes the place of lower bounds in the choice of beliefs.
    pub fn endless(instance: &'a Instance<'a>, guide: &'a [f64], visits: u64) -> Self {
        let model = instance.model;
        let actions = model.actions() as usize;
        let mut informed = vec![0.0; model.states() as usize * actions];
        let work = (64 * actions * (model.process().transitions().nnz() + model.observations().nnz())).max(1) as u64;
        let mut left = visits / 4;
        loop {
            let new = informed_backup(instance, &informed);
            let changes = || new.iter().zip(&informed).map(|(&new, &old)| Interval::point(new) - Interval::point(old));
            let rise = changes().fold(f64::NEG_INFINITY, |most, x| most.max(x.hi));
            let least = changes().fold(f64::INFINITY, |least, x| least.min(x.lo));
            let size = new.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            informed = new;
            left = left.saturating_sub(work);
            if rise - least <= 1e-15 * size || left == 0 || interrupt::requested() {
                let onward = if rise < 0.0 { instance.onward.lo } else { instance.onward.hi };
                let onward = Interval::point(onward);
                let shift = (onward * Interval::point(rise)).over(Interval::point(1.0) - onward);
                informed.iter_mut().for_each(|q| *q = (Interval::point(*q) + shift).hi);
                break;
            }
        }
        // The worst reward for ever.
        let blind = Interval::point(instance.least_reward()).over(Interval::point(1.0) - instance.onward).lo;
        let level = Level::new(informed, actions, vec![blind; model.states() as usize]);
        Self { instance, levels: vec![level], endless: true, guide, visits }
    }

    /// The first bounds for the first `steps` rewards. `None` after an interrupt.
    fn within(instance: &'a Instance<'a>, steps: u32, visits: u64) -> Option<Self> {
        let (states, actions) = (instance.model.states() as usize, instance.model.actions() as usize);
        let (mut informed, mut blind) = (vec![0.0; states * actions], Interval::ZERO);
        let mut levels = vec![Level::new(informed.clone(), actions, vec![0.0; states])];
        for _ in 0..steps {
            if interrupt::requested() {
                return None;
            }
            informed = informed_backup(instance, &informed);
            blind = Interval::point(instance.least_reward()) + instance.onward * Interval::point(blind.lo);
            levels.push(Level::new(informed.clone(), actions, vec![blind.lo; states]));
        }
        Some(Self { instance, levels, endless: false, guide: &[], visits })
    }

    /// The level of b₀.
    fn top(&self) -> usize {
        self.levels.len() - 1
    }

    /// The level after one step.
    fn next(&self, level: usize) -> usize {
        if self.endless { level } else { level - 1 }
    }

    /// Points of the upper bound.
    pub fn points(&self) -> usize {
        self.levels.iter().map(|level| level.points.len()).sum()
    }

    /// Looks for lower bounds, too, and no longer trusts the guide. `known` are proved ones for all steps, one after the other.
    pub fn find_lower(&mut self, known: &[f64]) {
        self.guide = &[];
        let top = self.top();
        self.levels[top].lower.extend_from_slice(known);
    }

    /// Trials until V\*(b₀) between these bounds is `enough`, or nothing changes. Each ends in beliefs whose gap is small against `wanted`.
    pub fn run(&mut self, wanted: f64, enough: &dyn Fn(Interval) -> bool) -> Interval {
        let starts = self.instance.starts.clone();
        let (top, mut found) = (self.top(), Interval::ALL);
        loop {
            let uppers: Vec<f64> = starts.iter().map(|start| self.at(top, &exact(start))).collect();
            let upper = uppers.iter().fold(Interval::ZERO, |sum, &x| sum + Interval::point(x)).hi;
            let lower = self.instance.value(&self.levels[top].lower).lo;
            found = Interval::new(found.lo.max(lower), found.hi.min(upper));
            if enough(found) || self.visits == 0 || interrupt::requested() {
                return found;
            }
            let gaps = starts.iter().zip(uppers).map(|(start, upper)| upper - self.guess(top, start));
            let widest = gaps.enumerate().fold((0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a });
            if !self.trial(starts[widest.0].clone(), wanted.max(widest.1 / 2.0)) {
                return found;
            }
        }
    }

    /// V(b) of the guide or the lower bound, for choices.
    fn guess(&self, level: usize, belief: &[(u32, f64)]) -> f64 {
        let vectors = if self.guide.is_empty() { &self.levels[level].lower } else { self.guide };
        let states = self.instance.model.states() as usize;
        vectors.chunks(states).map(|x| near(belief, x)).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Goes down from a belief, and backs up all beliefs on the way. Returns whether a bound changed.
    fn trial(&mut self, start: Sparse, wanted: f64) -> bool {
        let (mut belief, mut limit, mut path, mut changed) = (start, wanted, Vec::new(), false);
        let mut level = self.top();
        while (self.endless || level > 0) && self.visits > 0 && !interrupt::requested() {
            let branches = self.improve(level, &belief, &mut changed);
            path.push((level, belief));
            level = self.next(level);
            limit /= self.instance.model.gamma();
            let excess = |(after, upper): (Sparse, f64)| {
                let mass: f64 = after.iter().map(|(_, p)| p).sum();
                (upper - self.guess(level, &after) - limit * mass, mass, after)
            };
            let widest = branches.into_iter().map(excess).max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, mass, after)) = widest.filter(|(excess, mass, _)| *excess > 0.0 && *mass > 0.0) else { break };
            let scaled = after.into_iter().map(|(state, p)| (state, p / mass)).filter(|(_, p)| *p > 0.0);
            belief = scaled.collect();
        }
        path.pop();
        for (level, belief) in path.iter().rev() {
            self.improve(*level, belief, &mut changed);
        }
        changed
    }

    /// Backs up both bounds at a belief. Returns the branches of the action that the upper one prefers.
    fn improve(&mut self, level: usize, belief: &[(u32, f64)], changed: &mut bool) -> Branches {
        let (value, branches) = self.backup(level, belief);
        *changed |= self.put(level, belief, value);
        if self.guide.is_empty() {
            *changed |= self.raise(level, belief);
        }
        branches
    }

    /// An upper bound of V\*(b).
    pub fn at(&mut self, level: usize, belief: &[(u32, Interval)]) -> f64 {
        if level == 0 && !self.endless {
            return 0.0;
        }
        let actions = self.instance.model.actions() as usize;
        let Level { informed, corners, points, .. } = &self.levels[level];
        let by_informed = informed_at(informed, actions, belief);
        let mut sum = Sum::default();
        belief.iter().for_each(|&(state, p)| sum.add_interval(p * Interval::point(corners[state as usize])));
        let mut work = (belief.len() * (actions + 1) * 8) as u64;
        let mut fall = 0.0_f64;
        for point in points {
            // Both ascend by state.
            let mut places = belief.iter();
            let mut share = f64::INFINITY;
            for &(state, p) in &point.belief {
                work += 1;
                let own = places.by_ref().find(|(own, _)| *own >= state).filter(|(own, _)| *own == state);
                share = share.min(own.map_or(0.0, |(_, own)| own.lo / p));
                if share * point.drop <= fall {
                    break;
                }
            }
            fall = fall.max((share.next_down() * point.drop).next_down());
        }
        self.visits = self.visits.saturating_sub(work + points.len() as u64);
        by_informed.min((sum.interval() - Interval::point(fall)).hi)
    }

    /// (HV̄)(b), rounded up, and the branches of its action.
    fn backup(&mut self, level: usize, belief: &[(u32, f64)]) -> (f64, Branches) {
        let (instance, after_level) = (self.instance, self.next(level));
        let belief = exact(belief);
        let mut best = (f64::NEG_INFINITY, Vec::new());
        for action in 0..instance.model.actions() {
            let mut next = Sum::default();
            let mut branches = Vec::new();
            for after in instance.after(&belief, action).into_values() {
                let upper = self.at(after_level, &after);
                next.add(upper);
                branches.push((after.into_iter().map(|(state, p)| (state, middle(p))).collect(), upper));
            }
            let gamma = Interval::point(instance.model.gamma());
            let value = (instance.earned(&belief, action) + gamma * next.interval()).hi;
            if value > best.0 {
                best = (value, branches);
            }
        }
        best
    }

    /// Makes v a point, if it lowers V̄ there. Returns whether it does.
    fn put(&mut self, level: usize, belief: &[(u32, f64)], value: f64) -> bool {
        if value.is_nan() || value >= self.at(level, &exact(belief)) {
            return false;
        }
        let level = &mut self.levels[level];
        let drop = (dot(belief, &level.corners) - Interval::point(value)).lo;
        if drop.is_nan() || drop <= 0.0 {
            return false;
        }
        let key = belief.iter().map(|&(state, p)| (state, p.to_bits())).collect();
        let next = level.points.len();
        match *level.places.entry(key).or_insert(next) {
            place if place < next => {
                let point = &mut level.points[place];
                let lower = drop > point.drop;
                point.drop = point.drop.max(drop);
                lower
            }
            _ => {
                level.points.push(Point { belief: belief.to_vec(), drop });
                true
            }
        }
    }

    /// Adds a vector, rounded down, that is the best one step before the lower bound. Returns whether it is higher at the belief.
    fn raise(&mut self, level: usize, belief: &[(u32, f64)]) -> bool {
        let (instance, states) = (self.instance, self.instance.model.states());
        let known = &self.levels[self.next(level)].lower;
        let count = known.len() / states.max(1) as usize;
        let place = exact(belief);
        let mut best = (f64::NEG_INFINITY, 0, Vec::new());
        let mut work = 0;
        for action in 0..instance.model.actions() {
            let mut next = vec![0; instance.model.observation_count() as usize];
            let mut ahead = 0.0;
            for (observation, after) in instance.after(&place, action) {
                let after: Sparse = after.into_iter().map(|(state, p)| (state, middle(p))).collect();
                let values = (0..count).map(|i| near(&after, row(known, states, i)));
                let follows = values.enumerate().fold((0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a });
                next[observation as usize] = follows.0 as u32;
                ahead += follows.1;
                work += count * after.len();
            }
            let value = middle(instance.earned(&place, action)) + instance.model.gamma() * ahead;
            if value > best.0 {
                best = (value, action, next);
            }
        }
        let all: Vec<u32> = (0..states).collect();
        let new = instance.backup(known, best.1, &best.2, &all);
        work += 32 * (instance.model.process().transitions().nnz() + instance.model.observations().nnz())
            / instance.model.actions() as usize;
        self.visits = self.visits.saturating_sub(work as u64);
        let new: Vec<f64> = new.iter().map(|x| x.lo).collect();
        let (value, before) = (near(belief, &new), self.lower(level, belief));
        // Rounding alone is no progress.
        let higher = value > before + 4.0 * f64::EPSILON * before.abs();
        if higher {
            self.levels[level].lower.extend(new);
        }
        higher
    }

    fn lower(&self, level: usize, belief: &[(u32, f64)]) -> f64 {
        let vectors = self.levels[level].lower.chunks(self.instance.model.states() as usize);
        vectors.map(|x| near(belief, x)).fold(f64::NEG_INFINITY, f64::max)
    }

    /// An upper bound of what the policy of `vectors` earns: of `depth` steps of it, then V̄.
    pub fn followed(&mut self, vectors: &AlphaVectors, belief: &[(u32, Interval)], depth: u32) -> f64 {
        let bound = self.at(self.top(), belief);
        if depth == 0 || self.visits == 0 || interrupt::requested() {
            return bound;
        }
        self.visits = self.visits.saturating_sub((vectors.len() * belief.len()) as u64);
        let (instance, gamma) = (self.instance, Interval::point(self.instance.model.gamma()));
        let mut best = f64::NEG_INFINITY;
        for action in possible(vectors, belief) {
            let mut next = Sum::default();
            for after in instance.after(belief, action).into_values() {
                next.add(self.followed(vectors, &after, depth - 1));
            }
            best = best.max((instance.earned(belief, action) + gamma * next.interval()).hi);
        }
        best.min(bound)
    }
}

/// The actions of the vectors that may be the best in a belief.
fn possible(vectors: &AlphaVectors, belief: &[(u32, Interval)]) -> BTreeSet<u32> {
    let value = |i: usize| {
        let mut sum = Sum::default();
        belief.iter().for_each(|&(state, p)| sum.add_multiple(p, vectors.vector(i)[state as usize]));
        sum.interval()
    };
    let values: Vec<Interval> = (0..vectors.len()).map(value).collect();
    let least = values.iter().fold(f64::NEG_INFINITY, |most, x| most.max(x.lo));
    let best = values.iter().zip(vectors.actions()).filter(|(x, _)| x.hi >= least);
    best.map(|(_, &action)| action).collect()
}

/// r(s, a) + γ Σₒ max_{a'} Σ_{s'} T O Q(s', a'), rounded up.
fn informed_backup(instance: &Instance<'_>, informed: &[f64]) -> Vec<f64> {
    let (states, actions) = (instance.model.states(), instance.model.actions());
    let pairs: Vec<(u32, u32)> = (0..states).flat_map(|s| (0..actions).map(move |a| (s, a))).collect();
    let of_pair = |&(state, action): &(u32, u32)| {
        let mut sum = Sum::default();
        let after = instance.after(&[(state, Interval::point(1.0))], action);
        after.values().for_each(|after| sum.add(informed_at(informed, actions as usize, after)));
        (instance.reward(state, action) + Interval::point(instance.model.gamma()) * sum.interval()).hi
    };
    pairs.par_iter().map(of_pair).collect()
}

/// maxₐ b·Q(a), rounded up.
fn informed_at(informed: &[f64], actions: usize, belief: &[(u32, Interval)]) -> f64 {
    let of_action = |action: usize| {
        let mut sum = Sum::default();
        for &(state, p) in belief {
            sum.add_interval(p * Interval::point(informed[state as usize * actions + action]));
        }
        sum.interval().hi
    };
    (0..actions).map(of_action).fold(f64::NEG_INFINITY, f64::max)
}
