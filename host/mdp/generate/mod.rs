//! Generators of model families with a few parameters, for tests, benchmarks and tutorials.
//!
//! Equal parameters give bit-identical models on every machine and any number of cores: each row draws from its own
//! random stream, and no probability depends on a library's transcendental functions.
//!
//! The states of most families are numbered by a formula. Method `source` returns such a model without its rows, which are
//! made [on demand](crate::model::Whole): each rank makes those of its own states, and a file is written block by block.
//! Method `generate` makes all rows at once, by the same code. The states of the protocols are found by a search from a start
//! state, which finds all or none: they have `generate` only.
//!
//! | Family | Model |
//! | --- | --- |
//! | [`SlipGrid`] | a grid in which moves slip sideways, with walls, obstacles and a goal |
//! | [`WetFloor`] | a grid with scattered reward states; moves have 1, 2 or 4 outcomes |
//! | [`SuttonGrid`] | Sutton and Barto's 5 × 5 grid |
//! | [`Garnet`] | random models, optionally with ragged actions and long rows |
//! | [`Forest`], [`Gambler`], [`CarRental`], [`Inventory`] | textbook models |
//! | [`QueueNetwork`] | tandem queues with controlled servers: recurrent and slowly mixing |
//! | [`Consensus`], [`Firewire`], [`Csma`], [`Zeroconf`] | randomised protocols, undiscounted |

use std::collections::HashMap;
use std::ops::Range;

use rand_chacha::rand_core::Rng;
use warpkov_common::parallel;

use super::model::validate::Invalid;
use super::model::whole::Column;
use super::model::{CHUNK, Csr, split};
use warpkov_common::parameters;
use warpkov_common::random::below;

mod car_rental;
mod consensus;
mod csma;
mod demand;
pub mod explore;
mod firewire;
mod forest;
mod gambler;
mod garnet;
mod grid;
mod inventory;
mod queueing;
mod sutton;
mod wetfloor;
mod zeroconf;

pub use car_rental::CarRental;
pub use consensus::Consensus;
pub use csma::Csma;
pub use firewire::Firewire;
pub use forest::Forest;
pub use gambler::Gambler;
pub use garnet::{Garnet, RewardOf};
pub use grid::{GridPatterns, SlipGrid};
pub use inventory::Inventory;
pub use queueing::QueueNetwork;
pub use sutton::SuttonGrid;
pub use wetfloor::{TABLE_6_1, WetFloor};
pub use zeroconf::Zeroconf;

