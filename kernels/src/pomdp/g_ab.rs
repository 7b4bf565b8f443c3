//! G_A^B: the vector of each action at each belief.
//!
//! *Mathematics*: gₐᵇ = rₐ + γ Σₒ g^{i\*}_{a,o} with i\* = argmaxᵢ b · g^i_{a,o}.
//!
//! *Index arithmetic*: thread l computes G_A^B\[j\]\[a\]\[s\] with
//!
//! > j = l / (|A||S|),  w = j|A||S|,  a = (l − w) / |S|,  s = (l − w) − a|S|
//!
//! from R\[a|S| + s\], the |Ω| winners i\*ₖ = Ĝ\*_AO\[j|A||Ω| + a|Ω| + k\], and G_AO\[i\*ₖ|A||S||Ω| + k|A||S| + a|S| +
//! s\], k = 0 … |Ω| − 1. (The source's worked element lets k run to n − 1; n = |Ω| there.)

use warpkov_device::device::safe::{Len, Out, Slice};
use warpkov_device::device::{Real, kernel, math};

use super::model::Sizes;

/// G_A^B from R, Ĝ\*_AO and G_AO: the vector of each action at each belief.
///
/// - *Thread mapping*: one thread per element; it sums over observations.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `sums`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `elements` | scalar | B·A·S |
/// | `states` | scalar | S |
/// | `sizes` | [`Sizes`] | |
/// | `gamma` | scalar | in \[0, 1) |
/// | `reward` | A·S | r(s, a), at a·S + s |
/// | `winners` | B·A·Ω | vectors |
/// | `g_ao` | n·Ω·A·S | reward |
/// | `sums` | B·A·S | reward |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= elements))]
pub fn g_ab<'l, T: Real>(
    elements: Len<'l, u64>,
    states: u32,
    sizes: Sizes,
    gamma: f64,
    reward: Slice<T>,
    winners: Slice<u32>,
    g_ao: Slice<T>,
    sums: Out<'l, T>,
) {
    if let Some(l) = elements.element() {
        let (n, actions, observations) = (states as usize, sizes.actions as usize, sizes.observations as usize);
        let [j, a, s] = l.index().unravel([sizes.beliefs, sizes.actions, states]);
        let (own, step, first) = (a * n + s, actions * n, (j * actions + a) * observations);
        let mut sum = 0.0;
        for (k, i) in winners.range(first..first + observations).iter().enumerate() {
            sum += g_ao.get_clamped(i as usize * observations * step + (k * step + own)).to_f64();
        }
        sums.set(&l, T::from_f64(math::fma(gamma, sum, reward.get(own).to_f64())));
    }
}
