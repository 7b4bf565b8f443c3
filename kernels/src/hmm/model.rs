//! What the kernels are given of models, and of sequences.

use warpkov_device::device::{Global, GlobalMut, Parameter};

/// M sequences, the longest first; they lie [by time](super).
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `count` | 1 | M |
/// | `rows` | 1 | steps of all sequences |
/// | `lengths` | M | steps, descending |
/// | `base` | longest + 1 | rows |
/// | `symbol` | `rows` | rows of the emission table |
#[derive(Clone, Copy, Parameter)]
pub struct Sequences {
    /// M.
    pub count: u32,
    /// Rows of a model, in what has one for each step.
    pub rows: u32,
    /// Steps of each.
    pub lengths: Global<u32>,
    /// First row of each step.
    pub base: Global<u32>,
    /// What is observed in each row.
    pub symbol: Global<u32>,
}

/// Models of N states, one behind the other, in rows of a stride that is the kernel's or its parameter; or their logarithms, −∞ where
/// there is no state.
///
/// | field | shape, of a model | unit |
/// | --- | --- | --- |
/// | `symbols` | 1 | rows of `table` |
/// | `start` | stride | π, probability |
/// | `transitions` | stride × stride | A, probability |
/// | `transposed` | stride × stride | Aᵀ, probability |
/// | `table` | `symbols` × stride | bⱼ(v), probability or density |
/// | `end` | stride | end or 1, probability |
#[derive(Clone, Copy, Parameter)]
pub struct Model<T> {
    /// Rows of the emission table.
    pub symbols: u32,
    /// π, or one of its own for each sequence.
    pub start: Global<T>,
    /// A.
    pub transitions: Global<T>,
    /// Aᵀ.
    pub transposed: Global<T>,
    /// B.
    pub table: Global<T>,
    /// What comes after the last step, or one of its own for each sequence.
    pub end: Global<T>,
}

/// The steps of a launch, and the rows that there is room for.
///
/// | field | unit |
/// | --- | --- |
/// | `from`, `until` | steps, `from` < `until` |
/// | `capacity` | rows of a model |
#[derive(Clone, Copy, Parameter)]
pub struct Window {
    /// The first step.
    pub from: u32,
    /// The first step behind.
    pub until: u32,
    /// From a model to the next, in what has a row for each step of a window.
    pub capacity: u32,
}

/// What the forward recursion has found.
///
/// | field | shape, of a model | unit |
/// | --- | --- | --- |
/// | `alpha` | rows of a window × stride | α̂ |
/// | `exponents` | rows | eₜ |
/// | `likelihoods` | M × 2 | P̂, and Σ eₜ |
#[derive(Clone, Copy, Parameter)]
pub struct Forward<T> {
    /// α̂ of a window.
    pub alpha: Global<T>,
    /// eₜ.
    pub exponents: Global<i32>,
    /// P̂ and Σ eₜ of each sequence.
    pub likelihoods: Global<f64>,
}

/// A step of all sequences that have it, in a launch of its own.
///
/// | field | unit |
/// | --- | --- |
/// | `first` | rows |
/// | `live` | sequences, > 0 |
/// | `stride` | elements of a row |
/// | `before`, `now` | rows of a window |
/// | `window` | rows of a model |
/// | `plain` | 1 or 0 |
#[derive(Clone, Copy, Parameter)]
pub struct Step {
    /// The first row of the step.
    pub first: u32,
    /// Sequences that have it.
    pub live: u32,
    /// Elements of a row.
    pub stride: u32,
    /// Where rows of the step that the recursion comes from begin.
    pub before: u32,
    /// Where those of this step begin.
    pub now: u32,
    /// From a model to the next.
    pub window: u32,
    /// Whether f32 counts with 11 bits.
    pub plain: u32,
}

/// Sums over rows in parts: of a window's rows, `split` make a part.
///
/// | field | unit |
/// | --- | --- |
/// | `rows` | rows that count |
/// | `window` | rows of a model |
/// | `split` | rows of a part |
/// | `more` | 1 or 0 |
#[derive(Clone, Copy, Parameter)]
pub struct Split {
    /// Rows of the window that count.
    pub rows: u32,
    /// From a model to the next.
    pub window: u32,
    /// Rows of a part.
    pub split: u32,
    /// Whether sums are added to what is there.
    pub more: u32,
}

/// The chunks of sequences that are cut, in the order of time.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `chunks` | 1 | chunks |
/// | `order` | chunks | chunks |
/// | `link` | M + 1 | elements of `order` |
#[derive(Clone, Copy, Parameter)]
pub struct Chains {
    /// How many.
    pub chunks: u32,
    /// The chunks of one sequence after the other.
    pub order: Global<u32>,
    /// Where those of each sequence begin, and those of the last end.
    pub link: Global<u32>,
}

/// The operators of chunks, with an exponent of two or a summand for each row.
///
/// | field | shape, of a model | unit |
/// | --- | --- | --- |
/// | `values` | chunks × stride × stride | probability, or its logarithm |
/// | `scales` | chunks × stride | exponents of two, or logarithms |
#[derive(Clone, Copy, Parameter)]
pub struct Operators {
    /// Their elements.
    pub values: Global<f64>,
    /// What rows are scaled by.
    pub scales: Global<f64>,
}

/// [`Operators`] that a kernel makes.
#[derive(Clone, Copy, Parameter)]
pub struct NewOperators {
    /// Their elements.
    pub values: GlobalMut<f64>,
    /// What rows are scaled by.
    pub scales: GlobalMut<f64>,
}
