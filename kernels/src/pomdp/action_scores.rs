//! Ĝ_A^B: what the vector of each action is worth at its belief.
//!
//! *Mathematics*: Ĝ_A^B\[j\]\[a\] = bⱼ · gₐᵇ.
//!
//! *Index arithmetic*: the thread l computes j = l / |A|, a = l − j|A| from B\[j|S| + s\] and G_A^B\[j|A||S| + a|S| + s\],
//! s = 0 … |S| − 1.

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

use super::dot;
use super::model::Sizes;

/// Ĝ_A^B from B and G_A^B.
///
/// *Thread mapping*: one thread per element, which sums over states. *Safety*: `belief` has |B||S| elements, `g_ab` |B||A||S|,
/// `scores` |B||A|.
#[kernel(T = [f32, f64])]
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
