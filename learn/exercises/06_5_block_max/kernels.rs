//! Maxima of 256 elements.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, PerBlock};
use warpkov_device::tile;

/// The maximum of each 256 elements, by a block of 256 threads.
#[kernel(safe, requires(shape.block == 256))]
pub fn maximum_of_block<'n>(n: Len<'n>, x: In<'n, f32>, maxima: PerBlock<f32>) {
    let own = n.element().map_or(f32::NEG_INFINITY, |i| x.get(&i));
    // All lanes of a warp get its maximum, by shuffles.
    let of_warp = warp::reduce(own, f32::max);
    // ANCHOR: part1
    // TODO: this is the maximum of one warp of eight.
    let _ = tile!(maxima: f32; 256);
    let of_block = of_warp;
    // ANCHOR_END: part1
    // Thread 0 writes its number.
    maxima.set(of_block);
}
