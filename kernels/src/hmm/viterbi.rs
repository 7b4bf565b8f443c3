//! The most probable path: δₜ(j) = maxᵢ (δₜ₋₁(i) + ln Aᵢⱼ) + ln bⱼ(oₜ), δ₁ = ln π + ln b(o₁), and the path back from argmax δ_T + ln end.
//!
//! What leads to a maximum is not stored but found again, for the states of the path alone. Of equal ones the lowest state wins.
//! The largest δ is taken from all of them after every 32nd step, which keeps the digits of long sequences; scores are sums
//! along the path, in f64.
//!
//! *Bytes*, per row: NS elements are written and read.

use crate::device::{Global, GlobalMut, Real, block, copy, kernel, shared, thread, warp};
use crate::hmm::Ahead;
use crate::hmm::forward::scattered;

/// Steps from one subtraction of the largest δ to the next.
pub const PERIOD: u32 = 32;

/// Rows that are on their way to shared memory, or there.
const STAGES: u32 = 8;

/// No state: that of a path that is not possible.
pub const NO_STATE: u32 = u32::MAX;

/// Shared memory of a block of [`viterbi_warp`] in bytes, for elements of `element` bytes.
#[must_use]
pub const fn warp_shared(lanes: usize, element: usize) -> usize {
    element * (2 * 32 + STAGES as usize * 32 + lanes * lanes)
}

/// N ≤ `LANES`: whole sequences in groups of `LANES` lanes, forward and back.
///
/// Results: `path[row]`, and `scores[m]` = ln P(path, O), or [`NO_STATE`] and −∞.
///
/// What is stored of a step are the maxima before emissions are added: going back, the step is then the first i with
/// δₜ₋₁(i) + ln Aᵢⱼ equal to the maximum, which lanes find by a vote.
///
/// *Thread mapping*: a lane per state, with its column of ln A in registers; a warp per block. *Shared memory*: [`warp_shared`],
/// dynamic. *Barriers*: none; warps synchronise. *Deterministic*: yes, and the bits of a sequence do not depend on the others.
/// *Safety*: blocks have 32 threads, the grid has one for 32 / `LANES` sequences; `lengths` descends, and has `sequences` elements;
/// `base` has one more than `lengths[0]`; matrices have stride `LANES`, and −∞ where there is no state; `maxima` has `rows` rows for
/// each model, `path` an element for each.
#[kernel(T = [f32, f64], LANES = [8, 16, 32])]
pub fn viterbi_warp<T: Real, const LANES: usize>(
    sequences: u32,
    symbols: u32,
    rows: u32,
    lengths: Global<u32>,
    base: Global<u32>,
    symbol: Global<u32>,
    log_start: Global<T>,
    log_transitions: Global<T>,
    log_table: Global<T>,
    log_end: Global<T>,
    maxima: GlobalMut<T>,
    path: GlobalMut<u32>,
    scores: GlobalMut<f64>,
) {
    let model = thread::block_idx_y() as usize;
    let (lane, lanes) = (warp::lane_id(), LANES as u32);
    let (group, j) = (lane / lanes, (lane % lanes) as usize);
    let memory = shared::dynamic_shared_mem::<T>();
    let (deltas, memory) = memory.split(64);
    let (ring, matrix) = memory.split(STAGES * 32);
    let mut column = [T::ZERO; LANES];
    each!(I < LANES, {
        column[I] = log_transitions.get((model * LANES + I) * LANES + j);
        if group == 0 {
            matrix.set(j as u32 * lanes + I as u32, column[I]);
        }
    });
    warp::sync_warp(warp::FULL);

    let first = warp::SIZE / lanes * thread::block_idx_x();
    let longest = lengths.get(first as usize);
    let there = first + group < sequences;
    let m = if there { first + group } else { first };
    let length = if there { lengths.get(m as usize) } else { 0 };
    let row_of = |step: u32| base.get(step as usize) + m;
    let at = |step: u32| (model * rows as usize + row_of(step) as usize) * LANES + j;
    let load = |step: u32| if step < length { symbol.get(row_of(step) as usize) } else { 0 };
    let place = |v: u32| (model * symbols as usize + v as usize) * LANES;
    // Without its largest value, at the end of a period.
    let without = |step: u32, delta: T| {
        if step % PERIOD != PERIOD - 1 {
            return delta;
        }
        let largest = warp::reduce_width(delta, lanes, T::max);
        if largest > T::NEG_INFINITY { delta - largest } else { delta }
    };

    let mut ahead = Ahead::<LANES>::new(0, true, load);
    let mut next = log_table.get(place(ahead.get(0)) + j);
    let mut delta = T::NEG_INFINITY;
    let mut step = 0;
    while step < longest {
        let b = next;
        if step + 1 < longest {
            ahead.go_to(step + 1, true, load);
            next = log_table.get(place(ahead.get(step + 1)) + j);
        }
        let maximum = if step == 0 {
            log_start.get(model * LANES + j)
        } else {
            let row = deltas.split(step % 2 * 32).1;
            row.set(lane, delta);
            warp::sync_warp(warp::FULL);
            let mut best = [T::NEG_INFINITY; 4];
            each!(Q < LANES / 4, {
                let four = row.get4(group * lanes + 4 * Q as u32);
                for (k, x) in four.iter().enumerate() {
                    best[k] = larger(best[k], *x + column[4 * Q + k]);
                }
            });
            larger(larger(best[0], best[1]), larger(best[2], best[3]))
        };
        let now = without(step, maximum + b);
        if step < length {
            maxima.set(at(step), maximum);
            delta = now;
        }
        step += 1;
    }

    // The lowest lane of each group whose number is the largest, and whether that is one.
    let group_lanes = if LANES == 32 { u32::MAX } else { (1 << lanes % 32) - 1 };
    let winner =
        |wins: bool| (warp::ballot(warp::FULL, wins) >> (group * lanes) & group_lanes).trailing_zeros() % lanes;
    let last = delta + log_end.get(model * LANES + j);
    let best = warp::reduce_width(last, lanes, T::max);
    let possible = best > T::NEG_INFINITY;
    let mut state = winner(last == best);

    thread::fence();
    let stage = |step: u32| {
        if step < length {
            ring.copy::<1>(step % STAGES * 32 + lane, maxima, at(step));
        }
    };
    let mut k = 1;
    while k < STAGES {
        if longest >= k {
            stage(longest - k);
        }
        copy::commit();
        k += 1;
    }
    let stored = |step: u32| if step < length { ring.get(step % STAGES * 32 + lane) } else { T::NEG_INFINITY };
    // What is needed of a step lies ready one step before: its maxima, and its emissions.
    let mut ahead = Ahead::<LANES>::new(longest - 1, false, load);
    let mut emission_of = |step: u32| {
        ahead.go_to(step, false, load);
        log_table.get(place(ahead.get(step)) + j)
    };
    copy::wait::<{ STAGES - 2 }>();
    let mut maximum = stored(longest - 1);
    let mut next_b = if longest > 1 { emission_of(longest - 2) } else { T::ZERO };
    let mut step = longest;
    while step > 0 {
        step -= 1;
        if step < length && j == 0 {
            path.set(model * rows as usize + row_of(step) as usize, if possible { state } else { NO_STATE });
        }
        if step >= STAGES - 1 {
            stage(step - (STAGES - 1));
        }
        copy::commit();
        if step > 0 {
            let b = next_b;
            if step > 1 {
                next_b = emission_of(step - 2);
            }
            copy::wait::<{ STAGES - 2 }>();
            let before = stored(step - 1);
            let delta = without(step - 1, before + b);
            let target = warp::shuffle(warp::FULL, maximum, group * lanes + state);
            let from = winner(delta + matrix.get(state * lanes + j as u32) == target);
            if step < length {
                state = from;
            }
            maximum = before;
        }
    }
    warp::sync_warp(warp::FULL);

    // Terms of the score do not wait for each other: a lane of the group has every `LANES`-th.
    let mut score = 0.0;
    let mut step = j as u32;
    while possible && step < length {
        let at = model * rows as usize + row_of(step) as usize;
        let state = path.get(at);
        score += log_table.get(place(symbol.get(row_of(step) as usize)) + state as usize).to_f64();
        score += if step > 0 {
            let before = path.get(model * rows as usize + row_of(step - 1) as usize);
            matrix.get(state * lanes + before).to_f64()
        } else {
            log_start.get(model * LANES + state as usize).to_f64()
        };
        if step + 1 == length {
            score += log_end.get(model * LANES + state as usize).to_f64();
        }
        step += lanes;
    }
    warp::sync_warp(warp::FULL);
    let score = warp::reduce_width(score, lanes, |a, b| a + b);
    let score = if possible { score } else { f64::NEG_INFINITY };
    if j == 0 && there {
        scores.set(model * sequences as usize + m as usize, score);
    }
}

