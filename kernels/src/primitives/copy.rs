//! Copying: what a device's memory can do at most.

use crate::device::{Global, GlobalMut, Real, kernel, thread};

/// y = x, four elements at a time.
///
/// *Thread mapping*: a grid-stride loop over quads. *Safety*: both vectors have `4 · quads` elements.
#[kernel(T = [f32, f64])]
pub fn copy<T: Real>(quads: u32, x: Global<T>, y: GlobalMut<T>) {
    let mut i = thread::index_1d() as usize;
    while i < quads as usize {
        y.set4(i, x.get4(i));
        i += thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    }
}
