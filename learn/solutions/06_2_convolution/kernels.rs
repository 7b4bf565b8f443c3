//! A convolution with five weights.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, Out};
use warpkov_device::tile;

/// The weights of xᵢ₋₂ … xᵢ₊₂.
const WEIGHTS: [f32; 5] = [1.0 / 16.0, 4.0 / 16.0, 6.0 / 16.0, 4.0 / 16.0, 1.0 / 16.0];

/// yᵢ = Σₖ wₖ·xᵢ₊ₖ₋₂, with 0 beyond the ends, in blocks of 256 threads.
#[kernel(safe, requires(shape.block == 256))]
pub fn convolution<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    let (first, t) = (256 * thread::block_idx_x(), thread::thread_idx_x());
    // Element k − 2 of this block. The halo is two elements on each side: k is 0 … 259.
    let load = |k: u32| n.index((first + k).wrapping_sub(2)).map_or(0.0, |i| x.get(i));
    let mut sum = 0.0;
    // ANCHOR: part1
    let mut tile = tile!(tile: f32; 260);
    let tile = tile.fill(load);
    for k in 0..5 {
        sum += WEIGHTS[k] * tile.get(t + k as u32);
    }
    // ANCHOR_END: part1
    if let Some(i) = n.element() {
        y.set(&i, sum);
    }
}
