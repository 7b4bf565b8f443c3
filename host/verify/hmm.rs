//! Likelihoods and best paths of hidden Markov models, between proved bounds.
//!
//! All numbers of the recursions are nonnegative, so rounding every operation down gives a lower bound and rounding up an upper one. A number
//! has a mantissa and an exponent of its own (64 bits): nothing underflows, however long a sequence is, and no scaling is needed.
//!
//! - *Likelihood.* α₁(i) = πᵢ bᵢ(O₁), αₜ(j) = Σᵢ αₜ₋₁(i) aᵢⱼ bⱼ(Oₜ), P(O) = Σ α_T(i) eᵢ (Rabiner, *A Tutorial on Hidden Markov Models*, 1989),
//!   with e = 1 for models without end probabilities.
//! - *Paths.* The maximum over all paths takes the place of the sum. The probability of a path is a product.
//!
//! - *Vectors.* Densities and exponentials are between bounds of their own.
//!
//! No function of a library is trusted: ln and exp are enclosed.

use rayon::prelude::*;
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::sequences::{Observations, Sequences};

use crate::density::Densities;
use crate::elementary::Positive;
use crate::interval::Interval;

/// Why nothing can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproved {
    /// Vectors for a model of symbols, symbols for a model of vectors, or vectors of other dimensions.
    #[error("observations of another kind than the model emits")]
    Kind,
    /// The sequences have a symbol, or the path a state, that the model does not have.
    #[error("{what} {found}, expected one below {expected}")]
    Unknown {
        /// Symbol or state.
        what: &'static str,
        /// Its number.
        found: u32,
        /// The number of them.
        expected: u32,
    },
    /// Densities of channels have no enclosures.
    #[error("likelihoods of channels cannot be proved")]
    Channels,
    /// Another number of states than of observations.
    #[error("a path of {found} states, expected {expected}")]
    Length {
        /// The length of the path.
        found: usize,
        /// The length of the sequence.
        expected: usize,
    },
}

/// What states emit.
enum Emitted<'a> {
    /// B, N × (V + sets).
    Symbols(usize, Vec<Positive>),
    Vectors(Densities<'a>),
}

/// An observation.
enum At<'s> {
    Symbol(usize),
    Vector(&'s [f64]),
}

/// The numbers of a model.
struct Chain<'a> {
    states: usize,
    /// π.
    start: Vec<Positive>,
    /// A, N × N.
    transitions: Vec<Positive>,
    emissions: Emitted<'a>,
    /// e.
    end: Vec<Positive>,
}

impl<'a> Chain<'a> {
    fn new(model: &'a Hmm, sets: &[Vec<u32>]) -> Result<Self, Unproved> {
        let states = model.states() as usize;
        let positive = |numbers: &[f64]| numbers.iter().map(|&x| Positive::new(x)).collect::<Vec<_>>();
        let emissions = match model.emissions() {
            Emissions::Categorical { symbols, probs } => {
                let expected = *symbols;
                if let Some(&found) = sets.iter().flatten().find(|&&symbol| symbol >= expected) {
                    return Err(Unproved::Unknown { what: "symbol", found, expected });
                }
                let of_state = |row: &[f64]| {
                    // The set of all symbols has probability 1.
                    let sum = |set: &Vec<u32>| match set.len() == row.len() {
                        true => Positive::new(1.0),
                        false => set.iter().fold(Positive::ZERO, |sum, &v| sum.plus(Positive::new(row[v as usize]))),
                    };
                    positive(row).into_iter().chain(sets.iter().map(sum)).collect::<Vec<_>>()
                };
                let width = expected as usize + sets.len();
                Emitted::Symbols(width, probs.chunks(expected as usize).flat_map(of_state).collect())
            }
            Emissions::Gaussian { dimensions, means, covariances } => {
                Emitted::Vectors(Densities::new(*dimensions, means, covariances))
            }
            Emissions::Channels(_) => return Err(Unproved::Channels),
        };
        Ok(Self {
            states,
            start: positive(model.start()),
            transitions: positive(model.transitions()),
            emissions,
            end: model.end().map_or_else(|| vec![Positive::new(1.0); states], positive),
        })
    }

