//! Policy evaluation: one synchronous Jacobi sweep of V ← r^π + γ P^π V.
//!
//! *Mathematics*: V_new(s) = Σ P(s'|s, π(s)) · (R(s, π(s), s') + γ V_old(s')) for every state s.
//!
//! *The ladder*
//! 1. [`evaluate_block_per_state`]: the plain version. A block walks the row of its state's action in the full model.
//! 2. [`evaluate_rows`]: on the projected matrix P^π in compressed rows, `LANES` lanes per row; for long rows.
//! 3. [`evaluate_slices`]: on P^π in SELL (sliced ELLPACK, C = 32), one thread per row; for short rows.
//!
//! *Bytes* per sweep of a projected matrix with n entries, f32 and 32-bit offsets: 8n for P^π, 4S for r^π, 8S to read
//! and write V, and 4S (rows) or S/8 (slices) for the offsets. On grid-like models the caches serve most gathers of V.

use warpkov_device::device::{Global, Offset, Real, kernel, math, shared, thread, warp};

use super::backup::slices::SLICE;
use super::model::{Iterates, Model};
use super::residual::Residuals;
use crate::primitives::rows::Rows;

/// Entries in flight per thread.
const UNROLL: usize = 4;

/// Plain version, as in the original program: one block per state, with a reduction in shared memory.
///
/// - *Mathematics*: as in the head of the file; `model.reward` holds the action's own reward, `entry_reward` the reward
///   of each successor.
/// - *Thread mapping*: block b has state b; thread t adds the entries t, t + B, … of the row of π(b), for B threads.
///   [`max_change`](super::residual::max_change) computes the residual afterwards.
/// - *Shared memory*: one f64 per thread, dynamic. *Barriers*: 1 + log₂ B. *Deterministic*: yes.
/// - *Valid result in*: `v.new`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `model` | [`Model`] | `reward` without the rewards of successors |
/// | `entry_reward` | entries of `model.rows` | R(s, a, s') |
/// | `policy` | S | actions of each state, or [`NO_ACTION`](super::choices::NO_ACTION) |
/// | `v` | [`Iterates`] | |
/// | `residuals` | [`Residuals`] | |
///
/// *Launch*: one block per state.
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        model.holds(shape.grid),
        policy.len() >= shape.grid,
        v.holds(shape.grid),
        shape.shared >= 8 * shape.block,
        shape.block == shape.block.next_power_of_two(),
        shape.dimensions == 1,
    )
)]
pub fn evaluate_block_per_state<T: Real, O: Offset>(
    model: Model<T, O>,
    entry_reward: Global<T>,
    policy: Global<u32>,
    v: Iterates<T>,
    residuals: Residuals,
) {
    if residuals.converged() {
        return;
    }
    let Model { choices, rows, reward, gamma } = model;
    let partial = shared::dynamic_shared_mem::<f64>();
    let (state, t) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    // A state without actions has an empty sum.
    let (mut entry, mut end, mut sum) = (0, 0, 0.0);
    if let Some(row) = choices.row(state, policy.get(state)) {
        end = rows.ptr.get(row + 1).to_usize();
        entry = rows.ptr.get(row).to_usize() + t as usize;
        if t == 0 {
            sum = reward.get(row).to_f64();
        }
    }
    while entry < end {
        let successor = v.old.get(rows.col.get(entry)).to_f64();
        let earned = math::fma(gamma, successor, entry_reward.get(entry).to_f64());
        sum = math::fma(rows.prob.get(entry).to_f64(), earned, sum);
        entry += thread::block_dim_x() as usize;
    }
    partial.set(t, sum);
    thread::sync_threads();
    let mut half = thread::block_dim_x() / 2;
    while half > 0 {
        if t < half {
            partial.set(t, partial.get(t) + partial.get(t + half));
        }
        thread::sync_threads();
        half /= 2;
    }
    if t == 0 {
        v.new.set(state, T::from_f64(partial.get(0)));
    }
}

