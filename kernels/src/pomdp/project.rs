//! Projection: the successors of each belief, for each action and observation, as rows of a matrix.
//!
//! *Mathematics*: row (j, a, o) holds p(s', o | bⱼ, a) = O(a, s', o) Σₛ T(s, a, s') bⱼ(s). Its *code* among all B·A·Ω
//! rows is o·(B·A) + j·A + a: rows of one observation are neighbours, which tend to be zero in the same states.
//! Observations of probability 0 have no row. Of the M remaining rows, row r has the code `row_code[r]`, and codes
//! ascend.
//!
//! *Sparse rows* take three steps: [`count_entries`]; offsets and row numbers by two exclusive
//! [scans](crate::primitives::scan) with [`flag_rows`] and [`compact_rows`]; [`fill_entries`]. A row has one entry per
//! path (s, s') to o of positive weight; s' may thus occur more than once, which an inner product tolerates.
//!
//! *Dense rows*: [`densify`] the beliefs; [`predict`] Σₛ T(s, a, s') bⱼ(s) for each belief and action, and flag the
//! possible observations; number the rows by a scan; [`expand`]. [`expand_beliefs`] makes rows of the beliefs
//! themselves. Dense beliefs are interleaved in groups of 32: transitions scatter over the states, and one access then
//! reads a state's probability in 32 beliefs, for the cache traffic of one. Predictions and rows are stored belief by
//! belief, s' fastest, as the product needs them.
//!
//! Transitions are compressed rows s·A + a, and for [`predict`] compressed columns a·S + s'; observations are
//! compressed rows a·S + s'; beliefs are compressed rows.

use warpkov_device::device::safe::{In, Len, Out};
use warpkov_device::device::{Global, GlobalMut, Parameter, Real, atomic, kernel, math, thread, warp};
use warpkov_device::shared_array;

use super::model::Model;
use super::product::{Factor, STEP, TILE};
use crate::primitives::rows::Rows;

/// Number of entries of each row, by code.
///
/// - *Thread mapping*: a warp per belief and action, a lane per state of the belief.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes: integer sums.
/// - *Valid result in*: `counts`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `count` | scalar | B |
/// | `beliefs` | B × S, [`Rows`] | probability; columns below S |
/// | `counts` | B·A·Ω | 0 before the launch |
#[kernel(
    T = [f32, f64],
    requires(
        beliefs.holds(count),
        shape.threads >= 32 * count * model.actions,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn count_entries<T: Real>(model: Model<T>, count: u32, beliefs: Rows<T, u32>, counts: GlobalMut<u32>) {
    let Model { states, actions, transitions: t, observations: o, .. } = model;
    let (pair, pairs) = (thread::index_1d() as usize / 32, count as usize * actions as usize);
    if pair >= pairs {
        return;
    }
    let (j, a) = (pair / actions as usize, pair % actions as usize);
    let end = beliefs.ptr.get(j + 1);
    let mut k = beliefs.ptr.get(j) + warp::lane_id();
    while k < end {
        let row = beliefs.col.get(k) as usize * actions as usize + a;
        let (mut entry, entries) = (t.ptr.get(row), t.ptr.get(row + 1));
        while entry < entries {
            let row = a * states as usize + t.col.get(entry) as usize;
            let (mut seen, all) = (o.ptr.get(row), o.ptr.get(row + 1));
            while seen < all {
                atomic::add((counts, o.col.get(seen) as usize * pairs + pair), 1);
                seen += 1;
            }
            entry += 1;
        }
        k += 32;
    }
}

/// 1 for each code that has entries, else 0.
///
/// - *Thread mapping*: one thread per code.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `flags`.
#[kernel(safe, requires(shape.threads >= codes))]
pub fn flag_rows<'c>(codes: Len<'c>, counts: In<'c, u32>, flags: Out<'c, u32>) {
    if let Some(code) = codes.element() {
        flags.set(&code, u32::from(counts.get(&code) > 0));
    }
}

