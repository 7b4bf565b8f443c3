//! Generators of models: known families, and random starting points for training.
//!
//! Equal parameters give equal bits on every machine.

use rand_chacha::rand_core::Rng;

use super::backends::cpu::ChannelDensities;
use super::channels::{Channels, Family};
use super::covariances::normal;
use super::maximise::{Spread, maximise_channels};
use super::model::{Covariances, Emissions, Hmm, Invalid};
use super::options::Options;
use super::sequences::{Observations, Sequences};
use warpkov_common::choice::choice;
use warpkov_common::parameters;
use warpkov_common::random::{below, random, unit};

mod clusters;
mod ice_cream;
mod left_right;
mod uniform;

pub use ice_cream::IceCream;
pub use left_right::LeftRight;
pub use uniform::Uniform;

/// Why generation fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Parameter(#[from] parameters::Error),
    /// The generated model violates an invariant.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Emissions of a random model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This number of symbols, with uniformly drawn distributions.
    Symbols(u32),
    /// Vectors. Means are drawn from 𝒩(0, 9), variances uniformly from [½, 2).
    Vectors {
        /// D, the dimension.
        dimensions: u32,
        /// Whether covariance matrices are full.
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
                    // diag(variances) + v vᵀ / D is positive definite.
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

/// A uniformly drawn distribution over n outcomes: Dirichlet with all parameters 1.
fn distribution(random: &mut impl Rng, n: usize) -> Vec<f64> {
    let mut probs: Vec<f64> = (0..n).map(|_| -libm::log(1.0 - unit(random))).collect();
    let sum: f64 = probs.iter().sum();
    match sum > 0.0 {
        true => probs.iter_mut().for_each(|p| *p /= sum),
        false => probs.fill(1.0 / n as f64),
    }
    probs
}

choice! {
    /// Means of random starting points for training.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Start {
        /// Means are observations.
        #[default]
        Random = "random",
        /// Means are centres of clusters.
        KMeans = "kmeans",
    }
}

impl Start {
    /// The starting point number `stream`: that of [`restart`], but for [`KMeans`](Self::KMeans) with the centres of clusters of the
    /// observations as means, by k-means++ and ten steps of Lloyd's algorithm, drawn anew for each number, and the variances about them.
    /// Symbols have no clusters.
    #[must_use]
    pub fn model(self, model: &Hmm, sequences: &Sequences, seed: u64, stream: u64) -> Hmm {
        let mut fresh = restart(model, sequences, seed, stream);
        if self == Self::KMeans {
            let variances = spread(sequences);
            fresh.update(|parts| {
                if let Emissions::Gaussian { means, covariances, .. } = &mut parts.emissions {
                    let random = &mut random(seed ^ CLUSTERS, stream);
                    spread_out(covariances, &clusters::centres(means, sequences, &variances, random));
                }
            });
        }
        equal_steps(fresh)
    }
}

/// Other random numbers than those of the chain.
const CLUSTERS: u64 = 1 << 63;

/// A random starting point for training, with the shape and the zeros of `model`. Means are randomly chosen
/// observations, with the means of `model` where components are missing; covariances are diagonal, with the variances of
/// all observations. Channels have the M step of a few random observations for each state, beside all observations as one.
#[must_use]
pub fn restart(model: &Hmm, sequences: &Sequences, seed: u64, stream: u64) -> Hmm {
    let random = &mut random(seed, stream);
    let n = model.start().len();
    let mut restarted = model.clone();
    restarted.update_segments(|fresh, segments| match segments {
        Some(segments) => {
            segments.change(|probs, end| redraw(probs, end, random));
            fresh.take_chain(segments);
        }
        None => {
            redraw(&mut fresh.start, None, random);
            for (state, row) in fresh.transitions.chunks_exact_mut(n).enumerate() {
                redraw(row, fresh.end.as_mut().map(|end| &mut end[state]), random);
            }
        }
    });
    restarted.update(|fresh| match (&mut fresh.emissions, sequences.observations()) {
        (Emissions::Categorical { symbols, probs }, _) => {
            probs.chunks_exact_mut(*symbols as usize).for_each(|row| redraw(row, None, random));
        }
        (Emissions::Gaussian { dimensions, means, covariances }, Observations::Vectors { values, .. }) => {
            let d = *dimensions as usize;
            for mean in means.chunks_exact_mut(d) {
                let at = below(random, sequences.steps() as u64) as usize;
                let observed = mean.iter_mut().zip(&values[at * d..][..d]).filter(|(_, x)| !x.is_nan());
                observed.for_each(|(mean, x)| *mean = *x);
            }
            spread_out(covariances, &spread(sequences));
        }
        (Emissions::Channels(channels), Observations::Vectors { .. }) => {
            redraw_channels(channels, n, sequences, random)
        }
        // Unreachable: the sequences fit the model.
        _ => {}
    });
    equal_steps(restarted)
}

/// The model with the emissions of the first step of each duration in all its steps.
fn equal_steps(mut model: Hmm) -> Hmm {
    if let Some(segments) = model.segments() {
        let (n, firsts) = (model.start().len(), segments.firsts());
        let of_state: Vec<u32> = segments.of_state().into_iter().map(|i| firsts[i as usize]).collect();
        model.update(|parts| parts.emissions = parts.emissions.of_states(n, &of_state));
    }
    model
}

/// Observations that the parameters of a state are drawn from.
const DRAWN: usize = 5;

fn redraw_channels(channels: &mut Channels, n: usize, sequences: &Sequences, random: &mut impl Rng) {
    let (steps, lags) = (sequences.steps(), channels.lags());
    for channel in &mut channels.list {
        if let Family::Mixture(mixture) = &mut channel.family {
            // Equal parts would stay equal.
            for mean in mixture.means.chunks_exact_mut(channel.columns.len()) {
                let row = sequences.rows(below(random, steps as u64) as usize, 0);
                let observed =
                    mean.iter_mut().zip(&channel.columns).map(|(mean, &column)| (mean, row[column as usize]));
                observed.filter(|(_, x)| !x.is_nan()).for_each(|(mean, x)| *mean = x);
            }
        }
    }
    let densities = ChannelDensities::new(n, channels);
    let mut sums = vec![0.0; n * densities.width()];
    for at in 0..steps {
        densities.count(sequences.rows(at, lags), |_| 1.0 / steps as f64, &mut sums);
    }
    for state in 0..n {
        for _ in 0..DRAWN {
            let rows = sequences.rows(below(random, steps as u64) as usize, lags);
            densities.count(rows, |j| f64::from(u8::from(j == state)), &mut sums);
        }
    }
    let options = Options::default();
    maximise_channels(channels, n, &sums, &options, &Spread::new(sequences).floors(options.floor));
}

/// Replaces the covariances of all states by diagonal ones.
fn spread_out(covariances: &mut Covariances, spread: &[f64]) {
    let d = spread.len();
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

/// Redraws the positive entries.
fn redraw(probs: &mut [f64], end: Option<&mut f64>, random: &mut impl Rng) {
    let positive: Vec<&mut f64> = probs.iter_mut().chain(end).filter(|p| **p > 0.0).collect();
    let drawn = distribution(random, positive.len());
    // An entry drawn as 0 would stay 0 in training.
    positive.into_iter().zip(drawn).for_each(|(target, p)| *target = p.max(f64::MIN_POSITIVE));
}

/// The variance of each dimension; 1 where it is 0.
fn spread(sequences: &Sequences) -> Vec<f64> {
    let variances = Spread::new(sequences).variances.into_iter();
    variances.map(|variance| if variance > 0.0 { variance } else { 1.0 }).collect()
}
