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

use std::time::Instant;

use warpkov_device::launch::Device;

use self::clock::{Clock, Standing, overtime};
use self::expand::Expand;
use self::search::{Interval, Search, slack};
use super::alpha::AlphaVectors;
use super::backend::{PointBackup, Trials};
use super::cpu::PointBased;
use super::model::Pomdp;
use super::options::{Expansion, Limits, Precision, Scheme, SolveOptions};
use super::solution::{Round, Solution, Status};
use crate::common::interrupt;
use crate::common::numbers::max_norm;
use crate::common::random::random;
use crate::mdp::SolveError;
use crate::pomdp::device::{self, Backups, Walkers};
use crate::runtime;
use crate::runtime::choose::{Cost, DeviceChoice, GPU_START, Place};
use crate::runtime::error::from_devices;
use crate::runtime::{Precise, cores};

pub mod bounds;
pub mod clock;
pub mod exact;
pub mod expand;
pub mod graph;
pub mod horizon;
pub mod scheme;
pub mod search;
pub mod trials;

pub use clock::Observer;

/// Number of consecutive expansions without progress that ends a run.
const PATIENCE: u32 = 64;

/// Default number of trials per batch of backups on a device.
const TRIALS_PER_BATCH: usize = 64;

/// Why a model was not solved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// γ = 1 without a horizon.
    #[error("γ is 1, and the sum of rewards may diverge: expected a number of steps (option horizon)")]
    Endless,
    /// An option that a horizon excludes.
    #[error("a finite horizon runs on the CPU with heuristic search: expected no option {0}")]
    Horizon(&'static str),
    /// The underlying MDP cannot be solved.
    #[error(transparent)]
    Process(#[from] SolveError),
    /// The backend failed or was stopped.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

impl Error {
    /// Whether the run was stopped during a launch. Results from before the launch remain valid.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Runtime(runtime::Error::Interrupted))
    }
}

from_devices!(Error);

/// Solves a model on the device that `options` select.
///
/// # Errors
/// If γ = 1 without a horizon, if the device does not exist, or if it fails. Reaching a limit is not an error: see
/// [`Status`].
pub fn solve_with(model: &Pomdp, options: &SolveOptions, observe: Observer) -> Result<Solution, Error> {
    let start = Instant::now();
    let maximized = model.to_maximize();
    let (sign, limits) = (model.process().objective().sign(), options.limits);
    let (device, notes) = (cores::all(), Vec::new());
    let mut run = Run { model: &maximized, sign, options, limits, start, observe, device, notes };
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
    let (place, reason) = Place::open(options.device, Some(&cost(&maximized)))?;
    run.device = place.name();
    run.notes.extend(reason);
    match place {
        Place::Cpu => run.on_cpu(),
        Place::Gpu(gpu) => {
            let (free, _) = gpu.memory()?;
            run.limits.memory.get_or_insert(free / 2);
            run.on_device(&gpu)
        }
        Place::Emulated(emulator) => {
            // Emulated launches are slow, so the time limit can stop them too.
            let (mut asked, end) = (interrupt::overdue(), limits.time.map(overtime));
            run.on_device(&emulator.until(move || asked() || end.is_some_and(|end| start.elapsed() >= end)))
        }
    }
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
struct Run<'a> {
    model: &'a Pomdp,
    sign: f64,
    options: &'a SolveOptions,
    limits: Limits,
    start: Instant,
    observe: Observer<'a>,
    /// Name of the device that does the backups.
    device: String,
    notes: Vec<String>,
}

impl Run<'_> {
    /// Solves a finite-horizon problem.
    fn finite(&mut self, horizon: u32) -> Result<Solution, Error> {
        let options = self.options;
        let given = [
            ("device", !matches!(options.device, DeviceChoice::Auto | DeviceChoice::Cpu)),
            ("expansion", options.expansion.is_some()),
            ("backups", options.scheme.is_some()),
        ];
        if let Some((what, _)) = given.iter().find(|(_, given)| *given) {
            return Err(Error::Horizon(what));
        }
        let (start, limits, sign) = (self.start, self.limits, self.sign);
        let observe = &mut *self.observe;
        let found = horizon::search(self.model, horizon, limits.gap, limits.vectors, move |bounds| {
            Clock::new(start, limits, sign, observe, bounds)
        });
        let vectors =
            found.stages.first().map_or_else(|| AlphaVectors::new(self.model.states()), |first| first.vectors.clone());
        let solution = self.solution(vectors, found.ended, Expansion::Hsvi, Scheme::Path);
        Ok(Solution { stages: found.stages, ..solution })
    }

    fn on_cpu(&mut self) -> Result<Solution, Error> {
        let expansion = self.options.expansion.unwrap_or(Expansion::Mixed);
        self.hosted(&mut PointBased::new(self.model), expansion, self.options.trials.unwrap_or(1))
    }

    fn on_device<D: Device>(&mut self, device: &D) -> Result<Solution, Error>
    where
        Error: From<D::Error>,
    {
        match self.options.precision {
            Precision::F32 => self.on_device_in::<f32, D>(device),
            Precision::F64 => self.on_device_in::<f64, D>(device),
        }
    }

    fn on_device_in<T: Precise, D: Device>(&mut self, device: &D) -> Result<Solution, Error>
    where
        Error: From<D::Error>,
    {
        let mut backups = Backups::<T, D>::new(device, self.model, None, device::Limits::default())?;
        let expansion = self.options.expansion.unwrap_or(Expansion::Walks);
        // Walks on the device start at a single belief.
        let several = self.model.starts().len() > 1;
        if several || !expansion.walks() || self.options.scheme.is_some_and(|scheme| scheme != Scheme::Path) {
            return self.hosted(&mut backups, expansion, self.options.trials.unwrap_or(TRIALS_PER_BATCH));
        }
        let (model, options) = (self.model, self.options);
        let clock = self.clock();
        let mut search = Search::new(model, options.limits.gap, options.limits.vectors, clock)?;
        let mut walkers = Walkers::new(device, model, backups, &search.informed)?;
        let standing =
            trials::run(&mut walkers, &mut search, expansion, options, min_improvement(model, options.limits.gap))?;
        let mut clock = search.into_clock();
        let [slack, _] = walkers.slack(largest(model));
        let vectors = walkers.into_vectors(model, slack, &mut || clock.overdue())?;
        // The returned vectors, after pruning and reduction, decide the reported bound.
        let attained = vectors.best(model.start()).map_or(f64::NEG_INFINITY, |(_, value)| value);
        let bounds = Interval { lower: standing.bounds.lower.min(attained), ..standing.bounds };
        let end = clock.end(Standing { bounds, vectors: vectors.len(), ..standing });
        Ok(self.solution(vectors, end, expansion, Scheme::Path))
    }

    /// The clock of the run, with initial bounds that hold for every policy.
    fn clock(&mut self) -> Clock<'_> {
        let rewards = self.model.expected_rewards();
        let extreme = |pick: fn(f64, f64) -> f64| rewards.iter().copied().reduce(pick).unwrap_or_default();
        let rest = 1.0 - self.model.gamma();
        // Wide enough to contain all later bounds with their rounding errors.
        let [below, above] = slack(self.model, largest(self.model) / rest);
        let bounds = Interval { lower: extreme(f64::min) / rest - below, upper: extreme(f64::max) / rest + above };
        Clock::new(self.start, self.limits, self.sign, self.observe, bounds)
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
        let (model, options) = (self.model, self.options);
        let scheme = options.scheme.unwrap_or(expansion.scheme());
        let (gap, min_improvement) = (options.limits.gap, min_improvement(model, options.limits.gap));
        let mut random = random(options.seed, 0);
        let mut search = Search::new(model, gap, options.limits.vectors, self.clock())?;
        let mut expand = Expand::new(expansion, options.beliefs);
        let mut idle = 0;
        while !search.ended() {
            let known = search.points.len();
            let mut sampled: Vec<Vec<u32>> = Vec::new();
            search.choose_root();
            for turn in 0..if scheme == Scheme::Path { trials.max(1) } else { 1 } {
                sampled.push(expand.sample(&mut search, &mut random, gap, idle > 0, turn));
                if search.late() {
                    break;
                }
            }
            let progress = match (scheme, &sampled[..]) {
                (Scheme::Path, [nodes]) => Ok(scheme::path(&mut search, nodes, min_improvement)),
                (Scheme::Path, walks) => scheme::layers(&mut search, backend, walks, min_improvement),
                (Scheme::Full, _) => scheme::full(&mut search, backend, min_improvement),
                (Scheme::Randomized, _) => scheme::randomized(&mut search, backend, &mut random, min_improvement),
            };
            let mut progress = match progress.map_err(Error::from) {
                Err(error) if error.is_stop() => {
                    search.clock.stopped();
                    break;
                }
                progress => progress?,
            };
            if scheme != Scheme::Path {
                progress += sampled.iter().map(|nodes| scheme::tighten(&mut search, nodes)).sum::<f64>();
                progress += (0..search.starts.len() as u32).map(|start| search.tighten(start)).sum::<f64>();
            }
            search.prune_if_grown();
            search.clock.iterations += 1;
            idle = if progress > 0.0 || search.points.len() > known { 0 } else { idle + 1 };
            if idle >= PATIENCE && !expand.deepens() {
                search.clock.status.get_or_insert(Status::Stalled);
            }
        }
        search.prune();
        let standing = search.standing();
        let (vectors, clock) = search.into_vectors();
        let end = clock.end(Standing { vectors: vectors.len(), ..standing });
        Ok(self.solution(vectors, end, expansion, scheme))
    }

    fn solution(
        &mut self,
        vectors: AlphaVectors,
        (status, rounds): (Option<Status>, Vec<Round>),
        expansion: Expansion,
        scheme: Scheme,
    ) -> Solution {
        let vectors = vectors.times(self.sign);
        let (device, mut notes) = (std::mem::take(&mut self.device), std::mem::take(&mut self.notes));
        if self.options.expansion.is_none() && self.options.horizon.is_none() {
            notes.push(format!("auto chose {expansion}: {}", expansion.merit()));
        }
        let (status, stages) = (status.unwrap_or(Status::Interrupted), Vec::new());
        Solution { vectors, stages, status, rounds, expansion, scheme, device, notes }
    }
}

/// max |r(s, a)|, over all s and a.
fn largest(model: &Pomdp) -> f64 {
    max_norm(&model.expected_rewards())
}

/// Least improvement of a value that helps to close the gap.
fn min_improvement(model: &Pomdp, gap: f64) -> f64 {
    gap * (1.0 - model.gamma()) / 10.0
}
