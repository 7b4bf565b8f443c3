//! y = x + 10 on the GPU.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, Out};

/// y = x + 10, for n elements. The element of a thread: number of its block · 256 + number of the thread.
#[kernel(safe)]
pub fn blocks<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    if let Some(i) = n.element() {
        y.set(&i, x.get(&i) + 10.0);
    }
}
