//! Projection: what each belief becomes, for each action and observation, in rows.
//!
//! *Mathematics*: row (j, a, o) holds p(s', o | bⱼ, a) = O(a, s', o) Σₛ T(s, a, s') bⱼ(s). Its number among all B·A·Ω is its
//! *code*, o·(B·A) + j·A + a: rows of one observation are neighbours, which tend to be zero in the same states. Rows of observations that cannot follow are left out: of M rows that are left, row r has the code
//! `row_code[r]`, and codes ascend.
//!
//! *Sparse rows* in three steps: [`count_entries`]; offsets and row numbers by two exclusive [scans](crate::primitives::scan)
//! ([`flag_rows`], [`compact_rows`]); [`fill_entries`]. A row has an entry for each way (s, s') to o that has a weight: s'
//! may be there more than once, which no inner product minds.
//!
//! *Dense rows*: [`densify`] beliefs; [`predict`] Σₛ T(s, a, s') bⱼ(s) for each belief and action, and what may be observed;
//! row numbers by a scan; [`expand`]. [`expand_beliefs`] makes
//! rows of the beliefs themselves.
//!
//! Transitions are compressed rows s·A + a, and for [`predict`] compressed columns a·S + s'; observations are compressed rows
//! a·S + s'; beliefs are compressed rows.

use super::product::{Factor, STEP, TILE};
use crate::device::{Global, GlobalMut, Real, atomic, kernel, math, thread, warp};

/// Entries of each row, by code.
///
/// *Thread mapping*: a warp per belief and action, a lane per state of the belief. *Safety*: `belief_ptr` has `beliefs + 1`
/// elements, `t_ptr` S·A + 1, `o_ptr` A·S + 1; states are below S, observations below Ω; `counts` has B·A·Ω zeros.
#[kernel]
pub fn count_entries(
    states: u32,
    actions: u32,
    beliefs: u32,
    belief_ptr: Global<u32>,
    belief_state: Global<u32>,
    t_ptr: Global<u64>,
    t_col: Global<u32>,
    o_ptr: Global<u64>,
    o_col: Global<u32>,
    counts: GlobalMut<u32>,
) {
    let (pair, pairs) = (thread::index_1d() as usize / 32, beliefs as usize * actions as usize);
    if pair >= pairs {
        return;
    }
    let (j, a) = (pair / actions as usize, pair % actions as usize);
    let end = belief_ptr.get(j + 1);
    let mut k = belief_ptr.get(j) + warp::lane_id();
    while k < end {
        let row = belief_state.get(k as usize) as usize * actions as usize + a;
        let (mut entry, entries) = (t_ptr.get(row), t_ptr.get(row + 1));
        while entry < entries {
            let row = a * states as usize + t_col.get(entry as usize) as usize;
            let (mut seen, all) = (o_ptr.get(row), o_ptr.get(row + 1));
            while seen < all {
                atomic::add((counts, o_col.get(seen as usize) as usize * pairs + pair), 1);
                seen += 1;
            }
            entry += 1;
        }
        k += 32;
    }
}

/// 1 for each code that has a row, else 0.
///
/// *Thread mapping*: one thread per code. *Safety*: `counts` and `flags` have `codes` elements.
#[kernel]
pub fn flag_rows(codes: u32, counts: Global<u32>, flags: GlobalMut<u32>) {
    let code = thread::index_1d() as usize;
    if code < codes as usize {
        flags.set(code, u32::from(counts.get(code) > 0));
    }
}

/// Codes of the rows, where their entries begin, and their number.
///
/// *Thread mapping*: one thread per code. *Safety*: `ranks` and `offsets` are exclusive prefix sums of flags and counts, of
/// `codes + 1` elements; `row_code` has one element per row, `row_ptr` one more, `rows` one.
#[kernel]
pub fn compact_rows(
    codes: u32,
    ranks: Global<u32>,
    offsets: Global<u32>,
    row_code: GlobalMut<u32>,
    row_ptr: GlobalMut<u32>,
    rows: GlobalMut<u32>,
) {
    let code = thread::index_1d() as usize;
    if code < codes as usize {
        let (row, next) = (ranks.get(code), ranks.get(code + 1));
        if next > row {
            row_code.set(row as usize, code as u32);
            row_ptr.set(row as usize, offsets.get(code));
        }
        if code + 1 == codes as usize {
            row_ptr.set(next as usize, offsets.get(code + 1));
            rows.set(0, next);
        }
    }
}

