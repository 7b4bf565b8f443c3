//! Few and long sequences: a scan over time, by products of matrices.
//!
//! Sequences are cut into pieces of `until` steps; the last piece of each may be shorter. A piece c has an operator, N × N,
//!
//! > Q_c = diag(b(o₁)) A diag(b(o₂)) A … diag(b(o_L)) A
//!
//! over its own observations, the last of a sequence without its last A. With p₁ = π and v_C = Q_C end, the row p_{c+1} = p_c Q_c is
//! what is expected of the state that piece c + 1 begins in, and the column v_c = Q_c v_{c+1} is û of its first step. Given these, all
//! pieces are sequences of one batch, which has nothing more to wait for: p is their π, and v what their backward recursion begins with.
//! Every row of an operator is a forward recursion of its own, from one state: the operators of all pieces take N times the
//! products of the recursion, all at one time; and the scan over them one row by a matrix for each piece.
//!
//! Viterbi's algorithm has the same in (max, +), but for the last pieces, which nothing follows. With p a piece keeps δ of all steps, and
//! for each state that follows it the state that it ends in and the one that it begins in, on the best path there. These maps are
//! followed from the last piece to the first, and what each piece then knows of its ends goes to [`trace`](super::trace).
//!
//! # What lies where
//!
//! Pieces are sequences of a batch, and lie as such. `lengths` of a piece that another one follows is `until` + 1, of others their number
//! of steps. `chain` has the pieces of one sequence after the other, those of sequence s from `link[s]` on. Operators are in f64, with an
//! exponent of two for each row, or a summand; an operator of a model and a piece has `STATES`² elements.
//!
//! *Sources*: S. Särkkä and Á. F. García-Fernández, "Temporal Parallelization of Bayesian Smoothers", 2021; S. S. Hassan, S. Särkkä and
//! Á. F. García-Fernández, "Temporal Parallelization of Inference in Hidden Markov Models", 2021.

use crate::device::{Global, GlobalMut, Real, Word, block, kernel, mma, shared, thread, warp};
use crate::hmm::model::{Chains, Model, NewOperators, Operators, Sequences};
use crate::hmm::viterbi::{NO_STATE, PERIOD, larger};
use crate::hmm::{Ahead, Doubt, ground, grounded, high, normal, power, relied, scale, top};

/// States at most.
pub const STATES: u32 = 64;

/// Threads of a block of [`piece_operators`].
pub const THREADS: u32 = 128;

/// Shared memory of a block of [`piece_operators`] in bytes.
#[must_use]
pub const fn operators_shared(tiles: usize) -> u32 {
    8 * 64 * (tiles * tiles) as u32
}

/// Groups of 8 rows that a block of [`piece_operators`] has.
pub const GROUPS: u32 = 2 * THREADS / 32;

/// Shared memory of a block of [`piece_maxima`] in bytes, for elements of `element` bytes.
#[must_use]
pub const fn maxima_shared(states: usize, element: usize) -> u32 {
    (2 * states * states * element + 8 * states) as u32
}

/// What exponents are shifted by, to be compared as numbers without sign.
const MIDDLE: i32 = 1 << 30;

/// The exponent of x · 2^`exponent`, shifted by [`MIDDLE`]; 0 where x is.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn order(x: f64, exponent: i32) -> u32 {
    if x > 0.0 { (MIDDLE + exponent + (high(x) >> 20) as i32 - 1023) as u32 } else { 0 }
}

/// What p of a piece is called vanishing by, where its largest element is near 1: far below what a sequence that is not in doubt has.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn vanishes<T: Word>(x: f64) -> bool {
    x < power(if T::WIDE { -1000 } else { -100 })
}

/// The exponent of a row that is in doubt.
const IN_DOUBT: f64 = f64::INFINITY;

/// x · 2^k, or 0 where that is too small.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn times_power(x: f64, k: i32) -> f64 {
    let power = |k: i32| f64::from_bits(((1023 + k) as u64) << 52);
    let k = k.clamp(-2000, 2000);
    x * power(k / 2) * power(k - k / 2)
}

