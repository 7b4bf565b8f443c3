//! Ĝ\*_A^B: the best action of each belief.
//!
//! *Mathematics*: a\*_b = argmaxₐ b · gₐᵇ, the lowest of equal ones.
//!
//! *Index arithmetic*: the thread l compares Ĝ_A^B\[l|A| + a\], a = 0 … |A| − 1. (The source takes this step on the CPU.)

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

use super::argmax;

/// Ĝ\*_A^B from Ĝ_A^B.
///
/// *Thread mapping*: one thread per belief. *Safety*: `scores` has |B||A| elements, `chosen` |B|.
#[kernel(T = [f32, f64])]
pub fn best_action<T: Real>(actions: u32, beliefs: u32, scores: Global<T>, chosen: GlobalMut<u32>) {
    let j = thread::index_1d() as usize;
    if j < beliefs as usize {
        chosen.set(j, argmax(actions as usize, scores, j * actions as usize));
    }
}
