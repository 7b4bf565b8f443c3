//! One-step lookahead: the best action of a belief, from the values that Γ gives its successor beliefs.
//!
//! *Mathematics*: π(b) = argmaxₐ (c₁ + γ c₂) with c₁ = Σₛ b(s) R(s, a) and c₂ = Σₒ p(o|b, a) v(b^{a,o}), where
//!
//! > b^{a,o}(s') = β b̂(s'),  b̂(s') = O(a, s', o) Σₛ T(s, a, s') b(s),  β = 1 / Σ_{s'} b̂(s')
//! > t_{a,o}(s) = Σ_{s'} T(s, a, s') O(a, s', o),  p(o|b, a) = b · t_{a,o},  v(b) = maxᵢ b · αᵢ
//!
//! Hence β = 1 / p(o|b, a); if p(o|b, a) = 0, no belief follows. c₁, p and b · αᵢ are inner products of a vector with
//! the rows of a matrix ([`products`]).
//!
//! The source assumes deterministic transitions with an inverse T_inv\[a\]\[s'\] = s, the state that leads to s'. The
//! inverse exists if T(·, a) is injective and every s' has such an s. Otherwise Σₛ has several terms, or none:
//! [`next_belief`] uses T by columns, and [`next_belief_inverse`] is the source's version.

use warpkov_device::device::{Global, GlobalMut, Real, kernel, math, thread};

use super::dot;
use crate::primitives::rows::Rows;

/// b̂ of an action and an observation, unnormalised.
///
/// - *Thread mapping*: one thread per s'; it sums over the predecessors of s'.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `next`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `actions` | scalar | A |
/// | `action` | scalar | a, below A |
/// | `seen` | scalar | o, below Ω |
/// | `predecessors` | A·S × S, [`Rows`] | T(s, a, s'), row a·S + s', columns s |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `belief`, `next` | S | probability |
#[kernel(
    T = [f32, f64],
    requires(
        action < actions,
        observation.len() >= (seen + 1) * actions * states,
        predecessors.holds(actions * states),
        belief.len() >= states,
        next.len() >= states,
        shape.threads >= states,
        shape.dimensions == 1,
    )
)]
pub fn next_belief<T: Real>(
    states: u32,
    actions: u32,
    action: u32,
    seen: u32,
    predecessors: Rows<T, u64>,
    observation: Global<T>,
    belief: Global<T>,
    next: GlobalMut<T>,
) {
    let (states, actions, a, o) = (states as usize, actions as usize, action as usize, seen as usize);
    let l = thread::index_1d() as usize;
    if l < states {
        let column = a * states + l;
        let (mut entry, end) = (predecessors.ptr.get(column) as usize, predecessors.ptr.get(column + 1) as usize);
        let mut sum = 0.0;
        while entry < end {
            let before = belief.get(predecessors.col.get(entry) as usize).to_f64();
            sum = math::fma(predecessors.prob.get(entry).to_f64(), before, sum);
            entry += 1;
        }
        next.set(l, T::from_f64(observation.get(o * actions * states + column).to_f64() * sum));
    }
}

/// b̂ as in the source: b̂(s') = O\[o|A||S| + a|S| + s'\] · b\[T_inv\[a|S| + s'\]\].
///
/// - *Thread mapping*: one thread per s'.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `next`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `actions` | scalar | A |
/// | `action` | scalar | a, below A |
/// | `seen` | scalar | o, below Ω |
/// | `inverse` | A·S | states, below S |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `belief`, `next` | S | probability |
#[kernel(
    T = [f32, f64],
    requires(
        action < actions,
        observation.len() >= (seen + 1) * actions * states,
        inverse.len() >= actions * states,
        belief.len() >= states,
        next.len() >= states,
        shape.threads >= states,
        shape.dimensions == 1,
    )
)]
pub fn next_belief_inverse<T: Real>(
    states: u32,
    actions: u32,
    action: u32,
    seen: u32,
    inverse: Global<u32>,
    observation: Global<T>,
    belief: Global<T>,
    next: GlobalMut<T>,
) {
    let (states, actions, a, o) = (states as usize, actions as usize, action as usize, seen as usize);
    let l = thread::index_1d() as usize;
    if l < states {
        let s = inverse.get(a * states + l) as usize;
        next.set(l, observation.get(o * actions * states + a * states + l) * belief.get(s));
    }
}

