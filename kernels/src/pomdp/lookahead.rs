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

use warpkov_device::device::safe::{In, In2, Len, Out, Slice, SparseRows};
use warpkov_device::device::{Parameter, Real, kernel, math};

use super::dot;

/// An action and an observation, and the place of O(a, ·, o) among the observation probabilities.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `actions` | scalar | A |
/// | `action` | scalar | a, below A |
/// | `seen` | scalar | o, below Ω |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(action < actions))]
pub struct Branch {
    /// A.
    pub actions: u32,
    /// a.
    pub action: u32,
    /// o.
    pub seen: u32,
}

impl Branch {
    /// First element of O(a, ·, o), of S elements.
    #[inline(always)]
    fn first(self, states: u32) -> usize {
        (self.seen as usize * self.actions as usize + self.action as usize) * states as usize
    }
}

/// b̂ of an action and an observation, unnormalised.
///
/// - *Thread mapping*: one thread per s'; it sums over the predecessors of s'.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `next`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `rows` | scalar | A·S |
/// | `branch` | [`Branch`] | a, o |
/// | `predecessors` | A·S × S | T(s, a, s'), row a·S + s', columns s |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `belief`, `next` | S | probability |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= states))]
pub fn next_belief<'s, 'r, T: Real>(
    states: Len<'s>,
    rows: Len<'r, u64>,
    branch: Branch,
    predecessors: SparseRows<'r, 's, T, u64>,
    observation: Slice<T>,
    belief: In<'s, T>,
    next: Out<'s, T>,
) {
    if let Some(l) = states.element() {
        let (n, s_next) = (u64::from(states.get()), l.index().get() as u64);
        let mut sum = 0.0;
        for (s, prob) in predecessors.row(rows.at(u64::from(branch.action) * n + s_next)) {
            sum = math::fma(prob.to_f64(), belief.get(s).to_f64(), sum);
        }
        let seen = observation.get(branch.first(states.get()) + l.index().get());
        next.set(&l, T::from_f64(seen.to_f64() * sum));
    }
}

/// b̂ as in the source: b̂(s') = O\[o|A||S| + a|S| + s'\] · b\[T_inv\[a|S| + s'\]\].
///
/// - *Thread mapping*: one thread per s'.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `next`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `branch` | [`Branch`] | a, o |
/// | `inverse` | A·S | states, below S |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `belief`, `next` | S | probability |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= states))]
pub fn next_belief_inverse<'s, T: Real>(
    states: Len<'s>,
    branch: Branch,
    inverse: Slice<u32>,
    observation: Slice<T>,
    belief: Slice<T>,
    next: Out<'s, T>,
) {
    if let Some(l) = states.element() {
        let before = inverse.get(branch.action as usize * states.get() as usize + l.index().get());
        let seen = observation.get(branch.first(states.get()) + l.index().get());
        next.set(&l, seen * belief.get(before));
    }
}

/// t_{a,o} of a deterministic process: t(s) = O\[o|A||S| + a|S| + T\[a|S| + s\]\].
///
/// - *Thread mapping*: one thread per s.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `t_ao`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `branch` | [`Branch`] | a, o |
/// | `next` | A·S | states, below S |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `t_ao` | S | probability |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= states))]
pub fn t_ao_deterministic<'s, T: Real>(
    states: Len<'s>,
    branch: Branch,
    next: Slice<u32>,
    observation: Slice<T>,
    t_ao: Out<'s, T>,
) {
    if let Some(l) = states.element() {
        let s_next = next.get(branch.action as usize * states.get() as usize + l.index().get());
        t_ao.set(&l, observation.get(branch.first(states.get()) + s_next as usize));
    }
}

/// t_{a,o} of any process.
///
/// - *Thread mapping*: one thread per s; it sums over the entries of a row of T.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `t_ao`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `rows` | scalar | S·A |
/// | `branch` | [`Branch`] | a, o |
/// | `transitions` | S·A × S | T(s, a, s'), row s·A + a |
/// | `observation` | Ω·A·S | O(a, s', o) |
/// | `t_ao` | S | probability |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= states))]
pub fn t_ao_sparse<'s, 'r, T: Real>(
    states: Len<'s>,
    rows: Len<'r, u64>,
    branch: Branch,
    transitions: SparseRows<'r, 's, T, u64>,
    observation: Slice<T>,
    t_ao: Out<'s, T>,
) {
    if let Some(l) = states.element() {
        let seen = observation.row(branch.first(states.get()), states);
        let row = rows.at(l.index().get() as u64 * u64::from(branch.actions) + u64::from(branch.action));
        let mut sum = 0.0;
        for (s_next, prob) in transitions.row(row) {
            sum = math::fma(prob.to_f64(), seen.get(s_next).to_f64(), sum);
        }
        t_ao.set(&l, T::from_f64(sum));
    }
}

/// x · M\[k\] for each row k of M.
///
/// - *Thread mapping*: one thread per row; it sums over states.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `found`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `rows` | scalar | rows of M |
/// | `x` | S | |
/// | `m` | `rows` × S | |
/// | `found` | `rows` | |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= rows))]
pub fn products<'s, 'r, T: Real>(states: Len<'s>, rows: Len<'r>, x: In<'s, T>, m: In2<'r, 's, T>, found: Out<'r, T>) {
    if let Some(row) = rows.element() {
        found.set(&row, T::from_f64(dot(states, x, m.row(&row, states))));
    }
}
