//! Is this the solution of that Markov decision process?
//!
//! [`verify`] takes a model, a criterion, values and a policy, wherever they come from. It encloses V\*, and the value V^π
//! of the policy, between proved bounds, and decides two claims:
//!
//! - *values*: |V(s) − V\*(s)| ≤ ε in all states s;
//! - *policy*: it loses at most λ, that is, V\*(s) − V^π(s) ≤ λ when maximising (V^π − V\* when minimising).
//!
//! Each is proved, refuted, or undecided. The given values are a proposal and no more: bounds come from intervals with
//! outward rounding (`bounds.rs` has the theorems) and, where these are too wide and the model is small, from rational
//! arithmetic (`rational.rs`), which decides every claim.
//!
//! V\* belongs to the numbers of the model as `f64`, without rounding. Rows are taken as they are for the discounted
//! criterion and for a finite horizon; the other criteria divide each row by its sum.

use std::time::{Duration, Instant};

use dashu_ratio::RBig;
use serde::Serialize;
use warpkov_common::interrupt;
use warpkov_mdp::model::{Mdp, NO_ACTION};

use crate::bounds::{self, Effort};
use crate::graph::Restricted;
use crate::interval::Interval;
use crate::rational::{self, Exact, TooLarge};
use crate::reduce::{Reduced, STAY, Sums, Undefined, onward_sum};

/// What a solution optimises.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// The expected sum of rewards, discounted by γ < 1.
    Discounted,
    /// The probability of reaching one of these states.
    Reach(Vec<u32>),
    /// The expected sum of rewards, until one of these states is reached, or for ever.
    Total(Option<Vec<u32>>),
    /// The expected reward per step in the long run.
    Average,
    /// The expected sum of the first T rewards, discounted by γ ≤ 1.
    Horizon(u32),
}

impl Quantity {
    /// The name, in one word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Discounted => "discounted",
            Self::Reach(_) => "reach",
            Self::Total(_) => "total",
            Self::Average => "average",
            Self::Horizon(_) => "horizon",
        }
    }

    /// Whether γ counts.
    #[must_use]
    pub fn discounts(&self) -> bool {
        matches!(self, Self::Discounted | Self::Horizon(_))
    }

    /// T of a finite horizon.
    #[must_use]
    pub fn horizon(&self) -> Option<u32> {
        if let Self::Horizon(steps) = self { Some(*steps) } else { None }
    }
}

/// What is claimed of a solution, and what may be spent on a proof.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// ε: the largest error of a value.
    pub epsilon: f64,
    /// λ: the largest loss of the policy.
    pub loss: f64,
    /// Visits of transitions by sweeps.
    pub visits: u64,
    /// Operations of rational arithmetic, on machine words; 0 for intervals alone.
    pub work: u64,
}

impl Default for Claim {
    /// ε = 10⁻⁶ and λ = 2ε, some seconds of sweeps, and rational arithmetic of a minute.
    fn default() -> Self {
        Self { epsilon: 1e-6, loss: 2e-6, visits: 4_000_000_000, work: rational::WORK }
    }
}

/// Why nothing can be verified.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VerifyError {
    /// Another number of values than of states.
    #[error("{found} {what}, expected {expected}")]
    Length {
        /// Values or actions.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The number that the model has.
        expected: usize,
    },
    /// A value is NaN.
    #[error("the value of state {0} is NaN, expected a number")]
    Nan(usize),
    /// An action that the state does not have.
    #[error("action {action} in state {state}, expected one of its {actions} actions")]
    Action {
        /// The action.
        action: i64,
        /// The state.
        state: usize,
        /// The number of its actions.
        actions: usize,
    },
    /// A goal state that the model does not have.
    #[error("goal state {found}, expected a state below {states}")]
    Goal {
        /// The state.
        found: u32,
        /// S.
        states: u32,
    },
    /// γ times a row sum is 1 or more.
    #[error("γ = {0} times the largest row sum is not below 1, expected a discount factor below 1")]
    Gamma(f64),
    /// The value is undefined.
    #[error(transparent)]
    Undefined(#[from] Undefined),
    /// No exact solution.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds.
    Proved,
    /// It does not hold.
    Refuted,
    /// The bounds are too wide.
    Undecided,
}

