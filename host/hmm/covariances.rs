//! Normal distributions: covariances, their Cholesky factors, variance floors, and draws.

use rand_chacha::rand_core::Rng;
use warpkov_common::random::unit;

/// Relative tolerance of the symmetry check of covariance matrices.
const SYMMETRY: f64 = 1e-8;

/// Covariances of normal densities.
#[derive(Clone, Debug, PartialEq)]
pub enum Covariances {
    /// Diagonal matrices, stored as variances, N × D.
    Diagonal(Vec<f64>),
    /// Symmetric positive definite matrices, N × D × D.
    Full(Vec<f64>),
}

impl Covariances {
    /// Drops the off-diagonal entries. `d` is D.
    #[must_use]
    pub fn diagonal(self, d: usize) -> Self {
        match self {
            Self::Full(matrices) => Self::Diagonal(
                matrices.chunks_exact(d * d).flat_map(|matrix| matrix.iter().step_by(d + 1)).copied().collect(),
            ),
            diagonal => diagonal,
        }
    }

    /// Replaces the variances of each state by their mean, and other entries by 0. `d` is D.
    #[must_use]
    pub fn spherical(self, d: usize) -> Self {
        let each = |mut numbers: Vec<f64>, width: usize, step: usize| {
            for entries in numbers.chunks_exact_mut(width) {
                let variances = || entries.iter().step_by(step);
                // Equal variances keep their bits.
                let equal = variances().all(|variance| *variance == entries[0]);
                let mean = if equal { entries[0] } else { variances().map(|x| x / d as f64).sum() };
                entries.iter_mut().enumerate().for_each(|(at, entry)| *entry = if at % step == 0 { mean } else { 0.0 });
            }
            numbers
        };
        match self {
            Self::Diagonal(variances) => Self::Diagonal(each(variances, d, 1)),
            Self::Full(matrices) => Self::Full(each(matrices, d * d, d + 1)),
        }
    }

    /// Replaces the covariances of all states by their mean. `d` is D.
    #[must_use]
    pub fn tied(self, d: usize) -> Self {
        let mean = |numbers: Vec<f64>, width: usize| -> Vec<f64> {
            let n = numbers.len() / width;
            // Equal covariances keep their bits.
            if numbers.chunks_exact(width).all(|state| *state == numbers[..width]) {
                return numbers;
            }
            let entry = |at: usize| numbers.iter().skip(at).step_by(width).map(|x| x / n as f64).sum();
            (0..width).map(entry).collect::<Vec<f64>>().repeat(n)
        };
        match self {
            Self::Diagonal(variances) => Self::Diagonal(mean(variances, d)),
            Self::Full(matrices) => Self::Full(mean(matrices, d * d)),
        }
    }

    /// Expands variances to diagonal matrices. `d` is D.
    #[must_use]
    pub fn full(self, d: usize) -> Self {
        match self {
            Self::Diagonal(variances) => {
                let mut matrices = vec![0.0; variances.len() * d];
                for (matrix, variances) in matrices.chunks_exact_mut(d * d).zip(variances.chunks_exact(d)) {
                    matrix.iter_mut().step_by(d + 1).zip(variances).for_each(|(entry, variance)| *entry = *variance);
                }
                Self::Full(matrices)
            }
            full => full,
        }
    }
}

/// Averages a `d` × `d` matrix with its transpose. Returns `false` where it is not symmetric within [`SYMMETRY`].
pub(crate) fn symmetrise(matrix: &mut [f64], d: usize) -> bool {
    for i in 0..d {
        for j in 0..i {
            let (lower, upper) = (matrix[i * d + j], matrix[j * d + i]);
            if (lower - upper).abs() > SYMMETRY * lower.abs().max(upper.abs()) {
                return false;
            }
            let mean = lower / 2.0 + upper / 2.0;
            (matrix[i * d + j], matrix[j * d + i]) = (mean, mean);
        }
    }
    true
}

/// Cholesky factor L (lower triangular, L Lᵀ = Σ) of a symmetric `d` × `d` matrix; `None` where it is not positive
/// definite.
#[must_use]
pub fn cholesky(matrix: &[f64], d: usize) -> Option<Vec<f64>> {
    let mut lower = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| lower[i * d + k] * lower[j * d + k]).sum();
            let rest = matrix[i * d + j] - dot;
            lower[i * d + j] = match i == j {
                true if rest > 0.0 && rest.is_finite() => rest.sqrt(),
                true => return None,
                false => rest / lower[j * d + j],
            };
        }
    }
    Some(lower)
}

/// Replaces x, D numbers, by L⁻¹ x, where L is lower triangular.
pub(crate) fn solve_lower(lower: &[f64], x: &mut [f64]) {
    let d = x.len();
    for i in 0..d {
        let known: f64 = (0..i).map(|k| lower[i * d + k] * x[k]).sum();
        x[i] = (x[i] - known) / lower[i * d + i];
    }
}

/// Whether a `d` × `d` matrix is symmetric and positive semidefinite, up to rounding errors of its diagonal.
pub(crate) fn is_semidefinite(matrix: &[f64], d: usize) -> bool {
    let mut raised = matrix.to_vec();
    if !matrix.iter().all(|x| x.is_finite()) || !symmetrise(&mut raised, d) {
        return false;
    }
    for k in 0..d {
        let row = &mut raised[k * d..][..d];
        // A row of zeros says nothing about the others.
        row[k] = if row.iter().all(|x| *x == 0.0) { 1.0 } else { row[k] * (1.0 + 1e-12 * d as f64) };
    }
    cholesky(&raised, d).is_some()
}

/// Rounding error of Σγ (x − μ)² / Σγ − s² relative to s², where s is the shift from μ to the new mean.
const SHIFTED: f64 = 1e-12;

/// The least variance in a dimension, where `before` is the previous one and `shift` the change of the mean.
pub(crate) fn least_variance(before: f64, floor: f64, shift: f64) -> f64 {
    floor.min(before).max(SHIFTED * shift * shift)
}

/// A draw from the standard normal distribution, by the Box-Muller transform.
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - unit(random))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cholesky_is_that_of_the_textbook() {
        // The factor has integer entries, so the comparison is exact.
        let matrix = [4.0, 12.0, -16.0, 12.0, 37.0, -43.0, -16.0, -43.0, 98.0];
        assert_eq!(cholesky(&matrix, 3).unwrap(), [2.0, 0.0, 0.0, 6.0, 1.0, 0.0, -8.0, 5.0, 3.0]);
    }
}
