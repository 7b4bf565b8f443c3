//! How long, and how often, sequences are expected to be in each state.

use rayon::prelude::*;

use crate::backends::cpu::Exact;
use crate::model::{Hmm, StateClasses};
use crate::place::{self, finished};
use crate::sequences::Sequences;
use warpkov_common::interrupt;

/// Expectations given the observations, for M sequences and K classes of states.
#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    /// K.
    pub classes: usize,
    /// The number of steps in each class, Σₜ γₜ, M × K. Each row sums to T; to 0 of an impossible sequence.
    pub time: Vec<f64>,
    /// The number of visits of each class, M × K: runs of steps in its states. A class in which the sequence starts counts.
    pub visits: Vec<f64>,
}

/// The occupancy of the states, or of classes of states: sums over a class, in which moves within it are no visits.
///
/// > time(i) = Σₜ γₜ(i), visits(i) = γ₁(i) + Σₜ Σ_{k ≠ i} ξₜ(k, i)
///
/// Both are sums of nonnegative numbers, so small ones have no cancellation. Runs on all cores of the CPU, with an exponent for each
/// number.
///
/// ```
/// use warpkov_hmm::generate::IceCream;
/// use warpkov_hmm::occupancy::occupancy;
/// use warpkov_hmm::sequences::Sequences;
///
/// let model = IceCream.generate()?;
/// let days = Sequences::of_symbols(&[[1, 2, 2]])?;
/// let found = occupancy(&model, &days, None)?;
/// assert!((found.time[0] + found.time[1] - 3.0).abs() < 1e-12);
/// assert!(found.visits[1] < found.time[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a stop is requested.
///
/// # Panics
/// If the sequences do not [fit](Sequences::fit) the model.
pub fn occupancy(
    model: &Hmm,
    sequences: &Sequences,
    classes: Option<&StateClasses>,
) -> Result<Occupancy, place::Error> {
    assert!(sequences.fit(model), "a model that emits what was observed");
    let exact = Exact::new(model);
    let states: Vec<u32> = (0..model.states()).collect();
    let (of_state, count) = match classes {
        Some(StateClasses { names, of_state }) => (of_state, names.len()),
        None => (&states, states.len()),
    };
    let of = |sequence: usize| match interrupt::requested() {
        true => Default::default(),
        false => exact.occupancy(sequences, sequence, of_state, count),
    };
    let rows: Vec<[Vec<f64>; 2]> = (0..sequences.len()).into_par_iter().map(of).collect();
    finished()?;
    let (time, visits): (Vec<_>, Vec<_>) = rows.into_iter().map(|[time, visits]| (time, visits)).unzip();
    Ok(Occupancy { classes: count, time: time.concat(), visits: visits.concat() })
}
