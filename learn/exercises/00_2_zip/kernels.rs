//! z = x · y on the GPU.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{PerThread, Slice};

/// z = x · y, element by element, in one block.
#[kernel(safe)]
pub fn zip(x: Slice<f32>, y: Slice<f32>, z: PerThread<f32>) {
    let t = thread::thread_idx_x();
    // ANCHOR: part1
    // TODO: the other factor is an element of y.
    z.set(x.get(t) * y.get(0));
    // ANCHOR_END: part1
}
