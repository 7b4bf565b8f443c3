//! The kernels of this program. The build script compiles this module, and nothing else of the crate, for GPUs. The
//! emulator runs the same code on the host.

use warpkov_device::device::{Global, GlobalMut, Real, block, kernel, thread};

/// `partial[b]` = Σ x\[i]·y\[i] over the elements i of block b, in a grid-stride loop.
///
/// The contract says what `n` elements, and one partial sum per block, mean for a launch. The launcher checks it.
#[kernel(
    T = [f32, f64],
    requires(
        x.len() >= n,
        y.len() >= n,
        partial.len() >= shape.grid,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn dot<T: Real>(n: u64, x: Global<T>, y: Global<T>, partial: GlobalMut<f64>) {
    let threads = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
    let mut sum = 0.0;
    let mut i = thread::index_1d();
    while i < n {
        sum += x.get(i as usize).to_f64() * y.get(i as usize).to_f64();
        i += threads;
    }
    // The reduction uses shuffles and shared memory. Its result is valid in the first warp.
    let sum = block::reduce(sum, 0.0, |x: f64, y: f64| x + y);
    if thread::thread_idx_x() == 0 {
        partial.set(thread::block_idx_x() as usize, sum);
    }
}
