//! Criteria other than the discounted sum, each with bounds from both sides.
//!
//! | criterion | what is optimised | how |
//! | --- | --- | --- |
//! | [`Reach`](Criterion::Reach) | the probability of reaching a set | `reach`, on a proper quotient |
//! | [`TotalReward`](Criterion::TotalReward) | the expected sum of rewards, until a set is reached or for ever | `total`, likewise |
//! | [`Average`](Criterion::Average) | the expected reward per step in the long run | `average`, relative value iteration |
//! | [`Horizon`](Criterion::Horizon) | the expected sum of the first T rewards | `horizon`, T backward sweeps |
//!
//! Undiscounted sweeps do not contract, and a small change between two of them says nothing of the distance to the
//! fixed point. Here they only propose values; bounds are proven from the model, in `f64` with all rounding errors
//! accounted for, whichever backend proposed them.
//!
//! Where sweeps take too long, or `f64` is too short, policies are improved by Howard's method and evaluated by elimination,
//! in as many bits as it takes (`direct`). V* is always that of the model whose rows are divided by their sums.

use std::ops::ControlFlow;
use std::time::Instant;

use super::analysis::graph::Graph;
use super::backend::{GreedySweeps, Stop};
use super::model::validate::Invalid;
use super::model::{Mdp, Objective};
use super::solution::{Round, Status};

mod accelerate;
mod average;
mod backends;
mod direct;
mod horizon;
mod proper;
mod reach;
mod report;
mod total;

pub use backends::{Cpu, OnDevice, Solved, backward_on, solve_on};
pub use horizon::{Stages, Steps, backward};
pub use report::Report;

/// What is optimised, by the model's [`Objective`].
#[derive(Clone, Debug, PartialEq)]
pub enum Criterion {
    /// The probability of reaching a state of `goal`, in any number of steps. Rewards and γ play no part.
    Reach {
        /// States.
        goal: Vec<u32>,
    },
    /// The expected sum of rewards, undiscounted. γ plays no part.
    TotalReward {
        /// States until which rewards count. Who misses them earns ∞ where rewards are to be maximised or costs to be
        /// minimised, and −∞ where costs are to be maximised or rewards to be minimised (written with the other sign), as
        /// PRISM and Storm have it. `None`: rewards count for ever.
        goal: Option<Vec<u32>>,
    },
    /// The expected reward per step in the long run, the gain. Where the process ends it is 0. γ plays no part.
    Average,
    /// The expected sum of the first T rewards, discounted by γ ∈ [0, 1].
    Horizon(u32),
}

impl Criterion {
    /// Its name: one word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reach { .. } => "reach",
            Self::TotalReward { .. } => "total",
            Self::Average => "average",
            Self::Horizon(_) => "horizon",
        }
    }
}

/// How well to solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// ε: how far a value may be from the optimal one.
    pub epsilon: f64,
    /// Whether ε is relative to each value.
    pub relative: bool,
    /// Sweeps at most, over values and, again, over what bounds them.
    pub max_sweeps: u64,
}

impl Options {
    /// Whether the number in the middle of these bounds is as close to whatever is between them as it is to be. What may be
    /// 0 and something else has no relative error.
    #[must_use]
    pub fn is_met(&self, lower: f64, upper: f64) -> bool {
        let least = if lower <= 0.0 && upper >= 0.0 { 0.0 } else { lower.abs().min(upper.abs()) };
        let allowed = if self.relative { self.epsilon * least } else { self.epsilon };
        let radius = radius(lower, upper);
        radius == 0.0 || radius <= allowed
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { epsilon: 1e-6, relative: false, max_sweeps: 100_000_000 }
    }
}

/// Optimal values between bounds that are certain.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// A number per state that the optimal value is not below.
    pub lower: Vec<f64>,
    /// A number per state that the optimal value does not exceed.
    pub upper: Vec<f64>,
    /// A policy, an action per state. Its own values are not worse than the bounds say.
    pub policy: Vec<u32>,
    /// h, up to a constant, where the gain is the same for all states: h + g = max r + P h.
    pub bias: Option<Vec<f64>>,
    /// [`Solved`](Status::Solved) where the bounds are as close as they were asked to be.
    pub status: Status,
    /// Bits of the numbers in which policies were evaluated by elimination; `None` where sweeps were enough.
    pub bits: Option<u32>,
    /// What was swept.
    pub rounds: Vec<Round>,
    /// What was known after some of the sweeps. Where parts of a model are solved one after the other, of the part at hand.
    pub looks: Vec<Look>,
}

