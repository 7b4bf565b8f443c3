//! The loops of the methods, written once for all backends.
//!
//! [`policy_iteration`] evaluates a policy by Jacobi sweeps until ‖Vₖ₊₁ − Vₖ‖∞ < θ, improves it greedily, and stops
//! when no state changes its action. [`value_iteration`] runs greedy sweeps V ← TV until ‖ΔV‖∞ or the span of ΔV proves
//! V close enough to V*. [`modified_policy_iteration`] alternates greedy sweeps with a few evaluation sweeps.
//!
//! After each round a loop calls `follow` with its record so far and the backend; `Break` ends the loop.

use std::ops::ControlFlow;
use std::time::Instant;

use crate::backend::{Backups, Evaluate, GreedySweeps, Modify, State, Stop};
use crate::options::Limits;
use crate::solution::{Round, Run, Status};

/// Follows a loop to its end.
///
/// # Errors
/// None.
pub fn to_the_end<B: State + ?Sized>(_: &Run, _: &mut B) -> Result<ControlFlow<()>, B::Error> {
    Ok(ControlFlow::Continue(()))
}

/// Runs policy iteration on `backend` until the policy is stable, a limit is reached, or `follow` breaks (Howard 1960;
/// Puterman, *Markov Decision Processes*, 6.4). Each policy is evaluated until ‖ΔV‖∞ < `theta`. A V of which the backend
/// knows that ‖TV − V‖∞ < `theta` needs no stable policy.
///
/// # Errors
/// Errors of the backend.
pub fn policy_iteration<B: Evaluate + ?Sized>(
    backend: &mut B,
    theta: f64,
    limits: &Limits,
    mut follow: impl FnMut(&Run, &mut B) -> Result<ControlFlow<()>, B::Error>,
) -> Result<Run, B::Error> {
    let mut run = Timed::start();
    // Residual of the last evaluation if the policy has not changed since.
    let mut last = f64::INFINITY;
    for _ in 0..limits.max_policies {
        let evaluation = backend.evaluate(theta, limits.max_sweeps)?;
        if backend.bellman_residual() < theta {
            run.push(evaluation.sweeps, evaluation.residual, Some(0));
            return Ok(run.end(Status::Solved));
        }
        let changed = backend.improve(limits.tie)?;
        run.push(evaluation.sweeps, evaluation.residual, Some(changed));
        // A backend may stop an evaluation before θ. Evaluate the same policy again while its residual falls.
        let (evaluated, spent) = (evaluation.residual < theta, evaluation.sweeps >= limits.max_sweeps);
        if changed == 0 && (evaluated || spent || evaluation.residual >= last) {
            return Ok(run.end(match (evaluated, spent) {
                (true, _) => Status::Solved,
                (_, true) => Status::SweepLimit,
                (_, false) => Status::Stalled,
            }));
        }
        last = if changed == 0 { evaluation.residual } else { f64::INFINITY };
        if follow(&run.run, backend)?.is_break() {
            return Ok(run.end(Status::Interrupted));
        }
    }
    Ok(run.end(Status::PolicyLimit))
}

/// Runs value iteration V ← TV on `backend` until `stop` is met, rounding errors prevent further progress, a limit is
/// reached, or `follow` breaks (Puterman, *Markov Decision Processes*, 6.3).
///
/// # Errors
/// Errors of the backend.
pub fn value_iteration<B: GreedySweeps + ?Sized>(
    backend: &mut B,
    stop: Stop,
    limits: &Limits,
    follow: impl FnMut(&Run, &mut B) -> Result<ControlFlow<()>, B::Error>,
) -> Result<Run, B::Error> {
    let round = |backend: &mut B, left: u32| Ok((backend.backup(stop, left.min(backend.sweeps_per_round()))?, 0));
    let stalled = |backend: &mut B, idle_rounds: u32, size: f64| match backend.non_monotone_unit() {
        // T is a contraction: without rounding errors, ‖ΔV‖∞ falls in every sweep.
        None => Ok(idle_rounds == 2),
        Some(unit) => may_be_rounding(backend, unit, idle_rounds, size),
    };
    greedy_rounds(backend, stop, limits, stalled, follow, round)
}

/// Most evaluation sweeps per round of modified policy iteration.
pub const PARTIAL_SWEEPS: u32 = 20;