/// The entries of all rows: states s' and weights b(s) T(s, a, s') O(a, s', o).
///
/// *Thread mapping*: as in [`count_entries`]. Lanes go on together, from successor to successor and from observation to
/// observation; those that meet the same one take places one after the other. *Deterministic*: yes. *Safety*: as there;
/// `places`, the offsets of all codes, is used up; `col` and `weight` have as many elements as their last says.
#[kernel(T = [f32, f64])]
pub fn fill_entries<T: Real>(
    states: u32,
    actions: u32,
    beliefs: u32,
    belief_ptr: Global<u32>,
    belief_state: Global<u32>,
    belief_prob: Global<T>,
    t_ptr: Global<u64>,
    t_col: Global<u32>,
    t_prob: Global<T>,
    o_ptr: Global<u64>,
    o_col: Global<u32>,
    o_prob: Global<T>,
    places: GlobalMut<u32>,
    col: GlobalMut<u32>,
    weight: GlobalMut<T>,
) {
    let (pair, pairs) = (thread::index_1d() as usize / 32, beliefs as usize * actions as usize);
    if pair >= pairs {
        return;
    }
    let (j, a) = (pair / actions as usize, pair % actions as usize);
    let below = (1u32 << warp::lane_id()) - 1;
    let end = belief_ptr.get(j + 1);
    let mut chunk = belief_ptr.get(j);
    while chunk < end {
        let k = chunk + warp::lane_id();
        let (mut entry, mut entries, mut here) = (0, 0, T::ZERO);
        if k < end {
            let row = belief_state.get(k as usize) as usize * actions as usize + a;
            (entry, entries) = (t_ptr.get(row), t_ptr.get(row + 1));
            here = belief_prob.get(k as usize);
        }
        while warp::any(warp::FULL, entry < entries) {
            let (mut seen, mut all, mut next, mut there) = (0, 0, 0, T::ZERO);
            if entry < entries {
                next = t_col.get(entry as usize);
                there = here * t_prob.get(entry as usize);
                let row = a * states as usize + next as usize;
                (seen, all) = (o_ptr.get(row), o_ptr.get(row + 1));
            }
            while warp::any(warp::FULL, seen < all) {
                let code = if seen < all { o_col.get(seen as usize) } else { u32::MAX };
                let same = warp::match_any(warp::FULL, code);
                let rank = (same & below).count_ones();
                let place = (code as usize).wrapping_mul(pairs).wrapping_add(pair);
                let mut first = 0;
                if seen < all && rank == 0 {
                    first = places.get(place);
                    places.set(place, first + same.count_ones());
                }
                let first = warp::shuffle(warp::FULL, first, same.trailing_zeros());
                if seen < all {
                    col.set((first + rank) as usize, next);
                    weight.set((first + rank) as usize, there * o_prob.get(seen as usize));
                }
                // The next round may have another lane go on with a place.
                warp::sync_warp(warp::FULL);
                seen += 1;
            }
            entry += 1;
        }
        chunk += 32;
    }
}

/// Beliefs as dense rows of S elements.
///
/// *Thread mapping*: a block per belief, a thread per state of it. *Safety*: `belief_ptr` has an element per block and one
/// more; `dense` has S zeros per block.
#[kernel(T = [f32, f64])]
pub fn densify<T: Real>(
    states: u32,
    belief_ptr: Global<u32>,
    belief_state: Global<u32>,
    belief_prob: Global<T>,
    dense: GlobalMut<T>,
) {
    let j = thread::block_idx_x() as usize;
    let end = belief_ptr.get(j + 1);
    let mut k = belief_ptr.get(j) + thread::thread_idx_x();
    while k < end {
        dense.set(j * states as usize + belief_state.get(k as usize) as usize, belief_prob.get(k as usize));
        k += thread::block_dim_x();
    }
}

/// Beliefs `first…` as the rows of a product, and 1 for each step of a tile that is not all zeros.
///
/// *Thread mapping*: as in [`densify`]. *Safety*: `belief_ptr` has B + 1 elements, and there are `first` beliefs more than
/// blocks at least; `rows` has a row of `stride` ≥ S zeros per block; `used` is as in [`expand`].
#[kernel(T = [f32, f64], E = [f32, u16])]
pub fn expand_beliefs<T: Real, E: Factor>(
    first: u32,
    belief_ptr: Global<u32>,
    belief_state: Global<u32>,
    belief_prob: Global<T>,
    stride: u32,
    rows: GlobalMut<E>,
    steps: u32,
    used: GlobalMut<u8>,
) {
    let row = thread::block_idx_x() as usize;
    let j = first as usize + row;
    let end = belief_ptr.get(j + 1);
    let mut k = belief_ptr.get(j) + thread::thread_idx_x();
    while k < end {
        let state = belief_state.get(k as usize) as usize;
        let value = belief_prob.get(k as usize).to_f64();
        rows.set(row * stride as usize + state, E::of(E::BELIEF * value));
        let step = row / TILE * steps as usize + state / (E::PER_WORD * STEP);
        if used.get(step) == 0 {
            used.set(step, 1);
        }
        k += thread::block_dim_x();
    }
}

