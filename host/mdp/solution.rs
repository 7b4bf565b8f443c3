//! Results of a solve.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::certificate::Certificate;
use super::model::Mdp;
use super::options::{Limits, Method, Precision, Target};
use super::team::Team;
use warpkov_common::ranks;
use warpkov_runtime::comm;

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The target was reached.
    Solved,
    /// The policy still changed after `max_policies` policies.
    PolicyLimit,
    /// The values still changed after `max_sweeps` sweeps.
    SweepLimit,
    /// Rounding errors, or actions within the tie margin, prevent further progress.
    Stalled,
    /// Values overflow the precision.
    Overflow,
    /// The observer stopped the run.
    #[default]
    Interrupted,
}

/// A round: an evaluation and an improvement, or a number of greedy sweeps.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Round {
    /// Number of the round, from 1.
    pub round: u32,
    /// Number of sweeps.
    pub sweeps: u32,
    /// ‖ΔV‖∞ of the last sweep.
    pub residual: f64,
    /// Number of states whose action changed in the improvement; `None` for greedy sweeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
    /// Seconds since the start of the run.
    pub seconds: f64,
}

/// Record of a solver loop.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// How the run ended.
    pub status: Status,
    /// All rounds in order.
    pub rounds: Vec<Round>,
    /// Time in the loop, excluding the transfer of the model and of the results.
    pub elapsed: Duration,
}

impl Run {
    /// Total number of sweeps.
    pub fn sweeps(&self) -> u64 {
        self.rounds.iter().map(|round| u64::from(round.sweeps)).sum()
    }

    /// Sweeps outside of the evaluation of policies.
    pub(super) fn greedy_sweeps(&self) -> u32 {
        let sweeps = self.rounds.iter().filter(|round| round.changed.is_none()).map(|round| u64::from(round.sweeps));
        u32::try_from(sweeps.sum::<u64>()).unwrap_or(u32::MAX)
    }

    /// What this run leaves of the limits. Where a method has policies, the limit of sweeps is that of one policy.
    pub(super) fn left(&self, method: Method, limits: &Limits) -> Limits {
        let policies = self.rounds.iter().filter(|round| round.changed.is_some()).count() as u32;
        let max_sweeps = match method.has_policies() {
            true => limits.max_sweeps,
            false => limits.max_sweeps.saturating_sub(self.greedy_sweeps()),
        };
        Limits { max_sweeps, max_policies: limits.max_policies.saturating_sub(policies), ..*limits }
    }

    /// Appends a later run on the same problem.
    pub fn append(&mut self, next: Self) {
        let (count, seconds) = (self.rounds.len() as u32, self.elapsed.as_secs_f64());
        let shifted = |round: Round| Round { round: count + round.round, seconds: seconds + round.seconds, ..round };
        self.rounds.extend(next.rounds.into_iter().map(shifted));
        self.status = next.status;
        self.elapsed += next.elapsed;
    }
}

/// Times of a solve outside its loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phases {
    /// Reading and validating the model; set by the caller.
    pub read: Duration,
    /// Analysis of the model on the host: state order, method, layout.
    pub prepare: Duration,
    /// Start of the GPU, concurrent with `prepare`.
    pub start: Duration,
    /// Conversion of the model to the layout and transfer to the device.
    pub upload: Duration,
    /// Certificate and greedy policy.
    pub certify: Duration,
}

/// The part of a model on one of several ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankWork {
    /// Number of its states.
    pub states: u64,
    /// Number of its ghosts: states of other ranks whose values it reads.
    pub ghosts: u64,
    /// Number of its transitions.
    pub transitions: u64,
    /// Whether all states of other ranks are ghosts, on every rank: the exchange is an all-gather.
    pub all_gather: bool,
}

impl RankWork {
    /// The part that a model is; `None` for a whole model.
    #[must_use]
    pub fn new(mdp: &Mdp) -> Option<Self> {
        mdp.part().map(|part| Self {
            states: part.own.len() as u64,
            ghosts: part.ghosts() as u64,
            transitions: if part.works { mdp.transitions().nnz() as u64 } else { 0 },
            all_gather: part.all_gather,
        })
    }
}

/// How the `ranks` exchange V: `halo`, the values that others need, or `all-gather`, all values. `None` for one rank.
#[must_use]
pub fn exchange(ranks: &[RankShare]) -> Option<&'static str> {
    ranks.first().map(|rank| if rank.work.all_gather { "all-gather" } else { "halo" })
}

/// The size of a whole model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// S, the number of states.
    pub states: u64,
    /// The most actions of a state.
    pub actions: u32,
    /// The number of state-action pairs.
    pub rows: u64,
    /// The number of nonzeros of P.
    pub transitions: u64,
}

impl Size {
    /// The size of the model whose parts the ranks of `team` have.
    ///
    /// # Errors
    /// If a rank fails.
    pub(super) fn new(mdp: &Mdp, team: &Team) -> Result<Self, comm::Error> {
        let count = |own: usize| team.count(if team.works() { own as u64 } else { 0 });
        let mut actions = [if team.works() { f64::from(mdp.choices().max()) } else { 0.0 }];
        team.max(&mut actions)?;
        Ok(Self {
            states: mdp.part().map_or(mdp.states().into(), |part| part.all),
            actions: actions[0] as u32,
            rows: count(mdp.rows())?,
            transitions: count(mdp.transitions().nnz())?,
        })
    }
}

/// The share of one of several ranks.
pub type RankShare = ranks::RankShare<RankWork>;

/// Result of a solve.
#[derive(Clone, Debug)]
pub struct Solution {
    /// V, one entry per state; on one of several ranks, of its own states.
    pub values: Vec<f64>,
    /// π, one action per state; [`NO_ACTION`](super::model::NO_ACTION) for states without actions.
    pub policy: Vec<u32>,
    /// The number of the first of these states; 0 unless the model is [in parts](super::solve::Solve::in_parts).
    pub first: u64,
    /// The size of the model.
    pub size: Size,
    /// Record of the loop.
    pub run: Run,
    /// Guarantee on `values`.
    pub certificate: Certificate,
    /// The method used.
    pub method: Method,
    /// The precision used.
    pub precision: Precision,
    /// The device used: "NVIDIA H200 (cuda:0)", "16 CPU cores".
    pub device: String,
    /// Automatic choices, with reasons.
    pub notes: Vec<String>,
    /// Time between reading the model and the start of the loop.
    pub setup: Duration,
    /// Times outside the loop.
    pub phases: Phases,
    /// The shares of the ranks on rank 0, if there are several.
    pub ranks: Vec<RankShare>,
}

impl Solution {
    /// Whether the target was reached. For ε, the certificate proves ‖V − V*‖∞ ≤ ε. For θ, the run ended with status
    /// [`Status::Solved`]: its last sweep met θ and V is finite.
    pub fn converged(&self, limits: &Limits) -> bool {
        match limits.target {
            Target::Epsilon(epsilon) => self.certificate.proves(epsilon),
            Target::Theta(_) => self.run.status == Status::Solved,
        }
    }
}
