//! Distributions of counts: Poisson and multinomial.

use rand_chacha::ChaCha8Rng;
use warpkov_common::random::{draw, numbered, unit};

use super::family::{Domain, Drawn, LEAST_WEIGHT, Parameter, Parametric, Sizes, component, is_count, per};
use super::natural::ExponentialFamily;
use super::symbols::in_proportion;
use crate::special::log_factorial;

const COUNT: &str = "a count, an integer of at least 0";

/// Independent counts: b(x) = Π λᵢˣ e^−λᵢ / xᵢ!.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Poisson {
    /// λ, N × C, row by row. A rate of 0 emits 0 alone.
    pub rates: Vec<f64>,
}

impl Parametric for Poisson {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let shape = vec![sizes.components];
        vec![Parameter { name: "rates", shape, domain: Domain::Nonnegative, numbers: &self.rates }]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.rates]
    }

    fn unsupported(&self, _: Sizes, x: &[f64]) -> Option<(usize, &'static str)> {
        component(x, COUNT, is_count)
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        Ok(self.rates[sizes.of(state)].iter().map(|&rate| poisson(random, rate)).collect())
    }
}

/// Statistics of a component: 1 and x.
impl ExponentialFamily for Poisson {
    fn statistics(&self, sizes: Sizes) -> usize {
        2 * sizes.components
    }

    fn observe(&self, x: &[f64], each: &mut dyn FnMut(usize, f64)) -> f64 {
        let mut base = 0.0;
        for (at, &x) in x.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
            each(2 * at, 1.0);
            if x > 0.0 {
                each(2 * at + 1, x);
                base -= log_factorial(x);
            }
        }
        base
    }

    fn natural(&self, sizes: Sizes, state: usize) -> Vec<f64> {
        self.rates[sizes.of(state)].iter().flat_map(|rate| [-rate, rate.ln()]).collect()
    }

    fn slope(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Vec<Vec<f64>> {
        let each = self.rates[sizes.of(state)].iter().zip(sums.chunks_exact(2));
        vec![each.map(|(rate, sums)| per(sums[1], *rate) - sums[0]).collect()]
    }

    fn estimate(&mut self, sizes: Sizes, state: usize, sums: &[f64], _: &[f64]) {
        let rates = &mut self.rates[sizes.of(state)];
        for (rate, sums) in rates.iter_mut().zip(sums.chunks_exact(2)) {
            if sums[0] >= LEAST_WEIGHT {
                *rate = sums[1] / sums[0];
            }
        }
    }
}

/// A draw from the Poisson distribution: by inversion below 10, else by transformed rejection (Hörmann, *The transformed rejection method
/// for generating Poisson random variables*, 1993, PTRS).
fn poisson(random: &mut ChaCha8Rng, rate: f64) -> f64 {
    if rate < 10.0 {
        let (mut count, mut prob, mut left) = (0.0, libm::exp(-rate), unit(random));
        while left >= prob && prob > 0.0 {
            left -= prob;
            count += 1.0;
            prob *= rate / count;
        }
        return count;
    }
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let (inverse_alpha, most) = (1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0));
    loop {
        let (u, v) = (unit(random) - 0.5, unit(random));
        let us = 0.5 - u.abs();
        let count = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        if us >= 0.07 && v <= most {
            return count;
        }
        if count < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        let log = libm::log(v) + libm::log(inverse_alpha) - libm::log(a / (us * us) + b);
        if log <= -rate + count * libm::log(rate) - log_factorial(count) {
            return count;
        }
    }
}

/// Counts of C outcomes in n = Σ xᵢ trials: b(x) = n! Π pᵢˣ / xᵢ!, given n.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Multinomial {
    /// n, if all observations have the same. Samples need it.
    pub trials: Option<u32>,
    /// p, N × C, row by row.
    pub probs: Vec<f64>,
}

impl Parametric for Multinomial {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let shape = vec![sizes.components];
        vec![Parameter { name: "probs", shape, domain: Domain::Distribution, numbers: &self.probs }]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.probs]
    }

    fn unsupported(&self, _: Sizes, x: &[f64]) -> Option<(usize, &'static str)> {
        let missing = x.iter().position(|x| x.is_nan()).map(|at| (at, "a count of each outcome, or of none"));
        let total = self.trials.filter(|trials| x.iter().sum::<f64>() != f64::from(*trials));
        component(x, COUNT, is_count).or(missing).or(total.map(|_| (0, "counts whose sum is the number of trials")))
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        let trials = self.trials.ok_or("the number of trials of a multinomial channel")?;
        let mut x = vec![0.0; sizes.components];
        for _ in 0..trials {
            if let Some(outcome) = draw(random, numbered(&self.probs[sizes.of(state)])) {
                x[outcome as usize] += 1.0;
            }
        }
        Ok(x)
    }
}

/// Statistics: x.
impl ExponentialFamily for Multinomial {
    fn statistics(&self, sizes: Sizes) -> usize {
        sizes.components
    }

    fn observe(&self, x: &[f64], each: &mut dyn FnMut(usize, f64)) -> f64 {
        let mut base = log_factorial(x.iter().sum());
        for (at, &x) in x.iter().enumerate().filter(|(_, x)| **x > 0.0) {
            each(at, x);
            base -= log_factorial(x);
        }
        base
    }

    fn natural(&self, sizes: Sizes, state: usize) -> Vec<f64> {
        self.probs[sizes.of(state)].iter().map(|p| p.ln()).collect()
    }

    fn slope(&self, _: Sizes, _: usize, sums: &[f64]) -> Vec<Vec<f64>> {
        vec![sums.to_vec()]
    }

    fn estimate(&mut self, sizes: Sizes, state: usize, sums: &[f64], _: &[f64]) {
        in_proportion(&mut self.probs[sizes.of(state)], sums);
    }
}
