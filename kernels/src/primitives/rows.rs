//! Sparse matrices in compressed rows.

use warpkov_device::device::{Global, Parameter};

/// A sparse matrix of probabilities in compressed rows.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `ptr` | rows + 1 | entries |
/// | `col` | entries | columns |
/// | `prob` | entries | probability |
#[derive(Clone, Copy, Parameter)]
pub struct Rows<T, O> {
    /// Row r holds the entries `ptr[r]..ptr[r + 1]`.
    pub ptr: Global<O>,
    /// Column of each entry.
    pub col: Global<u32>,
    /// Probability of each entry.
    pub prob: Global<T>,
}
