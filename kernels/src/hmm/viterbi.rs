//! The most probable path (Viterbi's algorithm).
//!
//! *Mathematics*: δ₁ = ln π + ln b(o₁), δₜ(j) = maxᵢ (δₜ₋₁(i) + ln Aᵢⱼ) + ln bⱼ(oₜ), and the path back from argmaxⱼ
//! δ_T(j) + ln endⱼ.
//!
//! Up to 32 states, the forward pass stores the predecessor of every maximum. For more states, [`trace`](super::trace)
//! recomputes it for the states of the path alone. The lowest state breaks ties. After every 32nd step the largest δ is
//! subtracted from all of them, which preserves the digits of long sequences; scores are sums along the path, in f64.
//!
//! *Bytes* per row: writes and reads NS elements; up to 32 states NS bytes.

use warpkov_device::device::{GlobalMut, Real, block, copy, kernel, math, shared, thread, warp};

use crate::hmm::Ahead;
use crate::hmm::forward::scattered;
use crate::hmm::model::{Model, Sequences};

/// Steps between two subtractions of the largest δ; a multiple of four.
pub const PERIOD: u32 = 32;

/// Words of predecessors in flight to shared memory, or in use.
const STAGES: u32 = 8;

/// In place of a state: the path is impossible.
pub const NO_STATE: u32 = u32::MAX;

/// Row pitch of δ in shared memory: groups of lanes read from all banks.
const fn pitch(states: usize) -> usize {
    states + 4
}

/// Dynamic shared memory per block of [`viterbi_warp`], in bytes, for elements of `element` bytes.
#[must_use]
pub const fn warp_shared(states: usize, element: usize) -> usize {
    element * (2 * (32 / states) * pitch(states) + states * states)
}

/// Steps whose predecessors share a word.
const WORD: u32 = 4;

/// The larger of two numbers, with its index; of equal numbers the first.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn better<T: Real>(x: (T, u32), y: (T, u32)) -> (T, u32) {
    if y.0 > x.0 { y } else { x }
}

