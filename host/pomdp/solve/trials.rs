//! The solver's loop on a device: batches of walks and their backups, with all data on the device.
//!
//! > until the gap at b₀ is small, or a limit of time or memory is reached:
//! >   walk from b₀ many times in parallel: beliefs b₀, b₁, …, one batch per step
//! >   for each batch in reverse order: Γ ← Γ ∪ {backup(b)} where it improves b; lower the upper bound
//! >   Γ ← the vectors that are best at a belief of these walks
//!
//! The first walks are short, because beliefs near b₀ matter most. The length then doubles up to the horizon beyond
//! which discounting leaves little. Scores have low precision until a round of full-length walks raises no value by
//! more than their error.
//!
//! Optimistic walks take the best action by the upper bound, which converges only along its own greedy actions (Smith
//! and Simmons, *UAI*, 2005). The expansion `walks`, the default, uses them for a third of the walks. The other walks
//! improve Γ.
//!
//! A [companion](super::companion) on the CPU may find points of the upper bound meanwhile.
//!
//! Of several ranks, each walks its portion of the walks with its own random numbers, and improves and tightens its own batches.
//! At the end of a round, all meet.

use super::clock::Standing;
use super::companion::{Companion, Told};
use super::error::Error;
use super::expand::random::{EXPLORED, steps};
use super::interval::Interval;
use super::keeper::Keeper;
use super::patience::{PATIENCE, min_improvement};
use super::search::Search;
use super::team::{News, Point, joined};
use crate::backend::{Trials, Walks, staying};
use crate::options::{Expansion, SolveOptions};
use crate::solution::Status;
use warpkov_common::numbers::max_norm;

/// Length of the first walks, in steps.
const FIRST_STEPS: u32 = 16;

/// Beliefs may take 1/`BELIEF_SHARE` of the memory limit.
const BELIEF_SHARE: u64 = 4;

/// Fraction of the memory limit at which [`Trials::shrink`] releases memory.
const MEMORY_FULL: f64 = 0.9;
/// Fraction of the memory limit in use after that.
const MEMORY_AFTER: f64 = 0.6;

/// Largest factor by which walks may exceed the default horizon.
const MAX_DEEPENING: u32 = 4;

/// Error of low-precision scores, relative to the largest value.
const ROUGH_ERROR: f64 = 1.0 / 2048.0;

/// Fraction of the memory that sawtooth points may take when memory is short.
const POINTS_SHARE: f64 = 0.25;

/// Runs the loop until the clock ends it. `search` provides the initial Γ and bounds, `companion` what a companion finds. A
/// [stopped](Error::is_stop) launch ends the loop without an error; Γ is then the one before the launch. Returns the state of the
/// run, and the number of backups of this rank.
///
/// # Errors
/// Errors of the backend.
pub fn run<B: Trials>(
    backend: &mut B,
    search: &mut Search,
    companion: Option<&Companion>,
    expansion: Expansion,
    options: &SolveOptions,
    keeper: &mut Keeper,
) -> Result<(Standing, u64), Error>
where
    Error: From<B::Error>,
{
    let count = u32::try_from(options.beliefs).unwrap_or(u32::MAX);
    let count = (search.clock.team().portion(count.into()) as u32).max(2);
    let walks = Walks {
        count,
        optimistic: if expansion == Expansion::Walks { count / 3 } else { 0 },
        guided: match expansion {
            Expansion::Fsvi => count,
            Expansion::Walks => count / 3,
            _ => 0,
        },
        explored: if expansion == Expansion::Random { 1.0 } else { EXPLORED },
        best_in: (0..search.model.states())
            .map(|state| search.upper_bound.best_seen(search.model, &search.rewards, state))
            .collect(),
    };
    let (kept, standing, memory) = (search.lower_bound.blind().len(), search.standing(), search.clock.memory());
    let most_vectors = options.limits.vectors.max(kept + 1);
    let largest = max_norm(&search.rewards);
    let slack = [0, 1].map(|bound| backend.slack(largest)[bound].max(search.slack()[bound]));
    // The first rank counts the backups before a checkpoint.
    let backups = if search.clock.team().rank() == 0 { search.backups } else { 0 };
    let (first, beliefs) = (standing.bytes, 0);
    let iterations = options.limits.iterations.unwrap_or(u64::MAX);
    let min_improvement = min_improvement(search.model, search.clock.gap_limit());
    let mut trial = Trial {
        iterations,
        backend,
        search,
        standing,
        walks,
        kept,
        most_vectors,
        memory,
        first,
        slack,
        min_improvement,
        backups,
        beliefs,
        points: Vec::new(),
        companion,
        beside: Interval::ALL,
        keeper,
    };
    match trial.rounds(options, largest) {
        Err(error) if error.is_stop() => {
            trial.search.clock.stopped();
            if trial.backend.count() == 0 {
                // The first launch was stopped.
                trial.start()?;
            }
        }
        done => done?,
    }
    if trial.search.clock.team().is_alone() {
        let (points, _) = trial.listen();
        trial.points.extend(points);
        trial.standing.bounds = trial.standing.bounds.and(trial.beside);
    }
    trial.keep()?;
    Ok((trial.standing, trial.backups))
}

