//! The most probable path, backwards: qₜ₋₁ = argmaxᵢ (δₜ₋₁(i) + ln A(i, qₜ)), the lowest of equal ones; and ln P(path, O) along it.
//!
//! *Bytes*: N elements of δ and of ln Aᵀ are read for each row.

use crate::device::{Global, GlobalMut, Real, kernel, thread, warp};
use crate::hmm::viterbi::NO_STATE;

/// States of which a lane loads δ before the state that they may lead to is known.
const EARLY: usize = 4;

/// The larger of two scores, and of equal ones that of the lower state.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn better<T: Real>((x, i): (T, u32), (y, j): (T, u32)) -> (T, u32) {
    if y > x || (y == x && j < i) { (y, j) } else { (x, i) }
}

/// The best of all lanes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn best_of_warp<T: Real>(mut best: (T, u32)) -> (T, u32) {
    let mut distance = 16;
    while distance > 0 {
        let other = (warp::shuffle_xor(warp::FULL, best.0, distance), warp::shuffle_xor(warp::FULL, best.1, distance));
        best = better(best, other);
        distance /= 2;
    }
    best
}

/// The path through δ of all steps.
///
/// Results: as those of [`viterbi_warp`](super::viterbi::viterbi_warp).
///
/// *Thread mapping*: a warp per sequence, in blocks of one; lane l has states l, l + 32, …. *Deterministic*: yes. *Safety*: blocks have
/// 32 threads, the grid one for each sequence; its y is the model; `delta` and ln Aᵀ have rows of `stride` elements.
#[kernel(T = [f32, f64])]
pub fn trace<T: Real>(
    sequences: u32,
    states: u32,
    stride: u32,
    symbols: u32,
    rows: u32,
    lengths: Global<u32>,
    base: Global<u32>,
    symbol: Global<u32>,
    log_start: Global<T>,
    log_transposed: Global<T>,
    log_table: Global<T>,
    log_end: Global<T>,
    delta: Global<T>,
    path: GlobalMut<u32>,
    scores: GlobalMut<f64>,
) {
    let (m, model) = (thread::block_idx_x(), thread::block_idx_y() as usize);
    let lane = warp::lane_id();
    let (n, length) = (stride as usize, lengths.get(m as usize));
    let row_of = |step: u32| model * rows as usize + (base.get(step as usize) + m) as usize;
    let early_of = |step: u32| {
        let mut early = [T::NEG_INFINITY; EARLY];
        for (k, x) in early.iter_mut().enumerate() {
            let i = lane + 32 * k as u32;
            if i < states {
                *x = delta.get(row_of(step) * n + i as usize);
            }
        }
        early
    };
    // The best state of a step, where `toward` is what is added to δ.
    let best_of = |step: u32, early: [T; EARLY], toward: Global<T>, first: usize| {
        let mut best = (T::NEG_INFINITY, lane);
        for k in 0..EARLY {
            let i = lane + 32 * k as u32;
            if i < states {
                best = better(best, (early[k] + toward.get(first + i as usize), i));
            }
        }
        let mut i = lane + 32 * EARLY as u32;
        while i < states {
            let x = delta.get(row_of(step) * n + i as usize) + toward.get(first + i as usize);
            best = better(best, (x, i));
            i += 32;
        }
        best_of_warp(best)
    };

    let (best, mut state) = best_of(length - 1, early_of(length - 1), log_end, model * n);
    let possible = best > T::NEG_INFINITY;
    let mut early = if length > 1 { early_of(length - 2) } else { [T::NEG_INFINITY; EARLY] };
    let mut step = length;
    while step > 0 {
        step -= 1;
        if lane == 0 {
            path.set(row_of(step), if possible { state } else { NO_STATE });
        }
        if possible && step > 0 {
            let now = early;
            if step > 1 {
                early = early_of(step - 2);
            }
            (_, state) = best_of(step - 1, now, log_transposed, (model * n + state as usize) * n);
        }
    }
    warp::sync_warp(warp::FULL);

    // Terms of the score do not wait for each other: a lane has every 32nd.
    let mut score = 0.0;
    let mut step = lane;
    while possible && step < length {
        let state = path.get(row_of(step)) as usize;
        let v = model * symbols as usize + symbol.get((base.get(step as usize) + m) as usize) as usize;
        score += log_table.get(v * n + state).to_f64();
        score += if step > 0 {
            log_transposed.get((model * n + state) * n + path.get(row_of(step - 1)) as usize).to_f64()
        } else {
            log_start.get(model * n + state).to_f64()
        };
        if step + 1 == length {
            score += log_end.get(model * n + state).to_f64();
        }
        step += 32;
    }
    let score = warp::reduce(score, |a, b| a + b);
    let score = if possible { score } else { f64::NEG_INFINITY };
    if lane == 0 {
        scores.set(model * sequences as usize + m as usize, score);
    }
}