/// Beliefs that a thread of [`predict`] and [`expand`] takes, one after the other.
pub const TOGETHER: u32 = 4;

/// q(j, a, s') = Σₛ T(s, a, s') bⱼ(s), and 1 for each code that may be observed.
///
/// *Thread mapping*: one thread per action, s' and [`TOGETHER`] beliefs, which share what it reads of T; those that see the same
/// observation write the same, if it is not there yet. *Safety*: `dense` has B·S elements; `c_ptr` A·S + 1, columns of T; `o_ptr`
/// A·S + 1; `q` B·A·S; `flags` B·A·Ω zeros.
#[kernel(T = [f32, f64])]
pub fn predict<T: Real>(
    states: u32,
    actions: u32,
    beliefs: u32,
    dense: Global<T>,
    c_ptr: Global<u64>,
    c_row: Global<u32>,
    c_prob: Global<T>,
    o_ptr: Global<u64>,
    o_col: Global<u32>,
    q: GlobalMut<T>,
    flags: GlobalMut<u32>,
) {
    let (states, actions) = (states as usize, actions as usize);
    let (l, pairs) = (thread::index_1d() as usize, beliefs as usize * actions);
    let (group, column) = (l / (actions * states), l % (actions * states));
    if group < beliefs.div_ceil(TOGETHER) as usize {
        let (first, a, next) = (group * TOGETHER as usize, column / states, column % states);
        let count = (beliefs as usize - first).min(TOGETHER as usize);
        let (mut entry, end) = (c_ptr.get(column), c_ptr.get(column + 1));
        let mut sums = [0.0; TOGETHER as usize];
        while entry < end {
            let (from, prob) = (c_row.get(entry as usize) as usize, c_prob.get(entry as usize).to_f64());
            for (k, sum) in sums.iter_mut().enumerate() {
                if k < count {
                    *sum = math::fma(prob, dense.get((first + k) * states + from).to_f64(), *sum);
                }
            }
            entry += 1;
        }
        let (start, end) = (o_ptr.get(column), o_ptr.get(column + 1));
        for (k, &sum) in sums.iter().enumerate() {
            if k < count {
                let pair = (first + k) * actions + a;
                q.set(pair * states + next, T::from_f64(sum));
                let mut seen = if sum > 0.0 { start } else { end };
                while seen < end {
                    let code = o_col.get(seen as usize) as usize * pairs + pair;
                    if flags.get(code) == 0 {
                        flags.set(code, 1);
                    }
                    seen += 1;
                }
            }
        }
    }
}

/// Dense rows `first..first + count` of O(a, s', o) q(j, a, s'), and 1 for each step of a tile that is not all zeros.
///
/// *Thread mapping*: as in [`predict`]. *Safety*: as there; `ranks` are row numbers by code; `rows` has `count` rows of `stride`
/// ≥ S elements, all 0; `used` has `steps` zeros for each tile of [`TILE`] rows, one per step of [`STEP`] words.
#[kernel(T = [f32, f64], E = [f32, u16])]
pub fn expand<T: Real, E: Factor>(
    states: u32,
    actions: u32,
    beliefs: u32,
    q: Global<T>,
    o_ptr: Global<u64>,
    o_col: Global<u32>,
    o_prob: Global<T>,
    ranks: Global<u32>,
    first: u32,
    count: u32,
    stride: u32,
    rows: GlobalMut<E>,
    steps: u32,
    used: GlobalMut<u8>,
) {
    let (states, actions) = (states as usize, actions as usize);
    let (l, pairs) = (thread::index_1d() as usize, beliefs as usize * actions);
    let (group, column) = (l / (actions * states), l % (actions * states));
    if group < beliefs.div_ceil(TOGETHER) as usize {
        let (first_belief, a, next) = (group * TOGETHER as usize, column / states, column % states);
        let last = (first_belief + TOGETHER as usize).min(beliefs as usize);
        let (mut seen, end) = (o_ptr.get(column), o_ptr.get(column + 1));
        while seen < end {
            let (o, chance) = (o_col.get(seen as usize) as usize, o_prob.get(seen as usize).to_f64());
            let mut j = first_belief;
            while j < last {
                let pair = j * actions + a;
                let here = q.get(pair * states + next).to_f64();
                let row = if here > 0.0 { ranks.get(o * pairs + pair).wrapping_sub(first) } else { count };
                if row < count {
                    rows.set(row as usize * stride as usize + next, E::of(E::BELIEF * here * chance));
                    let step = row as usize / TILE * steps as usize + next / (E::PER_WORD * STEP);
                    if used.get(step) == 0 {
                        used.set(step, 1);
                    }
                }
                j += 1;
            }
            seen += 1;
        }
    }
}
