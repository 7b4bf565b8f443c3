#![allow(dead_code)]

use warpkov_device::device::safe::{PerBlock, Slice};
use warpkov_device::device::{Parameter, kernel};

/// The contract of a kernel has no part for a field.
#[derive(Clone, Copy, Parameter)]
struct Results {
    x: Slice<f32>,
    sums: PerBlock<f32>,
}

#[kernel(safe)]
fn takes_them(results: Results) {
    results.sums.set(results.x.get(0));
}

fn main() {}
