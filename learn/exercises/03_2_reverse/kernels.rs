//! A block that turns its elements round.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::PerThread;
use warpkov_device::tile;

/// Reverses each block of 256 elements, in blocks of 256 threads: y of thread t is x of thread 255 − t.
#[kernel(safe, requires(shape.block == 256))]
pub fn reverse_block(x: PerThread<f32>, y: PerThread<f32>) {
    // ANCHOR: part1
    // TODO: write to a tile in shared memory, wait, and read another element.
    let _ = tile!(reversed: f32; 256);
    y.set(x.get());
    // ANCHOR_END: part1
}
