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

use warpkov_device::device::safe::{Len, Out, Slice};
use warpkov_device::device::{Real, kernel};

use super::argmax;
use super::model::Sizes;

/// Ĝ\*_AO from Ĝ_AO: the best vector of each belief, action and observation.
///
/// - *Thread mapping*: one thread per element; it compares n scores.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `winners`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `elements` | scalar | B·A·Ω |
/// | `vectors` | scalar | n |
/// | `sizes` | [`Sizes`] | |
/// | `scores` | B·Ω·A·n | reward |
/// | `winners` | B·A·Ω | vectors, below n |
#[kernel(safe, T = [f32, f64], requires(vectors >= 1, shape.threads >= elements))]
pub fn best<'l, 'v, T: Real>(
    elements: Len<'l, u64>,
    vectors: Len<'v>,
    sizes: Sizes,
    scores: Slice<T>,
    winners: Out<'l, u32>,
) {
    if let Some(l) = elements.element() {
        let (actions, observations) = (sizes.actions as usize, sizes.observations as usize);
        let [j, a, o] = l.index().unravel([sizes.beliefs, sizes.actions, sizes.observations]);
        let first = ((j * observations + o) * actions + a) * vectors.get() as usize;
        winners.set(&l, argmax(vectors, scores.row(first, vectors)));
    }
}
