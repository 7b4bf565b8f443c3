//! Constraints: the best policy among those whose expected discounted sum of a second reward, a *cost*, is within a limit.
//!
//! A policy π has the value R(π) and the cost C(π) at the start. We bound the largest R with C ≤ d. Policies may be chosen at random at the
//! start, so that the pairs (R, C) are a convex set, and the best one is a mixture of at most two policies without chance (Altman,
//! *Constrained Markov Decision Processes*, 1999). With a multiplier λ ≥ 0, the *price* of the cost, let
//!
//! > L(λ) = max R(π) − λ C(π),
//!
//! the optimal value of a POMDP with rewards r − λ c. A solve of it bounds L(λ) ≤ U, and finds a policy, whose R and C an evaluation of its
//! [controller](crate::controller) bounds. Every λ gives R(π) ≤ U + λ d for each π within the limit: the least of these is the upper bound.
//! The best mixture of the policies found, with C ≤ d, is the lower bound. The next λ is the slope of that mixture, (R₁ − R₂) / (C₁ − C₂), at
//! which the two policies are equally good: a policy that is better there improves the mixture, and if there is none, both bounds meet (the
//! cutting planes of Kelley, as Walraven and Spaan generate columns, *Column generation algorithms for constrained POMDPs*, JAIR 62, 2018).
//!
//! Before, λ grows until a policy is within the limit. With R₀ ≤ R(π) for all policies, λ C(π) ≥ R₀ − U bounds every cost: there is no such
//! policy if the bound exceeds d.
//!
//! The solves begin with a large gap and few expansions. The gap shrinks as the bounds approach each other, and expansions double where they do
//! not. All bounds hold at any time, rounding included. A cost above d by 10⁻⁹ of the largest sum of costs there may be counts as d.

use std::fmt;
use std::time::{Duration, Instant};

use super::io::PolicyGraph;
use super::model::{Invalid, Pomdp};
use super::options::{Gap, Limits, SolveOptions, earned};
use super::solution::{Round, Solution, Status};
use super::solve::{self, Observer, solve_with};
use warpkov_common::numbers::max_norm;
use warpkov_mdp::model::{Csr, Objective};

/// The gap of the first solves, relative to the size of their values.
const ROUGH: f64 = 0.1;

/// By how much the gap of the solves shrinks.
const SHRINK: f64 = 0.125;

/// The gap of the last solves, relative to the limit of the gap.
const FINE: f64 = 0.25;

/// Expansions of the first solves.
const EFFORT: u64 = 64;

/// Part of the gap of the bounds that is left after a solve which deserved no more effort.
const SLOW: f64 = 0.9;

/// Multipliers closer than this, relatively, are one.
const SAME: f64 = 1e-9;

/// Part of the time left that a solve may take.
const SHARE: f64 = 0.5;

/// Time that is too short for another solve.
const SHORT: Duration = Duration::from_millis(20);

/// A cost within this of the limit keeps it, relative to the largest sum of costs there may be.
const SLACK: f64 = 1e-9;

/// Gaps of solves that double precision cannot resolve, relative to the values.
const FINEST: f64 = 1e-13;

/// Difference of two probabilities that are one in two files.
const DIGITS: f64 = 1e-9;

/// A limit of the expected discounted sum of costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constraint {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Constraint {
    /// d.
    #[must_use]
    pub fn limit(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
        }
    }

    /// Where the costs are that are not within the limit.
    fn beyond(self) -> &'static str {
        match self {
            Self::AtMost(_) => "at least",
            Self::AtLeast(_) => "at most",
        }
    }

    /// 1, or −1 if the costs are to be negated.
    fn sign(self) -> f64 {
        match self {
            Self::AtMost(_) => 1.0,
            Self::AtLeast(_) => -1.0,
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = match self {
            Self::AtMost(_) => "at most",
            Self::AtLeast(_) => "at least",
        };
        let limit = self.limit();
        match limit == 0.0 || (1e-4..1e15).contains(&limit.abs()) {
            true => write!(f, "{bound} {limit}"),
            false => write!(f, "{bound} {limit:e}"),
        }
    }
}

