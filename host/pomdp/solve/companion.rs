//! A search on the CPU beside the walks on a device.
//!
//! Walks in large batches raise the lower bound fast; trials guided by both bounds, one after the other, lower the upper bound
//! fast. So the companion of a device takes such trials on the cores that it leaves idle. At the end of each round, the device reads
//! its bounds and its points of the upper bound; neither waits for the other. (It is not told of the device's points: so many
//! weaker ones make its trials slower.) If the companion ends with the better lower bound, the policy of the run is its own.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use warpkov_common::parallel;
use warpkov_common::random::random;
use warpkov_runtime::comm::Local;

use super::branch::Branch;
use super::clock::Clock;
use super::error::Error;
use super::expand::Expand;
use super::interval::Interval;
use super::sampler::Sampler;
use super::search::{Initial, Search};
use super::team::{Divided, Point, Team};
use crate::backends::cpu::PointBased;
use crate::compact::Compact;
use crate::model::Pomdp;
use crate::options::{Expansion, Limits, MEMORY, Scheme, SolveOptions, earned};
use crate::solution::Round;

/// Where a companion writes what it finds, and a device that it has ended.
#[derive(Default)]
pub struct Companion {
    /// What the companion has found since the device has read it.
    found: Mutex<Option<Told>>,
    /// The lower bound of the run when the device has ended.
    ended: OnceLock<f64>,
}

/// Changes of points between two looks at which have changed.
const CHANGES: u32 = 256;

/// What a companion has found.
pub struct Told {
    /// Points of the upper bound.
    pub points: Vec<Point>,
    /// Bounds on V\*(b₀) that include rounding errors.
    pub bounds: Interval,
}

impl Companion {
    fn found(&self) -> MutexGuard<'_, Option<Told>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the companion has found since the last call, if it has found anything.
    pub fn read(&self) -> Option<Told> {
        self.found().take()
    }
}

/// Ends the companion, however the work of the device ends.
struct Dismissal<'a>(&'a Companion);

impl Drop for Dismissal<'_> {
    fn drop(&mut self) {
        self.0.ended.get_or_init(|| f64::INFINITY);
    }
}

/// Does the `work` of a device, which returns its result and its lower bound, while a companion searches that begins with the
/// bounds `initial`, if there are some. Returns the result, and the vectors of the companion if its lower bound is at least as good.
///
/// # Errors
/// Those of `work`.
pub fn accompanied<R>(
    model: &Pomdp,
    options: &SolveOptions,
    initial: Option<Initial>,
    work: impl FnOnce(Option<&Companion>) -> Result<(R, f64), Error>,
) -> Result<(R, Option<Compact>), Error> {
    let Some(initial) = initial else { return Ok((work(None)?.0, None)) };
    let companion = &Companion::default();
    thread::scope(|scope| {
        let dismissal = Dismissal(companion);
        let thread = scope.spawn(move || search(model, initial, options, companion));
        let result = work(Some(companion));
        if let Ok((_, lower)) = &result {
            companion.ended.get_or_init(|| *lower);
        }
        drop(dismissal);
        let vectors = parallel::join(thread);
        Ok((result?.0, vectors))
    })
}

/// Searches until the device has ended. Returns the vectors if the device has no better lower bound.
fn search(model: &Pomdp, initial: Initial, options: &SolveOptions, companion: &Companion) -> Option<Compact> {
    let (alone, memory) = (Local::alone(), options.limits.memory.map(|memory| memory.min(MEMORY)));
    let (team, limits) =
        (Team::new(&alone), Limits { target: None, time: None, iterations: None, memory, ..options.limits });
    let earned = earned(&model.expected_rewards(), model.actions() as usize);
    let mut observe =
        |_: &Round| if companion.ended.get().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let clock = Clock::new(Instant::now(), limits, 1.0, &mut observe, (Interval::ALL, earned), &team);
    let mut search = Search::from_bounds(model, initial, options.limits.vectors, clock);
    let mut sent = search.upper_bound.sawtooth.time();
    let mut tell = |search: &mut Search, least: u32| {
        let bounds = search.own_bounds();
        let (mut found, sawtooth) = (companion.found(), &search.upper_bound.sawtooth);
        let found = found.get_or_insert(Told { points: Vec::new(), bounds });
        found.bounds = bounds;
        if sawtooth.time() - sent >= least {
            found.points.extend(sawtooth.changed(sent));
            sent = sawtooth.time();
        }
    };
    let mut backend = PointBased::new(model);
    let mut backend = Divided::new(&mut backend, model, &team);
    let mut sampler = Sampler {
        expand: Expand::new(Expansion::Mixed, options.beliefs, Branch::default()),
        random: random(options.seed, 0),
        scheme: Scheme::Path,
        trials: 1,
    };
    // A search of one process on the CPU has nothing that fails.
    sampler.run(&mut search, &mut backend, &mut |search| tell(search, CHANGES)).ok()?;
    tell(&mut search, 1);
    let better = companion.ended.get().is_none_or(|lower| search.own_bounds().lower >= *lower);
    better.then(|| search.into_vectors().0)
}
