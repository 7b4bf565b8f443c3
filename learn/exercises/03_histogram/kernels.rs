//! Counts by atomic operations.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{Atomics, In, Len};
// ANCHOR: uses
// TODO: part 2 needs an array in shared memory, `tile!`.
// ANCHOR_END: uses

/// Adds the number of elements with each value to `bins`. The values are below 256.
#[kernel(safe, requires(bins.len() >= 256))]
pub fn histogram<'n>(n: Len<'n>, x: In<'n, u32>, bins: Atomics<u32>) {
    if let Some(i) = n.element() {
        let bin = bins.at(x.get(&i));
        // ANCHOR: part1
        // TODO: another thread may count in the same bin at the same time.
        let count = atomic::load(bin, atomic::Ordering::Relaxed, atomic::Scope::Device);
        atomic::store(bin, count + 1, atomic::Ordering::Relaxed, atomic::Scope::Device);
        // ANCHOR_END: part1
    }
}

/// The same, in blocks of 256 threads.
#[kernel(safe, requires(bins.len() >= 256, shape.block == 256))]
pub fn histogram_by_blocks<'n>(n: Len<'n>, x: In<'n, u32>, bins: Atomics<u32>) {
    // ANCHOR: part2
    // TODO: half of the elements are 0, and all of them wait for one address.
    if let Some(i) = n.element() {
        atomic::add(bins.at(x.get(&i)), 1);
    }
    // ANCHOR_END: part2
}

/// Adds the number of elements above `threshold` to `count[0]`, in blocks of 256 threads.
#[kernel(safe, requires(shape.block == 256))]
pub fn count_above<'n>(n: Len<'n>, threshold: u32, x: In<'n, u32>, count: Atomics<u32>) {
    let above = n.element().is_some_and(|i| x.get(&i) > threshold);
    // ANCHOR: part3
    // TODO: a warp can count its own lanes first.
    if above {
        atomic::add(count.at(0), 1);
    }
    // ANCHOR_END: part3
}
