//! Is this set of alpha vectors a policy of that partially observable Markov decision process?
//!
//! [`verify`] takes a model and vectors Γ, wherever they come from. It encloses V\*(b₀), and the value V^π(b₀) of the policy π that takes
//! the action of the best vector in every belief, between proved bounds. Every inequality is proved by intervals with outward rounding.
//!
//! *Beliefs without a scale.* Let b be any vector of nonnegative numbers, and b^{a,o}(s') = Σₛ b(s) T(s, a, s') O(a, s', o) without division. The
//! Bellman operator is (HV)(b) = maxₐ [b·r(a) + γ Σₒ V(b^{a,o})], and V\* its fixed point; values of a multiple are multiples. So rows of T
//! and O are taken as they are, and no rounded sum needs to be 1. Let σ be the largest Σ_{s'} T Σₒ O of all states and actions. H contracts
//! if γσ < 1.
//!
//! *Lower bound.* V(b) = max over α ∈ Γ of b·α. Let α with action a have a continuation g(o) ∈ Γ for each observation, or a mixture
//! of several g, with
//!
//! > α(s) ≤ r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{g(o)}(s') + δ for all s.
//!
//! Then V^π ≥ V − c |b| for c = δ/(1 − γσ), if all α satisfy this. Proof: the right-hand side without δ is at most the value of one step of π and V
//! afterwards, where α is the best vector: V ≤ H_π V + δ|b|. W = V − c|b| has H_π W ≥ V − δ|b| − γσc|b| = W, so W, H_π W, … rises to V^π. The g
//! need no trust. They are best replies in a matrix game against a belief in which α is too high, by Hansen, *Solving
//! POMDPs by searching in policy space*, 1998, with one g, and by Poupart and Boutilier, *Bounded finite state controllers*, 2003, with mixtures. With an
//! observed component x, each value of x has its own g.
//!
//! Where δ is large, the vectors still describe a finite-state controller, by their best g. Its values are the fixed point of the operator L on the right-hand
//! side. α − c satisfies u ≤ Lu, so that u, Lu, LLu, …, rounded down, are lower bounds of V\*.
//!
//! *Upper bound.* The fast informed bound Q has Q(s, a) ≥ r(s, a) + γ Σₒ max_{a'} Σ_{s'} T(s, a, s') O(a, s', o) Q(s', a'), which implies maxₐ b·Q(a) ≥
//! V\*(b) (Hauskrecht, *Value-function approximations for POMDPs*, 2000). If D ≥ TQ − Q for the operator T on the right-hand side, TQ + γσD/(1 − γσ) is
//! such a bound, with the least sum in place of σ for D < 0. V\* is convex. If vᵢ ≥ V\*(bᵢ) at some points, then for
//! φ = min b(s)/bᵢ(s) over the states of bᵢ
//!
//! > V\*(b) ≤ Σₛ (b(s) − φ bᵢ(s)) V̄(eₛ) + φ vᵢ with V̄(eₛ) = maxₐ Q(s, a),
//!
//! the sawtooth. Let V̄ be the least of these bounds. H is monotone, so (HV̄)(b) ≥ V\*(b), rounded up, is a new point at b. Trials along the
//! action and the observation with the largest excess find points that matter (Smith and Simmons, *Heuristic search value iteration for POMDPs*, 2004); every
//! point is proved when it is made.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::Serialize;
use warpkov_common::interrupt;
use warpkov_mdp::model::Csr;
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::model::Pomdp;

use crate::interval::{Interval, Sum};
use crate::mdp::Verdict;

/// Best replies in the search for the continuations of a vector.
const ROUNDS: usize = 200;

/// What is claimed of vectors, and what may be spent on a proof.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// ε: by how much V(b₀) may exceed V\*(b₀) and V^π(b₀).
    pub epsilon: f64,
    /// λ: the largest V\*(b₀) − V^π(b₀), if that is claimed.
    pub loss: Option<f64>,
    /// Multiplications of the search for bounds.
    pub visits: u64,
}

impl Default for Tolerance {
    /// ε = 10⁻⁶, no λ, some seconds.
    fn default() -> Self {
        Self { epsilon: 1e-6, loss: None, visits: 2_000_000_000 }
    }
}