impl Verdict {
    /// Whether a number between `lower` and `upper` is at most `limit`.
    pub(crate) fn at_most(limit: f64, lower: f64, upper: f64) -> Self {
        match () {
            () if upper <= limit => Self::Proved,
            () if lower > limit => Self::Refuted,
            () => Self::Undecided,
        }
    }

    /// Of several claims, of which some may not be made: proved if all are, refuted if one is.
    pub(crate) fn of_all(claims: &[Option<Self>]) -> Self {
        match () {
            () if claims.contains(&Some(Self::Refuted)) => Self::Refuted,
            () if claims.contains(&Some(Self::Undecided)) => Self::Undecided,
            () => Self::Proved,
        }
    }
}

/// The arithmetic behind a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// `f64` intervals, rounded outwards.
    Intervals,
    /// Rational numbers.
    Rationals,
}

/// The largest error of values, or the largest loss of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Whether it is at most the limit.
    pub verdict: Verdict,
    /// ε or λ.
    pub limit: f64,
    /// Proved lower bound of the largest error.
    pub lower: f64,
    /// Proved upper bound of the largest error.
    pub upper: f64,
    /// A state with the largest upper bound; of a plan, T·S such places, step by step.
    pub worst: usize,
    /// How it was found.
    pub arithmetic: Arithmetic,
}

/// The result of [`verify`].
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// |V − V\*|.
    pub values: Finding,
    /// The loss of the policy, if there is one.
    pub policy: Option<Finding>,
    /// Proved bounds of V\* of each state.
    pub optimal: Vec<Interval>,
    /// Proved bounds of V^π of each state.
    pub attained: Option<Vec<Interval>>,
    /// Time.
    pub elapsed: Duration,
}

impl Verification {
    /// Proved if all claims are, refuted if one is.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::of_all(&[Some(self.values.verdict), self.policy.map(|policy| policy.verdict)])
    }
}

/// Bounds of a nonnegative number, the largest of several, and where the upper one is.
#[derive(Clone, Copy)]
struct Largest {
    lower: f64,
    upper: f64,
    worst: usize,
}

impl Largest {
    const NONE: Self = Self { lower: 0.0, upper: 0.0, worst: 0 };

    fn with(self, found: Interval, place: usize) -> Self {
        let (upper, worst) = if found.hi > self.upper { (found.hi, place) } else { (self.upper, self.worst) };
        Self { lower: self.lower.max(found.lo), upper, worst }
    }

    fn finding(self, limit: f64, arithmetic: Arithmetic) -> Finding {
        let Self { lower, upper, worst } = self;
        let verdict = Verdict::at_most(limit, lower, upper);
        Finding { verdict, limit, lower, upper, worst, arithmetic }
    }
}

/// |value − x| for x in an interval.
fn error(value: f64, x: Interval) -> Interval {
    if x.lo == x.hi && x.lo == value {
        return Interval::ZERO;
    }
    if value.is_infinite() || x.lo == x.hi && x.lo.is_infinite() {
        let finite = if value.is_infinite() { x.contains(value) } else { false };
        return Interval::new(if finite { 0.0 } else { f64::INFINITY }, f64::INFINITY);
    }
    let difference = Interval::point(value) - x;
    let largest = difference.hi.max(-difference.lo);
    let least = if x.contains(value) { 0.0 } else { difference.lo.abs().min(difference.hi.abs()) };
    Interval::new(least, largest)
}