/// N ≤ `STATES`: whole sequences in groups of `STATES` lanes, forward and back.
///
/// Results: `path[row]` and `scores[m]` = ln P(path, O); [`NO_STATE`] and −∞ if no path is possible.
///
/// The forward pass stores the predecessor of each maximum in one byte: following bytes is faster than recomputing
/// maxima. The predecessors of four steps share a 32-bit word per lane, in the row of the first of these steps.
///
/// The column of ln A, δ and the prefetched emissions stay in registers through the forward
/// pass, and the traceback reads what the same lanes wrote.
///
/// - *Thread mapping*: a lane per state, with its column of ln A in registers; one warp per block, 32 / `STATES`
///   sequences per warp. `block_idx_y` is the model.
/// - *Shared memory*: [`warp_shared`], dynamic; 256 words, static. *Barriers*: none; the warp synchronises itself.
/// - *Deterministic*: yes; the bits of a sequence do not depend on the other sequences.
/// - *Valid result in*: `path` and `scores`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `logs` | [`Model`], logarithms, stride `STATES` | −∞ for missing states |
/// | `pointers` | models × `sequences.rows` × `STATES` | predecessors |
/// | `path` | models × `sequences.rows` | states |
/// | `scores` | models × M | ln P(path, O) |
#[kernel(
    T = [f32, f64], STATES = [8, 16, 32],
    requires(
        logs.holds(shape.grid.y, STATES),
        pointers.len() >= shape.grid.y * sequences.rows * STATES,
        path.len() >= shape.grid.y * sequences.rows,
        scores.len() >= shape.grid.y * sequences.count,
        shape.grid.x == (sequences.count * STATES).div_ceil(32),
        shape.shared >= warp_shared(STATES, size_of::<T>()),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 32
)]
pub fn viterbi_warp<T: Real, const STATES: usize>(
    sequences: Sequences,
    logs: Model<T>,
    pointers: GlobalMut<u32>,
    path: GlobalMut<u32>,
    scores: GlobalMut<f64>,
) {
    let Sequences { count: sequences, rows, lengths, base, symbol } = sequences;
    let Model { symbols, start: log_start, transitions: log_transitions, table: log_table, end: log_end, .. } = logs;
    let model = thread::block_idx_y() as usize;
    let lanes = STATES as u32;
    let (lane, group, own) = (warp::lane_id(), warp::lane_id() / lanes, warp::lane_id() % lanes);
    let memory = shared::dynamic_shared_mem::<T>();
    let half = 32 / lanes * pitch(STATES) as u32;
    let (deltas, matrix) = memory.split(2 * half);
    let ring = warpkov_device::shared_array!(viterbi_ring: u32; 256);
    let mut column = [T::ZERO; STATES];
    each!(I < STATES, {
        column[I] = log_transitions.get((model * STATES + I) * STATES + own as usize);
        if group == 0 {
            matrix.set(own * lanes + I as u32, column[I]);
        }
    });
    warp::sync_warp(warp::FULL);

    let first = warp::SIZE / lanes * thread::block_idx_x();
    let longest = lengths.get(first);
    let there = first + group < sequences;
    let m = if there { first + group } else { first };
    let length = if there { lengths.get(m) } else { 0 };
    let row_of = |step: u32| base.get(step) + m;
    let word_of = |step: u32| (model * rows as usize + row_of(step) as usize) * STATES + own as usize;
    let load = |step: u32| if step < length { symbol.get(row_of(step)) } else { 0 };
    let log_table = log_table.skip(model * symbols as usize * STATES);
    let own_table = log_table.skip(own);
    let emission = |v: u32| own_table.get(v as usize * STATES);
    let start = log_start.get(model * STATES + own as usize);
    let parts = [0, half].map(|first| deltas.split(first + group * pitch(STATES) as u32).1);

    let mut ahead = Ahead::<4>::new(0, true, load);
    // Emissions of a block of steps; each makes room for that of the next block.
    let mut b = [0, 1, 2, 3].map(|step| emission(ahead.get(step)));
    let mut delta = T::NEG_INFINITY;
    // Four steps at a time. Steps behind the last change nothing.
    let mut block = 0;
    while block < longest {
        let beyond = Ahead::<4>::beyond(block, true, load);
        let mut word = 0;
        each!(S < 4, {
            let step = block + S as u32;
            let mut now = start;
            if S > 0 || block > 0 {
                let row = parts[S % 2];
                row.set(own, delta);
                warp::sync_warp(warp::FULL);
                // The best of four neighbours, then of all before them: this shortens the chain of dependent
                // comparisons.
                let mut best = (T::NEG_INFINITY, 0);
                each!(Q < STATES / 4, at most 8, {
                    let four = row.get4(Q as u32);
                    let sums = [0, 1, 2, 3].map(|k| (four[k] + column[4 * Q + k], (4 * Q + k) as u32));
                    let of_four = better(better(sums[0], sums[1]), better(sums[2], sums[3]));
                    best = if Q == 0 { of_four } else { better(best, of_four) };
                });
                now = best.0;
                word = math::settled(word | best.1 << (8 * S));
            }
            now += b[S];
            b[S] = emission(ahead.away(step, 1));
            if S == 3 && step % PERIOD == PERIOD - 1 {
                let largest = warp::reduce_width(now, lanes, T::max);
                if largest > T::NEG_INFINITY {
                    now = now - largest;
                }
            }
            if step < length {
                delta = now;
            }
        });
        if block < length {
            pointers.set(word_of(block), word);
        }
        ahead.turn(beyond);
        block += WORD;
    }

    let last = delta + log_end.get(model * STATES + own as usize);
    let largest = warp::reduce_width(last, lanes, T::max);
    let is_best = largest > T::NEG_INFINITY && last == largest;
    let mut state = warp::reduce_width(if is_best { own } else { NO_STATE }, lanes, u32::min);
    let possible = state != NO_STATE;

    // Each lane reads back what it wrote.
    thread::fence();
    let stage = |word: u32| {
        if WORD * word < length {
            ring.copy::<1>(word % STAGES * 32 + lane, pointers, word_of(WORD * word));
        }
    };
    let mut left = longest.div_ceil(WORD);
    let mut k = 1;
    while k < STAGES {
        if left >= k {
            stage(left - k);
        }
        copy::commit();
        k += 1;
    }
    while left > 0 {
        left -= 1;
        if left >= STAGES - 1 {
            stage(left - (STAGES - 1));
        }
        copy::commit();
        copy::wait::<{ STAGES - 1 }>();
        let block = WORD * left;
        let word = if block < length { ring.get(left % STAGES * 32 + lane) } else { 0 };
        // States of the four steps, from the last to the first.
        let mut states = [state; 4];
        each!(S < 4, {
            let k = 3 - S;
            let step = block + k as u32;
            states[k] = state;
            let from = warp::shuffle(warp::FULL, word, group * lanes + state % lanes) >> (8 * k) & 0xff;
            if possible && step < length && step > 0 {
                state = from;
            }
        });
        // Lane k of a group writes the state of step k.
        let step = block + own;
        if own < WORD && step < length {
            let pair = if own < 2 { [states[0], states[1]] } else { [states[2], states[3]] };
            let state = if own % 2 == 0 { pair[0] } else { pair[1] };
            path.set(model * rows as usize + row_of(step) as usize, state);
        }
    }
    warp::sync_warp(warp::FULL);

    // The terms of the score are independent: a lane of the group sums every `lanes`-th.
    let mut score = 0.0;
    let mut step = own;
    while possible && step < length {
        let at = model * rows as usize + row_of(step) as usize;
        let state = path.get(at);
        score += log_table.get(symbol.get(row_of(step)) as usize * STATES + state as usize).to_f64();
        score += if step > 0 {
            let before = path.get(model * rows as usize + row_of(step - 1) as usize);
            matrix.get(state * lanes + before).to_f64()
        } else {
            log_start.get(model * STATES + state as usize).to_f64()
        };
        if step + 1 == length {
            score += log_end.get(model * STATES + state as usize).to_f64();
        }
        step += lanes;
    }
    warp::sync_warp(warp::FULL);
    let score = warp::reduce_width(score, lanes, |a, b| a + b);
    let score = if possible { score } else { f64::NEG_INFINITY };
    if own == 0 && there {
        scores.set(model * sequences as usize + m as usize, score);
    }
}

