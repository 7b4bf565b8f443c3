//! Traceback of the most probable path.
//!
//! *Mathematics*: q_T = argmaxⱼ (δ_T(j) + ln endⱼ) and qₜ₋₁ = argmaxᵢ (δₜ₋₁(i) + ln A(i, qₜ)), where the lowest state
//! breaks ties; ln P(path, O) = ln π(q₁) + Σ ln A(qₜ₋₁, qₜ) + Σ ln b(oₜ | qₜ) + ln end(q_T).
//!
//! *Bytes* per row: reads N elements of δ and N of ln Aᵀ.

use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread, warp};

use crate::hmm::model::{Model, Sequences};
use crate::hmm::viterbi::NO_STATE;

/// States that a warp compares at a time, four per lane.
const TOGETHER: usize = 128;

/// Bits of x as unsigned integers in the order of x: its high half, or all of it, and its low half.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn ordered<T: Real>(x: T) -> (u32, u32) {
    // Adding 0 turns −0 into +0.
    let raw = (x + T::ZERO).to_raw();
    let (high, low) = if T::WIDE { ((raw >> 32) as u32, raw as u32) } else { (raw as u32, 0) };
    if high >> 31 == 0 { (high | 1 << 31, low) } else { (!high, !low) }
}

/// The lowest of the best states over all lanes.
///
/// *Takes part*: all 32 lanes. *Valid result in*: all lanes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn best_of_warp<T: Real>((x, state): (T, u32)) -> u32 {
    let (high, low) = ordered(x);
    let mut wins = high == warp::max_u32(warp::FULL, high);
    if T::WIDE {
        let low = if wins { low } else { 0 };
        wins &= low == warp::max_u32(warp::FULL, low);
    }
    warp::min_u32(warp::FULL, if wins { state } else { u32::MAX })
}

/// The most probable path through δ of all steps.
///
/// Results as those of [`viterbi_warp`](super::viterbi::viterbi_warp). If `own` is not 0, each sequence has its own π
/// and end. For the first 128·`EARLY` states, δ is loaded before the succeeding state is known, which shortens the
/// chain of dependent loads.
///
/// - *Thread mapping*: a warp per sequence, one warp per block; of each 128 states, lane l has 4l … 4l + 3.
///   `block_idx_y` is the model.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `path` and `scores`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `logs` | [`Model`], logarithms, stride `stride` | −∞ for missing states; `start` and `end` rows per model, or per model and sequence if `own` |
/// | `stride` | scalar | multiple of 4 |
/// | `own` | scalar | 1 or 0 |
/// | `delta` | models × `sequences.rows` × `stride` | δ; −∞ for missing states |
/// | `path` | models × `sequences.rows` | states |
/// | `scores` | models × M | ln P(path, O) |
#[kernel(
    T = [f32, f64], EARLY = [1, 4],
    requires(
        logs.holds(shape.grid.y, stride),
        stride % 4 == 0,
        if own > 0 {
            logs.start.len() >= shape.grid.y * sequences.count * stride;
            logs.end.len() >= shape.grid.y * sequences.count * stride
        },
        delta.len() >= shape.grid.y * sequences.rows * stride,
        path.len() >= shape.grid.y * sequences.rows,
        scores.len() >= shape.grid.y * sequences.count,
        shape.grid.x == sequences.count,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 32
)]
pub fn trace<T: Real, const EARLY: usize>(
    sequences: Sequences,
    logs: Model<T>,
    stride: u32,
    own: u32,
    delta: Global<T>,
    path: GlobalMut<u32>,
    scores: GlobalMut<f64>,
) {
    let Sequences { count: sequences, rows, lengths, base, symbol } = sequences;
    let Model { symbols, start: log_start, transposed: log_transposed, table: log_table, end: log_end, .. } = logs;
    let (m, model) = (thread::block_idx_x(), thread::block_idx_y() as usize);
    let lane = warp::lane_id();
    let (n, length) = (stride as usize, lengths.get(m));
    let row_of = |step: u32| model * rows as usize + (base.get(step) + m) as usize;
    let early_of = |step: u32| {
        let mut early = [[T::NEG_INFINITY; 4]; EARLY];
        each!(Q < EARLY, {
            let i = TOGETHER * Q + 4 * lane as usize;
            if i < n {
                early[Q] = delta.get4((row_of(step) * n + i) / 4);
            }
        });
        early
    };
    // The best state of a step; `toward` is added to δ.
    let best_of = |step: u32, early: [[T; 4]; EARLY], toward: Global<T>, first: usize| {
        let mut added = [[T::NEG_INFINITY; 4]; EARLY];
        each!(Q < EARLY, {
            let i = TOGETHER * Q + 4 * lane as usize;
            if i < n {
                added[Q] = toward.get4((first + i) / 4);
            }
        });
        let mut best = (T::NEG_INFINITY, NO_STATE);
        let mut meet = |i: usize, delta: [T; 4], added: [T; 4]| {
            for c in 0..4 {
                let x = delta[c] + added[c];
                if x > best.0 {
                    best = (x, (i + c) as u32);
                }
            }
        };
        each!(Q < EARLY, {
            meet(TOGETHER * Q + 4 * lane as usize, early[Q], added[Q]);
        });
        let mut i = TOGETHER * EARLY + 4 * lane as usize;
        while i < n {
            meet(i, delta.get4((row_of(step) * n + i) / 4), toward.get4((first + i) / 4));
            i += TOGETHER;
        }
        best_of_warp(best)
    };

    let ends = if own == 0 { model } else { model * sequences as usize + m as usize } * n;
    let mut state = best_of(length - 1, early_of(length - 1), log_end, ends);
    let possible = state != NO_STATE;
    let mut early = if length > 1 { early_of(length - 2) } else { [[T::NEG_INFINITY; 4]; EARLY] };
    let mut step = length;
    while step > 0 {
        step -= 1;
        if lane == 0 {
            path.set(row_of(step), state);
        }
        if possible && step > 0 {
            let now = early;
            if step > 1 {
                early = early_of(step - 2);
            }
            state = best_of(step - 1, now, log_transposed, (model * n + state as usize) * n);
        }
    }
    warp::sync_warp(warp::FULL);

    // The terms of the score are independent: a lane sums every 32nd.
    let mut score = 0.0;
    let mut step = lane;
    while possible && step < length {
        let state = path.get(row_of(step)) as usize;
        let v = model * symbols as usize + symbol.get(base.get(step) + m) as usize;
        score += log_table.get(v * n + state).to_f64();
        score += if step > 0 {
            log_transposed.get((model * n + state) * n + path.get(row_of(step - 1)) as usize).to_f64()
        } else {
            log_start.get(ends + state).to_f64()
        };
        if step + 1 == length {
            score += log_end.get(ends + state).to_f64();
        }
        step += 32;
    }
    let score = warp::reduce(score, |a, b| a + b);
    let score = if possible { score } else { f64::NEG_INFINITY };
    if lane == 0 {
        scores.set(model * sequences as usize + m as usize, score);
    }
}
