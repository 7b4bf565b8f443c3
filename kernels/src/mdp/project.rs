//! Projection: gathers the rows of the present policy into a matrix of their own, P^π, and r^π.
//!
//! *Mathematics*: P^π(s, ·) = P(·|s, π(s)) and r^π(s) = r(s, π(s)).
//!
//! *Three steps*: count the entries of each selected row ([`count_rows`]) or slice ([`count_slices`]); turn the counts
//! into offsets by an exclusive [scan](crate::primitives::scan); copy the entries ([`copy_rows`], [`copy_slices`]).

use warpkov_device::device::safe::{ByWarp, In, Len, Out, Slice};
use warpkov_device::device::{Global, GlobalMut, Offset, Parameter, Real, kernel, thread, warp};

use super::backup::slices::SLICE;
use super::choices::CheckedChoices;
use super::model::Model;

/// P^π, in compressed rows or in SELL slices, and r^π.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `ptr` | rows + 1, or slices + 1 | entries, ascending |
/// | `col` | entries | states |
/// | `prob` | entries | P(s'\|s, π(s)) |
/// | `reward` | S | r(s, π(s)) |
#[derive(Clone, Copy, Parameter)]
#[parameter(holds(parts, states), requires(ptr.len() >= parts + 1, reward.len() >= states))]
pub struct Projected<T, O> {
    /// Offsets: row or slice k gets the entries `ptr[k]..ptr[k + 1]`.
    pub ptr: Global<O>,
    /// Columns.
    pub col: GlobalMut<u32>,
    /// Probabilities.
    pub prob: GlobalMut<T>,
    /// Rewards.
    pub reward: GlobalMut<T>,
}

/// Number of entries of each selected row.
///
/// - *Thread mapping*: one thread per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `counts`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `choices` | [`CheckedChoices`] | |
/// | `row_ptr` | rows + 1 | entries, ascending |
/// | `policy` | S | actions of each state, or [`NO_ACTION`](super::choices::NO_ACTION) |
/// | `counts` | S | |
#[kernel(safe, O = [u32, u64], requires(shape.threads >= states))]
pub fn count_rows<'s, O: Offset>(
    states: Len<'s>,
    choices: CheckedChoices<O>,
    row_ptr: Slice<O>,
    policy: In<'s, u32>,
    counts: Out<'s, O>,
) {
    if let Some(s) = states.element() {
        let entries = choices.entries(row_ptr, s.index().get(), policy.get(&s));
        counts.set(&s, O::from_usize(entries.len()));
    }
}

/// Copies the selected rows to compressed rows.
///
/// - *Thread mapping*: `lanes` lanes of a warp per row, which take its entries in turn.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `projected`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `lanes` | scalar | threads per row, a power of two |
/// | `model` | [`Model`] | |
/// | `policy` | S | actions of each state, or [`NO_ACTION`](super::choices::NO_ACTION) |
/// | `projected` | S rows, [`Projected`] | `ptr` from [`count_rows`] and a scan |
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        model.holds(states),
        policy.len() >= states,
        projected.holds(states, states),
        lanes >= 1,
        lanes <= 32,
        shape.threads >= lanes * states,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn copy_rows<T: Real, O: Offset>(
    states: u32,
    lanes: u32,
    model: Model<T, O>,
    policy: Global<u32>,
    projected: Projected<T, O>,
) {
    let Model { choices, rows, reward, .. } = model;
    let state = (thread::index_1d() >> lanes.trailing_zeros()) as usize;
    let lane = thread::thread_idx_x() & (lanes - 1);
    if state >= states as usize {
        return;
    }
    let action = policy.get(state);
    let (source, end) = choices.entries(rows.ptr, state, action);
    let length = end - source;
    let target = projected.ptr.get(state).to_usize();
    let mut i = lane as usize;
    while i < length {
        projected.col.set(target + i, rows.col.get(source + i));
        projected.prob.set(target + i, rows.prob.get(source + i));
        i += lanes as usize;
    }
    if lane == 0 {
        projected.reward.set(state, choices.row(state, action).map_or(T::ZERO, |row| reward.get(row)));
    }
}

/// Number of entries of each slice: 32 times its longest selected row.
///
/// - *Thread mapping*: a warp per slice, a lane per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `counts`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states`, `slices` | scalar | S, ⌈S / 32⌉ |
/// | `choices` | [`CheckedChoices`] | |
/// | `row_ptr` | rows + 1 | entries, ascending |
/// | `policy` | S | actions of each state, or [`NO_ACTION`](super::choices::NO_ACTION) |
/// | `counts` | ⌈S / 32⌉ | |
#[kernel(safe, O = [u32, u64], requires(slices >= states.div_ceil(SLICE), shape.threads >= 32 * slices))]
pub fn count_slices<'s, 'k, O: Offset>(
    states: Len<'s>,
    slices: Len<'k>,
    choices: CheckedChoices<O>,
    row_ptr: Slice<O>,
    policy: In<'s, u32>,
    counts: Out<'k, O, ByWarp>,
) {
    if let Some(slice) = slices.warp_element() {
        let state = states.index((SLICE * slice.index().get()) as u64 + u64::from(warp::lane_id()));
        // A row has at most S < 2³² entries.
        let length = state.map_or(0, |s| choices.entries(row_ptr, s.get(), policy.get(s)).len() as u32);
        counts.set(&slice, O::from_usize(SLICE * warp::max_u32(warp::FULL, length) as usize));
    }
}

/// Copies the selected rows to slices, padded with entries of probability 0 in the row's own state.
///
/// - *Thread mapping*: one thread per row; lane l of a warp writes the elements of row l of its slice.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `projected`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `model` | [`Model`] | |
/// | `policy` | S | actions of each state, or [`NO_ACTION`](super::choices::NO_ACTION) |
/// | `projected` | ⌈S / 32⌉ slices, [`Projected`] | `ptr` from [`count_slices`] and a scan |
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        model.holds(states),
        policy.len() >= states,
        projected.holds(states.div_ceil(SLICE), states),
        shape.threads >= states,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn copy_slices<T: Real, O: Offset>(
    states: u32,
    model: Model<T, O>,
    policy: Global<u32>,
    projected: Projected<T, O>,
) {
    let Model { choices, rows, reward, .. } = model;
    let state = thread::index_1d() as usize;
    if state >= states as usize {
        return;
    }
    let action = policy.get(state);
    let (mut source, source_end) = choices.entries(rows.ptr, state, action);
    let (slice, lane) = (state / SLICE, state % SLICE);
    let mut target = projected.ptr.get(slice).to_usize() + lane;
    let target_end = projected.ptr.get(slice + 1).to_usize();
    while target < target_end {
        let inside = source < source_end;
        projected.col.set(target, if inside { rows.col.get(source) } else { state as u32 });
        projected.prob.set(target, if inside { rows.prob.get(source) } else { T::ZERO });
        source += 1;
        target += SLICE;
    }
    projected.reward.set(state, choices.row(state, action).map_or(T::ZERO, |row| reward.get(row)));
}
