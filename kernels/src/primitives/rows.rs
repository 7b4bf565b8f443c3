//! Sparse matrices in compressed rows (CSR).

use warpkov_device::device::{Global, Parameter};

/// A sparse matrix of probabilities in compressed rows (CSR).
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `ptr` | rows + 1 | row pointers: entry indices, ascending |
/// | `col` | entries | column indices, below the number of columns |
/// | `prob` | entries | probability |
#[derive(Clone, Copy, Parameter)]
#[parameter(holds(rows), requires(ptr.len() >= rows + 1))]
pub struct Rows<T, O> {
    /// Row pointers: row r holds the entries `ptr[r]..ptr[r + 1]`.
    pub ptr: Global<O>,
    /// Column of each entry.
    pub col: Global<u32>,
    /// Probability of each entry.
    pub prob: Global<T>,
}
