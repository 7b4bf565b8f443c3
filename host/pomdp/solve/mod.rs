//! Point-based solvers: lower and upper bounds on V\* that converge at b₀.
//!
//! The lower bound is Γ, alpha vectors from [backups](super::backend) at beliefs B, which an [expansion](expand)
//! samples. The upper bound starts as the [fast informed bound](bounds::fib). Its values at the same beliefs are
//! lowered and [interpolated](bounds::sawtooth).
//!
//! > B ← {b₀}, Γ ← [blind policies](bounds::blind)
//! > until the gap at b₀ is small, or a limit of time or memory is reached:
//! >   B ← B ∪ expand(B)
//! >   Γ ← Γ ∪ {backup(b)} for the beliefs b that the [scheme] selects
//! >   Γ ← the vectors that are best at a belief of B, with their [continuations](super::support)
//! > Γ ← the [compaction](super::compact) of Γ
//!
//! Several [ranks](team) divide this work. Each holds the model. Either all run the same search and divide each batch of backups,
//! or each samples its own beliefs, and once a round all exchange the vectors and the upper bounds that they found: both are
//! valid for all, and the bounds of the run are the best of all ranks.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use warpkov_runtime::device::AnyDevice;

use self::branch::Branch;
use self::clock::{Clock, Standing, overtime};
use self::companion::accompanied;
use self::expand::Expand;
use self::interval::{Interval, slack};
use self::keeper::Keeper;
use self::sampler::Sampler;
use self::search::Search;
use self::team::{Divided, Team};
use super::alpha::AlphaVectors;
use super::backend::{PointBackup, Trials};
use super::checkpoint::{Checkpoint, hash};
use super::compact::{Compact, Effort, compact};
use super::model::Pomdp;
use super::options::{Expansion, Gap, Limits, Precision, Scheme, SolveOptions, earned};
use super::solution::{RankShare, Round, Solution, Status, Support};
use crate::backends::cpu::PointBased;
use crate::backends::device::{self, Backups, Walkers};
use warpkov_common::checkpoint::Checkpoints;
use warpkov_common::interrupt;
use warpkov_common::numbers::max_norm;
use warpkov_common::random::random;
use warpkov_runtime::choose::{Cost, DeviceChoice, GPU_START, Place};
use warpkov_runtime::comm::{Communicator, Disagreed, Local};
use warpkov_runtime::{Precise, cores};

mod apart;
pub mod bounds;
pub mod branch;
pub mod clock;
pub mod companion;
mod error;
pub mod exact;
pub mod expand;
mod gamma;
pub mod graph;
pub mod horizon;
pub mod interval;
pub mod keeper;
mod lower;
mod nodes;
pub mod patience;
mod prune;
mod rounds;
mod sampler;
pub mod scheme;
pub mod search;
pub mod team;
pub mod trials;
mod upper;

pub use clock::Observer;
pub use error::Error;

/// The compaction may take this part of the work of the search, and at least [`COMPACTION_WORK`].
const COMPACTION_SHARE: u64 = 4;

/// Multiplications of a compaction after a short search: a few seconds on one core.
const COMPACTION_WORK: u64 = 1 << 32;

/// Memory that a compaction may take besides the vectors, relative to them: occupancies in two parts, and selected vectors in two
/// layouts.
const COPIES: f64 = 4.5;

/// Default number of trials per batch of backups on a device.
const TRIALS_PER_BATCH: usize = 64;

/// Solves a model on the device that `options` select.
///
/// # Errors
/// If γ = 1 without a horizon, if the device does not exist, or if it fails. Reaching a limit is not an error: see
/// [`Status`].
pub fn solve_with(model: &Pomdp, options: &SolveOptions, observe: Observer) -> Result<Solution, Error> {
    solve_on(&Local::alone(), model, options, observe)
}

/// Solves a model on several ranks, each of which calls this function with the same model and options, except its device.
/// All ranks return the same vectors and status, and the run stops on all of them if the observer of one breaks.
///
/// Equal options on equally many ranks give equal results, unless time ends the run. The memory limit is that of each rank. A
/// finite horizon is not divided: all ranks do the same work.
///
/// # Errors
/// Those of [`solve_with`]; [`Error::Models`]; and if a rank failed or did not answer in time.
pub fn solve_on(
    comm: &dyn Communicator,
    model: &Pomdp,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Solution, Error> {
    solve_session(comm, model, options, Session::default(), observe)
}

/// Where a search goes on from, and where its checkpoints go.
#[derive(Default)]
pub struct Session<'a> {
    /// A checkpoint of the same model. Limits of time and expansions count those before it.
    pub resume: Option<&'a Checkpoint>,
    /// Checkpoints to write.
    pub checkpoints: Option<&'a mut Checkpoints>,
}

