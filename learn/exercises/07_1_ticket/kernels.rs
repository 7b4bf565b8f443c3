//! Blocks that know in which order they have started.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::{Atomics, PerThread};

/// Each thread writes its block's ticket: the number of blocks that drew one before. `next[0]` is 0.
#[kernel(safe)]
pub fn ticket(next: Atomics<u32>, tickets: PerThread<u32>) {
    // ANCHOR: part1
    // TODO: a ticket for the block, not one for each thread.
    let ticket = atomic::add(next.at(0), 1);
    // ANCHOR_END: part1
    tickets.set(ticket);
}
