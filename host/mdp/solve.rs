//! The loops, written once for every backend.
//!
//! [`policy_iteration`] evaluates a policy by synchronous Jacobi sweeps until ‖Vₖ₊₁ − Vₖ‖∞ < θ, improves it greedily, and
//! stops when no state changes its action. [`value_iteration`] does greedy sweeps V ← TV until the changes of a sweep tell
//! that V is close enough to V*.
//!
//! Backends maximise. They own their copy of the model, V and π, and start at V = 0 and the first action of every state.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;

/// What every backend has: V and π.
pub trait State {
    /// What can go wrong on this backend.
    type Error;

    /// Goes back to the first action of every state, and to V = `initial`, one value per state, or V = 0.
    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Self::Error>;

    /// The present V, one entry per state.
    fn values(&mut self) -> Result<Vec<f64>, Self::Error>;

    /// The present π: an action per state, [`NO_ACTION`](super::model::NO_ACTION) where it has none.
    fn policy(&mut self) -> Result<Vec<u32>, Self::Error>;

    /// Whether π is greedy with respect to V and left to the host, which finds it anew each time it is asked for.
    fn leaves_policy(&self) -> bool {
        false
    }

    /// Bytes that a sweep like the last one must move: each input read once, each output written once.
    fn sweep_bytes(&mut self) -> Result<u64, Self::Error>;
}

/// What policy iteration asks of a backend.
pub trait Evaluate: State {
    /// Jacobi sweeps V ← r^π + γ P^π V from the present V, until ‖ΔV‖∞ < `theta` or `max_sweeps` are done.
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Self::Error>;

    /// Greedy improvement. A state keeps its action unless another's Q-factor exceeds its own by more than `tie`; among
    /// those, the lowest-numbered action of the largest Q-factor wins. Returns the number of states that changed.
    fn improve(&mut self, tie: f64) -> Result<u64, Self::Error>;
}

/// What value iteration asks of a backend.
pub trait Backup: State {
    /// Greedy sweeps from the present V until `stop` is met, nothing changes any more, or `max_sweeps` ≥ 1 are done. π is
    /// greedy then, with respect to V or to the one before the last sweep.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, Self::Error>;

    /// How often V has gone over to another type: that changes were smaller before says nothing of those after.
    fn phase(&self) -> u32 {
        0
    }

    /// The unit roundoff of the type that V is in, where a sweep may change V by more than the one before although it comes
    /// nearer to V*, as where states see each other's new values; `None` where only rounding errors do that.
    fn uneven(&self) -> Option<f64> {
        None
    }
}

/// What modified policy iteration asks of a backend.
pub trait Modify: Backup + Evaluate {
    /// Unit roundoff of the type that V is in.
    fn unit(&self) -> f64;
}

/// What [refinement](super::refine) asks of a backend.
pub trait Correct: Backup {
    /// Puts `rewards`, one r(s, a) per row of the model, in the place of its own; V stays. False, and nothing is done, where
    /// rows share what is stored of them.
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, Self::Error>;
}

/// When greedy sweeps end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// ‖ΔV‖∞ of a sweep is below this.
    Change(f64),
    /// max ΔV − min ΔV of a sweep is below this.
    Span(f64),
}

impl Stop {
    /// What it bounds, of changes with these extremes.
    #[must_use]
    pub fn size(self, least: f64, greatest: f64) -> f64 {
        match self {
            Self::Change(_) => least.abs().max(greatest.abs()),
            Self::Span(_) => greatest - least,
        }
    }

    /// What that must be below.
    #[must_use]
    pub fn bound(self) -> f64 {
        match self {
            Self::Change(bound) | Self::Span(bound) => bound,
        }
    }

    /// Whether a sweep meets it whose changes have these extremes.
    #[must_use]
    pub fn is_met(self, least: f64, greatest: f64) -> bool {
        self.size(least, greatest) < self.bound()
    }
}

/// What greedy sweeps did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backups {
    /// Sweeps done.
    pub sweeps: u32,
    /// The least ΔV of a state in the last sweep; of states that have actions.
    pub least: f64,
    /// The greatest ΔV.
    pub greatest: f64,
    /// The last sweep changed nothing: neither will the next.
    pub fixed: bool,
}

impl Backups {
    /// ‖ΔV‖∞ of the last sweep.
    #[must_use]
    pub fn residual(&self) -> f64 {
        self.least.abs().max(self.greatest.abs())
    }
}

/// What one policy evaluation did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Jacobi sweeps done.
    pub sweeps: u32,
    /// ‖ΔV‖∞ of the last sweep.
    pub residual: f64,
}

