//! Counts the visits of random walks.

use warpkov_device::device::{Global, GlobalMut, kernel, thread};

/// Counts visits in an array of the thread.
///
/// *Thread mapping*: a thread for each walk.
///
/// *Safety*: `next` has 32 elements below 8, `choices` has `steps`·n elements below 4, and `found` 8·n.
// ANCHOR: indexed
#[kernel]
pub fn visits_indexed(n: u32, steps: u32, next: Global<u32>, choices: Global<u32>, found: GlobalMut<u32>) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    if i < n {
        let mut counts = [0; 8];
        let mut state = 0;
        for step in 0..steps as usize {
            let choice = choices.get(step * n + i);
            state = next.get(4 * state + choice);
            // The remainder tells the compiler that the index is within the array.
            counts[state as usize % 8] += 1;
        }
        for k in 0..8 {
            found.set(k * n + i, counts[k]);
        }
    }
}
// ANCHOR_END: indexed

/// Counts visits, without local memory.
///
/// *Thread mapping* and *Safety*: as for [`visits_indexed`].
#[kernel]
pub fn visits(n: u32, steps: u32, next: Global<u32>, choices: Global<u32>, found: GlobalMut<u32>) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    if i < n {
        // ANCHOR: counters
        // TODO: these counters are in global memory: each step reads one and writes it.
        for k in 0..8 {
            found.set(k * n + i, 0);
        }
        let mut state = 0;
        for step in 0..steps as usize {
            let choice = choices.get(step * n + i);
            state = next.get(4 * state + choice);
            let at = state as usize * n + i;
            found.set(at, found.get(at) + 1);
        }
        // ANCHOR_END: counters
    }
}
