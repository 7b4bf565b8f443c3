//! Kernel parameters: sequences, models, windows of steps, and the operators of chunks.

use warpkov_device::device::{Global, GlobalMut, Parameter};

/// M sequences, longest first, stored [by time](super).
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `count` | scalar | M ≥ 1 |
/// | `rows` | scalar | steps of all sequences |
/// | `lengths` | M | steps ≥ 1, descending |
/// | `base` | longest + 1 | rows, ascending; `base[t + 1] − base[t]` sequences have step t |
/// | `symbol` | `rows` | rows of the emission table, below `symbols` |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(count >= 1, lengths.len() >= count, symbol.len() >= rows))]
pub struct Sequences {
    /// M.
    pub count: u32,
    /// Rows per model of buffers with one row per step.
    pub rows: u32,
    /// Number of steps of each sequence.
    pub lengths: Global<u32>,
    /// First row of each step.
    pub base: Global<u32>,
    /// Observation of each row.
    pub symbol: Global<u32>,
}

/// Models of N states, one after another, in rows of a stride ≥ N that the kernel defines or takes as a parameter. The
/// same struct holds logarithms; there, missing states have −∞.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `symbols` | scalar | rows of `table` |
/// | `start` | stride | π, probability |
/// | `transitions` | stride × stride | A, probability |
/// | `transposed` | stride × stride | Aᵀ, probability |
/// | `table` | `symbols` × stride | bⱼ(v), probability or density |
/// | `end` | stride | end probability, or 1 if sequences may end anywhere |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(models, stride),
    requires(
        start.len() >= models * stride,
        transitions.len() >= models * stride * stride,
        transposed.len() >= models * stride * stride,
        table.len() >= models * symbols * stride,
        end.len() >= models * stride,
    )
)]
pub struct Model<T> {
    /// Rows of the emission table.
    pub symbols: u32,
    /// π; or one π per sequence, if the kernel says so.
    pub start: Global<T>,
    /// A.
    pub transitions: Global<T>,
    /// Aᵀ.
    pub transposed: Global<T>,
    /// B.
    pub table: Global<T>,
    /// Probability of the end after each state; or one such row per sequence, if the kernel says so.
    pub end: Global<T>,
}

/// The steps of a launch, and the capacity of its buffers.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `from`, `until` | scalar | steps, `from` < `until` |
/// | `capacity` | scalar | rows per model, ≥ rows of the window |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(from < until))]
pub struct Window {
    /// First step.
    pub from: u32,
    /// First step behind the window.
    pub until: u32,
    /// Rows per model of buffers with one row per step of a window.
    pub capacity: u32,
}

/// Results of the forward recursion.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `alpha` | rows of a window × stride | α̂ ≥ 0 |
/// | `exponents` | rows | eₜ |
/// | `likelihoods` | M × 2 | P̂ or NaN, and Σ eₜ |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(models, capacity, stride, rows, sequences),
    requires(
        alpha.len() >= models * capacity * stride,
        exponents.len() >= models * rows,
        likelihoods.len() >= 2 * models * sequences,
    )
)]
pub struct Forward<T> {
    /// α̂ of a window.
    pub alpha: Global<T>,
    /// eₜ.
    pub exponents: Global<i32>,
    /// P̂ and Σ eₜ of each sequence; P̂ is NaN if the sequence is in doubt.
    pub likelihoods: Global<f64>,
}

/// One step of all sequences that have it, for a launch per step.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `first` | scalar | row |
/// | `live` | scalar | sequences, ≥ 1 |
/// | `stride` | scalar | elements per row, a multiple of [`COLUMNS`](super::step::COLUMNS) |
/// | `before`, `now` | scalar | rows of a window |
/// | `window` | scalar | rows per model |
/// | `plain` | scalar | 1 or 0 |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(live >= 1, stride % super::step::COLUMNS == 0))]
pub struct Step {
    /// First row of the step.
    pub first: u32,
    /// Sequences that have the step.
    pub live: u32,
    /// Elements per row.
    pub stride: u32,
    /// First row, in the window, of the step that the recursion comes from.
    pub before: u32,
    /// First row, in the window, of this step.
    pub now: u32,
    /// Rows per model of a window.
    pub window: u32,
    /// 1: the f32 product uses 11-bit factors (one TF32 product in place of three).
    pub plain: u32,
}

/// Division of a sum over the rows of a window into parts of `split` rows.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `rows` | scalar | rows to sum |
/// | `window` | scalar | rows per model, ≥ `rows` |
/// | `split` | scalar | rows per part, ≥ 1 |
/// | `more` | scalar | 1 or 0 |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(window >= rows, split >= 1))]
pub struct Split {
    /// Rows of the window to sum.
    pub rows: u32,
    /// Rows per model of a window.
    pub window: u32,
    /// Rows per part.
    pub split: u32,
    /// Whether the kernel adds to the present sums.
    pub more: u32,
}

/// The chunks of each sequence, in the order of time.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `chunks` | scalar | chunks |
/// | `order` | chunks | chunks, each once |
/// | `link` | M + 1 | elements of `order`, strictly ascending |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(order.len() >= chunks))]
#[parameter(holds(sequences), requires(link.len() >= sequences + 1))]
pub struct Chains {
    /// Number of chunks.
    pub chunks: u32,
    /// The chunks of one sequence after another.
    pub order: Global<u32>,
    /// First element of each sequence in `order`, and the number of chunks.
    pub link: Global<u32>,
}

/// The operators of chunks, with an exponent of two or a summand per row.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `values` | chunks × stride × stride | probability, or its logarithm |
/// | `scales` | chunks × stride | exponents of two, or summands (logarithms) |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(models, chunks, stride),
    requires(
        values.len() >= models * chunks * stride * stride,
        scales.len() >= models * chunks * stride,
    )
)]
pub struct Operators {
    /// Elements of the operators.
    pub values: Global<f64>,
    /// Exponent or summand of each row.
    pub scales: Global<f64>,
}

/// [`Operators`] that a kernel writes.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `values` | chunks × stride × stride | probability, or its logarithm |
/// | `scales` | chunks × stride | exponents of two, or summands (logarithms) |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(models, chunks, stride),
    requires(
        values.len() >= models * chunks * stride * stride,
        scales.len() >= models * chunks * stride,
    )
)]
pub struct NewOperators {
    /// Elements of the operators.
    pub values: GlobalMut<f64>,
    /// Exponent or summand of each row.
    pub scales: GlobalMut<f64>,
}