/// The larger of two numbers, neither of which is NaN.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) fn larger<T: Real>(x: T, y: T) -> T {
    x.max(y)
}

/// N ≤ 4·`PER`: δ of all steps of one sequence in one block, with ln A distributed over the registers of its threads.
///
/// Result: `delta[row]`, from which [`trace`](super::trace) finds the path.
///
/// - *Thread mapping*: 16 lanes per four states, a sixteenth of the columns of ln A each; then four lanes per state.
///   One block per sequence; `block_idx_y` is the model.
/// - *Shared memory*: 289 words, static: two rows, the largest δ, and reductions.
/// - *Barriers*: one per step, and three more per [`PERIOD`] steps. *Deterministic*: yes.
/// - *Valid result in*: `delta`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `logs` | [`Model`], logarithms, stride 4·`PER` | −∞ for missing states |
/// | `delta` | models × `sequences.rows` × 4·`PER` | δ |
#[kernel(
    T = [f32, f64], PER = [16, 32],
    requires(
        logs.holds(shape.grid.y, 4 * PER),
        delta.len() >= shape.grid.y * sequences.rows * 4 * PER,
        shape.grid.x == sequences.count,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 16 * PER
)]
pub fn viterbi_block<T: Real, const PER: usize>(sequences: Sequences, logs: Model<T>, delta: GlobalMut<T>) {
    let Sequences { rows, lengths, base, symbol, .. } = sequences;
    let Model { symbols, start: log_start, transitions: log_transitions, table: log_table, .. } = logs;
    let memory = warpkov_device::shared_array!(viterbi_rows: T; 256);
    let all = warpkov_device::shared_array!(viterbi_largest: T; 1);
    let (states, model) = (4 * PER, thread::block_idx_y() as usize);
    let m = thread::block_idx_x();
    let length = lengths.get(m);
    let (j, p) = ((thread::thread_idx_x() / 4) as usize, thread::thread_idx_x() % 4);
    let half_of = |half: u32| memory.split(half * states as u32).1.split(states as u32).0;
    // Rows of lane l of 16: 64q + 4l … 64q + 4l + 3, in four columns.
    let l = warp::lane_id() % 16;
    let mut a = [[T::ZERO; 4]; PER];
    each!(K < PER / 4, {
        let i = 64 * (K / 4) + 4 * l as usize + K % 4;
        a[K] = log_transitions.get4(((model * states + i) * states + j / 4 * 4) / 4);
    });
    let row_of = |step: u32| base.get(step) + m;
    let load = |step: u32| if step < length { symbol.get(row_of(step)) } else { 0 };
    let emission = |v: u32| log_table.get((model * symbols as usize + v as usize) * states + j);
    let mut ahead = Ahead::<32>::new(0, true, load);
    let mut next = emission(ahead.get(0));
    let mut step = 0;
    while step < length {
        let b = next;
        if step + 1 < length {
            ahead.go_to(step + 1, true, load);
            next = emission(ahead.get(step + 1));
        }
        let maximum = if step == 0 {
            log_start.get(model * states + j)
        } else {
            let row = half_of((step + 1) % 2);
            let mut best = [T::NEG_INFINITY; 4];
            each!(Q < PER / 16, {
                let four = row.get4(16 * Q as u32 + l);
                for (k, x) in four.iter().enumerate() {
                    for c in 0..4 {
                        best[c] = larger(best[c], *x + a[4 * Q + k][c]);
                    }
                }
            });
            scattered(best, larger)
        };
        let mut now = maximum + b;
        if step % PERIOD == PERIOD - 1 {
            let largest = block::reduce(now, T::NEG_INFINITY, T::max);
            if thread::thread_idx_x() == 0 {
                all.set(0, largest);
            }
            thread::sync_threads();
            let largest = all.get(0);
            now = if largest > T::NEG_INFINITY { now - largest } else { now };
        }
        if p == 0 {
            half_of(step % 2).set(j as u32, now);
            delta.set((model * rows as usize + row_of(step) as usize) * states + j, now);
        }
        thread::sync_threads();
        step += 1;
    }
}
