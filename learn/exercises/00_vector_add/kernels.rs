//! z = x + y on the GPU.

use warpkov_device::device::{Global, GlobalMut, kernel, thread};

/// z = x + y: thread i computes element i.
///
/// *Safety*: x, y and z have `n` elements.
#[kernel]
pub fn vector_add(n: u32, x: Global<f32>, y: Global<f32>, z: GlobalMut<f32>) {
    // ANCHOR: part1
    // TODO: a vector of n elements has no element n.
    let i = thread::index_1d() as usize;
    if i <= n as usize {
        z.set(i, x.get(i) + y.get(i));
    }
    // ANCHOR_END: part1
}
