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

use super::clock::Standing;
use super::expand::{EXPLORED, steps};
use super::search::{Interval, Search};
use super::{Error, PATIENCE};
use crate::common::numbers::max_norm;
use crate::pomdp::backend::{Trials, Walks};
use crate::pomdp::options::{Expansion, SolveOptions};
use crate::pomdp::solution::Status;

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

/// Runs the loop until the clock ends it. `search` provides the initial Γ and bounds. A [stopped](Error::is_stop)
/// launch ends the loop without an error; Γ is then the one before the launch.
///
/// # Errors
/// Errors of the backend.
pub fn run<B: Trials>(
    backend: &mut B,
    search: &mut Search,
    expansion: Expansion,
    options: &SolveOptions,
    min_improvement: f64,
) -> Result<Standing, Error>
where
    Error: From<B::Error>,
{
    let mut standing = search.standing();
    match rounds(backend, search, &mut standing, expansion, options, min_improvement).map_err(Error::from) {
        Err(error) if error.is_stop() => {
            search.clock.stopped();
            if backend.count() == 0 {
                // The first launch was stopped.
                backend.set_vectors(search.alpha())?;
            }
        }
        done => done?,
    }
    Ok(standing)
}

/// The loop of [`run`]; keeps `standing` current.
fn rounds<B: Trials>(
    backend: &mut B,
    search: &mut Search,
    standing: &mut Standing,
    expansion: Expansion,
    options: &SolveOptions,
    min_improvement: f64,
) -> Result<(), B::Error> {
    let count = u32::try_from(options.beliefs).unwrap_or(u32::MAX).max(2);
    let walks = Walks {
        count,
        optimistic: if expansion == Expansion::Walks { count / 3 } else { 0 },
        guided: match expansion {
            Expansion::Fsvi => count,
            Expansion::Walks => count / 3,
            _ => 0,
        },
        explored: if expansion == Expansion::Random { 1.0 } else { EXPLORED },
        best_in: (0..search.model.states()).map(|state| search.best_seen(state)).collect(),
    };
    let kept = search.alpha().len();
    let (memory, most_vectors) = (search.clock.memory(), options.limits.vectors.max(kept + 1));
    backend.set_vectors(search.alpha())?;
    let largest = max_norm(&search.rewards);
    let [below, above] = backend.slack(largest);
    let start = [search.model.start().clone()];
    let mut horizon = steps(search.model.gamma());
    let (mut length, mut round, mut idle, mut rough) = (FIRST_STEPS.min(horizon), 0, 0, true);
    let error = ROUGH_ERROR * largest / (1.0 - search.model.gamma());
    let part = |part: f64| (part * memory as f64) as u64;
    let first = *standing;
    while !search.clock.over(*standing) {
        let seed = options.seed.wrapping_add(round);
        // Walks are no longer than the number of expansions left.
        let left = options.limits.iterations.map_or(u64::MAX, |most| most.saturating_sub(search.clock.iterations + 1));
        let most_steps = length.min(u32::try_from(left).unwrap_or(u32::MAX));
        let walked = backend.walk(&walks, most_steps, memory / BELIEF_SHARE, seed, &mut || search.clock.late())?;
        standing.beliefs += walked.beliefs;
        let (mut progress, mut most) = (0.0, 0.0_f64);
        backend.set_rough(rough);
        for batch in (0..walked.batches).rev() {
            let improved = backend.improve(batch, min_improvement)?;
            progress += improved.risen;
            if !search.clock.late() {
                progress += backend.tighten(batch, min_improvement)?;
            }
            most = most.max(improved.risen);
            standing.backups += improved.beliefs as u64;
            search.clock.iterations += 1;
            // Vectors added late in a walk may exceed the limit before the walk is done.
            if backend.count() > most_vectors {
                backend.prune(kept, most_vectors - most_vectors / 4, batch)?;
            }
            if first.bytes + backend.bytes() >= part(MEMORY_FULL) {
                backend.shrink(kept, part(MEMORY_AFTER).saturating_sub(first.bytes), batch)?;
            }
            (standing.vectors, standing.bytes) = (backend.count(), first.bytes + backend.bytes());
            if batch > 0 && search.clock.over(*standing) {
                break;
            }
        }
        backend.prune(kept, most_vectors, walked.batches)?;
        let lower = backend.best(&start)?.first().map_or(f64::NEG_INFINITY, |best| best.1) - below;
        let upper = backend.upper(&start)?.first().map_or(f64::INFINITY, |bound| bound + above);
        standing.bounds = Interval { lower: lower.max(standing.bounds.lower), upper: upper.min(standing.bounds.upper) };
        (standing.vectors, standing.bytes) = (backend.count(), first.bytes + backend.bytes());
        idle = if progress > 0.0 || rough || length < horizon { 0 } else { idle + 1 };
        rough &= length < horizon || most > error;
        if idle == PATIENCE && horizon < steps(search.model.gamma()) * MAX_DEEPENING {
            // Longer walks may still find improvements.
            (horizon, idle) = (2 * horizon, 0);
        } else if idle == PATIENCE {
            search.clock.status.get_or_insert(Status::Stalled);
        }
        length = (2 * length).min(horizon);
        round += 1;
    }
    Ok(())
}
