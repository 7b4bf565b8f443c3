//! Walks by the hundred, backed up from their ends to b₀, all of it where Γ is.
//!
//! > until the gap at b₀ is small, or time or memory are used up:
//! >   walk from b₀, many times at once: beliefs b₀, b₁, …, each step a batch
//! >   for the batches, the last first: Γ ← Γ ∪ {backup(b)}, where that is better at b, and lower the upper bound there
//! >   Γ ← those vectors that are the best at a belief of these walks
//!
//! The first walks are short, for what is near to b₀ counts most; they grow to where little is left after discounting. Scores
//! are rough until a round of the longest walks lifts no value by more than their error.
//!
//! Some walks act by the upper bound, a third of them where nothing else is asked for: only at what its own best actions reach
//! does it close (Smith and Simmons, *UAI*, 2005). The others are those that Γ learns from.

use super::clock::Standing;
use super::expand::{EXPLORED, steps};
use super::search::{Interval, Search};
use super::{Error, PATIENCE};
use crate::pomdp::backend::{Trials, Walks};
use crate::pomdp::options::{Expansion, SolveOptions};
use crate::pomdp::solution::Status;

/// Steps of the first walks.
const FIRST: u32 = 16;

/// The part of the memory that beliefs may take is one by this.
const BELIEFS: u64 = 4;

/// The part of the memory that may be taken before something is given up, and what is taken after that.
const FULL: f64 = 0.9;
const LEFT: f64 = 0.6;

/// The longest walks, in parts of those after which little is left.
const DEEPER: u32 = 4;

/// How far rough scores are off, of the largest value.
const ROUGH: f64 = 1.0 / 2048.0;

/// Walks as `expansion` says, until the clock says that it is over. `search` has the first Γ and the first bounds. A step that was
/// [given up](Error::is_stop) is no error but the end; Γ is then what it was before.
///
/// # Errors
/// Those of the backend.
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
                // It was the first step that was given up.
                backend.set_vectors(search.alpha())?;
            }
        }
        done => done?,
    }
    Ok(standing)
}

/// What [`run`] does; where it stands is in `standing`.
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
    let largest = search.rewards.iter().fold(0.0, |most: f64, reward| most.max(reward.abs()));
    let [below, above] = backend.slack(largest);
    let start = [search.model.start().clone()];
    let mut horizon = steps(search.model.gamma());
    let (mut length, mut round, mut idle, mut rough) = (FIRST.min(horizon), 0, 0, true);
    let error = ROUGH * largest / (1.0 - search.model.gamma());
    let part = |part: f64| (part * memory as f64) as u64;
    let first = *standing;
    while !search.clock.over(*standing) {
        let seed = options.seed.wrapping_add(round);
        // No longer than there are expansions left.
        let left = options.limits.iterations.map_or(u64::MAX, |most| most.saturating_sub(search.clock.iterations + 1));
        let most_steps = length.min(u32::try_from(left).unwrap_or(u32::MAX));
        let walked = backend.walk(&walks, most_steps, memory / BELIEFS, seed, &mut || search.clock.late())?;
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
            // What is not needed on the way to b₀ may be all that is too much.
            if backend.count() > most_vectors {
                backend.prune(kept, most_vectors - most_vectors / 4, batch)?;
            }
            if first.bytes + backend.bytes() >= part(FULL) {
                backend.shrink(kept, part(LEFT).saturating_sub(first.bytes), batch)?;
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
        if idle == PATIENCE && horizon < steps(search.model.gamma()) * DEEPER {
            // What lies beyond may be what is missing.
            (horizon, idle) = (2 * horizon, 0);
        } else if idle == PATIENCE {
            search.clock.status.get_or_insert(Status::Stalled);
        }
        length = (2 * length).min(horizon);
        round += 1;
    }
    Ok(())
}
