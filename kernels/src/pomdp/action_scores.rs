//! Ĝ_A^B: the score of each action's vector at its belief.
//!
//! *Mathematics*: Ĝ_A^B\[j\]\[a\] = bⱼ · gₐᵇ.
//!
//! *Index arithmetic*: thread l computes j = l / |A|, a = l − j|A| from B\[j|S| + s\] and G_A^B\[j|A||S| + a|S| + s\],
//! s = 0 … |S| − 1.

use warpkov_device::device::safe::{Len, Out, Slice};
use warpkov_device::device::{Real, kernel};

use super::dot;

/// Ĝ_A^B from B and G_A^B: the score of each action's vector at its belief.
///
/// - *Thread mapping*: one thread per element; it sums over states.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `scores`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `elements` | scalar | B·A |
/// | `states`, `actions` | scalar | S, A |
/// | `belief` | B·S | probability |
/// | `g_ab` | B·A·S | reward |
/// | `scores` | B·A | reward |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= elements))]
pub fn action_scores<'l, 's, T: Real>(
    elements: Len<'l, u64>,
    states: Len<'s>,
    actions: u32,
    belief: Slice<T>,
    g_ab: Slice<T>,
    scores: Out<'l, T>,
) {
    if let Some(l) = elements.element() {
        let (n, [j, _]) = (states.get() as usize, l.index().unravel([0, actions]));
        let (belief, g) = (belief.row(j * n, states), g_ab.row(l.index().get() * n, states));
        scores.set(&l, T::from_f64(dot(states, belief, g)));
    }
}
