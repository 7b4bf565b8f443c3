//! Normal distributions.

use rand_chacha::ChaCha8Rng;

use super::family::{Domain, Drawn, Parameter, Parametric, Sizes};
use crate::covariances::{Covariances, cholesky, normal, solve_lower};

/// Normal distributions b(x) = 𝒩(x; μ, Σ), which missing components are integrated out of.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    /// μ, N × C, row by row.
    pub means: Vec<f64>,
    /// Σ of each state.
    pub covariances: Covariances,
}

impl Gaussian {
    /// Number of sums per state: of γ, γ (x − μ) and γ (x − μ)(x − μ)ᵀ, or its diagonal.
    pub(crate) fn sums(&self, sizes: Sizes) -> usize {
        1 + sizes.components + self.squares(sizes)
    }

    /// Numbers of Σ per state.
    pub(crate) fn squares(&self, sizes: Sizes) -> usize {
        match self.covariances {
            Covariances::Diagonal(_) => sizes.components,
            Covariances::Full(_) => sizes.components * sizes.components,
        }
    }
}

/// ∂ Σ γ ln 𝒩(x; μ, Σ) / ∂μ and / ∂Σ from Σγ, Σ γ (x − μ) and Σ γ (x − μ)(x − μ)ᵀ, or its diagonal, as Σ is.
pub(crate) fn normal_slopes(weight: f64, sums: &[f64], squares: &[f64], covariance: &[f64]) -> [Vec<f64>; 2] {
    let d = sums.len();
    if covariance.len() == d {
        let of_variance = |(square, v): (&f64, &f64)| 0.5 * (square / v - weight) / v;
        let means = sums.iter().zip(covariance).map(|(sum, v)| sum / v).collect();
        // Of one component, both are the same.
        return [means, squares.iter().zip(covariance).map(of_variance).collect()];
    }
    // `Hmm` guarantees positive definite matrices. The columns of L⁻¹, whose products are Σ⁻¹.
    let lower = cholesky(covariance, d).unwrap_or_else(|| vec![f64::NAN; d * d]);
    let column = |k: usize| {
        let mut x = vec![0.0; d];
        x[k] = 1.0;
        solve_lower(&lower, &mut x);
        x
    };
    let columns: Vec<Vec<f64>> = (0..d).map(column).collect();
    let entry = |at: usize| -> f64 { columns[at / d].iter().zip(&columns[at % d]).map(|(a, b)| a * b).sum() };
    let precision: Vec<f64> = (0..d * d).map(entry).collect();
    let product = |a: &[f64], b: &[f64]| -> Vec<f64> {
        (0..d * d).map(|at| (0..d).map(|k| a[at / d * d + k] * b[k * d + at % d]).sum()).collect()
    };
    let means = precision.chunks_exact(d).map(|row| row.iter().zip(sums).map(|(a, b)| a * b).sum()).collect();
    let both = product(&product(&precision, squares), &precision);
    [means, both.iter().zip(&precision).map(|(both, one)| 0.5 * (both - weight * one)).collect()]
}

impl Parametric for Gaussian {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let c = sizes.components;
        let (shape, domain, numbers) = match &self.covariances {
            Covariances::Diagonal(numbers) => (vec![c], Domain::Positive, numbers),
            Covariances::Full(numbers) => (vec![c, c], Domain::Covariance, numbers),
        };
        vec![
            Parameter { name: "means", shape: vec![c], domain: Domain::Real, numbers: &self.means },
            Parameter { name: "covariances", shape, domain, numbers },
        ]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = &mut self.covariances;
        vec![&mut self.means, numbers]
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        let c = sizes.components;
        let means = &self.means[sizes.of(state)];
        Ok(match &self.covariances {
            Covariances::Diagonal(variances) => {
                let variances = &variances[sizes.of(state)];
                means.iter().zip(variances).map(|(mean, variance)| mean + variance.sqrt() * normal(random)).collect()
            }
            Covariances::Full(matrices) => {
                // Validated matrices are positive definite.
                let lower = cholesky(&matrices[state * c * c..][..c * c], c).unwrap_or_else(|| vec![0.0; c * c]);
                let drawn: Vec<f64> = (0..c).map(|_| normal(random)).collect();
                let shift = |k: usize| lower[k * c..=k * c + k].iter().zip(&drawn).map(|(l, x)| l * x).sum::<f64>();
                means.iter().enumerate().map(|(k, mean)| mean + shift(k)).collect()
            }
        })
    }
}
