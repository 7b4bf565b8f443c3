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

use warpkov_device::device::safe::{In, Indices, Len, Out, Slice};
use warpkov_device::device::{Offset, Real, kernel, math};

use super::change::Extremes;
use super::choices::{CheckedChoices, NO_ACTION, range};

/// Q_s'(s, a) of every entry.
///
/// - *Thread mapping*: one thread per entry.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `results`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `entries`, `states` | scalar | n, S |
/// | `col` | n | states |
/// | `prob` | n | P(s'\|s, a) |
/// | `reward` | n | R(s, a, s') |
/// | `gamma` | scalar | in \[0, 1\] |
/// | `v` | S | reward |
/// | `extremes` | [`Extremes`] | |
/// | `results` | n | reward |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= entries))]
pub fn result_values<'e, 's, T: Real>(
    entries: Len<'e, u64>,
    states: Len<'s>,
    col: Indices<'e, 's>,
    prob: In<'e, T>,
    reward: In<'e, T>,
    gamma: f64,
    v: In<'s, T>,
    extremes: Extremes,
    results: Out<'e, T>,
) {
    let _ = states;
    if let Some(entry) = entries.element().filter(|_| !extremes.met()) {
        let successor = v.get(col.get(&entry)).to_f64();
        let value = prob.get(&entry).to_f64() * math::fma(gamma, successor, reward.get(&entry).to_f64());
        results.set(&entry, T::from_f64(value));
    }
}

/// Q(s, a) of every row.
///
/// - *Thread mapping*: one thread per row.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `q`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `rows` | scalar | m |
/// | `row_ptr` | m + 1 | entries, ascending |
/// | `results` | n | from [`result_values`] |
/// | `action_reward` | m | r(s, a) |
/// | `extremes` | [`Extremes`] | |
/// | `q` | m | reward |
#[kernel(safe, T = [f32, f64], O = [u32, u64], requires(shape.threads >= rows))]
pub fn action_values<'r, T: Real, O: Offset>(
    rows: Len<'r, u64>,
    row_ptr: Slice<O>,
    results: Slice<T>,
    action_reward: In<'r, T>,
    extremes: Extremes,
    q: Out<'r, T>,
) {
    if let Some(own) = rows.element().filter(|_| !extremes.met()) {
        let mut sum = action_reward.get(&own).to_f64();
        for result in results.range(range(row_ptr.chunk(own.index().get()))).iter() {
            sum += result.to_f64();
        }
        q.set(&own, T::from_f64(sum));
    }
}

/// V(s) and ΔV(s) of every state; ΔV(s) is NaN for a state without actions.
///
/// - *Thread mapping*: one thread per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `v` and `change`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `choices` | [`CheckedChoices`] | rows below m |
/// | `q` | m | from [`action_values`] |
/// | `extremes` | [`Extremes`] | |
/// | `v`, `change` | S | reward |
#[kernel(safe, T = [f32, f64], O = [u32, u64], requires(shape.threads >= states))]
pub fn state_values<'s, T: Real, O: Offset>(
    states: Len<'s>,
    choices: CheckedChoices<O>,
    q: Slice<T>,
    extremes: Extremes,
    v: Out<'s, T>,
    change: Out<'s, T>,
) {
    if let Some(s) = states.element().filter(|_| !extremes.met()) {
        let (action, value) = best(q.range(choices.rows(s.index().get())));
        change.set(&s, if action == NO_ACTION { T::from_f64(f64::NAN) } else { value - v.get(&s) });
        v.set(&s, value);
    }
}

/// Greedy action of every state; the lowest number breaks ties.
///
/// - *Thread mapping*: one thread per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `policy`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `choices` | [`CheckedChoices`] | rows below m |
/// | `q` | m | from [`action_values`] |
/// | `policy` | S | |
#[kernel(safe, T = [f32, f64], O = [u32, u64], requires(shape.threads >= states))]
pub fn greedy_actions<'s, T: Real, O: Offset>(
    states: Len<'s>,
    choices: CheckedChoices<O>,
    q: Slice<T>,
    policy: Out<'s, u32>,
) {
    if let Some(s) = states.element() {
        policy.set(&s, best(q.range(choices.rows(s.index().get()))).0);
    }
}

/// First action of the largest of a state's Q-factors, and that Q-factor; ([`NO_ACTION`], 0) for a state without actions.
#[inline(always)]
fn best<T: Real>(q: Slice<T>) -> (u32, T) {
    let mut best = (NO_ACTION, T::ZERO);
    for (action, value) in (0..).zip(q.iter()) {
        if action == 0 || value > best.1 {
            best = (action, value);
        }
    }
    best
}
