#![allow(unused_imports)]

use warpkov_device::device::{Global, kernel};

#[kernel(requires(x.len()))]
fn no_comparison(x: Global<f32>) {
    let _ = x.get(0);
}

#[kernel(requires(shape.warps >= 1))]
fn no_such_extent(x: Global<f32>) {
    let _ = x.get(0);
}

#[kernel(requires(x.len() >= [1][0]))]
fn no_number(x: Global<f32>) {
    let _ = x.get(0);
}

fn main() {}