/// What was known at some time in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Sweeps until then.
    pub sweeps: u64,
    /// A number that no value in the middle of its bounds was further from the optimal one than; infinite where some value
    /// had none.
    pub error: f64,
}

impl Bounded {
    /// The values in the middle of the bounds.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.lower.iter().zip(&self.upper).map(|(&lower, &upper)| middle(lower, upper)).collect()
    }

    /// A number that no value in the middle is further from the optimal one than.
    #[must_use]
    pub fn error(&self) -> f64 {
        widest(&self.lower, &self.upper)
    }

    /// Sweeps in all rounds.
    #[must_use]
    pub fn sweeps(&self) -> u64 {
        sweeps(&self.rounds)
    }

    /// The states whose bounds are too far apart for what was asked, in order.
    pub fn unsettled(&self, options: &Options) -> impl Iterator<Item = usize> {
        let bounds = self.lower.iter().zip(&self.upper).enumerate();
        bounds.filter(|(_, (lower, upper))| !options.is_met(**lower, **upper)).map(|(state, _)| state)
    }
}

/// Why there is no solution.
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error> {
    /// The backend failed.
    #[error(transparent)]
    Backend(E),
    /// No such state.
    #[error("goal[{position}] is {found}, expected a state below {states}")]
    Goal {
        /// Position in the list of states.
        position: usize,
        /// What is there.
        found: u32,
        /// S.
        states: u32,
    },
    /// The total reward is not defined.
    #[error(
        "total reward: rewards of both signs, and from state {state} the goal may be missed; \
         expected rewards of one sign, or a goal that every policy reaches"
    )]
    Missed {
        /// The first such state.
        state: usize,
    },
    /// The total reward is not defined.
    #[error(
        "total reward: rewards of both signs, and state {state} can be visited for ever at rewards other than 0; \
         expected rewards of one sign, a goal, or the average reward as criterion"
    )]
    Recurrent {
        /// The first such state.
        state: usize,
    },
    /// A model made of the model is none: rewards overflow.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// A place where models are swept.
pub trait Make {
    /// What can go wrong there.
    type Error: std::error::Error;

    /// A backend for a model that is to be maximised. Its V must be `f64`, or ε is not reached.
    ///
    /// # Errors
    /// Those of the place.
    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, Self::Error>, Self::Error>;
}

/// A backend, whichever it is.
pub type Boxed<'m, E> = Box<dyn GreedySweeps<Error = E> + 'm>;

/// Called after each round; breaks to stop the run.
pub type Observe<'a> = dyn FnMut(&Round) -> ControlFlow<()> + 'a;

/// Solves `mdp` by `criterion`, on backends that `make` makes. Most are given models of their own, smaller than this one.
///
/// # Errors
/// [`Error`]; that a run meets a limit is none but its [`Status`].
pub fn solve<'a, E: std::error::Error>(
    mdp: &Mdp,
    criterion: &Criterion,
    options: &Options,
    make: &'a dyn Make<Error = E>,
    observe: &'a mut Observe<'a>,
) -> Result<Bounded, Error<E>> {
    let mut session = Session::new(*options, make, observe);
    let mut found = match criterion {
        Criterion::Reach { goal } => {
            let graph = Graph::new(mdp);
            reach::solve(&graph, &members(mdp, goal)?, &mut session)
        }
        Criterion::TotalReward { goal } => {
            let graph = Graph::new(mdp);
            let goal = goal.as_deref().map(|goal| members(mdp, goal)).transpose()?;
            total::solve(&graph, goal.as_deref(), &mut session)
        }
        Criterion::Average => average::solve(&Graph::new(mdp), &mut session),
        Criterion::Horizon(steps) => horizon::solve(mdp, *steps, &mut session),
    }?;
    // Whatever was proven on the way: what is promised is looked up in what is returned.
    if found.status == Status::Solved && found.unsettled(options).next().is_some() {
        found.status = Status::Stalled;
    }
    Ok(found)
}

