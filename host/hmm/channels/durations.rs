//! Distributions of durations and other numbers above 0: exponential and gamma.

use rand_chacha::ChaCha8Rng;
use warpkov_common::random::unit;

use super::family::{Domain, Drawn, LEAST_WEIGHT, Parameter, Parametric, Sizes, component};
use super::natural::ExponentialFamily;
use crate::covariances::normal;
use crate::special::{digamma, inverse_log_minus_digamma};

/// Independent numbers of at least 0: b(x) = Π λᵢ e^−λᵢxᵢ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exponential {
    /// λ, N × C, row by row.
    pub rates: Vec<f64>,
}

impl Parametric for Exponential {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let shape = vec![sizes.components];
        vec![Parameter { name: "rates", shape, domain: Domain::Positive, numbers: &self.rates }]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.rates]
    }

    fn unsupported(&self, _: Sizes, x: &[f64]) -> Option<(usize, &'static str)> {
        component(x, "a number of at least 0", |x| x >= 0.0)
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        Ok(self.rates[sizes.of(state)].iter().map(|rate| -libm::log(1.0 - unit(random)) / rate).collect())
    }
}

/// Statistics of a component: 1 and x.
impl ExponentialFamily for Exponential {
    fn statistics(&self, sizes: Sizes) -> usize {
        2 * sizes.components
    }

    fn observe(&self, x: &[f64], each: &mut dyn FnMut(usize, f64)) -> f64 {
        for (at, &x) in x.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
            each(2 * at, 1.0);
            each(2 * at + 1, x);
        }
        0.0
    }

    fn natural(&self, sizes: Sizes, state: usize) -> Vec<f64> {
        self.rates[sizes.of(state)].iter().flat_map(|rate| [rate.ln(), -rate]).collect()
    }

    fn slope(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Vec<Vec<f64>> {
        let each = self.rates[sizes.of(state)].iter().zip(sums.chunks_exact(2));
        vec![each.map(|(rate, sums)| sums[0] / rate - sums[1]).collect()]
    }

    /// The variance 1 / λ² has a floor.
    fn estimate(&mut self, sizes: Sizes, state: usize, sums: &[f64], floors: &[f64]) {
        let rates = &mut self.rates[sizes.of(state)];
        for ((rate, sums), floor) in rates.iter_mut().zip(sums.chunks_exact(2)).zip(floors) {
            if sums[0] >= LEAST_WEIGHT {
                // The expected log-likelihood rises up to the maximiser, so a bound beyond the last rate does not lower it.
                *rate = (sums[0] / sums[1]).min(rate.max(1.0 / floor.sqrt()));
            }
        }
    }
}

/// Independent numbers above 0: b(x) = Π βᵢ^αᵢ xᵢ^(αᵢ − 1) e^−βᵢxᵢ / Γ(αᵢ).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gamma {
    /// α, N × C, row by row.
    pub shapes: Vec<f64>,
    /// β, N × C, row by row.
    pub rates: Vec<f64>,
}

impl Parametric for Gamma {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let of = |name, numbers| Parameter { name, shape: vec![sizes.components], domain: Domain::Positive, numbers };
        vec![of("shapes", &self.shapes), of("rates", &self.rates)]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.shapes, &mut self.rates]
    }

    fn unsupported(&self, _: Sizes, x: &[f64]) -> Option<(usize, &'static str)> {
        component(x, "a number above 0", |x| x > 0.0)
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        // A draw that underflows is no gamma variate.
        let draw = |at: usize| (gamma(random, self.shapes[at]) / self.rates[at]).max(f64::MIN_POSITIVE);
        Ok(sizes.of(state).map(draw).collect())
    }
}

/// A draw from the gamma distribution of rate 1 (Marsaglia and Tsang, *A simple method for generating gamma variables*, 2000).
pub fn gamma(random: &mut ChaCha8Rng, shape: f64) -> f64 {
    if shape < 1.0 {
        let power = libm::log(1.0 - unit(random)) / shape;
        return gamma(random, shape + 1.0) * libm::exp(power);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && libm::log(1.0 - unit(random)) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

/// Statistics of a component: 1, ln x and x.
impl ExponentialFamily for Gamma {
    fn statistics(&self, sizes: Sizes) -> usize {
        3 * sizes.components
    }

    fn observe(&self, x: &[f64], each: &mut dyn FnMut(usize, f64)) -> f64 {
        for (at, &x) in x.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
            each(3 * at, 1.0);
            each(3 * at + 1, x.ln());
            each(3 * at + 2, x);
        }
        0.0
    }

    fn natural(&self, sizes: Sizes, state: usize) -> Vec<f64> {
        let of = |at: usize| {
            let (shape, rate) = (self.shapes[at], self.rates[at]);
            [shape * rate.ln() - libm::lgamma(shape), shape - 1.0, -rate]
        };
        sizes.of(state).flat_map(of).collect()
    }

    fn slope(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Vec<Vec<f64>> {
        let each = || sizes.of(state).zip(sums.chunks_exact(3));
        vec![
            each().map(|(at, sums)| sums[0] * (self.rates[at].ln() - digamma(self.shapes[at])) + sums[1]).collect(),
            each().map(|(at, sums)| sums[0] * self.shapes[at] / self.rates[at] - sums[2]).collect(),
        ]
    }

    /// With the mean x̄, β is α / x̄, and α solves ln α − ψ(α) = ln x̄ − Σ γ ln x / Σ γ. The variance x̄² / α has a floor.
    fn estimate(&mut self, sizes: Sizes, state: usize, sums: &[f64], floors: &[f64]) {
        for ((at, sums), floor) in sizes.of(state).zip(sums.chunks_exact(3)).zip(floors) {
            if sums[0] < LEAST_WEIGHT {
                continue;
            }
            let mean = sums[2] / sums[0];
            let shape = inverse_log_minus_digamma(mean.ln() - sums[1] / sums[0]);
            // As for rates of exponential distributions.
            let shape = shape.min(self.shapes[at].max(mean * (mean / floor))).min(f64::MAX);
            let rate = shape / mean;
            if shape > 0.0 && rate > 0.0 && rate.is_finite() {
                (self.shapes[at], self.rates[at]) = (shape, rate);
            }
        }
    }
}