/// t_{a,o} of a deterministic process: t(s) = O\[o|A||S| + a|S| + T\[a|S| + s\]\].
///
/// - *Thread mapping*: one thread per s.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `t_ao`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `actions` | scalar | A |
/// | `action` | scalar | a, below A |
/// | `seen` | scalar | o, below Ω |
/// | `next` | A·S | states, below S |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `t_ao` | S | probability |
#[kernel(
    T = [f32, f64],
    requires(
        action < actions,
        observation.len() >= (seen + 1) * actions * states,
        next.len() >= actions * states,
        t_ao.len() >= states,
        shape.threads >= states,
        shape.dimensions == 1,
    )
)]
pub fn t_ao_deterministic<T: Real>(
    states: u32,
    actions: u32,
    action: u32,
    seen: u32,
    next: Global<u32>,
    observation: Global<T>,
    t_ao: GlobalMut<T>,
) {
    let (states, actions, a, o) = (states as usize, actions as usize, action as usize, seen as usize);
    let l = thread::index_1d() as usize;
    if l < states {
        let s_next = next.get(a * states + l) as usize;
        t_ao.set(l, observation.get(o * actions * states + a * states + s_next));
    }
}

/// t_{a,o} of any process.
///
/// - *Thread mapping*: one thread per s; it sums over the entries of a row of T.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `t_ao`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `actions` | scalar | A |
/// | `action` | scalar | a, below A |
/// | `seen` | scalar | o, below Ω |
/// | `transitions` | S·A × S, [`Rows`] | T(s, a, s'), row s·A + a; columns below S |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `t_ao` | S | probability |
#[kernel(
    T = [f32, f64],
    requires(
        action < actions,
        observation.len() >= (seen + 1) * actions * states,
        transitions.holds(states * actions),
        t_ao.len() >= states,
        shape.threads >= states,
        shape.dimensions == 1,
    )
)]
pub fn t_ao_sparse<T: Real>(
    states: u32,
    actions: u32,
    action: u32,
    seen: u32,
    transitions: Rows<T, u64>,
    observation: Global<T>,
    t_ao: GlobalMut<T>,
) {
    let (states, actions, a, o) = (states as usize, actions as usize, action as usize, seen as usize);
    let l = thread::index_1d() as usize;
    if l < states {
        let row = l * actions + a;
        let (mut entry, end) = (transitions.ptr.get(row) as usize, transitions.ptr.get(row + 1) as usize);
        let mut sum = 0.0;
        while entry < end {
            let place = o * actions * states + a * states + transitions.col.get(entry) as usize;
            sum = math::fma(transitions.prob.get(entry).to_f64(), observation.get(place).to_f64(), sum);
            entry += 1;
        }
        t_ao.set(l, T::from_f64(sum));
    }
}

/// x · M\[k\] for each row k of M.
///
/// - *Thread mapping*: one thread per row; it sums over states.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `found`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `rows` | scalar | rows of M |
/// | `x` | S | |
/// | `m` | `rows`·S | |
/// | `found` | `rows` | |
#[kernel(
    T = [f32, f64],
    requires(
        x.len() >= states,
        m.len() >= rows * states,
        found.len() >= rows,
        shape.threads >= rows,
        shape.dimensions == 1,
    )
)]
pub fn products<T: Real>(states: u32, rows: u32, x: Global<T>, m: Global<T>, found: GlobalMut<T>) {
    let l = thread::index_1d() as usize;
    if l < rows as usize {
        found.set(l, T::from_f64(dot(states as usize, x, 0, m, l * states as usize)));
    }
}
