//! Stopping criteria and progress of a run.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::search::Interval;
use crate::pomdp::options::{Limits, MEMORY};
use crate::pomdp::solution::{Round, Status};

/// Receives the progress of a run repeatedly; stops the run by breaking.
pub type Observer<'a> = &'a mut dyn FnMut(&Round) -> ControlFlow<()>;

/// Least ratio of the times of consecutive recorded rounds.
const SPACING: f64 = 1.05;

/// Time after the limit that final work may take: this fraction of the limit, and at least [`LEAST_OVERTIME`].
const OVERTIME: f64 = 0.03;
/// Least time for final work.
const LEAST_OVERTIME: Duration = Duration::from_millis(300);

/// The time limit plus the time for final work.
#[must_use]
pub fn overtime(time: Duration) -> Duration {
    time + time.mul_f64(OVERTIME).max(LEAST_OVERTIME)
}

/// State of a run in terms of the maximisation problem.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Bounds of V\*(b₀).
    pub bounds: Interval,
    /// Number of backups.
    pub backups: u64,
    /// |B|.
    pub beliefs: usize,
    /// |Γ|.
    pub vectors: usize,
    /// Bytes of beliefs and vectors.
    pub bytes: u64,
}

/// Checks the limits of a run and records its progress.
pub struct Clock<'a> {
    start: Instant,
    limits: Limits,
    observe: Observer<'a>,
    /// 1 for rewards, −1 for costs.
    sign: f64,
    /// Number of expansions.
    pub iterations: u64,
    /// Recorded rounds.
    pub rounds: Vec<Round>,
    /// Why the run ended; `None` while it runs.
    pub status: Option<Status>,
    /// State at the last check.
    last: Standing,
}

impl<'a> Clock<'a> {
    /// Starts the clock of a run that began at `start`, with initial bounds on V\*(b₀).
    pub fn new(start: Instant, limits: Limits, sign: f64, observe: Observer<'a>, bounds: Interval) -> Self {
        let last = Standing { bounds, backups: 0, beliefs: 1, vectors: 1, bytes: 0 };
        Self { start, limits, observe, sign, iterations: 0, rounds: Vec::new(), status: None, last }
    }

    /// Memory limit of beliefs and vectors, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.limits.memory.unwrap_or(MEMORY)
    }

    /// Checks all limits. Returns whether the run is over.
    pub fn over(&mut self, standing: Standing) -> bool {
        if self.status.is_some() {
            return true;
        }
        // Every upper bound stays valid; rounding may make a later one slightly higher.
        let upper = standing.bounds.upper.min(self.last.bounds.upper);
        self.last = Standing { bounds: Interval { upper, ..standing.bounds }, ..standing };
        let Standing { bounds, bytes, .. } = self.last;
        let round = self.round();
        let elapsed = Duration::from_secs_f64(round.seconds);
        let limits = &self.limits;
        self.status = if round.gap() <= limits.gap {
            Some(Status::Gap)
        } else if limits.target.is_some_and(|target| bounds.lower >= self.sign * target) {
            Some(Status::Target)
        } else if limits.time.is_some_and(|time| elapsed >= time) {
            Some(Status::Time)
        } else if bytes >= limits.memory.unwrap_or(MEMORY) {
            Some(Status::Memory)
        } else if limits.iterations.is_some_and(|most| self.iterations >= most) {
            Some(Status::Iterations)
        } else if (self.observe)(&round).is_break() {
            Some(Status::Interrupted)
        } else {
            None
        };
        let due = self.rounds.last().is_none_or(|last| round.seconds > SPACING * last.seconds);
        if due || self.status.is_some() {
            self.rounds.push(round);
        }
        self.status.is_some()
    }

    /// Checks the time limit and the observer during an expansion. After `true` the run is over, and work in progress
    /// may stay unfinished.
    pub fn late(&mut self) -> bool {
        let round = self.round();
        let late = if matches!(self.status, Some(Status::Time | Status::Interrupted)) {
            return true;
        } else if self.limits.time.is_some_and(|time| round.seconds >= time.as_secs_f64()) {
            Status::Time
        } else if (self.observe)(&round).is_break() {
            Status::Interrupted
        } else {
            return false;
        };
        if self.status.is_none() {
            self.status = Some(late);
            self.rounds.push(round);
        }
        true
    }

    /// Whether final work exceeds its time: [`overtime`] of the time limit. Also `true` once the observer has stopped
    /// the run.
    pub fn overdue(&mut self) -> bool {
        let round = self.round();
        self.status == Some(Status::Interrupted)
            || self.limits.time.is_some_and(|time| round.seconds >= overtime(time).as_secs_f64())
            || (self.observe)(&round).is_break()
    }

    /// Ends the run because a launch was [stopped](super::Error::is_stop).
    pub fn stopped(&mut self) {
        if !self.late() {
            self.status.get_or_insert(Status::Interrupted);
        }
    }

    /// The state at the last check with the present time.
    fn round(&self) -> Round {
        let Standing { bounds, backups, beliefs, vectors, .. } = self.last;
        let (lower, upper) =
            if self.sign < 0.0 { (-bounds.upper, -bounds.lower) } else { (bounds.lower, bounds.upper) };
        let (seconds, iterations) = (self.start.elapsed().as_secs_f64(), self.iterations);
        Round { seconds, iterations, backups, beliefs, vectors, lower, upper }
    }

    /// Records the final state, after all work. Returns the status and the rounds.
    pub fn end(mut self, standing: Standing) -> (Option<Status>, Vec<Round>) {
        let last = self.rounds.pop();
        let status = self.status.take();
        self.limits = Limits {
            gap: f64::NEG_INFINITY,
            target: None,
            time: None,
            memory: Some(u64::MAX),
            iterations: Some(0),
            ..self.limits
        };
        self.over(standing);
        if let (Some(last), [.., end]) = (last, &mut self.rounds[..]) {
            // The final state keeps the time at which the limit was reached.
            end.seconds = last.seconds;
        }
        (status, self.rounds)
    }
}
