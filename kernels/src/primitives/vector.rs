//! Vectors in `f64`: inner products and linear combinations, as iterative methods for linear systems need them.
//!
//! *Deterministic*: yes; equal launches give equal bits. An inner product is summed by a grid of a fixed size in a fixed
//! order, in two launches: [`dots`] leaves two numbers per block, and [`dots_total`] adds those of all blocks.
//!
//! *Bytes*: [`dots`] reads 24n, and 16n where two of its vectors are one; [`combine`] reads 24n and writes 8n.

use warpkov_device::device::{Global, GlobalMut, block, kernel, math, thread};

/// Threads of a block, in all three kernels.
pub const THREADS: u32 = 256;

/// Blocks of [`dots`] at most.
pub const MAX_BLOCKS: u32 = 1024;

/// yᵢ ← a·yᵢ + b·xᵢ + c·zᵢ. Where a is 0 the old y is not read.
///
/// *Thread mapping*: a grid-stride loop. *Safety*: all three vectors have `n` elements.
#[kernel]
pub fn combine(n: u64, a: f64, y: GlobalMut<f64>, b: f64, x: Global<f64>, c: f64, z: Global<f64>) {
    let stride = thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    let mut i = thread::index_1d() as usize;
    while i < n as usize {
        let rest = math::fma(b, x.get(i), c * z.get(i));
        y.set(i, if a == 0.0 { rest } else { math::fma(a, y.get(i), rest) });
        i += stride;
    }
}

/// The parts of x·y and of x·z that each block has: two numbers per block.
///
/// *Thread mapping*: a grid-stride loop, then a reduction. *Shared memory*: 32 words. *Barriers*: four. *Safety*: the three
/// vectors have `n` elements, `parts` has two per block; blocks are whole warps.
#[kernel]
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

/// x·y and x·z from the parts of `blocks` blocks.
///
/// *Thread mapping*: one block. *Shared memory*: 32 words. *Barriers*: four. *Safety*: `parts` has two elements per block,
/// `sums` has two; the block is whole warps.
#[kernel]
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

/// Writes the sums over the block to the pair of elements number `pair`.
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