/// How close to come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// ε: until it is certain that ‖V − V*‖∞ ≤ ε.
    Epsilon(f64),
    /// θ: until ‖ΔV‖∞ < θ in a sweep, of each policy or of value iteration; the rule of the sources.
    Theta(f64),
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// How close to come.
    pub target: Target,
    /// K_max: sweeps at most, per policy or of value iteration.
    pub max_sweeps: u32,
    /// Policies at most.
    pub max_policies: u32,
    /// ε of the tie-break: how much better an action must be to replace the present one.
    pub tie: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { target: Target::Epsilon(1e-6), max_sweeps: 1_000_000, max_policies: 10_000, tie: 1e-9 }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The target is met.
    Solved,
    /// `max_policies` were evaluated and the policy still changed.
    PolicyLimit,
    /// `max_sweeps` were done and the values still changed.
    SweepLimit,
    /// Rounding errors, or ties within the margin, keep the values from coming closer.
    Stalled,
    /// Values are too large for the precision.
    Overflow,
    /// The observer asked to stop.
    #[default]
    Interrupted,
}

/// One round: an evaluation and an improvement, or some greedy sweeps.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Round {
    /// Its number, from 1.
    pub round: u32,
    /// Sweeps.
    pub sweeps: u32,
    /// ‖ΔV‖∞ of the last sweep.
    pub residual: f64,
    /// States whose action changed in the improvement that followed, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
    /// Seconds since the start of the run.
    pub seconds: f64,
}

/// What a loop returns.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// How it ended.
    pub status: Status,
    /// Every round, in order.
    pub rounds: Vec<Round>,
    /// Time in the loop: the model was on the device already, and results were not yet read back.
    pub elapsed: Duration,
}

impl Run {
    /// Sweeps in all rounds.
    pub fn sweeps(&self) -> u64 {
        self.rounds.iter().map(|round| u64::from(round.sweeps)).sum()
    }
}

/// Runs policy iteration on `backend`, each policy evaluated to `theta`, until the policy is stable, a limit is met, or
/// `observe` breaks.
///
/// # Errors
/// Those of the backend.
pub fn policy_iteration<B: Evaluate + ?Sized>(
    backend: &mut B,
    theta: f64,
    limits: &Limits,
    mut observe: impl FnMut(&Round) -> ControlFlow<()>,
) -> Result<Run, B::Error> {
    let mut run = Run::start();
    // The residual of this policy when it was last evaluated.
    let mut last = f64::INFINITY;
    for _ in 0..limits.max_policies {
        let evaluation = backend.evaluate(theta, limits.max_sweeps)?;
        let changed = backend.improve(limits.tie)?;
        let round = run.push(evaluation.sweeps, evaluation.residual, Some(changed));
        // A backend that stops before θ is asked again, unless it comes no closer.
        let (evaluated, spent) = (evaluation.residual < theta, evaluation.sweeps >= limits.max_sweeps);
        if changed == 0 && (evaluated || spent || evaluation.residual >= last) {
            return Ok(run.end(match (evaluated, spent) {
                (true, _) => Status::Solved,
                (_, true) => Status::SweepLimit,
                (_, false) => Status::Stalled,
            }));
        }
        last = if changed == 0 { evaluation.residual } else { f64::INFINITY };
        if observe(&round).is_break() {
            return Ok(run.end(Status::Interrupted));
        }
    }
    Ok(run.end(Status::PolicyLimit))
}

/// Sweeps of value iteration between two looks at the outside world.
const SWEEPS_PER_ROUND: u32 = 128;

/// Runs value iteration on `backend` until `stop` is met, rounding errors keep it from that, a limit is met, or `observe`
/// breaks.
///
/// # Errors
/// Those of the backend.
pub fn value_iteration<B: Backup + ?Sized>(
    backend: &mut B,
    stop: Stop,
    limits: &Limits,
    observe: impl FnMut(&Round) -> ControlFlow<()>,
) -> Result<Run, B::Error> {
    let round = |backend: &mut B, left: u32| Ok((backend.backup(stop, left.min(SWEEPS_PER_ROUND))?, 0));
    let stuck = |backend: &mut B, waited: u32, size: f64| match backend.uneven() {
        // T contracts: but for rounding errors changes always become smaller.
        None => Ok(waited == 2),
        Some(unit) => may_be_rounding(backend, unit, waited, size),
    };
    greedy_rounds(backend, stop, limits, stuck, observe, round)
}

/// Sweeps that evaluate each policy of modified policy iteration, unless one knows better.
pub const PARTIAL_SWEEPS: u32 = 20;

