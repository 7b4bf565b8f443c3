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

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, block, kernel, math, thread};
use warpkov_device::shared_array;

use super::model::Model;
use crate::primitives::random;

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

/// Walks, all of which take steps together.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `count` | 1 | walks |
/// | `state` | walks | states, or [`ANEW`] |
/// | `action` | walks | actions, or [`ANEW`] |
/// | `seen` | walks | observations |
/// | `history` | walks | numbers of histories |
#[derive(Clone, Copy, Parameter)]
pub struct Walks {
    /// How many.
    pub count: u32,
    /// Where each is.
    pub state: GlobalMut<u32>,
    /// Its last action.
    pub action: GlobalMut<u32>,
    /// What it observed last.
    pub seen: GlobalMut<u32>,
    /// What it did and observed so far.
    pub history: GlobalMut<u64>,
}

/// Which actions walks take: `guided` of them, from `first` on, those that are best where the state is seen, the others those of
/// their beliefs; each a random one with probability `explored`.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `first`, `guided` | 1 | walks |
/// | `explored` | 1 | probability |
/// | `best_in` | S | actions |
/// | `best_of` | walks | actions |
#[derive(Clone, Copy, Parameter)]
pub struct Guide {
    /// The first walk that is guided.
    pub first: u32,
    /// How many are.
    pub guided: u32,
    /// How often an action is random.
    pub explored: f64,
    /// The best action in each state.
    pub best_in: Global<u32>,
    /// The best action for the belief of each walk.
    pub best_of: Global<u32>,
}

/// The belief that walks begin with, as the states in it.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `count` | 1 | states, ≥ 1 |
/// | `state` | `count` | states |
/// | `sum` | `count` | probability, ascending |
#[derive(Clone, Copy, Parameter)]
pub struct Start {
    /// How many.
    pub count: u32,
    /// Which.
    pub state: Global<u32>,
    /// The sum of probabilities up to each.
    pub sum: Global<f64>,
}

/// One action of each walk: the next state, what is seen there, and the history that this makes.
///
/// Each walk takes the action that its [`Guide`] says. A walk in the state [`ANEW`], or in one that no action leads out of, begins anew: with
/// the action [`ANEW`], a state drawn from the start belief, and the history 0. The numbers drawn are those of `seed` from
/// 4·`step` on, for each walk with a seed of its own.
///
/// *Thread mapping*: one thread per walk. *Deterministic*: yes. *Safety*: `ends` has S elements, 1 for states that no action
/// leads out of; no row of transitions or observations is empty.
#[kernel(T = [f32, f64])]
pub fn act<T: Real>(model: Model<T>, ends: Global<u8>, start: Start, guide: Guide, seed: u64, step: u32, walks: Walks) {
    let Model { states, actions, transitions: t, observations: o, .. } = model;
    let Guide { first, guided, explored, best_in, best_of } = guide;
    let Walks { count, state, action, seen, history } = walks;
    let w = thread::index_1d() as usize;
    if w >= count as usize {
        return;
    }
    let own = random::bits(seed, w as u64);
    let unit = |k: u64| random::unit(own, 4 * u64::from(step) + k);
    let s = state.get(w);
    if s == ANEW || ends.get(s as usize) > 0 {
        let (mut low, mut high, u) = (0, start.count - 1, unit(0));
        while low < high {
            let middle = (low + high) / 2;
            if u < start.sum.get(middle as usize) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        state.set(w, start.state.get(low as usize));
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
    let next = t.col.get(draw(t.prob, t.ptr.get(row), t.ptr.get(row + 1), unit(2)));
    let row = a as usize * states as usize + next as usize;
    let observed = o.col.get(draw(o.prob, o.ptr.get(row), o.ptr.get(row + 1), unit(3)));
    state.set(w, next);
    action.set(w, a);
    seen.set(w, observed);
    history.set(w, random::bits(history.get(w), u64::from(a) << 32 | u64::from(observed)));
}

/// The beliefs after what [`act`] did, in `after`; of each the number of states, and of the ways on from them.
///
/// *Thread mapping*: one block per walk, a thread per state. *Shared memory*: what a block's reduction takes, and a word.
/// *Barriers*: several. *Deterministic*: yes. *Safety*: blocks have [`WALK_THREADS`] threads; `action` and `seen` are those of
/// [`act`]; `start` and `ways` have S elements, `before` and `after` S per walk; `sizes` has two elements per walk.
#[kernel(T = [f32, f64])]
pub fn advance<T: Real>(
    model: Model<T>,
    action: Global<u32>,
    seen: Global<u32>,
    start: Global<T>,
    ways: Global<u32>,
    before: Global<T>,
    after: GlobalMut<T>,
    sizes: GlobalMut<u32>,
) {
    let Model { states, predecessors: c, observations: o, .. } = model;
    let sum = shared_array!(advance_sum: f64; 1);
    let (w, t) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    let (a, observed) = (action.get(w), seen.get(w));
    let (first, column) = (w * states as usize, a.wrapping_mul(states) as usize);
    let mut total = 0.0;
    let mut s = t as usize;
    while s < states as usize {
        let mut value = 0.0;
        if a == ANEW {
            value = start.get(s).to_f64();
        } else {
            let (mut entry, end) = (o.ptr.get(column + s), o.ptr.get(column + s + 1));
            while entry < end && o.col.get(entry as usize) != observed {
                entry += 1;
            }
            if entry < end {
                let chance = o.prob.get(entry as usize).to_f64();
                let (mut entry, end) = (c.ptr.get(column + s), c.ptr.get(column + s + 1));
                while entry < end {
                    let from = before.get(first + c.col.get(entry as usize) as usize).to_f64();
                    value = math::fma(c.prob.get(entry as usize).to_f64(), from, value);
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
