//! Sparse matrices in compressed sparse row (CSR) form.

use rayon::prelude::*;

use crate::array::Array;
use crate::parallel::CHUNK;

/// A sparse matrix in compressed sparse row form: row r holds the entries `row_ptr[r]..row_ptr[r + 1]`.
///
/// Invariant: the row pointers start at 0, never decrease, and end at the number of entries. So [`row`](Self::row)
/// stays in bounds for every r below [`rows`](Self::rows). `Csr` does not check the columns; the model that owns the
/// matrix checks their range and order.
///
/// ```compile_fail,E0451
/// use warpkov_common::sparse::Csr;
/// let short = Csr { row_ptr: vec![0, 9].into(), ..Csr::empty(1) };
/// ```
#[derive(Clone, Default)]
pub struct Csr {
    row_ptr: Array<u64>,
    col: Array<u32>,
    val: Array<f64>,
}

/// A violated invariant of [`Csr`]. Messages name the arrays as files do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum InvalidCsr {
    #[error("indptr[0] is {found}, expected 0")]
    Start { found: u64 },
    #[error("indptr falls from {start} to {end} in row {row}")]
    Falls { row: usize, start: u64, end: u64 },
    #[error("indptr ends at {found}, expected the number of entries {entries}")]
    End { found: u64, entries: usize },
    #[error("indices has {indices} elements, data has {data}, expected equal lengths")]
    Lengths { indices: usize, data: usize },
}

impl Csr {
    /// Builds a matrix from row pointers, columns and values. An empty `row_ptr` gives a matrix without rows.
    ///
    /// # Errors
    /// The first violation found; see [`InvalidCsr`].
    pub fn new(
        row_ptr: impl Into<Array<u64>>,
        col: impl Into<Array<u32>>,
        val: impl Into<Array<f64>>,
    ) -> Result<Self, InvalidCsr> {
        let csr = Self { row_ptr: row_ptr.into(), col: col.into(), val: val.into() };
        let (ends, entries, data) = (&csr.row_ptr[..], csr.col.len(), csr.val.len());
        if let Some(&found) = ends.first().filter(|&&first| first != 0) {
            return Err(InvalidCsr::Start { found });
        }
        let falls = |row: &usize| ends[*row] > ends[row + 1];
        if let Some(row) = (0..csr.rows()).into_par_iter().with_min_len(CHUNK).find_first(falls) {
            return Err(InvalidCsr::Falls { row, start: ends[row], end: ends[row + 1] });
        }
        if entries != data {
            return Err(InvalidCsr::Lengths { indices: entries, data });
        }
        let found = ends.last().copied().unwrap_or_default();
        if found != entries as u64 {
            return Err(InvalidCsr::End { found, entries });
        }
        Ok(csr)
    }

    /// [`new`](Self::new) without checks in release builds, for arrays that are valid by construction.
    pub fn built(row_ptr: impl Into<Array<u64>>, col: impl Into<Array<u32>>, val: impl Into<Array<f64>>) -> Self {
        let csr = Self { row_ptr: row_ptr.into(), col: col.into(), val: val.into() };
        debug_assert!(Self::new(csr.row_ptr.clone(), csr.col.clone(), csr.val.clone()).is_ok());
        csr
    }

    /// A matrix of `rows` rows without entries.
    #[must_use]
    pub fn empty(rows: usize) -> Self {
        Self { row_ptr: vec![0; rows + 1].into(), ..Self::default() }
    }

    /// Replaces the values; `val` has one element per stored entry.
    ///
    /// # Errors
    /// [`InvalidCsr::Lengths`] if the number of values differs.
    pub fn with_values(self, val: impl Into<Array<f64>>) -> Result<Self, InvalidCsr> {
        let val = val.into();
        let (indices, data) = (self.col.len(), val.len());
        if indices == data { Ok(Self { val, ..self }) } else { Err(InvalidCsr::Lengths { indices, data }) }
    }

    /// Row pointers: `rows + 1` offsets from 0 to the number of entries.
    #[inline]
    #[must_use]
    pub fn row_ptr(&self) -> &Array<u64> {
        &self.row_ptr
    }

    /// Column of each stored entry.
    #[inline]
    #[must_use]
    pub fn col(&self) -> &Array<u32> {
        &self.col
    }

    /// Value of each stored entry.
    #[inline]
    #[must_use]
    pub fn val(&self) -> &Array<f64> {
        &self.val
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.row_ptr.len().saturating_sub(1)
    }

    /// Number of stored entries.
    pub fn nnz(&self) -> usize {
        self.col.len()
    }

    /// Columns and values of row `r`.
    #[inline]
    pub fn row(&self, r: usize) -> (&[u32], &[f64]) {
        let range = self.row_ptr[r] as usize..self.row_ptr[r + 1] as usize;
        (&self.col[range.clone()], &self.val[range])
    }

    /// Borrows the arrays as slices.
    pub fn view(&self) -> CsrView<'_> {
        CsrView { row_ptr: &self.row_ptr, col: &self.col, val: &self.val }
    }

    /// Sorts the columns of every row in ascending order. Keeps the arrays if they are sorted already.
    pub fn sorted(self) -> Self {
        if (0..self.rows()).into_par_iter().with_min_len(CHUNK).all(|r| self.row(r).0.is_sorted()) {
            return self;
        }
        let Self { row_ptr, col, val } = self;
        let (mut col, mut val) = (col.into_vec(), val.into_vec());
        let chunks = split(&row_ptr, &mut col).into_par_iter().zip(split(&row_ptr, &mut val));
        chunks.for_each(|((first, col), (_, val))| {
            let mut pairs = Vec::new();
            let mut start = 0;
            for length in row_ptr[first..].windows(2).take(CHUNK).map(|ends| (ends[1] - ends[0]) as usize) {
                let (col, val) = (&mut col[start..start + length], &mut val[start..start + length]);
                start += length;
                if !col.is_sorted() {
                    pairs.clear();
                    pairs.extend(col.iter().copied().zip(val.iter().copied()));
                    pairs.sort_by_key(|pair| pair.0);
                    for (pair, (col, val)) in pairs.iter().zip(col.iter_mut().zip(val)) {
                        (*col, *val) = *pair;
                    }
                }
            }
        });
        Self { row_ptr, col: col.into(), val: val.into() }
    }
}

/// A [`Csr`] as slices, which saves a loop over rows the dispatch between owned and mapped arrays.
#[derive(Clone, Copy)]
pub struct CsrView<'a> {
    row_ptr: &'a [u64],
    col: &'a [u32],
    val: &'a [f64],
}

impl<'a> CsrView<'a> {
    /// [`Csr::nnz`].
    #[must_use]
    pub fn nnz(self) -> usize {
        self.col.len()
    }

    /// [`Csr::row`].
    #[inline]
    pub fn row(self, r: usize) -> (&'a [u32], &'a [f64]) {
        let range = self.row_ptr[r] as usize..self.row_ptr[r + 1] as usize;
        (&self.col[range.clone()], &self.val[range])
    }
}

/// Splits `elements`, one per matrix entry, into chunks of [`CHUNK`] rows; the last chunk may be shorter. Each chunk
/// comes with the number of its first row.
pub fn split<'e, T>(row_ptr: &[u64], mut elements: &'e mut [T]) -> Vec<(usize, &'e mut [T])> {
    let rows = row_ptr.len() - 1;
    (0..rows)
        .step_by(CHUNK)
        .map(|first| {
            let length = row_ptr[rows.min(first + CHUNK)] - row_ptr[first];
            (first, elements.split_off_mut(..length as usize).unwrap_or_default())
        })
        .collect()
}