/// States as a set of vertices.
fn members<E: std::error::Error>(mdp: &Mdp, list: &[u32]) -> Result<Vec<bool>, Error<E>> {
    let states = mdp.states();
    let mut set = vec![false; states as usize + 1];
    for (position, &found) in list.iter().enumerate() {
        if found >= states {
            return Err(Error::Goal { position, found, states });
        }
        set[found as usize] = true;
    }
    Ok(set)
}

/// A run: what it was asked for and what it has done.
struct Session<'a, E> {
    make: &'a dyn Make<Error = E>,
    observe: &'a mut Observe<'a>,
    options: Options,
    start: Instant,
    rounds: Vec<Round>,
    looks: Vec<Look>,
    bits: Option<u32>,
    /// Sweeps between two looks at the observer.
    chunk: u32,
}

/// How some sweeps ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// As they were to.
    Met,
    /// None are left.
    Limit,
    /// With nothing but rounding errors.
    Stalled,
    /// The observer asked to stop.
    Interrupted,
    /// It is time to try something else.
    Slow,
}

/// How many sweeps may be done.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// In all.
    left: u64,
    /// Before policies are evaluated by elimination instead.
    patience: u64,
    /// How many these were at first.
    period: u64,
    /// Until now.
    done: u64,
}

impl Allowance {
    fn new(sweeps: u64) -> Self {
        /// Sweeps of small models take less than a millisecond.
        const FIRST: u64 = 1024;
        Self { left: sweeps, patience: FIRST, period: FIRST, done: 0 }
    }

    /// How many of `count` may be done now.
    fn now(&self, count: u64) -> u64 {
        count.min(self.left).min(self.patience)
    }

    fn spend(&mut self, sweeps: u64) {
        self.left -= sweeps.min(self.left);
        self.patience -= sweeps.min(self.patience);
        self.done += sweeps;
    }

    /// Why no more sweeps may be done now.
    fn ended(&self) -> Option<Ended> {
        match self {
            Self { left: 0, .. } => Some(Ended::Limit),
            Self { patience: 0, .. } => Some(Ended::Slow),
            _ => None,
        }
    }

    /// Twice as many sweeps as before.
    fn double(&mut self) {
        self.period = self.period.saturating_mul(2);
        self.patience = self.period;
    }

    /// Operations that elimination may take of a model with these entries: about as long as the sweeps that are done.
    fn operations(&self, entries: usize) -> f64 {
        const LEAST: f64 = 262_144.0;
        LEAST.max(self.done as f64 * entries as f64 / 64.0)
    }
}

/// Operations that elimination may take where `f64` is too short: a few seconds.
const OPERATIONS: f64 = 33_554_432.0;

impl Ended {
    fn status(self) -> Status {
        match self {
            Self::Met => Status::Solved,
            Self::Limit => Status::SweepLimit,
            Self::Stalled | Self::Slow => Status::Stalled,
            Self::Interrupted => Status::Interrupted,
        }
    }
}

impl<'a, E: std::error::Error> Session<'a, E> {
    fn new(options: Options, make: &'a dyn Make<Error = E>, observe: &'a mut Observe<'a>) -> Self {
        Self {
            make,
            observe,
            options,
            start: Instant::now(),
            rounds: Vec::new(),
            looks: Vec::new(),
            bits: None,
            chunk: 64,
        }
    }

