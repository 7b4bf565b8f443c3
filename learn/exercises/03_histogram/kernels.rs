//! Counts by atomic operations.

// ANCHOR: uses
// TODO: parts 2 and 3 need more of the library: `shared_array!`, and `warp` or `block`.
use warpkov_device::device::{Global, GlobalMut, atomic, kernel, thread};
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
        // TODO: another thread may count in the same bin at the same time.
        bins.set(bin, bins.get(bin) + 1);
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
    // TODO: half of the elements are 0, and all of them wait for one address.
    if i < n as usize {
        atomic::add((bins, x.get(i) as usize), 1);
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
    // TODO: a warp can count its own lanes first.
    if above {
        atomic::add((count, 0), 1);
    }
    // ANCHOR_END: part3
}
