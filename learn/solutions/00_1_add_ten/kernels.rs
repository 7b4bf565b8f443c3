//! y = x + 10 on the GPU.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{PerThread, Slice};

/// y = x + 10, in one block. Each thread runs this function, and writes its own element of y.
#[kernel(safe)]
pub fn add_ten(x: Slice<f32>, y: PerThread<f32>) {
    // The number of this thread in its block: 0, 1, 2, …
    let t = thread::thread_idx_x();
    // ANCHOR: part1
    y.set(x.get(t) + 10.0);
    // ANCHOR_END: part1
}
