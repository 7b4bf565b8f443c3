//! Expected counts, summed over a part of the sequences.

use rayon::prelude::*;

use crate::backend::{Expected, Statistics, sums_of_channels};
use crate::backends::cpu::Group;
use crate::backends::cpu::chain::Chain;
use crate::backends::cpu::densities::{Completion, Densities, is_partial};
use crate::backends::cpu::emissions::Emitter;
use crate::backends::cpu::product::{LANES, by_lanes};
use crate::backends::cpu::sweeps::{ForwardBackward, Show};
use crate::model::{Covariances, Emissions, Hmm};
use crate::sequences::{Observations, Sequences};
use warpkov_runtime::Precise;

/// Numbers added per parallel task.
const CHUNK: usize = 1 << 14;

/// Partial sums of expected counts, in rows of `stride` numbers, one per state.
pub struct Sums {
    /// Σ ξ without the factor A, N rows.
    pub pairs: Vec<f64>,
    pub start: Vec<f64>,
    pub end: Vec<f64>,
    pub counts: Counts,
}

/// Sufficient statistics of the emissions, transposed: states are contiguous.
pub enum Counts {
    /// One row per symbol.
    Symbols(Vec<f64>),
    /// One row of Σ γ, D rows of Σ γ (x − μ), and the rows of Σ γ (x − μ)(x − μ)ᵀ: D diagonal entries, or the
    /// D (D + 1) / 2 entries of the lower triangle where `full` is set.
    Moments { weights: Vec<f64>, sums: Vec<f64>, squares: Vec<f64>, full: bool },
    /// [Sums](crate::backend::Statistics::Channels) of channels, one row per state.
    Channels(Vec<f64>),
}

/// sums += x.
#[inline(always)]
pub fn add<T: Precise>(sums: &mut [f64], x: &[T]) {
    by_lanes(sums, x, |sum, x| sum + x.to_f64());
}

impl Counts {
    fn new(model: &Hmm, stride: usize) -> Self {
        match model.emissions() {
            Emissions::Channels(channels) => Self::Channels(vec![0.0; sums_of_channels(channels, model)]),
            Emissions::Categorical { symbols, .. } => Self::Symbols(vec![0.0; *symbols as usize * stride]),
            Emissions::Gaussian { dimensions, covariances, .. } => {
                let d = *dimensions as usize;
                let full = matches!(covariances, Covariances::Full(_));
                let squares = if full { d * (d + 1) / 2 } else { d };
                let [weights, sums, squares] = [1, d, squares].map(|rows| vec![0.0; rows * stride]);
                Self::Moments { weights, sums, squares, full }
            }
        }
    }

    /// Adds γ of observation `at`.
    #[inline(always)]
    pub fn add<T: Precise>(&mut self, chain: &Chain<T>, seen: &Sequences, at: usize, gamma: &[T]) {
        let stride = gamma.len();
        match (self, seen.observations(), &chain.emitter) {
            (Self::Symbols(counts), Observations::Symbols(symbols), _) => {
                add(&mut counts[symbols[at] as usize * stride..][..stride], gamma);
            }
            (
                Self::Moments { weights, sums, squares, full },
                Observations::Vectors { dimensions, values },
                Emitter::Densities(densities),
            ) => {
                let d = *dimensions as usize;
                add(weights, gamma);
                let x = &values[at * d..][..d];
                if is_partial(x) {
                    return add_completions(densities, x, gamma, sums, squares, *full);
                }
                let mut squares = squares.chunks_exact_mut(stride);
                for (row, sums) in sums.chunks_exact_mut(stride).enumerate() {
                    let means = &densities.means[row * stride..][..stride];
                    let rows = sums.as_chunks_mut::<LANES>().0.iter_mut().zip(means.as_chunks::<LANES>().0);
                    for ((sum, mean), gamma) in rows.zip(gamma.as_chunks::<LANES>().0) {
                        let (mut all, mean, gamma) = (*sum, *mean, *gamma);
                        for lane in 0..LANES {
                            all[lane] += gamma[lane].to_f64() * (x[row] - mean[lane]);
                        }
                        *sum = all;
                    }
                    for column in if *full { 0 } else { row }..=row {
                        let others = &densities.means[column * stride..][..stride];
                        let squares = squares.next().unwrap_or_default();
                        let rows = squares.as_chunks_mut::<LANES>().0.iter_mut().zip(means.as_chunks::<LANES>().0);
                        let factors = gamma.as_chunks::<LANES>().0.iter().zip(others.as_chunks::<LANES>().0);
                        for ((square, mean), (gamma, other)) in rows.zip(factors) {
                            let (mut all, mean, gamma, other) = (*square, *mean, *gamma, *other);
                            for lane in 0..LANES {
                                all[lane] += gamma[lane].to_f64() * (x[row] - mean[lane]) * (x[column] - other[lane]);
                            }
                            *square = all;
                        }
                    }
                }
            }
            (Self::Channels(sums), _, Emitter::Channels(densities)) => {
                densities.count(densities.rows(seen, at), |state| gamma[state].to_f64(), sums);
            }
            // Unreachable: `set_models` asserts that the sequences fit the model.
            _ => {}
        }
    }

    fn rows(&self) -> Vec<&[f64]> {
        match self {
            Self::Symbols(sums) | Self::Channels(sums) => vec![sums],
            Self::Moments { weights, sums, squares, .. } => vec![weights, sums, squares],
        }
    }

