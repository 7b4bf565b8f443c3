//! Chunks in (max, +): their operators, their initial vectors, and the states of the most probable path between chunks.

use warpkov_device::device::{Global, GlobalMut, Real, block, kernel, shared, thread, warp};

use crate::hmm::Ahead;
use crate::hmm::model::{Chains, Model, NewOperators, Operators, Sequences};
use crate::hmm::viterbi::{NO_STATE, PERIOD, larger};

/// Dynamic shared memory per block of [`chunk_maxima`], in bytes, for elements of `element` bytes.
#[must_use]
pub const fn maxima_shared(states: usize, element: usize) -> u32 {
    (2 * states * states * element + 8 * states) as u32
}

/// Q in (max, +) of each chunk that another one follows: each row as numbers and a summand.
///
/// - *Mathematics*: Q(i, j) = max over paths from state i of the chunk's first step to state j behind the chunk, of the
///   sum of logarithms.
/// - *Thread mapping*: a block per chunk, `block_idx_y` the model; a thread has one column of ln A in registers and
///   computes every fourth row.
/// - *Shared memory*: [`maxima_shared`] bytes, dynamic. *Barriers*: one per step, and one.
/// - *Deterministic*: yes; the bits of a chunk do not depend on the other chunks.
/// - *Valid result in*: `operators`, for chunks that another one follows.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] of chunks | `lengths` as in [`scan`](super) |
/// | `logs` | [`Model`], logarithms, stride `STATES` | −∞ for missing states |
/// | `states` | scalar | N ≤ `STATES` |
/// | `until` | scalar | steps per chunk, ≥ 1 |
/// | `operators` | [`NewOperators`], stride `STATES` | |
///
/// *Launch*: one block per chunk that another one follows, × models.
#[kernel(
    T = [f32, f64], STATES = [8, 16, 32, 64],
    requires(
        logs.holds(shape.grid.y, STATES),
        states <= STATES,
        until >= 1,
        operators.holds(shape.grid.y, sequences.count, STATES),
        shape.grid.x <= sequences.count,
        shape.shared >= maxima_shared(STATES, size_of::<T>()),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 4 * STATES
)]
pub fn chunk_maxima<T: Real, const STATES: usize>(
    sequences: Sequences,
    logs: Model<T>,
    states: u32,
    until: u32,
    operators: NewOperators,
) {
    let Sequences { count: chunks, base, symbol, .. } = sequences;
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
    let load = |step: u32| if step < until { symbol.get(base.get(step) + m) } else { 0 };
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
                let four = from.get4_at(i * n + 4 * Q as u32);
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
    let at = (model * chunks as usize + m as usize) * STATES;
    i = q;
    while i < states {
        operators.set((at + i as usize) * STATES + j, rows_of(until).get(i * n + j as u32).to_f64());
        if j == 0 {
            offsets.set(at + i as usize, added.get(i));
        }
        i += 4;
    }
}

