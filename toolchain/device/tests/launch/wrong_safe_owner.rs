#![allow(dead_code)]

use warpkov_device::device::kernel;
use warpkov_device::device::safe::{ByBlock, ByWarp, Len, Out};

type Quad = [f32; 4];

#[kernel(safe)]
fn writes_what_the_warp_owns<'n>(n: Len<'n>, y: Out<'n, f32, ByWarp>) {
    for i in n.elements() {
        y.set(&i, 1.0);
    }
}

#[kernel(safe)]
fn writes_what_a_thread_owns<'n>(n: Len<'n>, y: Out<'n, f32>) {
    for i in n.block_elements() {
        y.set(&i, 1.0);
    }
}

#[kernel(safe)]
fn reads_what_one_thread_of_the_block_writes<'n>(n: Len<'n>, y: Out<'n, f32, ByBlock>) {
    for i in n.block_elements() {
        y.set(&i, y.get(&i) + 1.0);
    }
}

#[kernel(safe)]
fn hides_the_numbers_of_an_array<'n>(n: Len<'n>, y: Out<'n, Quad>) {
    for i in n.elements() {
        y.set(&i, [0.0; 4]);
    }
}

fn main() {}
