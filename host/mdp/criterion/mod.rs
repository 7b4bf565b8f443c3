//! Criteria other than the discounted sum of rewards. Each yields lower and upper bounds of the optimal values.
//!
//! | Criterion | Optimised quantity | Method |
//! | --- | --- | --- |
//! | [`Reach`](Criterion::Reach) | the probability of reaching a set | `reach`, on a proper quotient |
//! | [`TotalReward`](Criterion::TotalReward) | the expected sum of rewards, until a set is reached or for ever | `total`, on a proper quotient |
//! | [`Average`](Criterion::Average) | the expected reward per step in the long run | `average`, relative value iteration |
//! | [`Horizon`](Criterion::Horizon) | the expected sum of the first T rewards | `horizon`, T backward sweeps |
//!
//! Undiscounted sweeps do not contract, and a small change between two sweeps does not bound the distance to the fixed
//! point. So sweeps only propose values. The bounds are then proven from the model in `f64`, with all rounding errors
//! accounted for, whichever backend proposed the values.
//!
//! If sweeps take too long or `f64` is not precise enough, `direct` takes over: it improves policies by Howard's method
//! and evaluates them by elimination, in as many bits as necessary. V* always refers to the model whose rows are
//! divided by their sums.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use self::keeper::Keeper;
use super::analysis::graph::Graph;
use super::backend::{GreedySweeps, Stop};
use super::checkpoint::Proposal;
use super::model::validate::Invalid;
use super::model::{Mdp, Objective};
use super::solution::{Round, Run, Status};
use warpkov_common::checkpoint::{Checkpoints, Hash};
use warpkov_common::interrupt;

mod accelerate;
mod average;
mod backends;
mod direct;
mod horizon;
mod keeper;
mod proper;
mod reach;
mod report;
mod total;

pub use backends::{Cpu, OnDevice, SolvedOn, backward_kept_on, backward_on, solve_kept_on, solve_on};
pub use horizon::{Stages, Steps, backward, backward_kept};
pub use report::Report;

/// The quantity to maximise or minimise, according to the model's [`Objective`].
#[derive(Clone, Debug, PartialEq)]
pub enum Criterion {
    /// The probability of reaching a state of `goal` in any number of steps. Ignores rewards and γ.
    Reach {
        /// The states to reach.
        goal: Vec<u32>,
    },
    /// The expected undiscounted sum of rewards. Ignores γ.
    TotalReward {
        /// States until which rewards count. A process that may miss them has value +∞ if all rewards are ≥ 0, and −∞
        /// if all are ≤ 0 and some are negative, as in PRISM and Storm. `None`: rewards count for ever.
        goal: Option<Vec<u32>>,
    },
    /// The gain: the expected reward per step in the long run, which is 0 once the process ends. Ignores γ.
    Average,
    /// The expected sum of the first T rewards, discounted by γ ∈ [0, 1].
    Horizon(u32),
}

impl Criterion {
    /// The name of the criterion, in one word.
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

/// Accuracy and limits of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// ε, the maximum distance of a value from the optimal value.
    pub epsilon: f64,
    /// Whether ε is relative to each value.
    pub relative: bool,
    /// Maximum number of sweeps over values. The sweeps over weights, which bound the values, have a budget of the same
    /// size.
    pub max_sweeps: u64,
}

impl Options {
    /// Whether the midpoint of these bounds is within ε of all numbers between them. Bounds that enclose 0 and other
    /// numbers never meet a relative ε.
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

/// Optimal values between proven bounds.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// Lower bound of the optimal value of each state.
    pub lower: Vec<f64>,
    /// Upper bound of the optimal value of each state.
    pub upper: Vec<f64>,
    /// A policy, one action per state. Its value is at least `lower` when maximising, and at most `upper` when
    /// minimising.
    pub policy: Vec<u32>,
    /// The bias h, up to a constant, if the gain g is the same for all states: h + g = max (r + P h).
    pub bias: Option<Vec<f64>>,
    /// How the run ended; [`Solved`](Status::Solved) if the bounds meet the options.
    pub status: Status,
    /// Precision, in bits, of policy evaluation by elimination; `None` if sweeps sufficed.
    pub bits: Option<u32>,
    /// The rounds of sweeps.
    pub rounds: Vec<Round>,
    /// Error bounds during the run. If parts of a model are solved one after the other, each entry describes the
    /// current part.
    pub looks: Vec<Look>,
}

