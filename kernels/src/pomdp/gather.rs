//! From the best vectors to new ones: the action of each belief, and its vector.
//!
//! *Mathematics*: b · gₐᵇ = b · rₐ + γ Σₒ maxᵢ p(·, o | b, a) · αᵢ needs no vector. That of the best action only is built:
//!
//! > gₐᵇ(s) = r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{i\*(b,a,o)}(s')
//!
//! An observation that cannot follow has no row, and i\* = 0, as of equal ones.

use crate::device::{Global, GlobalMut, Real, kernel, math, thread, warp};

/// b · gₐᵇ for each belief and action.
///
/// *Thread mapping*: a warp per belief and action, a lane per state of the belief, then per observation. *Safety*:
/// `belief_ptr` has `beliefs + 1` elements; `reward`, at s·A + a, S·A; `scores` B·A·Ω, 0 where there is no row; `values` B·A.
#[kernel(T = [f32, f64])]
pub fn belief_values<T: Real>(
    actions: u32,
    observations: u32,
    beliefs: u32,
    gamma: f64,
    belief_ptr: Global<u32>,
    belief_state: Global<u32>,
    belief_prob: Global<T>,
    reward: Global<T>,
    scores: Global<f64>,
    values: GlobalMut<f64>,
) {
    let pair = thread::index_1d() as usize / 32;
    if pair >= beliefs as usize * actions as usize {
        return;
    }
    let (j, a) = (pair / actions as usize, pair % actions as usize);
    let end = belief_ptr.get(j + 1);
    let mut k = belief_ptr.get(j) + warp::lane_id();
    let mut now = 0.0;
    while k < end {
        let row = belief_state.get(k as usize) as usize * actions as usize + a;
        now = math::fma(belief_prob.get(k as usize).to_f64(), reward.get(row).to_f64(), now);
        k += 32;
    }
    let mut later = 0.0;
    let mut o = warp::lane_id();
    while o < observations {
        later += scores.get(pair * observations as usize + o as usize);
        o += 32;
    }
    let value = warp::reduce(math::fma(gamma, later, now), |x, y| x + y);
    if warp::lane_id() == 0 {
        values.set(pair, value);
    }
}

/// The vectors of some beliefs and their best actions.
///
/// *Thread mapping*: one thread per belief and state. *Safety*: `picked` has `count` beliefs; `chosen` has B elements below A;
/// `winners` B·A·Ω below n; `t_ptr` S·A + 1, `o_ptr` A·S + 1; `reward` S·A; `alpha` n·S; `out` `count`·S.
#[kernel(T = [f32, f64])]
pub fn gather<T: Real>(
    states: u32,
    actions: u32,
    observations: u32,
    count: u32,
    gamma: f64,
    picked: Global<u32>,
    chosen: Global<u32>,
    winners: Global<u32>,
    t_ptr: Global<u64>,
    t_col: Global<u32>,
    t_prob: Global<T>,
    o_ptr: Global<u64>,
    o_col: Global<u32>,
    o_prob: Global<T>,
    reward: Global<T>,
    alpha: Global<T>,
    out: GlobalMut<T>,
) {
    let (states, actions) = (states as usize, actions as usize);
    let l = thread::index_1d() as usize;
    if l < count as usize * states {
        let (j, s) = (picked.get(l / states) as usize, l % states);
        let a = chosen.get(j) as usize;
        let winner = (j * actions + a) * observations as usize;
        let row = s * actions + a;
        let (mut entry, end) = (t_ptr.get(row), t_ptr.get(row + 1));
        let mut sum = 0.0;
        while entry < end {
            let next = t_col.get(entry as usize) as usize;
            let (mut seen, all) = (o_ptr.get(a * states + next), o_ptr.get(a * states + next + 1));
            let mut expected = 0.0;
            while seen < all {
                let i = winners.get(winner + o_col.get(seen as usize) as usize) as usize;
                let value = alpha.get(i * states + next).to_f64();
                expected = math::fma(o_prob.get(seen as usize).to_f64(), value, expected);
                seen += 1;
            }
            sum = math::fma(t_prob.get(entry as usize).to_f64(), expected, sum);
            entry += 1;
        }
        out.set(l, T::from_f64(math::fma(gamma, sum, reward.get(row).to_f64())));
    }
}
