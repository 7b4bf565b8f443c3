//! Exclusive prefix sum of integers: turns row lengths into row pointers.
//!
//! *Mathematics*: yᵢ = x₀ + … + xᵢ₋₁ for i = 0 … n; yₙ is the total.
//!
//! *Three launches*: [`scan_tiles`] scans each tile of [`TILE`] elements and writes its total; [`scan_totals`] scans
//! the totals with one block; [`scan_add`] adds to each tile the sum of all tiles before it.
//!
//! *Bytes*: x is read once; y is written twice and read once.

use warpkov_device::device::{Global, GlobalMut, Offset, block, kernel, thread};

/// Threads per block of all three kernels.
pub const THREADS: u32 = 256;

/// Consecutive elements per thread.
const PER_THREAD: usize = 4;

/// Elements per tile.
pub const TILE: usize = THREADS as usize * PER_THREAD;

/// Scans each tile and writes the tile's total.
///
/// - *Thread mapping*: one block per tile; thread t scans elements 4t … 4t + 3 of its tile.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes.
/// - *Valid result in*: `output`, relative to the tile, and `totals`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `n` | scalar | elements |
/// | `input` | n | the sum of all elements fits `O` |
/// | `output` | n or more | |
/// | `totals` | ⌈n / [`TILE`]⌉ or more | |
#[kernel(
    O = [u32, u64],
    requires(
        input.len() >= n,
        output.len() >= n,
        totals.len() >= shape.grid,
        shape.grid >= n.div_ceil(TILE),
        shape.dimensions == 1,
    ),
    block = THREADS
)]
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

/// Scans the tiles' totals in place and appends their sum.
///
/// - *Thread mapping*: one block, which walks along `totals` and carries the running sum.
/// - *Shared memory*: 32 words, static. *Barriers*: two per [`THREADS`] tiles. *Deterministic*: yes.
/// - *Valid result in*: `totals`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `tiles` | scalar | tiles |
/// | `totals` | `tiles` + 1 | the tiles' totals; the last element is output only |
#[kernel(O = [u32, u64], requires(totals.len() >= tiles + 1, shape.grid == 1, shape.dimensions == 1), block = THREADS)]
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

/// Adds to every element the sum of all tiles before its own, and appends the total.
///
/// - *Thread mapping*: as [`scan_tiles`].
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `output`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `n` | scalar | elements |
/// | `totals` | tiles + 1 | from [`scan_totals`] |
/// | `output` | n + 1 | from [`scan_tiles`] |
#[kernel(
    O = [u32, u64],
    requires(
        output.len() >= n + 1,
        totals.len() >= shape.grid + 1,
        shape.grid >= n.div_ceil(TILE),
        shape.dimensions == 1,
    ),
    block = THREADS
)]
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
