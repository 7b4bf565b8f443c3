//! Sampling of sequences from a model.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use rayon::prelude::*;

use super::covariances::normal;
use super::model::{Covariances, Emissions, Hmm, cholesky};
use super::sequences::{self, Observations, Sequences, offsets};
use warpkov_common::random::{draw, numbered, random};

/// Why sampling fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Without a length, the model's sequences would never end.
    #[error("the model has no end probabilities: expected a length")]
    Endless,
    /// The number of sequences or their length is 0.
    #[error("expected at least one sequence, and a length of at least 1")]
    None,
    /// A model of channels does not say all that its vectors depend on.
    #[error("{0}: the model cannot be sampled")]
    Conditional(String),
    /// A drawn vector is not finite.
    #[error(transparent)]
    Sequences(#[from] sequences::Invalid),
}

/// Sampled sequences and their hidden paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The observations.
    pub sequences: Sequences,
    /// The hidden state of each observation, ΣT.
    pub states: Vec<u32>,
}

/// Draws `count` sequences of `length` observations each. With end probabilities, a sequence may end earlier, and
/// `length` may be `None`.
///
/// Each sequence has a random stream of its own, so sequence i depends on the seed and i, not on `count`.
///
/// # Errors
/// [`Error::None`] if `count` or `length` is 0; [`Error::Endless`] without a length for a model without positive end
/// probabilities; [`Error::Sequences`] if a drawn vector is not finite; [`Error::Conditional`] if the vectors of a model of channels depend
/// on columns that it does not emit, or on a number of trials that it does not have.
pub fn sample(model: &Hmm, count: usize, length: Option<usize>, seed: u64) -> Result<Sample, Error> {
    if count == 0 || length == Some(0) {
        return Err(Error::None);
    }
    if length.is_none() && model.end().is_none_or(|end| end.iter().all(|p| *p == 0.0)) {
        return Err(Error::Endless);
    }
    let factors = factors(model);
    let drawn: Result<Vec<_>, Error> = (0..count as u64)
        .into_par_iter()
        .map(|sequence| -> Result<_, Error> {
            let mut random = random(seed, sequence);
            let states = path(model, length.unwrap_or(usize::MAX), &mut random);
            let mut seen = Seen::default();
            for &state in &states {
                seen.emit(model, &factors, state as usize, &mut random)?;
            }
            Ok((states, seen))
        })
        .collect();
    let drawn = drawn?;
    let offsets = offsets(drawn.iter().map(|(states, _)| states.len()));
    let (states, seen): (Vec<_>, Vec<_>) = drawn.into_iter().unzip();
    let observations = match model.emissions().dimensions() {
        None => Observations::Symbols(seen.into_iter().flat_map(|seen| seen.symbols).collect()),
        Some(dimensions) => {
            Observations::Vectors { dimensions, values: seen.into_iter().flat_map(|seen| seen.values).collect() }
        }
    };
    Ok(Sample { sequences: Sequences::new(offsets, observations)?, states: states.concat() })
}

/// A hidden path of at most `length` states.
fn path(model: &Hmm, length: usize, random: &mut impl Rng) -> Vec<u32> {
    let mut states = Vec::new();
    let mut next = draw(random, numbered(model.start()));
    while let Some(state) = next {
        states.push(state);
        if states.len() == length {
            break;
        }
        let end = model.end().map_or(0.0, |end| end[state as usize]);
        let ending = (end > 0.0).then_some((None, end));
        let going = numbered(model.row(state as usize)).map(|(next, prob)| (Some(next), prob));
        next = draw(random, ending.into_iter().chain(going)).flatten();
    }
    states
}

#[derive(Default)]
struct Seen {
    symbols: Vec<u32>,
    values: Vec<f64>,
}

impl Seen {
    fn emit(&mut self, model: &Hmm, factors: &[Vec<f64>], state: usize, random: &mut ChaCha8Rng) -> Result<(), Error> {
        match model.emissions() {
            Emissions::Categorical { symbols, probs } => {
                let row = &probs[state * *symbols as usize..][..*symbols as usize];
                self.symbols.extend(draw(random, numbered(row)));
            }
            Emissions::Gaussian { dimensions, means, .. } => {
                let d = *dimensions as usize;
                let normal: Vec<f64> = (0..d).map(|_| normal(random)).collect();
                for k in 0..d {
                    let row = &factors[state][k * d..=k * d + k];
                    let shift: f64 = row.iter().zip(&normal).map(|(factor, x)| factor * x).sum();
                    self.values.push(means[state * d + k] + shift);
                }
            }
            Emissions::Channels(channels) => {
                let lags = channels.lags() * channels.dimensions as usize;
                let before = &self.values[self.values.len().saturating_sub(lags)..];
                let row = channels.draw(model.start().len(), state, before, random).map_err(Error::Conditional)?;
                self.values.extend(row);
            }
        }
        Ok(())
    }
}

/// Cholesky factor L of Σ for each state.
fn factors(model: &Hmm) -> Vec<Vec<f64>> {
    let Emissions::Gaussian { dimensions, covariances, .. } = model.emissions() else { return Vec::new() };
    let d = *dimensions as usize;
    match covariances {
        Covariances::Diagonal(variances) => {
            let factor = |variances: &[f64]| {
                let mut factor = vec![0.0; d * d];
                (0..d).for_each(|k| factor[k * d + k] = variances[k].sqrt());
                factor
            };
            variances.chunks_exact(d).map(factor).collect()
        }
        // `Hmm` guarantees positive definite matrices, so `cholesky` succeeds.
        Covariances::Full(matrices) => {
            matrices.chunks_exact(d * d).map(|matrix| cholesky(matrix, d).unwrap_or_default()).collect()
        }
    }
}
