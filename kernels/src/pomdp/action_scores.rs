//! Ĝ_A^B: what the vector of each action is worth at its belief.
//!
//! *Mathematics*: Ĝ_A^B\[j\]\[a\] = bⱼ · gₐᵇ.
//!
//! *Index arithmetic*: the thread l computes j = l / |A|, a = l − j|A| from B\[j|S| + s\] and G_A^B\[j|A||S| + a|S| + s\],
//! s = 0 … |S| − 1.

use crate::device::{Global, GlobalMut, Real, kernel, thread};

use super::dot;

/// Ĝ_A^B from B and G_A^B.
///
/// *Thread mapping*: one thread per element, which sums over states. *Safety*: `belief` has |B||S| elements, `g_ab` |B||A||S|,
/// `scores` |B||A|.
#[kernel(T = [f32, f64])]
pub fn action_scores<T: Real>(
    states: u32,
    actions: u32,
    beliefs: u32,
    belief: Global<T>,
    g_ab: Global<T>,
    scores: GlobalMut<T>,
) {
    let (states, actions) = (states as usize, actions as usize);
    let l = thread::index_1d() as usize;
    if l < beliefs as usize * actions {
        let j = l / actions;
        let a = l - j * actions;
        let score = dot(states, belief, j * states, g_ab, j * actions * states + a * states);
        scores.set(l, T::from_f64(score));
    }
}
