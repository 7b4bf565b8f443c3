//! What a solve returns.

use std::time::Duration;

use serde::Serialize;

use super::certificate::Certificate;
use super::options::{Limits, Method, Precision, Target};

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

    /// What came after this run on the same backend.
    pub(super) fn append(&mut self, next: Self) {
        let (count, seconds) = (self.rounds.len() as u32, self.elapsed.as_secs_f64());
        let shifted = |round: Round| Round { round: count + round.round, seconds: seconds + round.seconds, ..round };
        self.rounds.extend(next.rounds.into_iter().map(shifted));
        self.status = next.status;
        self.elapsed += next.elapsed;
    }
}

/// Where the time of a solve goes beside its loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phases {
    /// Reading and checking the model, if the caller says so.
    pub read: Duration,
    /// What the host finds out of the model: a better order of its states, a method, a layout.
    pub prepare: Duration,
    /// Until a GPU could be used; meanwhile the host prepares.
    pub start: Duration,
    /// Laying the model out, and bringing it to the device.
    pub upload: Duration,
    /// The certificate, and a policy.
    pub certify: Duration,
    /// Writing files, if the caller says so.
    pub write: Duration,
}

/// What a solve returns.
#[derive(Clone, Debug)]
pub struct Solution {
    /// V, one entry per state.
    pub values: Vec<f64>,
    /// π, one action per state.
    pub policy: Vec<u32>,
    /// How the loop went.
    pub run: Run,
    /// What is guaranteed about `values`.
    pub certificate: Certificate,
    /// The method that was used.
    pub method: Method,
    /// The precision that was used.
    pub precision: Precision,
    /// The device that was used, in words: "NVIDIA H200 (cuda:0)", "16 CPU cores".
    pub device: String,
    /// What was chosen on the user's behalf, and why.
    pub notes: Vec<String>,
    /// Time to convert the model and bring it to the device: of `phases`, what comes between reading and the loop.
    pub setup: Duration,
    /// Where the rest of the time went.
    pub phases: Phases,
}

impl Solution {
    /// Whether the target was met: ‖V − V*‖∞ ≤ ε is certain, or the run ended by itself, its last sweep met θ, and its
    /// values are finite (rewards near the end of a precision's range can overflow it).
    pub fn converged(&self, limits: &Limits) -> bool {
        match limits.target {
            Target::Epsilon(epsilon) => self.certificate.bound.is_some_and(|bound| bound <= epsilon),
            Target::Theta(_) => self.run.status == Status::Solved,
        }
    }
}
