//! Indices in large matrices.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, Out};

/// `index[i]` is the index of the element in row `row[i]` and column `column[i]`, of a matrix of `columns` columns stored by rows.
#[kernel(safe)]
pub fn index_types<'n>(n: Len<'n>, columns: u32, row: In<'n, u32>, column: In<'n, u32>, index: Out<'n, u64>) {
    if let Some(i) = n.element() {
        let (row, column) = (row.get(&i), column.get(&i));
        // ANCHOR: part1
        // TODO: this product is one of 32 bits.
        let place = u64::from(row.wrapping_mul(columns).wrapping_add(column));
        // ANCHOR_END: part1
        index.set(&i, place);
    }
}