/// P^π in compressed rows, `LANES` lanes per row; 32 lanes make a warp per row.
///
/// - *Thread mapping*: a grid-stride loop over rows; each block records its residual once.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes.
/// - *Valid result in*: `v.new` and the sweep's residual slot.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `rows` | S × S, [`Rows`] | P^π; columns below S |
/// | `reward` | S | r^π |
/// | `gamma` | scalar | in \[0, 1\] |
/// | `v` | [`Iterates`] | |
/// | `residuals` | [`Residuals`] | |
#[kernel(
    T = [f32, f64], O = [u32, u64], LANES = [2, 4, 8, 16, 32],
    requires(
        rows.holds(states),
        reward.len() >= states,
        v.holds(states),
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn evaluate_rows<T: Real, O: Offset, const LANES: u32>(
    states: u32,
    rows: Rows<T, O>,
    reward: Global<T>,
    gamma: f64,
    v: Iterates<T>,
    residuals: Residuals,
) {
    if residuals.converged() {
        return;
    }
    let states = states as usize;
    let per_block = (thread::block_dim_x() / LANES) as usize;
    let mut change: f64 = 0.0;
    let mut first = thread::block_idx_x() as usize * per_block;
    while first < states {
        let state = first + (thread::thread_idx_x() / LANES) as usize;
        let inside = state < states;
        let expected = rows.expect::<LANES>(inside.then_some(state), v.old);
        if inside && thread::thread_idx_x().is_multiple_of(LANES) {
            let value = T::from_f64(math::fma(gamma, expected, reward.get(state).to_f64()));
            change = change.max((value.to_f64() - v.old.get(state).to_f64()).abs());
            v.new.set(state, value);
        }
        first += thread::grid_dim_x() as usize * per_block;
    }
    residuals.record(change);
}

/// P^π in SELL (sliced ELLPACK, C = 32), one thread per row.
///
/// A slice stores the first entries of its 32 rows, then their second entries, and so on. Entries of probability 0 pad
/// each row to the longest row of the slice. The accesses of a warp are coalesced, without shuffles and without shared
/// memory.
///
/// - *Thread mapping*: a grid-stride loop over states; each block records its residual once.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes.
/// - *Valid result in*: `v.new` and the sweep's residual slot.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `slices` | ⌈S / 32⌉ slices, as made by [`copy_slices`](super::project::copy_slices) | P^π; columns below S |
/// | `reward` | S | r^π |
/// | `gamma` | scalar | in \[0, 1\] |
/// | `v` | [`Iterates`] | |
/// | `residuals` | [`Residuals`] | |
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        slices.holds(states.div_ceil(SLICE)),
        reward.len() >= states,
        v.holds(states),
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn evaluate_slices<T: Real, O: Offset>(
    states: u32,
    slices: Rows<T, O>,
    reward: Global<T>,
    gamma: f64,
    v: Iterates<T>,
    residuals: Residuals,
) {
    if residuals.converged() {
        return;
    }
    let stride = thread::grid_dim_x() * thread::block_dim_x();
    let lane = O::from_usize(warp::lane_id() as usize);
    let bounds = |state: u32| {
        let slice = state as usize / SLICE;
        if state < states { (slices.ptr.get(slice) + lane, slices.ptr.get(slice + 1)) } else { (lane, lane) }
    };
    // In T: near convergence, the difference of two numbers of T is itself a number of T.
    let mut change = T::ZERO;
    let mut state = thread::index_1d() as u32;
    let (mut entry, mut end) = bounds(state);
    while state < states {
        // Prefetch the offsets of the next slice.
        let next = state.saturating_add(stride);
        let (next_entry, next_end) = bounds(next);
        let (own, own_reward) = (v.old.get(state), reward.get(state));
        let mut expected = 0.0;
        while entry < end {
            // Issue all loads of a step before the first use.
            let mut successor = [state; UNROLL];
            let mut probability = [T::ZERO; UNROLL];
            for k in 0..UNROLL {
                let at = entry + O::from_usize(k * SLICE);
                if at < end {
                    successor[k] = slices.col.get(at.to_usize());
                    probability[k] = slices.prob.get(at.to_usize());
                }
            }
            for k in 0..UNROLL {
                let value = v.old.get(successor[k]);
                expected = math::fma(probability[k].to_f64(), value.to_f64(), expected);
            }
            entry += O::from_usize(UNROLL * SLICE);
        }
        let value = T::from_f64(math::fma(gamma, expected, own_reward.to_f64()));
        change = change.max((value - own).abs());
        v.new.set(state, value);
        (state, entry, end) = (next, next_entry, next_end);
    }
    residuals.record(change.to_f64());
}
