//! Densities of [channels](crate::channels), and their sums for the M step.

use std::ops::Range;

use crate::backends::cpu::densities::{Completion, Densities};
use crate::channels::{Channel, Channels, Coded, Density, Gaussian, Unsupported};
use crate::covariances::Covariances;
use crate::sequences::Sequences;

/// The densities of all channels in all states.
pub struct ChannelDensities {
    states: usize,
    dimensions: usize,
    /// Number of earlier rows that densities depend on.
    lags: usize,
    channels: Vec<(Channel, Box<dyn Density>, Range<usize>)>,
    /// Sums per state.
    width: usize,
}

/// [`Densities`] of the components of a channel.
struct Normals {
    densities: Densities,
    full: bool,
}

impl ChannelDensities {
    pub fn new(states: usize, channels: &Channels) -> Self {
        let mut width = 1;
        let prepared = channels.list.iter().map(|channel| {
            let sizes = channel.sizes(states);
            let density: Box<dyn Density> = match channel.family.estimated() {
                Ok(family) => family.density(sizes),
                Err(Gaussian { means, covariances }) => Box::new(Normals {
                    densities: Densities::new(states, sizes.components, means, covariances),
                    full: matches!(covariances, Covariances::Full(_)),
                }),
            };
            let first = width;
            width += channel.sums(states);
            (channel.clone(), density, first..width)
        });
        let prepared = prepared.collect();
        let (dimensions, lags) = (channels.dimensions as usize, channels.lags());
        Self { states, dimensions, lags, channels: prepared, width }
    }

    /// Observation `at` and the earlier rows of its sequence that densities depend on, as far as it has them.
    pub fn rows<'s>(&self, seen: &'s Sequences, at: usize) -> &'s [f64] {
        seen.rows(at, self.lags)
    }

    /// Number of earlier rows that densities depend on.
    pub fn lags(&self) -> usize {
        self.lags
    }

    /// The first component of the last of some rows that no choice of parameters emits.
    pub fn unsupported(&self, rows: &[f64]) -> Option<Unsupported> {
        self.channels.iter().find_map(|(channel, ..)| channel.unsupported(self.states, rows, self.dimensions))
    }

    /// Writes ln bⱼ(x) of all states j, where x is the last of the [`rows`](Self::rows); 0 behind them.
    pub fn logs(&self, rows: &[f64], logs: &mut [f64]) {
        logs.fill(0.0);
        let logs = &mut logs[..self.states];
        for (channel, density, _) in &self.channels {
            if let Some((x, z)) = channel.observe(rows, self.dimensions) {
                density.add_logs(&x, &z, logs);
            }
        }
        // ∞ − ∞: the density underflows.
        logs.iter_mut().filter(|log| log.is_nan()).for_each(|log| *log = f64::NEG_INFINITY);
    }

    /// ln bⱼ(x) of state j alone.
    pub fn log(&self, rows: &[f64], state: usize) -> f64 {
        let mut logs = vec![0.0; self.states];
        self.logs(rows, &mut logs);
        logs[state]
    }

    /// The densities of each channel as code, and the place of its sums; `None` if the host computes those of any.
    pub fn on_device(&self) -> Option<Vec<(Coded, Range<usize>)>> {
        let of =
            |(_, density, sums): &(Channel, Box<dyn Density>, Range<usize>)| Some((density.on_device()?, sums.clone()));
        self.channels.iter().map(of).collect()
    }

    /// Writes what the code of channel `at` takes as the last of some rows.
    pub fn prepare(&self, at: usize, rows: &[f64], prepared: &mut [f64]) {
        let (channel, density, _) = &self.channels[at];
        match channel.observe(rows, self.dimensions) {
            Some((x, _)) => density.prepare(&x, prepared),
            None => prepared.fill(f64::NAN),
        }
    }

    /// Number of sums per state: Σγ, and those of each channel.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds γ of the last of some rows to N rows of [`width`](Self::width) sums.
    pub fn count(&self, rows: &[f64], gamma: impl Fn(usize) -> f64, sums: &mut [f64]) {
        for (state, sums) in sums.chunks_exact_mut(self.width).enumerate() {
            sums[0] += gamma(state);
        }
        for (channel, density, range) in &self.channels {
            let Some((x, z)) = channel.observe(rows, self.dimensions) else { continue };
            for (state, sums) in sums.chunks_exact_mut(self.width).enumerate() {
                let gamma = gamma(state);
                if gamma > 0.0 {
                    density.count(&x, &z, state, gamma, &mut sums[range.clone()]);
                }
            }
        }
    }
}

impl Density for Normals {
    fn add_logs(&self, x: &[f64], _: &[f64], logs: &mut [f64]) {
        let mut found = vec![0.0; self.densities.stride()];
        self.densities.logs(x, &mut found);
        logs.iter_mut().zip(&found).for_each(|(log, more)| *log += more);
    }

    fn count(&self, x: &[f64], _: &[f64], state: usize, gamma: f64, sums: &mut [f64]) {
        let c = x.len();
        let mut add = |deviation: &[f64], covariance: &dyn Fn(usize) -> f64| {
            sums[0] += gamma;
            for (k, deviation) in deviation.iter().enumerate() {
                sums[1 + k] += gamma * deviation;
            }
            for (at, sum) in sums[1 + c..].iter_mut().enumerate() {
                let (a, b) = if self.full { (at / c, at % c) } else { (at, at) };
                *sum += gamma * (deviation[a] * deviation[b] + covariance(at));
            }
        };
        if x.iter().any(|x| x.is_nan()) {
            return self.densities.completions_in(
                state..state + 1,
                x,
                |Completion { deviation, covariance, .. }| {
                    add(deviation, &|at| covariance[at]);
                },
            );
        }
        let stride = self.densities.stride();
        let mean = |k: usize| self.densities.means[k * stride + state];
        let deviation: Vec<f64> = x.iter().enumerate().map(|(k, x)| x - mean(k)).collect();
        add(&deviation, &|_| 0.0);
    }
}