/// Runs modified policy iteration on `backend`: a greedy sweep V ← TV, which may meet `stop`, then `partial_sweeps` sweeps
/// V ← T_π V of its greedy policy π, and again (Puterman and Shin, *Management Science* 24, 1978; Puterman, 6.5).
///
/// It converges, but what a greedy sweep changes need not become smaller from round to round: while what is known of a far
/// goal comes nearer by a few states in each, those that it has not reached fall behind by more and more. So it is for
/// rounding errors only if changes are of their size that it gives up.
///
/// # Errors
/// Those of the backend.
pub fn modified_policy_iteration<B: Modify + ?Sized>(
    backend: &mut B,
    stop: Stop,
    partial_sweeps: u32,
    limits: &Limits,
    observe: impl FnMut(&Round) -> ControlFlow<()>,
) -> Result<Run, B::Error> {
    let round = |backend: &mut B, left: u32| {
        let backups = backend.backup(stop, 1)?;
        let partial = partial_sweeps.min(left.saturating_sub(backups.sweeps));
        let ends = stop.is_met(backups.least, backups.greatest) || partial == 0;
        // No change is below 0: all of the sweeps are done.
        let partial = if ends { 0 } else { backend.evaluate(0.0, partial)?.sweeps };
        Ok((backups, partial))
    };
    let stuck = |backend: &mut B, waited: u32, size: f64| {
        let unit = backend.unit();
        may_be_rounding(backend, unit, waited, size)
    };
    greedy_rounds(backend, stop, limits, stuck, observe, round)
}

/// Rounds without smaller changes after which they may be rounding errors, where changes need not become smaller.
const PATIENCE: u32 = 32;

/// Changes of this many unit roundoffs of the largest value may be rounding errors.
const NOISE: f64 = 1024.0;

/// Whether changes of this `size`, the smallest for so many rounds, are of the size of rounding errors.
fn may_be_rounding<B: Backup + ?Sized>(backend: &mut B, unit: f64, waited: u32, size: f64) -> Result<bool, B::Error> {
    if waited == 0 || !waited.is_multiple_of(PATIENCE) {
        return Ok(false);
    }
    let largest = backend.values()?.into_iter().map(f64::abs).fold(0.0, f64::max);
    Ok(size <= NOISE * unit * largest)
}

/// Rounds of greedy sweeps, each with what follows them, until `stop` is met, `stuck` says that rounding errors keep it from
/// that, a limit is met, or `observe` breaks. `round` is told how many sweeps are left, and returns how many followed the
/// greedy ones; `stuck`, for how many rounds changes have not become smaller, and how large they are.
fn greedy_rounds<B: Backup + ?Sized>(
    backend: &mut B,
    stop: Stop,
    limits: &Limits,
    mut stuck: impl FnMut(&mut B, u32, f64) -> Result<bool, B::Error>,
    mut observe: impl FnMut(&Round) -> ControlFlow<()>,
    mut round: impl FnMut(&mut B, u32) -> Result<(Backups, u32), B::Error>,
) -> Result<Run, B::Error> {
    let mut run = Run::start();
    let mut left = limits.max_sweeps;
    // The smallest changes so far, and rounds since they were seen.
    let (mut smallest, mut waited, mut phase) = (f64::INFINITY, 0, backend.phase());
    while left > 0 {
        let (backups, followed) = round(backend, left)?;
        let now = backend.phase();
        if now != phase {
            (phase, smallest) = (now, f64::INFINITY);
        }
        left = left.saturating_sub(backups.sweeps + followed);
        let round = run.push(backups.sweeps + followed, backups.residual(), None);
        if stop.is_met(backups.least, backups.greatest) {
            return Ok(run.end(Status::Solved));
        }
        if backups.fixed {
            return Ok(run.end(Status::Stalled));
        }
        let size = stop.size(backups.least, backups.greatest);
        waited = if size < smallest { 0 } else { waited + 1 };
        smallest = smallest.min(size);
        // First, as what an interruption has cut short may look stuck.
        if observe(&round).is_break() {
            return Ok(run.end(Status::Interrupted));
        }
        if stuck(backend, waited, size)? {
            return Ok(run.end(Status::Stalled));
        }
    }
    Ok(run.end(Status::SweepLimit))
}

impl Run {
    /// A run that begins now.
    fn start() -> Timed {
        Timed { run: Self::default(), start: Instant::now() }
    }

    /// What came after this run on the same backend.
    pub(super) fn append(&mut self, next: Self) {
        let (count, seconds) = (self.rounds.len() as u32, self.elapsed.as_secs_f64());
        let shifted = |round: Round| Round { round: count + round.round, seconds: seconds + round.seconds, ..round };
        self.rounds.extend(next.rounds.into_iter().map(shifted));
        self.status = next.status;
        self.elapsed += next.elapsed;
    }
}

/// A run, as it goes.
struct Timed {
    run: Run,
    start: Instant,
}

impl Timed {
    fn push(&mut self, sweeps: u32, residual: f64, changed: Option<u64>) -> Round {
        let number = self.run.rounds.len() as u32 + 1;
        let round = Round { round: number, sweeps, residual, changed, seconds: self.start.elapsed().as_secs_f64() };
        self.run.rounds.push(round);
        round
    }

    fn end(self, status: Status) -> Run {
        Run { status, elapsed: self.start.elapsed(), ..self.run }
    }
}