/// The error bound at one time in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Number of sweeps so far.
    pub sweeps: u64,
    /// Upper bound of the distance between the midpoint of the bounds and the optimal value, over all states; infinite
    /// if some value had no finite bounds.
    pub error: f64,
}

impl Bounded {
    /// The midpoints of the bounds.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.lower.iter().zip(&self.upper).map(|(&lower, &upper)| middle(lower, upper)).collect()
    }

    /// Upper bound of the distance between a midpoint and the optimal value, over all states.
    #[must_use]
    pub fn error(&self) -> f64 {
        widest(&self.lower, &self.upper)
    }

    /// Number of sweeps in all rounds.
    #[must_use]
    pub fn sweeps(&self) -> u64 {
        sweeps(&self.rounds)
    }

    /// The states whose bounds do not meet `options`, in ascending order.
    pub fn unsettled(&self, options: &Options) -> impl Iterator<Item = usize> {
        let bounds = self.lower.iter().zip(&self.upper).enumerate();
        bounds.filter(|(_, (lower, upper))| !options.is_met(**lower, **upper)).map(|(state, _)| state)
    }
}

/// Why a solve fails.
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error> {
    /// The backend failed.
    #[error(transparent)]
    Backend(E),
    /// A goal state is out of range.
    #[error("goal[{position}] is {found}, expected a state below {states}")]
    Goal {
        /// Position in the list of states.
        position: usize,
        /// The state found there.
        found: u32,
        /// S, the number of states.
        states: u32,
    },
    /// The total reward is undefined: a policy may miss the goal, and rewards have both signs.
    #[error(
        "the total reward is undefined: rewards have both signs, and some policy misses the goal from state {state}; \
         expected rewards of one sign, or a goal that every policy reaches"
    )]
    Missed {
        /// The first state from which some policy misses the goal.
        state: usize,
    },
    /// The total reward is undefined: a process can earn rewards for ever, and rewards have both signs.
    #[error(
        "the total reward is undefined: rewards have both signs, and from state {state} a process can earn nonzero \
         rewards for ever; expected rewards of one sign, a goal, or the criterion average"
    )]
    Recurrent {
        /// The first state from which a process can do so.
        state: usize,
    },
    /// A model derived from this one is invalid because rewards overflow.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// A factory of backends on one device.
pub trait Make {
    /// Error of the device.
    type Error: std::error::Error;

    /// The part of a model for [`make`](Self::make): the whole model, unless several ranks share it.
    ///
    /// # Errors
    /// If a rank fails.
    fn part<'m>(&self, mdp: &'m Mdp) -> Result<Cow<'m, Mdp>, Self::Error> {
        Ok(Cow::Borrowed(mdp))
    }

    /// Whether it holds on any rank.
    ///
    /// # Errors
    /// If a rank fails.
    fn any(&self, holds: bool) -> Result<bool, Self::Error> {
        Ok(holds)
    }

    /// Makes a backend for a [`part`](Self::part) of a model, which it must maximise. The backend has the values of all
    /// states. V must be `f64`: lower precision does not reach ε.
    ///
    /// # Errors
    /// Errors of the device.
    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, Self::Error>, Self::Error>;
}

/// A boxed backend.
pub type Boxed<'m, E> = Box<dyn GreedySweeps<Error = E> + 'm>;

/// Called after each round; breaks to stop the run.
pub type Observe<'a> = dyn FnMut(&Round) -> ControlFlow<()> + 'a;

/// Where a solve goes on from, and where its checkpoints go.
#[derive(Default)]
pub struct Persistence<'a> {
    /// A checkpoint of the same problem. The limit of sweeps counts those before it.
    pub resume: Option<&'a Proposal>,
    /// Checkpoints to write. All ranks have them, or none.
    pub checkpoints: Option<&'a mut Checkpoints>,
}

