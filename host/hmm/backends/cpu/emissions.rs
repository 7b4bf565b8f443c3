//! Emission probabilities and densities bⱼ(o) of all states, one row per observation.

use crate::backends::cpu::channels::ChannelDensities;
use crate::backends::cpu::densities::Densities;
use crate::backends::cpu::exp::exp;
use crate::backends::cpu::limits::Limits;
use crate::backends::cpu::product::{LANES, Registers, fold_row, stride};
use crate::backends::cpu::sweeps::LogProduct;
use crate::model::{Emissions, Hmm};
use crate::sequences::{Observations, Sequences};
use warpkov_runtime::Precise;

/// Emission rows b̃, scaled so that the largest entry is about 2ᵏ, where k is [`Limits::bias`].
pub enum Emitter<T> {
    /// One row per symbol, scaled by a power of two, and the exponents of the scales.
    Table { probs: Vec<T>, scales: Vec<i32> },
    /// Normal densities, computed per observation.
    Densities(Densities),
    /// Densities of channels, computed per observation.
    Channels(ChannelDensities),
}

/// Scratch memory for a row that is computed, not read from a table.
pub struct Row<T> {
    exact: Vec<f64>,
    row: Vec<T>,
}

/// Scale of a row in addition to 2ᵏ: its entries are b · 2ᵏ / (2^`exponent` · e^`log`).
#[derive(Clone, Copy, Default)]
pub struct Scaled {
    pub exponent: i32,
    pub log: f64,
}

/// Choice of the scale of densities.
pub enum Scale<'a, T> {
    /// The largest density over the states whose entry here is positive.
    Largest(&'a [T]),
    /// A known scale, as its logarithm.
    Known(f64),
}

impl<T: Precise> Row<T> {
    pub fn new(stride: usize) -> Self {
        Self { exact: vec![0.0; stride], row: vec![T::ZERO; stride] }
    }

    /// `row`, with `none` in all states but the known one.
    #[inline(always)]
    fn restricted<'r>(&'r mut self, row: &'r [T], state: Option<u32>, none: T) -> &'r [T] {
        if state.is_none() {
            return row;
        }
        self.row.copy_from_slice(row);
        restrict(&mut self.row, state, none);
        &self.row
    }
}

/// Replaces the emissions of all states but the known one by `none`.
#[inline(always)]
pub fn restrict<T: Copy>(row: &mut [T], state: Option<u32>, none: T) {
    if let Some(state) = state {
        let known = row[state as usize];
        row.fill(none);
        row[state as usize] = known;
    }
}

impl<T: Precise> Emitter<T> {
    pub fn new(model: &Hmm) -> Self {
        match model.emissions() {
            Emissions::Categorical { symbols, probs } => {
                let (n, stride) = (model.start().len(), stride(model.start().len()));
                let symbols = *symbols as usize;
                let (mut table, mut scales) = (vec![T::ZERO; symbols * stride], vec![0; symbols]);
                for symbol in 0..symbols {
                    let prob = |state: usize| probs[state * symbols + symbol];
                    let exponent = exponent((0..n).map(prob).fold(0.0, f64::max));
                    scales[symbol] = exponent;
                    // Two factors, because 2^1074 overflows.
                    let half = exponent / 2;
                    let (first, second) = (power(-half), power(half - exponent));
                    for state in 0..n {
                        table[symbol * stride + state] =
                            T::from_f64(prob(state) * first * second * power(Limits::current::<T>().bias));
                    }
                }
                Self::Table { probs: table, scales }
            }
            Emissions::Gaussian { dimensions, means, covariances } => {
                Self::Densities(Densities::new(model.start().len(), *dimensions as usize, means, covariances))
            }
            Emissions::Channels(channels) => Self::Channels(ChannelDensities::new(model.start().len(), channels)),
        }
    }

    /// Whether rows are computed per observation.
    pub fn computes(&self) -> bool {
        !matches!(self, Self::Table { .. })
    }

