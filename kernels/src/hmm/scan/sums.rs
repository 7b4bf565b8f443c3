//! Chunks in (+, ·): their operators, their initial vectors p and their final vectors v.

use warpkov_device::device::{Global, GlobalMut, Real, Word, block, kernel, mma, shared, thread, warp};

use crate::hmm::model::{Chains, Model, NewOperators, Operators, Sequences};
use crate::hmm::{Ahead, Doubt, ground, grounded, high, normal, power, relied, scale, top};

/// Threads per block of [`chunk_operators`].
pub const THREADS: u32 = 128;

/// Dynamic shared memory per block of [`chunk_operators`], in bytes.
#[must_use]
pub const fn operators_shared(tiles: usize) -> u32 {
    8 * 64 * (tiles * tiles) as u32
}

/// Groups of 8 rows per block of [`chunk_operators`].
pub const GROUPS: u32 = 2 * THREADS / 32;

/// Offset that makes exponents comparable as unsigned integers.
const MIDDLE: i32 = 1 << 30;

/// Exponent of x · 2^`exponent`, plus [`MIDDLE`]; 0 if x is 0.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn order(x: f64, exponent: i32) -> u32 {
    if x > 0.0 { (MIDDLE + exponent + (high(x) >> 20) as i32 - 1023) as u32 } else { 0 }
}

/// Whether an element of p counts as 0, where the largest is near 1. The threshold is far below any element that a
/// sequence not in doubt relies on.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn vanishes<T: Word>(x: f64) -> bool {
    x < power(if T::WIDE { -1000 } else { -100 })
}

/// Exponent of a row that is in doubt.
const IN_DOUBT: f64 = f64::INFINITY;

/// x · 2^k, or 0 on underflow.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn times_power(x: f64, k: i32) -> f64 {
    let power = |k: i32| f64::from_bits(((1023 + k) as u64) << 52);
    let k = k.clamp(-2000, 2000);
    x * power(k / 2) * power(k - k / 2)
}

