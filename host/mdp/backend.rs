//! Traits between the solver loops and the backends: sweeps, policy evaluation and policy improvement.
//!
//! Backends maximise. Each backend owns its copy of the model, V and π, and starts at V = 0 with the first action of
//! every state.

use std::time::Duration;

use warpkov_kernels::mdp::matrix_free::Measured;

use warpkov_runtime::comm::{Communicator, Error as CommError};

/// State common to all backends: V and π.
pub trait State {
    /// Error of the backend.
    type Error;

    /// Resets π to the first action of every state, and V to `initial` (one value per state) or 0.
    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Self::Error>;

    /// V, one entry per state, with the ghosts of a part.
    fn values(&mut self) -> Result<Vec<f64>, Self::Error>;

    /// ‖V‖∞, over all ranks.
    fn magnitude(&mut self) -> Result<f64, Self::Error> {
        Ok(self.values()?.into_iter().map(f64::abs).fold(0.0, f64::max))
    }

    /// π, one action per state; [`NO_ACTION`](super::model::NO_ACTION) for states without actions.
    fn policy(&mut self) -> Result<Vec<u32>, Self::Error>;

    /// Whether π is the greedy policy of V, which the host computes on demand. [`policy`](Self::policy) then recomputes
    /// it on every call.
    fn policy_is_implicit(&self) -> bool {
        false
    }

    /// Number of times V has changed its floating-point type, of which the first is f32. Residuals of different phases are
    /// not comparable.
    fn phase(&self) -> u32 {
        0
    }

    /// What the next sweeps depend on beside V; a checkpoint keeps it.
    fn in_round(&self) -> InRound {
        InRound::START
    }

    /// Goes on from there.
    fn set_in_round(&mut self, _state: InRound) {}

    /// Minimum memory traffic in bytes of a sweep like the last one: each input read once, each output written once.
    fn sweep_bytes(&mut self) -> Result<u64, Self::Error>;
}

/// What the next Gauss-Seidel sweeps depend on beside V. A round that is cut short goes on later as if it had not been.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InRound {
    /// The span of the changes at the last shift of V, which decides on the next shift; infinite if there was none.
    pub shift_span: f64,
    /// Sweeps of the round so far.
    pub sweeps: u32,
    /// Whether the next sweep goes backward.
    pub backward: bool,
    /// ‖ΔV‖∞ of a sweep below which a Jacobi sweep tests the stop; infinite for the bound of the stop.
    pub trial: f64,
}

impl InRound {
    /// Before the first sweep.
    pub const START: Self = Self { shift_span: f64::INFINITY, sweeps: 0, backward: false, trial: f64::INFINITY };
}

/// Operations for policy iteration.
pub trait Evaluate: State {
    /// Jacobi sweeps V ← r^π + γ P^π V from the current V, until ‖ΔV‖∞ < `theta` or after `max_sweeps` sweeps.
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Self::Error>;

    /// Greedy improvement. A state changes its action only if another action's Q-factor exceeds that of its own by more
    /// than `tie`. It then takes the action with the largest Q-factor, the lowest-numbered one of equals. Returns the
    /// number of states that changed.
    fn improve(&mut self, tie: f64) -> Result<u64, Self::Error>;

    /// Upper bound on ‖TV − V‖∞ of the V that the last evaluation began with; infinite if it does not know one. If it is below
    /// `theta`, the evaluation leaves V as it is.
    fn bellman_residual(&self) -> f64 {
        f64::INFINITY
    }
}

/// Value iteration sweeps between two calls of the observer, where they are quick.
pub const SWEEPS_PER_ROUND: u32 = 128;

/// Operations for value iteration.
pub trait GreedySweeps: State {
    /// Greedy sweeps from the current V until `stop` is met, a sweep changes nothing, or `max_sweeps` ≥ 1 sweeps are
    /// done. Afterwards π is greedy with respect to V or to the V before the last sweep.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, Self::Error>;

    /// Most sweeps between two calls of the observer.
    fn sweeps_per_round(&self) -> u32 {
        SWEEPS_PER_ROUND
    }

    /// For backends whose ‖ΔV‖∞ may grow between sweeps although V approaches V*, as in Gauss-Seidel sweeps: the unit
    /// roundoff of V's type. `None` if only rounding errors can make ‖ΔV‖∞ grow.
    fn non_monotone_unit(&self) -> Option<f64> {
        None
    }
}

/// Operations for modified policy iteration.
pub trait Modify: GreedySweeps + Evaluate {
    /// Unit roundoff of V's type.
    fn unit(&self) -> f64;
}

/// Operations for [iterative refinement](super::backends::refine).
pub trait Correct: GreedySweeps {
    /// Replaces the rewards by `rewards`, one r(s, a) per row of the model, and keeps V. Returns false without any
    /// change if the layout shares stored rewards between rows.
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, Self::Error>;
}

/// Operations for certifying V on the device, for backends without a model on the host.
pub trait Certify: GreedySweeps {
    /// The residual TV − V of the current V, from a sweep over all states. V stays.
    fn residual(&mut self) -> Result<Residual, Self::Error>;
}