/// Code and first entry of each row, and the number of rows.
///
/// - *Thread mapping*: one thread per code.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes.
/// - *Valid result in*: `row_code`, `row_ptr` and `rows`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `codes` | scalar | B·A·Ω, ≥ 1 |
/// | `ranks` | `codes` + 1 | exclusive prefix sums of the flags |
/// | `offsets` | `codes` + 1 | exclusive prefix sums of the counts |
/// | `row_code` | M | codes, ascending |
/// | `row_ptr` | M + 1 | entries |
/// | `rows` | 1 | M |
#[kernel(
    requires(
        codes >= 1,
        ranks.len() >= codes + 1,
        offsets.len() >= codes + 1,
        rows.len() >= 1,
        shape.threads >= codes,
        shape.dimensions == 1,
    )
)]
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
            row_code.set(row, code as u32);
            row_ptr.set(row, offsets.get(code));
        }
        if code + 1 == codes as usize {
            row_ptr.set(next, offsets.get(code + 1));
            rows.set(0, next);
        }
    }
}

/// The entries of all rows: states s' and weights b(s) T(s, a, s') O(a, s', o).
///
/// - *Thread mapping*: a warp per belief and action, a lane per state of the belief. The lanes advance in lockstep from
///   successor to successor and from observation to observation. Lanes with the same observation get consecutive
///   positions in its row.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `col` and `weight`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `count` | scalar | B |
/// | `beliefs` | B × S, [`Rows`] | probability; columns below S |
/// | `places` | B·A·Ω or more | offsets of all codes; the kernel increments them |
/// | `col` | entries | states |
/// | `weight` | entries | probability |
#[kernel(
    T = [f32, f64],
    requires(
        beliefs.holds(count),
        shape.threads >= 32 * count * model.actions,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn fill_entries<T: Real>(
    model: Model<T>,
    count: u32,
    beliefs: Rows<T, u32>,
    places: GlobalMut<u32>,
    col: GlobalMut<u32>,
    weight: GlobalMut<T>,
) {
    let Model { states, actions, transitions: t, observations: o, .. } = model;
    let (pair, pairs) = (thread::index_1d() as usize / 32, count as usize * actions as usize);
    if pair >= pairs {
        return;
    }
    let (j, a) = (pair / actions as usize, pair % actions as usize);
    let below = (1u32 << warp::lane_id()) - 1;
    let end = beliefs.ptr.get(j + 1);
    let mut chunk = beliefs.ptr.get(j);
    while chunk < end {
        let k = chunk + warp::lane_id();
        let (mut entry, mut entries, mut here) = (0, 0, T::ZERO);
        if k < end {
            let row = beliefs.col.get(k) as usize * actions as usize + a;
            (entry, entries) = (t.ptr.get(row), t.ptr.get(row + 1));
            here = beliefs.prob.get(k);
        }
        while warp::any(warp::FULL, entry < entries) {
            let (mut seen, mut all, mut next, mut there) = (0, 0, 0, T::ZERO);
            if entry < entries {
                next = t.col.get(entry);
                there = here * t.prob.get(entry);
                let row = a * states as usize + next as usize;
                (seen, all) = (o.ptr.get(row), o.ptr.get(row + 1));
            }
            while warp::any(warp::FULL, seen < all) {
                let code = if seen < all { o.col.get(seen) } else { u32::MAX };
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
                    col.set(first + rank, next);
                    weight.set(first + rank, there * o.prob.get(seen));
                }
                // In the next round another lane may read and increment the same position.
                warp::sync_warp(warp::FULL);
                seen += 1;
            }
            entry += 1;
        }
        chunk += 32;
    }
}

/// Beliefs per interleaved group of a dense array.
pub const SIDE: u32 = 32;

/// Width w of an interleaved group of `beliefs` beliefs: a multiple of 4, at most [`SIDE`].
#[inline(always)]
#[must_use]
pub fn side_by_side(beliefs: u32) -> u32 {
    SIDE.min(4 * beliefs.div_ceil(4))
}

/// Threads per block of the kernels on interleaved beliefs.
pub const SIDE_THREADS: u32 = 256;

/// States per block of [`densify`].
pub const DENSIFY_STATES: u32 = 128;

/// States per block of the kernels that transpose between states and interleaved beliefs.
pub const SIDE_STATES: u32 = 32;

/// Row pitch of a tile in shared memory: one more than the number of banks, so that a warp reads rows and columns
/// without bank conflicts.
pub(super) const PITCH: u32 = 33;