/// Why a constrained model has no solution.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The limit is no number, or a cost is none.
    #[error("{0}")]
    Costs(String),
    /// No policy is within the limit.
    #[error("no policy keeps the cost {constraint}: that of every policy is {} {best}", constraint.beyond())]
    Infeasible {
        /// The limit.
        constraint: Constraint,
        /// A bound on the cost that any policy has.
        best: f64,
    },
    /// The run ended before a policy within the limit was found.
    #[error("no policy was found that keeps the cost {constraint}: {status}")]
    NotFound {
        /// The limit.
        constraint: Constraint,
        /// Why the run ended.
        status: Status,
    },
    /// The values of a controller take too long.
    #[error("a controller of {0} nodes is too large to be evaluated")]
    Controller(usize),
    /// A combination of rewards and costs is no model.
    #[error(transparent)]
    Model(#[from] Invalid),
    /// The model cannot be solved with these options, or the device failed.
    #[error(transparent)]
    Solve(#[from] solve::Error),
}

/// A policy without chance, with bounds on its value and its cost in the signs of the model and the costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The probability of choosing it at the start.
    pub probability: f64,
    /// λ, at which it was found.
    pub multiplier: f64,
    /// Bounds on its value.
    pub value: [f64; 2],
    /// Bounds on its cost.
    pub cost: [f64; 2],
    /// The policy.
    pub policy: PolicyGraph,
}

/// The result of a constrained solve.
#[derive(Clone, Debug)]
pub struct Constrained {
    /// A lower bound on the optimal value, in the sign of the model.
    pub lower: f64,
    /// An upper bound on it.
    pub upper: f64,
    /// The one or two policies of a mixture within the limit, which attains `lower` of rewards, or `upper` of costs.
    pub parts: Vec<Part>,
    /// Bounds on the cost of the mixture.
    pub cost: [f64; 2],
    /// λ of the best upper bound: how much the optimal value changes with the limit.
    pub multiplier: f64,
    /// Number of solves.
    pub solves: u64,
    /// Why the run ended.
    pub status: Status,
    /// The bounds after each solve; `vectors` is the number of nodes of its controller.
    pub rounds: Vec<Round>,
    /// The largest gap that ends the run.
    pub gap_limit: f64,
    /// Name of the device of the solves.
    pub device: String,
    /// Automatic choices and their reasons.
    pub notes: Vec<String>,
}

impl Constrained {
    /// The policies as one controller, the nodes of the first part first, and the nodes to begin in for each part.
    #[must_use]
    pub fn controller(&self) -> (PolicyGraph, Vec<Vec<u32>>) {
        let mut all = PolicyGraph { starts: Vec::new(), reached: Vec::new(), actions: Vec::new(), next: Vec::new() };
        let mut begins = Vec::new();
        for Part { policy, .. } in &self.parts {
            let first = all.actions.len() as u32;
            let moved = |nodes: &[u32]| nodes.iter().map(|node| node + first).collect::<Vec<u32>>();
            begins.push(moved(&policy.starts));
            all.starts.extend(moved(&policy.starts));
            all.reached.extend(&policy.reached);
            all.actions.extend(&policy.actions);
            all.next.extend(policy.next.iter().map(|next| next.map(|next| next + first)));
        }
        (all, begins)
    }
}

/// A policy found. Values are those of the maximisation problem, costs are at most the limit or not.
struct Tried {
    multiplier: f64,
    /// A lower bound on R.
    value: f64,
    /// An upper bound on C.
    cost: f64,
    /// Both bounds of R and C, in their own signs.
    bounds: [[f64; 2]; 2],
    policy: PolicyGraph,
}

/// R(π) − λ C(π) ≤ `most` for each policy π.
struct Ceiling {
    multiplier: f64,
    most: f64,
    /// The gap that the solve was asked for.
    gap: f64,
    /// Why it ended.
    ended: Status,
}

impl Ceiling {
    fn reached(&self) -> bool {
        self.ended == Status::Gap
    }
}

/// A mixture of two policies found, of one if they are the same.
#[derive(Clone, Copy)]
struct Mixture {
    first: usize,
    second: usize,
    /// The probability of the first.
    part: f64,
    value: f64,
}