/// Runs modified policy iteration on `backend`. Each round is a greedy sweep V ← TV, which may meet `stop`, followed by
/// sweeps V ← T_π V of its greedy policy π (Puterman and Shin, *Management Science* 24, 1978; Puterman, 6.5): 1 in the first
/// round. If the changes of a round's n sweeps have fallen by γⁿ, as those of n greedy sweeps do, π was worth its evaluation, and
/// the next round has twice as many, up to `partial_sweeps`; else half as many. No round has more than `stop` takes if the changes go on
/// to fall as they fell since the round before.
///
/// The iteration converges, but ‖TV − V‖ may grow from round to round: while the value of a distant goal spreads by a
/// few states per round, states it has not reached fall further behind. So the loop blames rounding errors for a lack
/// of progress only if the changes are of that size.
///
/// # Errors
/// Errors of the backend.
pub fn modified_policy_iteration<B: Modify + ?Sized>(
    backend: &mut B,
    gamma: f64,
    stop: Stop,
    partial_sweeps: u32,
    limits: &Limits,
    follow: impl FnMut(&Run, &mut B) -> Result<ControlFlow<()>, B::Error>,
) -> Result<Run, B::Error> {
    // The most evaluation sweeps of the round, and the sweeps since the greedy sweep of the last one with its changes.
    let (mut most, mut last): (u32, Option<(u32, f64)>) = (1, None);
    let round = |backend: &mut B, left: u32| {
        let backups = backend.backup(stop, 1)?;
        let size = stop.size(backups.least, backups.greatest);
        if let Some((sweeps, before)) = last {
            let fell = size <= before * gamma.powf(sweeps.into());
            most = if fell { (2 * most).clamp(1, partial_sweeps) } else { most / 2 };
        }
        let needed = last.map_or(u32::MAX, |(sweeps, before)| sweeps_to(stop.bound(), size, before, sweeps));
        let partial = most.min(needed).min(left.saturating_sub(backups.sweeps));
        last = Some((partial + backups.sweeps, size));
        let ends = stop.is_met(backups.least, backups.greatest) || partial == 0;
        // No residual is below 0, so all the sweeps are done.
        let partial = if ends { 0 } else { backend.evaluate(0.0, partial)?.sweeps };
        Ok((backups, partial))
    };
    let stalled = |backend: &mut B, idle_rounds: u32, size: f64| {
        let unit = backend.unit();
        may_be_rounding(backend, unit, idle_rounds, size)
    };
    greedy_rounds(backend, stop, limits, stalled, follow, round)
}

/// Sweeps until changes of `size` are below `bound` if they fall as in the last `sweeps` sweeps, from `before`; the greatest number
/// if they do not fall.
fn sweeps_to(bound: f64, size: f64, before: f64, sweeps: u32) -> u32 {
    let count = f64::from(sweeps) * (bound / size).ln() / (size / before).ln();
    // Not for NaN, either.
    if size < before { count.ceil() as u32 } else { u32::MAX }
}

/// Runs rounds of greedy sweeps until `stop` is met, `stalled` reports rounding errors, a limit is reached, or
/// `follow` breaks.
///
/// `round` takes the number of sweeps left. It returns the outcome of its greedy sweeps and the number of evaluation
/// sweeps after them. `stalled` takes the number of rounds without progress and the size of the last changes.
///
fn greedy_rounds<B: GreedySweeps + ?Sized>(
    backend: &mut B,
    stop: Stop,
    limits: &Limits,
    mut stalled: impl FnMut(&mut B, u32, f64) -> Result<bool, B::Error>,
    mut follow: impl FnMut(&Run, &mut B) -> Result<ControlFlow<()>, B::Error>,
    mut round: impl FnMut(&mut B, u32) -> Result<(Backups, u32), B::Error>,
) -> Result<Run, B::Error> {
    let mut run = Timed::start();
    let mut left = limits.max_sweeps;
    // Smallest change in this phase, and rounds since it was reached.
    let (mut smallest, mut idle_rounds, mut phase) = (f64::INFINITY, 0, backend.phase());
    while left > 0 {
        let (backups, evaluation_sweeps) = round(backend, left)?;
        let now = backend.phase();
        if now != phase {
            (phase, smallest) = (now, f64::INFINITY);
        }
        left = left.saturating_sub(backups.sweeps + evaluation_sweeps);
        run.push(backups.sweeps + evaluation_sweeps, backups.residual(), None);
        if stop.is_met(backups.least, backups.greatest) {
            return Ok(run.end(Status::Solved));
        }
        if backups.fixed {
            return Ok(run.end(Status::Stalled));
        }
        let size = stop.size(backups.least, backups.greatest);
        idle_rounds = if size < smallest { 0 } else { idle_rounds + 1 };
        smallest = smallest.min(size);
        // The observer comes first: a round cut short by an interrupt may look stalled.
        if follow(&run.run, backend)?.is_break() {
            return Ok(run.end(Status::Interrupted));
        }
        if stalled(backend, idle_rounds, size)? {
            return Ok(run.end(Status::Stalled));
        }
    }
    Ok(run.end(Status::SweepLimit))
}

/// Period in rounds without progress after which changes are tested for rounding errors, where ‖ΔV‖∞ may grow without
/// them.
const PATIENCE: u32 = 32;

/// Changes of up to this many unit roundoffs of ‖V‖∞ count as rounding errors.
const NOISE: f64 = 1024.0;

/// Whether `size`, after `idle_rounds` rounds without progress, is of the magnitude of rounding errors. Tests only
/// every [`PATIENCE`] rounds.
fn may_be_rounding<B: GreedySweeps + ?Sized>(
    backend: &mut B,
    unit: f64,
    idle_rounds: u32,
    size: f64,
) -> Result<bool, B::Error> {
    if idle_rounds == 0 || !idle_rounds.is_multiple_of(PATIENCE) {
        return Ok(false);
    }
    Ok(size <= NOISE * unit * backend.magnitude()?)
}

/// A run and its clock.
struct Timed {
    run: Run,
    start: Instant,
}

impl Timed {
    /// Starts the clock.
    fn start() -> Self {
        Self { run: Run::default(), start: Instant::now() }
    }

    fn push(&mut self, sweeps: u32, residual: f64, changed: Option<u64>) {
        let (round, elapsed) = (self.run.rounds.len() as u32 + 1, self.start.elapsed());
        self.run.rounds.push(Round { round, sweeps, residual, changed, seconds: elapsed.as_secs_f64() });
        self.run.elapsed = elapsed;
    }

    fn end(self, status: Status) -> Run {
        Run { status, elapsed: self.start.elapsed(), ..self.run }
    }
}
