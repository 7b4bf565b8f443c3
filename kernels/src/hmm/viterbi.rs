//! The most probable path: δₜ(j) = maxᵢ (δₜ₋₁(i) + ln Aᵢⱼ) + ln bⱼ(oₜ), δ₁ = ln π + ln b(o₁), and the path back from argmax δ_T + ln end.
//!
//! What leads to a maximum is stored for up to 32 states; for more it is found again, for the states of the path alone. Of equal ones the
//! lowest state wins.
//! The largest δ is taken from all of them after every 32nd step, which keeps the digits of long sequences; scores are sums
//! along the path, in f64.
//!
//! *Bytes*, per row: NS elements are written and read; for up to 32 states NS bytes.

use crate::device::{Global, GlobalMut, Real, block, copy, kernel, shared, thread, warp};
use crate::hmm::Ahead;
use crate::hmm::forward::scattered;

/// Steps from one subtraction of the largest δ to the next.
pub const PERIOD: u32 = 32;

/// Words of pointers that are on their way to shared memory, or there.
const STAGES: u32 = 8;

/// No state: that of a path that is not possible.
pub const NO_STATE: u32 = u32::MAX;

/// Lanes of [`viterbi_warp`] for a sequence: each has two states, or one where ln A would not fit in registers.
#[must_use]
pub const fn lanes_of(states: usize) -> usize {
    if states < 16 { states / 2 } else { states }
}

/// From row to row of δ in shared memory: groups of lanes read from all banks.
const fn pitch(states: usize) -> usize {
    states + 4
}

/// Shared memory of a block of [`viterbi_warp`] in bytes, for elements of `element` bytes.
#[must_use]
pub const fn warp_shared(states: usize, element: usize) -> usize {
    element * (2 * (32 / lanes_of(states)) * pitch(states) + states * states)
}

