//! Distributions given regressors z: linear regression with normal errors, autoregression, and logistic regression.

use std::f64::consts::TAU;

use rand_chacha::ChaCha8Rng;
use warpkov_common::random::unit;

use super::family::{Density, Domain, Drawn, Estimated, LEAST_WEIGHT, Parameter, Parametric, Sizes, bit};
use crate::covariances::{cholesky, least_variance, normal, solve_lower};

/// Independent components with normal errors: b(x | z) = Π 𝒩(xᵢ; cᵢ + aᵢᵀz, vᵢ).
///
/// The regressors z are the inputs, in their order, then the components of this channel 1, 2, … L steps ago. So inputs alone are a
/// linear regression, and lags alone are an autoregression. The first L observations of a sequence have no regressors: they have
/// density 1, so likelihoods are conditional on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Regression {
    /// Columns with the inputs.
    pub inputs: Vec<u32>,
    /// L.
    pub lags: u32,
    /// a, N × C × R for R regressors.
    pub coefficients: Vec<f64>,
    /// c, N × C.
    pub intercepts: Vec<f64>,
    /// v, N × C.
    pub variances: Vec<f64>,
}

/// Independent components of 0 or 1: b(xᵢ = 1 | z) = 1 / (1 + e^−ψᵢ) with ψᵢ = cᵢ + aᵢᵀz.
///
/// The M step takes Pólya-Gamma variables as hidden: (xᵢ − ½) ψ − ½ ω ψ² with ω = tanh(ψ / 2) / 2ψ at the present ψ is a lower bound
/// of ln b up to a constant (Polson, Scott and Windle, *Bayesian inference for logistic models using Pólya-Gamma latent variables*, 2013;
/// the bound is Jaakkola and Jordan's).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logistic {
    /// Columns with the regressors z.
    pub inputs: Vec<u32>,
    /// a, N × C × R for R regressors.
    pub coefficients: Vec<f64>,
    /// c, N × C.
    pub intercepts: Vec<f64>,
}

fn linear<'a>(coefficients: &'a [f64], intercepts: &'a [f64], sizes: Sizes) -> [Parameter<'a>; 2] {
    let of = |name, shape, numbers| Parameter { name, shape, domain: Domain::Real, numbers };
    [
        of("coefficients", vec![sizes.components, sizes.regressors], coefficients),
        of("intercepts", vec![sizes.components], intercepts),
    ]
}

/// c + aᵀz of component `at` of all states together.
fn predicted(coefficients: &[f64], intercepts: &[f64], at: usize, z: &[f64]) -> f64 {
    let row = &coefficients[at * z.len()..][..z.len()];
    intercepts[at] + row.iter().zip(z).map(|(a, z)| a * z).sum::<f64>()
}

/// Adds w (1, z)(1, z)ᵀ, and (1, z) g behind it.
fn add_normal_equations(sums: &mut [f64], z: &[f64], w: f64, g: f64) {
    let q = z.len() + 1;
    let entry = |k: usize| if k == 0 { 1.0 } else { z[k - 1] };
    let (matrix, vector) = sums.split_at_mut(q * q);
    matrix.iter_mut().enumerate().for_each(|(at, sum)| *sum += w * entry(at / q) * entry(at % q));
    vector[..q].iter_mut().enumerate().for_each(|(k, sum)| *sum += g * entry(k));
}

/// Solves G δ = g for a positive semidefinite G. Where it is singular, its diagonal is raised; such a δ does not lower gᵀδ − ½ δᵀGδ
/// below 0 either.
fn solve(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    let q = vector.len();
    let scale = |k: usize| if matrix[k * (q + 1)] > 0.0 { 1.0 / matrix[k * (q + 1)].sqrt() } else { 1.0 };
    let scales: Vec<f64> = (0..q).map(scale).collect();
    let scaled: Vec<f64> = matrix.iter().enumerate().map(|(at, x)| x * scales[at / q] * scales[at % q]).collect();
    let mut ridge = f64::EPSILON * q as f64;
    let lower = loop {
        let mut raised = scaled.clone();
        (0..q).for_each(|k| raised[k * (q + 1)] += ridge);
        match cholesky(&raised, q) {
            Some(lower) => break lower,
            None if ridge < 1e3 => ridge *= 16.0,
            // Infinite sums.
            None => return vec![0.0; q],
        }
    };
    let mut x: Vec<f64> = vector.iter().zip(&scales).map(|(g, scale)| g * scale).collect();
    solve_lower(&lower, &mut x);
    for k in (0..q).rev() {
        let known: f64 = (k + 1..q).map(|i| lower[i * q + k] * x[i]).sum();
        x[k] = (x[k] - known) / lower[k * q + k];
    }
    x.iter().zip(&scales).map(|(x, scale)| x * scale).collect()
}