/// The nonnegative numbers of best − x.
fn loss(best: Interval, x: Interval) -> Interval {
    if best == x && best.lo == best.hi {
        return Interval::ZERO;
    }
    let difference = best - x;
    Interval::new(difference.lo.max(0.0), difference.hi.max(0.0))
}

/// The smallest interval around |value − x|.
fn exact_error(value: f64, x: &Exact) -> Interval {
    match x {
        Exact::Finite(x) if value.is_finite() => {
            let difference = rational::rational(value) - x;
            Exact::Finite(if difference < RBig::ZERO { -difference } else { difference }).enclosure()
        }
        x => error(value, x.enclosure()),
    }
}

/// The smallest interval around best − x, to be maximised with `sign`.
fn exact_loss(best: &Exact, x: &Exact, sign: f64) -> Interval {
    match (best, x) {
        (Exact::Finite(best), Exact::Finite(x)) => {
            let lost = if sign < 0.0 { x - best } else { best - x };
            Exact::Finite(lost.max(RBig::ZERO)).enclosure()
        }
        (best, x) => loss(signed(sign, best.enclosure()), signed(sign, x.enclosure())),
    }
}

/// An interval with the sign of a maximum, or of the model's rewards.
fn signed(sign: f64, x: Interval) -> Interval {
    if sign < 0.0 { -x } else { x }
}

fn largest(found: impl Iterator<Item = Interval>) -> Largest {
    found.enumerate().fold(Largest::NONE, |all, (place, found)| all.with(found, place))
}

/// Decides whether `values`, one per state, are V\* up to ε, and whether `policy`, one action per state ([`NO_ACTION`] in
/// states without actions), loses at most λ. For a horizon, `policy` is the first step, after which actions are optimal;
/// values and actions of all T steps, step by step, are a plan, whose every step is verified.
///
/// # Errors
/// [`VerifyError`] if the claims make no sense for this model. Large models are no error: what intervals cannot decide is
/// [`Undecided`](Verdict::Undecided).
pub fn verify(
    mdp: &Mdp,
    quantity: &Quantity,
    values: &[f64],
    policy: Option<&[u32]>,
    claim: &Claim,
) -> Result<Verification, VerifyError> {
    let begun = Instant::now();
    let states = mdp.states() as usize;
    let steps = match quantity {
        Quantity::Horizon(steps) if values.len() != states => (*steps as usize).max(1),
        _ => 1,
    };
    let length = |what, found| match found == steps * states {
        true => Ok(()),
        false => Err(VerifyError::Length { what, found, expected: steps * states }),
    };
    length("values", values.len())?;
    if let Some(place) = values.iter().position(|value| value.is_nan()) {
        return Err(VerifyError::Nan(place % states));
    }
    let policy = match policy {
        Some(policy) => {
            length("actions", policy.len())?;
            Some(checked(mdp, policy)?)
        }
        None => None,
    };
    let asked = Asked { mdp, quantity, claim, sign: mdp.objective().sign() };
    let mut found = match quantity {
        Quantity::Horizon(horizon) => asked.horizon(*horizon, values, policy.as_deref())?,
        _ => asked.stationary(values, policy.as_deref())?,
    };
    if interrupt::requested() {
        return Err(TooLarge::Interrupted.into());
    }
    found.elapsed = begun.elapsed();
    Ok(found)
}

/// An action of each state, 0 in states without actions.
fn checked(mdp: &Mdp, policy: &[u32]) -> Result<Vec<u32>, VerifyError> {
    let states = mdp.states() as usize;
    let action = |(place, &action): (usize, &u32)| {
        let state = place % states;
        match mdp.choices().count(state) {
            0 => Ok(0),
            actions if (action as usize) < actions => Ok(action),
            actions => {
                let action = if action == NO_ACTION { -1 } else { i64::from(action) };
                Err(VerifyError::Action { action, state, actions })
            }
        }
    };
    policy.iter().enumerate().map(action).collect()
}

