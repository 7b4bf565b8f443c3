//! Ĝ\*_A^B: the best action of each belief.
//!
//! *Mathematics*: a\*_b = argmaxₐ b · gₐᵇ; the lowest action breaks ties.
//!
//! *Index arithmetic*: thread l compares Ĝ_A^B\[l|A| + a\], a = 0 … |A| − 1. (The source takes this step on the CPU.)

use warpkov_device::device::safe::{In2, Len, Out};
use warpkov_device::device::{Real, kernel};

use super::argmax;

/// Ĝ\*_A^B from Ĝ_A^B: the best action of each belief.
///
/// - *Thread mapping*: one thread per belief.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `chosen`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `actions`, `beliefs` | scalar | A, B |
/// | `scores` | B × A | reward |
/// | `chosen` | B | actions, below A |
#[kernel(safe, T = [f32, f64], requires(actions >= 1, shape.threads >= beliefs))]
pub fn best_action<'a, 'b, T: Real>(actions: Len<'a>, beliefs: Len<'b>, scores: In2<'b, 'a, T>, chosen: Out<'b, u32>) {
    if let Some(j) = beliefs.element() {
        chosen.set(&j, argmax(actions, scores.row(&j, actions)));
    }
}