/// Q of each chunk: each row as numbers, scaled as α̂ · 2^−[`top`], and an exponent of two; the exponent is ∞ if the
/// row is in doubt.
///
/// - *Mathematics*: Q_c = diag(b(o₁)) A diag(b(o₂)) A … diag(b(o_L)) A.
/// - *Thread mapping*: a warp per 16 rows, on tensor cores; the rows may belong to two chunks; `block_idx_y` is the
///   model. In a tile of D, lane 4g + t holds columns 2t and 2t + 1, which serve as columns t and t + 4 of the next A:
///   input and output have the same layout.
/// - *Shared memory*: [`operators_shared`] bytes, dynamic: A in the order in which lanes read it. *Barriers*: one.
/// - *Deterministic*: yes; the bits of a chunk do not depend on the other chunks. *Valid result in*: `operators`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] of chunks | `lengths` as in [`scan`](super) |
/// | `model` | [`Model`], stride 8·`TILES` | |
/// | `states` | scalar | N ≤ 8·`TILES` |
/// | `until` | scalar | steps per chunk, ≥ 1 |
/// | `operators` | [`NewOperators`], stride 8·`TILES` | |
#[kernel(
    T = [f32, f64], TILES = [1, 2, 4, 8],
    requires(
        model.holds(shape.grid.y, 8 * TILES),
        states <= 8 * TILES,
        until >= 1,
        operators.holds(shape.grid.y, sequences.count, 8 * TILES),
        shape.grid.x == (sequences.count * states.div_ceil(8)).div_ceil(GROUPS),
        shape.shared >= operators_shared(TILES),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = THREADS
)]
pub fn chunk_operators<T: Real, const TILES: usize>(
    sequences: Sequences,
    model: Model<T>,
    states: u32,
    until: u32,
    operators: NewOperators,
) {
    let Sequences { count: chunks, lengths, base, symbol, .. } = sequences;
    let Model { symbols, transitions, table, .. } = model;
    let NewOperators { values: operators, scales: exponents } = operators;
    let (stride, model) = (8 * TILES, thread::block_idx_y() as usize);
    let (g, t) = ((warp::lane_id() / 4) as usize, (warp::lane_id() % 4) as usize);
    let tiles = shared::dynamic_shared_mem::<f64>();
    let mut at = thread::thread_idx_x();
    while at < (32 * TILES * TILES) as u32 {
        let (tile, lane) = ((at / 32) as usize, (at % 32) as usize);
        let (i, j) = (8 * (tile / TILES) + 2 * (lane % 4), 8 * (tile % TILES) + lane / 4);
        let first = (model * stride + i) * stride + j;
        tiles.set(2 * at, transitions.get(first).to_f64());
        tiles.set(2 * at + 1, transitions.get(first + stride).to_f64());
        at += THREADS;
    }
    thread::sync_threads();

    let groups = states.div_ceil(8);
    let unit = thread::block_idx_x() * GROUPS + 2 * warp::warp_id();
    if unit >= chunks * groups {
        return;
    }
    let (mut chunk, mut row, mut stop, mut open) = ([0; 2], [0; 2], [0; 2], [0; 2]);
    for h in 0..2 {
        let there = unit + (h as u32) < chunks * groups;
        let group = if there { unit + h as u32 } else { unit };
        let m = group / groups;
        let length = lengths.get(m);
        (chunk[h], row[h]) = (m, 8 * (group % groups) as usize + g);
        if there {
            (stop[h], open[h]) = (length.min(until), u32::from(length > until));
        }
    }
    let load = |h: usize, step: u32| {
        if step < stop[h] { symbol.get(base.get(step) + chunk[h]) } else { 0 }
    };
    let emission = |v: u32, j: usize| table.get((model * symbols as usize + v as usize) * stride + j).to_f64();
    let mut ahead = [Ahead::<32>::new(0, true, |step| load(0, step)), Ahead::<32>::new(0, true, |step| load(1, step))];
    // `[n][2h + c]` is column 8n + 2t + c of row g of half h.
    let mut x = [[0.0; 4]; TILES];
    let mut exponent = [0; 2];
    let mut doubt = [Doubt::NONE; 2];
    each!(H < 2, {
        let v = ahead[H].get(0);
        each!(J < TILES, at most 8, {
            for c in 0..2 {
                let j = 8 * J + 2 * t + c;
                let (one, b) = (power(top(T::WIDE)), emission(v, j));
                x[J][2 * H + c] = if j == row[H] { one.fma(b, grounded::<T>(one, b)) } else { 0.0 };
            }
        });
    });
    let last = (stop[0] + open[0]).max(stop[1] + open[1]);
    let mut step = 1;
    while step < last {
        let mut tops = [0; 2];
        each!(H < 2, {
            each!(J < TILES, at most 8, {
                tops[H] = high(x[J][2 * H]).max(high(x[J][2 * H + 1])).max(tops[H]);
            });
            tops[H] = tops[H].max(warp::shuffle_xor(warp::FULL, tops[H], 1));
            tops[H] = tops[H].max(warp::shuffle_xor(warp::FULL, tops[H], 2));
        });
        let mut sums = [[0.0; 4]; TILES];
        each!(K < TILES, at most 8, {
            let a = [x[K][0], x[K][2], x[K][1], x[K][3]];
            for n in 0..TILES {
                let b = tiles.get2(32 * (K * TILES + n) as u32 + warp::lane_id());
                sums[n] = mma::f64_16x8x8(a, b, sums[n]);
            }
        });
        each!(H < 2, {
            ahead[H].go_to(step, true, |step| load(H, step));
            let v = ahead[H].get(step);
            let (factor, e) = scale::<T>(tops[H]);
            if step < stop[H] + open[H] {
                exponent[H] += e;
                each!(J < TILES, at most 8, {
                    for c in 0..2 {
                        let b = if step < stop[H] { emission(v, 8 * J + 2 * t + c) } else { 1.0 };
                        let p = sums[J][2 * H + c];
                        x[J][2 * H + c] = p.fma(b * factor, grounded::<T>(p, b));
                        doubt[H] = doubt[H].with(p);
                    }
                });
            }
        });
        step += 1;
    }
    each!(H < 2, {
        let mut in_doubt = u32::from(doubt[H].is::<T>());
        in_doubt |= warp::shuffle_xor(warp::FULL, in_doubt, 1);
        in_doubt |= warp::shuffle_xor(warp::FULL, in_doubt, 2);
        if stop[H] > 0 {
            let at = (model * chunks as usize + chunk[H] as usize) * stride + row[H];
            each!(J < TILES, at most 8, {
                for c in 0..2 {
                    operators.set(at * stride + 8 * J + 2 * t + c, x[J][2 * H + c] * power(-top(T::WIDE)));
                }
            });
            if t == 0 {
                // The initial scaling by 2^top cancels against the final one by 2^−top.
                exponents.set(at, if in_doubt > 0 { IN_DOUBT } else { f64::from(exponent[H]) });
            }
        }
    });
}

