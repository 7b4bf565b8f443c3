//! Ĝ\*_A^B: the best action of each belief.
//!
//! *Mathematics*: a\*_b = argmaxₐ b · gₐᵇ; the lowest action breaks ties.
//!
//! *Index arithmetic*: thread l compares Ĝ_A^B\[l|A| + a\], a = 0 … |A| − 1. (The source takes this step on the CPU.)

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

use super::argmax;

/// Ĝ\*_A^B from Ĝ_A^B: the best action of each belief.
///
/// - *Thread mapping*: one thread per belief.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `chosen`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `actions` | scalar | A ≥ 1 |
/// | `beliefs` | scalar | B |
/// | `scores` | B·A | reward |
/// | `chosen` | B | actions, below A |
#[kernel(
    T = [f32, f64],
    requires(
        actions >= 1,
        scores.len() >= beliefs * actions,
        chosen.len() >= beliefs,
        shape.threads >= beliefs,
        shape.dimensions == 1,
    )
)]
pub fn best_action<T: Real>(actions: u32, beliefs: u32, scores: Global<T>, chosen: GlobalMut<u32>) {
    let j = thread::index_1d() as usize;
    if j < beliefs as usize {
        chosen.set(j, argmax(actions as usize, scores, j * actions as usize));
    }
}
