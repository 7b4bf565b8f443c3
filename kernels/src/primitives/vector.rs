//! Vectors in `f64`: inner products and linear combinations for iterative linear solvers.
//!
//! *Deterministic*: yes. An inner product is a sum in a fixed order over a grid of fixed size, in two launches:
//! [`dots`] writes two partial sums per block, and [`dots_total`] adds them.
//!
//! *Bytes*: [`dots`] reads 24n, or 16n if two of its vectors are the same buffer; [`combine`] reads 24n and writes 8n.

use warpkov_device::device::safe::{In, Len, Out, PerBlock};
use warpkov_device::device::{block, kernel, math};

/// Threads per block of all three kernels.
pub const THREADS: u32 = 256;

/// Maximum number of blocks of [`dots`].
pub const MAX_BLOCKS: u32 = 1024;

/// Linear combination of three vectors. If a is 0, the kernel does not read y.
///
/// - *Mathematics*: yᵢ ← a·yᵢ + b·xᵢ + c·zᵢ.
/// - *Thread mapping*: a grid-stride loop over elements.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `y`.
#[kernel(safe, block = THREADS)]
pub fn combine<'n>(n: Len<'n, u64>, a: f64, y: Out<'n, f64>, b: f64, x: In<'n, f64>, c: f64, z: In<'n, f64>) {
    for i in n.elements() {
        let rest = math::fma(b, x.get(&i), c * z.get(&i));
        y.set(&i, if a == 0.0 { rest } else { math::fma(a, y.get(&i), rest) });
    }
}

/// Partial sums of two inner products, two numbers per block.
///
/// - *Mathematics*: per block b, Σ xᵢyᵢ and Σ xᵢzᵢ over the elements i of the block's threads.
/// - *Thread mapping*: a grid-stride loop over elements, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: four. *Deterministic*: yes, for a fixed grid.
/// - *Valid result in*: `parts`.
#[kernel(safe, requires(shape.grid <= MAX_BLOCKS), block = THREADS)]
pub fn dots<'n>(n: Len<'n, u64>, x: In<'n, f64>, y: In<'n, f64>, z: In<'n, f64>, parts: PerBlock<[f64; 2]>) {
    let mut sums = [0.0; 2];
    for i in n.elements() {
        let own = x.get(&i);
        sums = [math::fma(own, y.get(&i), sums[0]), math::fma(own, z.get(&i), sums[1])];
    }
    parts.set(sums.map(|sum| block::reduce(sum, 0.0, |a, b| a + b)));
}

/// Adds the partial sums of [`dots`].
///
/// - *Mathematics*: x·y and x·z as sums over the blocks.
/// - *Thread mapping*: thread t adds the partial sums t, t + B, … of B threads, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: four. *Deterministic*: yes. *Valid result in*: `sums`.
#[kernel(safe, requires(shape.grid == 1), block = THREADS)]
pub fn dots_total<'b>(blocks: Len<'b>, parts: In<'b, [f64; 2]>, sums: PerBlock<[f64; 2]>) {
    let mut total = [0.0; 2];
    for block in blocks.elements() {
        let part = parts.get(&block);
        total = [total[0] + part[0], total[1] + part[1]];
    }
    sums.set(total.map(|sum| block::reduce(sum, 0.0, |a, b| a + b)));
}
