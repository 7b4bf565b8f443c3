//! Expectation of V along one sparse row, Σ P(s'|s, a) V(s'): shared by evaluation, improvement and backup.

// Indexed loops: an iterator over an array by value would move the array to local memory.
#![allow(clippy::needless_range_loop)]

use warpkov_device::device::{Global, Offset, Real, math, warp};

use crate::primitives::rows::Rows;

/// Entries in flight per lane.
const STEP: usize = 4;

/// Entries per lane above which the whole warp processes a row.
const LONG: usize = 8;

impl<T: Real, O: Offset> Rows<T, O> {
    /// Σ over the entries of `row` of prob · v\[col\]. `LANES` consecutive lanes share a row; the whole warp takes a
    /// long row, of which there may be a few among many short ones.
    ///
    /// *Takes part*: whole warps; lanes with `row` = `None` only help. *Valid result in*: all `LANES` lanes.
    /// *Deterministic*: yes. *Safety*: `row` is a row of the matrix, and v has an element for each column.
    #[inline(always)]
    #[must_use]
    pub fn expect<const LANES: u32>(self, row: Option<usize>, v: Global<T>) -> f64 {
        const WARP: u32 = 32;
        let lane = warp::lane_id();
        let (entry, end) = row.map_or((O::ZERO, O::ZERO), |row| (self.ptr.get(row), self.ptr.get(row + 1)));
        let long = LANES < WARP && end.to_usize() - entry.to_usize() > LONG * LANES as usize;
        let mut sum = if long { 0.0 } else { self.sum(entry, end, lane % LANES, LANES, v) };
        sum = warp::reduce_width(sum, LANES, |a, b| a + b);
        if LANES < WARP {
            let mut waiting = warp::ballot(u32::MAX, long && lane.is_multiple_of(LANES));
            while waiting != 0 {
                let first = waiting.trailing_zeros();
                let (entry, end) = (warp::shuffle(u32::MAX, entry, first), warp::shuffle(u32::MAX, end, first));
                let whole = warp::reduce(self.sum(entry, end, lane, WARP, v), |a, b| a + b);
                if lane / LANES == first / LANES {
                    sum = whole;
                }
                waiting &= waiting - 1;
            }
        }
        sum
    }

    /// Σ over every `stride`-th entry from `entry + start` to before `end`.
    #[inline(always)]
    fn sum(self, entry: O, end: O, start: u32, stride: u32, v: Global<T>) -> f64 {
        let (mut entry, end) = (entry.to_usize() + start as usize, end.to_usize());
        let mut sum = 0.0;
        while entry < end {
            // Issue all loads of a step before the first use.
            let (mut col, mut prob) = ([0; STEP], [T::ZERO; STEP]);
            for k in 0..STEP {
                let at = entry + k * stride as usize;
                if at < end {
                    (col[k], prob[k]) = (self.col.get(at), self.prob.get(at));
                }
            }
            for k in 0..STEP {
                sum = math::fma(prob[k].to_f64(), v.get(col[k]).to_f64(), sum);
            }
            entry += STEP * stride as usize;
        }
        sum
    }
}
