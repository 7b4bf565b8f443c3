//! Several hidden paths of a sequence: the K most probable ones, and draws from their distribution P(q | O).
//!
//! Both run on all cores of the CPU, in `f64`. Numbers that leave its range have an exponent of their own.

use rayon::prelude::*;

use crate::backends::cpu::Exact;
use crate::backends::cpu::list::{ListViterbi, bytes};
use crate::model::Hmm;
use crate::place::{self, finished};
use crate::sequences::Sequences;
use warpkov_common::interrupt;
use warpkov_common::memory::available;

/// Memory for the list Viterbi algorithm, in bytes, if so much is available.
pub const MEMORY: u64 = 8 << 30;

/// Why there are no paths.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list Viterbi algorithm needs too much memory.
    #[error(
        "{count} best paths of sequence {sequence} need {:.1} GiB, 8 bytes for each step, state and path: expected at most \
         {:.1} GiB, as of fewer paths or a shorter sequence",
        *bytes as f64 / f64::from(1 << 30), *limit as f64 / f64::from(1 << 30)
    )]
    Memory {
        /// K.
        count: u32,
        /// The sequence, from 1.
        sequence: usize,
        /// What it needs.
        bytes: u64,
        /// What there is.
        limit: u64,
    },
    /// A stop was requested.
    #[error(transparent)]
    Stopped(#[from] place::Error),
}

/// A path q of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// Its states, T.
    pub states: Vec<u32>,
    /// ln P(O, q).
    pub score: f64,
}

/// The `count` most probable paths q of each sequence, by descending P(O, q); all with P(O, q) > 0 if they are fewer. Ties are
/// ordered as those of [`Decoded`](crate::backend::Decoded), and the first path is the one that it has. Scores do not rise: where
/// rounding would let one rise, it is that of the path before.
///
/// A sequence takes O(T (N² + N K ln N)) operations and 8 T N K bytes.
///
/// ```
/// use warpkov_hmm::generate::IceCream;
/// use warpkov_hmm::paths::best_paths;
/// use warpkov_hmm::sequences::Sequences;
///
/// let model = IceCream.generate()?;
/// let days = Sequences::of_symbols(&[[1, 2, 2]])?;
/// let best = best_paths(&model, &days, 2)?;
/// assert_eq!(best[0][0].states, [1, 1, 1]);
/// assert!(best[0][0].score > best[0][1].score);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Memory`] if a sequence needs more than [`MEMORY`], or than the machine has; [`Error::Stopped`].
///
/// # Panics
/// If the sequences do not [fit](Sequences::fit) the model.
pub fn best_paths(model: &Hmm, sequences: &Sequences, count: u32) -> Result<Vec<Vec<Scored>>, Error> {
    assert!(sequences.fit(model), "a model that emits what was observed");
    let limit = available().unwrap_or(MEMORY).min(MEMORY);
    let needed = |sequence: usize| bytes(model.start().len(), sequences.range(sequence).len(), count);
    let list = ListViterbi::new(model);
    let of = |sequence: usize| {
        let mut least = f64::INFINITY;
        let scored = |states: Vec<u32>| {
            least = list.score(sequences, sequence, &states).min(least);
            Scored { states, score: least }
        };
        list.best_paths(sequences, sequence, count).into_iter().map(scored).collect()
    };
    let mut all = Vec::with_capacity(sequences.len());
    while all.len() < sequences.len() {
        // As many at once as memory permits.
        let (first, mut total) = (all.len(), 0_u64);
        let fits = |sequence: &usize| {
            total = total.saturating_add(needed(*sequence));
            total <= limit
        };
        let last = first + (first..sequences.len()).take_while(fits).count();
        if first == last {
            return Err(Error::Memory { count, sequence: first + 1, bytes: needed(first), limit });
        }
        all.par_extend((first..last).into_par_iter().map(of));
    }
    finished()?;
    Ok(all)
}

/// `count` paths of each sequence, drawn from P(q | O); none of an impossible sequence. Path i of sequence j depends on the
/// seed, i and j alone.
///
/// A sequence takes the forward recursion, and O(T N) operations per path. Known states of the sequences are kept.
///
/// # Errors
/// [`Error::Stopped`].
///
/// # Panics
/// If the sequences do not [fit](Sequences::fit) the model.
pub fn sample_paths(model: &Hmm, sequences: &Sequences, count: u32, seed: u64) -> Result<Vec<Vec<Scored>>, Error> {
    assert!(sequences.fit(model), "a model that emits what was observed");
    let (exact, list) = (Exact::new(model), ListViterbi::new(model));
    let of = |sequence: usize| -> Vec<Scored> {
        if interrupt::requested() {
            return Vec::new();
        }
        let scored = |states: Vec<u32>| Scored { score: list.score(sequences, sequence, &states), states };
        exact.sample_paths(sequences, sequence, count, seed).into_iter().map(scored).collect()
    };
    let all = (0..sequences.len()).into_par_iter().map(of).collect();
    finished()?;
    Ok(all)
}
