//! Lower bounds: continuations that support vectors, as mixed strategies of a matrix game, and the controller that they make.

use rayon::prelude::*;
use warpkov_common::interrupt;
use warpkov_pomdp::alpha::AlphaVectors;

use super::error::Unverifiable;
use super::instance::{Instance, Sparse, exact, middle, near, row};
use crate::interval::{Interval, Sum};

/// Best replies in the search for the continuations of a vector.
const ROUNDS: usize = 200;

/// A model and vectors for it, both to be maximised.
pub(super) struct Game<'a> {
    pub instance: &'a Instance<'a>,
    pub vectors: &'a AlphaVectors,
    /// 1 − γσ > 0.
    pub rest: Interval,
}

/// The continuations of a vector.
pub(super) struct Support {
    /// Upper bound of δ of a mixture, at least 0.
    pub residual: f64,
    /// The best g for each part, and its δ.
    pub pure: Vec<(Vec<u32>, f64)>,
}

/// Checks that vectors belong to a model.
pub(super) fn check(instance: &Instance<'_>, vectors: &AlphaVectors) -> Result<(), Unverifiable> {
    let (states, actions) = (instance.model.states(), instance.model.actions());
    if vectors.is_empty() {
        return Err(Unverifiable::Empty);
    }
    if vectors.states() != states {
        return Err(Unverifiable::Entries { found: vectors.states(), expected: states });
    }
    if let Some(vector) = vectors.actions().iter().position(|&action| action >= actions) {
        return Err(Unverifiable::UnknownAction { vector, found: vectors.actions()[vector], actions });
    }
    match vectors.values().iter().position(|x| !x.is_finite()) {
        Some(at) => Err(Unverifiable::NotFinite(at / states as usize)),
        None => Ok(()),
    }
}

impl<'a> Game<'a> {
    pub fn new(instance: &'a Instance<'a>, vectors: &'a AlphaVectors) -> Result<Self, Unverifiable> {
        check(instance, vectors)?;
        let rest = instance.rest().ok_or(Unverifiable::Discount(instance.model.gamma()))?;
        Ok(Self { instance, vectors, rest })
    }

    /// The best g against a belief; where an observation is impossible, that of `other`.
    fn reply(&self, action: u32, belief: &[(u32, f64)], other: &[u32]) -> Vec<u32> {
        let mut next = other.to_vec();
        for (observation, after) in self.instance.after(&exact(belief), action) {
            let after: Sparse = after.into_iter().map(|(state, p)| (state, middle(p))).collect();
            let values = (0..self.vectors.len()).map(|i| near(&after, self.vectors.vector(i)));
            let best = values.enumerate().fold((0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a });
            next[observation as usize] = best.0 as u32;
        }
        next
    }

    /// Searches continuations of a vector, until δ is at most `tight` or `visits` multiplications are spent.
    pub fn support(&self, vector: usize, tight: f64, visits: u64) -> Support {
        let whole = self.instance.model.states().max(1) as usize;
        let share = |part: &[u32]| visits / whole as u64 * part.len() as u64;
        let parts = self.instance.parts.iter().map(|part| self.support_in(vector, part, tight, share(part)));
        let (residuals, pure): (Vec<f64>, Vec<_>) = parts.unzip();
        Support { residual: residuals.into_iter().fold(0.0, f64::max), pure }
    }

