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
//!
//! *Losses.* A policy loses more than λ if V\*(b₀) is above V^π(b₀) + λ. From above, V^π(b₀) is at most what n steps of π earn from b₀, in every belief that
//! can follow, and V̄ after them; where rounding leaves several vectors the best, the action that earns most counts. From below, V\* is at least each backup
//! of lower bounds, rounded down, in the beliefs of the trials. Losses that occur after n steps alone stay undecided.
//!
//! *Controllers and horizons.* The values of a [controller](Nodes) are linear equations: u + m/(1 − γσ) ≤ V ≤ u + M/(1 − γσ) if m ≤ Lu − u ≤ M, with the
//! least sum in place of σ for m > 0 and M < 0. For a horizon of T steps, all bounds depend on the number of steps to go, and V₀ = 0: there γ may be 1, and
//! the values of a plan are sums of intervals, step by step.

use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::Serialize;
use warpkov_common::interrupt;
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::model::Pomdp;

pub use self::controller::Nodes;
pub use self::error::Unverifiable;
use self::instance::{Instance, exact, middle};
use self::search::Search;
use self::support::{Game, Support};
use crate::interval::Interval;
use crate::mdp::Verdict;

mod controller;
mod error;
mod instance;
mod search;
mod support;

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
    let instance = Instance::new(&model);
    let game = Game::new(&instance, &vectors)?;
    let claimed = instance.value(vectors.values());

    let tight = (Interval::point(claim.epsilon) * game.rest).lo / 4.0;
    let supports: Vec<Support> = (0..vectors.len())
        .into_par_iter()
        .map(|i| game.support(i, tight, claim.visits / vectors.len() as u64))
        .collect();
    let (worst, residual) =
        supports.iter().map(|found| found.residual).enumerate().fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
    // c
    let below = Interval::point(residual).over(game.rest);
    let short = below.hi * instance.mass();
    let attained = (claimed - Interval::point(short)).lo;

    // Where the vectors prove all claims, the upper bound is for information.
    let proved = claim.loss.is_none() && short <= claim.epsilon;
    let visits = if proved { claim.visits / 16 } else { claim.visits };
    let mut search = Search::endless(&instance, vectors.values(), visits);
    let wanted = claim.loss.map_or(claim.epsilon, |loss| (loss - short).max(claim.epsilon)) / 2.0;
    let mut above = search.run(wanted, &|found| found.hi - claimed.lo <= wanted).hi;
    let value = |lower: f64, above: f64| Decision::new(claimed - Interval::new(lower, above), claim.epsilon);
    let mut lower = attained;
    if value(lower, above).verdict == Verdict::Undecided {
        lower = lower.max(game.controller(&supports, claim.visits));
    }
    let policy = |own: f64| Decision::new(claimed - Interval::new(attained, own), claim.epsilon);
    let lost = |lower: f64, above: f64, own: f64| {
        claim.loss.map(|loss| Decision::new(Interval::new(lower, above) - Interval::new(attained, own), loss))
    };
    let is_open = |found: Option<Decision>| found.is_some_and(|found| found.verdict == Verdict::Undecided);
    let mut own = above;
    search.visits = claim.visits / 4;
    for depth in 1.. {
        if search.visits == 0 || !(is_open(Some(policy(own))) || is_open(lost(lower, above, own))) {
            break;
        }
        let earned = instance.starts.iter().map(|start| search.followed(&vectors, &exact(start), depth));
        own = own.min(earned.fold(Interval::ZERO, |sum, x| sum + Interval::point(x)).hi);
    }
    if is_open(lost(lower, above, own)) {
        // Is another policy better? α − c are lower bounds.
        let known: Vec<f64> = vectors.values().iter().map(|&x| (Interval::point(x) - below).lo).collect();
        search.visits = claim.visits / 2;
        search.find_lower(&known);
        let found = search.run(wanted, &|found| !is_open(lost(lower.max(found.lo), above.min(found.hi), own)));
        (lower, above) = (lower.max(found.lo), above.min(found.hi));
        own = own.min(above);
    }
    if interrupt::requested() {
        return Err(Unverifiable::Interrupted);
    }
    Ok(Enclosure {
        claimed: sign * middle(claimed),
        optimal: signed(sign, Interval::new(lower, above)),
        attained: signed(sign, Interval::new(attained, own)),
        value: value(lower, above),
        policy: policy(own),
        loss: lost(lower, above, own),
        residual,
        worst,
        points: search.points(),
        elapsed: begun.elapsed(),
    })
}

/// An interval with the sign of the model's own rewards.
fn signed(sign: f64, x: Interval) -> Interval {
    if sign < 0.0 { -x } else { x }
}

/// What is claimed of a controller, or of the vectors of a first step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Promise {
    /// The number of rewards that count. `None`: all, for γ < 1.
    pub horizon: Option<u32>,
    /// V^π(b₀) of a controller, up to ε, in the model's own sign.
    pub value: Option<f64>,
    /// ε, λ and the effort.
    pub tolerance: Tolerance,
}

