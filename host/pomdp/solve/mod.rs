//! Point-based solvers: bounds on V\* from both sides that close at b₀.
//!
//! A lower bound is Γ, vectors of [backups](super::backup) at beliefs B that an [expansion](expand) picks; an upper bound is
//! what the [fast informed bound](bounds::fib) says, lowered at the same beliefs and [interpolated](bounds::sawtooth).
//!
//! > B ← {b₀}, Γ ← [blind policies](bounds::blind)
//! > until the gap at b₀ is small, or time or memory are used up:
//! >   B ← B ∪ expand(B)
//! >   Γ ← Γ ∪ {backup(b)} for b that the [scheme] says
//! >   Γ ← those vectors that are the best at a belief of B

use std::convert::Infallible;
use std::time::Instant;

use self::clock::Clock;
use self::expand::Expand;
use self::options::{Expansion, Scheme, Solution, SolveOptions, Status};
use self::search::Search;
use super::backup::Backup;
use super::model::Pomdp;
use crate::backend::cpu::PointBased;
use crate::mdp::SolveError;
use crate::mdp::generate::random;

pub mod bounds;
pub mod clock;
pub mod exact;
pub mod expand;
pub mod graph;
pub mod options;
pub mod report;
pub mod scheme;
pub mod search;

pub use clock::Observer;

/// Expansions without any effect after which a run is over.
const PATIENCE: u32 = 64;

/// Why a model is not solved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process beneath cannot be.
    #[error(transparent)]
    Process(#[from] SolveError),
}

impl From<Infallible> for Error {
    fn from(error: Infallible) -> Self {
        match error {}
    }
}

/// Solves a model on the CPU.
///
/// # Errors
/// If γ = 1. That a run meets a limit is no error but its [`Status`].
pub fn solve_with(model: &Pomdp, options: &SolveOptions, observe: Observer) -> Result<Solution, Error> {
    let maximized = model.to_maximize();
    let sign = model.process.objective.sign();
    solve_on(&mut PointBased::new(&maximized), &maximized, sign, options, observe)
}

/// Solves a model that is to be maximised, of which `backend` does the backups but for those of [`Scheme::Path`]. What is
/// reported is multiplied by `sign`: −1 where rewards are negated costs.
///
/// # Errors
/// If γ = 1, and those of the backend.
pub fn solve_on<B: Backup>(
    backend: &mut B,
    model: &Pomdp,
    sign: f64,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Solution, Error>
where
    Error: From<B::Error>,
{
    let start = Instant::now();
    let (expansion, scheme, notes) = chosen(options);
    let gap = options.limits.gap;
    // Vectors that are better by less do not help to close the gap.
    let worth = gap * (1.0 - model.gamma()) / 10.0;
    let mut random = random(options.seed, 0);
    let mut search = Search::new(model, gap, options.limits.vectors)?;
    let mut clock = Clock::new(start, options.limits, sign, observe);
    let mut expand = Expand::new(expansion, options.beliefs);
    let mut idle = 0;
    while !clock.over(&mut search) {
        let known = search.points.len();
        let sampled = expand.sample(&mut search, &mut random, gap, idle > 0);
        let mut progress = match scheme {
            Scheme::Path => scheme::path(&mut search, &mut clock, &sampled, worth),
            Scheme::Full => scheme::full(&mut search, &mut clock, backend, worth)?,
            Scheme::Randomized => scheme::randomized(&mut search, &mut clock, backend, &mut random, worth)?,
        };
        if scheme != Scheme::Path {
            let root = search.root;
            progress += scheme::tighten(&mut search, &mut clock, &sampled);
            progress += search.tighten(root);
        }
        search.prune_if_grown();
        clock.iterations += 1;
        idle = if progress > 0.0 || search.points.len() > known { 0 } else { idle + 1 };
        if idle == PATIENCE {
            clock.status.get_or_insert(Status::Stalled);
        }
    }
    search.prune();
    let (status, rounds) = clock.end(&mut search);
    let mut vectors = search.into_vectors();
    vectors.values.iter_mut().for_each(|value| *value *= sign);
    let status = status.unwrap_or(Status::Interrupted);
    Ok(Solution { vectors, status, rounds, expansion, scheme, notes })
}

/// Expansion and scheme, and what there is to say of the choice.
fn chosen(options: &SolveOptions) -> (Expansion, Scheme, Vec<String>) {
    let mut notes = Vec::new();
    let expansion = options.expansion.unwrap_or_else(|| {
        notes.push("auto chose mixed: its bounds close fastest on most models".to_owned());
        Expansion::Mixed
    });
    let scheme = options.scheme.unwrap_or(match expansion {
        Expansion::Random => Scheme::Randomized,
        Expansion::Ssea | Expansion::Ger => Scheme::Full,
        Expansion::Fsvi | Expansion::Hsvi | Expansion::Sarsop | Expansion::Mixed => Scheme::Path,
    });
    (expansion, scheme, notes)
}