/// Why nothing can be verified.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unverifiable {
    /// γσ is 1 or more.
    #[error("γ = {0} times the largest row sum is not below 1, expected a discount factor below 1")]
    Discount(f64),
    /// Γ is empty.
    #[error("the policy has no vectors")]
    Empty,
    /// Vectors of another model.
    #[error("vectors of {found} states, expected {expected}")]
    Entries {
        /// Entries of a vector.
        found: u32,
        /// |S|.
        expected: u32,
    },
    /// An action that the model does not have.
    #[error("vector {vector} has action {found}, expected one below {actions}")]
    UnknownAction {
        /// The vector.
        vector: usize,
        /// Its action.
        found: u32,
        /// |A|.
        actions: u32,
    },
    /// A value is infinite or NaN.
    #[error("vector {0} has a value that is not finite")]
    NotFinite(usize),
    /// Someone asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Whether a nonnegative number, between proved bounds, is at most its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// Whether it is.
    pub verdict: Verdict,
    /// The limit.
    pub limit: f64,
    /// Proved lower bound.
    pub lower: f64,
    /// Proved upper bound.
    pub upper: f64,
}

impl Decision {
    fn new(number: Interval, limit: f64) -> Self {
        let (lower, upper) = (number.lo.max(0.0), number.hi.max(0.0));
        Self { verdict: Verdict::at_most(limit, lower, upper), limit, lower, upper }
    }
}

/// The result of [`verify`]. Values have the model's own sign; decisions are about the problem to be maximised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enclosure {
    /// V(b₀) as the vectors claim it.
    pub claimed: f64,
    /// Proved bounds of V\*(b₀).
    pub optimal: Interval,
    /// Proved bounds of V^π(b₀).
    pub attained: Interval,
    /// By how much V(b₀) exceeds V\*(b₀).
    pub value: Decision,
    /// By how much V(b₀) exceeds V^π(b₀).
    pub policy: Decision,
    /// V\*(b₀) − V^π(b₀), if a limit is claimed.
    pub loss: Option<Decision>,
    /// Proved upper bound of δ of all vectors.
    pub residual: f64,
    /// The vector with the largest δ.
    pub worst: usize,
    /// Points of the upper bound.
    pub points: usize,
    /// Time.
    pub elapsed: Duration,
}

impl Enclosure {
    /// Proved if all claims are, refuted if one is.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::of_all(&[Some(self.value.verdict), Some(self.policy.verdict), self.loss.map(|loss| loss.verdict)])
    }
}

/// Decides whether V(b₀) = max b₀·α over `vectors`, in the model's own sign, exceeds V\*(b₀) and the value of their policy by at most ε, and
/// whether the policy loses at most λ. Lower and upper change places for costs.
///
/// # Errors
/// [`Unverifiable`] if γ is not below 1, or the vectors do not fit the model. Large models are no error: what the bounds do not decide is
/// [`Undecided`](Verdict::Undecided).
pub fn verify(model: &Pomdp, vectors: &AlphaVectors, claim: &Tolerance) -> Result<Enclosure, Unverifiable> {
    let begun = Instant::now();
    let sign = model.process().objective().sign();
    let model = model.to_maximize();
    let vectors = vectors.clone().times(sign);
    let game = Instance::new(&model, &vectors)?;
    let zero = Interval::ZERO;
    // Σ over the observed component of the best vector's b·α.
    let value = |values: &[f64]| {
        let best = |start: &Sparse| (0..vectors.len()).map(|i| dot(start, game.row(values, i))).reduce(Interval::max);
        game.starts.iter().map(|start| best(start).unwrap_or(zero)).fold(zero, |sum, x| sum + x)
    };
    let claimed = value(vectors.values());

    let tight = (Interval::point(claim.epsilon) * game.rest).lo / 4.0;
    let supports: Vec<Support> = (0..vectors.len())
        .into_par_iter()
        .map(|i| game.support(i, tight, claim.visits / vectors.len() as u64))
        .collect();
    let (worst, residual) =
        supports.iter().map(|found| found.residual).enumerate().fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
    let short = Interval::point(residual).over(game.rest).hi * game.mass();
    let attained = (claimed - Interval::point(short)).lo;

    // Where the vectors prove all claims, the upper bound is for information.
    let proved = claim.loss.is_none() && short <= claim.epsilon;
    let mut upper = Upper::new(&game, if proved { claim.visits / 16 } else { claim.visits });
    let wanted = claim.loss.map_or(claim.epsilon, |loss| (loss - short).max(claim.epsilon)) / 2.0;
    let above = upper.search(claimed.lo, wanted);
    let excess = |lower: f64| Decision::new(claimed - Interval::new(lower, above), claim.epsilon);
    let mut lower = attained;
    if excess(lower).verdict == Verdict::Undecided {
        lower = lower.max(game.controller(&supports, claim.visits, &|u| value(u).lo));
    }
    if interrupt::requested() {
        return Err(Unverifiable::Interrupted);
    }
    let of_policy = Interval::new(attained, above);
    let signed = |x: Interval| if sign < 0.0 { -x } else { x };
    Ok(Enclosure {
        claimed: sign * (claimed.lo / 2.0 + claimed.hi / 2.0),
        optimal: signed(Interval::new(lower, above)),
        attained: signed(of_policy),
        value: excess(lower),
        policy: Decision::new(claimed - of_policy, claim.epsilon),
        loss: claim.loss.map(|loss| Decision::new(Interval::new(lower, above) - of_policy, loss)),
        residual,
        worst,
        points: upper.points.len(),
        elapsed: begun.elapsed(),
    })
}

