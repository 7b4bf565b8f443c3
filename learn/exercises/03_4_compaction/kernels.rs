//! Moves the positive elements to the front.

use warpkov_device::device::atomic::{Ordering, Scope};
use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{Atomics, In, Len};

/// Writes the positive elements of x to the first elements of y, in any order, and adds their number to `count[0]`, which is 0.
#[kernel(safe)]
pub fn compaction<'n>(n: Len<'n>, x: In<'n, f32>, count: Atomics<u32>, y: Atomics<f32>) {
    let value = n.element().map_or(0.0, |i| x.get(&i));
    let yes = warp::ballot(warp::FULL, value > 0.0);
    // How many lanes below say yes: step 3.3.
    let below = (yes & ((1 << warp::lane_id()) - 1)).count_ones();
    // ANCHOR: part1
    // TODO: every warp has the same first place. One lane asks for places, and tells the others.
    let first = 0;
    let _ = count;
    // ANCHOR_END: part1
    if value > 0.0 {
        // A plain write needs an element of its own, known before the launch.
        atomic::store(y.at(first + below), value, Ordering::Relaxed, Scope::Device);
    }
}
