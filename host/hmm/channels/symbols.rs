//! Categorical and Bernoulli distributions.

use rand_chacha::ChaCha8Rng;
use warpkov_common::random::{draw, numbered, unit};

use super::family::{Domain, Drawn, LEAST_WEIGHT, Parameter, Parametric, Sizes, bit, component, is_count, per};
use super::natural::ExponentialFamily;

/// One of V symbols, numbered from 0: b(x) = pₓ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Categorical {
    /// p, N × V, row by row.
    pub probs: Vec<f64>,
}

impl Parametric for Categorical {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let shape = vec![self.probs.len() / sizes.states];
        vec![Parameter { name: "probs", shape, domain: Domain::Distribution, numbers: &self.probs }]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.probs]
    }

    fn unsupported(&self, sizes: Sizes, x: &[f64]) -> Option<(usize, &'static str)> {
        let symbols = (self.probs.len() / sizes.states) as f64;
        component(x, "a number of a symbol, as many as there are probabilities", |x| is_count(x) && x < symbols)
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        let row = self.probs.chunks_exact(self.probs.len() / sizes.states).nth(state).unwrap_or_default();
        Ok(vec![f64::from(draw(random, numbered(row)).unwrap_or_default())])
    }
}

impl ExponentialFamily for Categorical {
    fn statistics(&self, sizes: Sizes) -> usize {
        self.probs.len() / sizes.states
    }

    fn observe(&self, x: &[f64], each: &mut dyn FnMut(usize, f64)) -> f64 {
        each(x[0] as usize, 1.0);
        0.0
    }

    fn natural(&self, sizes: Sizes, state: usize) -> Vec<f64> {
        let v = self.statistics(sizes);
        self.probs[state * v..][..v].iter().map(|p| p.ln()).collect()
    }

    fn slope(&self, _: Sizes, _: usize, sums: &[f64]) -> Vec<Vec<f64>> {
        vec![sums.to_vec()]
    }

    fn estimate(&mut self, sizes: Sizes, state: usize, sums: &[f64], _: &[f64]) {
        let v = self.statistics(sizes);
        in_proportion(&mut self.probs[state * v..][..v], sums);
    }
}

/// Sets probabilities in proportion to sums, unless all are 0.
pub fn in_proportion(probs: &mut [f64], sums: &[f64]) {
    let total: f64 = sums.iter().sum();
    if total >= LEAST_WEIGHT {
        probs.iter_mut().zip(sums).for_each(|(p, sum)| *p = sum / total);
    }
}

/// Independent components of 0 or 1: b(x) = Π pᵢ if xᵢ is 1, 1 − pᵢ if it is 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bernoulli {
    /// p, N × C, row by row.
    pub probs: Vec<f64>,
}

impl Parametric for Bernoulli {
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>> {
        let shape = vec![sizes.components];
        vec![Parameter { name: "probs", shape, domain: Domain::Probability, numbers: &self.probs }]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.probs]
    }

    fn unsupported(&self, _: Sizes, x: &[f64]) -> Option<(usize, &'static str)> {
        bit(x)
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        Ok(self.probs[sizes.of(state)].iter().map(|p| f64::from(u8::from(unit(random) < *p))).collect())
    }
}

/// Statistics of a component: 1 − x and x.
impl ExponentialFamily for Bernoulli {
    fn statistics(&self, sizes: Sizes) -> usize {
        2 * sizes.components
    }

    fn observe(&self, x: &[f64], each: &mut dyn FnMut(usize, f64)) -> f64 {
        let observed = x.iter().enumerate().filter(|(_, x)| !x.is_nan());
        observed.for_each(|(at, x)| each(2 * at + usize::from(*x > 0.5), 1.0));
        0.0
    }

    fn natural(&self, sizes: Sizes, state: usize) -> Vec<f64> {
        let probs = &self.probs[sizes.of(state)];
        probs.iter().flat_map(|p| [(-p).ln_1p(), p.ln()]).collect()
    }

    fn slope(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Vec<Vec<f64>> {
        let each = self.probs[sizes.of(state)].iter().zip(sums.chunks_exact(2));
        vec![each.map(|(p, sums)| per(sums[1], *p) - per(sums[0], 1.0 - p)).collect()]
    }

    fn estimate(&mut self, sizes: Sizes, state: usize, sums: &[f64], _: &[f64]) {
        let probs = &mut self.probs[sizes.of(state)];
        for (p, sums) in probs.iter_mut().zip(sums.chunks_exact(2)) {
            let total = sums[0] + sums[1];
            if total >= LEAST_WEIGHT {
                *p = sums[1] / total;
            }
        }
    }
}