/// Nonzeros of a vector of nonnegative numbers: states and entries.
type Sparse<T = f64> = Vec<(u32, T)>;

/// b·x.
fn dot(b: &[(u32, f64)], x: &[f64]) -> Interval {
    let mut sum = Sum::default();
    b.iter().for_each(|&(state, p)| sum.add_product(p, x[state as usize]));
    sum.interval()
}

/// b·x without bounds, for choices.
fn near(b: &[(u32, f64)], x: &[f64]) -> f64 {
    b.iter().map(|&(state, p)| p * x[state as usize]).sum()
}

fn middle(x: Interval) -> f64 {
    x.lo / 2.0 + x.hi / 2.0
}

fn nonnegative(x: Interval) -> Interval {
    Interval::new(x.lo.max(0.0), x.hi)
}

/// A model to be maximised, and vectors.
struct Instance<'a> {
    model: &'a Pomdp,
    vectors: &'a AlphaVectors,
    /// r(s, a) at s·A + a.
    rewards: Vec<Interval>,
    /// γ Σ_{s'} T Σₒ O of all states and actions.
    onward: Interval,
    /// 1 − γσ > 0.
    rest: Interval,
    /// b₀, for each value of the observed component.
    starts: Vec<Sparse>,
    /// The states of each value of the observed component.
    parts: Vec<Vec<u32>>,
}

/// The continuations of a vector.
struct Support {
    /// Upper bound of δ of a mixture, at least 0.
    residual: f64,
    /// The best g for each part, and its δ.
    pure: Vec<(Vec<u32>, f64)>,
}

impl<'a> Instance<'a> {
    fn new(model: &'a Pomdp, vectors: &'a AlphaVectors) -> Result<Self, Unverifiable> {
        let (states, actions) = (model.states(), model.actions());
        if vectors.is_empty() {
            return Err(Unverifiable::Empty);
        }
        if vectors.states() != states {
            return Err(Unverifiable::Entries { found: vectors.states(), expected: states });
        }
        if let Some(vector) = vectors.actions().iter().position(|&action| action >= actions) {
            return Err(Unverifiable::UnknownAction { vector, found: vectors.actions()[vector], actions });
        }
        if let Some(at) = vectors.values().iter().position(|x| !x.is_finite()) {
            return Err(Unverifiable::NotFinite(at / states as usize));
        }
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
        let onward = nonnegative(gamma * sums(process.transitions()) * sums(model.observations()));
        let rest = Interval::point(1.0) - Interval::point(onward.hi);
        if rest.lo.is_nan() || rest.lo <= 0.0 {
            return Err(Unverifiable::Discount(model.gamma()));
        }
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
        Ok(Self {
            model,
            vectors,
            rewards: (0..process.rows()).map(reward).collect(),
            onward,
            rest,
            starts: starts.into_values().collect(),
            parts: model.parts(),
        })
    }