/// The state of the loop.
struct Trial<'a, 'm, 'o, 'k, B> {
    backend: &'a mut B,
    search: &'a mut Search<'m, 'o>,
    /// State of the run, as of the last meeting if there are several ranks.
    standing: Standing,
    walks: Walks,
    /// The first vectors of Γ, which stay.
    kept: usize,
    /// Limit of |Γ|.
    most_vectors: usize,
    /// Limit of the number of expansions. An expansion is a step of the walks of all ranks.
    iterations: u64,
    /// Memory limit in bytes.
    memory: u64,
    /// Bytes of the host's search.
    first: u64,
    /// Bounds on rounding errors.
    slack: [f64; 2],
    min_improvement: f64,
    /// Number of backups of this rank.
    backups: u64,
    /// Number of beliefs of this rank.
    beliefs: usize,
    /// Points of the upper bound of all ranks that `search` does not have yet, if checkpoints are written.
    points: Vec<Point>,
    /// What the companion of this rank finds, if there is one.
    companion: Option<&'a Companion>,
    /// The bounds of the companion, as far as they count for this rank.
    beside: Interval,
    keeper: &'a mut Keeper<'k>,
}

/// What a round achieved.
#[derive(Clone, Copy, Default)]
struct Achieved {
    /// Sum of the improvements of both bounds.
    progress: f64,
    /// Largest improvement of the lower bound.
    most: f64,
    /// Number of batches walked.
    batches: usize,
    /// Whether a lack of memory for vectors ended the round early; only if there are several ranks.
    cut: bool,
}

