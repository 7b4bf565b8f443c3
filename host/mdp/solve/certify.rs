//! Runs of a loop, with ever tighter stopping rules, until a certificate proves V.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::loops::{PARTIAL_SWEEPS, modified_policy_iteration, policy_iteration, value_iteration};
use super::session::{Next, Start, Watch};
use crate::backend::{Attempt, State, Stop, change_bound};
use crate::backends::dynamic::Dynamic;
use crate::certificate::{Certificate, certify_greedy, confine};
use crate::checkpoint::Checkpoint;
use crate::error::SolveError;
use crate::model::Mdp;
use crate::options::{Limits, Method, Target};
use crate::solution::{Run, Status};
use crate::team::Team;

/// Result of [`until_certified`].
pub(super) struct Certified {
    pub values: Vec<f64>,
    pub policy: Vec<u32>,
    /// All attempts as one run, after the earlier rounds.
    pub run: Run,
    pub certificate: Certificate,
    /// Time spent on certificates.
    pub certify: Duration,
}

/// Starts at the V of `start`, runs the loop and certifies V, until the certificate proves ‖V − V\*‖∞ ≤ ε or the loop
/// reaches a limit. Limits count the sweeps and policies of all attempts, and the earlier ones.
pub(super) fn until_certified(
    backend: &mut Dynamic,
    mdp: &Mdp,
    team: &Team,
    method: Method,
    start: Start,
    limits: &Limits,
    watch: &mut Watch,
) -> Result<Certified, SolveError> {
    let target = limits.target;
    backend.state().reset(start.values)?;
    backend.state().set_in_round(start.in_round);
    if let (Dynamic::Policies(backend), true) = (&mut *backend, start.goes_on()) {
        // Not the first policy, which V has left behind.
        backend.improve(limits.tie)?;
    }
    // The policy of policy iteration is no part of a checkpoint.
    let mut solved = start.solved && !matches!(backend, Dynamic::Policies(_));
    let (mut attempts, mut done, mut certify) =
        (Attempts::new(target, start.attempt), start.earlier.clone(), Duration::ZERO);
    let (mut values, greedy, mut certificate) = loop {
        let attempt = attempts.current();
        let checkpoint = |run: &Run, state: &mut dyn State<Error = SolveError>, values: Vec<f64>| {
            let mut all = done.clone();
            all.append(run.clone());
            let (in_f64, in_round) = (state.phase() > 0, state.in_round());
            Checkpoint { method, in_f64, target, attempt, in_round, values, run: all }
        };
        let (stop, theta) = (stop(mdp, target, attempt), theta(mdp, target, attempt.epsilon_fraction));
        let mut follow = |run: &Run, state: &mut dyn State<Error = SolveError>| {
            let Some(round) = run.rounds.last() else { return Ok(ControlFlow::Continue(())) };
            let next = (watch.follow)(round)?;
            if let (Next::Keep, Some(keep)) = (next, &mut watch.keep) {
                let values = state.values()?;
                keep(checkpoint(run, state, values))?;
            }
            Ok(if next == Next::Stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let limits = done.left(method, limits);
        let run = match std::mem::take(&mut solved) {
            true => Run { status: Status::Solved, ..Run::default() },
            false => run_once(backend, mdp.gamma(), stop, theta, &limits, &mut follow)?,
        };
        let begun = Instant::now();
        let mut values = backend.state().values()?;
        let mut reached = watch.keep.is_some().then(|| checkpoint(&run, backend.state(), values.clone()));
        if let (true, Some(keep)) = (run.status != Status::Solved, &mut watch.keep) {
            // No attempt follows this one.
            reached.take().map_or(Ok(()), keep)?;
        }
        let status = run.status;
        done.append(run);
        let (certificate, greedy) = certify_greedy(mdp, team, &mut values, target)?;
        certify += begun.elapsed();
        if !attempts.again(status, &certificate) {
            if let (Some(reached), Some(keep)) = (reached, &mut watch.keep) {
                keep(reached)?;
            }
            break (values, greedy, certificate);
        }
    };
    let state = backend.state();
    let implicit = state.policy_is_implicit() || done.rounds.len() == start.earlier.rounds.len();
    let policy = if implicit { greedy } else { state.policy()? };
    done.status = ended(done.status, &certificate, target);
    if !matches!(done.status, Status::Solved | Status::Overflow) {
        let begun = Instant::now();
        certificate = confine(mdp, team, &mut values, certificate)?;
        done.status = ended(done.status, &certificate, target);
        certify += begun.elapsed();
    }
    Ok(Certified { values, policy, run: done, certificate, certify })
}

/// Called after each round of [`run_once`], with the record so far and the backend.
pub type Follow<'a> =
    &'a mut dyn FnMut(&Run, &mut dyn State<Error = SolveError>) -> Result<ControlFlow<()>, SolveError>;

/// Runs the loop of the backend's method once: greedy sweeps until `stop`, or evaluations of each policy to `theta`.
///
/// # Errors
/// Errors of the backend and of `follow`.
pub fn run_once(
    backend: &mut Dynamic,
    gamma: f64,
    stop: Stop,
    theta: f64,
    limits: &Limits,
    follow: Follow,
) -> Result<Run, SolveError> {
    match backend {
        Dynamic::Values(backend) => value_iteration(&mut **backend, stop, limits, |run, backend| follow(run, backend)),
        Dynamic::Policies(backend) => {
            policy_iteration(&mut **backend, theta, limits, |run, backend| follow(run, backend))
        }
        Dynamic::Modified(backend) => {
            let (backend, most) = (&mut **backend, PARTIAL_SWEEPS);
            modified_policy_iteration(backend, gamma, stop, most, limits, |run, backend| follow(run, backend))
        }
    }
}

/// The status of a run that ended with this status of its loop and this certificate.
pub fn ended(status: Status, certificate: &Certificate, target: Target) -> Status {
    match (status, target) {
        (Status::Interrupted, _) => Status::Interrupted,
        _ if !certificate.bellman_residual.is_finite() => Status::Overflow,
        (status, Target::Theta(_)) => status,
        (_, Target::Epsilon(epsilon)) if certificate.proves(epsilon) => Status::Solved,
        (Status::Solved, _) => Status::Stalled,
        (status, _) => status,
    }
}

/// Smallest fraction of ε in the stopping rule.
const MIN_EPSILON_FRACTION: f64 = 1.0 / 256.0;

/// Attempts to prove ε, which stop at ε multiplied by 1, 1/4, 1/16, …: the certificate includes rounding errors, so a
/// run that stops at ε may miss it. Without ε there is one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    target: Target,
    current: Attempt,
}

impl Attempts {
    /// The attempts from `first` on.
    pub fn new(target: Target, first: Attempt) -> Self {
        Self { target, current: first }
    }

    /// The attempt to make.
    pub fn current(&self) -> Attempt {
        self.current
    }

    /// Goes on to the next attempt, after one whose loop ended with `status` and V with `certificate`. Returns false if it was the last:
    /// it reached a limit, proved ε, cannot be proved, or was the tightest.
    pub fn again(&mut self, status: Status, certificate: &Certificate) -> bool {
        let Some(epsilon) = self.target.epsilon() else { return false };
        // The stopping rule guarantees this residual unless the shift adds to it.
        let expected = epsilon * self.current.epsilon_fraction * (1.0 - certificate.contraction);
        self.current.by_span &= certificate.bellman_residual <= expected;
        self.current.epsilon_fraction /= 4.0;
        let ended = status != Status::Solved || certificate.bound.is_none() || certificate.proves(epsilon);
        !ended && self.current.epsilon_fraction > MIN_EPSILON_FRACTION
    }
}

/// The stopping rule for greedy sweeps.
pub fn stop(mdp: &Mdp, target: Target, attempt: Attempt) -> Stop {
    match target {
        Target::Theta(theta) => Stop::Change(theta),
        Target::Epsilon(epsilon) => attempt.stop(mdp.gamma(), epsilon, mdp.never_terminates()),
    }
}

/// The θ for policy evaluations, with ε multiplied by `epsilon_fraction` ≤ 1.
fn theta(mdp: &Mdp, target: Target, epsilon_fraction: f64) -> f64 {
    match target {
        Target::Theta(theta) => theta,
        Target::Epsilon(epsilon) => change_bound(mdp.gamma(), epsilon_fraction * epsilon),
    }
}
