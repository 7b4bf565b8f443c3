//! Stopping criteria and progress of a run.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::interval::Interval;
use super::team::Team;
use crate::checkpoint::Checkpoint;
use crate::options::{Gap, Limits, MEMORY};
use crate::solution::{Round, Status};

/// Receives the progress of a run repeatedly; stops the run by breaking.
pub type Observer<'a> = &'a mut dyn FnMut(&Round) -> ControlFlow<()>;

/// Least ratio of the times of consecutive recorded rounds.
const SPACING: f64 = 1.05;

/// Part of the time limit that the search may take, if a compaction of its vectors follows.
const SEARCH_SHARE: f64 = 0.8;

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

/// Largest number of checks between two questions to all ranks.
const MOST_CHECKS: u32 = 16;

/// Intended time between two questions to all ranks, in seconds.
const QUESTION_INTERVAL: f64 = 0.01;

/// Multiplications between two checks of the clock.
pub(super) const PRODUCTS_PER_CHECK: usize = 1 << 26;

/// Who decides whether the time is over, or the observer stops the run.
enum Pace {
    /// This rank.
    Own,
    /// All ranks, which check at the same points of the same search. Only some checks ask the other ranks: the first rank
    /// sets the number of checks up to the next question, so that all ask at the same check.
    Together {
        /// Checks that do not ask, up to the next question.
        left: u32,
        /// Checks between the last two questions.
        span: u32,
        /// The time of the last question.
        asked: Instant,
    },
}

/// Checks the limits of a run and records its progress.
pub struct Clock<'a> {
    start: Instant,
    /// Seconds before.
    before: f64,
    limits: Limits,
    /// Time at which the search ends.
    search_end: Option<Duration>,
    /// What a step of good play [earns](crate::options::earned).
    earned: f64,
    observe: Observer<'a>,
    /// 1 for rewards, −1 for costs.
    sign: f64,
    /// Number of expansions of this rank.
    pub iterations: u64,
    /// Number of expansions of the other ranks, if they have their own.
    elsewhere: u64,
    team: &'a Team<'a>,
    pace: Pace,
    /// Recorded rounds.
    pub rounds: Vec<Round>,
    /// Why the run ended; `None` while it runs.
    pub status: Option<Status>,
    /// State at the last check.
    last: Standing,
}

impl<'a> Clock<'a> {
    /// Starts the clock of a run that began at `start`, with initial bounds on V\*(b₀), and what a step of good play
    /// [earns](crate::options::earned). This rank decides about time.
    pub fn new(
        start: Instant,
        limits: Limits,
        sign: f64,
        observe: Observer<'a>,
        (bounds, earned): (Interval, f64),
        team: &'a Team<'a>,
    ) -> Self {
        let last = Standing { bounds, backups: 0, beliefs: 1, vectors: 1, bytes: 0 };
        let (rounds, status, pace) = (Vec::new(), None, Pace::Own);
        Self {
            start,
            before: 0.0,
            limits,
            search_end: limits.time,
            earned,
            observe,
            sign,
            iterations: 0,
            elsewhere: 0,
            team,
            pace,
            rounds,
            status,
            last,
        }
    }

    /// The ranks of the run.
    #[must_use]
    pub fn team(&self) -> &'a Team<'a> {
        self.team
    }

    /// Goes on from a checkpoint: its time, its expansions and its upper bound are those of this run. If ranks are to search
    /// `apart`, the first rank has done the expansions.
    pub fn resume(&mut self, checkpoint: &Checkpoint, apart: bool) {
        self.before = checkpoint.seconds;
        match apart && self.team.rank() > 0 {
            true => self.elsewhere = checkpoint.iterations,
            false => self.iterations = checkpoint.iterations,
        }
        self.last.bounds.upper = self.last.bounds.upper.min(checkpoint.upper);
        self.rounds.clone_from(&checkpoint.rounds);
    }

    /// Reserves a part of the time for work after the search.
    pub fn reserve(&mut self) {
        self.search_end = self.limits.time.map(|time| time.mul_f64(SEARCH_SHARE));
    }

