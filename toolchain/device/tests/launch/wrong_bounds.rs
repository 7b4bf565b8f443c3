#![allow(unused_imports)]

use warpkov_device::device::{Global, kernel};

#[kernel(bounds(threads = 0))]
fn no_thread(_x: Global<f32>) {}

#[kernel(bounds(threads = 1025))]
fn too_many_threads(_x: Global<f32>) {}

#[kernel(bounds(threads = 256, blocks = 0))]
fn no_block(_x: Global<f32>) {}

#[kernel(bounds(threads = 1024, blocks = 3))]
fn too_many_blocks(_x: Global<f32>) {}

#[kernel(bounds(blocks = 2))]
fn of_any_blocks(_x: Global<f32>) {}

#[kernel(bounds(256, 2))]
fn without_names(_x: Global<f32>) {}

#[kernel(bounds(threads = 128), bounds(threads = 256))]
fn twice(_x: Global<f32>) {}

#[kernel(block = 512, bounds(threads = 256))]
fn never_launched(_x: Global<f32>) {}

fn main() {}
