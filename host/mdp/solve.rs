//! The loops, written once for every backend.
//!
//! [`policy_iteration`] evaluates a policy by synchronous Jacobi sweeps until ‖Vₖ₊₁ − Vₖ‖∞ < θ, improves it greedily, and
//! stops when no state changes its action. [`value_iteration`] does greedy sweeps V ← TV until the changes of a sweep tell
//! that V is close enough to V*.
//!
//! Backends maximise. They own their copy of the model, V and π, and start at V = 0 and the first action of every state.

use super::backend::{Backup, Backups, Evaluate, Modify, Stop};
use super::options::Limits;
use super::solution::{Round, Run, Status};
use std::ops::ControlFlow;
use std::time::Instant;

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
    let mut run = Timed::start();
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
    let mut run = Timed::start();
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

/// A run, as it goes.
struct Timed {
    run: Run,
    start: Instant,
}

impl Timed {
    /// A run that begins now.
    fn start() -> Self {
        Self { run: Run::default(), start: Instant::now() }
    }

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
