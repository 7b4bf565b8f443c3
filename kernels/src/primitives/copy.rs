//! Copying: what a device's memory can do at most.

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

/// Quads that a thread has on their way together.
const STEP: usize = 4;

/// y = x, four elements at a time.
///
/// *Thread mapping*: a grid-stride loop over quads, [`STEP`] of them in each turn. *Safety*: both vectors have `4 · quads`
/// elements.
#[kernel(T = [f32, f64])]
pub fn copy<T: Real>(quads: u32, x: Global<T>, y: GlobalMut<T>) {
    let (quads, stride) = (quads as usize, thread::grid_dim_x() as usize * thread::block_dim_x() as usize);
    let mut i = thread::index_1d() as usize;
    while i + (STEP - 1) * stride < quads {
        let mut moved = [[T::ZERO; 4]; STEP];
        for (k, quad) in moved.iter_mut().enumerate() {
            *quad = x.get4(i + k * stride);
        }
        for (k, quad) in moved.iter().enumerate() {
            y.set4(i + k * stride, *quad);
        }
        i += STEP * stride;
    }
    while i < quads {
        y.set4(i, x.get4(i));
        i += stride;
    }
}