/// The larger of two numbers, neither of which is none.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) fn larger<T: Real>(x: T, y: T) -> T {
    x.max(y)
}

/// N ≤ 4·`PER`: δ of all steps of one sequence in one block, with ln A spread over the registers of its threads.
///
/// Results: `delta[row]`, from which [`trace`](super::trace) finds the path.
///
/// *Thread mapping*: 16 lanes for four states, a sixteenth of the columns of ln A each, then four lanes for each state; a block per sequence. *Shared memory*: two rows,
/// static. *Barriers*: one per step. *Deterministic*: yes. *Safety*: blocks have 16·`PER` threads, the grid a block for each sequence;
/// otherwise as [`viterbi_warp`], with matrices of stride 4·`PER`.
#[kernel(T = [f32, f64], PER = [16, 32])]
pub fn viterbi_block<T: Real, const PER: usize>(
    symbols: u32,
    rows: u32,
    lengths: Global<u32>,
    base: Global<u32>,
    symbol: Global<u32>,
    log_start: Global<T>,
    log_transitions: Global<T>,
    log_table: Global<T>,
    delta: GlobalMut<T>,
) {
    let memory = crate::shared_array!(viterbi_rows: T; 256);
    let all = crate::shared_array!(viterbi_largest: T; 1);
    let (states, model) = (4 * PER, thread::block_idx_y() as usize);
    let m = thread::block_idx_x();
    let length = lengths.get(m as usize);
    let (j, p) = ((thread::thread_idx_x() / 4) as usize, thread::thread_idx_x() % 4);
    let half_of = |half: u32| memory.split(half * states as u32).1.split(states as u32).0;
    // Of the rows lane l of 16 has 64q + 4l … 64q + 4l + 3, of four columns.
    let l = warp::lane_id() % 16;
    let mut a = [[T::ZERO; 4]; PER];
    each!(K < PER / 4, {
        let i = 64 * (K / 4) + 4 * l as usize + K % 4;
        a[K] = log_transitions.get4(((model * states + i) * states + j / 4 * 4) / 4);
    });
    let row_of = |step: u32| base.get(step as usize) + m;
    let load = |step: u32| if step < length { symbol.get(row_of(step) as usize) } else { 0 };
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
                let four = row.get4(64 * Q as u32 + 4 * l);
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
