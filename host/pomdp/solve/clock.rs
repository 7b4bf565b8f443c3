//! When a run ends, and who watches it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::search::Interval;
use crate::pomdp::options::{Limits, MEMORY};
use crate::pomdp::solution::{Round, Status};

/// Called again and again with where the run stands; breaks to stop it.
pub type Observer<'a> = &'a mut dyn FnMut(&Round) -> ControlFlow<()>;

/// How much later than the last recorded round the next one is.
const SPACING: f64 = 1.05;

/// The part of the time that may be spent after its end, and as much at least.
const AFTER: f64 = 0.03;
const LEAST: Duration = Duration::from_millis(300);

/// A limit of time, and what may be spent after it.
#[must_use]
pub fn overtime(time: Duration) -> Duration {
    time + time.mul_f64(AFTER).max(LEAST)
}

/// Where a run stands, in what is maximised.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Bounds of V\*(b₀).
    pub bounds: Interval,
    /// Backups of beliefs.
    pub backups: u64,
    /// |B|.
    pub beliefs: usize,
    /// |Γ|.
    pub vectors: usize,
    /// Bytes of both.
    pub bytes: u64,
}

/// Looks at a run as it goes.
pub struct Clock<'a> {
    start: Instant,
    limits: Limits,
    observe: Observer<'a>,
    /// 1, or −1 where rewards are costs.
    sign: f64,
    /// Expansions done.
    pub iterations: u64,
    /// What was recorded.
    pub rounds: Vec<Round>,
    /// Why the run is over, once it is.
    pub status: Option<Status>,
    /// Where it stood at the last look.
    last: Standing,
}

impl<'a> Clock<'a> {
    /// A run that began at `start`, of which nothing is known but these bounds of V\*(b₀).
    pub fn new(start: Instant, limits: Limits, sign: f64, observe: Observer<'a>, bounds: Interval) -> Self {
        let last = Standing { bounds, backups: 0, beliefs: 1, vectors: 1, bytes: 0 };
        Self { start, limits, observe, sign, iterations: 0, rounds: Vec::new(), status: None, last }
    }

    /// Bytes that beliefs and vectors may take.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.limits.memory.unwrap_or(MEMORY)
    }

    /// Looks at the run; whether it is over.
    pub fn over(&mut self, standing: Standing) -> bool {
        if self.status.is_some() {
            return true;
        }
        // Both bounds hold from above, and rounding may leave the later one a little higher.
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

    /// Whether the time is over or the observer breaks, in the midst of work: what is begun may be left as it is. Once it is,
    /// the run is over.
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

    /// Whether what is done after the end takes long: longer than a part of the time, where that is limited. It is over at once where the
    /// observer breaks.
    pub fn overdue(&mut self) -> bool {
        let round = self.round();
        self.status == Some(Status::Interrupted)
            || self.limits.time.is_some_and(|time| round.seconds >= overtime(time).as_secs_f64())
            || (self.observe)(&round).is_break()
    }

    /// The run is over, as what it did was [given up](super::Error::is_stop).
    pub fn stopped(&mut self) {
        if !self.late() {
            self.status.get_or_insert(Status::Interrupted);
        }
    }

    /// Where the run stood at the last look, now.
    fn round(&self) -> Round {
        let Standing { bounds, backups, beliefs, vectors, .. } = self.last;
        let (lower, upper) =
            if self.sign < 0.0 { (-bounds.upper, -bounds.lower) } else { (bounds.lower, bounds.upper) };
        let (seconds, iterations) = (self.start.elapsed().as_secs_f64(), self.iterations);
        Round { seconds, iterations, backups, beliefs, vectors, lower, upper }
    }

    /// Records where the run ended, after the last work on it.
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
            // What was reached was reached then.
            end.seconds = last.seconds;
        }
        (status, self.rounds)
    }
}
