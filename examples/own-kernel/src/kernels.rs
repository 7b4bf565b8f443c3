//! The kernels of this program. The build script compiles this file for GPUs, and nothing else of the crate. The emulator runs it
//! on the host.

use warpkov_device::device::{Global, GlobalMut, Real, block, kernel, thread};

/// `partial[b]` = Σ x\[i]·y\[i], over the elements i that the threads of block b take in turn.
///
/// *Safety*: `x` and `y` have `n` elements, and `partial` has one for each block.
#[kernel(T = [f32, f64])]
pub fn dot<T: Real>(n: u64, x: Global<T>, y: Global<T>, partial: GlobalMut<f64>) {
    let threads = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
    let mut sum = 0.0;
    let mut i = thread::index_1d();
    while i < n {
        sum += x.get(i as usize).to_f64() * y.get(i as usize).to_f64();
        i += threads;
    }
    // Threads add up by shuffles and shared memory. The sum is valid in the first of them.
    let sum = block::reduce(sum, 0.0, |x: f64, y: f64| x + y);
    if thread::thread_idx_x() == 0 {
        partial.set(thread::block_idx_x() as usize, sum);
    }
}
