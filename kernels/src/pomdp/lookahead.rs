//! One step of lookahead: the best action for a belief, by what Γ says of the beliefs that may follow.
//!
//! *Mathematics*: π(b) = argmaxₐ (c₁ + γ c₂) with c₁ = Σₛ b(s) R(s, a) and c₂ = Σₒ p(o|b, a) v(b^{a,o}), where
//!
//! > b^{a,o}(s') = β b̂(s'),  b̂(s') = O(a, s', o) Σₛ T(s, a, s') b(s),  β = 1 / Σ_{s'} b̂(s')
//! > t_{a,o}(s) = Σ_{s'} T(s, a, s') O(a, s', o),  p(o|b, a) = b · t_{a,o},  v(b) = maxᵢ b · αᵢ
//!
//! so that β = 1 / p(o|b, a): no belief follows where that is 0. c₁, p and b · αᵢ are inner products of a vector with
//! the rows of a matrix ([`products`]).
//!
//! The source has deterministic transitions, and an inverse T_inv\[a\]\[s'\] = s that says where each state came from. That
//! exists where T(·, a) is injective, and every s' has one such s. Where T is not injective, Σₛ has more terms than
//! one, or none: [`next_belief`] takes T by its columns, and [`next_belief_inverse`] is the source's own.

use warpkov_device::device::{Global, GlobalMut, Real, kernel, math, thread};

use super::dot;
use crate::primitives::rows::Rows;

/// b̂ of an action and an observation; unnormalised.
///
/// *Thread mapping*: one thread per s', which sums over the states that lead there. *Safety*: row a|S| + s' of
/// `predecessors` has the states s that a takes to s', with T(s, a, s'); `observation` has |Ω||A||S| elements, `belief` and `next` |S|.
#[kernel(T = [f32, f64])]
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

/// b̂ as the source has it: b̂(s') = O\[o|A||S| + a|S| + s'\] · b\[T_inv\[a|S| + s'\]\].
///
/// *Thread mapping*: one thread per s'. *Safety*: `inverse` has |A||S| elements below |S|, `observation` |Ω||A||S|, `belief`
/// and `next` |S|.
#[kernel(T = [f32, f64])]
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
/// *Thread mapping*: one thread per s. *Safety*: `next` has |A||S| elements below |S|, `observation` |Ω||A||S|, `t_ao` |S|.
#[kernel(T = [f32, f64])]
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
/// *Thread mapping*: one thread per s, which sums over the entries of a row of T. *Safety*: `transitions` has |S||A| rows,
/// with columns below |S|; `observation` has |Ω||A||S|, `t_ao` |S|.
#[kernel(T = [f32, f64])]
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
/// *Thread mapping*: one thread per row, which sums over states. *Safety*: `x` has |S| elements, `m` `rows`·|S|, `found`
/// `rows`.
#[kernel(T = [f32, f64])]
pub fn products<T: Real>(states: u32, rows: u32, x: Global<T>, m: Global<T>, found: GlobalMut<T>) {
    let l = thread::index_1d() as usize;
    if l < rows as usize {
        found.set(l, T::from_f64(dot(states as usize, x, 0, m, l * states as usize)));
    }
}
