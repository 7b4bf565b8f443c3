//! Ĝ_AO: the score of each vector of G_AO at each belief.
//!
//! *Mathematics*: Ĝ_AO\[j\]\[o\]\[a\]\[i\] = bⱼ · g^i_{a,o}.
//!
//! *Index arithmetic*: thread l computes
//!
//! > j = l / (|A|n|Ω|),  m = j|A|n|Ω|,  o = (l − m) / (|A|n),  a = (l − m − o|A|n) / n,  i = (l − m − o|A|n) − an
//!
//! from the ranges B\[j|S| … + |S| − 1\] and G_AO\[i|A||Ω||S| + o|A||S| + a|S| … + |S| − 1\].

use warpkov_device::device::safe::{Len, Out, Slice};
use warpkov_device::device::{Real, kernel};

use super::dot;
use super::model::Sizes;

/// Ĝ_AO from B and G_AO: the score of each vector at each belief.
///
/// - *Thread mapping*: one thread per element; it sums over states.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `products`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `elements` | scalar | B·Ω·A·n |
/// | `states` | scalar | S |
/// | `sizes` | [`Sizes`] | |
/// | `belief` | B·S | probability |
/// | `g_ao` | n·Ω·A·S | reward |
/// | `products` | B·Ω·A·n | reward |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= elements))]
pub fn scores<'l, 's, T: Real>(
    elements: Len<'l, u64>,
    states: Len<'s>,
    sizes: Sizes,
    belief: Slice<T>,
    g_ao: Slice<T>,
    products: Out<'l, T>,
) {
    if let Some(l) = elements.element() {
        let (n, actions, observations) = (states.get() as usize, sizes.actions as usize, sizes.observations as usize);
        let [j, o, a, i] = l.index().unravel([sizes.beliefs, sizes.observations, sizes.actions, sizes.vectors]);
        let (belief, g) = (belief.row(j * n, states), g_ao.row(((i * observations + o) * actions + a) * n, states));
        products.set(&l, T::from_f64(dot(states, belief, g)));
    }
}