/// N ≤ `STATES`: whole sequences in groups of [`lanes_of`] lanes, forward and back.
///
/// Results: `path[row]`, and `scores[m]` = ln P(path, O), or [`NO_STATE`] and −∞.
///
/// What leads to each maximum is stored in a byte: to follow bytes takes less than to find maxima again. Those of two or four steps
/// make a word of a lane, which lies in the row of the first of them.
///
/// *Thread mapping*: [`lanes_of`] lanes per sequence, with their columns of ln A in registers; a warp per block. *Shared
/// memory*: [`warp_shared`], dynamic; 256 words, static. *Barriers*: none; warps synchronise. *Deterministic*: yes, and the
/// bits of a sequence do not depend on the others. *Safety*: blocks have 32 threads, the grid has one for 32 / lanes
/// sequences; `lengths` descends, and has `sequences` elements; `base` has one more than `lengths[0]`; matrices have stride
/// `STATES`, and −∞ where there is no state; `pointers` has `rows` rows of a word per lane for each model, `path` an element
/// for each.
#[kernel(T = [f32, f64], STATES = [8, 16, 32])]
pub fn viterbi_warp<T: Real, const STATES: usize>(
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
    pointers: GlobalMut<u32>,
    path: GlobalMut<u32>,
    scores: GlobalMut<f64>,
) {
    let model = thread::block_idx_y() as usize;
    let lanes = lanes_of(STATES) as u32;
    // States of a lane, and steps of a word.
    let each = STATES / lanes as usize;
    let together = 4 / each as u32;
    let (lane, group, l) = (warp::lane_id(), warp::lane_id() / lanes, warp::lane_id() % lanes);
    let first_state = each * l as usize;
    let memory = shared::dynamic_shared_mem::<T>();
    let half = 32 / lanes * pitch(STATES) as u32;
    let (deltas, matrix) = memory.split(2 * half);
    let ring = crate::shared_array!(viterbi_ring: u32; 256);
    let mut columns = [[T::ZERO; 2]; STATES];
    each!(I < STATES, {
        for e in 0..each {
            columns[I][e] = log_transitions.get((model * STATES + I) * STATES + first_state + e);
            if group == 0 {
                matrix.set((first_state + e) as u32 * STATES as u32 + I as u32, columns[I][e]);
            }
        }
    });
    warp::sync_warp(warp::FULL);

    let first = warp::SIZE / lanes * thread::block_idx_x();
    let longest = lengths.get(first as usize);
    let there = first + group < sequences;
    let m = if there { first + group } else { first };
    let length = if there { lengths.get(m as usize) } else { 0 };
    let row_of = |step: u32| base.get(step as usize) + m;
    let word_of = |step: u32| (model * rows as usize + row_of(step) as usize) * lanes as usize + l as usize;
    let load = |step: u32| if step < length { symbol.get(row_of(step) as usize) } else { 0 };
    let place = |v: u32| (model * symbols as usize + v as usize) * STATES;
    let emissions = |v: u32| {
        let mut b = [T::ZERO; 2];
        for e in 0..each {
            b[e] = log_table.get(place(v) + first_state + e);
        }
        b
    };

    let mut ahead = Ahead::<4>::new(0, true, load);
    let mut next = emissions(ahead.get(0));
    let mut delta = [T::NEG_INFINITY; 2];
    let mut word = 0;
    let mut step = 0;
    while step < longest {
        let beyond = Ahead::<4>::beyond(step, true, load);
        let left_behind = longest.min(step / 4 * 4 + 4);
        while step < left_behind {
            let b = next;
            if step + 1 < longest {
                next = emissions(ahead.peek(step + 1, true));
            }
            let mut now = [T::NEG_INFINITY; 2];
            if step == 0 {
                for e in 0..each {
                    now[e] = log_start.get(model * STATES + first_state + e);
                }
            } else {
                let row = deltas.split(step % 2 * half + group * pitch(STATES) as u32).1;
                for e in 0..each {
                    row.set((first_state + e) as u32, delta[e]);
                }
                warp::sync_warp(warp::FULL);
                // The best of the lower half of states, and of the upper.
                let mut best = [[(T::NEG_INFINITY, 0); 2]; 2];
                each!(Q < STATES / 4, {
                    let four = row.get4(4 * Q as u32);
                    let best = &mut best[Q / (STATES / 8)];
                    for (k, x) in four.iter().enumerate() {
                        for e in 0..each {
                            let x = *x + columns[4 * Q + k][e];
                            if x > best[e].0 {
                                best[e] = (x, 4 * Q as u32 + k as u32);
                            }
                        }
                    }
                });
                for e in 0..each {
                    let (x, from) = if best[1][e].0 > best[0][e].0 { best[1][e] } else { best[0][e] };
                    now[e] = x;
                    word |= from << (8 * (each as u32 * (step % together) + e as u32));
                }
            }
            for e in 0..each {
                now[e] += b[e];
            }
            if step % PERIOD == PERIOD - 1 {
                let largest = warp::reduce_width(now[0].max(now[1]), lanes, T::max);
                if largest > T::NEG_INFINITY {
                    now = now.map(|x| x - largest);
                }
            }
            if step < length {
                delta = now;
            }
            step += 1;
            if step % together == 0 || step == longest {
                let start = (step - 1) / together * together;
                if start < length {
                    pointers.set(word_of(start), word);
                }
                word = 0;
            }
        }
        ahead.turn(beyond);
    }

    let mut best = (T::NEG_INFINITY, NO_STATE);
    for e in 0..each {
        let x = delta[e] + log_end.get(model * STATES + first_state + e);
        if x > best.0 {
            best = (x, (first_state + e) as u32);
        }
    }
    let largest = warp::reduce_width(best.0, lanes, T::max);
    let mut state = warp::reduce_width(if best.0 == largest { best.1 } else { NO_STATE }, lanes, u32::min);
    let possible = state != NO_STATE;

    // A lane reads again what it wrote.
    thread::fence();
    let stage = |word: u32| {
        if together * word < length {
            ring.copy::<1>(word % STAGES * 32 + lane, pointers, word_of(together * word));
        }
    };
    let mut left = longest.div_ceil(together);
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
        let word = if together * left < length { ring.get(left % STAGES * 32 + lane) } else { 0 };
        let mut step = together * left + together;
        while step > together * left {
            step -= 1;
            let states = warp::shuffle(warp::FULL, word, group * lanes + state / each as u32 % lanes);
            let from = states >> (8 * (each as u32 * (step % together) + state % each as u32)) & 0xff;
            if step < length {
                if l == 0 {
                    path.set(model * rows as usize + row_of(step) as usize, state);
                }
                if possible && step > 0 {
                    state = from;
                }
            }
        }
    }
    warp::sync_warp(warp::FULL);

    // Terms of the score do not wait for each other: a lane of the group has every `lanes`-th.
    let mut score = 0.0;
    let mut step = l;
    while possible && step < length {
        let at = model * rows as usize + row_of(step) as usize;
        let state = path.get(at);
        score += log_table.get(place(symbol.get(row_of(step) as usize)) + state as usize).to_f64();
        score += if step > 0 {
            let before = path.get(model * rows as usize + row_of(step - 1) as usize);
            matrix.get(state * STATES as u32 + before).to_f64()
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
    if l == 0 && there {
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
/// *Thread mapping*: 16 lanes for four states, a sixteenth of the columns of ln A each, then four lanes for each state; a
/// block per sequence. *Shared memory*: two rows, static. *Barriers*: one per step. *Deterministic*: yes. *Safety*: blocks
/// have 16·`PER` threads, the grid a block for each sequence; otherwise as [`viterbi_warp`], with matrices of stride 4·`PER`.
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
