#![allow(unused_imports)]

use warpkov_device::device::{Global, Parameter, kernel};

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

#[kernel(requires(if n > 0 { x.len() >= n } else { n == 0 }))]
fn no_else(n: u32, x: Global<f32>) {
    let _ = (n, x.get(0));
}

#[kernel(requires(if n + 1 { x.len() >= n }))]
fn no_condition(n: u32, x: Global<f32>) {
    let _ = (n, x.get(0));
}

#[derive(Clone, Copy, Parameter)]
#[parameter(needs(x.len() >= 1))]
struct NoSuchWord {
    x: Global<f32>,
}

#[derive(Clone, Copy, Parameter)]
#[parameter(holds(n), requires(least <= n))]
struct NoBuffer {
    least: u32,
}

fn main() {}
