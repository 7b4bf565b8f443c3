//! From the winning vectors to the new ones: the best action of each belief, and its vector.
//!
//! *Mathematics*: b · gₐᵇ = b · rₐ + γ Σₒ maxᵢ p(·, o | b, a) · αᵢ requires no vector gₐᵇ. Only the best action's
//! vector is built:
//!
//! > gₐᵇ(s) = r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{i\*(b,a,o)}(s')
//!
//! An observation of probability 0 has no row; there i\* = 0, the lowest of equal vectors. The sum over o does not
//! depend on the state s from which s' is reached: [`expect`] computes it first, interleaved by beliefs, because
//! [`gather`] reads it wherever the transitions lead.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, block, kernel, math, thread, warp};
use warpkov_device::shared_array;

use super::model::Model;
use super::product::each;
use super::project::{PITCH, SIDE, SIDE_STATES, SIDE_THREADS, TOGETHER, side_by_side};
use crate::primitives::rows::Rows;

/// Σₒ maxᵢ p(·, o | b, a) · αᵢ for each belief and action, from predictions and winners.
///
/// - *Thread mapping*: a block per action and [`TOGETHER`] beliefs, which share the reads of O; a thread per s'.
/// - *Shared memory*: 32 words, static. *Barriers*: two per belief. *Deterministic*: yes.
/// - *Valid result in*: `scores`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `beliefs` | scalar | B ≥ 1 |
/// | `q` | B·A·S | from [`predict`](super::project::predict) |
/// | `winners` | B·A·Ω, by code | vectors, below n |
/// | `alpha` | n·S | reward |
/// | `scores` | B·A | reward |
#[kernel(
    T = [f32, f64],
    requires(
        beliefs >= 1,
        q.len() >= beliefs * model.actions * model.states,
        scores.len() >= beliefs * model.actions,
        shape.grid == beliefs.div_ceil(TOGETHER) * model.actions,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn evaluate_actions<T: Real>(
    model: Model<T>,
    beliefs: u32,
    q: Global<T>,
    winners: Global<u32>,
    alpha: Global<T>,
    scores: GlobalMut<f64>,
) {
    let Model { states, actions, observations: o, .. } = model;
    let pairs = beliefs * actions;
    let (group, a) = (thread::block_idx_x() / actions, thread::block_idx_x() % actions);
    // Behind the last belief, repeat it.
    let pair_of = [0, 1, 2, 3].map(|k| (group * TOGETHER + k).min(beliefs - 1) * actions + a);
    let mut sums = [0.0; TOGETHER as usize];
    let mut next = thread::thread_idx_x();
    while next < states {
        let column = a as usize * states as usize + next as usize;
        // Independent loads.
        let (mut seen, all) = (o.ptr.get(column), o.ptr.get(column + 1));
        let at = |row: u32| row as usize * states as usize + next as usize;
        let here = pair_of.map(|pair| q.get(at(pair)));
        if here.iter().any(|&here| here > T::ZERO) {
            let mut expected = [0.0; TOGETHER as usize];
            while seen < all {
                let (first, chance) = (o.col.get(seen) * pairs, o.prob.get(seen).to_f64());
                let winner_of = pair_of.map(|pair| winners.get(first + pair));
                // Where p is 0, read vector 0, which other lanes read as well.
                let values = [0, 1, 2, 3].map(|k| alpha.get(at(if here[k] > T::ZERO { winner_of[k] } else { 0 })));
                expected = [0, 1, 2, 3].map(|k| math::fma(chance, values[k].to_f64(), expected[k]));
                seen += 1;
            }
            sums = [0, 1, 2, 3].map(|k| math::fma(here[k].to_f64(), expected[k], sums[k]));
        }
        next += thread::block_size();
    }
    each!(K in [0 1 2 3] {
        let sum = block::reduce(sums[K], 0.0, |x, y| x + y);
        if thread::thread_idx_x() == 0 {
            scores.set(pair_of[K], sum);
        }
    });
}

/// b · gₐᵇ for each belief and action: b · rₐ + γ Σ of `terms` scores.
///
/// - *Thread mapping*: a block per belief and action; a thread per state of the belief, then per term.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes. *Valid result in*: `values`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `beliefs` | B × S, [`Rows`] | probability; columns below S |
/// | `terms` | scalar | terms per pair |
/// | `scores` | `terms` × B·A | reward |
/// | `values` | B·A | reward |
#[kernel(
    T = [f32, f64],
    requires(
        beliefs.holds(shape.grid / model.actions),
        scores.len() >= terms * shape.grid,
        values.len() >= shape.grid,
        shape.grid % model.actions == 0,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn belief_values<T: Real>(
    model: Model<T>,
    beliefs: Rows<T, u32>,
    terms: u32,
    scores: Global<f64>,
    values: GlobalMut<f64>,
) {
    let Model { actions, gamma, reward, .. } = model;
    let (pair, pairs) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
    let (j, a) = (pair / actions as usize, pair % actions as usize);
    let end = beliefs.ptr.get(j + 1);
    let mut k = beliefs.ptr.get(j) + thread::thread_idx_x();
    let mut now = 0.0;
    while k < end {
        let row = beliefs.col.get(k) as usize * actions as usize + a;
        now = math::fma(beliefs.prob.get(k).to_f64(), reward.get(row).to_f64(), now);
        k += thread::block_size();
    }
    let mut later = 0.0;
    let mut term = thread::thread_idx_x();
    while term < terms {
        later += scores.get(term as usize * pairs + pair);
        term += thread::block_size();
    }
    let value = block::reduce(math::fma(gamma, later, now), 0.0, |x, y| x + y);
    if thread::thread_idx_x() == 0 {
        values.set(pair, value);
    }
}

/// Selected beliefs, and the best actions of all beliefs.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `count` | scalar | selected beliefs, ≥ 1 |
/// | `picked` | `count` | beliefs, below B |
/// | `chosen` | B | actions, below A |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(count >= 1, picked.len() >= count))]
pub struct Picks {
    /// Number of selected beliefs.
    pub count: u32,
    /// Indices of the selected beliefs.
    pub picked: Global<u32>,
    /// Best action of each belief.
    pub chosen: Global<u32>,
}

/// v(k, s') = Σₒ O(a, s', o) α_{i\*(b,a,o)}(s') for the selected beliefs b = `picked`(k) and their best actions a,
/// interleaved as by [`densify`](super::project::densify): at (⌊k/32⌋·S + s')·w + k mod 32, with w from
/// [`side_by_side`].
///
/// - *Thread mapping*: a block per group of 32 beliefs and [`SIDE_STATES`] s'; first a warp per belief and a lane per
///   s', then the transpose.
/// - *Shared memory*: 1056 words, static: a tile to transpose beliefs × s'. *Barriers*: one. *Deterministic*: yes.
/// - *Valid result in*: `expected`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `beliefs` | scalar | B |
/// | `picks` | [`Picks`] | |
/// | `winners` | B·A·Ω, by code | vectors, below n |
/// | `alpha` | n·S | reward |
/// | `expected` | ⌈`picks.count`/32⌉·S·w | reward |
#[kernel(
    T = [f32, f64],
    requires(
        picks.chosen.len() >= beliefs,
        expected.len() >= picks.count.div_ceil(SIDE) * model.states * side_by_side(picks.count),
        shape.grid == picks.count.div_ceil(SIDE) * model.states.div_ceil(SIDE_STATES),
        shape.dimensions == 1,
    ),
    block = SIDE_THREADS
)]
pub fn expect<T: Real>(
    model: Model<T>,
    beliefs: u32,
    picks: Picks,
    winners: Global<u32>,
    alpha: Global<T>,
    expected: GlobalMut<T>,
) {
    let (Model { states, actions, observations: o, .. }, Picks { count, picked, chosen }) = (model, picks);
    let tile = shared_array!(expect_tile: T; 1056);
    let tiles = states.div_ceil(SIDE_STATES);
    let (group, from) = (thread::block_idx_x() / tiles, thread::block_idx_x() % tiles * SIDE_STATES);
    let (in_group, side) = (SIDE.min(count - group * SIDE), side_by_side(count));
    let (lane, next) = (warp::lane_id(), from + warp::lane_id());
    let mut own = warp::warp_id();
    while own < in_group {
        let j = picked.get(group * SIDE + own);
        let a = chosen.get(j);
        let pair = j * actions + a;
        if next < states {
            let column = a as usize * states as usize + next as usize;
            let (mut seen, all) = (o.ptr.get(column), o.ptr.get(column + 1));
            let mut sum = 0.0;
            while seen < all {
                let i = winners.get(o.col.get(seen) * beliefs * actions + pair);
                let value = alpha.get(i as usize * states as usize + next as usize).to_f64();
                sum = math::fma(o.prob.get(seen).to_f64(), value, sum);
                seen += 1;
            }
            tile.set(own * PITCH + lane, T::from_f64(sum));
        }
        own += SIDE_THREADS / warp::SIZE;
    }
    thread::sync_threads();
    let mut own = warp::warp_id();
    while own < SIDE_STATES.min(states - from) {
        if lane < in_group {
            let row = group as usize * states as usize + (from + own) as usize;
            expected.set(row * side as usize + lane as usize, tile.get(lane * PITCH + own));
        }
        own += SIDE_THREADS / warp::SIZE;
    }
}

