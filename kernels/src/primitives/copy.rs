//! Copy of a vector: measures the attainable memory bandwidth of a device.

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

/// Quads in flight per thread.
const STEP: usize = 4;

/// Copies a vector, four elements per access.
///
/// - *Mathematics*: yᵢ = xᵢ.
/// - *Thread mapping*: a grid-stride loop over quads; a thread moves four quads per iteration.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `y`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `quads` | scalar | quads |
/// | `x` | 4·`quads` | aligned to 16 bytes |
/// | `y` | 4·`quads` | aligned to 16 bytes; does not overlap `x` |
#[kernel(T = [f32, f64], requires(x.len() >= 4 * quads, y.len() >= 4 * quads, shape.dimensions == 1))]
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