/// The problem in words, which a checkpoint must match: the criterion, its goal, and the objective. `terminal` are the
/// values at the horizon, if they are not 0.
#[must_use]
pub fn problem(mdp: &Mdp, criterion: &Criterion, terminal: Option<&[f64]>) -> String {
    let (name, objective) = (criterion.name(), mdp.objective());
    match criterion {
        Criterion::Reach { goal } | Criterion::TotalReward { goal: Some(goal) } => {
            format!("{name}, {objective}, {} goal states {}", goal.len(), Hash::new(0, bytemuck::cast_slice(goal)))
        }
        Criterion::TotalReward { goal: None } | Criterion::Average => format!("{name}, {objective}"),
        Criterion::Horizon(steps) => {
            let terminal =
                terminal.map(|values| format!(", terminal values {}", Hash::new(0, bytemuck::cast_slice(values))));
            format!("{name} {steps}, gamma {}, {objective}{}", mdp.gamma(), terminal.unwrap_or_default())
        }
    }
}

/// Solves `mdp` for `criterion` on backends from `make`. Most backends sweep smaller models derived from `mdp`.
///
/// # Errors
/// [`Error`]. A run that meets a limit returns its [`Status`] instead.
pub fn solve<'a, E: std::error::Error>(
    mdp: &Mdp,
    criterion: &Criterion,
    options: &Options,
    make: &'a dyn Make<Error = E>,
    observe: &'a mut Observe<'a>,
) -> Result<Bounded, Error<E>> {
    solve_kept(mdp, criterion, options, make, Persistence::default(), observe)
}

/// [`solve`] with checkpoints.
///
/// # Errors
/// As for [`solve`]. A checkpoint that cannot be written is no error here: see [`Checkpoints::finish`].
pub fn solve_kept<'a, E: std::error::Error>(
    mdp: &Mdp,
    criterion: &Criterion,
    options: &Options,
    make: &'a dyn Make<Error = E>,
    persistence: Persistence<'a>,
    observe: &'a mut Observe<'a>,
) -> Result<Bounded, Error<E>> {
    let mut session = Session::new(*options, make, observe);
    session.persist(Keeper::new(mdp, persistence, || problem(mdp, criterion, None)));
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
    // Check the returned bounds themselves, whatever the solver concluded.
    if found.status == Status::Solved && found.unsettled(options).next().is_some() {
        found.status = Status::Stalled;
    }
    Ok(found)
}

/// Converts a list of states to a set of vertices.
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

/// A run: its inputs and its history.
struct Session<'a, E> {
    make: &'a dyn Make<Error = E>,
    observe: &'a mut Observe<'a>,
    options: Options,
    start: Instant,
    rounds: Vec<Round>,
    looks: Vec<Look>,
    bits: Option<u32>,
    /// Number of sweeps between two calls of the observer.
    chunk: u32,
    keeper: Keeper<'a>,
}

/// Why a sequence of sweeps ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The stopping rule was met.
    Met,
    /// The sweep limit was reached.
    Limit,
    /// Rounding errors prevent further progress.
    Stalled,
    /// The observer stopped the run.
    Interrupted,
    /// It is time to try elimination.
    Slow,
}

/// Budget of sweeps.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// Sweeps left in the run.
    left: u64,
    /// Sweeps left before the next attempt at elimination.
    patience: u64,
    /// Sweeps between the last attempt at elimination and the next.
    period: u64,
    /// Sweeps done.
    done: u64,
}

impl Allowance {
    fn new(sweeps: u64) -> Self {
        /// Sweeps before the first attempt. On small models they take less than a millisecond.
        const FIRST: u64 = 1024;
        Self { left: sweeps, patience: FIRST, period: FIRST, done: 0 }
    }

    /// The part of `count` sweeps that the budget allows now.
    fn now(&self, count: u64) -> u64 {
        count.min(self.left).min(self.patience)
    }

