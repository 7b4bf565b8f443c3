//! What solvers ask of a backend, as narrow traits: sweeps, evaluations and improvements of a model that it owns a copy of.
//!
//! Backends maximise. They own their copy of the model, V and π, and start at V = 0 and the first action of every state.

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
    fn policy_is_implicit(&self) -> bool {
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
pub trait GreedySweeps: State {
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
pub trait Modify: GreedySweeps + Evaluate {
    /// Unit roundoff of the type that V is in.
    fn unit(&self) -> f64;
}

/// What [refinement](super::refine) asks of a backend.
pub trait Correct: GreedySweeps {
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
