//! Viterbi training: the E step counts the most probable path of each sequence in place of all paths (segmental k-means; Juang and
//! Rabiner, *The Segmental K-Means Algorithm for Estimating Parameters of Hidden Markov Models*, 1990).
//!
//! The objective is ln P(O, q), maximised in turn over the paths q and over the parameters, so that it never decreases. It converges when
//! the paths no longer change. Then ln P(O) may be lower than at its own maximum.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::backend::{Decoded, Expected, Recursions, Statistics};
use super::backends::cpu::{ChannelDensities, Completion, Densities, is_partial};
use super::maximise::{Spread, maximise};
use super::model::{Covariances, Emissions, Hmm};
use super::options::Options;
use super::place::{Dynamic, Error};
use super::sequences::{Observations, Sequences};

/// Recursions whose E step counts the best paths: [`e_step`](Recursions::e_step) returns ln P(O, q) of each sequence. The M step is that of
/// the host.
pub struct BestPaths<'p> {
    recursions: Dynamic<'p>,
    sequences: &'p Sequences,
    models: Vec<Hmm>,
    /// Counts of the last E step, one per model; empty after the M step.
    counts: Vec<Expected>,
    /// Spread of the observations, computed at the first M step.
    spread: OnceLock<Spread>,
}

impl<'p> BestPaths<'p> {
    /// The `recursions`, which run over these sequences.
    #[must_use]
    pub fn new(recursions: Dynamic<'p>, sequences: &'p Sequences) -> Self {
        Self { recursions, sequences, models: Vec::new(), counts: Vec::new(), spread: OnceLock::new() }
    }
}

impl Recursions for BestPaths<'_> {
    type Error = Error;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), Error> {
        self.recursions.set_models(models)?;
        // As a device rounds them.
        self.models = self.recursions.models()?;
        self.counts.clear();
        Ok(())
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        self.recursions.log_likelihoods()
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        self.recursions.posteriors()
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, Error> {
        self.recursions.viterbi()
    }

    fn expect(&mut self) -> Result<Vec<Expected>, Error> {
        self.recursions.expect()
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        let decoded = self.recursions.viterbi()?;
        let pairs = self.models.par_iter().zip(&decoded);
        self.counts = pairs.map(|(model, decoded)| counts(model, self.sequences, decoded)).collect();
        Ok(decoded.into_iter().map(|decoded| decoded.scores).collect())
    }

    fn take_counts(&mut self) -> Result<Vec<Expected>, Error> {
        Ok(std::mem::take(&mut self.counts))
    }

    fn m_step(&mut self, options: &Options) -> Result<(), Error> {
        let all = std::mem::take(&mut self.counts);
        if all.is_empty() {
            return Ok(());
        }
        let floors = self.spread.get_or_init(|| Spread::new(self.sequences)).floors(options.floor);
        let mut models = std::mem::take(&mut self.models);
        let pairs = models.par_iter_mut().zip(&all);
        pairs.for_each(|(model, counts)| maximise(model, counts, options, &floors));
        self.set_models(&models)
    }

    fn models(&mut self) -> Result<Vec<Hmm>, Error> {
        Ok(self.models.clone())
    }

    fn weights(&self) -> &[f64] {
        self.recursions.weights()
    }
}

/// The counts of the paths of all possible sequences, by their weights.
fn counts(model: &Hmm, sequences: &Sequences, decoded: &Decoded) -> Expected {
    let mut counts = Expected::zero(model);
    let n = model.start().len();
    let densities = completing(model, sequences);
    let channels = match model.emissions() {
        Emissions::Channels(channels) => Some(ChannelDensities::new(n, channels)),
        _ => None,
    };
    for sequence in (0..sequences.len()).filter(|&sequence| decoded.scores[sequence] > f64::NEG_INFINITY) {
        let (range, weight) = (sequences.range(sequence), sequences.weight(sequence));
        let path = &decoded.states[range.clone()];
        counts.start[path[0] as usize] += weight;
        counts.end[path[path.len() - 1] as usize] += weight;
        path.windows(2).for_each(|pair| counts.transitions[pair[0] as usize * n + pair[1] as usize] += weight);
        for (at, &state) in range.zip(path) {
            match (&mut counts.emissions, &channels) {
                (Statistics::Channels(sums), Some(densities)) => {
                    let of = |j: usize| if j == state as usize { weight } else { 0.0 };
                    densities.count(densities.rows(sequences, at), of, sums);
                }
                (sums, _) => emit(sums, model, sequences, (at, state as usize), weight, densities.as_ref()),
            }
        }
    }
    counts
}

/// The densities that complete vectors with missing components, if there are any.
fn completing(model: &Hmm, sequences: &Sequences) -> Option<Densities> {
    match model.emissions() {
        Emissions::Gaussian { dimensions, means, covariances } if sequences.partial() > 0 => {
            Some(Densities::new(model.start().len(), *dimensions as usize, means, covariances))
        }
        _ => None,
    }
}

/// Adds observation `at`, which `state` has emitted.
fn emit(
    statistics: &mut Statistics,
    model: &Hmm,
    sequences: &Sequences,
    (at, state): (usize, usize),
    weight: f64,
    densities: Option<&Densities>,
) {
    match (statistics, model.emissions(), sequences.observations()) {
        (Statistics::Categorical(counts), Emissions::Categorical { symbols, .. }, Observations::Symbols(seen)) => {
            counts[state * *symbols as usize + seen[at] as usize] += weight;
        }
        (
            Statistics::Gaussian { weights, sums, squares },
            Emissions::Gaussian { dimensions, means, covariances },
            Observations::Vectors { values, .. },
        ) => {
            let d = *dimensions as usize;
            let x = &values[at * d..][..d];
            let full = matches!(covariances, Covariances::Full(_));
            let width = squares.len() / weights.len();
            weights[state] += weight;
            // `more` is the covariance of missing components.
            let mut add = |deviation: &[f64], more: Option<&[f64]>| {
                let of_state = sums[state * d..][..d].iter_mut().zip(deviation);
                of_state.for_each(|(sum, deviation)| *sum += weight * deviation);
                for (place, square) in squares[state * width..][..width].iter_mut().enumerate() {
                    let (row, column) = if full { (place / d, place % d) } else { (place, place) };
                    *square += weight * (deviation[row] * deviation[column] + more.map_or(0.0, |more| more[place]));
                }
            };
            match densities.filter(|_| is_partial(x)) {
                Some(densities) => densities.completions(x, |completion| {
                    let Completion { state: of, deviation, covariance } = completion;
                    if of == state {
                        add(deviation, Some(covariance));
                    }
                }),
                None => {
                    let means = &means[state * d..][..d];
                    add(&x.iter().zip(means).map(|(x, mean)| x - mean).collect::<Vec<_>>(), None);
                }
            }
        }
        // Unreachable: `set_models` asserts that the sequences fit the model.
        _ => {}
    }
}
