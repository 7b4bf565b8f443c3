//! Random walks through the process: each has a true state, and the belief of an agent that does not observe the state.
//!
//! A step has two launches: [`act`] picks an action and draws the next state and an observation; [`advance`] updates
//! the beliefs:
//!
//! > b'(s') = O(a, s', o) Σₛ T(s, a, s') b(s) / p(o | b, a)
//!
//! Walks with the same history have the same belief. A history is a 64-bit hash, and [`compress`] takes each belief
//! once.
//!
//! Sources of the action choice: forward search value iteration (Shani, Brafman and Shimony, *IJCAI*, 2007) takes the
//! action that is best if the state is observed; stochastic simulation with greedy action (Pineau, Gordon and
//! Thrun, 2006) takes the best action of the belief with respect to Γ; heuristic search (Smith and Simmons,
//! *UAI*, 2005) takes the best action with respect to the upper bound.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, block, kernel, math, thread};
use warpkov_device::shared_array;

use super::model::Model;
use crate::primitives::random;

/// Threads per block of [`advance`] and [`compress`].
pub const WALK_THREADS: u32 = 256;

/// Action of a walk that restarts; also the state of a walk before its first step.
pub const ANEW: u32 = u32::MAX;

/// Samples an entry of `start..end` by inversion: the first whose cumulative probability exceeds u in \[0, 1), or the
/// last entry if the probabilities sum to less.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn draw<T: Real>(prob: Global<T>, start: u64, end: u64, mut u: f64) -> usize {
    let mut entry = start;
    while entry + 1 < end {
        u -= prob.get(entry).to_f64();
        if u < 0.0 {
            break;
        }
        entry += 1;
    }
    entry as usize
}

/// Walks, which all take a step together.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `count` | scalar | walks |
/// | `state` | walks | states, below S, or [`ANEW`] |
/// | `action` | walks | actions, or [`ANEW`] |
/// | `seen` | walks | observations |
/// | `history` | walks | hashes of histories |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(state.len() >= count, action.len() >= count, seen.len() >= count, history.len() >= count))]
pub struct Walks {
    /// Number of walks.
    pub count: u32,
    /// True state of each walk.
    pub state: GlobalMut<u32>,
    /// Last action of each walk.
    pub action: GlobalMut<u32>,
    /// Last observation of each walk.
    pub seen: GlobalMut<u32>,
    /// Hash of all actions and observations since the restart.
    pub history: GlobalMut<u64>,
}

/// Choice of actions. The walks `first..first + guided` take the best action of their state, the other walks the best
/// action of their belief; each takes a random action with probability `explored`.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `first`, `guided` | scalar | walks |
/// | `explored` | scalar | probability |
/// | `best_in` | S | actions, below A |
/// | `best_of` | walks | actions, below A |
#[derive(Clone, Copy, Parameter)]
#[parameter(holds(states, walks), requires(best_in.len() >= states, best_of.len() >= walks))]
pub struct Guide {
    /// First walk guided by its state.
    pub first: u32,
    /// Number of walks guided by their state.
    pub guided: u32,
    /// Probability of a random action.
    pub explored: f64,
    /// Best action of each state.
    pub best_in: Global<u32>,
    /// Best action of each walk's belief.
    pub best_of: Global<u32>,
}

/// The initial belief, by its states.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `count` | scalar | states, ≥ 1 |
/// | `state` | `count` | states, below S |
/// | `sum` | `count` | cumulative probability, ascending |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(count >= 1, state.len() >= count, sum.len() >= count))]
pub struct Start {
    /// Number of states of positive probability.
    pub count: u32,
    /// These states.
    pub state: Global<u32>,
    /// Cumulative probability up to each of them.
    pub sum: Global<f64>,
}

