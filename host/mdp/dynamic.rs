//! Backends behind one type, chosen at run time. One virtual call per batch of sweeps is negligible.

use super::backend::{Backups, Correct, Evaluate, Evaluation, GreedySweeps, Modify, State, Stop};
use super::error::SolveError;

/// A backend, by the operations that its method needs.
pub enum Dynamic<'p> {
    /// Value iteration.
    Values(Box<dyn GreedySweeps<Error = SolveError> + 'p>),
    /// Policy iteration.
    Policies(Box<dyn Evaluate<Error = SolveError> + 'p>),
    /// Modified policy iteration.
    Modified(Box<dyn Modify<Error = SolveError> + 'p>),
}

impl<'p> Dynamic<'p> {
    /// Wraps a backend of value iteration.
    pub fn values<B: GreedySweeps + 'p>(backend: B) -> Self
    where
        SolveError: From<B::Error>,
    {
        Self::Values(Box::new(Unified(backend)))
    }

    /// Wraps a backend of policy iteration.
    pub fn policies<B: Evaluate + 'p>(backend: B) -> Self
    where
        SolveError: From<B::Error>,
    {
        Self::Policies(Box::new(Unified(backend)))
    }

    /// Wraps a backend of modified policy iteration.
    pub fn modified<B: Modify + 'p>(backend: B) -> Self
    where
        SolveError: From<B::Error>,
    {
        Self::Modified(Box::new(Unified(backend)))
    }

    /// V and π of the backend.
    pub fn state(&mut self) -> &mut (dyn State<Error = SolveError> + 'p) {
        match self {
            Self::Values(backend) => &mut **backend,
            Self::Policies(backend) => &mut **backend,
            Self::Modified(backend) => &mut **backend,
        }
    }
}

/// Converts the errors of a backend to [`SolveError`].
pub struct Unified<B>(pub B);

impl<B: State> State for Unified<B>
where
    SolveError: From<B::Error>,
{
    type Error = SolveError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), SolveError> {
        Ok(self.0.reset(initial)?)
    }

    fn values(&mut self) -> Result<Vec<f64>, SolveError> {
        Ok(self.0.values()?)
    }

    fn magnitude(&mut self) -> Result<f64, SolveError> {
        Ok(self.0.magnitude()?)
    }

    fn policy(&mut self) -> Result<Vec<u32>, SolveError> {
        Ok(self.0.policy()?)
    }

    fn policy_is_implicit(&self) -> bool {
        self.0.policy_is_implicit()
    }

    fn sweep_bytes(&mut self) -> Result<u64, SolveError> {
        Ok(self.0.sweep_bytes()?)
    }
}

impl<B: Evaluate> Evaluate for Unified<B>
where
    SolveError: From<B::Error>,
{
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, SolveError> {
        Ok(self.0.evaluate(theta, max_sweeps)?)
    }

    fn improve(&mut self, tie: f64) -> Result<u64, SolveError> {
        Ok(self.0.improve(tie)?)
    }
}

impl<B: GreedySweeps> GreedySweeps for Unified<B>
where
    SolveError: From<B::Error>,
{
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, SolveError> {
        Ok(self.0.backup(stop, max_sweeps)?)
    }

    fn phase(&self) -> u32 {
        self.0.phase()
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        self.0.non_monotone_unit()
    }
}

impl<B: Modify> Modify for Unified<B>
where
    SolveError: From<B::Error>,
{
    fn unit(&self) -> f64 {
        self.0.unit()
    }
}

impl<B: Correct> Correct for Unified<B>
where
    SolveError: From<B::Error>,
{
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, SolveError> {
        Ok(self.0.set_rewards(rewards)?)
    }
}