    fn support_in(&self, vector: usize, part: &[u32], tight: f64, mut visits: u64) -> (f64, (Vec<u32>, f64)) {
        let (alpha, action) = (self.vectors.vector(vector), self.vectors.actions()[vector]);
        let mut belief: Sparse = part.iter().map(|&state| (state, 1.0 / part.len() as f64)).collect();
        let mut other = vec![vector as u32; self.instance.model.observation_count() as usize];
        let mut known: Vec<Vec<u32>> = Vec::new();
        let (mut excesses, mut losses): (Vec<Vec<Interval>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        let (mut residual, mut pure) = (f64::INFINITY, (other.clone(), f64::INFINITY));
        for _ in 0..ROUNDS {
            let next = self.reply(action, &belief, &other);
            if known.contains(&next) || interrupt::requested() {
                break;
            }
            let backup = self.instance.backup(self.vectors.values(), action, &next, part);
            let excess = part.iter().zip(backup).map(|(&s, x)| Interval::point(alpha[s as usize]) - x);
            let excess: Vec<Interval> = excess.collect();
            let own = excess.iter().fold(0.0_f64, |most, x| most.max(x.hi));
            if own < pure.1 || known.is_empty() {
                pure = (next.clone(), own);
            }
            losses.push(excess.iter().map(|&x| middle(x)).collect());
            excesses.push(excess);
            other.clone_from(&next);
            known.push(next);
            let (shares, worst) = mixture(&losses);
            residual = residual.min(own).min(mixed(&excesses, &shares));
            let round =
                self.instance.model.states() as usize * (self.vectors.len() + 64) + losses.len().pow(2) * part.len();
            visits = visits.saturating_sub(round as u64);
            if residual <= tight || visits == 0 {
                break;
            }
            belief = part.iter().copied().zip(worst).filter(|(_, p)| *p > 0.0).collect();
        }
        (residual, pure)
    }

    /// The best value of a lower bound, that of the controller of the vectors, by at most `visits` multiplications.
    pub fn controller(&self, supports: &[Support], visits: u64) -> f64 {
        let value = |values: &[f64]| self.instance.value(values).lo;
        let most = supports.iter().flat_map(|support| &support.pure).fold(0.0_f64, |most, (_, x)| most.max(*x));
        let below = Interval::point(most).over(self.rest);
        let lowered = |&x: &f64| (Interval::point(x) - below).lo;
        let mut values: Vec<f64> = self.vectors.values().iter().map(lowered).collect();
        let states = self.instance.model.states() as usize;
        let work = self.instance.model.process().transitions().nnz() / self.instance.model.actions() as usize
            + self.instance.model.observations().nnz() / self.instance.model.actions() as usize;
        let sweeps = visits / (16 * (work * self.vectors.len()).max(1) as u64);
        let mut best = value(&values);
        for _ in 0..sweeps {
            let of_vector = |vector: usize| {
                let mut new = row(&values, states as u32, vector).to_vec();
                for (part, (next, _)) in self.instance.parts.iter().zip(&supports[vector].pure) {
                    let backup = self.instance.backup(&values, self.vectors.actions()[vector], next, part);
                    part.iter().zip(backup).for_each(|(&s, x)| new[s as usize] = new[s as usize].max(x.lo));
                }
                new
            };
            let new: Vec<Vec<f64>> = (0..self.vectors.len()).into_par_iter().map(of_vector).collect();
            let mut rise = 0.0_f64;
            for (old, new) in values.chunks_mut(states).zip(new) {
                old.iter().zip(&new).for_each(|(old, new)| rise = rise.max(new - old));
                old.copy_from_slice(&new);
            }
            best = best.max(value(&values));
            let size = values.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            if rise <= 4.0 * f64::EPSILON * size || best.is_nan() || interrupt::requested() {
                break;
            }
        }
        best
    }
}

/// The largest expected excess of a mixture; the shares need not sum to 1.
fn mixed(excesses: &[Vec<Interval>], shares: &[f64]) -> f64 {
    let mut all = Sum::default();
    shares.iter().for_each(|&share| all.add(share));
    let of_state = |state: usize| {
        let mut sum = Sum::default();
        for (excess, &share) in excesses.iter().zip(shares).filter(|(_, share)| **share > 0.0) {
            sum.add_interval(Interval::point(share) * excess[state]);
        }
        sum.interval().over(all.interval()).hi
    };
    (0..excesses[0].len()).map(of_state).fold(0.0, f64::max)
}

/// An optimal mixture of strategies k that lose `losses[k][s]`, and an opponent's optimal belief over s, up to rounding: the linear program max Σ w,
/// M w ≤ 1, w ≥ 0 for the positive gains M = 1 + max p − p, by the simplex method, and its dual (Dantzig 1951).
fn mixture(losses: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let (rows, states) = (losses.len(), losses[0].len());
    let all = || losses.iter().flatten().copied();
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let range = if most > least { most - least } else { 1.0 };
    let width = states + rows + 1;
    let mut table: Vec<Vec<f64>> = (0..=rows).map(|_| vec![0.0; width]).collect();
    for (k, row) in losses.iter().enumerate() {
        row.iter().enumerate().for_each(|(s, x)| table[k][s] = 1.0 + (most - x) / range);
        table[k][states + k] = 1.0;
        table[k][width - 1] = 1.0;
    }
    table[rows][..states].fill(-1.0);
    let mut basis: Vec<usize> = (states..states + rows).collect();
    for _ in 0..20 * (rows + 10) {
        let costs = &table[rows][..width - 1];
        let enters = (0..width - 1).fold(0, |best, j| if costs[j] < costs[best] { j } else { best });
        if costs[enters] >= -1e-14 {
            break;
        }
        let ratio = |k: usize| (table[k][enters] > 1e-12).then(|| (table[k][width - 1] / table[k][enters], k));
        let Some((_, leaves)) = (0..rows).filter_map(ratio).reduce(|a, b| if b.0 < a.0 { b } else { a }) else { break };
        let pivot = table[leaves][enters];
        table[leaves].iter_mut().for_each(|x| *x /= pivot);
        basis[leaves] = enters;
        let row = table[leaves].clone();
        for (_, other) in table.iter_mut().enumerate().filter(|(k, _)| *k != leaves) {
            let factor = other[enters];
            if factor != 0.0 {
                other.iter_mut().zip(&row).for_each(|(x, y)| *x -= factor * y);
                other[enters] = 0.0;
            }
        }
    }
    let shares: Vec<f64> = table[rows][states..width - 1].iter().map(|x| x.max(0.0)).collect();
    let mut belief = vec![0.0; states];
    for (k, &column) in basis.iter().enumerate().filter(|(_, column)| **column < states) {
        belief[column] = table[k][width - 1].max(0.0);
    }
    let scaled = |x: Vec<f64>| -> Vec<f64> {
        let sum: f64 = x.iter().sum();
        if sum > 0.0 { x.into_iter().map(|p| p / sum).collect() } else { vec![1.0 / x.len() as f64; x.len()] }
    };
    (scaled(shares), scaled(belief))
}
