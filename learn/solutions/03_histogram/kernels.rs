//! Counts by atomic operations.

// ANCHOR: uses
use warpkov_device::device::atomic::{self, AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, kernel, thread, warp};
use warpkov_device::shared_array;
// ANCHOR_END: uses

/// Adds the number of elements with each value to `bins`.
///
/// *Safety*: x has `n` elements below 256; bins has 256 elements.
#[kernel]
pub fn histogram(n: u32, x: Global<u32>, bins: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        let bin = x.get(i) as usize;
        // ANCHOR: part1
        atomic::add((bins, bin), 1);
        // ANCHOR_END: part1
    }
}

/// The same, in blocks of 256 threads.
///
/// *Safety*: x has `n` elements below 256; bins has 256 elements.
#[kernel]
pub fn histogram_by_blocks(n: u32, x: Global<u32>, bins: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    // ANCHOR: part2
    let t = thread::thread_idx_x();
    let private = shared_array!(private: u32; 256);
    private.set(t, 0);
    thread::sync_threads();
    if i < n as usize {
        u32::fetch_add((private, x.get(i)), 1, Ordering::Relaxed, Scope::Block);
    }
    thread::sync_threads();
    let count = private.get(t);
    if count > 0 {
        atomic::add((bins, t as usize), count);
    }
    // ANCHOR_END: part2
}

/// Adds the number of elements above `threshold` to `count[0]`, in blocks of 256 threads.
///
/// *Safety*: x has `n` elements; count has one.
#[kernel]
pub fn count_above(n: u32, threshold: u32, x: Global<u32>, count: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    let above = i < n as usize && x.get(i) > threshold;
    // ANCHOR: part3
    let lanes = warp::ballot(warp::FULL, above);
    if warp::lane_id() == 0 && lanes != 0 {
        atomic::add((count, 0), lanes.count_ones());
    }
    // ANCHOR_END: part3
}
