//! Stochastic EM: training by batches of sequences, such as those of a file that does not fit in memory (Cappé and Moulines, *On-line
//! expectation-maximization algorithm for latent data models*, 2009; Liang and Klein, *Online EM for unsupervised models*, 2009).
//!
//! The E step of batch k yields the mean counts ŝ of an observation, which are averaged with those of the batches before:
//!
//! > s ← (1 − ηₖ) s + ηₖ ŝ,  ηₖ = (k + 1)^−α,  ½ < α ≤ 1, η₀ = 1
//!
//! The M step of s follows each batch. A smaller α forgets sooner what earlier parameters counted; α = 1 weighs all batches
//! equally. ln P(O) of a batch is that under the parameters before it, so that over the batches of the first pass it is a
//! prediction.

use super::backend::{Expected, Recursions, Statistics};
use super::maximise::{Held, Spread, maximise};
use super::model::{Emissions, Hmm};
use super::options::Options;
use super::sequences::Sequences;
use super::train::{Error, add_log_likelihoods};

/// α if nothing else is asked for.
pub const EXPONENT: f64 = 0.7;

/// A model in training.
#[derive(Clone, Debug)]
pub struct Stochastic {
    model: Hmm,
    options: Options,
    exponent: f64,
    /// s, the counts per observation.
    counts: Option<Expected>,
    batches: u32,
    /// Observations so far, by the weights of their sequences, at most [`most`](Self::end_pass).
    observed: f64,
    most: f64,
    /// The variance floors, from the first batch.
    floors: Vec<f64>,
}

/// Passes over all batches of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passes {
    /// Σ ln P(O) of each pass, of each batch under the parameters before it.
    pub log_likelihoods: Vec<f64>,
    /// Number of sequences of the last pass.
    pub sequences: u64,
    /// Number of observations of the last pass.
    pub observations: u64,
}

impl Passes {
    /// Whether the last two passes differ by no more than the tolerances of `options`.
    #[must_use]
    pub fn converged(&self, options: &Options) -> bool {
        let [.., before, last] = self.log_likelihoods[..] else { return false };
        options.tolerates((last - before).abs(), before)
    }
}

impl Stochastic {
    /// A model before its first batch. Of `options`, the prior, the constraint, ties, the floor and what is frozen apply; counts of the prior
    /// are added to the mean counts times the number of observations so far.
    ///
    /// # Errors
    /// If α is not in (½, 1], the options do not fit the model, or it has durations, or channels, whose sums depend on the parameters.
    pub fn new(model: Hmm, options: Options, exponent: f64) -> Result<Self, String> {
        if !(exponent > 0.5 && exponent <= 1.0) {
            return Err(format!("the exponent of the steps is {exponent}, expected a number above 0.5, at most 1"));
        }
        if matches!(model.emissions(), Emissions::Channels(_)) {
            return Err("stochastic EM is for symbols and vectors, and the model has channels".to_owned());
        }
        if model.segments().is_some() {
            return Err("stochastic EM is for models without durations".to_owned());
        }
        options.check(&model)?;
        Ok(Self {
            model,
            options,
            exponent,
            counts: None,
            batches: 0,
            observed: 0.0,
            most: f64::INFINITY,
            floors: Vec::new(),
        })
    }

    /// The model after the last batch.
    #[must_use]
    pub fn model(&self) -> &Hmm {
        &self.model
    }

    /// Number of batches so far.
    #[must_use]
    pub fn batches(&self) -> u32 {
        self.batches
    }

    /// α.
    #[must_use]
    pub fn exponent(&self) -> f64 {
        self.exponent
    }

    /// What applies to the M steps.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The variances of the model at the floor.
    #[must_use]
    pub fn held(&self) -> Held {
        Held::new(&self.model, &self.floors)
    }

    /// Says that the batches so far were all there are, and come again: a prior counts against this number of observations from now on.
    pub fn end_pass(&mut self) {
        self.most = self.observed;
    }

    /// Learns from a batch, whose `recursions` these are. Returns Σ w ln P(O) under the model before.
    ///
    /// # Errors
    /// Those of the backend, and [`Error::Impossible`]; the model then stays as it was.
    pub fn learn<R: Recursions + ?Sized>(
        &mut self,
        recursions: &mut R,
        sequences: &Sequences,
    ) -> Result<f64, Error<R::Error>> {
        recursions.set_models(std::slice::from_ref(&self.model)).map_err(Error::Backend)?;
        let mut found = recursions.expect().map_err(Error::Backend)?;
        let mut counts = found.pop().ok_or(Error::None)?;
        let weight = |sequence: usize| sequences.weight(sequence);
        let log_likelihood = add_log_likelihoods(0.0, &counts.log_likelihoods, weight)?;
        let observed = sequences.weighted_steps();
        counts.scale(1.0 / observed);
        if self.floors.is_empty() {
            self.floors = Spread::new(sequences).floors(self.options.floor);
        }
        let step = f64::from(self.batches + 1).powf(-self.exponent);
        let mean = match self.counts.take() {
            None => counts,
            Some(mut mean) => {
                mean.scale(1.0 - step);
                counts.scale(step);
                mean.add_counts(&counts);
                mean
            }
        };
        (self.batches, self.observed) = (self.batches + 1, (self.observed + observed).min(self.most));
        let mut all = mean.clone();
        all.scale(self.observed);
        let before = self.model.clone();
        maximise(&mut self.model, &all, &self.options, &self.floors);
        self.counts = Some(about(mean, &before, &self.model));
        Ok(log_likelihood)
    }
}

/// Counts whose moments are about the means of `before`, as those about the means of `after`.
fn about(mut counts: Expected, before: &Hmm, after: &Hmm) -> Expected {
    if let (
        Statistics::Gaussian { weights, sums, squares },
        Emissions::Gaussian { means: old, .. },
        Emissions::Gaussian { means: new, .. },
    ) = (&mut counts.emissions, before.emissions(), after.emissions())
    {
        let (n, width) = (weights.len(), squares.len() / weights.len());
        let d = sums.len() / n;
        for (state, &weight) in weights.iter().enumerate() {
            let shift: Vec<f64> = (state * d..(state + 1) * d).map(|at| new[at] - old[at]).collect();
            let own = &mut sums[state * d..][..d];
            for (at, square) in squares[state * width..][..width].iter_mut().enumerate() {
                let (a, b) = if width > d { (at / d, at % d) } else { (at, at) };
                *square += weight * shift[a] * shift[b] - shift[a] * own[b] - own[a] * shift[b];
                // The squares of rounded moments.
                if a == b {
                    *square = square.max(0.0);
                }
            }
            own.iter_mut().zip(&shift).for_each(|(sum, shift)| *sum -= weight * shift);
        }
    }
    counts
}
