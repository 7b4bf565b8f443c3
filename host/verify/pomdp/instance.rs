//! A model to be maximised, and beliefs without a scale.

use std::collections::{BTreeMap, HashMap};

use warpkov_mdp::model::Csr;
use warpkov_pomdp::model::Pomdp;

use crate::interval::{Interval, Sum};

/// Nonzeros of a vector of nonnegative numbers: states and entries.
pub(super) type Sparse<T = f64> = Vec<(u32, T)>;

/// b·x.
pub(super) fn dot(b: &[(u32, f64)], x: &[f64]) -> Interval {
    let mut sum = Sum::default();
    b.iter().for_each(|&(state, p)| sum.add_product(p, x[state as usize]));
    sum.interval()
}

/// b·x without bounds, for choices.
pub(super) fn near(b: &[(u32, f64)], x: &[f64]) -> f64 {
    b.iter().map(|&(state, p)| p * x[state as usize]).sum()
}

pub(super) fn middle(x: Interval) -> f64 {
    x.lo / 2.0 + x.hi / 2.0
}

pub(super) fn nonnegative(x: Interval) -> Interval {
    Interval::new(x.lo.max(0.0), x.hi)
}

/// A belief of exact numbers.
pub(super) fn exact(belief: &[(u32, f64)]) -> Sparse<Interval> {
    belief.iter().map(|&(state, p)| (state, Interval::point(p))).collect()
}

/// Vector i of concatenated ones of `states` entries.
pub(super) fn row(values: &[f64], states: u32, i: usize) -> &[f64] {
    let states = states as usize;
    &values[i * states..][..states]
}

/// A model to be maximised.
pub(super) struct Instance<'a> {
    pub model: &'a Pomdp,
    /// r(s, a) at s·A + a.
    rewards: Vec<Interval>,
    /// γ Σ_{s'} T Σₒ O of all states and actions.
    pub onward: Interval,
    /// b₀, for each value of the observed component.
    pub starts: Vec<Sparse>,
    /// The states of each value of the observed component.
    pub parts: Vec<Vec<u32>>,
}

impl<'a> Instance<'a> {
    pub fn new(model: &'a Pomdp) -> Self {
        let process = model.process();
        let sums = |matrix: &Csr| {
            let row = |row: usize| {
                let mut sum = Sum::default();
                matrix.row(row).1.iter().for_each(|&p| sum.add(p));
                sum.interval()
            };
            (0..matrix.rows()).map(row).reduce(Interval::hull).map_or(Interval::ZERO, nonnegative)
        };
        let gamma = Interval::point(model.gamma());
        let reward = |row: usize| {
            let mut sum = Sum::default();
            sum.add(process.action_reward(row));
            process.rewards_of(row).zip(process.transitions().row(row).1).for_each(|(r, &p)| sum.add_product(p, r));
            sum.interval()
        };
        let mut starts: BTreeMap<u32, Sparse> = BTreeMap::new();
        for (state, p) in model.start().iter() {
            starts.entry(model.seen().get(state as usize).copied().unwrap_or_default()).or_default().push((state, p));
        }
        Self {
            model,
            rewards: (0..process.rows()).map(reward).collect(),
            onward: nonnegative(gamma * sums(process.transitions()) * sums(model.observations())),
            starts: starts.into_values().collect(),
            parts: model.parts(),
        }
    }

    /// 1 − γσ, unless that may be 0 or less.
    pub fn rest(&self) -> Option<Interval> {
        let rest = Interval::point(1.0) - Interval::point(self.onward.hi);
        (rest.lo > 0.0).then_some(rest)
    }

    /// |b₀|, rounded up.
    pub fn mass(&self) -> f64 {
        let mut sum = Sum::default();
        self.starts.iter().flatten().for_each(|&(_, p)| sum.add(p));
        sum.interval().hi
    }

    /// Σ over the observed component of the largest b₀·x for x among concatenated vectors.
    pub fn value(&self, values: &[f64]) -> Interval {
        let vectors = || values.chunks(self.model.states() as usize);
        let best = |start: &Sparse| vectors().map(|x| dot(start, x)).reduce(Interval::max).unwrap_or(Interval::ZERO);
        self.starts.iter().map(best).fold(Interval::ZERO, |sum, x| sum + x)
    }

    pub fn reward(&self, state: u32, action: u32) -> Interval {
        self.rewards[(state * self.model.actions() + action) as usize]
    }

    /// The smallest r(s, a), rounded down.
    pub fn least_reward(&self) -> f64 {
        self.rewards.iter().fold(f64::INFINITY, |least, r| least.min(r.lo))
    }

    /// b·r(a).
    pub fn earned(&self, belief: &[(u32, Interval)], action: u32) -> Interval {
        let mut sum = Sum::default();
        belief.iter().for_each(|&(state, p)| sum.add_interval(p * self.reward(state, action)));
        sum.interval()
    }

    /// b^{a,o} of each o.
    pub fn after(&self, belief: &[(u32, Interval)], action: u32) -> BTreeMap<u32, Sparse<Interval>> {
        let mut next: BTreeMap<u32, Sum> = BTreeMap::new();
        for &(state, b) in belief {
            let (to, probs) = self.model.successors(state, action);
            to.iter().zip(probs).for_each(|(&to, &p)| next.entry(to).or_default().add_multiple(b, p));
        }
        let mut parts: BTreeMap<u32, Sparse<Interval>> = BTreeMap::new();
        for (to, weight) in next {
            let weight = nonnegative(weight.interval());
            let (observations, probs) = self.model.observed(action, to);
            for (&observation, &p) in observations.iter().zip(probs).filter(|(_, p)| **p > 0.0) {
                parts.entry(observation).or_default().push((to, nonnegative(weight * Interval::point(p))));
            }
        }
        parts
    }

    /// r(s, a) + γ Σ T Σ O x_{g(o)} in the states of `part`, for concatenated vectors x.
    pub fn backup(&self, values: &[f64], action: u32, next: &[u32], part: &[u32]) -> Vec<Interval> {
        let (gamma, states) = (Interval::point(self.model.gamma()), self.model.states());
        let mut ahead: HashMap<u32, Interval> = HashMap::new();
        let of_state = |&state: &u32| {
            let (to, probs) = self.model.successors(state, action);
            let mut sum = Sum::default();
            for (&to, &p) in to.iter().zip(probs) {
                let ahead = *ahead.entry(to).or_insert_with(|| {
                    let (observations, probs) = self.model.observed(action, to);
                    let mut sum = Sum::default();
                    for (&observation, &p) in observations.iter().zip(probs) {
                        sum.add_product(p, row(values, states, next[observation as usize] as usize)[to as usize]);
                    }
                    sum.interval()
                });
                sum.add_interval(Interval::point(p) * ahead);
            }
            self.reward(state, action) + gamma * sum.interval()
        };
        part.iter().map(of_state).collect()
    }
}
