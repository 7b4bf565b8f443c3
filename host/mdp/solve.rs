//! Policy iteration: the loop, written once for every backend.
//!
//! Algorithm 1 of the source: evaluate the policy by synchronous Jacobi sweeps until ‖Vₖ₊₁ − Vₖ‖∞ < θ, improve it
//! greedily, and stop when no state changes its action.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;

/// What policy iteration asks of a backend. A backend owns its copy of the model, V and π, and starts at V = 0, π = 0.
pub trait Backend {
    /// What can go wrong on this backend.
    type Error;

    /// Goes back to V = 0, π = 0.
    fn reset(&mut self) -> Result<(), Self::Error>;

    /// Jacobi sweeps V ← r^π + γ P^π V from the present V, until ‖ΔV‖∞ < `theta` or `max_sweeps` are done.
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Self::Error>;

    /// Greedy improvement. A state keeps its action unless another's Q-factor exceeds its own by more than `tie`; among
    /// those, the lowest-numbered action of the largest Q-factor wins. Returns the number of states that changed.
    fn improve(&mut self, tie: f64) -> Result<u64, Self::Error>;

    /// The present V, one entry per state.
    fn values(&mut self) -> Result<Vec<f64>, Self::Error>;

    /// The present π, one action per state.
    fn policy(&mut self) -> Result<Vec<u32>, Self::Error>;

    /// Bytes that a sweep of the last evaluated policy must move: each input read once, each output written once.
    fn sweep_bytes(&mut self) -> Result<u64, Self::Error>;
}

/// What one policy evaluation did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Jacobi sweeps done.
    pub sweeps: u32,
    /// ‖ΔV‖∞ of the last sweep.
    pub residual: f64,
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// θ: a policy is evaluated until ‖ΔV‖∞ < θ.
    pub theta: f64,
    /// K_max: sweeps per policy at most.
    pub max_sweeps: u32,
    /// Policies at most.
    pub max_policies: u32,
    /// ε of the tie-break: how much better an action must be to replace the present one.
    pub tie: f64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// No state changed its action: the policy is stable.
    Solved,
    /// `max_policies` were evaluated and the policy still changed.
    PolicyLimit,
    /// The observer asked to stop.
    Interrupted,
}

/// One round of evaluation and improvement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Round {
    /// Number of the policy, from 1.
    pub policy: u32,
    /// Jacobi sweeps of its evaluation.
    pub sweeps: u32,
    /// ‖ΔV‖∞ of the last sweep.
    pub residual: f64,
    /// States whose action changed in the improvement that followed.
    pub changed: u64,
    /// Seconds since the start of the run.
    pub seconds: f64,
}

/// What the loop returns.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub status: Status,
    /// Every round, in order.
    pub rounds: Vec<Round>,
    /// Time in the loop: the model was on the device already, and results were not yet read back.
    pub elapsed: Duration,
}

impl Run {
    /// Jacobi sweeps in all rounds.
    pub fn sweeps(&self) -> u64 {
        self.rounds.iter().map(|round| u64::from(round.sweeps)).sum()
    }
}

/// Runs policy iteration on `backend` until the policy is stable, a limit is met, or `observe` breaks.
///
/// # Errors
/// Those of the backend.
pub fn policy_iteration<B: Backend + ?Sized>(
    backend: &mut B,
    limits: &Limits,
    mut observe: impl FnMut(&Round) -> ControlFlow<()>,
) -> Result<Run, B::Error> {
    let start = Instant::now();
    let mut rounds = Vec::new();
    let mut status = Status::PolicyLimit;
    for policy in 1..=limits.max_policies {
        let evaluation = backend.evaluate(limits.theta, limits.max_sweeps)?;
        let changed = backend.improve(limits.tie)?;
        let round = Round {
            policy,
            sweeps: evaluation.sweeps,
            residual: evaluation.residual,
            changed,
            seconds: start.elapsed().as_secs_f64(),
        };
        rounds.push(round);
        if changed == 0 {
            status = Status::Solved;
            break;
        }
        if observe(&round).is_break() {
            status = Status::Interrupted;
            break;
        }
    }
    Ok(Run { status, rounds, elapsed: start.elapsed() })
}
