//! Student's t distributions, which tolerate outliers.

use std::f64::consts::PI;

use rand_chacha::ChaCha8Rng;

use super::durations::gamma;
use super::family::{Density, Domain, Drawn, Estimated, LEAST_WEIGHT, Parameter, Parametric, Sizes};
use crate::covariances::{least_variance, normal};
use crate::special::{digamma, inverse_log_minus_digamma, log_gamma_step};

/// Largest ν that training finds: a normal distribution for every purpose.
const MOST_DEGREES: f64 = 1e6;

/// Independent components with location μ, scale σ and ν degrees of freedom: with r = (x − μ) / σ,
///
/// > b(x) = Γ((ν + 1) / 2) / (Γ(ν / 2) √(πν) σ) · (1 + r² / ν)^(−(ν + 1) / 2)
///
/// It is a normal distribution of variance σ² / u with u from a gamma distribution of shape and rate ν / 2, which the M step takes as
/// hidden (Liu, Rubin and Wu, *Parameter expansion to accelerate EM*, 1998).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudentT {
    /// ν, N × C, row by row.
    pub degrees: Vec<f64>,
    /// μ, N × C, row by row.
    pub locations: Vec<f64>,
    /// σ, N × C, row by row.
    pub scales: Vec<f64>,
}

impl Parametric for StudentT {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let of = |name, domain, numbers| Parameter { name, shape: vec![sizes.components], domain, numbers };
        vec![
            of("degrees", Domain::Positive, &self.degrees),
            of("locations", Domain::Real, &self.locations),
            of("scales", Domain::Positive, &self.scales),
        ]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.degrees, &mut self.locations, &mut self.scales]
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        let draw = |at: usize| {
            let half = 0.5 * self.degrees[at];
            let root = (gamma(random, half) / half).sqrt();
            self.locations[at] + self.scales[at] * normal(random) / root
        };
        Ok(sizes.of(state).map(draw).collect())
    }
}

/// Sums of a component: of γ, γ u, γ u (x − μ), γ u (x − μ)² and γ E[ln u], with u = E[u].
const SUMS: usize = 5;

impl Estimated for StudentT {
    fn density(&self, sizes: Sizes) -> Box<dyn Density> {
        let numbers = self.degrees.iter().zip(&self.scales);
        let constant =
            |(degrees, scale): (&f64, &f64)| log_gamma_step(0.5 * degrees) - 0.5 * (PI * degrees).ln() - scale.ln();
        // E[ln u] = ψ((ν + 1) / 2) − ln((ν + r²) / 2)
        let digammas = self.degrees.iter().map(|degrees| digamma(0.5 * (degrees + 1.0))).collect();
        Box::new(Tails {
            law: self.clone(),
            components: sizes.components,
            constants: numbers.map(constant).collect(),
            digammas,
        })
    }

    fn sums(&self, sizes: Sizes) -> usize {
        SUMS * sizes.components
    }

    fn slopes(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Option<Vec<Vec<f64>>> {
        let each = |slope: fn([f64; 3], &[f64]) -> f64| -> Vec<f64> {
            let own = |at: usize| [self.degrees[at], self.locations[at], self.scales[at]];
            sizes.of(state).zip(sums.chunks_exact(SUMS)).map(|(at, sums)| slope(own(at), sums)).collect()
        };
        Some(vec![
            each(|[degrees, ..], sums| {
                let half = 0.5 * degrees;
                0.5 * (sums[0] * (half.ln() + 1.0 - digamma(half)) + sums[4] - sums[1])
            }),
            each(|[.., scale], sums| sums[2] / (scale * scale)),
            each(|[.., scale], sums| (sums[3] / (scale * scale) - sums[0]) / scale),
        ])
    }

    fn maximise(&mut self, sizes: Sizes, state: usize, sums: &[f64], floors: &[f64]) {
        for ((at, sums), floor) in sizes.of(state).zip(sums.chunks_exact(SUMS)).zip(floors) {
            let [weight, u, first, second, log] = *sums else { continue };
            if weight < LEAST_WEIGHT || u < LEAST_WEIGHT {
                continue;
            }
            let shift = first / u;
            let before = self.scales[at] * self.scales[at];
            let variance = (second / u - shift * shift).max(least_variance(before, *floor, shift));
            self.locations[at] += shift;
            self.scales[at] = variance.sqrt();
            // With u in units of its mean, ln(ν / 2) − ψ(ν / 2) = ln Σγu / Σγ − Σ γ E[ln u] / Σγ.
            let degrees = 2.0 * inverse_log_minus_digamma((u / weight).ln() - log / weight);
            self.degrees[at] = degrees.clamp(f64::MIN_POSITIVE, self.degrees[at].max(MOST_DEGREES));
        }
    }
}

struct Tails {
    law: StudentT,
    components: usize,
    /// ln b(μ), N × C.
    constants: Vec<f64>,
    /// ψ((ν + 1) / 2), N × C.
    digammas: Vec<f64>,
}

impl Tails {
    /// ln(1 + r² / ν)
    fn tail(&self, at: usize, x: f64) -> f64 {
        let root = ((x - self.law.locations[at]) / self.law.scales[at] / self.law.degrees[at].sqrt()).abs();
        if root < 1e100 { (root * root).ln_1p() } else { 2.0 * root.ln() }
    }
}

impl Density for Tails {
    fn add_logs(&self, x: &[f64], _: &[f64], logs: &mut [f64]) {
        for (state, log) in logs.iter_mut().enumerate() {
            for (k, &x) in x.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
                let at = state * self.components + k;
                *log += self.constants[at] - 0.5 * (self.law.degrees[at] + 1.0) * self.tail(at, x);
            }
        }
    }

    fn count(&self, x: &[f64], _: &[f64], state: usize, gamma: f64, sums: &mut [f64]) {
        for ((k, &x), sums) in x.iter().enumerate().zip(sums.chunks_exact_mut(SUMS)).filter(|((_, x), _)| !x.is_nan()) {
            let at = state * self.components + k;
            let (degrees, tail, shift) = (self.law.degrees[at], self.tail(at, x), x - self.law.locations[at]);
            // (ν + 1) / (ν + r²)
            let u = (1.0 + 1.0 / degrees) * (-tail).exp();
            let log = self.digammas[at] - (0.5 * degrees).ln() - tail;
            let weighted = gamma * u;
            for (sum, term) in
                sums.iter_mut().zip([gamma, weighted, weighted * shift, weighted * shift * shift, gamma * log])
            {
                *sum += term;
            }
        }
    }
}