/// p of each chunk, scaled by a power of two, and ln P(O) of each sequence as in `likelihoods` of
/// [`forward_warp`](super::super::forward::forward_warp). A sequence is in doubt if p has a share in a row in doubt, or
/// if an element of p is too small.
///
/// - *Mathematics*: p₁ = π, p_{c+1} = p_c Q_c, P(O) = p_C Q_C end.
/// - *Thread mapping*: a block per sequence, `block_idx_y` the model; four threads per state, each with a quarter of a
///   column of the operator, and of the next operator, which is prefetched.
/// - *Shared memory*: 368 words, static: 336, and 32 of reductions. *Barriers*: three per chunk, and two.
/// - *Deterministic*: yes; the bits of a sequence do not depend on the other sequences.
/// - *Valid result in*: `starts` and `likelihoods`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `chains` | [`Chains`] | |
/// | `model` | [`Model`], stride `STATES` | |
/// | `states` | scalar | N ≤ `STATES` |
/// | `operators` | [`Operators`], stride `STATES` | from [`chunk_operators`] |
/// | `starts` | models × chunks × `STATES` | |
/// | `likelihoods` | models × M × 2 | |
///
/// *Launch*: M × models blocks.
#[kernel(
    T = [f32, f64], STATES = [8, 16, 32, 64],
    requires(
        chains.holds(shape.grid.x),
        model.holds(shape.grid.y, STATES),
        states <= STATES,
        operators.holds(shape.grid.y, chains.chunks, STATES),
        starts.len() >= shape.grid.y * chains.chunks * STATES,
        likelihoods.len() >= 2 * shape.grid,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 4 * STATES
)]
pub fn chunk_starts<T: Real, const STATES: usize>(
    chains: Chains,
    model: Model<T>,
    states: u32,
    operators: Operators,
    starts: GlobalMut<T>,
    likelihoods: GlobalMut<f64>,
) {
    let Chains { chunks, order: chain, link } = chains;
    let Model { start, end, .. } = model;
    let Operators { values: operators, scales: exponents } = operators;
    let weights = warpkov_device::shared_array!(start_weights: f64; 64);
    let parts = warpkov_device::shared_array!(start_parts: f64; 256);
    let tops = warpkov_device::shared_array!(start_tops: u32; 16);
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let (j, q) = (thread::thread_idx_x() as usize % STATES, thread::thread_idx_x() as usize / STATES);
    let (warp_id, warps) = (warp::warp_id(), STATES as u32 / 8);
    let (first, last) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| (model * chunks as usize + chain.get(p) as usize) * STATES;
    let load = |at: usize| {
        let mut rows = [0.0; 32];
        each!(R < STATES / 4, {
            let i = 4 * R + q;
            if i < states as usize {
                rows[R] = operators.get((at + i) * STATES + j);
            }
        });
        (rows, if j < states as usize { exponents.get(at + j) } else { 0.0 })
    };
    let mut x = start.get(model * STATES + j).to_f64();
    let (mut total, mut in_doubt, mut doubt) = (0.0, false, Doubt::NONE);
    let mut p = first;
    let mut here = place(p);
    let mut next = load(here);
    while p < last {
        let alive = x > 0.0;
        let (rows, e) = (next.0, if next.1 < IN_DOUBT { next.1 as i32 } else { 0 });
        in_doubt = in_doubt || alive && next.1 == IN_DOUBT;
        let at = here;
        if p + 1 < last {
            here = place(p + 1);
            next = load(here);
        }
        let own = warp::max_u32(warp::FULL, order(x, 0));
        let with = warp::max_u32(warp::FULL, order(x, e));
        if warp::lane_id() == 0 {
            tops.set(warp_id, own);
            tops.set(8 + warp_id, with);
        }
        thread::sync_threads();
        let top_of = |first: u32| {
            warp::max_u32(warp::FULL, tops.get(first + warp::lane_id() % warps)).wrapping_sub(MIDDLE as u32) as i32
        };
        let (own, with) = (top_of(0), top_of(8));
        if q == 0 {
            let (least, lowest) = (power(normal(T::WIDE)), power(ground(T::WIDE)));
            starts.set(at + j, T::from_f64(if alive { times_power(x, -own).max(least) } else { 0.0 }));
            weights.set(j as u32, if alive { times_power(x, e - with + top(T::WIDE)).max(lowest) } else { 0.0 });
        }
        if with > -MIDDLE {
            total += f64::from(with - top(T::WIDE));
        }
        thread::sync_threads();
        let mut sum = 0.0;
        each!(R < STATES / 4, {
            sum = weights.get((4 * R + q) as u32).fma(rows[R], sum);
        });
        parts.set(thread::thread_idx_x(), sum);
        thread::sync_threads();
        let part = |q: usize| parts.get((q * STATES + j) as u32);
        x = (part(0) + part(1)) + (part(2) + part(3));
        p += 1;
        if p < last {
            doubt = doubt.with(x);
        }
    }
    let share = if q == 0 { x * end.get(model * STATES + j).to_f64() } else { 0.0 };
    let share = if in_doubt || doubt.is::<T>() { f64::NAN } else { share };
    let sum = block::reduce(share, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        let place = model * thread::grid_dim_x() as usize + sequence;
        likelihoods.set(2 * place, relied::<T>(sum));
        likelihoods.set(2 * place + 1, total);
    }
}

