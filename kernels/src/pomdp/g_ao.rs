//! G_AO: every vector of Γ, carried back through every action and observation.
//!
//! *Mathematics*: g^i_{a,o}(s) = Σ_{s'} O(a, s', o) T(s, a, s') αᵢ(s') for all i, o, a and s. In a deterministic
//! process the sum has one term: s' = T(s, a).
//!
//! *Index arithmetic*: thread l computes G_AO\[i\]\[o\]\[a\]\[s\] with
//!
//! > i = l / (|A||Ω||S|),  m = i|A||Ω||S|,  o = (l − m) / (|A||S|),  a = (l − m − o|A||S|) / |S|,  s = (l − m − o|A||S|) − a|S|
//!
//! It reads T\[a|S| + s\] = s', O\[o|A||S| + a|S| + s'\] and Γ\[i|S| + s'\]. (The source's worked element has s = s'
//! and writes Γ\[i|S| + s\]; its formula and all its other elements have s'.)

use warpkov_device::device::safe::{Len, Out, Slice, SparseRows};
use warpkov_device::device::{Real, kernel, math};

use super::model::Sizes;

/// G_AO of a deterministic process: every vector, carried back through every action and observation.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `g_ao`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `elements` | scalar | n·Ω·A·S |
/// | `states` | scalar | S |
/// | `sizes` | [`Sizes`] | |
/// | `next` | A·S | states |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `alpha` | n·S | Γ, reward |
/// | `g_ao` | n·Ω·A·S | reward |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= elements))]
pub fn g_ao_deterministic<'l, T: Real>(
    elements: Len<'l, u64>,
    states: u32,
    sizes: Sizes,
    next: Slice<u32>,
    observation: Slice<T>,
    alpha: Slice<T>,
    g_ao: Out<'l, T>,
) {
    if let Some(l) = elements.element() {
        let (n, actions) = (states as usize, sizes.actions as usize);
        let [i, o, a, s] = l.index().unravel([sizes.vectors, sizes.observations, sizes.actions, states]);
        let s_next = next.get(a * n + s) as usize;
        g_ao.set(&l, observation.get((o * actions + a) * n + s_next) * alpha.get(i * n + s_next));
    }
}

/// G_AO of any process: every vector, carried back through every action and observation.
///
/// - *Thread mapping*: one thread per element; it sums over the entries of a row of T.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `g_ao`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `elements` | scalar | n·Ω·A·S |
/// | `states` | scalar | S |
/// | `rows` | scalar | S·A |
/// | `sizes` | [`Sizes`] | |
/// | `transitions` | S·A × S | T(s, a, s'), row s·A + a |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `alpha` | n·S | Γ, reward |
/// | `g_ao` | n·Ω·A·S | reward |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= elements))]
pub fn g_ao_sparse<'l, 's, 'r, T: Real>(
    elements: Len<'l, u64>,
    states: Len<'s>,
    rows: Len<'r, u64>,
    sizes: Sizes,
    transitions: SparseRows<'r, 's, T, u64>,
    observation: Slice<T>,
    alpha: Slice<T>,
    g_ao: Out<'l, T>,
) {
    if let Some(l) = elements.element() {
        let (n, actions) = (states.get() as usize, sizes.actions as usize);
        let [i, o, a, s] = l.index().unravel([sizes.vectors, sizes.observations, sizes.actions, states.get()]);
        let (seen, alpha) = (observation.row((o * actions + a) * n, states), alpha.row(i * n, states));
        let mut sum = 0.0;
        for (s_next, prob) in transitions.row(rows.at((s * actions + a) as u64)) {
            sum = math::fma(prob.to_f64() * seen.get(s_next).to_f64(), alpha.get(s_next).to_f64(), sum);
        }
        g_ao.set(&l, T::from_f64(sum));
    }
}