    /// The time at which the search ends, if it is limited.
    #[must_use]
    pub fn end_of_search(&self) -> Option<Instant> {
        let left = self.search_end?.saturating_sub(Duration::try_from_secs_f64(self.before).ok()?);
        self.start.checked_add(left)
    }

    /// The seconds so far, with those before a checkpoint.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.before + self.start.elapsed().as_secs_f64()
    }

    /// The best upper bound so far.
    #[must_use]
    pub fn upper(&self) -> f64 {
        self.last.bounds.upper
    }

    /// The largest gap that ends the run, by the bounds at the last check.
    #[must_use]
    pub fn gap_limit(&self) -> f64 {
        let Interval { lower, upper } = self.last.bounds;
        self.limits.gap.limit(lower, upper, self.earned)
    }

    /// Number of expansions of all ranks.
    #[must_use]
    pub fn expansions(&self) -> u64 {
        self.iterations + self.elsewhere
    }

    /// From now on, all ranks run the same search and decide together.
    pub fn together(&mut self) {
        if !self.team.is_alone() {
            self.pace = Pace::Together { left: 0, span: 1, asked: Instant::now() };
        }
    }

    /// Ends the run on all ranks if time or an observer ended it on one of them. All ranks call it.
    pub fn share_status(&mut self) {
        if !self.team.is_alone() {
            let code = self.code();
            self.status = status_of(self.team.all(&[code]).into_iter().flatten());
        }
    }

    /// What ended the run on this rank, if that is time or the observer; for [`conclude`](Self::conclude).
    pub fn code(&mut self) -> u64 {
        match self.status {
            Some(status @ (Status::Time | Status::Interrupted)) => code(status),
            _ => self.pressed_here().map_or(0, code),
        }
    }

    /// Decides for all ranks after an exchange: `codes` are their [codes](Self::code), `ended` another reason to end, `elsewhere`
    /// the number of expansions of the other ranks, and `standing` the state of all.
    pub fn conclude(
        &mut self,
        codes: impl Iterator<Item = u64>,
        ended: Option<Status>,
        elsewhere: u64,
        standing: Standing,
    ) {
        self.elsewhere = elsewhere;
        self.note(standing);
        let round = self.round();
        let broken = self.team.is_broken().then_some(Status::Interrupted);
        self.status = broken.or(self.reached(&round)).or(status_of(codes)).or(ended);
        self.record(round);
    }

    /// The number of expansions up to which this rank may go on alone: its portion of those left to all ranks.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        let left = |most: u64| most.saturating_sub(self.iterations + self.elsewhere);
        self.limits.iterations.map_or(u64::MAX, |most| self.iterations + self.team.portion(left(most)))
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
        self.note(standing);
        let round = self.round();
        self.status = self.reached(&round).or_else(|| self.pressed());
        self.record(round);
        self.status.is_some()
    }

    fn note(&mut self, standing: Standing) {
        // Every upper bound stays valid; rounding may make a later one slightly higher.
        let upper = standing.bounds.upper.min(self.last.bounds.upper);
        self.last = Standing { bounds: Interval { upper, ..standing.bounds }, ..standing };
    }

    fn record(&mut self, round: Round) {
        let due = self.rounds.last().is_none_or(|last| round.seconds > SPACING * last.seconds);
        if due || self.status.is_some() {
            self.rounds.push(round);
        }
    }

    /// The limit that the state at the last check reaches, except time.
    fn reached(&self, round: &Round) -> Option<Status> {
        let (Standing { bounds, bytes, .. }, limits) = (self.last, &self.limits);
        if round.gap() <= self.gap_limit() {
            Some(Status::Gap)
        } else if limits.target.is_some_and(|target| bounds.lower >= self.sign * target) {
            Some(Status::Target)
        } else if bytes >= limits.memory.unwrap_or(MEMORY) {
            Some(Status::Memory)
        } else if limits.iterations.is_some_and(|most| round.iterations >= most) {
            Some(Status::Iterations)
        } else {
            None
        }
    }

    /// Whether time is over or the observer stops the run, for this rank or, if they decide together, for all.
    fn pressed(&mut self) -> Option<Status> {
        let Pace::Together { left, span, asked } = &mut self.pace else { return self.pressed_here() };
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let faster = QUESTION_INTERVAL / asked.elapsed().as_secs_f64().max(1e-6);
        let next = (f64::from(*span) * faster).clamp(1.0, f64::from(MOST_CHECKS.min(2 * *span))) as u32;
        let own = self.pressed_here().map_or(0, code);
        let all = self.team.all(&[own, next.into()]);
        let next = all.first().map_or(1, |first| first[1] as u32);
        self.pace = Pace::Together { left: next - 1, span: next, asked: Instant::now() };
        if self.team.is_broken() { Some(Status::Interrupted) } else { status_of(all.iter().map(|rank| rank[0])) }
    }

    fn pressed_here(&mut self) -> Option<Status> {
        let round = self.round();
        if self.team.is_broken() {
            Some(Status::Interrupted)
        } else if self.search_end.is_some_and(|end| round.seconds >= end.as_secs_f64()) {
            Some(Status::Time)
        } else {
            (self.observe)(&round).is_break().then_some(Status::Interrupted)
        }
    }

    /// Checks the time limit and the observer during an expansion. After `true` the run is over, and work in progress
    /// may stay unfinished.
    pub fn late(&mut self) -> bool {
        if matches!(self.status, Some(Status::Time | Status::Interrupted)) {
            return true;
        }
        let Some(late) = self.pressed() else { return false };
        if self.status.is_none() {
            self.status = Some(late);
            self.rounds.push(self.round());
        }
        true
    }

    /// Whether the time for the compaction is over, on any rank, or the observer has stopped the run. All ranks call it. The
    /// observer is told the present number of vectors.
    pub fn overdue(&mut self, vectors: usize) -> bool {
        self.last.vectors = vectors;
        let round = self.round();
        let own = self.status == Some(Status::Interrupted)
            || self.limits.time.is_some_and(|time| round.seconds >= time.as_secs_f64())
            || (self.observe)(&round).is_break();
        self.team.any(own)
    }

    /// Ends the run because a launch was [stopped](super::Error::is_stop).
    pub fn stopped(&mut self) {
        if let Pace::Together { left, .. } = &mut self.pace {
            *left = 0;
        }
        if !self.late() {
            self.status.get_or_insert(Status::Interrupted);
        }
    }

    /// The state at the last check with the present time.
    fn round(&self) -> Round {
        let Standing { bounds, backups, beliefs, vectors, .. } = self.last;
        let (lower, upper) =
            if self.sign < 0.0 { (-bounds.upper, -bounds.lower) } else { (bounds.lower, bounds.upper) };
        let (seconds, iterations) = (self.seconds(), self.expansions());
        Round { seconds, iterations, backups, beliefs, vectors, lower, upper }
    }

    /// Records the final state, after all work. Returns the status and the rounds.
    pub fn end(mut self, standing: Standing) -> (Option<Status>, Vec<Round>) {
        self.rounds.pop();
        let status = self.status.take();
        self.limits = Limits {
            gap: Gap::Absolute(f64::NEG_INFINITY),
            target: None,
            time: None,
            memory: Some(u64::MAX),
            iterations: Some(0),
            ..self.limits
        };
        self.over(standing);
        (status, self.rounds)
    }
}

/// A reason to end the run on all ranks, as a number.
fn code(status: Status) -> u64 {
    match status {
        Status::Time => 1,
        Status::Interrupted => 2,
        _ => 0,
    }
}

/// The reason with the largest code of all ranks.
fn status_of(codes: impl Iterator<Item = u64>) -> Option<Status> {
    match codes.max() {
        Some(2) => Some(Status::Interrupted),
        Some(1) => Some(Status::Time),
        _ => None,
    }
}