/// v of the succeeding chunk, for each chunk that another one follows, scaled so that p · v = 1; 0 where p is 0.
///
/// - *Mathematics*: v_C = Q_C end, v_c = Q_c v_{c+1}.
/// - *Thread mapping*: a block per sequence, `block_idx_y` the model; four threads per state, each with a quarter of a
///   row of the operator, and of the next operator, which is prefetched.
/// - *Shared memory*: 80 words, static. *Barriers*: three per chunk. *Deterministic*: yes.
/// - *Valid result in*: `behind`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `chains` | [`Chains`] | |
/// | `model` | [`Model`], stride `STATES` | |
/// | `states` | scalar | N ≤ `STATES` |
/// | `operators` | [`Operators`], stride `STATES` | from [`chunk_operators`] |
/// | `starts` | models × chunks × `STATES` | from [`chunk_starts`] |
/// | `behind` | models × chunks × `STATES` | |
///
/// *Launch*: M × models blocks.
#[kernel(
    T = [f32, f64], STATES = [8, 16, 32, 64],
    requires(
        chains.holds(shape.grid.x),
        model.holds(shape.grid.y, STATES),
        states <= STATES,
        operators.holds(shape.grid.y, chains.chunks, STATES),
        starts.len() >= shape.grid.y * chains.chunks * STATES,
        behind.len() >= shape.grid.y * chains.chunks * STATES,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 4 * STATES
)]
pub fn chunk_ends<T: Real, const STATES: usize>(
    chains: Chains,
    model: Model<T>,
    states: u32,
    operators: Operators,
    starts: Global<T>,
    behind: GlobalMut<T>,
) {
    let (Chains { chunks, order: chain, link }, end) = (chains, model.end);
    let Operators { values: operators, scales: exponents } = operators;
    let column = warpkov_device::shared_array!(end_column: f64; 64);
    let tops = warpkov_device::shared_array!(end_tops: u32; 8);
    let sums = warpkov_device::shared_array!(end_sums: f64; 8);
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let (i, q) = ((thread::thread_idx_x() / 4) as usize, (thread::thread_idx_x() % 4) as usize);
    let (warp_id, warps) = (warp::warp_id(), STATES as u32 / 8);
    let (first, last) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| (model * chunks as usize + chain.get(p) as usize) * STATES;
    let load = |at: usize| {
        let (mut row, mut e, mut expected) = ([0.0; 32], 0.0, 0.0);
        if i < states as usize {
            each!(R < STATES / 4, {
                row[R] = operators.get((at + i) * STATES + 4 * R + q);
            });
            (e, expected) = (exponents.get(at + i), starts.get(at + i).to_f64());
        }
        (row, e, expected)
    };
    if q == 0 {
        column.set(i as u32, end.get(model * STATES + i).to_f64());
    }
    let mut p = last - 1;
    let mut here = place(p);
    let mut next = load(here);
    thread::sync_threads();
    while p > first {
        p -= 1;
        let (row, e, expected) = (next.0, if next.1 < IN_DOUBT { next.1 as i32 } else { 0 }, next.2);
        here = place(p);
        if p > first {
            next = load(here);
        }
        let mut y = 0.0;
        each!(R < STATES / 4, {
            y = column.get((4 * R + q) as u32).fma(row[R], y);
        });
        y += warp::shuffle_xor(warp::FULL, y, 1);
        y += warp::shuffle_xor(warp::FULL, y, 2);
        let z = if vanishes::<T>(expected) { 0.0 } else { expected * y };
        let top = warp::max_u32(warp::FULL, order(z, e));
        if warp::lane_id() == 0 {
            tops.set(warp_id, top);
        }
        thread::sync_threads();
        let top = warp::max_u32(warp::FULL, tops.get(warp::lane_id() % warps)).wrapping_sub(MIDDLE as u32) as i32;
        let alive = z > 0.0;
        let share = if alive && q == 0 { times_power(z, e - top) } else { 0.0 };
        let share = warp::reduce(share, |a, b| a + b);
        if warp::lane_id() == 0 {
            sums.set(warp_id, share);
        }
        thread::sync_threads();
        let mut sum = 0.0;
        for w in 0..warps {
            sum += sums.get(w);
        }
        if q == 0 {
            let v = if alive { times_power(y, e - top) / sum } else { 0.0 };
            column.set(i as u32, v);
            behind.set(here + i, T::from_f64(v));
        }
        thread::sync_threads();
    }
}

