//! The softmax of rows.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{ByBlock, In2, Len, Out2};

/// `y[r, c] = exp(x[r, c]) / Σₖ exp(x[r, k])`: a block of 256 threads for each row, of at most 256 columns.
#[kernel(safe, requires(shape.block == 256, columns <= 256))]
pub fn softmax<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f32>, y: Out2<'r, 'c, f32, ByBlock>) {
    for row in rows.block_elements() {
        // A thread beyond the last column has −∞, whose exponential is 0.
        let own = row.cells(columns).map(|cell| x.get(&cell)).fold(f32::NEG_INFINITY, f32::max);
        // ANCHOR: part1
        // TODO: large elements have no exponential.
        let power = Real::exp(own);
        // ANCHOR_END: part1
        // The sum is in the first warp; all threads get that of thread 0.
        let sum = block::broadcast(block::reduce(power, 0.0, |a, b| a + b), 0);
        for cell in row.cells(columns) {
            y.set(&cell, power / sum);
        }
    }
}
