//! Normal densities of all states.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use crate::backends::cpu::product::{LANES, stride};
use crate::covariances::{Covariances, cholesky};

/// ln √(2π).
const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// Memory for the [marginals](Marginal) that a model keeps, in bytes. Further ones are computed for each observation.
const MARGINALS: usize = 64 << 20;

/// Normal densities of all states: ln bⱼ(x) = cⱼ − ½ ‖Lⱼ⁻¹ (x − μⱼ)‖² with Lⱼ Lⱼᵀ = Σⱼ. Missing components of x, which
/// are NaN, are integrated out: the rest has the [marginal](Marginal) density.
pub struct Densities {
    /// For each [`LANES`] states j: cⱼ = −D ln √(2π) − Σ ln Lⱼ(d, d); μⱼ, D numbers; and Lⱼ⁻¹, row by row, without the entries that are
    /// always 0. All are 0 in the padding: exponentials of 0 take less time than those that underflow.
    panels: Vec<[f64; LANES]>,
    /// Numbers per state in a panel.
    size: usize,
    /// D.
    dimensions: usize,
    /// μⱼ(d) at d · stride + j.
    pub means: Vec<f64>,
    /// N.
    states: usize,
    /// Σ of each state.
    covariances: Covariances,
    /// The marginals that were needed so far, by the missing components.
    marginals: RwLock<HashMap<Vec<bool>, Arc<Marginal>>>,
}

/// Normal densities of the observed components o of vectors whose components m are missing, and the distribution of
/// the missing ones: xₘ given xₒ has mean μₘ + Σₘₒ Σₒₒ⁻¹ (xₒ − μₒ) and covariance Σₘₘ − Σₘₒ Σₒₒ⁻¹ Σₒₘ.
struct Marginal {
    observed: Vec<usize>,
    missing: Vec<usize>,
    densities: Densities,
    /// Σₘₒ Σₒₒ⁻¹ of each state, row by row; empty for diagonal covariances, where it is 0.
    coefficients: Vec<f64>,
    /// The conditional covariance of each state, row by row; the variances for diagonal covariances.
    conditional: Vec<f64>,
}

/// The distribution of a partly missing vector x in one state, given the observed components.
pub struct Completion<'c> {
    pub state: usize,
    /// E[x − μⱼ], D numbers.
    pub deviation: &'c [f64],
    /// Cov[x], 0 for observed components: D × D, or its diagonal for diagonal covariances.
    pub covariance: &'c [f64],
}

impl Densities {
    pub fn new(n: usize, d: usize, means: &[f64], covariances: &Covariances) -> Self {
        let stride = stride(n);
        let mut transposed = vec![0.0; d * stride];
        let entries = match covariances {
            Covariances::Diagonal(_) => d,
            Covariances::Full(_) => d * (d + 1) / 2,
        };
        let size = 1 + d + entries;
        let mut panels = vec![[0.0; LANES]; stride / LANES * size];
        for state in 0..n {
            for k in 0..d {
                transposed[k * stride + state] = means[state * d + k];
            }
            let inverse: Vec<f64> = match covariances {
                Covariances::Diagonal(variances) => {
                    variances[state * d..][..d].iter().map(|variance| 1.0 / variance.sqrt()).collect()
                }
                // `Hmm` guarantees positive definite matrices. Their submatrices are so up to rounding errors.
                Covariances::Full(matrices) => inverse(&factor(matrices[state * d * d..][..d * d].to_vec(), d), d),
            };
            let end = |row: usize| if entries == d { row } else { (row + 1) * (row + 2) / 2 - 1 };
            let constant = (0..d).map(|row| inverse[end(row)].ln()).sum::<f64>() - d as f64 * HALF_LOG_TWO_PI;
            let numbers = [constant].into_iter().chain(means[state * d..][..d].iter().copied()).chain(inverse);
            let panel = &mut panels[state / LANES * size..][..size];
            panel.iter_mut().zip(numbers).for_each(|(row, number)| row[state % LANES] = number);
        }
        let (covariances, marginals) = (covariances.clone(), RwLock::default());
        Self { panels, size, dimensions: d, means: transposed, states: n, covariances, marginals }
    }

    /// The columns of a row of L⁻¹ that may be nonzero.
    #[inline(always)]
    fn columns(&self, row: usize) -> Range<usize> {
        if matches!(self.covariances, Covariances::Diagonal(_)) { row..row + 1 } else { 0..row + 1 }
    }

