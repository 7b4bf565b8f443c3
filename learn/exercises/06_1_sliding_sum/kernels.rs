//! yᵢ = xᵢ₋₁ + xᵢ + xᵢ₊₁ on the GPU.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, Out};
use warpkov_device::tile;

/// yᵢ = xᵢ₋₁ + xᵢ + xᵢ₊₁, with 0 beyond the ends, in blocks of 256 threads.
#[kernel(safe, requires(shape.block == 256))]
pub fn sliding_sum<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    let (first, t) = (256 * thread::block_idx_x(), thread::thread_idx_x());
    // Element k − 1 of this block: k = 0 is the one before, and k = 257 the one behind the block.
    let load = |k: u32| n.index((first + k).wrapping_sub(1)).map_or(0.0, |i| x.get(i));
    // ANCHOR: part1
    // TODO: load each element once, into a tile in shared memory.
    let _ = tile!(window: f32; 258);
    let sum = load(t) + load(t + 1) + load(t + 2);
    // ANCHOR_END: part1
    if let Some(i) = n.element() {
        y.set(&i, sum);
    }
}