/// Propagates doubt: if a chunk of a sequence, or the sequence itself, is in doubt, then all its chunks and the
/// sequence become in doubt.
///
/// `likelihoods` are those of chunks by [`forward_warp`](super::super::forward::forward_warp), `totals` those of
/// sequences by [`chunk_starts`].
///
/// - *Mathematics*: doubt of a sequence = OR over its chunks and itself.
/// - *Thread mapping*: a warp per sequence, one warp per block, `block_idx_y` the model.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `likelihoods` and `totals`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `chains` | [`Chains`] | |
/// | `likelihoods` | models × chunks × 2 | |
/// | `totals` | models × M × 2 | |
///
/// *Launch*: M × models blocks.
#[kernel(
    requires(
        chains.holds(shape.grid.x),
        likelihoods.len() >= 2 * shape.grid.y * chains.chunks,
        totals.len() >= 2 * shape.grid,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 32
)]
pub fn share_doubts(chains: Chains, likelihoods: GlobalMut<f64>, totals: GlobalMut<f64>) {
    let Chains { chunks, order: chain, link } = chains;
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let total = 2 * (model * thread::grid_dim_x() as usize + sequence);
    let (first, last) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| 2 * (model * chunks as usize + chain.get(p) as usize);
    let mut found = totals.get(total).is_nan();
    let mut p = first + warp::lane_id();
    while p < last {
        found = found || likelihoods.get(place(p)).is_nan();
        p += warp::SIZE;
    }
    if !warp::any(warp::FULL, found) {
        return;
    }
    // Every lane has read the total before one of them replaces it. A vote does not order memory accesses.
    warp::sync_warp(warp::FULL);
    p = first + warp::lane_id();
    while p < last {
        likelihoods.set(place(p), f64::NAN);
        p += warp::SIZE;
    }
    if warp::lane_id() == 0 {
        totals.set(total, f64::NAN);
    }
}