    /// Length of the rows of [`logs`](Self::logs): N, rounded up.
    pub fn stride(&self) -> usize {
        stride(self.states)
    }

    /// ln bⱼ(x) of all states j.
    #[inline(always)]
    pub fn logs(&self, x: &[f64], logs: &mut [f64]) {
        if is_partial(x) {
            let marginal = self.marginal(x);
            return marginal.densities.complete_logs(&marginal.observed(x), logs);
        }
        self.complete_logs(x, logs);
    }

    /// ln bⱼ(x) of all states j for a vector without missing components.
    #[inline(always)]
    fn complete_logs(&self, x: &[f64], logs: &mut [f64]) {
        let (d, panels) = (self.dimensions, self.panels.chunks_exact(self.size));
        for (logs, panel) in logs.as_chunks_mut::<LANES>().0.iter_mut().zip(panels) {
            let (mut all, means, mut factors) = (panel[0], &panel[1..=d], panel[1 + d..].iter());
            for row in 0..d {
                let mut y = [0.0; LANES];
                for (column, factor) in self.columns(row).zip(&mut factors) {
                    for lane in 0..LANES {
                        y[lane] += factor[lane] * (x[column] - means[column][lane]);
                    }
                }
                for lane in 0..LANES {
                    all[lane] -= 0.5 * y[lane] * y[lane];
                }
            }
            // ∞ − ∞: the density underflows.
            *logs = all.map(|log| if log.is_nan() { f64::NEG_INFINITY } else { log });
        }
    }

    /// ln bⱼ(x) of state j alone, with the same bits as in [`logs`](Self::logs).
    pub fn log(&self, x: &[f64], state: usize) -> f64 {
        if is_partial(x) {
            let marginal = self.marginal(x);
            return marginal.densities.complete_log(&marginal.observed(x), state);
        }
        self.complete_log(x, state)
    }

    fn complete_log(&self, x: &[f64], state: usize) -> f64 {
        let (d, lane) = (self.dimensions, state % LANES);
        let panel = &self.panels[state / LANES * self.size..][..self.size];
        let mut factors = panel[1 + d..].iter();
        let log = (0..d).fold(panel[0][lane], |log, row| {
            let terms = self.columns(row).zip(&mut factors);
            let y = terms.fold(0.0, |y, (column, factor)| y + factor[lane] * (x[column] - panel[1 + column][lane]));
            log - 0.5 * y * y
        });
        if log.is_nan() { f64::NEG_INFINITY } else { log }
    }

