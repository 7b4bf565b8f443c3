#![allow(dead_code)]

use warpkov_device::device::kernel;
use warpkov_device::device::safe::{Len, Out, Slice, SparseRows};

#[kernel(safe)]
fn reads_a_row_by_the_index_of_another_length<'n, 'm>(n: Len<'n>, m: Len<'m>, x: Slice<f32>, y: Out<'m, f32>) {
    let row = x.row(0, n);
    for i in m.elements() {
        y.set(&i, row.get(&i));
    }
}

#[kernel(safe)]
fn takes_a_column_for_a_row<'r, 'c>(rows: Len<'r>, columns: Len<'c>, a: SparseRows<'r, 'c, f32, u32>, y: Out<'r, f32>) {
    let _ = columns;
    for i in rows.elements() {
        for (j, _) in a.row(&i) {
            for (_, value) in a.row(j) {
                y.set(&i, value);
            }
        }
    }
}

fn main() {}