/// û of the step behind each chunk that another one follows, divided so that Σ γ = 1 in the scale of the chunk's α̂; 0
/// in doubt.
///
/// - *Mathematics*: û = v / (α̂ A · v), with α̂ of the chunk's last step and v of the succeeding chunk.
/// - *Thread mapping*: a warp per chunk, one warp per block, `block_idx_y` the model.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes.
/// - *Valid result in*: `carry`, for chunks that another one follows.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `chunks` | scalar | chunks |
/// | `stride` | scalar | elements per row |
/// | `transitions` | models × `stride` × `stride` | A |
/// | `likelihoods` | models × `chunks` × 2 | P̂ of chunks, NaN in doubt |
/// | `behind` | models × `chunks` × `stride` | from [`chunk_ends`] |
/// | `last` | models × `chunks` × `stride` | α̂ of the last step of each chunk |
/// | `carry` | models × `chunks` × `stride` | |
///
/// *Launch*: one block per chunk that another one follows, × models.
#[kernel(
    T = [f32, f64],
    requires(
        transitions.len() >= shape.grid.y * stride * stride,
        likelihoods.len() >= 2 * shape.grid.y * chunks,
        behind.len() >= shape.grid.y * chunks * stride,
        last.len() >= shape.grid.y * chunks * stride,
        carry.len() >= shape.grid.y * chunks * stride,
        shape.grid.x <= chunks,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 32
)]
pub fn join_chunks<T: Real>(
    chunks: u32,
    stride: u32,
    transitions: Global<T>,
    likelihoods: Global<f64>,
    behind: Global<T>,
    last: Global<T>,
    carry: GlobalMut<T>,
) {
    let (model, n) = (thread::block_idx_y() as usize, stride as usize);
    let place = model * chunks as usize + thread::block_idx_x() as usize;
    let (at, in_doubt) = (place * n, likelihoods.get(2 * place).is_nan());
    let mut sum = 0.0;
    let mut j = warp::lane_id() as usize;
    while j < n {
        let mut next = 0.0;
        for i in 0..n {
            next = last.get(at + i).to_f64().fma(transitions.get((model * n + i) * n + j).to_f64(), next);
        }
        sum += next * behind.get(at + j).to_f64();
        j += 32;
    }
    let sum = warp::reduce(sum, |a, b| a + b);
    let inverse = if sum > 0.0 { 1.0 / sum } else { 0.0 };
    j = warp::lane_id() as usize;
    while j < n {
        let u = if in_doubt { 0.0 } else { behind.get(at + j).to_f64() * inverse };
        carry.set(at + j, T::from_f64(u));
        j += 32;
    }
}
