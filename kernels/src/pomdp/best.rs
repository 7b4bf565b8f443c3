//! Ĝ\*_AO: the best vector for each belief, action and observation.
//!
//! *Mathematics*: Ĝ\*_AO\[j\]\[a\]\[o\] = argmaxᵢ Ĝ_AO\[j\]\[o\]\[a\]\[i\]; the lowest i breaks ties. Note the
//! exchanged order of a and o.
//!
//! *Index arithmetic*: thread l computes
//!
//! > j = l / (|A||Ω|),  w = j|A||Ω|,  a = (l − w) / |Ω|,  o = (l − w) − a|Ω|
//!
//! from the n elements Ĝ_AO\[j|A|n|Ω| + o|A|n + an + k\], k = 0 … n − 1.

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

use super::argmax;
use super::model::Sizes;

/// Ĝ\*_AO from Ĝ_AO: the best vector of each belief, action and observation.
///
/// - *Thread mapping*: one thread per element; it compares n scores.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `winners`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sizes` | [`Sizes`] | n ≥ 1 |
/// | `scores` | B·Ω·A·n | reward |
/// | `winners` | B·A·Ω | vectors, below n |
#[kernel(
    T = [f32, f64],
    requires(
        sizes.vectors >= 1,
        scores.len() >= sizes.beliefs * sizes.observations * sizes.actions * sizes.vectors,
        winners.len() >= sizes.beliefs * sizes.actions * sizes.observations,
        shape.threads >= sizes.beliefs * sizes.actions * sizes.observations,
        shape.dimensions == 1,
    )
)]
pub fn best<T: Real>(sizes: Sizes, scores: Global<T>, winners: GlobalMut<u32>) {
    let (actions, observations, vectors) =
        (sizes.actions as usize, sizes.observations as usize, sizes.vectors as usize);
    let l = thread::index_1d() as usize;
    if l < sizes.beliefs as usize * actions * observations {
        let j = l / (actions * observations);
        let rest = l - j * actions * observations;
        let a = rest / observations;
        let o = rest - a * observations;
        let first = j * actions * vectors * observations + o * actions * vectors + a * vectors;
        winners.set(l, argmax(vectors, scores, first));
    }
}
