//! out = a + 10, for matrices stored by rows.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{Len, Out2, Slice};

/// out = a + 10, in one block of 32 × 8 threads: x is the column, y is the row.
#[kernel(safe)]
pub fn map_2d<'r, 'c>(rows: Len<'r>, columns: Len<'c>, a: Slice<f32>, out: Out2<'r, 'c, f32>) {
    // A thread below the matrix, or to the right of it, has no element.
    if let Some(own) = rows.by(columns).element() {
        let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
        // ANCHOR: part1
        let i = y * columns.get() + x;
        // ANCHOR_END: part1
        out.set(&own, a.get(i) + 10.0);
    }
}
