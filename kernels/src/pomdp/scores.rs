//! Ĝ_AO: the score of each vector of G_AO at each belief.
//!
//! *Mathematics*: Ĝ_AO\[j\]\[o\]\[a\]\[i\] = bⱼ · g^i_{a,o}.
//!
//! *Index arithmetic*: thread l computes
//!
//! > j = l / (|A|n|Ω|),  m = j|A|n|Ω|,  o = (l − m) / (|A|n),  a = (l − m − o|A|n) / n,  i = (l − m − o|A|n) − an
//!
//! from the ranges B\[j|S| … + |S| − 1\] and G_AO\[i|A||Ω||S| + o|A||S| + a|S| … + |S| − 1\].

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

use super::dot;
use super::model::Sizes;

/// Ĝ_AO from B and G_AO: the score of each vector at each belief.
///
/// - *Thread mapping*: one thread per element; it sums over states.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `products`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sizes` | [`Sizes`] | |
/// | `belief` | B·S | probability |
/// | `g_ao` | n·Ω·A·S | reward |
/// | `products` | B·Ω·A·n | reward |
#[kernel(
    T = [f32, f64],
    requires(
        belief.len() >= sizes.beliefs * sizes.states,
        g_ao.len() >= sizes.vectors * sizes.observations * sizes.actions * sizes.states,
        products.len() >= sizes.beliefs * sizes.observations * sizes.actions * sizes.vectors,
        shape.threads >= sizes.beliefs * sizes.observations * sizes.actions * sizes.vectors,
        shape.dimensions == 1,
    )
)]
pub fn scores<T: Real>(sizes: Sizes, belief: Global<T>, g_ao: Global<T>, products: GlobalMut<T>) {
    let (states, actions, observations) = (sizes.states as usize, sizes.actions as usize, sizes.observations as usize);
    let vectors = sizes.vectors as usize;
    let l = thread::index_1d() as usize;
    if l < sizes.beliefs as usize * observations * actions * vectors {
        let j = l / (actions * vectors * observations);
        let rest = l - j * actions * vectors * observations;
        let o = rest / (actions * vectors);
        let rest = rest - o * actions * vectors;
        let a = rest / vectors;
        let i = rest - a * vectors;
        let first = i * actions * observations * states + o * actions * states + a * states;
        products.set(l, T::from_f64(dot(states, belief, j * states, g_ao, first)));
    }
}