    fn spend(&mut self, sweeps: u64) {
        self.left -= sweeps.min(self.left);
        self.patience -= sweeps.min(self.patience);
        self.done += sweeps;
    }

    /// Why the budget allows no more sweeps now, or `None` if it does.
    fn ended(&self) -> Option<Ended> {
        match self {
            Self { left: 0, .. } => Some(Ended::Limit),
            Self { patience: 0, .. } => Some(Ended::Slow),
            _ => None,
        }
    }

    /// Doubles the period before the next attempt at elimination.
    fn double(&mut self) {
        self.period = self.period.saturating_mul(2);
        self.patience = self.period;
    }

    /// Budget of operations for elimination on a model with this many entries: about as much time as the sweeps so far.
    fn operations(&self, entries: usize) -> f64 {
        const LEAST: f64 = 262_144.0;
        LEAST.max(self.done as f64 * entries as f64 / 64.0)
    }
}

/// Budget of operations for elimination if `f64` is not precise enough: a few seconds.
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
            keeper: Keeper::default(),
        }
    }

    /// Goes on from the checkpoint of `keeper`, if it has one.
    fn persist(&mut self, keeper: Keeper<'a>) {
        self.rounds = keeper.earlier().map_or_else(Vec::new, |run| run.rounds.clone());
        self.keeper = keeper;
    }

    /// The budget of sweeps over values.
    fn allowance(&self) -> Allowance {
        Allowance::new(self.options.max_sweeps.saturating_sub(self.keeper.earlier_sweeps()))
    }

    /// Writes a checkpoint of what has been noted.
    fn save(&mut self) {
        if self.keeper.keeps() {
            let elapsed = Duration::from_secs_f64(self.seconds());
            self.keeper.save(Run { status: Status::Interrupted, rounds: self.rounds.clone(), elapsed });
        }
    }

    /// Whether a checkpoint is due, on all ranks.
    fn is_due(&self) -> Result<bool, Error<E>> {
        if self.keeper.keeps() { self.make.any(self.keeper.is_due()).map_err(Error::Backend) } else { Ok(false) }
    }

    /// Seconds so far, with those before a checkpoint.
    fn seconds(&self) -> f64 {
        self.keeper.earlier_seconds() + self.start.elapsed().as_secs_f64()
    }

    fn part<'m>(&self, mdp: &'m Mdp) -> Result<Cow<'m, Mdp>, Error<E>> {
        self.make.part(mdp).map_err(Error::Backend)
    }

    fn make<'m>(&self, mdp: &'m Mdp) -> Result<Boxed<'m, E>, Error<E>>
    where
        'a: 'm,
    {
        self.make.make(mdp).map_err(Error::Backend)
    }

    /// Sweeps until `stop` is met or `budget` is spent. Calls the observer after every `chunk` sweeps.
    fn sweep(
        &mut self,
        backend: &mut dyn GreedySweeps<Error = E>,
        stop: Stop,
        budget: &mut u64,
    ) -> Result<Ended, Error<E>> {
        /// Target seconds between two calls of the observer; `chunk` doubles while a call takes less than half of this.
        const PATIENCE: f64 = 0.1;
        while *budget > 0 {
            let begun = Instant::now();
            let at_most = self.chunk.min(u32::try_from(*budget).unwrap_or(u32::MAX));
            let done = backend.backup(stop, at_most).map_err(Error::Backend)?;
            *budget -= u64::from(done.sweeps).min(*budget);
            self.keeper.count(done.sweeps);
            let stops = self.record_round(done.sweeps, done.residual()).is_break();
            if self.keeper.keeps() && (stops || self.is_due()?) {
                if self.keeper.reads() {
                    let values = backend.values().map_err(Error::Backend)?;
                    self.keeper.note(&values);
                }
                self.save();
            }
            if stops {
                return Ok(Ended::Interrupted);
            }
            if stop.is_met(done.least, done.greatest) {
                return Ok(Ended::Met);
            }
            let slow = begun.elapsed().as_secs_f64() >= PATIENCE / 2.0;
            if done.sweeps == self.chunk && !self.make.any(slow).map_err(Error::Backend)? {
                self.chunk = self.chunk.saturating_mul(2);
            }
        }
        Ok(Ended::Limit)
    }

    /// Records the error of these bounds.
    fn record_bounds(&mut self, lower: &[f64], upper: &[f64]) {
        self.looks.push(Look { sweeps: sweeps(&self.rounds), error: widest(lower, upper) });
    }

    /// Returns the solution and moves the history of the session into it, after a last checkpoint.
    fn bounded(&mut self, lower: Vec<f64>, upper: Vec<f64>, policy: Vec<u32>, status: Status) -> Bounded {
        self.save();
        let (rounds, looks) = (std::mem::take(&mut self.rounds), std::mem::take(&mut self.looks));
        Bounded { lower, upper, policy, bias: None, status, bits: self.bits, rounds, looks }
    }

    /// Records bounds found by elimination.
    fn record_elimination(&mut self, numbers: direct::Numbers, lower: &[f64], upper: &[f64]) {
        self.bits = Some(numbers.bits as u32);
        self.record_bounds(lower, upper);
    }

    /// Calls the observer between sweeps. Returns whether it asks to stop.
    fn stop_requested(&mut self) -> bool {
        let none = Round { round: 0, sweeps: 0, residual: f64::INFINITY, changed: None, seconds: 0.0 };
        let last = self.rounds.last().copied().unwrap_or(none);
        self.asks_to_stop(&Round { sweeps: 0, seconds: self.seconds(), ..last })
    }

    /// Calls the observer. Returns whether it asks to stop, on any rank.
    fn asks_to_stop(&mut self, round: &Round) -> bool {
        let asks = (self.observe)(round).is_break() || interrupt::requested();
        // A rank that fails ends the run at the next exchange.
        self.make.any(asks).unwrap_or(true)
    }

    /// Records a round of sweeps and calls the observer.
    fn record_round(&mut self, sweeps: u32, residual: f64) -> ControlFlow<()> {
        let round = self.rounds.len() as u32 + 1;
        let round = Round { round, sweeps, residual, changed: None, seconds: self.seconds() };
        self.rounds.push(round);
        if self.asks_to_stop(&round) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The midpoint. Equal bounds, possibly infinite, are their own midpoint.
fn middle(lower: f64, upper: f64) -> f64 {
    if lower == upper { lower } else { lower + (upper - lower) / 2.0 }
}

/// Maximum distance of the midpoint from a number between the bounds, rounded up. Infinite if the bounds are NaN or are
/// infinite with opposite signs.
fn radius(lower: f64, upper: f64) -> f64 {
    let middle = middle(lower, upper);
    match lower == upper {
        true => 0.0,
        false if middle.is_nan() => f64::INFINITY,
        false => (middle - lower).max(upper - middle).next_up(),
    }
}

/// The largest [`radius`] over all states.
fn widest(lower: &[f64], upper: &[f64]) -> f64 {
    lower.iter().zip(upper).map(|(&lower, &upper)| radius(lower, upper)).fold(0.0, f64::max)
}

/// Number of sweeps in all rounds.
fn sweeps(rounds: &[Round]) -> u64 {
    rounds.iter().map(|round| u64::from(round.sweeps)).sum()
}

/// Bounds with the sign of the model's rewards, from bounds of the maximised quantity.
fn signed(objective: Objective, lower: Vec<f64>, upper: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    let negated = |values: Vec<f64>| values.into_iter().map(|x| signed_value(objective, x)).collect();
    match objective {
        Objective::Maximize => (lower, upper),
        Objective::Minimize => (negated(upper), negated(lower)),
    }
}

/// A value with the sign of the model's rewards.
fn signed_value(objective: Objective, x: f64) -> f64 {
    match objective {
        Objective::Maximize => x,
        // 0 − x instead of −x, so that 0 does not become −0.
        Objective::Minimize => 0.0 - x,
    }
}