    /// Passes the distribution of the partly missing vector `x` in each state to `take`.
    #[cold]
    pub fn completions(&self, x: &[f64], take: impl FnMut(Completion<'_>)) {
        self.completions_in(0..self.states, x, take);
    }

    /// As [`completions`](Self::completions), in some of the states.
    #[cold]
    pub fn completions_in(&self, states: Range<usize>, x: &[f64], mut take: impl FnMut(Completion<'_>)) {
        let (d, stride, marginal) = (x.len(), self.stride(), self.marginal(x));
        let Marginal { observed, missing, coefficients, conditional, .. } = &*marginal;
        let (o, m) = (observed.len(), missing.len());
        let full = matches!(self.covariances, Covariances::Full(_));
        let (mut deviation, mut covariance) = (vec![0.0; d], vec![0.0; if full { d * d } else { d }]);
        for state in states {
            for &k in observed {
                deviation[k] = x[k] - self.means[k * stride + state];
            }
            for (row, &k) in missing.iter().enumerate() {
                if full {
                    let coefficients = &coefficients[(state * m + row) * o..][..o];
                    deviation[k] = coefficients.iter().zip(observed).map(|(c, &e)| c * deviation[e]).sum();
                    let conditional = &conditional[(state * m + row) * m..][..m];
                    missing.iter().zip(conditional).for_each(|(&e, entry)| covariance[k * d + e] = *entry);
                } else {
                    covariance[k] = conditional[state * m + row];
                }
            }
            take(Completion { state, deviation: &deviation, covariance: &covariance });
        }
    }

    /// The marginal of the components of `x` that are no NaN.
    #[cold]
    fn marginal(&self, x: &[f64]) -> Arc<Marginal> {
        let lost: Vec<bool> = x.iter().map(|x| x.is_nan()).collect();
        // A panic of another thread leaves the table whole.
        if let Some(known) = self.marginals.read().unwrap_or_else(PoisonError::into_inner).get(&lost) {
            return Arc::clone(known);
        }
        let marginal = Arc::new(Marginal::new(self, &lost));
        let bytes = self.states * 2 * x.len() * x.len() * size_of::<f64>();
        let mut marginals = self.marginals.write().unwrap_or_else(PoisonError::into_inner);
        if marginals.len() * bytes < MARGINALS {
            marginals.insert(lost, Arc::clone(&marginal));
        }
        marginal
    }
}

/// Whether components of a vector are missing.
#[inline(always)]
pub fn is_partial(x: &[f64]) -> bool {
    x.iter().any(|x| x.is_nan())
}

impl Marginal {
    fn new(whole: &Densities, lost: &[bool]) -> Self {
        let (n, d, stride) = (whole.states, lost.len(), whole.stride());
        let (missing, observed): (Vec<usize>, Vec<usize>) = (0..d).partition(|&k| lost[k]);
        let (o, m) = (observed.len(), missing.len());
        let mean = |at: usize| whole.means[observed[at % o] * stride + at / o];
        let means: Vec<f64> = (0..n * o).map(mean).collect();
        let (mut coefficients, mut conditional) = (Vec::new(), Vec::new());
        let covariances = match &whole.covariances {
            Covariances::Diagonal(variances) => {
                let of = |which: &[usize]| -> Vec<f64> {
                    variances.chunks_exact(d).flat_map(|row| which.iter().map(move |&k| row[k])).collect()
                };
                conditional = of(&missing);
                Covariances::Diagonal(of(&observed))
            }
            Covariances::Full(matrices) => {
                let order: Vec<usize> = observed.iter().chain(&missing).copied().collect();
                let mut kept = Vec::with_capacity(n * o * o);
                for matrix in matrices.chunks_exact(d * d) {
                    let sorted: Vec<f64> = (0..d * d).map(|at| matrix[order[at / d] * d + order[at % d]]).collect();
                    let lower = factor(sorted, d);
                    // Of the factor's blocks Lₒₒ, Lₘₒ and Lₘₘ: Σₒₒ = Lₒₒ Lₒₒᵀ, Σₘₒ Σₒₒ⁻¹ = Lₘₒ Lₒₒ⁻¹, and the conditional
                    // covariance is Lₘₘ Lₘₘᵀ, without cancellation.
                    let at = |row: usize, column: usize| lower[row * d + column];
                    kept.extend((0..o * o).map(|i| matrix[observed[i / o] * d + observed[i % o]]));
                    for row in o..d {
                        let mut solved = vec![0.0; o];
                        for column in (0..o).rev() {
                            let known: f64 = (column + 1..o).map(|k| solved[k] * at(k, column)).sum();
                            solved[column] = (at(row, column) - known) / at(column, column);
                        }
                        coefficients.extend(solved);
                    }
                    for entry in 0..m * m {
                        let (row, column) = (o + entry / m, o + entry % m);
                        conditional.push((o..=row.min(column)).map(|k| at(row, k) * at(column, k)).sum());
                    }
                }
                Covariances::Full(kept)
            }
        };
        let densities = Densities::new(n, o, &means, &covariances);
        Self { observed, missing, densities, coefficients, conditional }
    }

    /// The observed components of `x`.
    fn observed(&self, x: &[f64]) -> Vec<f64> {
        self.observed.iter().map(|&k| x[k]).collect()
    }
}

/// The Cholesky factor of a matrix that is positive definite up to rounding errors: the diagonal is raised until the
/// factor exists.
fn factor(mut matrix: Vec<f64>, d: usize) -> Vec<f64> {
    let mut raise = f64::EPSILON * d as f64;
    loop {
        match cholesky(&matrix, d) {
            Some(lower) => return lower,
            // A diagonally dominant matrix has a factor, so this ends; NaN cannot occur in an `Hmm`.
            None if raise.is_finite() => {
                (0..d).for_each(|k| matrix[k * (d + 1)] *= 1.0 + raise);
                raise *= 4.0;
            }
            None => return vec![f64::NAN; d * d],
        }
    }
}

/// L⁻¹ of a lower triangular `d` × `d` matrix, as packed rows up to the diagonal.
fn inverse(lower: &[f64], d: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; d * (d + 1) / 2];
    let at = |row: usize, column: usize| row * (row + 1) / 2 + column;
    for row in 0..d {
        let pivot = 1.0 / lower[row * d + row];
        for column in 0..row {
            let dot: f64 = (column..row).map(|k| lower[row * d + k] * inverse[at(k, column)]).sum();
            inverse[at(row, column)] = -dot * pivot;
        }
        inverse[at(row, row)] = pivot;
    }
    inverse
}
