//! What every algorithm needs of the observed sequences, as one narrow trait over where it runs.
//!
//! The forward and backward recursions are scaled after Rabiner, *A Tutorial on Hidden Markov Models* (1989), with Rahimi's
//! erratum (2000). With bⱼ(o) the probability or density of o in state j,
//!
//! > α̂₁(j) = πⱼ bⱼ(o₁) / c₁,  α̂ₜ(j) = Σᵢ α̂ₜ₋₁(i) Aᵢⱼ · bⱼ(oₜ) / cₜ,  Σⱼ α̂ₜ(j) = 1,  ln P(O) = Σₜ ln cₜ
//!
//! > β̂_T = 1,  β̂ₜ(i) = Σⱼ Aᵢⱼ bⱼ(oₜ₊₁) β̂ₜ₊₁(j) / cₜ₊₁,  γₜ(i) = α̂ₜ(i) β̂ₜ(i)
//!
//! > ξₜ(i, j) = α̂ₜ(i) Aᵢⱼ bⱼ(oₜ₊₁) β̂ₜ₊₁(j) / cₜ₊₁
//!
//! Where states end, c_end = Σᵢ α̂_T(i) endᵢ is a last factor of P(O), and β̂_T(i) = endᵢ / c_end.
//!
//! Scaled numbers may vanish that matter later. Backends find the sequences of which this cannot be excluded, and take them again
//! [exactly](crate::hmm::cpu::Exact), in `f64` with an exponent for each state: ln P(O) is −∞ only where P(O) is 0, or where all
//! densities of an observation are below e^−10³⁰⁸.
//!
//! A sequence that a model cannot emit has ln P(O) = −∞, posteriors of 0, no path, and adds nothing to expected counts. The
//! same input gives the same bits, and what is said of one sequence does not depend on the others. One choice is made for all: a
//! device may [cut](crate::hmm::device::Scan) long sequences into chunks, which takes sums in another order and changes last
//! digits. It looks at the whole batch, if it is not told what to do.

use super::model::{Covariances, Emissions, Hmm};
use super::options::Pseudocounts;
use super::sequences::Sequences;

/// No state: that of a path that is not possible.
pub const NO_STATE: u32 = u32::MAX;

/// The recursions over M sequences, by one or several models of one shape (random restarts); results are per model.
pub trait Recursions {
    /// What can go wrong.
    type Error;

    /// Replaces the models: valid ones of equal shape, which emit what was [observed](super::sequences::Sequences::check).
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// If models differ in their shape, or do not emit what was observed.
    fn set_models(&mut self, models: &[Hmm]) -> Result<(), Self::Error>;

    /// ln P(O) of each sequence: M numbers.
    ///
    /// # Errors
    /// Those of the device.
    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Self::Error>;

    /// γₜ(i) of each observation: ΣT × N numbers, N of an observation side by side.
    ///
    /// # Errors
    /// Those of the device.
    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Self::Error>;

    /// The most probable paths.
    ///
    /// # Errors
    /// Those of the device.
    fn viterbi(&mut self) -> Result<Vec<Decoded>, Self::Error>;

    /// Expected counts over all sequences.
    ///
    /// # Errors
    /// Those of the device.
    fn expect(&mut self) -> Result<Vec<Expected>, Self::Error>;

    /// The E step of training: ln P(O) of each sequence. Expected counts stay where they are, for [`m_step`](Self::m_step).
    ///
    /// # Errors
    /// Those of the device.
    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Self::Error>;

    /// The [M step](super::maximise): goes on to the models that the counts of the last [`e_step`](Self::e_step) make most likely, whose
    /// variances are at least the part `floor` of those of all observations. Nothing changes where there was none by the models that are set.
    ///
    /// # Errors
    /// Those of the device.
    fn m_step(&mut self, pseudocounts: &Pseudocounts, floor: f64) -> Result<(), Self::Error>;

    /// The models, as they are after all M steps. A device has them in its own precision, and so are they then.
    ///
    /// # Errors
    /// Those of the device.
    fn models(&mut self) -> Result<Vec<Hmm>, Self::Error>;
}

