//! Result Divided Iteration: value iteration with a thread for every result of every action.
//!
//! Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009), section 3.2.2, Algorithm 3.
//!
//! *Mathematics*: a sweep V ← TV in three launches, and a fourth for the extremes of ΔV:
//! 1. [`result_values`]: Q_s'(s, a) = P(s'|s, a) · (R(s, a, s') + γ V(s')), one thread per entry of P;
//! 2. [`action_values`]: Q(s, a) = r(s, a) + Σ Q_s'(s, a), one thread per row, where r(s, a) is what the action itself earns;
//! 3. [`state_values`]: V(s) ← max Q(s, a) and ΔV(s), one thread per state; V(s) = 0 where there is no action;
//! 4. [`extremes_of_change`](super::change::extremes_of_change).
//!
//! V is overwritten in place: a launch that reads it has ended before the one that writes it begins.
//!
//! *Bytes* of a sweep of n entries and m rows, f32 and 32-bit offsets: 16n for P, R and Q_s' written; 4n + 12m for Q_s'
//! read, offsets, r and Q written; 4m + 16S for Q read, offsets, V read and written and ΔV; 4S for ΔV read.

use warpkov_device::device::{Global, GlobalMut, Offset, Real, kernel, math, thread};

use super::change::Extremes;
use super::choices::{Choices, NO_ACTION};

/// Q_s'(s, a) of every entry.
///
/// *Thread mapping*: one thread per entry.
/// *Safety*: `col`, `prob`, `reward` and `results` have `entries` elements; columns are below the length of `v`.
#[kernel(T = [f32, f64])]
pub fn result_values<T: Real>(
    entries: u64,
    col: Global<u32>,
    prob: Global<T>,
    reward: Global<T>,
    gamma: f64,
    v: Global<T>,
    extremes: Extremes,
    results: GlobalMut<T>,
) {
    let entry = thread::index_1d();
    if entry >= entries || extremes.met() {
        return;
    }
    let entry = entry as usize;
    let successor = v.get(col.get(entry) as usize).to_f64();
    let value = prob.get(entry).to_f64() * math::fma(gamma, successor, reward.get(entry).to_f64());
    results.set(entry, T::from_f64(value));
}

/// Q(s, a) of every row.
///
/// *Thread mapping*: one thread per row. *Safety*: `row_ptr` has `rows + 1` elements, `action_reward` and `q` have `rows`.
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn action_values<T: Real, O: Offset>(
    rows: u64,
    row_ptr: Global<O>,
    results: Global<T>,
    action_reward: Global<T>,
    extremes: Extremes,
    q: GlobalMut<T>,
) {
    let row = thread::index_1d();
    if row >= rows || extremes.met() {
        return;
    }
    let row = row as usize;
    let mut sum = action_reward.get(row).to_f64();
    let end = row_ptr.get(row + 1).to_usize();
    let mut entry = row_ptr.get(row).to_usize();
    while entry < end {
        sum += results.get(entry).to_f64();
        entry += 1;
    }
    q.set(row, T::from_f64(sum));
}

/// V(s) and ΔV(s) of every state; the change of a state with no action is not a number.
///
/// *Thread mapping*: one thread per state. *Safety*: `q` has one element per row, `v` and `change` have `states`.
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn state_values<T: Real, O: Offset>(
    states: u32,
    choices: Choices<O>,
    q: Global<T>,
    extremes: Extremes,
    v: GlobalMut<T>,
    change: GlobalMut<T>,
) {
    let state = thread::index_1d() as usize;
    if state >= states as usize || extremes.met() {
        return;
    }
    let (action, value) = best(choices, state, q);
    if action == NO_ACTION {
        change.set(state, T::from_f64(f64::NAN));
    } else {
        change.set(state, value - v.get(state));
    }
    v.set(state, value);
}

/// The greedy action of every state, of equal ones the lowest-numbered.
///
/// *Thread mapping*: one thread per state. *Safety*: `q` has one element per row, `policy` has `states`.
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn greedy_actions<T: Real, O: Offset>(states: u32, choices: Choices<O>, q: Global<T>, policy: GlobalMut<u32>) {
    let state = thread::index_1d() as usize;
    if state < states as usize {
        policy.set(state, best(choices, state, q).0);
    }
}

/// The first action of the largest Q-factor, and that Q-factor; 0 where there is no action.
#[inline(always)]
fn best<T: Real, O: Offset>(choices: Choices<O>, state: usize, q: Global<T>) -> (u32, T) {
    let (first, end) = (choices.first(state), choices.first(state + 1));
    if first == end {
        return (NO_ACTION, T::ZERO);
    }
    let (mut action, mut value) = (0, q.get(first));
    let mut row = first + 1;
    while row < end {
        let other = q.get(row);
        if other > value {
            (action, value) = ((row - first) as u32, other);
        }
        row += 1;
    }
    (action, value)
}
