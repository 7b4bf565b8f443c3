//! Exclusive prefix sum of integers: turns row lengths into row pointers.
//!
//! *Mathematics*: yᵢ = x₀ + … + xᵢ₋₁ for i = 0 … n; yₙ is the total.
//!
//! *Three launches*: [`scan_tiles`] scans each tile of [`TILE`] elements of y and writes its total; [`scan_totals`] scans
//! the totals with one block; [`scan_add`] adds to each tile the sum of all tiles before it.
//!
//! *Bytes*: x is read once; y is written twice and read once.

use warpkov_device::device::safe::{ByRun, In, Len, Out, PerBlock, Slice};
use warpkov_device::device::{Offset, block, kernel, thread};

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
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `n`, `sums` | scalar | n, n + 1 |
/// | `input` | n | the sum of all elements fits `O` |
/// | `output` | n + 1 | |
/// | `totals` | ⌈(n + 1) / [`TILE`]⌉ or more | |
#[kernel(safe, O = [u32, u64], requires(shape.grid >= sums.div_ceil(TILE)), block = THREADS)]
pub fn scan_tiles<'n, 's, O: Offset>(
    n: Len<'n, u64>,
    sums: Len<'s, u64>,
    input: In<'n, O>,
    output: Out<'s, O, ByRun<PER_THREAD>>,
    totals: PerBlock<O>,
) {
    let run = sums.run::<PER_THREAD>();
    let mut items = [O::ZERO; PER_THREAD];
    let mut sum = O::ZERO;
    for (own, item) in run.iter().zip(&mut items) {
        // The last sum is of all elements.
        if let Some(i) = own.as_ref().and_then(|i| n.index(i.index().get() as u64)) {
            *item = input.get(i);
            sum += *item;
        }
    }
    let (mut before, total) = block::exclusive_scan(sum, O::ZERO, |a, b| a + b);
    for (own, item) in run.iter().zip(&items) {
        if let Some(i) = own {
            output.set(i, before);
            before += *item;
        }
    }
    totals.set(total);
}

/// Scans the tiles' totals in place.
///
/// - *Thread mapping*: one block, which walks along `totals` and carries the running sum.
/// - *Shared memory*: 32 words, static. *Barriers*: two per [`THREADS`] tiles. *Deterministic*: yes.
/// - *Valid result in*: `totals`.
#[kernel(safe, O = [u32, u64], requires(shape.grid == 1), block = THREADS)]
pub fn scan_totals<'t, O: Offset>(tiles: Len<'t, u64>, totals: Out<'t, O>) {
    let mut carry = O::ZERO;
    for own in tiles.rounds() {
        let total = own.as_ref().map_or(O::ZERO, |i| totals.get(i));
        let (before, sum) = block::exclusive_scan(total, O::ZERO, |a, b| a + b);
        if let Some(i) = own {
            totals.set(&i, carry + before);
        }
        carry += sum;
    }
}

/// Adds to every element the sum of all tiles before its own.
///
/// - *Thread mapping*: as [`scan_tiles`].
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `output`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sums` | scalar | n + 1 |
/// | `totals` | tiles | from [`scan_totals`] |
/// | `output` | n + 1 | from [`scan_tiles`] |
#[kernel(safe, O = [u32, u64], requires(shape.grid >= sums.div_ceil(TILE)), block = THREADS)]
pub fn scan_add<'s, O: Offset>(sums: Len<'s, u64>, totals: Slice<O>, output: Out<'s, O, ByRun<PER_THREAD>>) {
    let before = totals.get(thread::block_idx_x());
    for own in &sums.run::<PER_THREAD>() {
        if let Some(i) = own {
            output.set(i, output.get(i) + before);
        }
    }
}
