//! Exclusive prefix sum of integers.
//!
//! *Mathematics*: yᵢ = x₀ + … + xᵢ₋₁ for i = 0 … n, so that yₙ is the total: from row lengths x to row pointers y.
//!
//! *In three launches*: [`scan_tiles`] scans each tile of [`TILE`] elements for itself and notes its total;
//! [`scan_totals`] scans those totals with one block; [`scan_add`] adds to each tile what comes before it.
//!
//! *Bytes*: x is read once, y written twice and read once.

use warpkov_device::device::{Global, GlobalMut, Offset, block, kernel, thread};

/// Threads of a block, in all three kernels.
pub const THREADS: u32 = 256;

/// Neighbouring elements that one thread adds up.
const PER_THREAD: usize = 4;

/// Elements of a tile.
pub const TILE: usize = THREADS as usize * PER_THREAD;

/// Scans each tile, and writes its total.
///
/// *Thread mapping*: one block per tile, four neighbouring elements per thread. *Shared memory*: 32 words.
/// *Safety*: `input` and `output` have `n` elements at least, `totals` one per tile.
#[kernel(O = [u32, u64])]
pub fn scan_tiles<O: Offset>(n: u64, input: Global<O>, output: GlobalMut<O>, totals: GlobalMut<O>) {
    let first = thread::index_1d() as usize * PER_THREAD;
    let n = n as usize;
    let mut items = [O::ZERO; PER_THREAD];
    let mut sum = O::ZERO;
    for (i, item) in items.iter_mut().enumerate() {
        if first + i < n {
            *item = input.get(first + i);
            sum += *item;
        }
    }
    let (mut before, total) = block::exclusive_scan(sum, O::ZERO, |a, b| a + b);
    for (i, item) in items.iter().enumerate() {
        if first + i < n {
            output.set(first + i, before);
            before += *item;
        }
    }
    if thread::thread_idx_x() == 0 {
        totals.set(thread::block_idx_x() as usize, total);
    }
}

/// Scans the totals of `tiles` tiles in place, and writes their sum behind them.
///
/// *Thread mapping*: one block, which walks along the totals and carries the sum with it. *Shared memory*: 32 words.
/// *Safety*: `totals` has `tiles + 1` elements.
#[kernel(O = [u32, u64])]
pub fn scan_totals<O: Offset>(tiles: u64, totals: GlobalMut<O>) {
    let tiles = tiles as usize;
    let mut carry = O::ZERO;
    let mut start = 0;
    while start < tiles {
        let i = start + thread::thread_idx_x() as usize;
        let total = if i < tiles { totals.get(i) } else { O::ZERO };
        let (before, sum) = block::exclusive_scan(total, O::ZERO, |a, b| a + b);
        if i < tiles {
            totals.set(i, carry + before);
        }
        carry += sum;
        start += thread::block_dim_x() as usize;
    }
    if thread::thread_idx_x() == 0 {
        totals.set(tiles, carry);
    }
}

/// Adds to every element what comes before its tile, and writes the total behind the last.
///
/// *Thread mapping*: as in [`scan_tiles`]. *Safety*: `output` has `n + 1` elements, `totals` one per tile and one more.
#[kernel(O = [u32, u64])]
pub fn scan_add<O: Offset>(n: u64, totals: Global<O>, output: GlobalMut<O>) {
    let first = thread::index_1d() as usize * PER_THREAD;
    let n = n as usize;
    let before = totals.get(thread::block_idx_x() as usize);
    for i in first..first + PER_THREAD {
        if i < n {
            output.set(i, output.get(i) + before);
        }
    }
    let last_tile = thread::block_idx_x() == thread::grid_dim_x() - 1;
    if last_tile && thread::thread_idx_x() == 0 {
        output.set(n, totals.get(thread::grid_dim_x() as usize));
    }
}