/// [`solve_on`] with checkpoints.
///
/// # Errors
/// Those of [`solve_on`], and [`Error::Horizon`] for a finite horizon, which has no checkpoints. A checkpoint that cannot be
/// written is no error here: see [`Checkpoints::finish`].
pub fn solve_session(
    comm: &dyn Communicator,
    model: &Pomdp,
    options: &SolveOptions,
    session: Session,
    observe: Observer,
) -> Result<Solution, Error> {
    let start = Instant::now();
    let team = Team::new(comm);
    if !team.agrees_on(model) {
        return Err(Error::Models);
    }
    let Session { resume, checkpoints } = session;
    let mut keeper = Keeper::new(checkpoints, || hash(model));
    let result = Run::solve(&team, start, model, options, resume, &mut keeper, observe);
    // A failed connection is the cause of other errors.
    team.check()?;
    result
}

/// Estimated cost of the first part of the search, the only part that can be predicted.
fn cost(model: &Pomdp) -> Cost {
    let pairs = u64::from(model.states()) * u64::from(model.actions());
    let work = format!("the first expansions with {pairs} state-action pairs");
    Cost { work, cpu: GPU_START * pairs as f64 / GPU_PAIRS as f64, gpu: 0.0 }
}

/// Number of state-action pairs above which a GPU pays off: between Tag, which one core solves first, and
/// RockSample\[7,8\].
const GPU_PAIRS: u64 = 20_000;

/// A solve of the maximisation problem. Reported values are multiplied by `sign`, which is −1 for costs.
struct Run<'a, 'k> {
    model: &'a Pomdp,
    sign: f64,
    options: &'a SolveOptions,
    limits: Limits,
    start: Instant,
    observe: Observer<'a>,
    /// Name of the device that does the backups.
    device: String,
    notes: Vec<String>,
    team: &'a Team<'a>,
    resume: Option<&'a Checkpoint>,
    keeper: &'a mut Keeper<'k>,
}

impl<'a, 'k> Run<'a, 'k> {
    fn solve(
        team: &'a Team<'a>,
        start: Instant,
        model: &Pomdp,
        options: &'a SolveOptions,
        resume: Option<&'a Checkpoint>,
        keeper: &'a mut Keeper<'k>,
        observe: Observer<'a>,
    ) -> Result<Solution, Error> {
        let maximized = model.to_maximize();
        let (sign, limits) = (model.process().objective().sign(), options.limits);
        let (device, notes) = (cores::all(), Vec::new());
        let mut run =
            Run { model: &maximized, sign, options, limits, start, observe, device, notes, team, resume, keeper };
        if options.exact {
            return run.exact();
        }
        if let Some(horizon) = options.horizon {
            return run.finite(horizon.max(1));
        }
        if model.gamma() >= 1.0 {
            return Err(Error::Endless);
        }
        // Trials guided by the upper bound are sequential.
        let one_by_one = options.expansion.is_some_and(|expansion| !expansion.walks());
        if options.device == DeviceChoice::Auto && one_by_one {
            run.notes.push("auto chose the CPU: trials guided by the upper bound are sequential".to_owned());
            return run.on_cpu();
        }
        let opened = Place::open(options.device, Some(&cost(&maximized)));
        let (place, reason) = run.agree(opened)?;
        if team.any(matches!(place, Place::Cpu)) && !matches!(place, Place::Cpu) {
            run.notes.push("a rank has no GPU, so that all compute on the CPU".to_owned());
            return run.on_cpu();
        }
        run.device = place.name();
        run.notes.extend(reason);
        match place {
            Place::Cpu => run.on_cpu(),
            Place::Device(AnyDevice::Gpu(gpu)) => {
                let (free, _) = run.agree(gpu.memory())?;
                run.limits.memory.get_or_insert(team.least(free / 2));
                run.on_device(&gpu.into())
            }
            Place::Device(AnyDevice::Emulated(emulator)) => {
                // Emulated launches are slow, so the time limit can stop them too.
                let before =
                    resume.map_or(Duration::ZERO, |checkpoint| Duration::from_secs_f64(checkpoint.seconds.min(1e9)));
                let end = limits.time.map(|time| overtime(time).saturating_sub(before));
                let (mut asked, steady) = (interrupt::overdue(), team.steady());
                run.on_device(&AnyDevice::from(emulator.until(move || {
                    !steady.load(Ordering::Relaxed) && (asked() || end.is_some_and(|end| start.elapsed() >= end))
                })))
            }
        }
    }

