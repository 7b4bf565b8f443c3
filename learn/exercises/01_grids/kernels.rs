//! Images, matrices and tables, stored by rows: element (r, c) of a matrix with `columns` columns is element
//! r · columns + c of its buffer.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::*;

/// out = 1 − image: the thread with the indices (c, r) in x and y computes pixel (r, c).
#[kernel(safe)]
pub fn negative<'r, 'c>(rows: Len<'r>, columns: Len<'c>, image: In2<'r, 'c, f32>, out: Out2<'r, 'c, f32>) {
    // ANCHOR: part1
    // TODO: does each thread have a row and a column?
    let column = columns.at(thread::index_1d());
    let row = rows.at(thread::block_idx_y() * thread::block_dim_y() + thread::thread_idx_y());
    let value = 1.0 - image.get(rows.by(columns).cell(row, column));
    if let Some(pixel) = rows.by(columns).element() {
        out.set(&pixel, value);
    }
    // ANCHOR_END: part1
}

/// C = A + B: the thread with the indices (c, r) in x and y computes element (r, c).
#[kernel(safe)]
pub fn matrix_sum<'r, 'c>(
    rows: Len<'r>,
    columns: Len<'c>,
    a: In2<'r, 'c, f32>,
    b: In2<'r, 'c, f32>,
    c: Out2<'r, 'c, f32>,
) {
    if let Some(cell) = rows.by(columns).element() {
        c.set(&cell, a.get(&cell) + b.get(&cell));
    }
}

/// Subtracts each column's mean, and multiplies by its scale.
// ANCHOR: part3
// TODO: some lanes have no column, and the grid grows with the table.
#[kernel(safe)]
pub fn standardise<'r, 'c>(
    rows: Len<'r>,
    columns: Len<'c>,
    table: In2<'r, 'c, f32>,
    mean: In<'c, f32>,
    scale: In<'c, f32>,
    out: Out2<'r, 'c, f32>,
) {
    if let Some(own) = rows.by(columns).element() {
        let column = own.cell().column();
        out.set(&own, (table.get(&own) - mean.get(column)) * scale.get(column));
    }
}
// ANCHOR_END: part3
