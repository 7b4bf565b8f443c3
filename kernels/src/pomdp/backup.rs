//! B_KP: the new vector of each belief.
//!
//! *Mathematics*: B_KP\[j\] = argmax over {gₐᵇ : a ∈ A} of bⱼ · gₐᵇ = G_A^B\[j\]\[a\*_b\].
//!
//! *Index arithmetic*: thread l computes j = l / |S|, s = l − j|S| from a\* = Ĝ\*_A^B\[j\] and G_A^B\[j|A||S| +
//! a\*|S| + s\].

use warpkov_device::device::safe::{Len, Out, Slice};
use warpkov_device::device::{Real, kernel};

/// B_KP from Ĝ\*_A^B and G_A^B: the vector of each belief's best action.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `b_kp`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `elements` | scalar | B·S |
/// | `states`, `actions` | scalar | S, A |
/// | `chosen` | B | actions, below A |
/// | `g_ab` | B·A·S | reward |
/// | `b_kp` | B·S | reward |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= elements))]
pub fn backup<'l, T: Real>(
    elements: Len<'l, u64>,
    states: u32,
    actions: u32,
    chosen: Slice<u32>,
    g_ab: Slice<T>,
    b_kp: Out<'l, T>,
) {
    if let Some(l) = elements.element() {
        let [j, s] = l.index().unravel([0, states]);
        let a = chosen.get(j) as usize;
        b_kp.set(&l, g_ab.get((j * actions as usize + a) * states as usize + s));
    }
}
