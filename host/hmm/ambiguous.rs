//! Ambiguous and missing symbols: observations of which only a set of possible symbols is known.
//!
//! Symbol V + k denotes that one of the symbols in the k-th set Sₖ was emitted. State j does so with probability
//! Σ Bⱼᵥ over v ∈ Sₖ, so a model [extended] by a column for each set has the likelihoods, paths and posteriors. Training
//! divides the expected count of V + k in state j among the symbols of Sₖ in proportion to Bⱼᵥ, their probabilities given
//! that j emitted one of them. The set of all symbols says nothing about B, so its observations count for the chain only.

use std::borrow::Cow;
use std::time::Duration;

use rayon::prelude::*;

use super::backend::{Decoded, Expected, Recursions, Statistics};
use super::maximise::maximise;
use super::model::{Emissions, Hmm};
use super::options::Options;

/// The model with one column of B more for each of the `sets` of symbols below V: the sum over its symbols. Rows of B then
/// sum to more than 1. Models of vectors have no sets.
#[must_use]
pub fn extended<'m>(model: &'m Hmm, sets: &[Vec<u32>]) -> Cow<'m, Hmm> {
    let Emissions::Categorical { symbols, probs } = model.emissions() else { return Cow::Borrowed(model) };
    if sets.is_empty() {
        return Cow::Borrowed(model);
    }
    let v = *symbols as usize;
    let sum = |row: &[f64], set: &[u32]| match set.len() == v {
        true => 1.0,
        false => set.iter().map(|&symbol| row[symbol as usize]).sum::<f64>().min(1.0),
    };
    let row = |row: &[f64]| -> Vec<f64> { row.iter().copied().chain(sets.iter().map(|set| sum(row, set))).collect() };
    let emissions = Emissions::Categorical {
        symbols: symbols + sets.len() as u32,
        probs: probs.chunks_exact(v).flat_map(row).collect(),
    };
    let mut extended = model.clone();
    extended.update(|parts| {
        parts.emissions = emissions;
        parts.names.symbols.clear();
    });
    Cow::Owned(extended)
}

/// Recursions over sequences with ambiguous symbols. Models are without the sets, and so are the expected counts. The M
/// step is that of the host.
pub struct Ambiguous<'r, R: ?Sized> {
    /// Recursions by the [extended] models.
    recursions: &'r mut R,
    sets: &'r [Vec<u32>],
    models: Vec<Hmm>,
}

impl<'r, R: Recursions + ?Sized> Ambiguous<'r, R> {
    /// Recursions over sequences in which symbol V + k denotes `sets[k]`. The symbols of a set are below V and ascend.
    pub fn new(recursions: &'r mut R, sets: &'r [Vec<u32>]) -> Self {
        Self { recursions, sets, models: Vec::new() }
    }

    fn extend(&mut self) -> Result<(), R::Error> {
        let all: Vec<Hmm> = self.models.iter().map(|model| extended(model, self.sets).into_owned()).collect();
        self.recursions.set_models(&all)
    }

    /// Divides the counts of the sets among their symbols.
    fn divided(&self, mut all: Vec<Expected>) -> Vec<Expected> {
        for (expected, model) in all.iter_mut().zip(&self.models) {
            let (Statistics::Categorical(counts), Emissions::Categorical { symbols, probs }) =
                (&mut expected.emissions, model.emissions())
            else {
                continue;
            };
            let v = *symbols as usize;
            let rows = counts.chunks_exact(v + self.sets.len()).zip(probs.chunks_exact(v));
            *counts = rows.flat_map(|(counts, probs)| self.divided_row(counts, probs)).collect();
        }
        all
    }

    /// The counts of the symbols of a state with this row of B.
    fn divided_row(&self, counts: &[f64], probs: &[f64]) -> Vec<f64> {
        let (known, of_sets) = counts.split_at(probs.len());
        let mut found = known.to_vec();
        for (set, count) in self.sets.iter().zip(of_sets).filter(|(set, _)| set.len() < probs.len()) {
            let total: f64 = set.iter().map(|&symbol| probs[symbol as usize]).sum();
            if total > 0.0 {
                set.iter().for_each(|&symbol| found[symbol as usize] += count * (probs[symbol as usize] / total));
            }
        }
        found
    }
}

impl<R: Recursions + ?Sized> Recursions for Ambiguous<'_, R> {
    type Error = R::Error;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), R::Error> {
        self.models = models.to_vec();
        self.extend()
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, R::Error> {
        self.recursions.log_likelihoods()
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, R::Error> {
        self.recursions.posteriors()
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, R::Error> {
        self.recursions.viterbi()
    }

    fn expect(&mut self) -> Result<Vec<Expected>, R::Error> {
        let all = self.recursions.expect()?;
        Ok(self.divided(all))
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, R::Error> {
        self.recursions.e_step()
    }

    fn take_counts(&mut self) -> Result<Vec<Expected>, R::Error> {
        let all = self.recursions.take_counts()?;
        Ok(self.divided(all))
    }

    fn m_step(&mut self, options: &Options) -> Result<(), R::Error> {
        let all = self.take_counts()?;
        if all.is_empty() {
            return Ok(());
        }
        let pairs = self.models.par_iter_mut().zip(&all);
        pairs.for_each(|(model, expected)| maximise(model, expected, options, &[]));
        self.extend()
    }

    fn weights(&self) -> &[f64] {
        self.recursions.weights()
    }

    fn models(&mut self) -> Result<Vec<Hmm>, R::Error> {
        Ok(self.models.clone())
    }

    fn interrupted(&self) -> bool {
        self.recursions.interrupted()
    }

    fn slow(&self, time: Duration) -> bool {
        self.recursions.slow(time)
    }
}
