//! Normal distributions.

use rand_chacha::ChaCha8Rng;

use super::family::{Domain, Drawn, Parameter, Parametric, Sizes};
use crate::covariances::{Covariances, cholesky, normal};

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
