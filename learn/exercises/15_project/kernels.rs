//! The kernels of the project.

// ANCHOR: plain
// TODO: your kernels, in place of these copies: the simplest, the fast one, and one with a mistake.
use warpkov_device::device::{Global, GlobalMut, kernel, thread};

/// y = x.
///
/// *Safety*: x and y have `n` elements.
#[kernel]
pub fn plain(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        y.set(i, x.get(i));
    }
}
// ANCHOR_END: plain

// ANCHOR: fast
/// The same.
///
/// *Safety*: as for [`plain`].
#[kernel]
pub fn fast(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        y.set(i, x.get(i));
    }
}
// ANCHOR_END: fast

// ANCHOR: wrong
/// The same.
///
/// *Safety*: as for [`plain`].
#[kernel]
pub fn wrong(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        y.set(i, x.get(i));
    }
}
// ANCHOR_END: wrong
