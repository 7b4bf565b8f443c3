//! Sums of 32 elements.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{ByWarp, In, Len, Out};

/// The sum of each 32 elements, by one warp.
#[kernel(safe)]
pub fn warp_sum<'n, 'w>(n: Len<'n>, warps: Len<'w>, x: In<'n, f32>, sums: Out<'w, f32, ByWarp>) {
    // A lane without an element adds 0.
    let own = n.element().map_or(0.0, |i| x.get(&i));
    // ANCHOR: part1
    let mut sum = own;
    for distance in [16, 8, 4, 2, 1] {
        sum += warp::shuffle_down(warp::FULL, sum, distance);
    }
    // ANCHOR_END: part1
    // Lane 0 writes its number.
    if let Some(warp) = warps.warp_element() {
        sums.set(&warp, sum);
    }
}
