//! Exponential families: ln b(x) = h(x) + Σ T(x) η, with sufficient statistics T and natural parameters η.
//!
//! Of families whose components are independent, each component has statistics of its own, such as 1 and x. They are all 0 where the
//! component is missing, so that the component has probability 1.

use super::family::{Density, Estimated, Parametric, Sizes};
use super::law::{Coded, natural};

/// Statistics up to which a device computes the densities: it stores all of them for each observation.
const ON_DEVICE: usize = 64;

/// A family with these statistics.
pub(crate) trait ExponentialFamily: Parametric + Clone + 'static {
    /// Number of statistics T.
    fn statistics(&self, sizes: Sizes) -> usize;

    /// Passes the statistics that are not 0 to `each`, with their indices, and returns h(x).
    fn observe(&self, x: &[f64], each: &mut dyn FnMut(usize, f64)) -> f64;

    /// η of a state.
    fn natural(&self, sizes: Sizes, state: usize) -> Vec<f64>;

    /// As [`Estimated::slopes`], from the sums Σ γ T(x).
    fn slope(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Vec<Vec<f64>>;

    /// The M step of a state from its sums Σ γ T(x).
    fn estimate(&mut self, sizes: Sizes, state: usize, sums: &[f64], floors: &[f64]);
}

struct Natural<E> {
    family: E,
    states: usize,
    /// η, one row of N numbers for each statistic.
    natural: Vec<f64>,
}

impl<E: ExponentialFamily> Density for Natural<E> {
    fn add_logs(&self, x: &[f64], _: &[f64], logs: &mut [f64]) {
        let base = self.family.observe(x, &mut |index, statistic| {
            let natural = &self.natural[index * self.states..][..self.states];
            logs.iter_mut().zip(natural).for_each(|(log, natural)| *log += statistic * natural);
        });
        logs.iter_mut().for_each(|log| *log += base);
    }

    fn count(&self, x: &[f64], _: &[f64], _: usize, gamma: f64, sums: &mut [f64]) {
        self.family.observe(x, &mut |index, statistic| sums[index] += gamma * statistic);
    }

    fn on_device(&self) -> Option<Coded> {
        let (n, statistics) = (self.states, self.natural.len() / self.states);
        let parameters = (0..n * statistics).map(|at| self.natural[at % statistics * n + at / statistics]);
        // The law's first sum is that of γ.
        let found = Coded { law: natural(statistics), parameters: parameters.collect(), skipped: 1 };
        (statistics <= ON_DEVICE).then_some(found)
    }

    fn prepare(&self, x: &[f64], prepared: &mut [f64]) {
        let (base, statistics) = prepared.split_at_mut(1);
        statistics.fill(0.0);
        base[0] = self.family.observe(x, &mut |index, statistic| statistics[index] = statistic);
    }
}

impl<E: ExponentialFamily> Estimated for E {
    fn density(&self, sizes: Sizes) -> Box<dyn Density> {
        let mut natural = vec![0.0; self.statistics(sizes) * sizes.states];
        for state in 0..sizes.states {
            for (index, eta) in self.natural(sizes, state).into_iter().enumerate() {
                natural[index * sizes.states + state] = eta;
            }
        }
        Box::new(Natural { family: self.clone(), states: sizes.states, natural })
    }

    fn sums(&self, sizes: Sizes) -> usize {
        self.statistics(sizes)
    }

    fn slopes(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Option<Vec<Vec<f64>>> {
        Some(self.slope(sizes, state, sums))
    }

    fn maximise(&mut self, sizes: Sizes, state: usize, sums: &[f64], floors: &[f64]) {
        self.estimate(sizes, state, sums, floors);
    }
}
