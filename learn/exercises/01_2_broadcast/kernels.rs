//! out[r, c] = a[r] + b[c].

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In, Len, Out2};

/// `out[r, c] = a[r] + b[c]`: a has an element for each row, b one for each column.
#[kernel(safe)]
pub fn broadcast<'r, 'c>(rows: Len<'r>, columns: Len<'c>, a: In<'r, f32>, b: In<'c, f32>, out: Out2<'r, 'c, f32>) {
    if let Some(own) = rows.by(columns).element() {
        let (row, column) = (own.cell().row(), own.cell().column());
        // ANCHOR: part1
        // TODO: every row also needs a number of its own.
        let _ = (a, row);
        let sum = b.get(column);
        // ANCHOR_END: part1
        out.set(&own, sum);
    }
}
