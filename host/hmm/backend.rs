//! The trait of all backends, [`Recursions`], and its results.
//!
//! The forward and backward recursions are scaled after Rabiner, *A Tutorial on Hidden Markov Models* (1989), with
//! Rahimi's erratum (2000). With bⱼ(o) the probability or density of o in state j,
//!
//! > α̂₁(j) = πⱼ bⱼ(o₁) / c₁,  α̂ₜ(j) = Σᵢ α̂ₜ₋₁(i) Aᵢⱼ · bⱼ(oₜ) / cₜ,  Σⱼ α̂ₜ(j) = 1,  ln P(O) = Σₜ ln cₜ
//!
//! > β̂_T = 1,  β̂ₜ(i) = Σⱼ Aᵢⱼ bⱼ(oₜ₊₁) β̂ₜ₊₁(j) / cₜ₊₁,  γₜ(i) = α̂ₜ(i) β̂ₜ(i)
//!
//! > ξₜ(i, j) = α̂ₜ(i) Aᵢⱼ bⱼ(oₜ₊₁) β̂ₜ₊₁(j) / cₜ₊₁
//!
//! With end probabilities, c_end = Σᵢ α̂_T(i) endᵢ is the last factor of P(O), and β̂_T(i) = endᵢ / c_end.
//!
//! *Underflow.* A scaled number may underflow to 0 although a later step depends on it. Backends detect the sequences
//! for which they cannot exclude this. They recompute these with the [exact recursions](crate::backends::cpu::Exact), which
//! hold an `f64` mantissa and a separate exponent for each state. So ln P(O) is −∞ only where P(O) is 0, or where all
//! densities of an observation are below e^−10³⁰⁸.
//!
//! *Impossible sequences.* A sequence with P(O) = 0 has ln P(O) = −∞, posteriors of 0 and no path. It adds nothing to
//! the expected counts.
//!
//! *Reproducibility.* Equal inputs give equal bits. The results of a sequence do not depend on the other sequences,
//! with one exception: a device may [cut](crate::backends::device::Scan) long sequences into chunks, which reorders sums and
//! changes the last digits. By default it decides this from the shape of the whole batch.

use std::time::Duration;

use super::channels::Channels;
use super::model::{Covariances, Emissions, Hmm, share};
use super::options::Options;
pub use super::sequences::NO_STATE;
use super::sequences::Sequences;
use warpkov_common::interrupt;
use warpkov_runtime as runtime;
use warpkov_runtime::comm::Communicator;

/// Duration from which an E step is slow: fetching the models then costs little in comparison.
pub const SLOW: Duration = Duration::from_millis(100);

/// The recursions over M sequences, for one or several models of equal shape (random restarts). Results have one
/// element per model, in the order of [`set_models`](Self::set_models).
pub trait Recursions {
    /// The error of the backend.
    type Error;

    /// Replaces the models. They have equal shapes, and the sequences [fit](super::sequences::Sequences::check) each of
    /// them.
    ///
    /// # Errors
    /// Those of the backend.
    ///
    /// # Panics
    /// If the models differ in shape, or the sequences do not fit them.
    fn set_models(&mut self, models: &[Hmm]) -> Result<(), Self::Error>;

    /// ln P(O) of each sequence: M numbers.
    ///
    /// # Errors
    /// Those of the backend.
    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Self::Error>;

    /// Posteriors γₜ(i): ΣT × N numbers, row by row, one row per observation.
    ///
    /// # Errors
    /// Those of the backend.
    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Self::Error>;

    /// The most probable paths.
    ///
    /// # Errors
    /// Those of the backend.
    fn viterbi(&mut self) -> Result<Vec<Decoded>, Self::Error>;

    /// Expected counts over all sequences.
    ///
    /// # Errors
    /// Those of the backend.
    fn expect(&mut self) -> Result<Vec<Expected>, Self::Error>;

    /// The E step of training. Returns ln P(O) of each sequence; the expected counts stay in the backend for
    /// [`m_step`](Self::m_step).
    ///
    /// # Errors
    /// Those of the backend.
    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Self::Error>;

    /// Takes the expected counts of the last [`e_step`](Self::e_step) out of the backend, without log-likelihoods. Then
    /// [`m_step`](Self::m_step) changes nothing.
    ///
    /// # Errors
    /// Those of the backend.
    fn take_counts(&mut self) -> Result<Vec<Expected>, Self::Error>;

    /// The layout in which this backend stores the sums that are the expected counts of its models; `None` if others cannot add to them.
    fn stored(&self) -> Option<Stored> {
        None
    }

