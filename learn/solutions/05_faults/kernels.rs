//! Five kernels. In the exercise, each has a fault.

use warpkov_device::device::atomic::{AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, kernel, thread, warp};
use warpkov_device::shared_array;

/// The sum of each block of 256 elements, by a tree: 128 threads add two numbers each, then 64, … then one.
///
/// *Safety*: x has `n` elements, out has one per block.
#[kernel]
pub fn block_sums(n: u32, x: Global<u32>, out: GlobalMut<u32>) {
    let (i, t) = (thread::index_1d() as usize, thread::thread_idx_x());
    let sums = shared_array!(sums: u32; 256);
    sums.set(t, if i < n as usize { x.get(i) } else { 0 });
    thread::sync_threads();
    // ANCHOR: part1
    let mut half = 128;
    while half > 0 {
        if t < half {
            sums.set(t, sums.get(t) + sums.get(t + half));
        }
        thread::sync_threads();
        half /= 2;
    }
    // ANCHOR_END: part1
    if t == 0 {
        out.set(thread::block_idx_x(), sums.get(0));
    }
}

/// yᵢ = xᵢ − xᵢ₋₁, and y₀ = x₀. Each element is read once from global memory, but for one per block.
///
/// *Safety*: x and y have `n` elements.
#[kernel]
pub fn differences(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let (i, t) = (thread::index_1d() as usize, thread::thread_idx_x());
    let tile = shared_array!(tile: f32; 256);
    // ANCHOR: part2
    if i < n as usize {
        tile.set(t, x.get(i));
    }
    thread::sync_threads();
    if i < n as usize {
        let left = match t {
            0 if i == 0 => 0.0,
            0 => x.get(i - 1),
            _ => tile.get(t - 1),
        };
        y.set(i, tile.get(t) - left);
    }
    // ANCHOR_END: part2
}

/// yᵢ = (xᵢ₋₁ + xᵢ + xᵢ₊₁) / 3. The first and the last element stand for their missing neighbours.
///
/// *Safety*: x and y have `n` elements.
#[kernel]
pub fn smooth(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        // ANCHOR: part3
        let left = x.get(i.saturating_sub(1));
        let right = x.get((i + 1).min(n as usize - 1));
        // ANCHOR_END: part3
        y.set(i, (left + x.get(i) + right) / 3.0);
    }
}

/// The largest element of each block of 256 elements.
///
/// *Safety*: x has `n` elements, out has one per block.
#[kernel]
pub fn block_max(n: u32, x: Global<f32>, out: GlobalMut<f32>) {
    let (i, t) = (thread::index_1d() as usize, thread::thread_idx_x());
    let largest = shared_array!(largest: f32; 256);
    // ANCHOR: part4
    largest.set(t, if i < n as usize { x.get(i) } else { f32::NEG_INFINITY });
    // ANCHOR_END: part4
    thread::sync_threads();
    let mut half = 128;
    while half > 0 {
        if t < half {
            largest.set(t, largest.get(t).max(largest.get(t + half)));
        }
        thread::sync_threads();
        half /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x(), largest.get(0));
    }
}

/// The sum of all elements in one launch, in blocks of one warp: the block that arrives last adds the sums of all blocks.
///
/// *Safety*: x has `n` elements, parts has one per block; arrived and out have one, and arrived is 0 before the launch.
#[kernel]
pub fn total(n: u32, x: Global<u32>, parts: GlobalMut<u32>, arrived: GlobalMut<u32>, out: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    let sum = warp::sum_u32(warp::FULL, if i < n as usize { x.get(i) } else { 0 });
    if thread::thread_idx_x() == 0 {
        parts.set(thread::block_idx_x(), sum);
        // ANCHOR: part5
        let order = Ordering::AcqRel;
        // ANCHOR_END: part5
        if u32::fetch_add((arrived, 0), 1, order, Scope::Device) == thread::grid_dim_x() - 1 {
            let mut all = 0;
            for block in 0..thread::grid_dim_x() {
                all += parts.get(block);
            }
            out.set(0, all);
        }
    }
}