    /// The result, if all ranks have one; otherwise the first rank that failed has its error.
    fn agree<T, E>(&self, result: Result<T, E>) -> Result<T, Error>
    where
        Error: From<E>,
    {
        self.team.comm().agree(result, |_| 0).map_err(|disagreed| match disagreed {
            Disagreed::Here(error) => error.into(),
            Disagreed::Elsewhere { rank, .. } => Error::Elsewhere(rank),
            Disagreed::Comm(error) => error.into(),
        })
    }

    /// Solves a finite-horizon problem.
    fn finite(&mut self, horizon: u32) -> Result<Solution, Error> {
        if let Some(what) = self.sampling() {
            return Err(Error::Horizon(what));
        }
        let (model, most, team) = (self.model, self.limits.vectors, self.team);
        let mut clock = self.clock_of(horizon::bounds(model, horizon));
        clock.together();
        let found = horizon::search(model, horizon, most, clock);
        if !team.is_alone() {
            self.notes.push("a finite horizon is not divided: every rank does the same work".to_owned());
        }
        let shares = team.shares(&self.device, found.ended.1.last().map_or(0, |last| last.backups));
        let vectors =
            found.stages.first().map_or_else(|| AlphaVectors::new(self.model.states()), |first| first.vectors.clone());
        let policy = Compact { vectors, support: Support::default() };
        let solution = self.solution(policy, found.ended, Expansion::Hsvi, Scheme::Path, shares);
        Ok(Solution { stages: found.stages, ..solution })
    }

    /// What is for sampled beliefs alone, if anything was given.
    fn sampling(&self) -> Option<&'static str> {
        let given = [
            ("option device", !matches!(self.options.device, DeviceChoice::Auto | DeviceChoice::Cpu)),
            ("option expansion", self.options.expansion.is_some()),
            ("option backups", self.options.scheme.is_some()),
            ("option companion", self.options.companion),
            ("option checkpoint", self.keeper.is_asked()),
            ("option resume", self.resume.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(what, _)| *what)
    }

    /// Solves a small model in all beliefs, for a horizon or without.
    fn exact(&mut self) -> Result<Solution, Error> {
        if let Some(what) = self.sampling().or((!self.team.is_alone()).then_some("other processes or devices")) {
            return Err(Error::Exact(what));
        }
        let (model, most, horizon) = (self.model, self.limits.vectors, self.options.horizon);
        if horizon.is_none() && model.gamma() >= 1.0 {
            return Err(Error::Endless);
        }
        let found = match horizon {
            Some(horizon) => {
                let clock = self.clock_of(horizon::bounds(model, horizon));
                exact::search_horizon(model, horizon.max(1), most, clock)
            }
            None => exact::search(model, most, self.clock_of(self.bounds())),
        };
        let exact::Optimum { policy, stages, ended, error } = found;
        let solution = self.solution(policy, ended, Expansion::Hsvi, Scheme::Full, Vec::new());
        // Rounding errors end a run, whatever its limit.
        let least = if solution.status == Status::Gap { solution.end().gap() } else { 0.0 };
        Ok(Solution { stages, error: Some(error), gap_limit: solution.gap_limit.max(least), ..solution })
    }

    fn on_cpu(&mut self) -> Result<Solution, Error> {
        let expansion = self.options.expansion.unwrap_or(Expansion::Mixed);
        self.hosted(&mut PointBased::new(self.model), expansion, self.options.trials.unwrap_or(1))
    }

    fn on_device(&mut self, device: &AnyDevice) -> Result<Solution, Error> {
        match self.options.precision {
            Precision::F32 => self.on_device_in::<f32>(device),
            Precision::F64 => self.on_device_in::<f64>(device),
        }
    }