    /// The row b̃ of observation `at`, `stride` numbers, and its scale.
    #[inline(always)]
    pub fn row<'r, S: Registers>(
        &'r self,
        seen: &Sequences,
        at: usize,
        scale: Scale<'_, T>,
        stride: usize,
        scratch: &'r mut Row<T>,
    ) -> (&'r [T], Scaled) {
        match (self, seen.observations()) {
            (Self::Table { probs, scales }, Observations::Symbols(symbols)) => {
                let symbol = symbols[at] as usize;
                let row = scratch.restricted(&probs[symbol * stride..][..stride], seen.state(at), T::ZERO);
                (row, Scaled { exponent: scales[symbol], log: 0.0 })
            }
            (Self::Densities(_) | Self::Channels(_), _) => {
                self.logs(seen, at, scratch);
                let log = match scale {
                    Scale::Known(log) => log,
                    Scale::Largest(needed) => {
                        let most = largest(&scratch.exact, needed);
                        if most > f64::NEG_INFINITY { most } else { 0.0 }
                    }
                };
                for (row, exact) in
                    scratch.row.as_chunks_mut::<LANES>().0.iter_mut().zip(scratch.exact.as_chunks::<LANES>().0)
                {
                    let exact = *exact;
                    let mut all = [T::ZERO; LANES];
                    for lane in 0..LANES {
                        let exact = exact[lane] - log;
                        // Unreachable states may have larger densities. Any finite value will do: their p is 0.
                        let exact = if exact < 0.0 { exact } else { 0.0 };
                        all[lane] = T::from_f64(exp::<S>(exact, Limits::current::<T>().bias));
                    }
                    *row = all;
                }
                (&scratch.row[..stride], Scaled { exponent: 0, log })
            }
            // Unreachable: `set_models` asserts that the sequences fit the model.
            _ => (&scratch.row[..stride], Scaled { exponent: 0, log: 0.0 }),
        }
    }

    /// ln bⱼ(x) of observation `at`, as the exact numbers of `scratch`.
    #[inline(always)]
    fn logs(&self, seen: &Sequences, at: usize, scratch: &mut Row<T>) {
        match (self, seen.observations()) {
            (Self::Densities(densities), Observations::Vectors { dimensions, values }) => {
                let d = *dimensions as usize;
                densities.logs(&values[at * d..][..d], &mut scratch.exact);
            }
            (Self::Channels(densities), _) => densities.logs(densities.rows(seen, at), &mut scratch.exact),
            _ => {}
        }
        restrict(&mut scratch.exact, seen.state(at), f64::NEG_INFINITY);
    }

    /// Multiplies `product` by bⱼ(o) of the observations from `first` on and the states j of a path, unscaled and in `f64`.
    pub fn emit(&self, model: &Hmm, seen: &Sequences, first: usize, path: &[u32], product: &mut LogProduct) {
        let steps = (first..).zip(path).map(|(at, &state)| (at, state as usize));
        match (self, seen.observations(), model.emissions()) {
            (Self::Densities(densities), Observations::Vectors { dimensions, values }, _) => {
                let d = *dimensions as usize;
                steps.for_each(|(at, state)| product.times_exp(densities.log(&values[at * d..][..d], state)));
            }
            (Self::Channels(densities), ..) => {
                steps.for_each(|(at, state)| product.times_exp(densities.log(densities.rows(seen, at), state)));
            }
            (_, Observations::Symbols(seen), Emissions::Categorical { symbols, probs }) => {
                steps.for_each(|(at, state)| product.times(probs[state * *symbols as usize + seen[at] as usize]));
            }
            _ => {}
        }
    }

    /// The row ln bⱼ(o) of observation `at`; `table` is [`log_table`].
    #[inline(always)]
    pub fn log_row<'r>(&self, table: &'r [T], seen: &Sequences, at: usize, scratch: &'r mut Row<T>) -> &'r [T] {
        let stride = scratch.row.len();
        match (self, seen.observations()) {
            (Self::Densities(_) | Self::Channels(_), _) => {
                self.logs(seen, at, scratch);
                for (target, &log) in scratch.row.iter_mut().zip(&scratch.exact) {
                    *target = T::from_f64(log);
                }
                &scratch.row
            }
            (_, Observations::Symbols(symbols)) => {
                scratch.restricted(&table[symbols[at] as usize * stride..][..stride], seen.state(at), T::NEG_INFINITY)
            }
            _ => &scratch.row,
        }
    }
}

/// The largest of `logs` over the entries with positive `needed`.
#[inline(always)]
fn largest<T: Precise>(logs: &[f64], needed: &[T]) -> f64 {
    let mut most = [f64::NEG_INFINITY; LANES];
    for (logs, needed) in logs.as_chunks::<LANES>().0.iter().zip(needed.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            let log = if needed[lane] > T::ZERO { logs[lane] } else { f64::NEG_INFINITY };
            most[lane] = if log > most[lane] { log } else { most[lane] };
        }
    }
    fold_row(logs.len(), most, f64::max)
}

/// ln bⱼ(o), one row per symbol; empty for vectors.
pub fn log_table<T: Precise>(model: &Hmm) -> Vec<T> {
    let Emissions::Categorical { symbols, probs } = model.emissions() else { return Vec::new() };
    let (n, stride, symbols) = (model.start().len(), stride(model.start().len()), *symbols as usize);
    let mut table = vec![T::NEG_INFINITY; symbols * stride];
    for (symbol, row) in table.chunks_exact_mut(stride).enumerate() {
        for state in 0..n {
            row[state] = T::from_f64(probs[state * symbols + symbol].ln());
        }
    }
    table
}

/// e with 2ᵉ ≤ x < 2ᵉ⁺¹; 0 for x = 0.
fn exponent(x: f64) -> i32 {
    if x <= 0.0 { 0 } else { libm::frexp(x).1 - 1 }
}

/// 2ᵉ for |e| < 1000.
fn power(exponent: i32) -> f64 {
    libm::scalbn(1.0, exponent)
}
