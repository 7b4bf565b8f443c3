//! Blocks that exchange numbers through shared memory.

use warpkov_device::device::{Global, GlobalMut, kernel, thread};
use warpkov_device::shared_array;

/// Reverses each block of 256 elements, in blocks of 256 threads.
///
/// *Safety*: x and y have `n` elements.
#[kernel]
pub fn reverse(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let tile = shared_array!(reverse_tile: f32; 256);
    let (first, t) = (256 * thread::block_idx_x(), thread::thread_idx_x());
    // The last block may be shorter.
    let length = (n - first).min(256);
    // ANCHOR: part1
    // TODO: when may a thread read what another one has written?
    if t < length {
        tile.set(t, x.get((first + t) as usize));
        y.set((first + t) as usize, tile.get(length - 1 - t));
    }
    // ANCHOR_END: part1
}

/// B = Aᵀ, in tiles of 32 × 32 elements by blocks of 32 × 8 threads: each thread moves four elements.
///
/// *Safety*: a and b have `rows` · `columns` elements.
#[kernel]
pub fn transpose(rows: u32, columns: u32, a: Global<f32>, b: GlobalMut<f32>) {
    let (left, top) = (32 * thread::block_idx_x(), 32 * thread::block_idx_y());
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    // ANCHOR: part2
    // TODO: the lanes of a warp read neighbouring elements, but do not write such.
    for k in 0..4 {
        let (row, column) = (top + y + 8 * k, left + x);
        if row < rows && column < columns {
            b.set((column * rows + row) as usize, a.get((row * columns + column) as usize));
        }
    }
    // ANCHOR_END: part2
}

/// The sum of each row of A: a block of 32 × 8 threads adds 32 rows, in tiles of 32 × 32 elements.
///
/// *Safety*: a has `rows` · `columns` elements, sums has `rows`.
#[kernel]
pub fn row_sums(rows: u32, columns: u32, a: Global<f32>, sums: GlobalMut<f32>) {
    // ANCHOR: part3
    // TODO: in which banks do the elements of a column of the tile lie?
    let (tile, stride) = (shared_array!(sums_tile: f32; 1024), 32);
    // ANCHOR_END: part3
    let top = 32 * thread::block_idx_x();
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let mut sum = 0.0;
    let mut left = 0;
    while left < columns {
        // A warp loads a row of the tile.
        for k in 0..4 {
            let (row, column) = (top + y + 8 * k, left + x);
            let inside = row < rows && column < columns;
            let value = if inside { a.get((row * columns + column) as usize) } else { 0.0 };
            tile.set(stride * (y + 8 * k) + x, value);
        }
        thread::sync_threads();
        // Thread (x, y) adds four elements of row x.
        for k in 0..4 {
            sum += tile.get(stride * x + 4 * y + k);
        }
        // The next tile overwrites this one.
        thread::sync_threads();
        left += 32;
    }
    // Eight threads hold parts of the sum of row x.
    tile.set(stride * y + x, sum);
    thread::sync_threads();
    if y == 0 && top + x < rows {
        let mut sum = 0.0;
        for k in 0..8 {
            sum += tile.get(stride * k + x);
        }
        sums.set((top + x) as usize, sum);
    }
}