    /// |b₀|, rounded up.
    fn mass(&self) -> f64 {
        let mut sum = Sum::default();
        self.starts.iter().flatten().for_each(|&(_, p)| sum.add(p));
        sum.interval().hi
    }

    fn reward(&self, state: u32, action: u32) -> Interval {
        self.rewards[(state * self.model.actions() + action) as usize]
    }

    /// Vector i of concatenated ones.
    fn row<'v>(&self, values: &'v [f64], i: usize) -> &'v [f64] {
        let states = self.model.states() as usize;
        &values[i * states..][..states]
    }

    /// b^{a,o} of each o.
    fn after(&self, belief: &[(u32, f64)], action: u32) -> BTreeMap<u32, Sparse<Interval>> {
        let mut next: BTreeMap<u32, Sum> = BTreeMap::new();
        for &(state, b) in belief {
            let (to, probs) = self.model.successors(state, action);
            to.iter().zip(probs).for_each(|(&to, &p)| next.entry(to).or_default().add_product(b, p));
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

    /// The best g against a belief; where an observation is impossible, that of `other`.
    fn reply(&self, action: u32, belief: &[(u32, f64)], other: &[u32]) -> Vec<u32> {
        let mut next = other.to_vec();
        for (observation, after) in self.after(belief, action) {
            let after: Sparse = after.into_iter().map(|(state, p)| (state, middle(p))).collect();
            let values = (0..self.vectors.len()).map(|i| near(&after, self.vectors.vector(i)));
            let best = values.enumerate().fold((0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a });
            next[observation as usize] = best.0 as u32;
        }
        next
    }

    /// r(s, a) + γ Σ T Σ O α_{g(o)} in the states of `part`.
    fn backup(&self, values: &[f64], action: u32, next: &[u32], part: &[u32]) -> Vec<Interval> {
        let gamma = Interval::point(self.model.gamma());
        let mut ahead: HashMap<u32, Interval> = HashMap::new();
        let of_state = |&state: &u32| {
            let (to, probs) = self.model.successors(state, action);
            let mut sum = Sum::default();
            for (&to, &p) in to.iter().zip(probs) {
                let ahead = *ahead.entry(to).or_insert_with(|| {
                    let (observations, probs) = self.model.observed(action, to);
                    let mut sum = Sum::default();
                    for (&observation, &p) in observations.iter().zip(probs) {
                        sum.add_product(p, self.row(values, next[observation as usize] as usize)[to as usize]);
                    }
                    sum.interval()
                });
                sum.add_interval(Interval::point(p) * ahead);
            }
            self.reward(state, action) + gamma * sum.interval()
        };
        part.iter().map(of_state).collect()
    }

    /// Searches continuations of a vector, until δ is at most `tight` or `visits` multiplications are spent.
    fn support(&self, vector: usize, tight: f64, visits: u64) -> Support {
        let whole = self.model.states().max(1) as usize;
        let share = |part: &[u32]| visits / whole as u64 * part.len() as u64;
        let parts = self.parts.iter().map(|part| self.support_in(vector, part, tight, share(part)));
        let (residuals, pure): (Vec<f64>, Vec<_>) = parts.unzip();
        Support { residual: residuals.into_iter().fold(0.0, f64::max), pure }
    }

    fn support_in(&self, vector: usize, part: &[u32], tight: f64, mut visits: u64) -> (f64, (Vec<u32>, f64)) {
        let (alpha, action) = (self.vectors.vector(vector), self.vectors.actions()[vector]);
        let mut belief: Sparse = part.iter().map(|&state| (state, 1.0 / part.len() as f64)).collect();
        let mut other = vec![vector as u32; self.model.observation_count() as usize];
        let mut known: Vec<Vec<u32>> = Vec::new();
        let (mut excesses, mut losses): (Vec<Vec<Interval>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        let (mut residual, mut pure) = (f64::INFINITY, (other.clone(), f64::INFINITY));
        for _ in 0..ROUNDS {
            let next = self.reply(action, &belief, &other);
            if known.contains(&next) || interrupt::requested() {
                break;
            }
            let backup = self.backup(self.vectors.values(), action, &next, part);
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
            let round = self.model.states() as usize * (self.vectors.len() + 64) + losses.len().pow(2) * part.len();
            visits = visits.saturating_sub(round as u64);
            if residual <= tight || visits == 0 {
                break;
            }
            belief = part.iter().copied().zip(worst).filter(|(_, p)| *p > 0.0).collect();
        }
        (residual, pure)
    }

    /// The best value of a lower bound, that of the controller of the vectors, by at most `visits` multiplications.
    fn controller(&self, supports: &[Support], visits: u64, value: &dyn Fn(&[f64]) -> f64) -> f64 {
        let most = supports.iter().flat_map(|support| &support.pure).fold(0.0_f64, |most, (_, x)| most.max(*x));
        let below = Interval::point(most).over(self.rest);
        let lowered = |&x: &f64| (Interval::point(x) - below).lo;
        let mut values: Vec<f64> = self.vectors.values().iter().map(lowered).collect();
        let states = self.model.states() as usize;
        let work = self.model.process().transitions().nnz() / self.model.actions() as usize
            + self.model.observations().nnz() / self.model.actions() as usize;
        let sweeps = visits / (16 * (work * self.vectors.len()).max(1) as u64);
        let mut best = value(&values);
        for _ in 0..sweeps {
            let of_vector = |vector: usize| {
                let mut new = self.row(&values, vector).to_vec();
                for (part, (next, _)) in self.parts.iter().zip(&supports[vector].pure) {
                    let backup = self.backup(&values, self.vectors.actions()[vector], next, part);
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

/// The upper bound V̄.
struct Upper<'a> {
    instance: &'a Instance<'a>,
    /// Q(s, a) at s·A + a.
    informed: Vec<f64>,
    /// V̄(eₛ).
    corners: Vec<f64>,
    points: Vec<Point>,
    /// The point at a belief.
    places: HashMap<Vec<(u32, u64)>, usize>,
    /// Remaining multiplications.
    visits: u64,
}

/// vᵢ at bᵢ.
struct Point {
    belief: Sparse,
    /// Lower bound of Σ bᵢ(s) V̄(eₛ) − vᵢ.
    drop: f64,
}

/// An action in a belief: its b^{a,o} with V̄.
type Branches = Vec<(Sparse, f64)>;

impl<'a> Upper<'a> {
    fn new(instance: &'a Instance<'a>, visits: u64) -> Self {
        let model = instance.model;
        let (states, actions) = (model.states(), model.actions() as usize);
        let mut informed = vec![0.0; instance.rewards.len()];
        let pairs: Vec<(u32, u32)> = (0..states).flat_map(|s| (0..actions as u32).map(move |a| (s, a))).collect();
        let backup = |q: &[f64], state: u32, action: u32| {
            let mut sum = Sum::default();
            instance.after(&[(state, 1.0)], action).values().for_each(|after| sum.add(informed_at(q, actions, after)));
            (instance.reward(state, action) + Interval::point(model.gamma()) * sum.interval()).hi
        };
        let work = (64 * actions * (model.process().transitions().nnz() + model.observations().nnz())).max(1) as u64;
        let mut left = visits / 4;
        loop {
            let new: Vec<f64> = pairs.par_iter().map(|&(s, a)| backup(&informed, s, a)).collect();
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
        let corners = informed.chunks(actions).map(|q| q.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
        Self { instance, informed, corners, points: Vec::new(), places: HashMap::new(), visits }
    }

    /// Adds points until V̄(b₀) is within `wanted` of `lower`. Returns V̄(b₀), rounded up.
    fn search(&mut self, lower: f64, wanted: f64) -> f64 {
        let starts = self.instance.starts.clone();
        let mut best = f64::INFINITY;
        loop {
            let uppers: Vec<f64> = starts.iter().map(|start| self.at(&exact(start))).collect();
            best = best.min(uppers.iter().fold(Interval::ZERO, |sum, &x| sum + Interval::point(x)).hi);
            if best - lower <= wanted || self.visits == 0 || interrupt::requested() {
                return best;
            }
            let gaps = starts.iter().zip(uppers).map(|(start, upper)| upper - self.lower(start));
            let widest = gaps.enumerate().fold((0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a }).0;
            if !self.trial(starts[widest].clone(), wanted) {
                return best;
            }
        }
    }

    /// V(b), for choices.
    fn lower(&self, belief: &[(u32, f64)]) -> f64 {
        let vectors = self.instance.vectors;
        (0..vectors.len()).map(|i| near(belief, vectors.vector(i))).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Goes down from a belief, and backs up all beliefs on the way. Returns whether a point is new or lower.
    fn trial(&mut self, start: Sparse, wanted: f64) -> bool {
        let (mut belief, mut limit, mut path, mut changed) = (start, wanted, Vec::new(), false);
        while self.visits > 0 && !interrupt::requested() {
            let (value, branches) = self.backup(&belief);
            changed |= self.put(&belief, value);
            path.push(belief);
            limit /= self.instance.model.gamma();
            let excess = |(after, upper): (Sparse, f64)| {
                let mass: f64 = after.iter().map(|(_, p)| p).sum();
                (upper - self.lower(&after) - limit * mass, mass, after)
            };
            let widest = branches.into_iter().map(excess).max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, mass, after)) = widest.filter(|(excess, mass, _)| *excess > 0.0 && *mass > 0.0) else { break };
            let scaled = after.into_iter().map(|(state, p)| (state, p / mass)).filter(|(_, p)| *p > 0.0);
            belief = scaled.collect();
        }
        path.pop();
        for belief in path.iter().rev() {
            let (value, _) = self.backup(belief);
            changed |= self.put(belief, value);
        }
        changed
    }

    /// An upper bound of V\*(b).
    fn at(&mut self, belief: &[(u32, Interval)]) -> f64 {
        let actions = self.instance.model.actions() as usize;
        let by_informed = informed_at(&self.informed, actions, belief);
        let mut sum = Sum::default();
        belief.iter().for_each(|&(state, p)| sum.add_interval(p * Interval::point(self.corners[state as usize])));
        let mut work = (belief.len() * (actions + 1) * 8) as u64;
        let mut fall = 0.0_f64;
        for point in &self.points {
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
        self.visits = self.visits.saturating_sub(work + self.points.len() as u64);
        by_informed.min((sum.interval() - Interval::point(fall)).hi)
    }

    /// (HV̄)(b), rounded up, and the branches of its action.
    fn backup(&mut self, belief: &[(u32, f64)]) -> (f64, Branches) {
        let instance = self.instance;
        let mut best = (f64::NEG_INFINITY, Vec::new());
        for action in 0..instance.model.actions() {
            let (mut now, mut next) = (Sum::default(), Sum::default());
            belief.iter().for_each(|&(state, p)| now.add_interval(Interval::point(p) * instance.reward(state, action)));
            let mut branches = Vec::new();
            for after in instance.after(belief, action).into_values() {
                let upper = self.at(&after);
                next.add(upper);
                branches.push((after.into_iter().map(|(state, p)| (state, middle(p))).collect(), upper));
            }
            let gamma = Interval::point(instance.model.gamma());
            let value = (now.interval() + gamma * next.interval()).hi;
            if value > best.0 {
                best = (value, branches);
            }
        }
        best
    }

    /// Makes v a point, if it lowers V̄ there. Returns whether it does.
    fn put(&mut self, belief: &[(u32, f64)], value: f64) -> bool {
        if value.is_nan() || value >= self.at(&exact(belief)) {
            return false;
        }
        let drop = (dot(belief, &self.corners) - Interval::point(value)).lo;
        if drop.is_nan() || drop <= 0.0 {
            return false;
        }
        let key = belief.iter().map(|&(state, p)| (state, p.to_bits())).collect();
        let next = self.points.len();
        match *self.places.entry(key).or_insert(next) {
            place if place < next => {
                let point = &mut self.points[place];
                let lower = drop > point.drop;
                point.drop = point.drop.max(drop);
                lower
            }
            _ => {
                self.points.push(Point { belief: belief.to_vec(), drop });
                true
            }
        }
    }
}

/// A belief of exact numbers.
fn exact(belief: &[(u32, f64)]) -> Sparse<Interval> {
    belief.iter().map(|&(state, p)| (state, Interval::point(p))).collect()
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
