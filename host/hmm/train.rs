//! Training: expectation-maximisation after Baum and Welch, of one or several models in one batch.
//!
//! An M step takes the expected counts to the model that they make most likely: πᵢ ∝ Σ γ₁(i), Aᵢⱼ ∝ Σₜ ξₜ(i, j) over
//! t < T, with endᵢ ∝ Σ γ_T(i) beside them where states end, Bⱼₒ ∝ Σ γₜ(j) over oₜ = o, and weighted means and covariances.
//! Each sequence's counts are divided by its own likelihood, and the last step has no part in A (Rahimi's erratum to Rabiner's
//! tutorial). With pseudocounts c, a Dirichlet prior, the objective is ln P(O) + Σ c ln p, and c is added to each count. What is
//! 0 stays 0, with pseudocounts too, and what no sequence visits stays as it is.
//!
//! The objective never falls, and this is checked. Covariances have eigenvalues of at least a floor, which is the best that
//! the counts allow under this condition.

use std::ops::ControlFlow;

use rayon::prelude::*;

use super::model::{Covariances, Emissions, Hmm};
use super::recursions::{Expected, Recursions, Statistics};
use super::sequences::Sequences;

/// What is added to the expected counts, each 0 or more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pseudocounts {
    /// To those of π.
    pub start: f64,
    /// To those of A and of ends.
    pub transitions: f64,
    /// To those of B.
    pub emissions: f64,
}

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// M steps at most.
    pub iterations: u32,
    /// A model has converged when its objective rises by no more than this part of its absolute value.
    pub tolerance: f64,
    /// Dirichlet prior.
    pub pseudocounts: Pseudocounts,
    /// The least eigenvalue of covariances, above 0.
    pub floor: f64,
    /// By what part of its absolute value the objective may fall by rounding: 10⁻⁹ in `f64`, 10⁻⁴ in `f32`.
    pub slack: f64,
}

impl Default for Options {
    fn default() -> Self {
        let pseudocounts = Pseudocounts::default();
        Self { iterations: 100, tolerance: 1e-6, pseudocounts, floor: 1e-6, slack: 1e-9 }
    }
}

/// An E step of all models that have not yet converged.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// M steps before it.
    pub iteration: u32,
    /// Models that are still trained.
    pub active: usize,
    /// The highest objective of all models so far.
    pub objective: f64,
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The best model has converged.
    Converged,
    /// It has not, within the iterations allowed.
    Iterations,
    /// The observer said so.
    Interrupted,
}

/// How one of the models was trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The model, after the last M step.
    pub model: Hmm,
    /// ln P(O) of all sequences before the first M step, and after each.
    pub log_likelihoods: Vec<f64>,
    /// The same with the logarithm of the prior, up to a constant.
    pub objectives: Vec<f64>,
    /// Whether it has converged.
    pub converged: bool,
}

impl Run {
    /// ln P(O) of all sequences by the model.
    #[must_use]
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihoods.last().copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// The objective that was reached.
    #[must_use]
    pub fn objective(&self) -> f64 {
        self.objectives.last().copied().unwrap_or(f64::NEG_INFINITY)
    }
}

/// What training gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// All models, in the order in which they were given.
    pub runs: Vec<Run>,
    /// The one with the highest objective, the first of those.
    pub best: usize,
    /// Why it ended.
    pub status: Status,
}

impl Trained {
    /// The best.
    #[must_use]
    pub fn best(&self) -> &Run {
        &self.runs[self.best]
    }
}

/// Why training fails.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// What the recursions say.
    #[error(transparent)]
    Backend(E),
    /// No model.
    #[error("there is no model to train")]
    None,
    /// A sequence that cannot be learnt from. Numbered from 1.
    #[error("sequence {sequence} is not possible by the model: its likelihood is 0, and stays so")]
    Impossible {
        /// The sequence.
        sequence: usize,
    },
    /// The objective fell: the recursions are wrong, or too inexact for this model.
    #[error("the objective fell from {from} to {to} in iteration {iteration}; expected it to rise")]
    Fell {
        /// M steps before.
        iteration: u32,
        /// Before.
        from: f64,
        /// After.
        to: f64,
    },
}

