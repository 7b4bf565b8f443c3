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

use warpkov_device::device::{Global, GlobalMut, Real, kernel, math, thread};

use super::model::Sizes;

/// G_A^B from R, Ĝ\*_AO and G_AO: the vector of each action at each belief.
///
/// - *Thread mapping*: one thread per element; it sums over observations.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `sums`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sizes` | [`Sizes`] | |
/// | `gamma` | scalar | in \[0, 1) |
/// | `reward` | A·S | r(s, a), at a·S + s |
/// | `winners` | B·A·Ω | vectors, below n |
/// | `g_ao` | n·Ω·A·S | reward |
/// | `sums` | B·A·S | reward |
#[kernel(
    T = [f32, f64],
    requires(
        reward.len() >= sizes.actions * sizes.states,
        winners.len() >= sizes.beliefs * sizes.actions * sizes.observations,
        g_ao.len() >= sizes.vectors * sizes.observations * sizes.actions * sizes.states,
        sums.len() >= sizes.beliefs * sizes.actions * sizes.states,
        shape.threads >= sizes.beliefs * sizes.actions * sizes.states,
        shape.dimensions == 1,
    )
)]
pub fn g_ab<T: Real>(
    sizes: Sizes,
    gamma: f64,
    reward: Global<T>,
    winners: Global<u32>,
    g_ao: Global<T>,
    sums: GlobalMut<T>,
) {
    let (states, actions, observations) = (sizes.states as usize, sizes.actions as usize, sizes.observations as usize);
    let l = thread::index_1d() as usize;
    if l < sizes.beliefs as usize * actions * states {
        let j = l / (actions * states);
        let rest = l - j * actions * states;
        let a = rest / states;
        let s = rest - a * states;
        let mut sum = 0.0;
        let mut k = 0;
        while k < observations {
            let i = winners.get(j * actions * observations + a * observations + k) as usize;
            let winner = i * actions * states * observations + k * actions * states + a * states + s;
            sum += g_ao.get(winner).to_f64();
            k += 1;
        }
        sums.set(l, T::from_f64(math::fma(gamma, sum, reward.get(a * states + s).to_f64())));
    }
}