    /// The observations of a sequence.
    fn observations<'s>(&self, sequences: &'s Sequences, sequence: usize) -> Result<Vec<At<'s>>, Unproved> {
        let range = sequences.range(sequence);
        match (&self.emissions, sequences.observations()) {
            (Emitted::Symbols(expected, _), Observations::Symbols(symbols)) => {
                let at = |&symbol: &u32| match (symbol as usize) < *expected {
                    true => Ok(At::Symbol(symbol as usize)),
                    false => Err(Unproved::Unknown { what: "symbol", found: symbol, expected: *expected as u32 }),
                };
                symbols[range].iter().map(at).collect()
            }
            (Emitted::Vectors(densities), Observations::Vectors { dimensions, values })
                if *dimensions as usize == densities.dimensions =>
            {
                let d = densities.dimensions;
                Ok(range.map(|t| At::Vector(&values[t * d..(t + 1) * d])).collect())
            }
            _ => Err(Unproved::Kind),
        }
    }

    /// b(O) of a state; `None` if nothing is proved.
    fn emits(&self, state: usize, at: &At<'_>) -> Option<Positive> {
        match (&self.emissions, at) {
            (Emitted::Symbols(width, probs), At::Symbol(symbol)) => Some(probs[state * width + symbol]),
            (Emitted::Vectors(densities), At::Vector(x)) => densities.at(state, x),
            _ => None,
        }
    }

    /// The sum over all paths, or the largest path; `None` if nothing is proved.
    fn forward(&self, observations: &[At<'_>], join: fn(Positive, Positive) -> Positive) -> Option<Positive> {
        let states = self.states;
        let mut values = vec![Positive::new(1.0); states];
        for (t, at) in observations.iter().enumerate() {
            let next = |to: usize| {
                let arrived = match t {
                    0 => self.start[to],
                    _ => (0..states).fold(Positive::ZERO, |all, from| {
                        join(all, values[from].times(self.transitions[from * states + to]))
                    }),
                };
                Some(arrived.times(self.emits(to, at)?))
            };
            values = (0..states).map(next).collect::<Option<_>>()?;
        }
        let ended = values.iter().zip(&self.end).map(|(value, &end)| value.times(end));
        Some(ended.fold(Positive::ZERO, join))
    }

    fn path(&self, observations: &[At<'_>], path: &[u32]) -> Option<Positive> {
        let mut value = Positive::new(1.0);
        let mut before = None;
        for (at, &state) in observations.iter().zip(path) {
            let state = state as usize;
            let step = match before {
                None => self.start[state],
                Some(before) => self.transitions[before * self.states + state],
            };
            value = value.times(step).times(self.emits(state, at)?);
            before = Some(state);
        }
        Some(before.map_or(value, |state| value.times(self.end[state])))
    }
}

/// ln P(O) of each sequence between proved bounds; −∞ where the model cannot emit it, all numbers where a covariance matrix is not proved to be
/// positive definite. A symbol V + k stands for any of those in `sets[k]`.
///
/// # Errors
/// [`Unproved`]: the model emits observations of another kind, or lacks a symbol.
pub fn likelihoods(model: &Hmm, sequences: &Sequences, sets: &[Vec<u32>]) -> Result<Vec<Interval>, Unproved> {
    let chain = Chain::new(model, sets)?;
    let of_sequence = |sequence: usize| {
        let observations = chain.observations(sequences, sequence)?;
        Ok(chain.forward(&observations, Positive::plus).map_or(Interval::ALL, Positive::ln))
    };
    (0..sequences.len()).into_par_iter().map(of_sequence).collect()
}

/// By how much ln P(O, q) of a path q for each sequence is below that of a best path, between proved bounds. `states` holds the paths one
/// after the other. 0 where no path is possible. `sets` are those of [`likelihoods`].
///
/// # Errors
/// [`Unproved`]: the model emits observations of another kind, or lacks a symbol or a state.
pub fn shortfalls(
    model: &Hmm,
    sequences: &Sequences,
    sets: &[Vec<u32>],
    states: &[u32],
) -> Result<Vec<Interval>, Unproved> {
    let chain = Chain::new(model, sets)?;
    if states.len() != sequences.steps() {
        return Err(Unproved::Length { found: states.len(), expected: sequences.steps() });
    }
    let of_sequence = |sequence: usize| {
        let observations = chain.observations(sequences, sequence)?;
        let nothing = Interval::new(0.0, f64::INFINITY);
        let Some(best) = chain.forward(&observations, Positive::larger) else { return Ok(nothing) };
        let best = best.ln();
        if best.hi == f64::NEG_INFINITY {
            return Ok(Interval::ZERO);
        }
        let path = &states[sequences.range(sequence)];
        let expected = model.states();
        if let Some(&found) = path.iter().find(|&&state| state >= expected) {
            return Err(Unproved::Unknown { what: "state", found, expected });
        }
        let Some(own) = chain.path(&observations, path) else { return Ok(nothing) };
        let own = own.ln();
        if own.hi == f64::NEG_INFINITY {
            return Ok(Interval::point(f64::INFINITY));
        }
        let gap = best - own;
        Ok(Interval::new(gap.lo.max(0.0), gap.hi.max(0.0)))
    };
    (0..sequences.len()).into_par_iter().map(of_sequence).collect()
}
