//! Vectors in `f64`: inner products and linear combinations for iterative linear solvers.
//!
//! *Deterministic*: yes. An inner product is a sum in a fixed order over a grid of fixed size, in two launches:
//! [`dots`] writes two partial sums per block, and [`dots_total`] adds them.
//!
//! *Bytes*: [`dots`] reads 24n, or 16n if two of its vectors are the same buffer; [`combine`] reads 24n and writes 8n.

use warpkov_device::device::{Global, GlobalMut, block, kernel, math, thread};

/// Threads per block of all three kernels.
pub const THREADS: u32 = 256;

/// Maximum number of blocks of [`dots`].
pub const MAX_BLOCKS: u32 = 1024;

/// Linear combination of three vectors. If a is 0, the kernel does not read y.
///
/// - *Mathematics*: yᵢ ← a·yᵢ + b·xᵢ + c·zᵢ.
/// - *Thread mapping*: a grid-stride loop over elements.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `y`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `n` | scalar | elements |
/// | `a`, `b`, `c` | scalar | finite |
/// | `x`, `y`, `z` | n | `y` overlaps neither `x` nor `z` |
#[kernel(requires(x.len() >= n, y.len() >= n, z.len() >= n, shape.dimensions == 1), block = THREADS)]
pub fn combine(n: u64, a: f64, y: GlobalMut<f64>, b: f64, x: Global<f64>, c: f64, z: Global<f64>) {
    let stride = thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    let mut i = thread::index_1d() as usize;
    while i < n as usize {
        let rest = math::fma(b, x.get(i), c * z.get(i));
        y.set(i, if a == 0.0 { rest } else { math::fma(a, y.get(i), rest) });
        i += stride;
    }
}

/// Partial sums of two inner products, two numbers per block.
///
/// - *Mathematics*: per block b, Σ xᵢyᵢ and Σ xᵢzᵢ over the elements i of the block's threads.
/// - *Thread mapping*: a grid-stride loop over elements, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: four. *Deterministic*: yes, for a fixed grid.
/// - *Valid result in*: `parts`: elements 2b and 2b + 1 belong to block b.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `n` | scalar | elements |
/// | `x`, `y`, `z` | n | |
/// | `parts` | 2 × blocks | |
#[kernel(
    requires(
        x.len() >= n,
        y.len() >= n,
        z.len() >= n,
        parts.len() >= 2 * shape.grid,
        shape.grid <= MAX_BLOCKS,
        shape.dimensions == 1,
    ),
    block = THREADS
)]
pub fn dots(n: u64, x: Global<f64>, y: Global<f64>, z: Global<f64>, parts: GlobalMut<f64>) {
    let stride = thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    let mut i = thread::index_1d() as usize;
    let (mut first, mut second) = (0.0, 0.0);
    while i < n as usize {
        let own = x.get(i);
        first = math::fma(own, y.get(i), first);
        second = math::fma(own, z.get(i), second);
        i += stride;
    }
    write_sums(first, second, thread::block_idx_x() as usize, parts);
}

/// Adds the partial sums of [`dots`].
///
/// - *Mathematics*: x·y and x·z as sums over the blocks.
/// - *Thread mapping*: thread t adds the partial sums t, t + B, … of B threads, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: four. *Deterministic*: yes. *Valid result in*: `sums`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `blocks` | scalar | blocks of [`dots`] |
/// | `parts` | 2 × `blocks` | from [`dots`] |
/// | `sums` | 2 | x·y, x·z |
#[kernel(requires(parts.len() >= 2 * blocks, sums.len() >= 2, shape.grid == 1, shape.dimensions == 1), block = THREADS)]
pub fn dots_total(blocks: u32, parts: Global<f64>, sums: GlobalMut<f64>) {
    let mut i = thread::thread_idx_x();
    let (mut first, mut second) = (0.0, 0.0);
    while i < blocks {
        first += parts.get(2 * i as usize);
        second += parts.get(2 * i as usize + 1);
        i += thread::block_dim_x();
    }
    write_sums(first, second, 0, sums);
}

/// Writes the block's sums to elements 2·`pair` and 2·`pair` + 1 of `target`.
///
/// *Takes part*: every thread of the block, in whole warps. *Barriers*: four.
#[inline(always)]
fn write_sums(first: f64, second: f64, pair: usize, target: GlobalMut<f64>) {
    let first = block::reduce(first, 0.0, |a, b| a + b);
    let second = block::reduce(second, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        target.set(2 * pair, first);
        target.set(2 * pair + 1, second);
    }
}