    fn on_device_in<T: Precise>(&mut self, device: &AnyDevice) -> Result<Solution, Error> {
        let mut backups = Backups::<T>::new(device, self.model, None, device::Limits::default())?;
        let expansion = self.options.expansion.unwrap_or(Expansion::Walks);
        // Walks on the device start at a single belief.
        let several = self.model.starts().len() > 1;
        if several || !expansion.walks() || self.options.scheme.is_some_and(|scheme| scheme != Scheme::Path) {
            return self.hosted(&mut backups, expansion, self.options.trials.unwrap_or(TRIALS_PER_BATCH));
        }
        let (model, options, team) = (self.model, self.options, self.team);
        let device_name = self.device.clone();
        let resume = self.resume;
        let (clock, keeper) = self.clock();
        let mut search = Search::new(model, options.limits.vectors, clock)?;
        if let Some(checkpoint) = resume {
            search.resume(checkpoint, false);
        }
        let mut walkers = Walkers::new(device, model, backups, &search.upper_bound.informed)?;
        let initial = options.companion.then(|| search.initial());
        let ((standing, backups), beside) = accompanied(model, options, initial, |companion| {
            let (standing, backups) = trials::run(&mut walkers, &mut search, companion, expansion, options, keeper)?;
            // All ranks return the same vectors.
            let lower = if team.is_alone() { standing.bounds.lower } else { f64::INFINITY };
            Ok(((standing, backups), lower))
        })?;
        let shares = team.shares(&device_name, backups);
        let work = search.work;
        let clock = search.into_clock();
        let slack = walkers.slack(largest(model))[0].max(resume.map_or(0.0, |checkpoint| checkpoint.slack[0]));
        let mut found = walkers.into_vectors(model, slack)?;
        if let Some(beside) = beside.filter(|beside| beside.support.value > found.support.value) {
            found = beside;
        }
        let (found, policy, end) = compacted(model, found, work, clock, standing);
        Ok(Solution { found, ..self.solution(policy, end, expansion, Scheme::Path, shares) })
    }