/// The most probable path of each sequence, argmax over q of P(O, q). Of equal ones the path whose last state is the lowest;
/// of those, the one whose state before is the lowest; and so on to the first.
///
/// Equal are paths whose *computed* scores are: sums of rounded logarithms, from which the largest of each step is taken. Paths that take
/// equal logarithms at the same steps are always equal so. Paths whose probabilities are equal as real numbers only, like ½ · ⅓ and ⅙ · 1, may
/// differ in the last bits; then any of them may be found, another one in another precision, or where sequences are cut into
/// chunks. Whatever is found is as probable as the best path but for rounding: to some T units in the last place of the score.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// States, ΣT; [`NO_STATE`] for every observation of a sequence that is not possible.
    pub states: Vec<u32>,
    /// ln P(O, q) of each sequence, M; −∞ where it is not possible.
    pub scores: Vec<f64>,
}

/// The most probable state at each observation by itself: argmax γₜ(i), the lowest of equal ones; [`NO_STATE`] for those of a
/// sequence that is not possible. `posteriors` are N numbers for each observation.
#[must_use]
pub fn posterior_path(posteriors: &[f64], states: u32) -> Vec<u32> {
    let best = |row: &[f64]| {
        let best =
            row.iter().zip(0..).fold((0.0, NO_STATE), |best, (&p, state)| if p > best.0 { (p, state) } else { best });
        best.1
    };
    posteriors.chunks_exact(states as usize).map(best).collect()
}

/// What is expected of the hidden path, given the sequences: sums over all of them, and over their steps.
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
    /// What states emitted.
    pub emissions: Statistics,
}

impl Expected {
    /// No counts of no sequences, of the shape that a model's have.
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
        };
        let [start, transitions, end] = [n, n * n, n].map(|len| vec![0.0; len]);
        Self { log_likelihoods: Vec::new(), start, transitions, end, emissions }
    }

    /// Adds the counts of other sequences by the same model; likelihoods stay as they are.
    pub fn add_counts(&mut self, other: &Self) {
        for (sums, terms) in self.counts_mut().into_iter().zip(other.counts()) {
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        }
    }

    /// How many counts there are.
    pub(crate) fn numbers(&self) -> usize {
        self.counts().iter().map(|counts| counts.len()).sum()
    }

    fn counts(&self) -> Vec<&[f64]> {
        let mut all: Vec<&[f64]> = vec![&self.start, &self.transitions, &self.end];
        match &self.emissions {
            Statistics::Categorical(counts) => all.push(counts),
            Statistics::Gaussian { weights, sums, squares } => all.extend([&weights[..], sums, squares]),
        }
        all
    }

    fn counts_mut(&mut self) -> Vec<&mut [f64]> {
        let mut all: Vec<&mut [f64]> = vec![&mut self.start, &mut self.transitions, &mut self.end];
        match &mut self.emissions {
            Statistics::Categorical(counts) => all.push(counts),
            Statistics::Gaussian { weights, sums, squares } => all.extend([&mut weights[..], sums, squares]),
        }
        all
    }
}

/// What states emitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Statistics {
    /// Σ γₜ(j) over the t with oₜ = o, N × V.
    Categorical(Vec<f64>),
    /// Moments about the means μⱼ of the model that was set, which saves digits where means are large.
    Gaussian {
        /// Σ γₜ(j), N.
        weights: Vec<f64>,
        /// Σ γₜ(j) (xₜ − μⱼ), N × D.
        sums: Vec<f64>,
        /// Σ γₜ(j) (xₜ − μⱼ)(xₜ − μⱼ)ᵀ: its diagonal, N × D, or all of it, N × D × D, as the model's covariances are.
        squares: Vec<f64>,
    },
}

/// Whether models have one shape, that of the first, and emit what was observed: then tables of the first one's sizes hold any
/// of them, and every symbol has its row there.
pub(crate) fn fit(models: &[Hmm], sequences: &Sequences) -> bool {
    let shape = |model: &Hmm| match model.emissions() {
        Emissions::Categorical { symbols, .. } => (model.states(), 0, *symbols),
        Emissions::Gaussian { dimensions, covariances, .. } => {
            let kind = if matches!(covariances, Covariances::Diagonal(_)) { 1 } else { 2 };
            (model.states(), kind, *dimensions)
        }
    };
    models.windows(2).all(|pair| shape(&pair[0]) == shape(&pair[1])) && models.iter().all(|model| sequences.fit(model))
}
