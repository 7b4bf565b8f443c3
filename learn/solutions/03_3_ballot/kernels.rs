//! Lanes that know what the other lanes of their warp think.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, Out};

/// `below[i]` is the number of positive elements before element i in its warp.
#[kernel(safe)]
pub fn ballot<'n>(n: Len<'n>, x: In<'n, f32>, below: Out<'n, u32>) {
    // A lane without an element says no.
    let positive = n.element().is_some_and(|i| x.get(&i) > 0.0);
    // ANCHOR: part1
    let yes = warp::ballot(warp::FULL, positive);
    let number = (yes & ((1 << warp::lane_id()) - 1)).count_ones();
    // ANCHOR_END: part1
    if let Some(i) = n.element() {
        below.set(&i, number);
    }
}
