//! Four patterns of addresses, for one warp. An f32 has 4 bytes, and x begins with a sector of 32 bytes.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{PerThread, Slice};

// ANCHOR: part1
// TODO: how many sectors of 32 bytes do the 32 lanes touch?
pub const NEIGHBOURS: u32 = 0;
pub const SHIFTED: u32 = 0;
pub const EVERY_SECOND: u32 = 0;
pub const EVERY_EIGHTH: u32 = 0;
// ANCHOR_END: part1

/// Lane k reads element k.
#[kernel(safe)]
pub fn neighbours(x: Slice<f32>, y: PerThread<f32>) {
    y.set(x.get(warp::lane_id()));
}

/// Lane k reads element k + 1.
#[kernel(safe)]
pub fn shifted(x: Slice<f32>, y: PerThread<f32>) {
    y.set(x.get(warp::lane_id() + 1));
}

/// Lane k reads element 2k.
#[kernel(safe)]
pub fn every_second(x: Slice<f32>, y: PerThread<f32>) {
    y.set(x.get(2 * warp::lane_id()));
}

/// Lane k reads element 8k.
#[kernel(safe)]
pub fn every_eighth(x: Slice<f32>, y: PerThread<f32>) {
    y.set(x.get(8 * warp::lane_id()));
}