/// Adds δ to intercept and coefficients.
fn shift(coefficients: &mut [f64], intercepts: &mut [f64], at: usize, delta: &[f64]) {
    intercepts[at] += delta[0];
    let r = delta.len() - 1;
    coefficients[at * r..][..r].iter_mut().zip(&delta[1..]).for_each(|(a, more)| *a += more);
}

impl Parametric for Regression {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let [coefficients, intercepts] = linear(&self.coefficients, &self.intercepts, sizes);
        let (shape, domain, numbers) = (vec![sizes.components], Domain::Positive, &self.variances[..]);
        vec![coefficients, intercepts, Parameter { name: "variances", shape, domain, numbers }]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.coefficients, &mut self.intercepts, &mut self.variances]
    }

    fn draw(&self, sizes: Sizes, state: usize, z: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        let mean = |at: usize| predicted(&self.coefficients, &self.intercepts, at, z);
        Ok(sizes.of(state).map(|at| mean(at) + self.variances[at].sqrt() * normal(random)).collect())
    }
}

/// Sums of a with errors e = x − c − aᵀz: of γ (1, z)(1, z)ᵀ, γ (1, z) e and γ e².
impl Estimated for Regression {
    fn density(&self, sizes: Sizes) -> Box<dyn Density> {
        let logs = self.variances.iter().map(|variance| -0.5 * (TAU.ln() + variance.ln())).collect();
        Box::new(Residuals { law: self.clone(), components: sizes.components, logs })
    }

    fn sums(&self, sizes: Sizes) -> usize {
        let q = sizes.regressors + 1;
        sizes.components * (q * q + q + 1)
    }

    fn slopes(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Option<Vec<Vec<f64>>> {
        let q = sizes.regressors + 1;
        let each =
            || sizes.of(state).zip(sums.chunks_exact(q * q + q + 1)).map(|(at, sums)| (self.variances[at], sums));
        Some(vec![
            each().flat_map(|(v, sums)| sums[q * q + 1..][..q - 1].iter().map(move |g| g / v)).collect(),
            each().map(|(v, sums)| sums[q * q] / v).collect(),
            each().map(|(v, sums)| 0.5 * (sums[q * q + q] / v - sums[0]) / v).collect(),
        ])
    }

    fn maximise(&mut self, sizes: Sizes, state: usize, sums: &[f64], floors: &[f64]) {
        let q = sizes.regressors + 1;
        for (k, sums) in sums.chunks_exact(q * q + q + 1).enumerate() {
            let (matrix, vector, weight) = (&sums[..q * q], &sums[q * q..q * q + q], sums[0]);
            if weight < LEAST_WEIGHT {
                continue;
            }
            let (at, delta) = (state * sizes.components + k, solve(matrix, vector));
            let explained: f64 = delta.iter().zip(vector).map(|(delta, g)| delta * g).sum::<f64>() / weight;
            let moved = delta
                .iter()
                .enumerate()
                .map(|(i, x)| x * matrix[i * q..][..q].iter().zip(&delta).map(|(entry, y)| entry * y).sum::<f64>());
            let moved = moved.sum::<f64>().max(0.0) / weight;
            let least = least_variance(self.variances[at], floors[k], moved.sqrt());
            let variance = (sums[q * q + q] / weight - 2.0 * explained + moved).max(least);
            shift(&mut self.coefficients, &mut self.intercepts, at, &delta);
            self.variances[at] = variance;
        }
    }
}

struct Residuals {
    law: Regression,
    components: usize,
    /// −½ ln(2πv), N × C.
    logs: Vec<f64>,
}

impl Density for Residuals {
    fn add_logs(&self, x: &[f64], z: &[f64], logs: &mut [f64]) {
        for (state, log) in logs.iter_mut().enumerate() {
            for (k, x) in x.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
                let at = state * self.components + k;
                let error = x - predicted(&self.law.coefficients, &self.law.intercepts, at, z);
                *log += self.logs[at] - 0.5 * error * error / self.law.variances[at];
            }
        }
    }