/// Beliefs as a dense array, interleaved in groups of 32: bⱼ(s) at (⌊j/32⌋·S + s)·w + j mod 32, with w from
/// [`side_by_side`]. The last group is padded with zeros.
///
/// - *Thread mapping*: a block per group and [`DENSIFY_STATES`] states, a warp per four of its beliefs. The warp first
///   finds, by binary search in parallel, the entries of each belief within these states; then a lane copies an entry.
/// - *Shared memory*: 4224 words, static: a tile of states × beliefs, from which complete rows of beliefs are written.
/// - *Barriers*: two. *Deterministic*: yes. *Valid result in*: `dense`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `count` | scalar | B |
/// | `beliefs` | B × S, [`Rows`] | columns ascend in each row |
/// | `dense` | ⌈B/32⌉·S·w | probability |
#[kernel(
    T = [f32, f64],
    requires(
        beliefs.holds(count),
        dense.len() >= count.div_ceil(SIDE) * states * side_by_side(count),
        shape.grid == count.div_ceil(SIDE) * states.div_ceil(DENSIFY_STATES),
        shape.dimensions == 1,
    ),
    block = SIDE_THREADS
)]
pub fn densify<T: Real>(states: u32, count: u32, beliefs: Rows<T, u32>, dense: GlobalMut<T>) {
    let tile = shared_array!(densify_tile: T; 4224);
    let tiles = states.div_ceil(DENSIFY_STATES);
    let (group, from) = (thread::block_idx_x() / tiles, thread::block_idx_x() % tiles * DENSIFY_STATES);
    let (lane, first, side) = (warp::lane_id(), 4 * warp::warp_id(), side_by_side(count));
    let mut place = thread::thread_idx_x();
    while place < tile.len() {
        tile.set(place, T::ZERO);
        place += SIDE_THREADS;
    }
    // Lanes 0 to 3 find the first entries, lanes 4 to 7 the ends; the other lanes repeat them.
    let (j, bound) = ((group * SIDE + first + lane % 4) as usize, from + lane / 4 % 2 * DENSIFY_STATES);
    let (mut entry, mut end) = (0, 0);
    if j < count as usize {
        (entry, end) = (beliefs.ptr.get(j), beliefs.ptr.get(j + 1));
    }
    while entry < end {
        let middle = entry + (end - entry) / 2;
        if beliefs.col.get(middle) < bound {
            entry = middle + 1;
        } else {
            end = middle;
        }
    }
    let entries = [0, 1, 2, 3].map(|k| (warp::shuffle(warp::FULL, entry, k), warp::shuffle(warp::FULL, entry, 4 + k)));
    thread::sync_threads();
    let mut passed = lane;
    while passed < DENSIFY_STATES {
        // Independent loads.
        let found = entries.map(|(start, end)| {
            let entry = (start + passed) as usize;
            let here = start + passed < end;
            if here { Some((beliefs.col.get(entry), beliefs.prob.get(entry))) } else { None }
        });
        for (k, &found) in found.iter().enumerate() {
            if let Some((state, prob)) = found {
                tile.set((state - from) * PITCH + first + k as u32, prob);
            }
        }
        passed += warp::SIZE;
    }
    thread::sync_threads();
    let mut s = warp::warp_id();
    while s < DENSIFY_STATES.min(states - from) {
        let row = group as usize * states as usize + (from + s) as usize;
        if lane < side {
            dense.set(row * side as usize + lane as usize, tile.get(s * PITCH + lane));
        }
        s += SIDE_THREADS / warp::SIZE;
    }
}

/// Rows of the dense product.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | elements, ≥ S |
/// | `rows` | rows × `stride` | probability · [`BELIEF`](Factor::BELIEF); 0 before they are filled |
/// | `steps` | scalar | steps of [`STEP`] words per row |
/// | `used` | ⌈rows / [`TILE`]⌉ × `steps` | 1 or 0; 0 before the rows are filled |
#[derive(Clone, Copy, Parameter)]
#[parameter(holds(count), requires(rows.len() >= count * stride, used.len() >= count.div_ceil(TILE) * steps))]
pub struct DenseRows<E: Factor> {
    /// Distance between consecutive rows.
    pub stride: u32,
    /// Elements of all rows.
    pub rows: GlobalMut<E>,
    /// Steps per row.
    pub steps: u32,
    /// Whether a step of a tile of rows has a nonzero element.
    pub used: GlobalMut<u8>,
}