/// Extremes of TV − V and ‖V‖∞ in f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// Least and greatest TV − V over states with actions.
    pub range: [f64; 2],
    /// ‖V‖∞; infinite if V contains NaN.
    pub largest: f64,
}

/// The number of sweeps that take about a quarter of a second if `sweeps` took `seconds`.
#[must_use]
pub fn quarter_of_a_second(sweeps: u32, seconds: f64) -> f64 {
    0.25 * f64::from(sweeps) / seconds.max(1e-9)
}

/// The number of sweeps that take about a quarter of a second: observers are called that often, however slow a sweep is.
#[derive(Clone, Copy, Debug)]
pub struct Pace(u32);

impl Default for Pace {
    fn default() -> Self {
        Self(2)
    }
}

impl Pace {
    /// An even number of sweeps, 2 to [`SWEEPS_PER_ROUND`].
    #[must_use]
    pub fn sweeps(self) -> u32 {
        self.0
    }

    /// Takes note of the time of some sweeps. All ranks go at the pace of the slowest.
    ///
    /// # Errors
    /// A rank failed.
    pub fn took(&mut self, sweeps: u32, time: Duration, comm: &dyn Communicator) -> Result<(), CommError> {
        let mut seconds = [time.as_secs_f64()];
        comm.all_reduce_max(&mut seconds)?;
        let fit = quarter_of_a_second(sweeps, seconds[0]);
        self.0 = (fit.min(f64::from(SWEEPS_PER_ROUND)) as u32 & !1).max(2);
        Ok(())
    }
}

/// Operations for a model [as code](super::matrix_free).
pub trait Measure: GreedySweeps {
    /// What a certificate needs to know of the own states of this rank. Their greedy policy becomes π.
    fn measure(&mut self) -> Result<Measured, Self::Error>;

    /// Least and greatest ΔV of the last sweep.
    fn change(&self) -> [f64; 2];
}

/// Stopping rule for greedy sweeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// ‖ΔV‖∞ of a sweep is below this bound.
    Change(f64),
    /// The span max ΔV − min ΔV of a sweep is below this bound.
    Span(f64),
}

impl Stop {
    /// The bounded quantity, from the least and greatest ΔV of a sweep.
    #[must_use]
    pub fn size(self, least: f64, greatest: f64) -> f64 {
        match self {
            Self::Change(_) => least.abs().max(greatest.abs()),
            Self::Span(_) => greatest - least,
        }
    }

    /// The bound.
    #[must_use]
    pub fn bound(self) -> f64 {
        match self {
            Self::Change(bound) | Self::Span(bound) => bound,
        }
    }

    /// Whether a sweep with these least and greatest ΔV meets the rule.
    #[must_use]
    pub fn is_met(self, least: f64, greatest: f64) -> bool {
        self.size(least, greatest) < self.bound()
    }
}

/// The ‖ΔV‖∞ that guarantees ε, times a safety factor of 0.9.
pub(super) fn change_bound(gamma: f64, epsilon: f64) -> f64 {
    0.9 * epsilon * (1.0 - gamma)
}

/// How an attempt to prove ε stops; if the proof fails, a tighter one follows.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Multiplies ε; at most 1.
    pub epsilon_fraction: f64,
    /// Whether the span may prove ε in a model that never ends. The shift of V by a constant changes TV − V by different
    /// amounts in states whose rows have different sums. If that costs more than ε, the next attempt makes the shift
    /// small: it stops at ‖ΔV‖∞.
    pub by_span: bool,
}

impl Attempt {
    /// The first attempt.
    pub const FIRST: Self = Self { epsilon_fraction: 1.0, by_span: true };

    /// The stopping rule that guarantees ε. If the process never ends, the span may be twice `change_bound`, because V
    /// is shifted to the middle of the span.
    pub fn stop(self, gamma: f64, epsilon: f64, never_ends: bool) -> Stop {
        let epsilon = self.epsilon_fraction * epsilon;
        match never_ends && self.by_span {
            true => Stop::Span(2.0 * change_bound(gamma, epsilon)),
            false => Stop::Change(change_bound(gamma, epsilon)),
        }
    }
}

/// Outcome of greedy sweeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backups {
    /// Number of sweeps.
    pub sweeps: u32,
    /// Least ΔV in the last sweep, over states with actions.
    pub least: f64,
    /// Greatest ΔV in the last sweep, over states with actions.
    pub greatest: f64,
    /// The last sweep changed nothing, so V is a fixed point of the computed operator.
    pub fixed: bool,
}

impl Backups {
    /// ‖ΔV‖∞ of the last sweep.
    #[must_use]
    pub fn residual(&self) -> f64 {
        self.least.abs().max(self.greatest.abs())
    }
}

/// Outcome of a policy evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Number of Jacobi sweeps.
    ///
    pub sweeps: u32,
    /// ‖ΔV‖∞ of the last sweep.
    pub residual: f64,
}
