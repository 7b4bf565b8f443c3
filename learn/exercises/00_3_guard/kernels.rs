//! y = x + 10 on the GPU.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, Out};

/// y = x + 10, for n elements and 256 threads.
#[kernel(safe)]
pub fn guard<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    // ANCHOR: part1
    // TODO: a thread without an element must not read.
    let value = x.get(n.at(thread::thread_idx_x())) + 10.0;
    if let Some(i) = n.element() {
        y.set(&i, value);
    }
    // ANCHOR_END: part1
}