struct Asked<'a> {
    mdp: &'a Mdp,
    quantity: &'a Quantity,
    claim: &'a Claim,
    sign: f64,
}

impl Asked<'_> {
    fn goal(&self, goal: &[u32]) -> Result<Vec<bool>, VerifyError> {
        let states = self.mdp.states();
        let mut set = vec![false; states as usize];
        for &found in goal {
            *set.get_mut(found as usize).ok_or(VerifyError::Goal { found, states })? = true;
        }
        Ok(set)
    }

    /// Bounds of the values, to be maximised, by intervals.
    fn enclose(
        &self,
        model: Restricted<'_>,
        guess: &[f64],
        tight: f64,
        enough: &dyn Fn(&[Interval]) -> bool,
    ) -> Result<Vec<Interval>, VerifyError> {
        let effort = Effort(self.claim.visits);
        let set = match self.quantity {
            Quantity::Discounted => {
                let gamma = VerifyError::Gamma(self.mdp.gamma());
                return bounds::discounted(model, guess, tight, effort, enough).ok_or(gamma);
            }
            Quantity::Reach(goal) | Quantity::Total(Some(goal)) => Some(self.goal(goal)?),
            Quantity::Total(None) | Quantity::Average | Quantity::Horizon(_) => None,
        };
        let reduced = Reduced::new(model, self.sums(set.as_deref()))?;
        let payoffs = match self.quantity {
            Quantity::Average => bounds::gains(model, &reduced.components, tight / 4.0, effort),
            _ => Vec::new(),
        };
        let states = |found: &[Interval]| reduced.values(found, Interval::point);
        let found = bounds::sums(&reduced, &payoffs, guess, tight, effort, &|found| enough(&states(found)));
        let mut found = states(&found);
        if let Quantity::Reach(_) = self.quantity {
            let all = if self.sign > 0.0 { Interval::new(0.0, 1.0) } else { Interval::new(-1.0, 0.0) };
            found.iter_mut().for_each(|x| *x = x.meet(all));
        }
        Ok(found)
    }

    fn sums<'g>(&self, goal: Option<&'g [bool]>) -> Sums<'g> {
        match (self.quantity, goal) {
            (Quantity::Reach(_), Some(goal)) => Sums::Reach(goal),
            (Quantity::Average, _) => Sums::Average,
            (_, goal) => Sums::Total(goal),
        }
    }

    /// Exact values and an optimal action per state.
    fn exact(&self, model: Restricted<'_>, start: Option<&[u32]>, guess: &[f64]) -> Result<ExactSolution, VerifyError> {
        let limit = self.claim.work;
        let mdp = self.mdp;
        let action = |(state, row): (usize, usize)| match row {
            STAY if mdp.choices().count(state) == 0 => NO_ACTION,
            STAY => 0,
            row => (row - mdp.choices().first(state)) as u32,
        };
        let goal = match self.quantity {
            Quantity::Discounted => {
                let most = (0..mdp.rows()).map(|row| onward_sum(mdp, row).hi).fold(0.0, f64::max);
                if (Interval::point(1.0) - Interval::point(mdp.gamma()) * Interval::point(most)).lo <= 0.0 {
                    return Err(VerifyError::Gamma(mdp.gamma()));
                }
                let (values, rows) = rational::discounted(model, start, limit)?;
                return Ok(ExactSolution { values, policy: rows.into_iter().enumerate().map(action).collect() });
            }
            Quantity::Average => {
                let (values, rows) = rational::average(model, start, limit)?;
                return Ok(ExactSolution { values, policy: rows.into_iter().enumerate().map(action).collect() });
            }
            Quantity::Horizon(steps) => {
                let (values, rows) = rational::horizon(mdp, *steps, None, limit)?;
                return Ok(ExactSolution { values, policy: rows.into_iter().enumerate().map(action).collect() });
            }
            Quantity::Reach(goal) | Quantity::Total(Some(goal)) => Some(self.goal(goal)?),
            Quantity::Total(None) => None,
        };
        let reduced = Reduced::new(model, self.sums(goal.as_deref()))?;
        let proposal = bounds::greedy(&reduced, guess);
        let first = rational::proper(&reduced, |_, row| proposal[row]).ok_or(TooLarge::Singular)?;
        let (values, rows) = rational::reduced(&reduced, &first, limit)?;
        let given = |state: usize| match self.mdp.choices().count(state) {
            0 => NO_ACTION,
            _ => start.map_or(0, |start| start[state]),
        };
        Ok(ExactSolution { policy: reduced.policy(&rows, &given), values })
    }

    fn stationary(&self, values: &[f64], policy: Option<&[u32]>) -> Result<Verification, VerifyError> {
        let Claim { epsilon, loss: limit, work, .. } = *self.claim;
        let guess: Vec<f64> = values.iter().map(|value| self.sign * value).collect();
        let errors = |found: &[Interval]| largest(guess.iter().zip(found).map(|(&value, &x)| error(value, x)));
        let decided =
            |found: &[Interval]| errors(found).finding(epsilon, Arithmetic::Intervals).verdict != Verdict::Undecided;
        let all = Restricted { mdp: self.mdp, policy: None };
        let mut optimal = self.enclose(all, &guess, epsilon / 8.0, &decided)?;
        let mut found = errors(&optimal).finding(epsilon, Arithmetic::Intervals);
        // Values in rational arithmetic, if that is permitted and affordable.
        let exactly = |model: Restricted<'_>, start: Option<&[u32]>| {
            if work == 0 || interrupt::requested() {
                return Ok(None);
            }
            match self.exact(model, start, &guess) {
                Ok(exact) => Ok(Some(exact.values)),
                Err(VerifyError::TooLarge(_)) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let mut exact = None;
        if found.verdict == Verdict::Undecided {
            exact = exactly(all, policy)?;
        }
        if let Some(exact) = &exact {
            optimal = self.enclosures(exact);
            found = largest(values.iter().zip(exact).map(|(&value, x)| exact_error(value, x)))
                .finding(epsilon, Arithmetic::Rationals);
        }
        let (mut lost, mut attained) = (None, None);
        if let Some(policy) = policy {
            let chain = Restricted { mdp: self.mdp, policy: Some(policy) };
            let losses = |optimal: &[Interval], own: &[Interval]| {
                largest(optimal.iter().zip(own).map(|(&best, &x)| loss(best, x)))
            };
            let of_loss =
                |optimal: &[Interval], own: &[Interval]| losses(optimal, own).finding(limit, Arithmetic::Intervals);
            let open = |optimal: &[Interval], own: &[Interval]| of_loss(optimal, own).verdict == Verdict::Undecided;
            let mut own = self.enclose(chain, &guess, limit / 8.0, &|own| !open(&optimal, own))?;
            if found.arithmetic == Arithmetic::Intervals && open(&optimal, &own) {
                // What suffices for the values may be too wide for the loss.
                optimal = self.enclose(all, &guess, limit / 8.0, &|optimal| !open(optimal, &own))?;
            }
            let mut of_policy = of_loss(&optimal, &own);
            if of_policy.verdict == Verdict::Undecided {
                if exact.is_none() {
                    exact = exactly(all, Some(policy))?;
                }
                if let Some(best) = &exact
                    && let Some(exact) = exactly(chain, None)?
                {
                    (optimal, own) = (self.enclosures(best), self.enclosures(&exact));
                    let lost = best.iter().zip(&exact).map(|(best, x)| exact_loss(best, x, self.sign));
                    of_policy = largest(lost).finding(limit, Arithmetic::Rationals);
                }
            }
            (lost, attained) = (Some(of_policy), Some(self.as_given(own)));
        }
        Ok(Verification {
            values: found,
            policy: lost,
            optimal: self.as_given(optimal),
            attained,
            elapsed: Duration::ZERO,
        })
    }

    /// Bounds with the sign of the model's rewards.
    fn as_given(&self, found: Vec<Interval>) -> Vec<Interval> {
        found.into_iter().map(|x| signed(self.sign, x)).collect()
    }

    /// Neighbouring `f64` around exact values, with the sign of a maximum.
    fn enclosures(&self, values: &[Exact]) -> Vec<Interval> {
        values.iter().map(|value| signed(self.sign, value.enclosure())).collect()
    }

    fn horizon(&self, steps: u32, values: &[f64], policy: Option<&[u32]>) -> Result<Verification, VerifyError> {
        let Claim { epsilon, loss: limit, work, .. } = *self.claim;
        let states = self.mdp.states() as usize;
        let all = Restricted { mdp: self.mdp, policy: None };
        let (mut errors, mut losses) = (Largest::NONE, Largest::NONE);
        let mut attained = None;
        let is_plan = values.len() > states;
        let mut own = vec![Interval::ZERO; states];
        let optimal = bounds::horizon(all, steps, None, |step, now, next| {
            if step > 0 && !is_plan {
                return;
            }
            let first = if is_plan { step * states } else { 0 };
            for (state, &x) in now.iter().enumerate() {
                errors = errors.with(error(self.sign * values[first + state], x), first + state);
            }
            if let Some(policy) = policy {
                let chain = Restricted { mdp: self.mdp, policy: Some(&policy[first..first + states]) };
                let after = if is_plan { &own } else { next };
                own = bounds::step_back(chain, after, self.mdp.gamma());
                for (state, (&best, &x)) in now.iter().zip(&own).enumerate() {
                    losses = losses.with(loss(best, x), first + state);
                }
            }
        })
        .ok_or(TooLarge::Interrupted)?;
        if steps == 0 {
            errors = largest(values.iter().map(|&value| error(self.sign * value, Interval::ZERO)));
        }
        if policy.is_some() {
            attained = Some(self.as_given(own));
        }
        let mut found = errors.finding(epsilon, Arithmetic::Intervals);
        if found.verdict == Verdict::Undecided && !is_plan && work > 0 {
            match self.exact(all, None, values) {
                Ok(exact) => {
                    let errors = values.iter().zip(&exact.values).map(|(&value, x)| exact_error(value, x));
                    found = largest(errors).finding(epsilon, Arithmetic::Rationals);
                }
                Err(VerifyError::TooLarge(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let lost = policy.map(|_| losses.finding(limit, Arithmetic::Intervals));
        let optimal = self.as_given(optimal);
        Ok(Verification { values: found, policy: lost, optimal, attained, elapsed: Duration::ZERO })
    }
}

/// An exact solution.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactSolution {
    /// V\* of each state.
    pub values: Vec<Exact>,
    /// An optimal action of each state; [`NO_ACTION`] where there is none, or where any will do.
    pub policy: Vec<u32>,
}

/// Solves a model exactly, from the policy `start` and `guess`, a proposal of the values. Rows are treated as in [`verify`].
///
/// # Errors
/// [`VerifyError::TooLarge`] if the estimated work exceeds `work`; the other errors of [`verify`].
pub fn solve_exactly(
    mdp: &Mdp,
    quantity: &Quantity,
    guess: &[f64],
    start: Option<&[u32]>,
    work: u64,
) -> Result<ExactSolution, VerifyError> {
    let start = start.map(|start| checked(mdp, start)).transpose()?;
    let claim = Claim { work, ..Claim::default() };
    let sign = mdp.objective().sign();
    let signed: Vec<f64> = guess.iter().map(|value| sign * value).collect();
    Asked { mdp, quantity, claim: &claim, sign }.exact(Restricted { mdp, policy: None }, start.as_deref(), &signed)
}
