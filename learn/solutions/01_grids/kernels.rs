//! Images, matrices and tables, stored by rows: element (r, c) of a matrix with `columns` columns is element
//! r · columns + c of its buffer.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::*;

/// out = 1 − image: the thread with the indices (c, r) in x and y computes pixel (r, c).
#[kernel(safe)]
pub fn negative<'r, 'c>(rows: Len<'r>, columns: Len<'c>, image: In2<'r, 'c, f32>, out: Out2<'r, 'c, f32>) {
    // ANCHOR: part1
    if let Some(pixel) = rows.by(columns).element() {
        out.set(&pixel, 1.0 - image.get(&pixel));
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
#[kernel(safe)]
pub fn standardise<'n, 'c>(
    n: Len<'n>,
    columns: Len<'c>,
    table: In<'n, f32>,
    mean: In<'c, f32>,
    scale: In<'c, f32>,
    out: Out<'n, f32>,
) {
    for own in n.elements() {
        let i = own.index().get() as u32;
        let column = columns.at(i % columns.get());
        let value = table.get(&own);
        out.set(&own, (value - mean.get(column)) * scale.get(column));
    }
}
// ANCHOR_END: part3
