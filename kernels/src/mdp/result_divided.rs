//! Result Divided Iteration: value iteration with one thread per result of every action.
//!
//! Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009), section 3.2.2, Algorithm 3.
//!
//! *Mathematics*: a sweep V ← TV in three launches, and a fourth for the extremes of ΔV:
//! 1. [`result_values`]: Q_s'(s, a) = P(s'|s, a) · (R(s, a, s') + γ V(s')), one thread per entry of P;
//! 2. [`action_values`]: Q(s, a) = r(s, a) + Σ Q_s'(s, a), one thread per row, with the action's own reward r(s, a);
//! 3. [`state_values`]: V(s) ← max Q(s, a) and ΔV(s), one thread per state; V(s) = 0 for a state without actions;
//! 4. [`extremes_of_change`](super::change::extremes_of_change).
//!
//! The sweep overwrites V in place: the launch that writes V starts after the launch that reads it has ended.
//!
//! *Bytes* per sweep of n entries and m rows, f32 and 32-bit offsets: 16n to read P and R and write Q_s'; 4n + 12m to
//! read Q_s', offsets and r and write Q; 4m + 16S to read Q, offsets and V and write V and ΔV; 4S to read ΔV.

use warpkov_device::device::{Global, GlobalMut, Offset, Real, kernel, math, thread};

use super::change::Extremes;
use super::choices::{Choices, NO_ACTION};

/// Q_s'(s, a) of every entry.
///
/// - *Thread mapping*: one thread per entry.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `results`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `entries` | scalar | n |
/// | `col` | n | states, below the length of `v` |
/// | `prob` | n | P(s'\|s, a) |
/// | `reward` | n | R(s, a, s') |
/// | `gamma` | scalar | in \[0, 1\] |
/// | `v` | S | reward |
/// | `extremes` | [`Extremes`] | |
/// | `results` | n | reward |
#[kernel(
    T = [f32, f64],
    requires(
        col.len() >= entries,
        prob.len() >= entries,
        reward.len() >= entries,
        results.len() >= entries,
        shape.threads >= entries,
        shape.dimensions == 1,
    )
)]
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
/// - *Thread mapping*: one thread per row.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `q`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `rows` | scalar | m |
/// | `row_ptr` | m + 1 | entries, ascending |
/// | `results` | n | from [`result_values`] |
/// | `action_reward` | m | r(s, a) |
/// | `extremes` | [`Extremes`] | |
/// | `q` | m | reward |
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        row_ptr.len() >= rows + 1,
        action_reward.len() >= rows,
        q.len() >= rows,
        shape.threads >= rows,
        shape.dimensions == 1,
    )
)]
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

/// V(s) and ΔV(s) of every state; ΔV(s) is NaN for a state without actions.
///
/// - *Thread mapping*: one thread per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `v` and `change`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `choices` | [`Choices`] | rows below m |
/// | `q` | m | from [`action_values`] |
/// | `extremes` | [`Extremes`] | |
/// | `v`, `change` | S | reward |
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        choices.holds(states),
        if choices.actions > 0 { q.len() >= states * choices.actions },
        v.len() >= states,
        change.len() >= states,
        shape.threads >= states,
        shape.dimensions == 1,
    )
)]
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

/// Greedy action of every state; the lowest number breaks ties.
///
/// - *Thread mapping*: one thread per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `policy`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `choices` | [`Choices`] | rows below m |
/// | `q` | m | from [`action_values`] |
/// | `policy` | S | |
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        choices.holds(states),
        if choices.actions > 0 { q.len() >= states * choices.actions },
        policy.len() >= states,
        shape.threads >= states,
        shape.dimensions == 1,
    )
)]
pub fn greedy_actions<T: Real, O: Offset>(states: u32, choices: Choices<O>, q: Global<T>, policy: GlobalMut<u32>) {
    let state = thread::index_1d() as usize;
    if state < states as usize {
        policy.set(state, best(choices, state, q).0);
    }
}

/// First action of the largest Q-factor, and that Q-factor; ([`NO_ACTION`], 0) for a state without actions.
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