    fn rows_mut(&mut self) -> Vec<&mut [f64]> {
        match self {
            Self::Symbols(sums) | Self::Channels(sums) => vec![sums],
            Self::Moments { weights, sums, squares, .. } => vec![weights, sums, squares],
        }
    }

    /// Transposes the sums to state-major order.
    fn statistics(&self, n: usize, stride: usize) -> Statistics {
        let transposed = |rows: &[f64]| -> Vec<f64> {
            (0..n).flat_map(|state| rows.iter().skip(state).step_by(stride)).copied().collect()
        };
        match self {
            Self::Symbols(counts) => Statistics::Categorical(transposed(counts)),
            Self::Channels(sums) => Statistics::Channels(sums.clone()),
            Self::Moments { weights, sums, squares, full } => Statistics::Gaussian {
                weights: weights[..n].to_vec(),
                sums: transposed(sums),
                squares: if *full {
                    let d = sums.len() / stride;
                    let at = |row: usize, column: usize| {
                        let (low, high) = (row.min(column), row.max(column));
                        (high * (high + 1) / 2 + low) * stride
                    };
                    let entries = (0..n).flat_map(|state| (0..d * d).map(move |place| (state, place / d, place % d)));
                    entries.map(|(state, row, column)| squares[at(row, column) + state]).collect()
                } else {
                    transposed(squares)
                },
            },
        }
    }
}

/// Adds γ E[x − μ] and γ E[(x − μ)(x − μ)ᵀ] of a partly missing vector x given its observed components.
#[cold]
fn add_completions<T: Precise>(
    densities: &Densities,
    x: &[f64],
    gamma: &[T],
    sums: &mut [f64],
    squares: &mut [f64],
    full: bool,
) {
    let (d, stride) = (x.len(), gamma.len());
    densities.completions(x, |Completion { state, deviation, covariance }| {
        let gamma = gamma[state].to_f64();
        let mut squares = squares.iter_mut().skip(state).step_by(stride);
        for row in 0..d {
            sums[row * stride + state] += gamma * deviation[row];
            for column in if full { 0 } else { row }..=row {
                let more = covariance[if full { row * d + column } else { row }];
                if let Some(square) = squares.next() {
                    *square += gamma * (deviation[row] * deviation[column] + more);
                }
            }
        }
    });
}

/// Adds γ to the sums.
struct Counting<'a, T> {
    chain: &'a Chain<T>,
    seen: &'a Sequences,
    group: &'a Group,
    start: &'a mut [f64],
    end: &'a mut [f64],
    counts: &'a mut Counts,
}

impl<T: Precise> Show<T> for Counting<'_, T> {
    #[inline(always)]
    fn show(&mut self, slot: usize, t: usize, gamma: &[T]) {
        if t == 0 {
            add(self.start, gamma);
        }
        if t + 1 == self.group.lengths[slot] {
            add(self.end, gamma);
        }
        self.counts.add(self.chain, self.seen, self.group.places[slot] + t, gamma);
    }
}

impl Sums {
    pub fn new<T: Precise>(chain: &Chain<T>) -> Self {
        let stride = chain.stride;
        Self {
            pairs: vec![0.0; chain.n * stride],
            start: vec![0.0; stride],
            end: vec![0.0; stride],
            counts: Counts::new(&chain.model, stride),
        }
    }

    /// Adds the counts of a group without its `excluded` slots. Returns ln P(O) of each slot; NaN for uncertain and
    /// excluded ones.
    pub fn count<T: Precise>(
        &mut self,
        chain: &Chain<T>,
        seen: &Sequences,
        group: &Group,
        excluded: &[bool],
        bytes: usize,
    ) -> Vec<f64> {
        let Self { pairs, counts, start, end } = self;
        let show = Counting { chain, seen, group, start, end, counts };
        ForwardBackward { chain, seen, group, excluded, bytes, pairs: Some(pairs), show }.logs()
    }

    /// Approximate memory of a `Sums`, in bytes.
    pub fn bytes<T: Precise>(chain: &Chain<T>) -> usize {
        let kinds = match chain.model.emissions() {
            Emissions::Categorical { symbols, .. } => *symbols as usize,
            Emissions::Gaussian { dimensions, .. } => (*dimensions as usize + 1).pow(2),
            Emissions::Channels(channels) => sums_of_channels(channels, &chain.model) / chain.n,
        };
        (chain.n + kinds + 2) * chain.stride * size_of::<f64>()
    }

    pub fn add(&mut self, other: &Self) {
        // ξ is by far the largest part.
        if self.pairs.len() <= CHUNK {
            add(&mut self.pairs, &other.pairs);
        } else {
            let terms = other.pairs.par_chunks(CHUNK);
            self.pairs.par_chunks_mut(CHUNK).zip(terms).for_each(|(sums, terms)| add(sums, terms));
        }
        add(&mut self.start, &other.start);
        add(&mut self.end, &other.end);
        self.counts.rows_mut().into_iter().zip(other.counts.rows()).for_each(|(sums, terms)| add(sums, terms));
    }

    /// The counts without padding, with ξ multiplied by A.
    pub fn expected<T: Precise>(&self, chain: &Chain<T>, log_likelihoods: Vec<f64>) -> Expected {
        let (n, stride) = (chain.n, chain.stride);
        let rows = self.pairs.chunks_exact(stride).flat_map(|row| &row[..n]);
        Expected {
            log_likelihoods,
            start: self.start[..n].to_vec(),
            transitions: rows.zip(chain.model.transitions()).map(|(pairs, prob)| pairs * prob).collect(),
            end: self.end[..n].to_vec(),
            emissions: self.counts.statistics(n, stride),
        }
    }
}
