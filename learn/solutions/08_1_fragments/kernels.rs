//! A product on the tensor core, by one warp.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{PerThread, Slice};

/// Row and column of the `k`-th element of A (0 … 3), of 16 × 8, that this lane holds.
#[inline(always)]
fn place(lane: u32, k: u32) -> (u32, u32) {
    // ANCHOR: part1
    (lane / 4 + 8 * (k % 2), lane % 4 + 4 * (k / 2))
    // ANCHOR_END: part1
}

/// C = A·B, for A of 16 × 8 and B of 8 × 8 by rows. With g = lane / 4 and t = lane mod 4, a lane writes its elements (g, 2t), (g, 2t + 1),
/// (g + 8, 2t) and (g + 8, 2t + 1) of C. Block k multiplies the k-th matrices.
#[kernel(safe, requires(shape.block == 32))]
pub fn fragments(a: Slice<f32>, b: Slice<f32>, c: PerThread<[f32; 4]>) {
    let (product, lane) = (thread::block_idx_x(), warp::lane_id());
    let left = [0, 1, 2, 3].map(|k| {
        let (row, column) = place(lane, k);
        a.get(128 * product + 8 * row + column)
    });
    // A lane holds the elements (t, g) and (t + 4, g) of B.
    let right = [0, 4].map(|down| b.get(64 * product + 8 * (lane % 4 + down) + lane / 4));
    c.set(mma::tf32_16x8x8(left, right, [0.0; 4]));
}