    fn count(&self, x: &[f64], z: &[f64], state: usize, gamma: f64, sums: &mut [f64]) {
        let q = z.len() + 1;
        let each = x.iter().enumerate().zip(sums.chunks_exact_mut(q * q + q + 1));
        for ((k, x), sums) in each.filter(|((_, x), _)| !x.is_nan()) {
            let at = state * self.components + k;
            let error = x - predicted(&self.law.coefficients, &self.law.intercepts, at, z);
            add_normal_equations(sums, z, gamma, gamma * error);
            sums[q * q + q] += gamma * error * error;
        }
    }
}

impl Parametric for Logistic {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        linear(&self.coefficients, &self.intercepts, sizes).into()
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.coefficients, &mut self.intercepts]
    }

    fn unsupported(&self, _: Sizes, x: &[f64]) -> Option<(usize, &'static str)> {
        bit(x)
    }

    fn draw(&self, sizes: Sizes, state: usize, z: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        let prob = |at: usize| 1.0 / (1.0 + libm::exp(-predicted(&self.coefficients, &self.intercepts, at, z)));
        Ok(sizes.of(state).map(|at| f64::from(u8::from(unit(random) < prob(at)))).collect())
    }
}

/// Sums of a component: of γ ω (1, z)(1, z)ᵀ and γ (1, z) (x − b(1 | z)).
impl Estimated for Logistic {
    fn density(&self, sizes: Sizes) -> Box<dyn Density> {
        Box::new(Odds { law: self.clone(), components: sizes.components })
    }

    fn sums(&self, sizes: Sizes) -> usize {
        let q = sizes.regressors + 1;
        sizes.components * (q * q + q)
    }

    fn slopes(&self, sizes: Sizes, _: usize, sums: &[f64]) -> Option<Vec<Vec<f64>>> {
        let q = sizes.regressors + 1;
        let each = || sums.chunks_exact(q * q + q).map(|sums| &sums[q * q..]);
        Some(vec![each().flat_map(|sums| sums[1..].to_vec()).collect(), each().map(|sums| sums[0]).collect()])
    }

    fn maximise(&mut self, sizes: Sizes, state: usize, sums: &[f64], _: &[f64]) {
        let q = sizes.regressors + 1;
        for (k, sums) in sums.chunks_exact(q * q + q).enumerate().filter(|(_, sums)| sums[0] >= LEAST_WEIGHT) {
            let (matrix, vector) = sums.split_at(q * q);
            let at = state * sizes.components + k;
            shift(&mut self.coefficients, &mut self.intercepts, at, &solve(matrix, vector));
        }
    }
}

struct Odds {
    law: Logistic,
    components: usize,
}

impl Density for Odds {
    fn add_logs(&self, x: &[f64], z: &[f64], logs: &mut [f64]) {
        for (state, log) in logs.iter_mut().enumerate() {
            for (k, x) in x.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
                let psi = predicted(&self.law.coefficients, &self.law.intercepts, state * self.components + k, z);
                // −ln(1 + e^−ψ), or −ln(1 + e^ψ) of 0.
                let psi = if *x > 0.5 { -psi } else { psi };
                *log -= psi.max(0.0) + (-psi.abs()).exp().ln_1p();
            }
        }
    }

    fn count(&self, x: &[f64], z: &[f64], state: usize, gamma: f64, sums: &mut [f64]) {
        let q = z.len() + 1;
        let each = x.iter().enumerate().zip(sums.chunks_exact_mut(q * q + q));
        for ((k, x), sums) in each.filter(|((_, x), _)| !x.is_nan()) {
            let psi = predicted(&self.law.coefficients, &self.law.intercepts, state * self.components + k, z);
            let half = 0.5 * psi;
            let omega = if half.abs() > 1e-4 { 0.25 * half.tanh() / half } else { 0.25 * (1.0 - half * half / 3.0) };
            // x − 1 / (1 + e^−ψ), without cancellation where it is small.
            let error = if *x > 0.5 { 1.0 / (1.0 + psi.exp()) } else { -1.0 / (1.0 + (-psi).exp()) };
            add_normal_equations(sums, z, gamma * omega, gamma * error);
        }
    }
}