/// Trains each of the models until it converges; `observe` is shown every round, and may stop.
///
/// # Errors
/// Those of the recursions; if a sequence is not possible by a model; if an objective falls.
pub fn train<R: Recursions + ?Sized>(
    recursions: &mut R,
    models: Vec<Hmm>,
    options: &Options,
    observe: &mut dyn FnMut(&Round) -> ControlFlow<()>,
) -> Result<Trained, Error<R::Error>> {
    let floored = |mut model: Hmm| {
        if let Emissions::Gaussian { dimensions, covariances, .. } = &mut model.emissions {
            raise(covariances, *dimensions as usize, options.floor);
        }
        model
    };
    let run =
        |model| Run { model: floored(model), log_likelihoods: Vec::new(), objectives: Vec::new(), converged: false };
    let mut runs: Vec<Run> = models.into_iter().map(run).collect();
    let mut status = Status::Iterations;
    for iteration in 0..=options.iterations {
        let mut active: Vec<&mut Run> = runs.iter_mut().filter(|run| !run.converged).collect();
        let models: Vec<Hmm> = active.iter().map(|run| run.model.clone()).collect();
        recursions.set_models(&models).map_err(Error::Backend)?;
        let expected = recursions.expect().map_err(Error::Backend)?;
        for (run, expected) in active.iter_mut().zip(&expected) {
            if let Some(at) = expected.log_likelihoods.iter().position(|log| !log.is_finite()) {
                return Err(Error::Impossible { sequence: at + 1 });
            }
            let log_likelihood: f64 = expected.log_likelihoods.iter().sum();
            let objective = log_likelihood + log_prior(&run.model, &options.pseudocounts);
            let before = run.objectives.last().copied();
            run.log_likelihoods.push(log_likelihood);
            run.objectives.push(objective);
            if let Some(from) = before {
                if objective < from - options.slack * from.abs().max(1.0) {
                    return Err(Error::Fell { iteration, from, to: objective });
                }
                run.converged = objective - from <= options.tolerance * from.abs();
            }
        }
        if iteration < options.iterations {
            active.par_iter_mut().zip(&expected).filter(|(run, _)| !run.converged).for_each(|(run, expected)| {
                maximise(&mut run.model, expected, options);
            });
        }
        let left = active.iter().filter(|run| !run.converged).count();
        let objective = runs.iter().map(Run::objective).fold(f64::NEG_INFINITY, f64::max);
        let stop = observe(&Round { iteration, active: left, objective }).is_break();
        if left == 0 {
            break;
        }
        if stop && iteration < options.iterations {
            status = Status::Interrupted;
            break;
        }
    }
    let mut best = 0;
    for (index, run) in runs.iter().enumerate() {
        best = if run.objective() > runs[best].objective() { index } else { best };
    }
    match runs.get(best) {
        None => Err(Error::None),
        Some(run) if run.converged => Ok(Trained { best, status: Status::Converged, runs }),
        Some(_) => Ok(Trained { best, status, runs }),
    }
}

/// Akaike's information criterion, 2 k − 2 ln P(O), of k free parameters.
#[must_use]
pub fn aic(model: &Hmm, log_likelihood: f64) -> f64 {
    2.0 * model.parameters() as f64 - 2.0 * log_likelihood
}

/// The Bayesian information criterion, k ln n − 2 ln P(O), of k free parameters and n observations.
#[must_use]
pub fn bic(model: &Hmm, sequences: &Sequences, log_likelihood: f64) -> f64 {
    model.parameters() as f64 * (sequences.steps() as f64).ln() - 2.0 * log_likelihood
}

/// Σ c ln p over all p that are not 0.
fn log_prior(model: &Hmm, counts: &Pseudocounts) -> f64 {
    let part = |count: f64, probs: &[f64]| match count > 0.0 {
        true => count * probs.iter().filter(|p| **p > 0.0).map(|p| p.ln()).sum::<f64>(),
        false => 0.0,
    };
    let emitted = match &model.emissions {
        Emissions::Categorical { probs, .. } => part(counts.emissions, probs),
        Emissions::Gaussian { .. } => 0.0,
    };
    part(counts.start, &model.start)
        + part(counts.transitions, &model.transitions)
        + part(counts.transitions, model.end.as_deref().unwrap_or_default())
        + emitted
}

/// The M step.
pub(super) fn maximise(model: &mut Hmm, expected: &Expected, options: &Options) {
    let Pseudocounts { start, transitions, emissions } = options.pseudocounts;
    let n = model.start.len();
    normalise(&mut model.start, &expected.start, start, None);
    let rows = model.transitions.chunks_exact_mut(n).zip(expected.transitions.chunks_exact(n));
    for (state, (row, counts)) in rows.enumerate() {
        let end = model.end.as_mut().map(|end| (&mut end[state], expected.end[state]));
        normalise(row, counts, transitions, end);
    }
    match (&mut model.emissions, &expected.emissions) {
        (Emissions::Categorical { symbols, probs }, Statistics::Categorical(counts)) => {
            let v = *symbols as usize;
            for (row, counts) in probs.chunks_exact_mut(v).zip(counts.chunks_exact(v)) {
                normalise(row, counts, emissions, None);
            }
        }
        (Emissions::Gaussian { dimensions, means, covariances }, Statistics::Gaussian { weights, sums, squares }) => {
            let d = *dimensions as usize;
            for (state, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight >= f64::MIN_POSITIVE) {
                let shift: Vec<f64> = sums[state * d..][..d].iter().map(|sum| sum / weight).collect();
                means[state * d..][..d].iter_mut().zip(&shift).for_each(|(mean, shift)| *mean += shift);
                match covariances {
                    Covariances::Diagonal(variances) => {
                        for k in 0..d {
                            variances[state * d + k] = squares[state * d + k] / weight - shift[k] * shift[k];
                        }
                    }
                    Covariances::Full(matrices) => {
                        for (place, entry) in matrices[state * d * d..][..d * d].iter_mut().enumerate() {
                            let square = squares[state * d * d + place] / weight;
                            *entry = square - shift[place / d] * shift[place % d];
                        }
                    }
                }
            }
            raise(covariances, d, options.floor);
        }
        // Statistics are of the kind that the model is.
        _ => {}
    }
}

