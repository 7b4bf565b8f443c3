//! Walks: many at a time, each with a state that it is in, and the belief of one who does not see it.
//!
//! A step is [`act`], which picks an action, draws the next state and what is observed there, and [`advance`], which updates
//! beliefs:
//!
//! > b'(s') = O(a, s', o) Σₛ T(s, a, s') b(s) / p(o | b, a)
//!
//! Walks with the same history have the same belief: a history is a number, and [`compress`] takes each belief once.
//!
//! Source: forward search value iteration (Shani, Brafman and Shimony, *IJCAI*, 2007) picks the action that is best where the
//! state is seen; stochastic simulation with greedy action (Pineau, Gordon and Thrun, 2006) the one that Γ has for the belief;
//! heuristic search (Smith and Simmons, *UAI*, 2005) the one that looks best from above.

use crate::device::{Global, GlobalMut, Real, block, kernel, math, thread};
use crate::primitives::random;
use crate::shared_array;

/// Threads of a block of [`advance`] and [`compress`].
pub const WALK_THREADS: u32 = 256;

/// The action of a walk that begins anew.
pub const ANEW: u32 = u32::MAX;

/// Where among the entries `start..end` the number u of [0, 1) falls, by their probabilities; the last, if they sum to less.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn draw<T: Real>(prob: Global<T>, start: u64, end: u64, mut u: f64) -> usize {
    let mut entry = start;
    while entry + 1 < end {
        u -= prob.get(entry as usize).to_f64();
        if u < 0.0 {
            break;
        }
        entry += 1;
    }
    entry as usize
}

