//! Blocks that exchange numbers through shared memory.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, In2, Len, Out, Out2};
use warpkov_device::tile;

/// Reverses each block of 256 elements, in blocks of 256 threads.
#[kernel(safe, requires(shape.block == 256))]
pub fn reverse<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    let mut tile = tile!(reverse: f32; 256);
    let (first, t) = (256 * thread::block_idx_x(), thread::thread_idx_x());
    // The last block may be shorter.
    let length = (n.get() - first).min(256);
    // ANCHOR: part1
    let tile = tile.fill(|i| n.index(first + i).map_or(0.0, |i| x.get(i)));
    if let Some(own) = n.element() {
        y.set(&own, tile.get(length - 1 - t));
    }
    // ANCHOR_END: part1
}

/// Element (`row`, `column`) of A, 0 outside of A.
#[inline(always)]
fn element<'r, 'c>(rows: Len<'r>, columns: Len<'c>, a: In2<'r, 'c, f32>, row: u32, column: u32) -> f32 {
    match (rows.index(row), columns.index(column)) {
        (Some(row), Some(column)) => a.get(rows.by(columns).cell(row, column)),
        _ => 0.0,
    }
}

/// B = Aᵀ, in tiles of 32 × 32 elements by blocks of 32 × 32 threads: thread (x, y) writes element (y, x) of a tile of B.
#[kernel(safe, requires(shape.block.x == 32, shape.block.y == 32))]
pub fn transpose<'r, 'c>(rows: Len<'r>, columns: Len<'c>, a: In2<'r, 'c, f32>, b: Out2<'c, 'r, f32>) {
    // ANCHOR: part2
    let mut tile = tile!(transpose: f32; 1056);
    let (top, left) = (32 * thread::block_idx_x(), 32 * thread::block_idx_y());
    // 32 rows of 33 words: see part 3.
    let tile = tile.fill_rows(32, 33, |r, c| element(rows, columns, a, top + r, left + c));
    if let Some(own) = columns.by(rows).element() {
        b.set(&own, tile.get(thread::thread_idx_x(), thread::thread_idx_y()));
    }
    // ANCHOR_END: part2
}

/// The sum of each row of A: a block of 128 threads adds 128 rows, in tiles of 128 × 32 elements.
#[kernel(safe, requires(shape.block == 128))]
pub fn row_sums<'r, 'c>(rows: Len<'r>, columns: Len<'c>, a: In2<'r, 'c, f32>, sums: Out<'r, f32>) {
    // ANCHOR: part3
    let (mut tile, pitch) = (tile!(sums: f32; 4224), 33);
    // ANCHOR_END: part3
    let (top, t) = (128 * thread::block_idx_x(), thread::thread_idx_x());
    let mut sum = 0.0;
    let mut left = 0;
    while left < columns.get() {
        // A warp loads a row of the tile.
        let tile = tile.fill_rows(32, pitch, |r, c| element(rows, columns, a, top + r, left + c));
        // Thread t adds the elements of row t.
        for k in 0..32 {
            sum += tile.get(t, k);
        }
        left += 32;
    }
    if let Some(row) = rows.element() {
        sums.set(&row, sum);
    }
}