    /// The clock of a run with these initial bounds, and what a step of good play earns.
    fn clock_of(&mut self, bounds: (Interval, f64)) -> Clock<'_> {
        Clock::new(self.start, self.limits, self.sign, self.observe, bounds, self.team)
    }

    /// Bounds that hold for every policy, and what a step of good play earns.
    fn bounds(&self) -> (Interval, f64) {
        let rewards = self.model.expected_rewards();
        let extreme = |pick: fn(f64, f64) -> f64| rewards.iter().copied().reduce(pick).unwrap_or_default();
        let rest = 1.0 - self.model.gamma();
        // Wide enough to contain all later bounds with their rounding errors.
        let largest = largest(self.model);
        let [below, above] = slack(self.model, largest / rest);
        let bounds = Interval { lower: extreme(f64::min) / rest - below, upper: extreme(f64::max) / rest + above };
        (bounds, earned(&rewards, self.model.actions() as usize))
    }

    /// The clock of a search whose policy is made compact, and the keeper of its checkpoints.
    fn clock(&mut self) -> (Clock<'_>, &mut Keeper<'k>) {
        let bounds = self.bounds();
        let mut clock = Clock::new(self.start, self.limits, self.sign, self.observe, bounds, self.team);
        clock.reserve();
        (clock, self.keeper)
    }

    /// Solves with beliefs and bounds on the host. `backend` does the backups, except those of single paths.
    fn hosted<B: PointBackup>(
        &mut self,
        backend: &mut B,
        expansion: Expansion,
        trials: usize,
    ) -> Result<Solution, Error>
    where
        Error: From<B::Error>,
    {
        let (model, options, team) = (self.model, self.options, self.team);
        if options.companion {
            self.notes.push("no companion: one is for walks on a device".to_owned());
        }
        let device = self.device.clone();
        let scheme = options.scheme.unwrap_or(expansion.scheme());
        // A single path is backed up on the host, step by step, so that each rank has paths of its own.
        let apart = scheme == Scheme::Path && trials <= 1 && !team.is_alone();
        let rank = if apart { team.rank() } else { 0 };
        let resume = self.resume;
        // A stream for each rank and each checkpoint.
        let stream = resume.map_or(0, |checkpoint| checkpoint.iterations) << 16 | rank as u64;
        let (clock, keeper) = self.clock();
        let mut search = Search::new(model, options.limits.vectors, clock)?;
        if let Some(checkpoint) = resume {
            search.resume(checkpoint, apart);
        }
        if apart {
            search.part();
        } else {
            search.clock.together();
        }
        let mut backend = Divided::new(backend, model, team);
        let mut sampler = Sampler {
            expand: Expand::new(expansion, options.beliefs, Branch(rank)),
            random: random(options.seed, stream),
            scheme,
            trials,
        };
        sampler.run(&mut search, &mut backend, &mut |search| {
            if keeper.is_due() {
                let backups = search.standing().backups;
                keeper.keep(&search.snapshot(None, backups, search.slack()));
            }
        })?;
        if keeper.keeps() {
            let backups = search.standing().backups;
            keeper.keep(&search.snapshot(None, backups, search.slack()));
        }
        let backups = if apart { search.backups } else { backend.backups };
        search.prune();
        let (standing, work) = (search.standing(), search.work);
        let shares = team.shares(&device, backups);
        let (found, clock) = search.into_vectors();
        let (found, policy, end) = compacted(model, found, work, clock, standing);
        Ok(Solution { found, ..self.solution(policy, end, expansion, scheme, shares) })
    }

    fn solution(
        &mut self,
        policy: Compact,
        (status, rounds): (Option<Status>, Vec<Round>),
        expansion: Expansion,
        scheme: Scheme,
        ranks: Vec<RankShare>,
    ) -> Solution {
        let Compact { vectors, support } = policy;
        let (found, vectors) = (vectors.len(), vectors.times(self.sign));
        let (device, mut notes) = (std::mem::take(&mut self.device), std::mem::take(&mut self.notes));
        if self.options.expansion.is_none() && self.options.horizon.is_none() && !self.options.exact {
            notes.push(format!("auto chose {expansion}: {}", expansion.merit()));
        }
        let (status, stages) = (status.unwrap_or(Status::Interrupted), Vec::new());
        let (lower, upper) = rounds.last().map_or((0.0, 0.0), |end| (end.lower, end.upper));
        let earned = earned(&self.model.expected_rewards(), self.model.actions() as usize);
        let gap_limit = self.limits.gap.limit(lower, upper, earned);
        let relative_gap = relative(upper - lower, Gap::size(lower, upper, earned));
        Solution {
            gap_limit,
            relative_gap,
            error: None,
            found,
            vectors,
            stages,
            support: Some(support).filter(|support| !support.starts.is_empty()),
            status,
            rounds,
            expansion,
            scheme,
            device,
            notes,
            ranks,
        }
    }
}

/// The [compaction](compact) of what a search found: the number of vectors before, the policy, and the end of the run. Without the
/// memory for it, all vectors stay.
fn compacted(
    model: &Pomdp,
    found: Compact,
    work: u64,
    mut clock: Clock,
    standing: Standing,
) -> (usize, Compact, (Option<Status>, Vec<Round>)) {
    let count = found.vectors.len();
    let enough = COPIES * size_of_val(found.vectors.values()) as f64 <= clock.memory() as f64;
    let work = clock.team().least((work / COMPACTION_SHARE).max(COMPACTION_WORK));
    let compacted = if clock.team().any(!enough) {
        None
    } else {
        let late = &mut |vectors| clock.overdue(vectors);
        compact(model, &found, &mut Effort { work, vectors: count, late })
    };
    // The written vectors decide the reported bound.
    let mut lower = standing.bounds.lower.min(found.support.value);
    if let Some(policy) = &compacted {
        let [below, _] = slack(model, largest(model) / (1.0 - model.gamma()));
        lower = lower.max(policy.support.value - below);
    }
    let policy = compacted.unwrap_or(found);
    let bounds = Interval { lower, ..standing.bounds };
    let end = clock.end(Standing { bounds, vectors: policy.vectors.len(), ..standing });
    (count, policy, end)
}

/// max |r(s, a)|, over all s and a.
fn largest(model: &Pomdp) -> f64 {
    max_norm(&model.expected_rewards())
}

/// A gap relative to the size of the value: 0 if it is 0.
fn relative(gap: f64, size: f64) -> f64 {
    if gap > 0.0 { gap / size } else { 0.0 }
}
