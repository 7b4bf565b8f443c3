//! Images, matrices and tables, stored by rows: element (r, c) of a matrix with `columns` columns is element
//! r · columns + c of its buffer.

use warpkov_device::device::{Global, GlobalMut, kernel, thread};

/// out = 1 − image: the thread with the indices (c, r) in x and y computes pixel (r, c).
///
/// *Safety*: image and out have `rows` · `columns` elements.
#[kernel]
pub fn negative(rows: u32, columns: u32, image: Global<f32>, out: GlobalMut<f32>) {
    let column = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    let row = thread::block_idx_y() * thread::block_dim_y() + thread::thread_idx_y();
    // ANCHOR: part1
    // TODO: is this the right guard?
    if row * columns + column < rows * columns {
        let i = (row * columns + column) as usize;
        out.set(i, 1.0 - image.get(i));
    }
    // ANCHOR_END: part1
}

/// C = A + B.
///
/// *Safety*: a, b and c have `rows` · `columns` elements.
#[kernel]
pub fn matrix_sum(rows: u32, columns: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
    // ANCHOR: part2
    // TODO: which elements do the 32 lanes of a warp read?
    let row = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    let column = thread::block_idx_y() * thread::block_dim_y() + thread::thread_idx_y();
    // ANCHOR_END: part2
    if row < rows && column < columns {
        let i = (row * columns + column) as usize;
        c.set(i, a.get(i) + b.get(i));
    }
}

/// Subtracts each column's mean, and multiplies by its scale.
///
/// *Safety*: table and out have `rows` · `columns` elements; mean and scale have `columns`.
#[kernel]
pub fn standardise(
    rows: u32,
    columns: u32,
    table: Global<f32>,
    mean: Global<f32>,
    scale: Global<f32>,
    out: GlobalMut<f32>,
) {
    // ANCHOR: part3
    // TODO: some lanes have no column, and the grid grows with the table.
    let column = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    let row = thread::block_idx_y() * thread::block_dim_y() + thread::thread_idx_y();
    if row < rows && column < columns {
        let i = (row * columns + column) as usize;
        let column = column as usize;
        out.set(i, (table.get(i) - mean.get(column)) * scale.get(column));
    }
    // ANCHOR_END: part3
}