/// Beliefs from `first` on as the rows of a product, and a flag for each step of a tile with a nonzero element.
///
/// - *Thread mapping*: a block per belief, a thread per entry.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes.
/// - *Valid result in*: `dense.rows` and `dense.used`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `first` | scalar | belief of row 0 |
/// | `beliefs` | `first` + blocks rows or more, [`Rows`] | columns below S |
/// | `dense` | [`DenseRows`], one row per block | zeros |
///
/// *Launch*: one block per row.
#[kernel(
    T = [f32, f64], E = [f32, u16],
    requires(
        beliefs.holds(first + shape.grid),
        dense.holds(shape.grid),
        shape.dimensions == 1,
    )
)]
pub fn expand_beliefs<T: Real, E: Factor>(first: u32, beliefs: Rows<T, u32>, dense: DenseRows<E>) {
    let DenseRows { stride, rows, steps, used } = dense;
    let row = thread::block_idx_x() as usize;
    let j = first as usize + row;
    let end = beliefs.ptr.get(j + 1);
    let mut k = beliefs.ptr.get(j) + thread::thread_idx_x();
    while k < end {
        let state = beliefs.col.get(k) as usize;
        let value = beliefs.prob.get(k).to_f64();
        rows.set(row * stride as usize + state, E::of(E::BELIEF * value));
        let step = row / TILE * steps as usize + state / (E::PER_WORD * STEP);
        if used.peek(step) == 0 {
            used.mark(step, 1);
        }
        k += thread::block_dim_x();
    }
}

/// q(j, a, s') = Σₛ T(s, a, s') bⱼ(s) at (j·A + a)·S + s', and 1 for each code of positive probability.
///
/// - *Thread mapping*: a block per group of 32 beliefs, action and [`SIDE_STATES`] s', ordered by group, so that the
///   beliefs of a group stay in the cache. First a thread per s' and four beliefs: eight threads read the 128 bytes
///   (f32) of a predecessor's row. Then a warp per belief, a lane per s'. Lanes that see the same observation write the
///   same flag, unless it is already set.
/// - *Shared memory*: 1056 words, static: a tile to transpose beliefs × s'. *Barriers*: one. *Deterministic*: yes.
/// - *Valid result in*: `q` and `flags`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `beliefs` | scalar | B |
/// | `dense` | ⌈B/32⌉·S·w, aligned to four elements | from [`densify`] |
/// | `q` | B·A·S | probability |
/// | `flags` | B·A·Ω | 0 before the launch |
#[kernel(
    T = [f32, f64],
    requires(
        dense.len() >= beliefs.div_ceil(SIDE) * model.states * side_by_side(beliefs),
        q.len() >= beliefs * model.actions * model.states,
        shape.grid == beliefs.div_ceil(SIDE) * model.actions * model.states.div_ceil(SIDE_STATES),
        shape.dimensions == 1,
    ),
    block = SIDE_THREADS
)]
pub fn predict<T: Real>(model: Model<T>, beliefs: u32, dense: Global<T>, q: GlobalMut<T>, flags: GlobalMut<u32>) {
    let Model { states, actions, predecessors: c, observations: o, .. } = model;
    let tile = shared_array!(predict_tile: T; 1056);
    let (tiles, block) = (states.div_ceil(SIDE_STATES), thread::block_idx_x());
    let (group, a, from) = (block / (actions * tiles), block / tiles % actions, block % tiles * SIDE_STATES);
    let (own, four, fours) = (thread::thread_idx_x() / 8, thread::thread_idx_x() % 8, side_by_side(beliefs) / 4);
    let column = |next: u32| a as usize * states as usize + next as usize;
    let mut sums = [0.0; 4];
    if from + own < states && four < fours {
        let (mut entry, end) = (c.ptr.get(column(from + own)), c.ptr.get(column(from + own) + 1));
        while entry < end {
            let row = group as usize * states as usize + c.col.get(entry) as usize;
            let prob = c.prob.get(entry).to_f64();
            let here = dense.get4(row * fours as usize + four as usize);
            sums = [0, 1, 2, 3].map(|k| math::fma(prob, here[k].to_f64(), sums[k]));
            entry += 1;
        }
    }
    for (k, &sum) in sums.iter().enumerate() {
        tile.set((4 * four + k as u32) * PITCH + own, T::from_f64(sum));
    }
    thread::sync_threads();
    let (lane, next) = (warp::lane_id(), from + warp::lane_id());
    if next < states {
        let (start, end) = (o.ptr.get(column(next)), o.ptr.get(column(next) + 1));
        let mut own = warp::warp_id();
        while own < SIDE.min(beliefs - group * SIDE) {
            let (value, pair) = (tile.get(own * PITCH + lane), (group * SIDE + own) * actions + a);
            q.set(pair as usize * states as usize + next as usize, value);
            let mut seen = if value > T::ZERO { start } else { end };
            while seen < end {
                let code = (o.col.get(seen) * beliefs * actions + pair) as usize;
                if flags.peek(code) == 0 {
                    flags.mark(code, 1);
                }
                seen += 1;
            }
            own += SIDE_THREADS / warp::SIZE;
        }
    }
}