/// The vectors of the selected beliefs and their best actions: r(s, a) + γ Σ_{s'} T(s, a, s') v(k, s').
///
/// - *Thread mapping*: a block per group of 32 beliefs and [`SIDE_STATES`] s, ordered by group, so that v of a group
///   stays in the cache. First a warp per s and a lane per belief: beliefs with the same action read the same rows,
///   coalesced. Then the transpose.
/// - *Shared memory*: 1056 words, static: a tile to transpose s × beliefs. *Barriers*: one. *Deterministic*: yes.
/// - *Valid result in*: `out`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `picks` | [`Picks`] | |
/// | `expected` | ⌈`picks.count`/32⌉·S·w | from [`expect`] |
/// | `out` | `picks.count`·S | reward |
#[kernel(
    T = [f32, f64],
    requires(
        expected.len() >= picks.count.div_ceil(SIDE) * model.states * side_by_side(picks.count),
        out.len() >= picks.count * model.states,
        shape.grid == picks.count.div_ceil(SIDE) * model.states.div_ceil(SIDE_STATES),
        shape.dimensions == 1,
    ),
    block = SIDE_THREADS
)]
pub fn gather<T: Real>(model: Model<T>, picks: Picks, expected: Global<T>, out: GlobalMut<T>) {
    let Model { states, actions, gamma, transitions: t, reward, .. } = model;
    let Picks { count, picked, chosen } = picks;
    let tile = shared_array!(gather_tile: T; 1056);
    let tiles = states.div_ceil(SIDE_STATES);
    let (group, from) = (thread::block_idx_x() / tiles, thread::block_idx_x() % tiles * SIDE_STATES);
    let (in_group, side) = (SIDE.min(count - group * SIDE), side_by_side(count));
    let lane = warp::lane_id();
    if lane < in_group {
        let a = chosen.get(picked.get(group * SIDE + lane)) as usize;
        let mut own = warp::warp_id();
        while own < SIDE_STATES.min(states - from) {
            let row = (from + own) as usize * actions as usize + a;
            let (mut entry, end) = (t.ptr.get(row), t.ptr.get(row + 1));
            let mut sum = 0.0;
            while entry < end {
                let next = group as usize * states as usize + t.col.get(entry) as usize;
                let after = expected.get(next * side as usize + lane as usize).to_f64();
                sum = math::fma(t.prob.get(entry).to_f64(), after, sum);
                entry += 1;
            }
            tile.set(own * PITCH + lane, T::from_f64(math::fma(gamma, sum, reward.get(row).to_f64())));
            own += SIDE_THREADS / warp::SIZE;
        }
    }
    thread::sync_threads();
    let mut own = warp::warp_id();
    while own < in_group {
        if from + lane < states {
            let k = (group * SIDE + own) as usize;
            out.set(k * states as usize + (from + lane) as usize, tile.get(lane * PITCH + own));
        }
        own += SIDE_THREADS / warp::SIZE;
    }
}