/// A constrained solve.
struct Pricing<'a, 'o> {
    model: &'a Pomdp,
    /// −1 if the value is to be minimised, and the sign of the constraint.
    signs: [f64; 2],
    /// r(s, a) of the maximisation problem, and c(s, a), at s·A + a.
    rewards: Vec<f64>,
    costs: Vec<f64>,
    limit: f64,
    constraint: Constraint,
    /// The sum of the weights of all steps, 1 / (1 − γ) or less.
    steps: f64,
    /// The model with costs as rewards.
    of_costs: Pomdp,
    options: &'a SolveOptions,
    start: Instant,
    observe: Observer<'o>,
    found: Vec<Tried>,
    ceilings: Vec<Ceiling>,
    /// What a cost may exceed the limit by.
    slack: f64,
    /// Most expansions of a solve.
    effort: u64,
    rounds: Vec<Round>,
    work: [u64; 2],
    notes: Vec<String>,
    device: String,
    stopped: Option<Status>,
}

/// Bounds the optimal value under a constraint until the bounds are within the limit of the gap. `costs` are c(s, a) at s·A + a. Of the limits,
/// that of expansions is for each solve, and the target does not apply.
///
/// # Errors
/// If no policy is within the limit, or none was found, if the model with costs as rewards is invalid, and those of [`solve_with`].
pub fn solve(
    model: &Pomdp,
    costs: &[f64],
    constraint: Constraint,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Constrained, Error> {
    let start = Instant::now();
    let pairs = model.states() as usize * model.actions() as usize;
    if costs.len() != pairs {
        return Err(Error::Costs(format!("{} costs, expected {pairs}, one of each state and action", costs.len())));
    }
    if !constraint.limit().is_finite() {
        return Err(Error::Costs(format!("the limit is {}, expected a number", constraint.limit())));
    }
    let signs = [model.process().objective().sign(), constraint.sign()];
    // The sum of the weights of all steps.
    let endless = 1.0 / (1.0 - model.gamma());
    let steps = options.horizon.map_or(endless, |horizon| endless.min(f64::from(horizon)));
    let times = |sign: f64, numbers: &[f64]| numbers.iter().map(|x| sign * x).collect::<Vec<f64>>();
    let mut run = Pricing {
        model,
        signs,
        rewards: times(signs[0], &model.expected_rewards()),
        costs: times(signs[1], costs),
        limit: signs[1] * constraint.limit(),
        slack: SLACK * steps * max_norm(costs),
        effort: EFFORT,
        steps,
        constraint,
        of_costs: model.with_rewards(costs.to_vec(), Objective::Maximize)?,
        options,
        start,
        observe,
        found: Vec::new(),
        ceilings: Vec::new(),
        rounds: Vec::new(),
        work: [0; 2],
        notes: Vec::new(),
        device: String::new(),
        stopped: None,
    };
    run.search()
}

impl Pricing<'_, '_> {
    fn search(&mut self) -> Result<Constrained, Error> {
        let earned = earned(&self.rewards, self.model.actions() as usize);
        self.price(0.0, Gap::Relative(ROUGH))?;
        self.within_limit()?;
        let Some(first) = self.found.first() else { return Err(self.not_found()) };
        let mut gap = ROUGH * Gap::size(first.value, self.upper().1, earned);
        let status = loop {
            let Some(mixture) = self.mixture() else { return Err(self.not_found()) };
            let (lower, upper) = (mixture.value, self.upper().1);
            let limit = self.options.limits.gap.limit(lower, upper, earned);
            if upper - lower <= limit {
                break Status::Gap;
            }
            if let Some(stopped) = self.stopped {
                break stopped;
            }
            // What a cost may exceed the limit by has its price, too.
            if upper - lower <= 4.0 * self.slack * self.upper().0 {
                break Status::Stalled;
            }
            // Solves whose gap is not far below that of the bounds tell little.
            if upper - lower <= 3.0 * gap {
                gap = (SHRINK * gap).max((FINE * limit).min(gap));
            }
            let multiplier = self.slope(mixture);
            let same = |ceiling: &Ceiling| (ceiling.multiplier - multiplier).abs() <= SAME * multiplier.abs();
            if self.ceilings.iter().any(|ceiling| same(ceiling) && ceiling.reached() && ceiling.gap <= gap) {
                gap *= SHRINK;
                if gap <= FINEST * lower.abs().max(earned) {
                    break Status::Stalled;
                }
            }
            self.price(multiplier, Gap::Absolute(gap))?;
            let closed = upper - lower - self.gap();
            let Some(last) = self.ceilings.last() else { continue };
            if closed <= (1.0 - SLOW) * (upper - lower) && !last.reached() && self.stopped.is_none() {
                match last.ended {
                    Status::Iterations if self.options.limits.iterations.is_none_or(|most| most > self.effort) => {
                        self.effort = self.effort.saturating_mul(2);
                    }
                    Status::Time => {}
                    ended if closed <= 0.0 => break ended,
                    _ => {}
                }
            }
        };
        self.result(status, earned)
    }

    /// The difference of the bounds.
    fn gap(&self) -> f64 {
        self.mixture().map_or(f64::INFINITY, |mixture| self.upper().1 - mixture.value)
    }

    /// Raises the price until a policy is within the limit, or there is a proof that there is none.
    fn within_limit(&mut self) -> Result<(), Error> {
        let spread = |numbers: &[f64]| {
            let extreme = |pick: fn(f64, f64) -> f64| numbers.iter().copied().reduce(pick).unwrap_or_default();
            let spread = extreme(f64::max) - extreme(f64::min);
            if spread > 0.0 { spread } else { 1.0 }
        };
        let value = spread(&self.rewards);
        let (mut multiplier, mut gap) = (value / spread(&self.costs), ROUGH);
        while self.mixture().is_none() && self.stopped.is_none() {
            self.price(multiplier, Gap::Relative(gap))?;
            let best = self.least_cost();
            if best > self.limit + self.slack {
                return Err(Error::Infeasible { constraint: self.constraint, best: self.signs[1] * best });
            }
            // What hides the cost: the gap of the solve, its effort, or the values.
            let Some(last) = self.ceilings.last() else { continue };
            match last.gap >= value * self.steps {
                true if last.reached() => gap *= SHRINK,
                _ => multiplier /= SHRINK,
            }
            if !last.reached() {
                self.effort = self.effort.saturating_mul(2);
            }
            if gap < FINEST || !multiplier.is_finite() {
                self.stopped.get_or_insert(Status::Stalled);
            }
        }
        Ok(())
    }

    /// A lower bound on the cost of all policies.
    fn least_cost(&self) -> f64 {
        let worst = self.rewards.iter().copied().reduce(f64::min).unwrap_or_default() * self.steps;
        let of = |ceiling: &Ceiling| {
            let bound = (worst - ceiling.most) / ceiling.multiplier;
            bound - 4.0 * f64::EPSILON * ((worst.abs() + ceiling.most.abs()) / ceiling.multiplier)
        };
        self.ceilings.iter().filter(|ceiling| ceiling.multiplier > 0.0).map(of).fold(f64::NEG_INFINITY, f64::max)
    }

    fn not_found(&self) -> Error {
        Error::NotFound { constraint: self.constraint, status: self.stopped.unwrap_or(Status::Stalled) }
    }

    /// Solves for a multiplier. Keeps the bound, and the policy.
    fn price(&mut self, multiplier: f64, gap: Gap) -> Result<(), Error> {
        let combined = |(reward, cost): (&f64, &f64)| reward - multiplier * cost;
        let rewards: Vec<f64> = self.rewards.iter().zip(&self.costs).map(combined).collect();
        let model = self.model.with_rewards(rewards, Objective::Maximize)?;
        let left = match self.options.limits.time {
            Some(time) => {
                let left = time.saturating_sub(self.start.elapsed());
                if left < SHORT && !self.found.is_empty() {
                    self.stopped = Some(Status::Time);
                    return Ok(());
                }
                Some(left.mul_f64(SHARE).max(SHORT))
            }
            None => None,
        };
        let iterations = Some(self.options.limits.iterations.map_or(self.effort, |most| most.min(self.effort)));
        let limits = Limits { gap, target: None, time: left, iterations, ..self.options.limits };
        let options = SolveOptions { limits, ..*self.options };
        let (lower, upper) = self.bounds();
        let (begun, [iterations, backups], observe) = (self.start, self.work, &mut self.observe);
        let solution = solve_with(&model, &options, &mut |round| {
            let seconds = begun.elapsed().as_secs_f64();
            let (iterations, backups) = (iterations + round.iterations, backups + round.backups);
            observe(&Round { seconds, iterations, backups, lower, upper, ..*round })
        })?;
        self.keep(multiplier, gap, &model, solution)
    }

    fn keep(&mut self, multiplier: f64, gap: Gap, model: &Pomdp, solution: Solution) -> Result<(), Error> {
        let end = *solution.end();
        self.work = [self.work[0] + end.iterations, self.work[1] + end.backups];
        match solution.status {
            Status::Interrupted => self.stopped = Some(Status::Interrupted),
            Status::Time if self.options.limits.time.is_some_and(|time| self.start.elapsed() >= time) => {
                self.stopped = Some(Status::Time);
            }
            _ => {}
        }
        let gap = gap.limit(end.lower, end.upper, earned(&self.rewards, self.model.actions() as usize));
        // Rewards r − λ c are rounded.
        let rounding = f64::EPSILON * (max_norm(&self.rewards) + multiplier * max_norm(&self.costs));
        self.ceilings.push(Ceiling {
            multiplier,
            most: end.upper + rounding * self.steps,
            gap,
            ended: solution.status,
        });
        let policy = match &solution.support {
            _ if !solution.stages.is_empty() => PolicyGraph::of_stages(model, &solution.stages),
            Some(support) => PolicyGraph::of_support(model, &solution.vectors, support),
            None => PolicyGraph::new(model, &solution.vectors),
        };
        let mut nodes = 0;
        if let Some(policy) = policy {
            nodes = policy.actions.len();
            let of = |model: &Pomdp| policy.bounds(model).ok_or(Error::Controller(nodes));
            let bounds = [of(self.model)?, of(&self.of_costs)?];
            let least = |sign: f64, [lower, upper]: [f64; 2]| if sign > 0.0 { lower } else { -upper };
            let (value, cost) = (least(self.signs[0], bounds[0]), -least(-self.signs[1], bounds[1]));
            self.found.push(Tried { multiplier, value, cost, bounds, policy });
        }
        (self.device, self.notes) = (solution.device, solution.notes);
        let (lower, upper) = self.bounds();
        let (seconds, [iterations, backups]) = (self.start.elapsed().as_secs_f64(), self.work);
        let round = Round { seconds, iterations, backups, beliefs: end.beliefs, vectors: nodes, lower, upper };
        self.rounds.push(round);
        if (self.observe)(&round).is_break() {
            self.stopped = Some(Status::Interrupted);
        }
        Ok(())
    }

    /// The best upper bound of the maximisation problem, with its multiplier.
    fn upper(&self) -> (f64, f64) {
        let bound = |ceiling: &Ceiling| {
            let price = ceiling.multiplier * (self.limit + self.slack);
            (ceiling.multiplier, ceiling.most + price + f64::EPSILON * (ceiling.most.abs() + price.abs()))
        };
        self.ceilings
            .iter()
            .map(bound)
            .fold((0.0, f64::INFINITY), |best, next| if next.1 < best.1 { next } else { best })
    }

    /// The bounds in the sign of the model.
    fn bounds(&self) -> (f64, f64) {
        let (lower, upper) = (self.mixture().map_or(f64::NEG_INFINITY, |mixture| mixture.value), self.upper().1);
        if self.signs[0] > 0.0 { (lower, upper) } else { (-upper, -lower) }
    }

    /// The best mixture within the limit.
    fn mixture(&self) -> Option<Mixture> {
        let mut best: Option<Mixture> = None;
        let mut offer = |mixture: Mixture| {
            if best.is_none_or(|best| mixture.value > best.value) {
                best = Some(mixture);
            }
        };
        let all = || self.found.iter().enumerate();
        for (first, own) in all().filter(|(_, own)| own.cost <= self.limit + self.slack) {
            let limit = self.limit.max(own.cost);
            offer(Mixture { first, second: first, part: 1.0, value: own.value });
            for (second, other) in all().filter(|(_, other)| other.cost > limit && other.value > own.value) {
                let (mut part, mut step) = ((other.cost - limit) / (other.cost - own.cost), f64::EPSILON);
                // Rounding must not exceed the limit.
                while part < 1.0 && mixed(part, own.cost, other.cost) > limit {
                    (part, step) = (part + step, 2.0 * step);
                }
                let part = part.min(1.0);
                let rounding = f64::EPSILON * own.value.abs().max(other.value.abs());
                offer(Mixture { first, second, part, value: mixed(part, own.value, other.value) - rounding });
            }
        }
        best
    }

    /// The price of the cost at which the policies of a mixture are equally good.
    fn slope(&self, mixture: Mixture) -> f64 {
        let [own, other] = [mixture.first, mixture.second].map(|i| &self.found[i]);
        let rise = (other.value - own.value) / (other.cost - own.cost);
        if rise.is_finite() { rise.max(0.0) } else { 0.0 }
    }

    fn result(&mut self, status: Status, earned: f64) -> Result<Constrained, Error> {
        let Some(mixture) = self.mixture() else { return Err(self.not_found()) };
        let (lower, upper) = self.bounds();
        let parts: Vec<(usize, f64)> = match mixture.part {
            1.0 => vec![(mixture.first, 1.0)],
            0.0 => vec![(mixture.second, 1.0)],
            part => vec![(mixture.first, part), (mixture.second, 1.0 - part)],
        };
        let part = |&(found, probability): &(usize, f64)| {
            let Tried { multiplier, bounds: [value, cost], policy, .. } = &self.found[found];
            Part { probability, multiplier: *multiplier, value: *value, cost: *cost, policy: policy.clone() }
        };
        let parts: Vec<Part> = parts.iter().map(part).collect();
        let cost = [0, 1].map(|side| parts.iter().map(|part| part.probability * part.cost[side]).sum::<f64>());
        Ok(Constrained {
            lower,
            upper,
            parts,
            cost,
            multiplier: self.upper().0,
            solves: self.rounds.len() as u64,
            status,
            rounds: std::mem::take(&mut self.rounds),
            gap_limit: self.options.limits.gap.limit(mixture.value, self.upper().1, earned),
            device: std::mem::take(&mut self.device),
            notes: std::mem::take(&mut self.notes),
        })
    }
}

fn mixed(part: f64, first: f64, second: f64) -> f64 {
    part * first + (1.0 - part) * second
}

/// The rewards of a model that differs from another one in these alone, its discount, start and objective.
///
/// # Errors
/// If the models differ in more.
pub fn costs_of(costs: &Pomdp, model: &Pomdp) -> Result<Vec<f64>, String> {
    let sizes = |model: &Pomdp| [model.states(), model.actions(), model.observation_count()];
    let ([states, actions, observations], expected) = (sizes(costs), sizes(model));
    if [states, actions, observations] != expected {
        let [s, a, o] = expected;
        return Err(format!(
            "{states} states, {actions} actions and {observations} observations, expected {s}, {a} and {o}"
        ));
    }
    if !is_like(costs.process().transitions(), model.process().transitions()) {
        return Err("other transition probabilities than those of the model".to_owned());
    }
    match is_like(costs.observations(), model.observations()) {
        true => Ok(costs.expected_rewards()),
        false => Err("other observation probabilities than those of the model".to_owned()),
    }
}

/// Whether two matrices of a size are equal up to the digits of a text.
fn is_like(matrix: &Csr, other: &Csr) -> bool {
    let row = |of: &Csr, row: usize| -> Vec<(u32, f64)> {
        let (col, val) = of.row(row);
        col.iter().copied().zip(val.iter().copied()).filter(|(_, prob)| *prob > 0.0).collect()
    };
    (0..matrix.rows()).all(|i| {
        let (own, its) = (row(matrix, i), row(other, i));
        own.len() == its.len() && own.iter().zip(&its).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() <= DIGITS)
    })
}
