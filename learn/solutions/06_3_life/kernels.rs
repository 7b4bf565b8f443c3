//! The game of life.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{In2, Len, Out2};

/// The eight neighbours of a cell: rows down, columns to the right.
const NEIGHBOURS: [(i32, i32); 8] = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)];

/// The cells of the next generation. A cell is 1 if it is alive, else 0, and all cells outside are dead.
#[kernel(safe)]
pub fn life<'r, 'c>(rows: Len<'r>, columns: Len<'c>, now: In2<'r, 'c, u32>, next: Out2<'r, 'c, u32>) {
    if let Some(own) = rows.by(columns).element() {
        let (row, column) = (own.cell().row().get() as u32, own.cell().column().get() as u32);
        let alive = |down, right| match (
            rows.index(row.wrapping_add_signed(down)),
            columns.index(column.wrapping_add_signed(right)),
        ) {
            (Some(row), Some(column)) => now.get(rows.by(columns).cell(row, column)),
            _ => 0,
        };
        // ANCHOR: part1
        let mut around = 0;
        for (down, right) in NEIGHBOURS {
            around += alive(down, right);
        }
        let lives = around == 3 || (around == 2 && alive(0, 0) == 1);
        // ANCHOR_END: part1
        next.set(&own, u32::from(lives));
    }
}