/// Why a generator returns no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A parameter is out of its range.
    #[error(transparent)]
    Parameter(#[from] parameters::Error),
    /// Walls and obstacles outnumber the cells other than the goal.
    #[error("{walls} walls and {obstacles} obstacles do not fit in the {free} cells other than the goal")]
    Full {
        /// Requested walls.
        walls: u32,
        /// Requested obstacles.
        obstacles: u32,
        /// Cells other than the goal.
        free: u32,
    },
    /// The part of a rank has too many cells.
    #[error(
        "a grid of {width} × {height} cells on {ranks} ranks: expected at most {most} cells on a rank, at least {least} ranks",
        most = u32::MAX,
        least = (u64::from(*width) * u64::from(*height)).div_ceil(u32::MAX.into()).max(1)
    )]
    Part {
        /// Cells in a row.
        width: u32,
        /// Cells in a column.
        height: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// The generated model is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// The most states of a model whose rows are made on demand.
const MOST_STATES: u64 = 1 << 48;

/// `count` distinct numbers in 0..n: the first `count` steps of a Fisher–Yates shuffle.
fn choose(random: &mut impl Rng, n: u32, count: usize) -> Vec<u32> {
    /// Numbers for each one chosen, from which on only those that the shuffle has moved are in memory.
    const SPARSE: u32 = 16;

    let mut others = (0..count).map(|i| i + below(random, u64::from(n) - i as u64) as usize);
    if count < (n / SPARSE) as usize {
        let mut moved = HashMap::new();
        let chosen = others.enumerate().map(|(i, other)| {
            let here = moved.remove(&i).unwrap_or(i as u32);
            if other == i { here } else { moved.insert(other, here).unwrap_or(other as u32) }
        });
        return chosen.collect();
    }
    let mut numbers: Vec<u32> = (0..n).collect();
    (0..count).zip(&mut others).for_each(|(i, other)| numbers.swap(i, other));
    numbers.truncate(count);
    numbers
}

/// Poisson probabilities of 0 to `most` events, conditioned on at most `most` events.
///
/// The weights are products of ratios away from the mode, divided by their sum. Nothing overflows.
fn poisson(rate: f64, most: usize) -> Vec<f64> {
    let mut weights = vec![1.0; most + 1];
    let mode = most.min(rate as usize);
    for k in mode..most {
        weights[k + 1] = weights[k] * rate / (k + 1) as f64;
    }
    for k in (1..=mode).rev() {
        weights[k - 1] = weights[k] * k as f64 / rate;
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// A vector of `length` zeros.
///
/// # Errors
/// The allocation fails.
fn zeros<T: Copy + Default>(length: usize) -> Result<Vec<T>, Error> {
    let mut probe = Vec::<T>::new();
    probe.try_reserve_exact(length).map_err(|_| parameters::Error::Memory { elements: length as u64 })?;
    // Keeps the compiler from removing the allocation.
    drop(std::hint::black_box(probe));
    Ok(vec![T::default(); length])
}

/// Adds to each number those before it.
fn prefix_sum(numbers: &mut [u64]) {
    let mut sum = 0;
    for number in numbers {
        sum += *number;
        *number = sum;
    }
}

/// The arrays of a sparse matrix.
struct Arrays<C> {
    row_ptr: Vec<u64>,
    col: Vec<C>,
    val: Vec<f64>,
}

/// The matrix of rows that have `places`, each with `length(place)` entries, `entries(place)`. Three passes on all cores: row
/// lengths, prefix sum, entries.
fn arrays<C: Column, P: Iterator, E: Iterator<Item = (N, f64)>, N: Into<u64>>(
    rows: usize,
    places: impl Fn(Range<usize>) -> P + Sync,
    length: impl Fn(P::Item) -> usize + Sync,
    entries: impl Fn(P::Item) -> E + Sync,
) -> Result<Arrays<C>, Error> {
    let mut row_ptr = zeros(rows + 1)?;
    parallel::map(row_ptr[1..].chunks_mut(CHUNK).enumerate(), |(chunk, lengths)| {
        let first = chunk * CHUNK;
        for (place, target) in places(first..first + lengths.len()).zip(lengths) {
            *target = length(place) as u64;
        }
    });
    prefix_sum(&mut row_ptr);
    let count = row_ptr[rows] as usize;
    let (mut col, mut val) = (zeros(count)?, zeros(count)?);
    let chunks = split(&row_ptr, &mut col).into_iter().zip(split(&row_ptr, &mut val));
    parallel::map(chunks, |((first, col), (_, val))| {
        let rows = first..rows.min(first + CHUNK);
        for ((found, value), target) in places(rows).flat_map(&entries).zip(col.iter_mut().zip(val)) {
            (*target.0, *target.1) = (C::from_number(found.into()), value);
        }
    });
    Ok(Arrays { row_ptr, col, val })
}

/// The matrix with these rows. Each iterator runs twice.
pub fn matrix<I: Iterator<Item = (u32, f64)>>(rows: usize, entries: impl Fn(usize) -> I + Sync) -> Result<Csr, Error> {
    let Arrays { row_ptr, col, val } = arrays(rows, |rows| rows, |row| entries(row).count(), &entries)?;
    Ok(Csr::built(row_ptr, col, val))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_matches_tables() {
        // e⁻³ 3ᵏ / k!
        let three = poisson(3.0, 60);
        let expected = [0.049787068367863944, 0.14936120510359185, 0.22404180765538775, 0.22404180765538775];
        assert!(three.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-16), "{three:?}");
        assert_eq!(poisson(0.0, 2), [1.0, 0.0, 0.0]);
        // The mode of 1000 is 1000^1000 e^-1000 / 1000! = 0.01261461134.
        assert!((poisson(1000.0, 2000)[1000] - 0.012_614_611_34).abs() < 1e-10);
    }

    #[test]
    fn too_much_memory_is_an_error() {
        let message = matrix(usize::MAX / 16, |_| std::iter::empty()).err().unwrap().to_string();
        let expected = format!("an array of {} elements cannot be allocated", usize::MAX / 16 + 1);
        assert!(message.ends_with(&expected), "{message}");
    }
}
