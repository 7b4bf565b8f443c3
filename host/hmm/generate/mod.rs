//! Models of known families, and random ones to start training from.
//!
//! Equal parameters give equal models, bit for bit, on every machine.

use rand_chacha::rand_core::Rng;

use super::model::{Covariances, Emissions, Hmm, Invalid};
use super::sample::normal;
use super::sequences::{Observations, Sequences};
use crate::common::parameters;
use crate::common::random::{below, random, unit};

mod ice_cream;
mod left_right;
mod uniform;

pub use ice_cream::IceCream;
pub use left_right::LeftRight;
pub use uniform::Uniform;

/// Why there is no such model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A parameter out of its range.
    #[error(transparent)]
    Parameter(#[from] parameters::Error),
    /// The model is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// What states of a random model emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// So many symbols; each distribution is as likely as another.
    Symbols(u32),
    /// Vectors of so many dimensions, with means from a normal distribution of variance 9 and variances from ½ to 2.
    Vectors {
        /// D.
        dimensions: u32,
        /// Whether dimensions are correlated.
        full: bool,
    },
}

impl Kind {
    fn emissions(self, states: u32, random: &mut impl Rng) -> Result<Emissions, Error> {
        let count = |name, found| parameters::count(name, found, 1, 1 << 20);
        Ok(match self {
            Self::Symbols(symbols) => {
                count("symbols", symbols)?;
                let probs = (0..states).flat_map(|_| distribution(random, symbols as usize)).collect();
                Emissions::Categorical { symbols, probs }
            }
            Self::Vectors { dimensions, full } => {
                count("dimensions", dimensions)?;
                let d = dimensions as usize;
                let means = (0..states as usize * d).map(|_| 3.0 * normal(random)).collect();
                let variances: Vec<f64> = (0..states as usize * d).map(|_| 0.5 + 1.5 * unit(random)).collect();
                let covariances = match full {
                    false => Covariances::Diagonal(variances),
                    // D + v vᵀ/D has the eigenvalues of D at least.
                    true => Covariances::Full(
                        variances.chunks_exact(d).flat_map(|variances| correlated(variances, random)).collect(),
                    ),
                };
                Emissions::Gaussian { dimensions, means, covariances }
            }
        })
    }
}

fn correlated(variances: &[f64], random: &mut impl Rng) -> Vec<f64> {
    let d = variances.len();
    let v: Vec<f64> = (0..d).map(|_| normal(random)).collect();
    let entry = |at: usize| v[at / d] * v[at % d] / d as f64 + if at / d == at % d { variances[at / d] } else { 0.0 };
    (0..d * d).map(entry).collect()
}

/// A distribution over n, each as likely as another: Dirichlet's with all parameters 1.
fn distribution(random: &mut impl Rng, n: usize) -> Vec<f64> {
    let mut probs: Vec<f64> = (0..n).map(|_| -libm::log(1.0 - unit(random))).collect();
    let sum: f64 = probs.iter().sum();
    match sum > 0.0 {
        true => probs.iter_mut().for_each(|p| *p /= sum),
        false => probs.fill(1.0 / n as f64),
    }
    probs
}

/// A random model of the shape of `model`, to start training from: what is 0 there is 0 here. Means are observations, and
/// covariances those of all observations.
#[must_use]
pub fn restart(model: &Hmm, sequences: &Sequences, seed: u64, stream: u64) -> Hmm {
    let random = &mut random(seed, stream);
    let n = model.start().len();
    let mut fresh = model.clone().into_parts();
    redraw(&mut fresh.start, None, random);
    for (state, row) in fresh.transitions.chunks_exact_mut(n).enumerate() {
        redraw(row, fresh.end.as_mut().map(|end| &mut end[state]), random);
    }
    match (&mut fresh.emissions, sequences.observations()) {
        (Emissions::Categorical { symbols, probs }, _) => {
            probs.chunks_exact_mut(*symbols as usize).for_each(|row| redraw(row, None, random));
        }
        (Emissions::Gaussian { dimensions, means, covariances }, Observations::Vectors { values, .. }) => {
            let d = *dimensions as usize;
            for mean in means.chunks_exact_mut(d) {
                let at = below(random, sequences.steps() as u64) as usize;
                mean.copy_from_slice(&values[at * d..][..d]);
            }
            let spread = spread(values, d);
            match covariances {
                Covariances::Diagonal(variances) => {
                    variances.iter_mut().enumerate().for_each(|(at, variance)| *variance = spread[at % d]);
                }
                Covariances::Full(matrices) => {
                    for (at, entry) in matrices.iter_mut().enumerate() {
                        let (row, column) = (at / d % d, at % d);
                        *entry = if row == column { spread[row] } else { 0.0 };
                    }
                }
            }
        }
        // Sequences are checked against the model.
        _ => {}
    }
    Hmm::built(fresh)
}

/// Draws what is not 0 anew.
fn redraw(probs: &mut [f64], end: Option<&mut f64>, random: &mut impl Rng) {
    let positive: Vec<&mut f64> = probs.iter_mut().chain(end).filter(|p| **p > 0.0).collect();
    let drawn = distribution(random, positive.len());
    // Nothing may become 0 by chance: it would stay so.
    positive.into_iter().zip(drawn).for_each(|(target, p)| *target = p.max(f64::MIN_POSITIVE));
}

/// The variance of each dimension, above 0.
fn spread(values: &[f64], d: usize) -> Vec<f64> {
    let count = (values.len() / d) as f64;
    let of = |k: usize| {
        let column = || values.iter().skip(k).step_by(d);
        let mean = column().sum::<f64>() / count;
        let variance = column().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
        if variance > 0.0 { variance } else { 1.0 }
    };
    (0..d).map(of).collect()
}