/// Q of each piece, a row as its numbers, which are those of α̂ · 2^−[`top`], and the exponent of two that they are scaled by; infinity
/// where it is in doubt.
///
/// *Thread mapping*: a warp for 16 rows, on tensor cores, which may be of two pieces; the grid's y is the model. A tile of D has columns
/// 2t and 2t + 1 in lane 4g + t, which are taken for columns t and t + 4 of the next A: so what comes out lies as what goes in.
/// *Shared memory*: [`operators_shared`], dynamic: A, as lanes read it. *Barriers*: one. *Deterministic*: yes, and the bits of a piece
/// do not depend on the others. *Safety*: blocks have [`THREADS`] threads, the grid one for [`GROUPS`] eighths of all rows below
/// `states`; matrices have stride 8·`TILES`; `symbol` has a row for every step of every piece.
#[kernel(T = [f32, f64], TILES = [1, 2, 4, 8])]
pub fn piece_operators<T: Real, const TILES: usize>(
    sequences: Sequences,
    model: Model<T>,
    states: u32,
    until: u32,
    operators: NewOperators,
) {
    let Sequences { count: pieces, lengths, base, symbol, .. } = sequences;
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
    if unit >= pieces * groups {
        return;
    }
    let (mut piece, mut row, mut stop, mut open) = ([0; 2], [0; 2], [0; 2], [0; 2]);
    for h in 0..2 {
        let there = unit + (h as u32) < pieces * groups;
        let group = if there { unit + h as u32 } else { unit };
        let m = group / groups;
        let length = lengths.get(m as usize);
        (piece[h], row[h]) = (m, 8 * (group % groups) as usize + g);
        if there {
            (stop[h], open[h]) = (length.min(until), u32::from(length > until));
        }
    }
    let load = |h: usize, step: u32| {
        if step < stop[h] { symbol.get((base.get(step as usize) + piece[h]) as usize) } else { 0 }
    };
    let emission = |v: u32, j: usize| table.get((model * symbols as usize + v as usize) * stride + j).to_f64();
    let mut ahead = [Ahead::<32>::new(0, true, |step| load(0, step)), Ahead::<32>::new(0, true, |step| load(1, step))];
    // `[n][2h + c]` is column 8n + 2t + c of row g of half h.
    let mut x = [[0.0; 4]; TILES];
    let mut exponent = [0; 2];
    let mut doubt = [Doubt::NONE; 2];
    each!(H < 2, {
        let v = ahead[H].get(0);
        each!(J < TILES, {
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
            each!(J < TILES, {
                tops[H] = high(x[J][2 * H]).max(high(x[J][2 * H + 1])).max(tops[H]);
            });
            tops[H] = tops[H].max(warp::shuffle_xor(warp::FULL, tops[H], 1));
            tops[H] = tops[H].max(warp::shuffle_xor(warp::FULL, tops[H], 2));
        });
        let mut sums = [[0.0; 4]; TILES];
        each!(K < TILES, {
            let a = [x[K][0], x[K][2], x[K][1], x[K][3]];
            for n in 0..TILES {
                let b = tiles.get2(64 * (K * TILES + n) as u32 + 2 * warp::lane_id());
                sums[n] = mma::f64_16x8x8(a, b, sums[n]);
            }
        });
        each!(H < 2, {
            ahead[H].go_to(step, true, |step| load(H, step));
            let v = ahead[H].get(step);
            let (factor, e) = scale::<T>(tops[H]);
            if step < stop[H] + open[H] {
                exponent[H] += e;
                each!(J < TILES, {
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
            let at = (model * pieces as usize + piece[H] as usize) * stride + row[H];
            each!(J < TILES, {
                for c in 0..2 {
                    operators.set(at * stride + 8 * J + 2 * t + c, x[J][2 * H + c] * power(-top(T::WIDE)));
                }
            });
            if t == 0 {
                // It was scaled before the first step by as much as it is now.
                exponents.set(at, if in_doubt > 0 { IN_DOUBT } else { f64::from(exponent[H]) });
            }
        }
    });
}

/// p of each piece, scaled by a power of two; and ln P(O) of each sequence, as `likelihoods` of
/// [`forward_warp`](super::forward::forward_warp): in doubt where a row is that p has a part of, or p of a piece is too small.
///
/// *Thread mapping*: a block for a sequence, the grid's y the model; four threads for each state, a quarter of a column of the operator
/// each, and of the next operator, which is loaded meanwhile. *Shared memory*: 336 words, static. *Barriers*: three per
/// piece. *Deterministic*: yes, and the bits of a sequence do not depend on the others. *Safety*: blocks have 4·`STATES` threads; matrices
/// have stride `STATES`; operators are those of all pieces.
#[kernel(T = [f32, f64], STATES = [8, 16, 32, 64])]
pub fn piece_starts<T: Real, const STATES: usize>(
    chains: Chains,
    model: Model<T>,
    states: u32,
    operators: Operators,
    starts: GlobalMut<T>,
    likelihoods: GlobalMut<f64>,
) {
    let Chains { pieces, order: chain, link } = chains;
    let Model { start, end, .. } = model;
    let Operators { values: operators, scales: exponents } = operators;
    let weights = crate::shared_array!(start_weights: f64; 64);
    let parts = crate::shared_array!(start_parts: f64; 256);
    let tops = crate::shared_array!(start_tops: u32; 16);
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let (j, q) = (thread::thread_idx_x() as usize % STATES, thread::thread_idx_x() as usize / STATES);
    let (warp_id, warps) = (warp::warp_id(), STATES as u32 / 8);
    let (first, last) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| (model * pieces as usize + chain.get(p as usize) as usize) * STATES;
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

/// v of the piece behind each one, which another one follows; scaled so that p · v = 1. It is 0 where p is.
///
/// *Thread mapping*: a block for a sequence, the grid's y the model; four threads for each state, a quarter of a row of the operator
/// each, and of the next operator, which is loaded meanwhile. *Shared memory*: 80 words, static. *Barriers*: three per piece.
/// *Deterministic*: yes. *Safety*: as [`piece_starts`], which has made `starts`.
#[kernel(T = [f32, f64], STATES = [8, 16, 32, 64])]
pub fn piece_ends<T: Real, const STATES: usize>(
    chains: Chains,
    model: Model<T>,
    states: u32,
    operators: Operators,
    starts: Global<T>,
    behind: GlobalMut<T>,
) {
    let (Chains { pieces, order: chain, link }, end) = (chains, model.end);
    let Operators { values: operators, scales: exponents } = operators;
    let column = crate::shared_array!(end_column: f64; 64);
    let tops = crate::shared_array!(end_tops: u32; 8);
    let sums = crate::shared_array!(end_sums: f64; 8);
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let (i, q) = ((thread::thread_idx_x() / 4) as usize, (thread::thread_idx_x() % 4) as usize);
    let (warp_id, warps) = (warp::warp_id(), STATES as u32 / 8);
    let (first, last) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| (model * pieces as usize + chain.get(p as usize) as usize) * STATES;
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

/// Sees to it that all pieces of a sequence are in doubt, and the sequence, where one of them is: `likelihoods` are those of pieces by
/// [`forward_warp`](super::forward::forward_warp), `totals` those of sequences by [`piece_starts`].
///
/// *Thread mapping*: a warp for a sequence, in blocks of one, the grid's y the model. *Deterministic*: yes. *Safety*: blocks have 32 threads;
/// there are likelihoods of all pieces, and totals of all sequences.
#[kernel]
pub fn share_doubts(chains: Chains, likelihoods: GlobalMut<f64>, totals: GlobalMut<f64>) {
    let Chains { pieces, order: chain, link } = chains;
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let total = 2 * (model * thread::grid_dim_x() as usize + sequence);
    let (first, last) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| 2 * (model * pieces as usize + chain.get(p as usize) as usize);
    let mut found = totals.get(total).is_nan();
    let mut p = first + warp::lane_id();
    while p < last {
        found = found || likelihoods.get(place(p)).is_nan();
        p += warp::SIZE;
    }
    if !warp::any(warp::FULL, found) {
        return;
    }
    p = first + warp::lane_id();
    while p < last {
        likelihoods.set(place(p), f64::NAN);
        p += warp::SIZE;
    }
    if warp::lane_id() == 0 {
        totals.set(total, f64::NAN);
    }
}

/// û of the step behind each piece that another one follows, divided by what makes Σ γ = 1 in the scale of its α̂; 0 where it is in
/// doubt.
///
/// *Thread mapping*: a warp per piece, in blocks of one, the grid's y the model. *Deterministic*: yes. *Safety*: blocks have 32 threads,
/// the grid's pieces are those that another one follows; `last` has α̂ of the last step of each.
#[kernel(T = [f32, f64])]
pub fn join_pieces<T: Real>(
    pieces: u32,
    stride: u32,
    transitions: Global<T>,
    likelihoods: Global<f64>,
    behind: Global<T>,
    last: Global<T>,
    carry: GlobalMut<T>,
) {
    let (model, n) = (thread::block_idx_y() as usize, stride as usize);
    let place = model * pieces as usize + thread::block_idx_x() as usize;
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

/// Q in (max, +) of each piece that another one follows: a row as its numbers and what is to be added to them.
///
/// *Thread mapping*: a block for a piece, the grid's y the model; a thread for a column, which is in its registers, and every fourth row.
/// *Shared memory*: [`maxima_shared`], dynamic. *Barriers*: one per step. *Deterministic*: yes, and the bits of a piece do not depend
/// on the others. *Safety*: blocks have 4·`STATES` threads; the grid's pieces are those that another one follows; matrices have stride
/// `STATES`, and −∞ where there is no state.
#[kernel(T = [f32, f64], STATES = [8, 16, 32, 64])]
pub fn piece_maxima<T: Real, const STATES: usize>(
    sequences: Sequences,
    logs: Model<T>,
    states: u32,
    until: u32,
    operators: NewOperators,
) {
    let Sequences { count: pieces, base, symbol, .. } = sequences;
    let Model { symbols, transitions: log_transitions, table: log_table, .. } = logs;
    let NewOperators { values: operators, scales: offsets } = operators;
    let (model, m) = (thread::block_idx_y() as usize, thread::block_idx_x());
    let (j, q) = (thread::thread_idx_x() as usize % STATES, thread::thread_idx_x() / STATES as u32);
    let n = STATES as u32;
    let (added, cells) = shared::dynamic_shared_mem::<f64>().split(n);
    let cells = cells.cast::<T>();
    let rows_of = |step: u32| cells.split(step % 2 * n * n).1.split(n * n).0;
    let mut column = [T::ZERO; STATES];
    each!(I < STATES / 2, {
        for c in 0..2 {
            column[2 * I + c] = log_transitions.get((model * STATES + 2 * I + c) * STATES + j);
        }
    });
    let load = |step: u32| if step < until { symbol.get((base.get(step as usize) + m) as usize) } else { 0 };
    let emission = |v: u32| log_table.get((model * symbols as usize + v as usize) * STATES + j);
    let mut ahead = Ahead::<32>::new(0, true, load);
    let b = emission(ahead.get(0));
    let mut i = q;
    while i < states {
        rows_of(0).set(i * n + j as u32, if i == j as u32 { b } else { T::NEG_INFINITY });
        if j == 0 {
            added.set(i, 0.0);
        }
        i += 4;
    }
    ahead.go_to(1, true, load);
    let mut next = emission(ahead.get(1));
    thread::sync_threads();
    let mut step = 1;
    while step <= until {
        let b = if step < until { next } else { T::ZERO };
        ahead.go_to(step + 1, true, load);
        next = emission(ahead.get(step + 1));
        let (from, to) = (rows_of(step + 1), rows_of(step));
        i = q;
        while i < states {
            let mut best = [T::NEG_INFINITY; 4];
            each!(Q < STATES / 4, {
                let four = from.get4(i * n + 4 * Q as u32);
                for k in 0..4 {
                    best[k] = larger(best[k], four[k] + column[4 * Q + k]);
                }
            });
            let mut now = larger(larger(best[0], best[1]), larger(best[2], best[3]));
            if step % PERIOD == 0 {
                let mut largest = T::NEG_INFINITY;
                for k in 0..n {
                    largest = larger(largest, from.get(i * n + k));
                }
                if largest > T::NEG_INFINITY {
                    now = now - largest;
                    if j == 0 {
                        added.set(i, added.get(i) + largest.to_f64());
                    }
                }
            }
            to.set(i * n + j as u32, now + b);
            i += 4;
        }
        thread::sync_threads();
        step += 1;
    }
    let at = (model * pieces as usize + m as usize) * STATES;
    i = q;
    while i < states {
        operators.set((at + i as usize) * STATES + j, rows_of(until).get(i * n + j as u32).to_f64());
        if j == 0 {
            offsets.set(at + i as usize, added.get(i));
        }
        i += 4;
    }
}

/// p in (max, +) of each piece, up to a summand.
///
/// *Thread mapping*, *Shared memory*, *Safety*: as [`piece_starts`]; operators are those of the pieces that another one follows. *Barriers*:
/// four per piece. *Deterministic*: yes, and the bits of a sequence do not depend on the others.
#[kernel(T = [f32, f64], STATES = [8, 16, 32, 64])]
pub fn piece_scores<T: Real, const STATES: usize>(
    chains: Chains,
    logs: Model<T>,
    states: u32,
    operators: Operators,
    starts: GlobalMut<T>,
) {
    let (Chains { pieces, order: chain, link }, log_start) = (chains, logs.start);
    let Operators { values: operators, scales: offsets } = operators;
    let weights = crate::shared_array!(score_weights: f64; 64);
    let parts = crate::shared_array!(score_parts: f64; 256);
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let (j, q) = (thread::thread_idx_x() as usize % STATES, thread::thread_idx_x() as usize / STATES);
    let (first, last) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| (model * pieces as usize + chain.get(p as usize) as usize) * STATES;
    let load = |at: usize| {
        let mut rows = [f64::NEG_INFINITY; 32];
        each!(R < STATES / 4, {
            let i = 4 * R + q;
            if i < states as usize {
                rows[R] = operators.get((at + i) * STATES + j);
            }
        });
        (rows, if j < states as usize { offsets.get(at + j) } else { 0.0 })
    };
    let mut x = log_start.get(model * STATES + j).to_f64();
    let mut p = first;
    let mut here = place(p);
    let mut next = if p + 1 < last { load(here) } else { ([0.0; 32], 0.0) };
    while p < last {
        if q == 0 {
            starts.set(here + j, T::from_f64(x));
        }
        if p + 1 < last {
            let (rows, offset) = next;
            here = place(p + 1);
            if p + 2 < last {
                next = load(here);
            }
            let mut weight = x + offset;
            let top = block::reduce(weight, f64::NEG_INFINITY, f64::max);
            if top > f64::NEG_INFINITY {
                weight -= top;
            }
            if q == 0 {
                weights.set(j as u32, weight);
            }
            thread::sync_threads();
            let mut best = f64::NEG_INFINITY;
            each!(R < STATES / 4, {
                best = best.max(weights.get((4 * R + q) as u32) + rows[R]);
            });
            parts.set(thread::thread_idx_x(), best);
            thread::sync_threads();
            let part = |q: usize| parts.get((q * STATES + j) as u32);
            x = part(0).max(part(1)).max(part(2).max(part(3)));
        }
        p += 1;
    }
}

/// The largest element and its place, the lowest of equal ones, of a row of `STATES` elements with what `toward` adds to four of them.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn best_of<T: Real, const STATES: usize>(row: shared::Shared<T>, toward: impl Fn(usize) -> T) -> (T, u32) {
    let (mut best, mut places) = ([T::NEG_INFINITY; 4], [0; 4]);
    each!(Q < STATES / 4, {
        let four = row.get4(4 * Q as u32);
        for k in 0..4 {
            let x = four[k] + toward(4 * Q + k);
            if x > best[k] {
                (best[k], places[k]) = (x, (4 * Q + k) as u32);
            }
        }
    });
    let better = |(x, i): (T, u32), (y, j): (T, u32)| if y > x || (y == x && j < i) { (y, j) } else { (x, i) };
    let of = |k: usize| (best[k], places[k]);
    better(better(of(0), of(1)), better(of(2), of(3)))
}

/// δ of all steps of each piece, from its p; and its maps: `lasts[j]` is the state that it ends in on the best path to state j behind it, or
/// behind the last piece to the end; `firsts[j]` the state that it begins in on the same path. Of equal ones the lowest, as
/// [`trace`](super::trace) finds them.
///
/// *Thread mapping*: a thread per state, with its column of ln A in registers; a block for a piece, or for 32 / `STATES` of them; the grid's
/// y is the model. *Shared memory*: 256 words, static. *Barriers*: one per step. *Deterministic*: yes. *Safety*: blocks have 32 threads, or
/// `STATES` where that is more; matrices have stride `STATES`, and −∞ where there is no state; `lengths` descends; `delta` has `rows` rows
/// for each model.
#[kernel(T = [f32, f64], STATES = [8, 16, 32, 64])]
pub fn piece_paths<T: Real, const STATES: usize>(
    sequences: Sequences,
    logs: Model<T>,
    until: u32,
    starts: Global<T>,
    delta: GlobalMut<T>,
    lasts: GlobalMut<u32>,
    firsts: GlobalMut<u32>,
) {
    let Sequences { count: pieces, rows, lengths, base, symbol } = sequences;
    let Model { symbols, transitions: log_transitions, table: log_table, end: log_end, .. } = logs;
    let deltas = crate::shared_array!(path_deltas: T; 128);
    let origins = crate::shared_array!(path_origins: u32; 128);
    let (model, n) = (thread::block_idx_y() as usize, STATES as u32);
    let (group, j) = (thread::thread_idx_x() / n, thread::thread_idx_x() as usize % STATES);
    let first = thread::block_idx_x() * (thread::block_dim_x() / n);
    let there = first + group < pieces;
    let m = if there { first + group } else { first };
    let known = lengths.get(m as usize);
    let length = if there { known.min(until) } else { 0 };
    let longest = lengths.get(first as usize).min(until);
    let mut column = [T::ZERO; STATES];
    each!(I < STATES / 2, {
        for c in 0..2 {
            column[2 * I + c] = log_transitions.get((model * STATES + 2 * I + c) * STATES + j);
        }
    });
    let row_of = |step: u32| base.get(step as usize) + m;
    let load = |step: u32| if step < length { symbol.get(row_of(step) as usize) } else { 0 };
    let emission = |v: u32| log_table.get((model * symbols as usize + v as usize) * STATES + j);
    let slot = |step: u32| step % 2 * 64 + group * n;
    let deltas_of = |step: u32| deltas.split(slot(step)).1.split(n).0;
    let origins_of = |step: u32| origins.split(slot(step)).1.split(n).0;
    let place = (model * pieces as usize + m as usize) * STATES;
    let (mut now, mut origin) = (T::NEG_INFINITY, j as u32);
    let mut next_v = load(1);
    let mut next = emission(load(0));
    let mut step = 0;
    while step < longest {
        let b = next;
        next = emission(next_v);
        next_v = load(step + 2);
        let (maximum, from) = if step == 0 {
            (starts.get(place + j), j as u32)
        } else {
            let row = deltas_of(step + 1);
            let (mut maximum, from) = best_of::<T, STATES>(row, |k| column[k]);
            if step % PERIOD == 0 {
                let mut largest = T::NEG_INFINITY;
                for k in 0..n {
                    largest = larger(largest, row.get(k));
                }
                if largest > T::NEG_INFINITY {
                    maximum = maximum - largest;
                }
            }
            (maximum, origins_of(step + 1).get(from))
        };
        if step < length {
            (now, origin) = (maximum + b, from);
            delta.set((model * rows as usize + row_of(step) as usize) * STATES + j, now);
        }
        deltas_of(step).set(j as u32, now);
        origins_of(step).set(j as u32, origin);
        thread::sync_threads();
        step += 1;
    }
    let row = deltas_of(longest + 1);
    let (best, last) = if known > until {
        best_of::<T, STATES>(row, |k| column[k])
    } else {
        best_of::<T, STATES>(row, |k| log_end.get(model * STATES + k))
    };
    if there {
        lasts.set(place + j, if best > T::NEG_INFINITY { last } else { NO_STATE });
        firsts.set(place + j, origins_of(longest + 1).get(last));
    }
}

/// The states on both sides of each beginning of a piece, on the best path: `bounds[2m]` is the last of the piece before, or none where
/// there is none; `bounds[2m + 1]` the last of piece m itself. All none where the sequence is not possible.
///
/// *Thread mapping*: a thread for a sequence, in blocks of one, the grid's y the model. *Deterministic*: yes. *Safety*: `lasts` and
/// `firsts` are those of all pieces.
#[kernel]
pub fn link_pieces(chains: Chains, stride: u32, lasts: Global<u32>, firsts: Global<u32>, bounds: GlobalMut<u32>) {
    let Chains { pieces, order: chain, link } = chains;
    if thread::thread_idx_x() > 0 {
        return;
    }
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let (first, mut p) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| model * pieces as usize + chain.get(p as usize) as usize;
    let (mut behind, mut possible) = (0, true);
    let mut here = place(p - 1);
    while p > first {
        p -= 1;
        let at = here * stride as usize + behind as usize;
        let (last, begun) = (lasts.get(at), firsts.get(at));
        possible = possible && last != NO_STATE;
        behind = if possible { begun } else { 0 };
        let last = if possible { last } else { NO_STATE };
        bounds.set(2 * here + 1, last);
        if p + 1 < link.get(sequence + 1) {
            bounds.set(2 * place(p + 1), last);
        }
        if p > first {
            here = place(p - 1);
        } else {
            bounds.set(2 * here, NO_STATE);
        }
    }
}

/// What a piece begins and ends with, once the states around it are known: `starts` is ln A of the state before, or ln π; `ends` allows the
/// last state alone, with ln end where the sequence ends.
///
/// *Thread mapping*: a warp for a piece, in blocks of one, the grid's y the model. *Deterministic*: yes. *Safety*: blocks have 32 threads;
/// rows have `stride` elements.
#[kernel(T = [f32, f64])]
pub fn pin_pieces<T: Real>(
    stride: u32,
    until: u32,
    lengths: Global<u32>,
    bounds: Global<u32>,
    logs: Model<T>,
    starts: GlobalMut<T>,
    ends: GlobalMut<T>,
) {
    let Model { start: log_start, transitions: log_transitions, end: log_end, .. } = logs;
    let (model, m, n) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize, stride as usize);
    let piece = model * thread::grid_dim_x() as usize + m;
    let (before, last) = (bounds.get(2 * piece), bounds.get(2 * piece + 1));
    let mut j = warp::lane_id() as usize;
    while j < n {
        let start = match before {
            NO_STATE => log_start.get(model * n + j),
            before => log_transitions.get((model * n + before as usize) * n + j),
        };
        let end = if lengths.get(m) > until { T::ZERO } else { log_end.get(model * n + j) };
        starts.set(piece * n + j, start);
        ends.set(piece * n + j, if j as u32 == last { end } else { T::NEG_INFINITY });
        j += 32;
    }
}
