//! A block that turns its elements round.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::PerThread;
use warpkov_device::tile;

/// Reverses each block of 256 elements, in blocks of 256 threads: y of thread t is x of thread 255 − t.
#[kernel(safe, requires(shape.block == 256))]
pub fn reverse_block(x: PerThread<f32>, y: PerThread<f32>) {
    // ANCHOR: part1
    let mut tile = tile!(reversed: f32; 256);
    let tile = tile.fill(|_| x.get());
    y.set(tile.get(255 - thread::thread_idx_x()));
    // ANCHOR_END: part1
}
