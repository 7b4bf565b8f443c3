//! Backends behind one type, chosen at run time. One virtual call per batch of sweeps is negligible.

use std::cell::RefCell;
use std::rc::Rc;

use crate::backend::{
    Backups, Certify, Correct, Evaluate, Evaluation, GreedySweeps, InRound, Modify, Residual, State, Stop,
};
use crate::error::SolveError;
use crate::team::Team;
use warpkov_runtime::comm;

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
        Self::Values(Box::new(Unified::new(backend)))
    }

    /// Wraps a backend of policy iteration.
    pub fn policies<B: Evaluate + 'p>(backend: B) -> Self
    where
        SolveError: From<B::Error>,
    {
        Self::Policies(Box::new(Unified::new(backend)))
    }

    /// Wraps a backend of modified policy iteration.
    pub fn modified<B: Modify + 'p>(backend: B) -> Self
    where
        SolveError: From<B::Error>,
    {
        Self::Modified(Box::new(Unified::new(backend)))
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

/// The first failure of an exchange between devices, whose operations return errors of the device only.
pub type Failure = Rc<RefCell<Option<comm::Error>>>;

/// Converts the errors of a backend to [`SolveError`]. On one of several ranks, failed exchanges are errors, too, and
/// numbers of the rank become those of all ranks.
pub struct Unified<'c, B> {
    backend: B,
    team: Team<'c>,
    failure: Failure,
}

impl<B> Unified<'static, B> {
    /// A backend of one rank, or one that knows of its ranks.
    pub fn new(backend: B) -> Self {
        Self::in_team(backend, Team::alone(), Failure::default())
    }
}

impl<'c, B> Unified<'c, B> {
    /// The backend of one rank of `team`, whose exchanges put the first failure into `failure`.
    pub fn in_team(backend: B, team: Team<'c>, failure: Failure) -> Self {
        Self { backend, team, failure }
    }

    /// The result of the backend, unless an exchange failed.
    fn with<X, E>(&mut self, work: impl FnOnce(&mut B) -> Result<X, E>) -> Result<X, SolveError>
    where
        SolveError: From<E>,
    {
        let result = work(&mut self.backend)?;
        self.failure.borrow().clone().map_or(Ok(result), |error| Err(error.into()))
    }
}

impl<B: State> State for Unified<'_, B>
where
    SolveError: From<B::Error>,
{
    type Error = SolveError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), SolveError> {
        self.with(|backend| backend.reset(initial))
    }

    fn values(&mut self) -> Result<Vec<f64>, SolveError> {
        self.with(State::values)
    }

    fn magnitude(&mut self) -> Result<f64, SolveError> {
        let mut largest = [self.with(State::magnitude)?];
        self.team.max(&mut largest)?;
        Ok(largest[0])
    }

    fn policy(&mut self) -> Result<Vec<u32>, SolveError> {
        self.with(State::policy)
    }

    fn policy_is_implicit(&self) -> bool {
        self.backend.policy_is_implicit()
    }

    fn in_round(&self) -> InRound {
        self.backend.in_round()
    }

    fn set_in_round(&mut self, state: InRound) {
        self.backend.set_in_round(state);
    }

    fn phase(&self) -> u32 {
        self.backend.phase()
    }

    fn sweep_bytes(&mut self) -> Result<u64, SolveError> {
        self.with(State::sweep_bytes)
    }
}

impl<B: Evaluate> Evaluate for Unified<'_, B>
where
    SolveError: From<B::Error>,
{
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, SolveError> {
        self.with(|backend| backend.evaluate(theta, max_sweeps))
    }

    fn improve(&mut self, tie: f64) -> Result<u64, SolveError> {
        let changed = self.with(|backend| backend.improve(tie))?;
        Ok(self.team.count(changed)?)
    }

    fn bellman_residual(&self) -> f64 {
        self.backend.bellman_residual()
    }
}

impl<B: GreedySweeps> GreedySweeps for Unified<'_, B>
where
    SolveError: From<B::Error>,
{
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, SolveError> {
        self.with(|backend| backend.backup(stop, max_sweeps))
    }

    fn sweeps_per_round(&self) -> u32 {
        self.backend.sweeps_per_round()
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        self.backend.non_monotone_unit()
    }
}

impl<B: Modify> Modify for Unified<'_, B>
where
    SolveError: From<B::Error>,
{
    fn unit(&self) -> f64 {
        self.backend.unit()
    }
}

impl<B: Correct> Correct for Unified<'_, B>
where
    SolveError: From<B::Error>,
{
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, SolveError> {
        self.with(|backend| backend.set_rewards(rewards))
    }
}

impl<B: Certify> Certify for Unified<'_, B>
where
    SolveError: From<B::Error>,
{
    fn residual(&mut self) -> Result<Residual, SolveError> {
        let Residual { range, largest } = self.with(Certify::residual)?;
        let mut largest = [largest];
        self.team.max(&mut largest)?;
        Ok(Residual { range, largest: largest[0] })
    }
}