    fn make<'m>(&self, mdp: &'m Mdp) -> Result<Boxed<'m, E>, Error<E>>
    where
        'a: 'm,
    {
        self.make.make(mdp).map_err(Error::Backend)
    }

    /// Greedy sweeps until `stop` is met or none of `budget` are left. The observer sees them every now and then.
    fn sweep(
        &mut self,
        backend: &mut dyn GreedySweeps<Error = E>,
        stop: Stop,
        budget: &mut u64,
    ) -> Result<Ended, Error<E>> {
        /// Seconds between two looks at the observer, as nearly as powers of two can be.
        const PATIENCE: f64 = 0.1;
        while *budget > 0 {
            let begun = Instant::now();
            let at_most = self.chunk.min(u32::try_from(*budget).unwrap_or(u32::MAX));
            let done = backend.backup(stop, at_most).map_err(Error::Backend)?;
            *budget -= u64::from(done.sweeps).min(*budget);
            if self.push(done.sweeps, done.residual()).is_break() {
                return Ok(Ended::Interrupted);
            }
            if stop.is_met(done.least, done.greatest) {
                return Ok(Ended::Met);
            }
            if done.sweeps == self.chunk && begun.elapsed().as_secs_f64() < PATIENCE / 2.0 {
                self.chunk = self.chunk.saturating_mul(2);
            }
        }
        Ok(Ended::Limit)
    }

    /// Notes bounds, one per state.
    fn look(&mut self, lower: &[f64], upper: &[f64]) {
        self.looks.push(Look { sweeps: sweeps(&self.rounds), error: widest(lower, upper) });
    }

    /// The solution, with what the session has noted.
    fn bounded(&mut self, lower: Vec<f64>, upper: Vec<f64>, policy: Vec<u32>, status: Status) -> Bounded {
        let (rounds, looks) = (std::mem::take(&mut self.rounds), std::mem::take(&mut self.looks));
        Bounded { lower, upper, policy, bias: None, status, bits: self.bits, rounds, looks }
    }

    /// Notes bounds that were found by elimination.
    fn eliminated(&mut self, numbers: direct::Numbers, lower: &[f64], upper: &[f64]) {
        self.bits = Some(numbers.bits as u32);
        self.look(lower, upper);
    }

    /// Whether the observer asks to stop, while nothing is swept.
    fn asks_to_stop(&mut self) -> bool {
        let none = Round { round: 0, sweeps: 0, residual: f64::INFINITY, changed: None, seconds: 0.0 };
        let last = self.rounds.last().copied().unwrap_or(none);
        (self.observe)(&Round { sweeps: 0, seconds: self.start.elapsed().as_secs_f64(), ..last }).is_break()
    }

    /// Notes some sweeps, and asks whether to go on.
    fn push(&mut self, sweeps: u32, residual: f64) -> ControlFlow<()> {
        let round = self.rounds.len() as u32 + 1;
        let round = Round { round, sweeps, residual, changed: None, seconds: self.start.elapsed().as_secs_f64() };
        self.rounds.push(round);
        (self.observe)(&round)
    }
}

/// The number in the middle; that of equal bounds, which may be infinite, is theirs.
fn middle(lower: f64, upper: f64) -> f64 {
    if lower == upper { lower } else { lower + (upper - lower) / 2.0 }
}

/// How far the middle may be from what is between the bounds, rounded up. Bounds that are no numbers, or far on both sides, bound
/// nothing.
fn radius(lower: f64, upper: f64) -> f64 {
    let middle = middle(lower, upper);
    match lower == upper {
        true => 0.0,
        false if middle.is_nan() => f64::INFINITY,
        false => (middle - lower).max(upper - middle).next_up(),
    }
}

/// The largest [`radius`].
fn widest(lower: &[f64], upper: &[f64]) -> f64 {
    lower.iter().zip(upper).map(|(&lower, &upper)| radius(lower, upper)).fold(0.0, f64::max)
}

/// Sweeps in all rounds.
fn sweeps(rounds: &[Round]) -> u64 {
    rounds.iter().map(|round| u64::from(round.sweeps)).sum()
}

/// Bounds in the model's own sign.
fn signed(objective: Objective, lower: Vec<f64>, upper: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    let negated = |values: Vec<f64>| values.into_iter().map(|x| own(objective, x)).collect();
    match objective {
        Objective::Maximize => (lower, upper),
        Objective::Minimize => (negated(upper), negated(lower)),
    }
}

/// A value in the model's own sign.
fn own(objective: Objective, x: f64) -> f64 {
    match objective {
        Objective::Maximize => x,
        // 0 − x, so that no 0 becomes −0.
        Objective::Minimize => 0.0 - x,
    }
}
