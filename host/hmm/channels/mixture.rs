//! Mixtures of normal distributions.

use std::f64::consts::TAU;

use rand_chacha::ChaCha8Rng;
use warpkov_common::random::{draw, numbered};

use super::family::{Density, Domain, Drawn, Estimated, LEAST_WEIGHT, Parameter, Parametric, Sizes};
use crate::covariances::{least_variance, normal};
use crate::special::log_sum;

/// K normal distributions with diagonal covariances: b(x) = Σₖ wₖ 𝒩(x; μₖ, diag(vₖ)).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mixture {
    /// w, N × K, row by row.
    pub weights: Vec<f64>,
    /// μ, N × K × C.
    pub means: Vec<f64>,
    /// v, N × K × C.
    pub variances: Vec<f64>,
}

impl Mixture {
    /// K.
    fn parts(&self, sizes: Sizes) -> usize {
        self.weights.len() / sizes.states
    }
}

impl Parametric for Mixture {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let parts = self.parts(sizes);
        let of = |name, domain, numbers| Parameter { name, shape: vec![parts, sizes.components], domain, numbers };
        vec![
            Parameter { name: "weights", shape: vec![parts], domain: Domain::Distribution, numbers: &self.weights },
            of("means", Domain::Real, &self.means),
            of("variances", Domain::Positive, &self.variances),
        ]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.weights, &mut self.means, &mut self.variances]
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        let parts = self.parts(sizes);
        let part = draw(random, numbered(&self.weights[state * parts..][..parts])).unwrap_or_default();
        let of_part = sizes.of(state * parts + part as usize);
        Ok(of_part.map(|at| self.means[at] + self.variances[at].sqrt() * normal(random)).collect())
    }
}

impl Estimated for Mixture {
    fn density(&self, sizes: Sizes) -> Box<dyn Density> {
        let logs = self.variances.iter().map(|variance| -0.5 * (TAU.ln() + variance.ln())).collect();
        Box::new(Parts { law: self.clone(), parts: self.parts(sizes), components: sizes.components, logs })
    }

    fn sums(&self, sizes: Sizes) -> usize {
        self.parts(sizes) * (1 + 2 * sizes.components)
    }

    fn slopes(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Option<Vec<Vec<f64>>> {
        let (parts, c) = (self.parts(sizes), sizes.components);
        let parts_of = || (state * parts..(state + 1) * parts).zip(sums.chunks_exact(1 + 2 * c));
        let each = |slope: fn(f64, &[f64; 3]) -> f64| -> Vec<f64> {
            let of_part = |(part, sums): (usize, &[f64])| -> Vec<f64> {
                (0..c).map(|k| slope(self.variances[part * c + k], &[sums[0], sums[1 + k], sums[1 + c + k]])).collect()
            };
            parts_of().flat_map(of_part).collect()
        };
        Some(vec![
            parts_of().map(|(_, sums)| sums[0]).collect(),
            each(|variance, [_, first, _]| first / variance),
            each(|variance, [weight, _, second]| 0.5 * (second / variance - weight) / variance),
        ])
    }

    fn maximise(&mut self, sizes: Sizes, state: usize, sums: &[f64], floors: &[f64]) {
        let (parts, c) = (self.parts(sizes), sizes.components);
        let total: f64 = sums.iter().step_by(1 + 2 * c).sum();
        if total < LEAST_WEIGHT {
            return;
        }
        for (part, sums) in sums.chunks_exact(1 + 2 * c).enumerate() {
            let part = state * parts + part;
            self.weights[part] = sums[0] / total;
            if sums[0] < LEAST_WEIGHT {
                continue;
            }
            for k in 0..c {
                let (shift, variance) = (sums[1 + k] / sums[0], &mut self.variances[part * c + k]);
                let least = least_variance(*variance, floors[k], shift);
                *variance = (sums[1 + c + k] / sums[0] - shift * shift).max(least);
                self.means[part * c + k] += shift;
            }
        }
    }
}

struct Parts {
    law: Mixture,
    parts: usize,
    components: usize,
    /// −½ ln(2πv), N × K × C.
    logs: Vec<f64>,
}

impl Parts {
    /// ln wₖ 𝒩(x; μₖ, diag(vₖ)) of each part in a state, and the logarithm of their sum.
    fn weigh(&self, x: &[f64], state: usize) -> (Vec<f64>, f64) {
        let of = |part: usize| {
            let first = part * self.components;
            let observed = x.iter().enumerate().filter(|(_, x)| !x.is_nan());
            let term = |(k, x): (usize, &f64)| {
                let shift = x - self.law.means[first + k];
                self.logs[first + k] - 0.5 * shift * shift / self.law.variances[first + k]
            };
            self.law.weights[part].ln() + observed.map(term).sum::<f64>()
        };
        let logs: Vec<f64> = (state * self.parts..(state + 1) * self.parts).map(of).collect();
        let sum = log_sum(logs.iter().copied());
        (logs, sum)
    }
}

impl Density for Parts {
    fn add_logs(&self, x: &[f64], _: &[f64], logs: &mut [f64]) {
        logs.iter_mut().enumerate().for_each(|(state, log)| *log += self.weigh(x, state).1);
    }

    /// Sums of each part: its weight, and those of γ E[x − μ] and γ E[(x − μ)²], which are 0 and v of a missing component.
    fn count(&self, x: &[f64], _: &[f64], state: usize, gamma: f64, sums: &mut [f64]) {
        let c = self.components;
        let (logs, sum) = self.weigh(x, state);
        for ((part, log), sums) in logs.iter().enumerate().zip(sums.chunks_exact_mut(1 + 2 * c)) {
            let weight = if sum > f64::NEG_INFINITY { gamma * (log - sum).exp() } else { 0.0 };
            sums[0] += weight;
            for (k, x) in x.iter().enumerate() {
                let at = (state * self.parts + part) * c + k;
                let shift = x - self.law.means[at];
                let (first, second) = if x.is_nan() { (0.0, self.law.variances[at]) } else { (shift, shift * shift) };
                sums[1 + k] += weight * first;
                sums[1 + c + k] += weight * second;
            }
        }
    }
}
