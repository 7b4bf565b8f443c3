//! Ĝ_A^B: the score of each action's vector at its belief.
//!
//! *Mathematics*: Ĝ_A^B\[j\]\[a\] = bⱼ · gₐᵇ.
//!
//! *Index arithmetic*: thread l computes j = l / |A|, a = l − j|A| from B\[j|S| + s\] and G_A^B\[j|A||S| + a|S| + s\],
//! s = 0 … |S| − 1.

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

use super::dot;
use super::model::Sizes;

/// Ĝ_A^B from B and G_A^B: the score of each action's vector at its belief.
///
/// - *Thread mapping*: one thread per element; it sums over states.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `scores`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sizes` | [`Sizes`] | |
/// | `belief` | B·S | probability |
/// | `g_ab` | B·A·S | reward |
/// | `scores` | B·A | reward |
#[kernel(
    T = [f32, f64],
    requires(
        belief.len() >= sizes.beliefs * sizes.states,
        g_ab.len() >= sizes.beliefs * sizes.actions * sizes.states,
        scores.len() >= sizes.beliefs * sizes.actions,
        shape.threads >= sizes.beliefs * sizes.actions,
        shape.dimensions == 1,
    )
)]
pub fn action_scores<T: Real>(sizes: Sizes, belief: Global<T>, g_ab: Global<T>, scores: GlobalMut<T>) {
    let (states, actions) = (sizes.states as usize, sizes.actions as usize);
    let l = thread::index_1d() as usize;
    if l < sizes.beliefs as usize * actions {
        let j = l / actions;
        let a = l - j * actions;
        let score = dot(states, belief, j * states, g_ab, j * actions * states + a * states);
        scores.set(l, T::from_f64(score));
    }
}
