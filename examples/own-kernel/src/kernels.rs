//! The kernels of this program. The build script compiles this module, and nothing else of the crate, for GPUs. The
//! emulator runs the same code on the host.

use warpkov_device::device::safe::{In, Len, PerBlock};
use warpkov_device::device::{Real, block, kernel};

/// `partial[b]` = Σ x\[i]·y\[i] over the elements i of block b, in a grid-stride loop.
#[kernel(safe, T = [f32, f64])]
pub fn dot<'n, T: Real>(n: Len<'n>, x: In<'n, T>, y: In<'n, T>, partial: PerBlock<f64>) {
    let mut sum = 0.0;
    for i in n.elements() {
        sum += x.get(&i).to_f64() * y.get(&i).to_f64();
    }
    // The reduction uses shuffles and shared memory. Its result is valid in the first warp.
    partial.set(block::reduce(sum, 0.0, |x, y| x + y));
}