    /// Replaces the stored sums of the last [`e_step`](Self::e_step) by those of all ranks, for [`take_counts`](Self::take_counts) or
    /// [`m_step`](Self::m_step).
    ///
    /// # Errors
    /// Those of the device, and if a rank fails.
    ///
    /// # Safety
    /// All ranks call it, with the same [layout](Self::stored).
    unsafe fn add_ranks(&mut self, _comm: &dyn Communicator) -> Result<(), runtime::Error> {
        Ok(())
    }

    /// The [M step](super::maximise): replaces the models by the maximisers of the expected counts of the last
    /// [`e_step`](Self::e_step). The prior, the constraint and what is frozen are those of `options`, which fit the
    /// models. Without an `e_step` since the last `set_models` or `m_step`, nothing changes.
    ///
    /// # Errors
    /// Those of the backend.
    fn m_step(&mut self, options: &Options) -> Result<(), Self::Error>;

    /// The models after all M steps so far. A device stores them in its own precision, to which they are rounded.
    ///
    /// # Errors
    /// Those of the backend.
    fn models(&mut self) -> Result<Vec<Hmm>, Self::Error>;

    /// The [weight](Sequences::weights) of each sequence, by which expected counts are multiplied; empty if all are 1.
    fn weights(&self) -> &[f64] {
        &[]
    }

    /// Whether a [stop request](interrupt) explains the last error. All ranks have the same answer.
    fn interrupted(&self) -> bool {
        interrupt::requested()
    }

    /// Whether the last [`e_step`](Self::e_step), which took this rank `time`, was slow. All ranks have the same answer.
    fn slow(&self, time: Duration) -> bool {
        time > SLOW
    }
}

/// How a backend stores sums of expected counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Bytes of the type in which the models are stored.
    pub bytes: u64,
    /// Number of sums over pairs of states, and of the others that are stored with them.
    pub pairs: u64,
    /// Number of sums in a second buffer.
    pub listed: u64,
}

/// The most probable path of each sequence, argmax over q of P(O, q). Ties go to the path with the lowest last state,
/// then to the lowest state before it, and so on back to the first.
///
/// A tie is an equality of *computed* scores, which are sums of rounded logarithms. Paths with equal logarithms at
/// equal steps always tie. Paths whose probabilities are equal only as real numbers, such as ½ · ⅓ and ⅙ · 1, may
/// differ in the last bits. Rounding then decides between them, and another precision or a cut into chunks may choose
/// differently. The score of the path found is within about T units in the last place of the maximum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The states of all paths, ΣT; [`NO_STATE`] at every observation of an impossible sequence.
    pub states: Vec<u32>,
    /// ln P(O, q) of each sequence, M; −∞ for an impossible one.
    pub scores: Vec<f64>,
}

/// The most probable state of each observation, argmax γₜ(i); ties go to the lowest state. [`NO_STATE`] at the
/// observations of an impossible sequence. `posteriors` is ΣT × N; `states` is N.
#[must_use]
pub fn posterior_path(posteriors: &[f64], states: u32) -> Vec<u32> {
    let best = |row: &[f64]| {
        let best =
            row.iter().zip(0..).fold((0.0, NO_STATE), |best, (&p, state)| if p > best.0 { (p, state) } else { best });
        best.1
    };
    posteriors.chunks_exact(states as usize).map(best).collect()
}

/// Expected counts of the hidden paths given the observations, summed over all possible sequences by their
/// [weights](Sequences::weights).
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// ln P(O) of each sequence, M.
    pub log_likelihoods: Vec<f64>,
    /// Σ γ₁(i), N.
    pub start: Vec<f64>,
    /// Σₜ ξₜ(i, j), N × N: t from 1 to T − 1.
    pub transitions: Vec<f64>,
    /// Σ γ_T(i), N.
    pub end: Vec<f64>,
    /// Sufficient statistics of the emissions.
    pub emissions: Statistics,
}

impl Expected {
    /// Zero counts of the shape that `model` requires, without sequences.
    #[must_use]
    pub fn zero(model: &Hmm) -> Self {
        let n = model.start().len();
        let emissions = match model.emissions() {
            Emissions::Categorical { probs, .. } => Statistics::Categorical(vec![0.0; probs.len()]),
            Emissions::Gaussian { means, covariances, .. } => {
                let (Covariances::Diagonal(squares) | Covariances::Full(squares)) = covariances;
                let [weights, sums, squares] = [n, means.len(), squares.len()].map(|len| vec![0.0; len]);
                Statistics::Gaussian { weights, sums, squares }
            }
            Emissions::Channels(channels) => Statistics::Channels(vec![0.0; sums_of_channels(channels, model)]),
        };
        let [start, transitions, end] = [n, n * n, n].map(|len| vec![0.0; len]);
        Self { log_likelihoods: Vec::new(), start, transitions, end, emissions }
    }