/// One action of each walk: the next state, what is seen there, and the history that this makes.
///
/// `guided` walks from `first` on take the action that is best where the state is seen, the others that of their belief; each a
/// random one with probability `explored`. A walk in the state [`ANEW`], or in one that no action leads out of, begins anew: with
/// the action [`ANEW`], a state drawn from the start belief, and the history 0. The numbers drawn are those of `seed` from
/// 4·`step` on, for each walk with a seed of its own.
///
/// *Thread mapping*: one thread per walk. *Deterministic*: yes. *Safety*: `best_in` and `ends` have S elements; `best_of`,
/// `state`, `action`, `seen` and `history` one per walk; actions are below A; `t_ptr` has S·A + 1 elements, `o_ptr` A·S + 1, no row
/// of either is empty; the start belief has `starts` ≥ 1 states, and `start_sum` are the sums of its probabilities up to each.
#[kernel(T = [f32, f64])]
pub fn act<T: Real>(
    states: u32,
    actions: u32,
    walks: u32,
    first: u32,
    guided: u32,
    explored: f64,
    seed: u64,
    step: u32,
    best_in: Global<u32>,
    best_of: Global<u32>,
    ends: Global<u8>,
    t_ptr: Global<u64>,
    t_col: Global<u32>,
    t_prob: Global<T>,
    o_ptr: Global<u64>,
    o_col: Global<u32>,
    o_prob: Global<T>,
    starts: u32,
    start_state: Global<u32>,
    start_sum: Global<f64>,
    state: GlobalMut<u32>,
    action: GlobalMut<u32>,
    seen: GlobalMut<u32>,
    history: GlobalMut<u64>,
) {
    let w = thread::index_1d() as usize;
    if w >= walks as usize {
        return;
    }
    let own = random::bits(seed, w as u64);
    let unit = |k: u64| random::unit(own, 4 * u64::from(step) + k);
    let s = state.get(w);
    if s == ANEW || ends.get(s as usize) > 0 {
        let (mut low, mut high, u) = (0, starts - 1, unit(0));
        while low < high {
            let middle = (low + high) / 2;
            if u < start_sum.get(middle as usize) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        state.set(w, start_state.get(low as usize));
        action.set(w, ANEW);
        history.set(w, 0);
        return;
    }
    let a = if unit(0) < explored {
        (unit(1) * f64::from(actions)) as u32
    } else if (w as u32).wrapping_sub(first) < guided {
        best_in.get(s as usize)
    } else {
        best_of.get(w)
    };
    let row = s as usize * actions as usize + a as usize;
    let next = t_col.get(draw(t_prob, t_ptr.get(row), t_ptr.get(row + 1), unit(2)));
    let row = a as usize * states as usize + next as usize;
    let o = o_col.get(draw(o_prob, o_ptr.get(row), o_ptr.get(row + 1), unit(3)));
    state.set(w, next);
    action.set(w, a);
    seen.set(w, o);
    history.set(w, random::bits(history.get(w), u64::from(a) << 32 | u64::from(o)));
}

/// The beliefs after what [`act`] did, in `after`; of each the number of states, and of the ways on from them.
///
/// *Thread mapping*: one block per walk, a thread per state. *Shared memory*: what a block's reduction takes, and a word.
/// *Barriers*: several. *Deterministic*: yes. *Safety*: blocks have [`WALK_THREADS`] threads; `action` and `seen` are those of
/// [`act`]; `c_ptr` has A·S + 1 elements, columns of T; `o_ptr` A·S + 1; `start` and `ways` have S, `before` and `after` S per walk;
/// `sizes` has two elements per walk.
#[kernel(T = [f32, f64])]
pub fn advance<T: Real>(
    states: u32,
    action: Global<u32>,
    seen: Global<u32>,
    c_ptr: Global<u64>,
    c_row: Global<u32>,
    c_prob: Global<T>,
    o_ptr: Global<u64>,
    o_col: Global<u32>,
    o_prob: Global<T>,
    start: Global<T>,
    ways: Global<u32>,
    before: Global<T>,
    after: GlobalMut<T>,
    sizes: GlobalMut<u32>,
) {
    let sum = shared_array!(advance_sum: f64; 1);
    let (w, t) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    let (a, o) = (action.get(w), seen.get(w));
    let (first, column) = (w * states as usize, a.wrapping_mul(states) as usize);
    let mut total = 0.0;
    let mut s = t as usize;
    while s < states as usize {
        let mut value = 0.0;
        if a == ANEW {
            value = start.get(s).to_f64();
        } else {
            let (mut entry, end) = (o_ptr.get(column + s), o_ptr.get(column + s + 1));
            while entry < end && o_col.get(entry as usize) != o {
                entry += 1;
            }
            if entry < end {
                let chance = o_prob.get(entry as usize).to_f64();
                let (mut entry, end) = (c_ptr.get(column + s), c_ptr.get(column + s + 1));
                while entry < end {
                    let from = before.get(first + c_row.get(entry as usize) as usize).to_f64();
                    value = math::fma(c_prob.get(entry as usize).to_f64(), from, value);
                    entry += 1;
                }
                value *= chance;
            }
        }
        total += value;
        after.set(first + s, T::from_f64(value));
        s += WALK_THREADS as usize;
    }
    let total = block::reduce(total, 0.0, |a, b| a + b);
    if t == 0 {
        sum.set(0, total);
    }
    thread::sync_threads();
    let total = sum.get(0);
    let (mut count, mut onward) = (0u32, 0u32);
    let mut s = t as usize;
    while s < states as usize {
        // Where rounding left nothing, whatever was seen: the start.
        let value = if total > 0.0 { after.get(first + s).to_f64() / total } else { start.get(s).to_f64() };
        let value = T::from_f64(value);
        after.set(first + s, value);
        if value > T::ZERO {
            count += 1;
            onward += ways.get(s);
        }
        s += WALK_THREADS as usize;
    }
    let count = block::reduce(count, 0, |a, b| a + b);
    let onward = block::reduce(onward, 0, |a, b| a + b);
    if t == 0 {
        sizes.set(2 * w, count);
        sizes.set(2 * w + 1, onward);
    }
}

/// The beliefs of some walks, as compressed rows.
///
/// *Thread mapping*: one block per belief, a thread per state, chunk by chunk. *Shared memory*: what a block's scan takes.
/// *Barriers*: several per chunk. *Safety*: blocks have [`WALK_THREADS`] threads; `picked` has a walk per block, `belief_ptr` one
/// element more: where each begins; `dense` has S elements per walk, `state` and `prob` one per entry.
#[kernel(T = [f32, f64])]
pub fn compress<T: Real>(
    states: u32,
    picked: Global<u32>,
    belief_ptr: Global<u32>,
    dense: Global<T>,
    state: GlobalMut<u32>,
    prob: GlobalMut<T>,
) {
    let j = thread::block_idx_x() as usize;
    let first = picked.get(j) as usize * states as usize;
    let mut place = belief_ptr.get(j);
    let mut chunk = 0;
    while chunk < states {
        let s = chunk + thread::thread_idx_x();
        let value = if s < states { dense.get(first + s as usize) } else { T::ZERO };
        let (before, count) = block::exclusive_scan(u32::from(value > T::ZERO), 0, |a, b| a + b);
        if value > T::ZERO {
            state.set((place + before) as usize, s);
            prob.set((place + before) as usize, value);
        }
        place += count;
        chunk += WALK_THREADS;
    }
}