/// One action of each walk: the next state, its observation, and the extended history.
///
/// Each walk takes the action that [`Guide`] selects. A walk restarts if its state is [`ANEW`] or absorbing: its action
/// becomes [`ANEW`], its state is drawn from the initial belief, and its history becomes 0. Each walk has its own seed,
/// derived from `seed`, and step `step` uses its random numbers from 4·`step` on.
///
/// - *Mathematics*: a ~ the guide, s' ~ T(s, a, ·), o ~ O(a, s', ·), by inversion.
/// - *Thread mapping*: one thread per walk.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `walks`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | no row of `transitions` and `observations` is empty |
/// | `ends` | S | 1 for absorbing states, else 0 |
/// | `start` | [`Start`] | |
/// | `guide` | [`Guide`] | |
/// | `seed` | scalar | |
/// | `step` | scalar | index of the step |
/// | `walks` | [`Walks`] | |
#[kernel(
    T = [f32, f64],
    requires(
        ends.len() >= model.states,
        guide.holds(model.states, walks.count),
        shape.threads >= walks.count,
        shape.dimensions == 1,
    )
)]
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
    if s == ANEW || ends.get(s) > 0 {
        let (mut low, mut high, u) = (0, start.count - 1, unit(0));
        while low < high {
            let middle = (low + high) / 2;
            if u < start.sum.get(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        state.set(w, start.state.get(low));
        action.set(w, ANEW);
        history.set(w, 0);
        return;
    }
    let a = if unit(0) < explored {
        (unit(1) * f64::from(actions)) as u32
    } else if (w as u32).wrapping_sub(first) < guided {
        best_in.get(s)
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

/// Beliefs after the step of [`act`]; for each, its number of states and the sum of their `ways`.
///
/// - *Mathematics*: b'(s') = O(a, s', o) Σₛ T(s, a, s') b(s) / p(o | b, a).
/// - *Thread mapping*: one block per walk, a thread per state.
/// - *Shared memory*: 33 words, static. *Barriers*: seven. *Deterministic*: yes.
/// - *Valid result in*: `after` and `sizes`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | |
/// | `action`, `seen` | walks | from [`act`] |
/// | `start` | S | initial belief |
/// | `ways` | S | entries that each state adds to the rows of all actions and observations |
/// | `before` | walks × S | beliefs before the step |
/// | `after` | walks × S | beliefs after the step; does not overlap `before` |
/// | `sizes` | 2 × walks | states; sum of `ways` |
///
/// *Launch*: one block per walk.
#[kernel(
    T = [f32, f64],
    requires(
        action.len() >= shape.grid,
        seen.len() >= shape.grid,
        start.len() >= model.states,
        ways.len() >= model.states,
        before.len() >= shape.grid * model.states,
        after.len() >= shape.grid * model.states,
        sizes.len() >= 2 * shape.grid,
        shape.dimensions == 1,
    ),
    block = WALK_THREADS
)]
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
            while entry < end && o.col.get(entry) != observed {
                entry += 1;
            }
            if entry < end {
                let chance = o.prob.get(entry).to_f64();
                let (mut entry, end) = (c.ptr.get(column + s), c.ptr.get(column + s + 1));
                while entry < end {
                    let from = before.get(first + c.col.get(entry) as usize).to_f64();
                    value = math::fma(c.prob.get(entry).to_f64(), from, value);
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
        // If all probabilities underflowed, restart from the initial belief.
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

/// Beliefs of selected walks, as compressed rows.
///
/// - *Mathematics*: the entries (s, b(s)) with b(s) > 0, s ascending.
/// - *Thread mapping*: one block per belief; a thread per state, in chunks of [`WALK_THREADS`] states.
/// - *Shared memory*: 32 words, static. *Barriers*: two per chunk. *Deterministic*: yes.
/// - *Valid result in*: `state` and `prob`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `picked` | blocks | walks |
/// | `belief_ptr` | blocks, or one more | first entry of each belief |
/// | `dense` | walks × S | probability |
/// | `state`, `prob` | entries | |
///
/// *Launch*: one block per belief.
#[kernel(
    T = [f32, f64],
    requires(
        picked.len() >= shape.grid,
        belief_ptr.len() >= shape.grid,
        shape.dimensions == 1,
    ),
    block = WALK_THREADS
)]
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
            state.set(place + before, s);
            prob.set(place + before, value);
        }
        place += count;
        chunk += WALK_THREADS;
    }
}