    /// Adds the counts of other sequences under the same model. Leaves `log_likelihoods` unchanged.
    pub fn add_counts(&mut self, other: &Self) {
        for (sums, terms) in self.counts_mut().into_iter().zip(other.counts()) {
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        }
    }

    /// Multiplies the counts by a factor. Leaves `log_likelihoods` unchanged.
    pub(crate) fn scale(&mut self, factor: f64) {
        if factor != 1.0 {
            self.counts_mut().into_iter().flatten().for_each(|count| *count *= factor);
        }
    }

    /// Replaces the statistics of the emissions of each class of states by their mean.
    pub(crate) fn share(&mut self, of_state: &[u32]) {
        match &mut self.emissions {
            Statistics::Categorical(sums) | Statistics::Channels(sums) => share(sums, of_state),
            Statistics::Gaussian { weights, sums, squares } => {
                [weights, sums, squares].into_iter().for_each(|numbers| share(numbers, of_state));
            }
        }
    }

    /// Total number of counts.
    pub(crate) fn numbers(&self) -> usize {
        self.counts().iter().map(|counts| counts.len()).sum()
    }

    pub(super) fn counts(&self) -> Vec<&[f64]> {
        let mut all: Vec<&[f64]> = vec![&self.start, &self.transitions, &self.end];
        match &self.emissions {
            Statistics::Categorical(sums) | Statistics::Channels(sums) => all.push(sums),
            Statistics::Gaussian { weights, sums, squares } => all.extend([&weights[..], sums, squares]),
        }
        all
    }

    pub(super) fn counts_mut(&mut self) -> Vec<&mut [f64]> {
        let mut all: Vec<&mut [f64]> = vec![&mut self.start, &mut self.transitions, &mut self.end];
        match &mut self.emissions {
            Statistics::Categorical(sums) | Statistics::Channels(sums) => all.push(sums),
            Statistics::Gaussian { weights, sums, squares } => all.extend([&mut weights[..], sums, squares]),
        }
        all
    }
}

/// Sufficient statistics of the emissions.
#[derive(Clone, Debug, PartialEq)]
pub enum Statistics {
    /// Σ γₜ(j) over the t with oₜ = o, N × V.
    Categorical(Vec<f64>),
    /// Moments about the present means μⱼ. Moments about 0 would lose digits to cancellation where means are large. Of a
    /// vector with missing components, expectations given the observed ones take the place of (xₜ − μⱼ) and of
    /// (xₜ − μⱼ)(xₜ − μⱼ)ᵀ.
    Gaussian {
        /// Σ γₜ(j), N.
        weights: Vec<f64>,
        /// Σ γₜ(j) (xₜ − μⱼ), N × D.
        sums: Vec<f64>,
        /// Σ γₜ(j) (xₜ − μⱼ)(xₜ − μⱼ)ᵀ: the diagonals, N × D, for diagonal covariances; the matrices, N × D × D, for
        /// full ones.
        squares: Vec<f64>,
    },
    /// Σ γₜ(j), and behind it the sums of each channel in order, for each state. See [`channels`](crate::channels).
    Channels(Vec<f64>),
}

/// Number of [sums](Statistics::Channels) of a model of channels.
pub(crate) fn sums_of_channels(channels: &Channels, model: &Hmm) -> usize {
    let n = model.start().len();
    n * (1 + channels.list.iter().map(|channel| channel.sums(n)).sum::<usize>())
}

/// Whether all models have the shape of the first, and the sequences fit them. Tables sized for the first model then
/// hold any of them, and every observed symbol indexes a row of its emission table.
pub(crate) fn fit(models: &[Hmm], sequences: &Sequences) -> bool {
    let shape = |model: &Hmm| match model.emissions() {
        Emissions::Categorical { symbols, .. } => (model.states(), 0, *symbols),
        Emissions::Gaussian { dimensions, covariances, .. } => {
            let kind = if matches!(covariances, Covariances::Diagonal(_)) { 1 } else { 2 };
            (model.states(), kind, *dimensions)
        }
        Emissions::Channels(channels) => (model.states(), 3, channels.dimensions),
    };
    let same = |one: &Hmm, other: &Hmm| match (one.emissions(), other.emissions()) {
        (Emissions::Channels(channels), Emissions::Channels(others)) => {
            one.states() == other.states() && channels.same_shape(others, one.start().len())
        }
        _ => shape(one) == shape(other),
    };
    models.windows(2).all(|pair| same(&pair[0], &pair[1])) && models.iter().all(|model| sequences.fit(model))
}
