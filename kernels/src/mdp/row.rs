//! Σ P(s'|s, a) V(s') along one sparse row: what evaluation and improvement have in common.

use crate::device::{Global, Offset, Real, math, thread, warp};

/// A sparse matrix in compressed rows, as a kernel sees it.
#[derive(Clone, Copy)]
pub struct Rows<T, O> {
    /// Row r holds entries `row_ptr[r]..row_ptr[r + 1]`.
    pub row_ptr: Global<O>,
    /// Column of each entry.
    pub col: Global<u32>,
    /// Probability of each entry.
    pub prob: Global<T>,
}

impl<T: Real, O: Offset> Rows<T, O> {
    /// Σ over the entries of `row` of prob · v\[col\], by `LANES` neighbouring lanes together.
    ///
    /// *Takes part*: whole warps; lanes with `row` = `None` help with shuffles only. *Valid result in*: all `LANES` lanes.
    /// *Deterministic*: yes.
    #[inline(always)]
    #[must_use]
    pub fn expect<const LANES: u32>(self, row: Option<usize>, v: Global<T>) -> f64 {
        let mut sum = 0.0;
        if let Some(row) = row {
            let end = self.row_ptr.get(row + 1).to_usize();
            let mut entry = self.row_ptr.get(row).to_usize() + (thread::thread_idx_x() % LANES) as usize;
            while entry < end {
                sum = math::fma(self.prob.get(entry).to_f64(), v.get(self.col.get(entry) as usize).to_f64(), sum);
                entry += LANES as usize;
            }
        }
        warp::reduce_width(sum, LANES, |a, b| a + b)
    }
}