/// p in (max, +) of each chunk, up to a summand.
///
/// - *Mathematics*: p₁ = ln π, p_{c+1}(j) = maxᵢ (p_c(i) + Q_c(i, j)).
/// - *Thread mapping*: as [`chunk_starts`](super::sums::chunk_starts).
/// - *Shared memory*: 352 words, static: 320, and 32 of reductions. *Barriers*: four per chunk.
/// - *Deterministic*: yes; the bits of a sequence do not depend on the other sequences.
/// - *Valid result in*: `starts`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `chains` | [`Chains`] | |
/// | `logs` | [`Model`], logarithms, stride `STATES` | −∞ for missing states |
/// | `states` | scalar | N ≤ `STATES` |
/// | `operators` | [`Operators`], stride `STATES` | from [`chunk_maxima`] |
/// | `starts` | models × chunks × `STATES` | logarithm |
///
/// *Launch*: M × models blocks.
#[kernel(
    T = [f32, f64], STATES = [8, 16, 32, 64],
    requires(
        chains.holds(shape.grid.x),
        logs.holds(shape.grid.y, STATES),
        states <= STATES,
        operators.holds(shape.grid.y, chains.chunks, STATES),
        starts.len() >= shape.grid.y * chains.chunks * STATES,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 4 * STATES
)]
pub fn chunk_scores<T: Real, const STATES: usize>(
    chains: Chains,
    logs: Model<T>,
    states: u32,
    operators: Operators,
    starts: GlobalMut<T>,
) {
    let (Chains { chunks, order: chain, link }, log_start) = (chains, logs.start);
    let Operators { values: operators, scales: offsets } = operators;
    let weights = warpkov_device::shared_array!(score_weights: f64; 64);
    let parts = warpkov_device::shared_array!(score_parts: f64; 256);
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let (j, q) = (thread::thread_idx_x() as usize % STATES, thread::thread_idx_x() as usize / STATES);
    let (first, last) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| (model * chunks as usize + chain.get(p) as usize) * STATES;
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

/// The largest element of a row of `STATES` elements plus `toward`, and its index; the lowest index breaks ties.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn best_of<T: Real, const STATES: usize>(row: shared::Shared<T>, toward: impl Fn(usize) -> T) -> (T, u32) {
    let (mut best, mut places) = ([T::NEG_INFINITY; 4], [0; 4]);
    each!(Q < STATES / 4, {
        let four = row.get4(Q as u32);
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

/// δ of all steps of each chunk, from its p; and the chunk's maps on the best path to state j behind the chunk, or to
/// the end behind the last chunk: `lasts[j]` is the state in which the chunk ends, `firsts[j]` the state in which it
/// begins. The lowest state breaks ties, as in [`trace`](super::super::trace).
///
/// - *Mathematics*: δₜ(j) = maxᵢ (δₜ₋₁(i) + ln Aᵢⱼ) + ln bⱼ(oₜ), starting from p + ln b(o₁).
/// - *Thread mapping*: a thread per state, with its column of ln A in registers; a block per chunk, or per 32 /
///   `STATES` chunks; `block_idx_y` is the model.
/// - *Shared memory*: 256 words, static. *Barriers*: one per step. *Deterministic*: yes.
/// - *Valid result in*: `delta`, `lasts` and `firsts`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] of chunks | `lengths` as in [`scan`](super), descending |
/// | `logs` | [`Model`], logarithms, stride `STATES` | −∞ for missing states |
/// | `until` | scalar | steps per chunk, ≥ 1 |
/// | `starts` | models × chunks × `STATES` | from [`chunk_scores`] |
/// | `delta` | models × `sequences.rows` × `STATES` | δ |
/// | `lasts`, `firsts` | models × chunks × `STATES` | states; `lasts` may be [`NO_STATE`] |
#[kernel(
    T = [f32, f64], STATES = [8, 16, 32, 64],
    requires(
        logs.holds(shape.grid.y, STATES),
        until >= 1,
        starts.len() >= shape.grid.y * sequences.count * STATES,
        delta.len() >= shape.grid.y * sequences.rows * STATES,
        lasts.len() >= shape.grid.y * sequences.count * STATES,
        firsts.len() >= shape.grid.y * sequences.count * STATES,
        shape.grid.x == (sequences.count * STATES).div_ceil(shape.block),
        shape.block == STATES.max(32),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn chunk_paths<T: Real, const STATES: usize>(
    sequences: Sequences,
    logs: Model<T>,
    until: u32,
    starts: Global<T>,
    delta: GlobalMut<T>,
    lasts: GlobalMut<u32>,
    firsts: GlobalMut<u32>,
) {
    let Sequences { count: chunks, rows, lengths, base, symbol } = sequences;
    let Model { symbols, transitions: log_transitions, table: log_table, end: log_end, .. } = logs;
    let deltas = warpkov_device::shared_array!(path_deltas: T; 128);
    let origins = warpkov_device::shared_array!(path_origins: u32; 128);
    let (model, n) = (thread::block_idx_y() as usize, STATES as u32);
    let (group, j) = (thread::thread_idx_x() / n, thread::thread_idx_x() as usize % STATES);
    let first = thread::block_idx_x() * (thread::block_dim_x() / n);
    let there = first + group < chunks;
    let m = if there { first + group } else { first };
    let known = lengths.get(m);
    let length = if there { known.min(until) } else { 0 };
    let longest = lengths.get(first).min(until);
    let mut column = [T::ZERO; STATES];
    each!(I < STATES / 2, {
        for c in 0..2 {
            column[2 * I + c] = log_transitions.get((model * STATES + 2 * I + c) * STATES + j);
        }
    });
    let row_of = |step: u32| base.get(step) + m;
    let load = |step: u32| if step < length { symbol.get(row_of(step)) } else { 0 };
    let emission = |v: u32| log_table.get((model * symbols as usize + v as usize) * STATES + j);
    let slot = |step: u32| step % 2 * 64 + group * n;
    let deltas_of = |step: u32| deltas.split(slot(step)).1.split(n).0;
    let origins_of = |step: u32| origins.split(slot(step)).1.split(n).0;
    let place = (model * chunks as usize + m as usize) * STATES;
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

/// The states of the best path on both sides of each start of a chunk: `bounds[2m]` is the last state of the preceding
/// chunk, or [`NO_STATE`] for the first chunk; `bounds[2m + 1]` is the last state of chunk m. All are [`NO_STATE`] if
/// the sequence is impossible.
///
/// - *Mathematics*: q_c = lasts_c(f_{c+1}) and f_c = firsts_c(f_{c+1}), where f_c is the first and q_c the last state
///   of chunk c.
/// - *Thread mapping*: a thread per sequence, one per block, `block_idx_y` the model.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `bounds`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `chains` | [`Chains`] | |
/// | `stride` | scalar | elements per row |
/// | `lasts`, `firsts` | models × chunks × `stride` | from [`chunk_paths`] |
/// | `bounds` | models × chunks × 2 | |
///
/// *Launch*: M × models blocks.
#[kernel(
    requires(
        chains.holds(shape.grid.x),
        lasts.len() >= shape.grid.y * chains.chunks * stride,
        firsts.len() >= shape.grid.y * chains.chunks * stride,
        bounds.len() >= 2 * shape.grid.y * chains.chunks,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn link_chunks(chains: Chains, stride: u32, lasts: Global<u32>, firsts: Global<u32>, bounds: GlobalMut<u32>) {
    let Chains { chunks, order: chain, link } = chains;
    if thread::thread_idx_x() > 0 {
        return;
    }
    let (model, sequence) = (thread::block_idx_y() as usize, thread::block_idx_x() as usize);
    let (first, mut p) = (link.get(sequence), link.get(sequence + 1));
    let place = |p: u32| model * chunks as usize + chain.get(p) as usize;
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

/// π and end of each chunk, given its neighbouring states: `starts` is ln A of the preceding state, or ln π; `ends`
/// admits the last state only, with ln end if the sequence ends there.
///
/// - *Mathematics*: starts(j) = ln A(q_{c−1}, j) or ln π(j); ends(j) = 0 or ln end(j) for j = q_c, else −∞.
/// - *Thread mapping*: a warp per chunk, one warp per block, `block_idx_y` the model.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `starts` and `ends`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | elements per row |
/// | `until` | scalar | steps per chunk |
/// | `lengths` | chunks | as in [`scan`](super) |
/// | `bounds` | models × chunks × 2 | from [`link_chunks`] |
/// | `logs` | [`Model`], logarithms, stride `stride` | |
/// | `starts`, `ends` | models × chunks × `stride` | logarithm |
///
/// *Launch*: chunks × models blocks.
#[kernel(
    T = [f32, f64],
    requires(
        lengths.len() >= shape.grid.x,
        bounds.len() >= 2 * shape.grid,
        logs.holds(shape.grid.y, stride),
        starts.len() >= shape.grid * stride,
        ends.len() >= shape.grid * stride,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 32
)]
pub fn pin_chunks<T: Real>(
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
    let chunk = model * thread::grid_dim_x() as usize + m;
    let (before, last) = (bounds.get(2 * chunk), bounds.get(2 * chunk + 1));
    let mut j = warp::lane_id() as usize;
    while j < n {
        let start = match before {
            NO_STATE => log_start.get(model * n + j),
            before => log_transitions.get((model * n + before as usize) * n + j),
        };
        let end = if lengths.get(m) > until { T::ZERO } else { log_end.get(model * n + j) };
        starts.set(chunk * n + j, start);
        ends.set(chunk * n + j, if j as u32 == last { end } else { T::NEG_INFINITY });
        j += 32;
    }
}
