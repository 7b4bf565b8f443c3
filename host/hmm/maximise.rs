//! The M step of Baum and Welch: the model that expected counts make most likely.
//!
//! πᵢ ∝ Σ γ₁(i), Aᵢⱼ ∝ Σₜ ξₜ(i, j) over t < T, with endᵢ ∝ Σ γ_T(i) beside them where states end, Bⱼₒ ∝ Σ γₜ(j) over oₜ = o, and
//! weighted means and covariances. With pseudocounts c, a Dirichlet prior, c is added to each count. What is 0 stays 0, with pseudocounts
//! too, and what no sequence visits stays as it is.
//!
//! Covariances have eigenvalues of at least a floor, which is the best that the counts allow under this condition.

use rayon::prelude::*;

use super::model::{Covariances, Emissions, Hmm};
use super::recursions::{Expected, Statistics};

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

impl Pseudocounts {
    /// Whether there are none.
    pub(super) fn none(&self) -> bool {
        *self == Self::default()
    }
}

/// The M step. Eigenvalues of covariances are at least `floor`.
pub(crate) fn maximise(model: &mut Hmm, expected: &Expected, pseudocounts: &Pseudocounts, floor: f64) {
    let Pseudocounts { start, transitions, emissions } = *pseudocounts;
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
            raise(covariances, d, floor);
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

/// Raises eigenvalues of covariances to the floor, where vectors are emitted.
pub(super) fn floored(mut model: Hmm, floor: f64) -> Hmm {
    if let Emissions::Gaussian { dimensions, covariances, .. } = &mut model.emissions {
        raise(covariances, *dimensions as usize, floor);
    }
    model
}

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