/// Beliefs per thread of [`expand`]; they share the reads of O.
pub const TOGETHER: u32 = 4;

/// Dense rows `first..first + count` of O(a, s', o) q(j, a, s'), and a flag for each step of a tile with a nonzero
/// element.
///
/// - *Thread mapping*: a block per [`TOGETHER`] beliefs, action and as many s' as it has threads, ordered by group of
///   beliefs.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes.
/// - *Valid result in*: `dense.rows` and `dense.used`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `beliefs` | scalar | B |
/// | `q` | B·A·S | from [`predict`] |
/// | `ranks` | B·A·Ω | row of each code |
/// | `first`, `count` | scalar | rows |
/// | `dense` | [`DenseRows`], `count` rows | zeros |
#[kernel(
    T = [f32, f64], E = [f32, u16],
    requires(
        beliefs >= 1,
        q.len() >= beliefs * model.actions * model.states,
        dense.holds(count),
        shape.grid == beliefs.div_ceil(TOGETHER) * model.actions * model.states.div_ceil(shape.block),
        shape.dimensions == 1,
    )
)]
pub fn expand<T: Real, E: Factor>(
    model: Model<T>,
    beliefs: u32,
    q: Global<T>,
    ranks: Global<u32>,
    first: u32,
    count: u32,
    dense: DenseRows<E>,
) {
    let Model { states, actions, observations: o, .. } = model;
    let DenseRows { stride, rows, steps, used } = dense;
    let (block, tiles) = (thread::block_idx_x(), states.div_ceil(thread::block_dim_x()));
    let (group, a) = (block / (actions * tiles), block / tiles % actions);
    let next = block % tiles * thread::block_dim_x() + thread::thread_idx_x();
    if next < states {
        let column = a as usize * states as usize + next as usize;
        // Behind the last belief, repeat it.
        let pair_of = [0, 1, 2, 3].map(|k| (group * TOGETHER + k).min(beliefs - 1) * actions + a);
        // Independent loads.
        let here = pair_of.map(|pair| q.get(pair as usize * states as usize + next as usize));
        let (mut seen, end) = (o.ptr.get(column), o.ptr.get(column + 1));
        while seen < end {
            let (o, chance) = (o.col.get(seen), o.prob.get(seen).to_f64());
            let rank_of = pair_of.map(|pair| ranks.get(o * beliefs * actions + pair));
            // Row index `count` means: not among these rows.
            let row_of =
                [0, 1, 2, 3].map(|k| if here[k] > T::ZERO { rank_of[k].wrapping_sub(first).min(count) } else { count });
            let step_of = row_of.map(|row| row / TILE as u32 * steps + next / (E::PER_WORD * STEP) as u32);
            let used_of = [0, 1, 2, 3].map(|k| if row_of[k] < count { used.peek(step_of[k]) } else { 0 });
            for (k, &row) in row_of.iter().enumerate() {
                if row < count {
                    let value = E::BELIEF * here[k].to_f64() * chance;
                    rows.set(row as usize * stride as usize + next as usize, E::of(value));
                    if used_of[k] == 0 {
                        used.mark(step_of[k], 1);
                    }
                }
            }
            seen += 1;
        }
    }
}
