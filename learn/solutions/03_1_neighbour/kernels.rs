//! Threads that read what others have written.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::PerThread;
use warpkov_device::tile;

/// y of each thread is x of the next one, and y of a block's last thread is x of its first, in blocks of 256 threads.
/// A thread reads its own element of x alone: the others come through shared memory.
#[kernel(safe, requires(shape.block == 256))]
pub fn neighbour(x: PerThread<f32>, y: PerThread<f32>) {
    let t = thread::thread_idx_x();
    let mut tile = tile!(neighbours: f32; 256);
    // Each thread writes its number to element t of the tile, and waits until all have: `fill` has the barrier.
    let tile = tile.fill(|_| x.get());
    // ANCHOR: part1
    y.set(tile.get((t + 1) % 256));
    // ANCHOR_END: part1
}