/// The distribution that is in proportion to counts, and to that of the end, where it is not 0; if there are any.
fn normalise(probs: &mut [f64], counts: &[f64], pseudocount: f64, end: Option<(&mut f64, f64)>) {
    let count = |prob: f64, count: f64| if prob > 0.0 { count + pseudocount } else { 0.0 };
    let last = end.as_ref().map_or(0.0, |(prob, ended)| count(**prob, *ended));
    let total = probs.iter().zip(counts).map(|(&prob, &counted)| count(prob, counted)).sum::<f64>() + last;
    if total < f64::MIN_POSITIVE {
        return;
    }
    probs.iter_mut().zip(counts).for_each(|(prob, &counted)| *prob = count(*prob, counted) / total);
    if let Some((prob, _)) = end {
        *prob = last / total;
    }
}

/// Raises eigenvalues of covariances to the floor.
fn raise(covariances: &mut Covariances, d: usize, floor: f64) {
    match covariances {
        Covariances::Diagonal(variances) => variances.iter_mut().for_each(|variance| *variance = variance.max(floor)),
        Covariances::Full(matrices) => matrices.par_chunks_exact_mut(d * d).for_each(|matrix| clip(matrix, d, floor)),
    }
}

/// Raises the eigenvalues of a symmetric matrix of `d` rows to `floor`, by Jacobi's rotations.
fn clip(matrix: &mut [f64], d: usize, floor: f64) {
    let (mut a, mut v) = (matrix.to_vec(), vec![0.0; d * d]);
    (0..d).for_each(|i| v[i * d + i] = 1.0);
    let norm = a.iter().map(|x| x * x).sum::<f64>().sqrt();
    // Convergence is quadratic; more sweeps than this are never needed.
    for _ in 0..50 {
        let off = |a: &[f64]| (0..d * d).filter(|at| at / d != at % d).map(|at| a[at] * a[at]).sum::<f64>().sqrt();
        if off(&a) <= f64::EPSILON * norm {
            break;
        }
        for p in 0..d {
            for q in p + 1..d {
                if a[p * d + q] != 0.0 {
                    rotate(&mut a, &mut v, d, p, q);
                }
            }
        }
    }
    // What is above the floor anyway keeps its bits.
    if (0..d).all(|k| a[k * d + k] >= floor) {
        return;
    }
    for i in 0..d {
        for j in 0..=i {
            let sum = (0..d).map(|k| v[i * d + k] * a[k * d + k].max(floor) * v[j * d + k]).sum();
            (matrix[i * d + j], matrix[j * d + i]) = (sum, sum);
        }
    }
}

/// Makes a(p, q) zero (Golub and Van Loan, *Matrix Computations*, 8.5).
fn rotate(a: &mut [f64], v: &mut [f64], d: usize, p: usize, q: usize) {
    let tau = (a[q * d + q] - a[p * d + p]) / (2.0 * a[p * d + q]);
    let t = tau.signum() / (tau.abs() + tau.hypot(1.0));
    let c = 1.0 / t.hypot(1.0);
    let s = t * c;
    for k in 0..d {
        let (x, y) = (a[k * d + p], a[k * d + q]);
        (a[k * d + p], a[k * d + q]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..d {
        let (x, y) = (a[p * d + k], a[q * d + k]);
        (a[p * d + k], a[q * d + k]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..d {
        let (x, y) = (v[k * d + p], v[k * d + q]);
        (v[k * d + p], v[k * d + q]) = (c * x - s * y, s * x + c * y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_are_raised_to_the_floor() {
        // Eigenvalues 3 and −1 of (1, 1)/√2 and (1, −1)/√2.
        let mut matrix = [1.0, 2.0, 2.0, 1.0];
        clip(&mut matrix, 2, 1.0);
        let expected = [2.0, 1.0, 1.0, 2.0];
        assert!(matrix.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-15), "{matrix:?}");
        let before = matrix;
        clip(&mut matrix, 2, 0.5);
        assert_eq!(matrix, before);
    }
}
