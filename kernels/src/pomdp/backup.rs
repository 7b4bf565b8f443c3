//! B_KP: the new vector of each belief.
//!
//! *Mathematics*: B_KP\[j\] = argmax over {gₐᵇ : a ∈ A} of bⱼ · gₐᵇ = G_A^B\[j\]\[a\*_b\].
//!
//! *Index arithmetic*: thread l computes j = l / |S|, s = l − j|S| from a\* = Ĝ\*_A^B\[j\] and G_A^B\[j|A||S| +
//! a\*|S| + s\].

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

use super::model::Sizes;

/// B_KP from Ĝ\*_A^B and G_A^B: the vector of each belief's best action.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `b_kp`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sizes` | [`Sizes`] | |
/// | `chosen` | B | actions, below A |
/// | `g_ab` | B·A·S | reward |
/// | `b_kp` | B·S | reward |
#[kernel(
    T = [f32, f64],
    requires(
        chosen.len() >= sizes.beliefs,
        g_ab.len() >= sizes.beliefs * sizes.actions * sizes.states,
        b_kp.len() >= sizes.beliefs * sizes.states,
        shape.threads >= sizes.beliefs * sizes.states,
        shape.dimensions == 1,
    )
)]
pub fn backup<T: Real>(sizes: Sizes, chosen: Global<u32>, g_ab: Global<T>, b_kp: GlobalMut<T>) {
    let (states, actions) = (sizes.states as usize, sizes.actions as usize);
    let l = thread::index_1d() as usize;
    if l < sizes.beliefs as usize * states {
        let j = l / states;
        let s = l - j * states;
        b_kp.set(l, g_ab.get(j * actions * states + chosen.get(j) as usize * states + s));
    }
}
