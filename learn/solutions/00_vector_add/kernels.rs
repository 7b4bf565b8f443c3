//! z = x + y on the GPU.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, Out};

/// z = x + y: thread i computes element i.
#[kernel(safe)]
pub fn vector_add<'n>(n: Len<'n>, x: In<'n, f32>, y: In<'n, f32>, z: Out<'n, f32>) {
    // ANCHOR: part1
    if let Some(i) = n.element() {
        z.set(&i, x.get(&i) + y.get(&i));
    }
    // ANCHOR_END: part1
}