impl<B: Trials> Trial<'_, '_, '_, '_, B>
where
    Error: From<B::Error>,
{
    /// The loop of [`run`].
    fn rounds(&mut self, options: &SolveOptions, largest: f64) -> Result<(), Error> {
        let (team, model) = (self.search.clock.team(), self.search.model);
        // Until the first round, all ranks need the result of each launch.
        team.set_steady(!team.is_alone());
        self.start()?;
        let mut horizon = steps(model.gamma());
        let first = self.search.clock.expansions();
        let (mut length, mut round, mut idle, mut rough) = (FIRST_STEPS.min(horizon), 0, 0, true);
        let error = ROUGH_ERROR * largest / (1.0 - model.gamma());
        let mut ended = if team.is_alone() { self.search.clock.over(self.standing) } else { self.conclude(&[], None)? };
        while !ended {
            // The first rank has the seed itself.
            let seed =
                options.seed.wrapping_add(first + round) ^ (team.rank() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let shared = self.backend.count();
            self.min_improvement = min_improvement(model, self.search.clock.gap_limit());
            team.set_steady(false);
            let mut found = Achieved::default();
            let result = self.round(length, seed, rough, &mut found);
            team.set_steady(!team.is_alone());
            match result {
                Err(error) if error.is_stop() && !team.is_alone() => self.search.clock.stopped(),
                result => result?,
            }
            if team.is_alone() {
                self.backend.prune(self.kept, self.most_vectors, found.batches)?;
                found.progress += self.follow()?;
                self.standing.bounds = self.bounds()?;
                (self.standing.vectors, self.standing.bytes) = (self.backend.count(), self.bytes());
            }
            let heads = if team.is_alone() { Vec::new() } else { self.meet(shared, &mut found)? };
            idle = if found.progress > 0.0 || rough || length < horizon { 0 } else { idle + 1 };
            rough &= length < horizon || found.most > error;
            let mut stalled = None;
            if idle == PATIENCE && horizon < steps(model.gamma()) * MAX_DEEPENING {
                // Longer walks may still find improvements.
                (horizon, idle) = (2 * horizon, 0);
            } else if idle == PATIENCE {
                stalled = Some(Status::Stalled);
            }
            // Walks that are too long for the memory never get back to b₀.
            length = if found.cut { (length / 2).max(1) } else { (2 * length).min(horizon) };
            round += 1;
            if self.keeper.is_due() {
                self.keep()?;
            }
            ended = if team.is_alone() {
                if let Some(status) = stalled {
                    self.search.clock.status.get_or_insert(status);
                }
                self.search.clock.over(self.standing)
            } else {
                self.conclude(&heads, stalled)?
            };
        }
        Ok(())
    }

    /// Gives the backend the vectors and points of the search.
    fn start(&mut self) -> Result<(), Error> {
        let News { plans, points } = self.search.known();
        self.backend.set_vectors(&self.search.lower_bound.blind())?;
        if !plans.vectors.is_empty() {
            self.backend.replace_from(self.kept, &plans)?;
        }
        if !points.is_empty() {
            self.backend.add_points(&points, 0.0)?;
        }
        Ok(())
    }

    /// Reads what the companion has found. Returns its points, and how far its bounds have moved.
    fn listen(&mut self) -> (Vec<Point>, f64) {
        let Some(Told { points, bounds }) = self.companion.and_then(Companion::read) else { return (Vec::new(), 0.0) };
        // All ranks return the same vectors, which cannot be those of the companion of one.
        let lower = if self.search.clock.team().is_alone() { bounds.lower } else { f64::NEG_INFINITY };
        let (before, after) = (self.beside, self.beside.and(Interval { lower, ..bounds }));
        self.beside = after;
        let moved = |before: f64, after: f64| if before == after { 0.0 } else { (before - after).abs() };
        (points, moved(before.lower, after.lower) + moved(before.upper, after.upper))
    }

    /// Takes over what the companion has found, if there is one. Returns how far its bounds have moved.
    fn follow(&mut self) -> Result<f64, Error> {
        if self.companion.is_none() {
            return Ok(0.0);
        }
        let (points, moved) = self.listen();
        if self.keeper.keeps() {
            self.points.extend(self.backend.new_points()?);
            self.points.extend(points.iter().cloned());
        }
        self.backend.add_points(&points, self.min_improvement)?;
        Ok(moved)
    }

    /// Writes a checkpoint, if this rank writes them.
    fn keep(&mut self) -> Result<(), Error> {
        if !self.keeper.keeps() {
            return Ok(());
        }
        if self.search.clock.team().is_alone() {
            self.points.extend(self.backend.new_points()?);
            // New points are those since this call.
            self.backend.add_points(&[], self.min_improvement)?;
        }
        std::mem::take(&mut self.points).iter().for_each(|(belief, drop)| self.search.add_upper(belief, *drop));
        let plans = self.backend.plans()?;
        self.keeper.keep(&self.search.snapshot(Some(plans), self.standing.backups, self.slack));
        Ok(())
    }

    /// Walks, and backs up and tightens the batches in reverse order.
    fn round(&mut self, length: u32, seed: u64, rough: bool, found: &mut Achieved) -> Result<(), Error> {
        let alone = self.search.clock.team().is_alone();
        // Walks are no longer than the number of expansions left.
        let left = self.iterations.saturating_sub(self.search.clock.iterations + 1);
        let steps = length.min(u32::try_from(left).unwrap_or(u32::MAX));
        let clock = &mut self.search.clock;
        let walked = self.backend.walk(&self.walks, steps, self.memory / BELIEF_SHARE, seed, &mut || clock.late())?;
        self.beliefs += walked.beliefs;
        self.standing.beliefs += walked.beliefs;
        found.batches = walked.batches;
        self.backend.set_rough(rough);
        for batch in (0..walked.batches).rev() {
            let improved = self.backend.improve(batch, self.min_improvement)?;
            found.progress += improved.risen;
            if !self.search.clock.late() {
                found.progress += self.backend.tighten(batch, self.min_improvement)?;
            }
            found.most = found.most.max(improved.risen);
            self.backups += improved.beliefs as u64;
            self.standing.backups += improved.beliefs as u64;
            self.search.clock.iterations += 1;
            // Vectors added late in a walk may exceed the limit before the walk is done.
            let many = self.backend.count() > self.most_vectors;
            let full = self.bytes() >= self.part(MEMORY_FULL);
            found.cut = !alone && batch > 0 && (many || full);
            if alone && many {
                self.backend.prune(self.kept, self.most_vectors - self.most_vectors / 4, batch)?;
            }
            if alone && full {
                self.shrink(batch)?;
            }
            (self.standing.vectors, self.standing.bytes) = (self.backend.count(), if alone { self.bytes() } else { 0 });
            if batch > 0 && (found.cut || self.search.clock.over(self.standing)) {
                break;
            }
        }
        Ok(())
    }

    /// All ranks exchange their vectors and points of the round, of which Γ had `shared` vectors before, and reduce Γ together.
    /// `found` becomes that of all ranks. Returns their heads: code, expansions, backups, beliefs.
    fn meet(&mut self, shared: usize, found: &mut Achieved) -> Result<Vec<Vec<u64>>, Error> {
        let team = self.search.clock.team();
        let head = [
            self.search.clock.code(),
            self.search.clock.iterations,
            self.backups,
            self.beliefs as u64,
            found.progress.to_bits(),
            found.most.to_bits(),
            found.cut.into(),
        ];
        let (beside, _) = self.listen();
        let mut points = self.backend.new_points()?;
        points.extend(beside.iter().cloned());
        let news = News { plans: self.backend.plans_from(shared)?, points };
        let all = team.exchange(&head, &news);
        if team.is_broken() {
            return Ok(Vec::new());
        }
        let (plans, _) = joined(self.search.model.states(), shared, &all, team.rank());
        self.backend.replace_from(shared, &plans)?;
        let others = all.iter().enumerate().filter(|(rank, _)| *rank != team.rank());
        let mut points: Vec<_> = others.flat_map(|(_, (_, news))| news.points.iter().cloned()).collect();
        points.extend(beside);
        self.backend.add_points(&points, self.min_improvement)?;
        if self.keeper.keeps() {
            self.points.extend(all.iter().flat_map(|(_, news)| news.points.iter().cloned()));
        }
        let numbers = |field: usize| all.iter().map(move |(head, _)| f64::from_bits(head[field]));
        found.progress = numbers(4).sum();
        found.most = numbers(5).fold(0.0, f64::max);
        found.cut = all.iter().any(|(head, _)| head[6] != 0);
        let most = self.most_vectors - if found.cut { self.most_vectors / 4 } else { 0 };
        self.prune_together(most, found.batches)?;
        if team.any(self.bytes() >= self.part(MEMORY_FULL)) {
            self.shrink(found.batches)?;
        }
        Ok(all.into_iter().map(|(head, _)| head).collect())
    }

    /// Decides for all ranks, with their bounds and their `heads`.
    fn conclude(&mut self, heads: &[Vec<u64>], ended: Option<Status>) -> Result<bool, Error> {
        let team = self.search.clock.team();
        let own = self.bounds()?;
        let all = team.all(&[own.lower.to_bits(), own.upper.to_bits(), self.bytes()]);
        let bound = |field: usize| all.iter().map(move |rank| f64::from_bits(rank[field]));
        let bounds = Interval { lower: bound(0).fold(own.lower, f64::max), upper: bound(1).fold(own.upper, f64::min) };
        let sum = |field: usize| heads.iter().map(|head| head[field]).sum::<u64>();
        let steps = heads.iter().map(|head| head[1]).max();
        self.search.clock.iterations = steps.unwrap_or(self.search.clock.iterations);
        let bytes = all.iter().map(|rank| rank[2]).max().unwrap_or_default();
        let (backups, beliefs) = (sum(2), sum(3) as usize + 1);
        self.standing = Standing { bounds, backups, beliefs, vectors: self.backend.count(), bytes };
        self.search.clock.conclude(heads.iter().map(|head| head[0]), ended, 0, self.standing);
        Ok(self.search.clock.status.is_some())
    }

    /// The bounds of this rank, or those known if they are better.
    fn bounds(&mut self) -> Result<Interval, Error> {
        let start = [self.search.model.start().clone()];
        let ([below, above], known) = (self.slack, self.standing.bounds);
        let lower = self.backend.best(&start)?.first().map_or(f64::NEG_INFINITY, |best| best.1) - below;
        let upper = self.backend.upper(&start)?.first().map_or(f64::INFINITY, |bound| bound + above);
        Ok(Interval { lower, upper }.and(known).and(self.beside))
    }

    /// [Prunes](Trials::prune) Γ by the uses on all ranks.
    fn prune_together(&mut self, most: usize, batch: usize) -> Result<(), Error> {
        let mut uses = self.backend.uses(batch)?;
        let all = self.search.clock.team().all(&uses);
        let sum = |vector: usize| all.iter().fold(0, |sum: u64, uses| sum.saturating_add(uses[vector]));
        uses = (0..uses.len()).map(sum).collect();
        Ok(self.backend.retain(&staying(&uses, self.kept, most))?)
    }

    /// Releases memory, if possible, until [`MEMORY_AFTER`] of the limit is in use: sawtooth points unused for longest, and
    /// vectors.
    fn shrink(&mut self, batch: usize) -> Result<(), Error> {
        let team = self.search.clock.team();
        let bytes = self.part(MEMORY_AFTER).saturating_sub(self.first);
        self.backend.drop_points((bytes as f64 * POINTS_SHARE) as u64)?;
        // Halves Γ repeatedly, because retired vectors may keep memory in use.
        let mut most = self.backend.count();
        while most > self.kept + 1 && team.any(self.backend.bytes() > bytes) {
            most = (most / 2).max(self.kept + 1);
            self.prune_together(most, batch)?;
        }
        Ok(())
    }

    /// Bytes in use.
    fn bytes(&self) -> u64 {
        self.first + self.backend.bytes()
    }

    /// This fraction of the memory limit.
    fn part(&self, fraction: f64) -> u64 {
        (fraction * self.memory as f64) as u64
    }
}
