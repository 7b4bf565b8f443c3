//! Counts by atomic operations.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{Atomics, In, Len};
// ANCHOR: uses
use warpkov_device::tile;
// ANCHOR_END: uses

/// Adds the number of elements with each value to `bins`. The values are below 256.
#[kernel(safe, requires(bins.len() >= 256))]
pub fn histogram<'n>(n: Len<'n>, x: In<'n, u32>, bins: Atomics<u32>) {
    if let Some(i) = n.element() {
        let bin = bins.at(x.get(&i));
        // ANCHOR: part1
        atomic::add(bin, 1);
        // ANCHOR_END: part1
    }
}

/// The same, in blocks of 256 threads.
#[kernel(safe, requires(bins.len() >= 256, shape.block == 256))]
pub fn histogram_by_blocks<'n>(n: Len<'n>, x: In<'n, u32>, bins: Atomics<u32>) {
    // ANCHOR: part2
    let mut private = tile!(private: u32; 256);
    let counts = private.sums(|private| {
        if let Some(i) = n.element() {
            private.add(x.get(&i), 1);
        }
    });
    let t = thread::thread_idx_x();
    let count = counts.get(t);
    if count > 0 {
        atomic::add(bins.at(t), count);
    }
    // ANCHOR_END: part2
}

/// Adds the number of elements above `threshold` to `count[0]`, in blocks of 256 threads.
#[kernel(safe, requires(shape.block == 256))]
pub fn count_above<'n>(n: Len<'n>, threshold: u32, x: In<'n, u32>, count: Atomics<u32>) {
    let above = n.element().is_some_and(|i| x.get(&i) > threshold);
    // ANCHOR: part3
    let lanes = warp::ballot(warp::FULL, above);
    if warp::lane_id() == 0 && lanes != 0 {
        atomic::add(count.at(0), lanes.count_ones());
    }
    // ANCHOR_END: part3
}
