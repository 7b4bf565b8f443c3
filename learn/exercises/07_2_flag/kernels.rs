//! A number that one block leaves for all others.

use warpkov_device::device::atomic::{self, Ordering, Scope};
use warpkov_device::device::{GlobalMut, kernel, thread};

/// The block with ticket 0 writes 42 to `number[0]`, and sets the flag `control[1]`. All others wait for the flag, and read the number.
///
/// *Safety*: `control` has two elements, which are 0, `number` one, and `received` one per block. Blocks of one thread.
#[kernel]
pub fn flag(control: GlobalMut<u32>, number: GlobalMut<u32>, received: GlobalMut<u32>) {
    // ANCHOR: part1
    // TODO: the number must be there before the flag, and be read after it.
    let (send, receive) = (Ordering::Relaxed, Ordering::Relaxed);
    // ANCHOR_END: part1
    // A block that has drawn a ticket runs, so no other waits for it in vain.
    if atomic::add((control, 0), 1) == 0 {
        number.set(0, 42);
        atomic::store((control, 1), 1, send, Scope::Device);
    } else {
        while atomic::load((control, 1), receive, Scope::Device) == 0 {}
    }
    received.set(thread::block_idx_x(), number.get(0));
}
