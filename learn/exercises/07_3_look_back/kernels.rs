//! Sums of tiles and of all tiles before, in one launch.

use warpkov_device::device::atomic::{self, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, block, kernel, thread};

/// `prefixes[k]` is the sum of tiles 0 … k, of 256 elements each. The last word of `flags` counts tickets.
///
/// *Safety*: x has `n` elements, `prefixes` one per block, and `flags` one more, all of them 0. Blocks of 256 threads.
#[kernel]
pub fn look_back(n: u32, x: Global<u32>, flags: GlobalMut<u32>, prefixes: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let ticket = if t == 0 { atomic::add((flags, thread::grid_dim_x()), 1) } else { 0 };
    let tile = block::broadcast(ticket, 0);
    let i = 256 * tile + t;
    let sum = block::reduce(if i < n { x.get(i) } else { 0 }, 0, |a, b| a + b);
    if t == 0 {
        // ANCHOR: part1
        // TODO: wait for the tile before, and take its prefix.
        let before = 0;
        // ANCHOR_END: part1
        prefixes.set(tile, before + sum);
        // Everything before this store is visible to who reads a 1 by an acquiring load.
        atomic::store((flags, tile), 1, Ordering::Release, Scope::Device);
    }
}