/// The result of [`verify_controller`] and [`verify_first_step`]. Values have the model's own sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Proved bounds of V\*(b₀).
    pub optimal: Interval,
    /// Proved bounds of V^π(b₀) of a controller; V(b₀) as vectors claim it.
    pub own: Interval,
    /// |V^π(b₀) − V| of a controller, if V is claimed; by how much V(b₀) of vectors exceeds V\*(b₀).
    pub value: Option<Decision>,
    /// By how much V^π(b₀), or V(b₀) of vectors, is worse than V\*(b₀), if a limit is claimed.
    pub loss: Option<Decision>,
    /// Points of the upper bound.
    pub points: usize,
    /// Time.
    pub elapsed: Duration,
}

impl Comparison {
    /// Proved if all claims are, refuted if one is.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::of_all(&[self.value, self.loss].map(|found| found.map(|found| found.verdict)))
    }
}

/// Encloses what a controller earns, and V\*(b₀), and decides whether the former is V up to ε, and whether the controller loses at most λ.
///
/// # Errors
/// [`Unverifiable`] if γ is not below 1 and there is no horizon, or a run of a plan ends before it.
pub fn verify_controller(model: &Pomdp, nodes: &Nodes, promise: &Promise) -> Result<Comparison, Unverifiable> {
    let begun = Instant::now();
    let Promise { horizon, value, tolerance } = *promise;
    let sign = model.process().objective().sign();
    let model = model.to_maximize();
    let instance = Instance::new(&model);
    nodes.check(&instance)?;
    let worth = match horizon {
        Some(steps) => controller::of_plan(&instance, nodes, steps)?,
        None => controller::of_nodes(&instance, nodes, tolerance.epsilon / 16.0, tolerance.visits)?,
    };
    let loss = |optimal: Interval| Some(Decision::new(optimal - worth.value, tolerance.loss?));
    let wanted = tolerance.loss.unwrap_or_default().max(tolerance.epsilon) / 2.0;
    let open = |found: Interval| {
        let found = Interval::new(found.lo.max(worth.value.lo), found.hi);
        loss(found).is_some_and(|found| found.verdict == Verdict::Undecided)
    };
    // Without a claim, V\* is for information.
    let visits = if tolerance.loss.is_some() { tolerance.visits } else { tolerance.visits / 16 };
    let mut search = Search::new(&instance, horizon, &worth.vectors, visits)?;
    let mut optimal = search.run(wanted, &|found| tolerance.loss.is_some() && !open(found));
    optimal.lo = optimal.lo.max(worth.value.lo);
    if open(optimal) {
        search.visits = tolerance.visits;
        search.find_lower(&[]);
        let found = search.run(wanted, &|found| !open(found));
        optimal = Interval::new(optimal.lo.max(found.lo), optimal.hi.min(found.hi));
    }
    if interrupt::requested() {
        return Err(Unverifiable::Interrupted);
    }
    let off = |claimed: f64| {
        let difference = worth.value - Interval::point(sign * claimed);
        Decision::new(difference.max(-difference), tolerance.epsilon)
    };
    Ok(Comparison {
        optimal: signed(sign, optimal),
        own: signed(sign, worth.value),
        value: value.map(off),
        loss: loss(optimal),
        points: search.points(),
        elapsed: begun.elapsed(),
    })
}

/// Encloses V\*(b₀) of the first T rewards, and decides whether V(b₀) = max b₀·α over the vectors of the first step exceeds it by at most ε, and is at
/// most λ worse.
///
/// # Errors
/// [`Unverifiable`] if the vectors do not fit the model.
pub fn verify_first_step(
    model: &Pomdp,
    vectors: &AlphaVectors,
    horizon: u32,
    claim: &Tolerance,
) -> Result<Comparison, Unverifiable> {
    let begun = Instant::now();
    let sign = model.process().objective().sign();
    let model = model.to_maximize();
    let vectors = vectors.clone().times(sign);
    let instance = Instance::new(&model);
    support::check(&instance, &vectors)?;
    let own = instance.value(vectors.values());
    let value = |optimal: Interval| Some(Decision::new(own - optimal, claim.epsilon));
    let loss = |optimal: Interval| Some(Decision::new(optimal - own, claim.loss?));
    let is_open = |found: Option<Decision>| found.is_some_and(|found| found.verdict == Verdict::Undecided);
    let mut search = Search::new(&instance, Some(horizon), &[], claim.visits)?;
    let wanted = claim.loss.map_or(claim.epsilon, |loss| loss.min(claim.epsilon)) / 2.0;
    let optimal = search.run(wanted, &|found| !(is_open(value(found)) || is_open(loss(found))));
    if interrupt::requested() {
        return Err(Unverifiable::Interrupted);
    }
    Ok(Comparison {
        optimal: signed(sign, optimal),
        own: signed(sign, own),
        value: value(optimal),
        loss: loss(optimal),
        points: search.points(),
        elapsed: begun.elapsed(),
    })
}
