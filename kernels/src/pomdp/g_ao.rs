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

use warpkov_device::device::{Global, GlobalMut, Real, kernel, math, thread};

use super::model::Sizes;
use crate::primitives::rows::Rows;

/// Indices of an element.
struct Element {
    i: usize,
    o: usize,
    a: usize,
    s: usize,
}

impl Element {
    #[inline(always)]
    fn of(l: usize, states: usize, actions: usize, observations: usize) -> Self {
        let i = l / (actions * observations * states);
        let rest = l - i * actions * observations * states;
        let o = rest / (actions * states);
        let rest = rest - o * actions * states;
        let a = rest / states;
        Self { i, o, a, s: rest - a * states }
    }
}

/// G_AO of a deterministic process: every vector, carried back through every action and observation.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `g_ao`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sizes` | [`Sizes`] | |
/// | `next` | A·S | states, below S |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `alpha` | n·S | Γ, reward |
/// | `g_ao` | n·Ω·A·S | reward |
#[kernel(
    T = [f32, f64],
    requires(
        next.len() >= sizes.actions * sizes.states,
        observation.len() >= sizes.observations * sizes.actions * sizes.states,
        alpha.len() >= sizes.vectors * sizes.states,
        g_ao.len() >= sizes.vectors * sizes.observations * sizes.actions * sizes.states,
        shape.threads >= sizes.vectors * sizes.observations * sizes.actions * sizes.states,
        shape.dimensions == 1,
    )
)]
pub fn g_ao_deterministic<T: Real>(
    sizes: Sizes,
    next: Global<u32>,
    observation: Global<T>,
    alpha: Global<T>,
    g_ao: GlobalMut<T>,
) {
    let (states, actions, observations) = (sizes.states as usize, sizes.actions as usize, sizes.observations as usize);
    let l = thread::index_1d() as usize;
    if l < sizes.vectors as usize * observations * actions * states {
        let Element { i, o, a, s } = Element::of(l, states, actions, observations);
        let s_next = next.get(a * states + s) as usize;
        let seen = observation.get(o * actions * states + a * states + s_next);
        g_ao.set(l, seen * alpha.get(i * states + s_next));
    }
}

/// G_AO of any process: every vector, carried back through every action and observation.
///
/// - *Thread mapping*: one thread per element; it sums over the entries of a row of T.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `g_ao`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sizes` | [`Sizes`] | |
/// | `transitions` | S·A × S, [`Rows`] | T(s, a, s'), row s·A + a; columns below S |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `alpha` | n·S | Γ, reward |
/// | `g_ao` | n·Ω·A·S | reward |
#[kernel(
    T = [f32, f64],
    requires(
        transitions.holds(sizes.states * sizes.actions),
        observation.len() >= sizes.observations * sizes.actions * sizes.states,
        alpha.len() >= sizes.vectors * sizes.states,
        g_ao.len() >= sizes.vectors * sizes.observations * sizes.actions * sizes.states,
        shape.threads >= sizes.vectors * sizes.observations * sizes.actions * sizes.states,
        shape.dimensions == 1,
    )
)]
pub fn g_ao_sparse<T: Real>(
    sizes: Sizes,
    transitions: Rows<T, u64>,
    observation: Global<T>,
    alpha: Global<T>,
    g_ao: GlobalMut<T>,
) {
    let (states, actions, observations) = (sizes.states as usize, sizes.actions as usize, sizes.observations as usize);
    let l = thread::index_1d() as usize;
    if l < sizes.vectors as usize * observations * actions * states {
        let Element { i, o, a, s } = Element::of(l, states, actions, observations);
        let row = s * actions + a;
        let (mut entry, end) = (transitions.ptr.get(row) as usize, transitions.ptr.get(row + 1) as usize);
        let mut sum = 0.0;
        while entry < end {
            let s_next = transitions.col.get(entry) as usize;
            let seen = observation.get(o * actions * states + a * states + s_next).to_f64();
            sum = math::fma(transitions.prob.get(entry).to_f64() * seen, alpha.get(i * states + s_next).to_f64(), sum);
            entry += 1;
        }
        g_ao.set(l, T::from_f64(sum));
    }
}
