//! Policy evaluation: one synchronous Jacobi sweep of V ← r^π + γ P^π V.
//!
//! *Mathematics*: V_new(s) = Σ P(s'|s, π(s)) · (R(s, π(s), s') + γ V_old(s')), for every state s.
//!
//! *The ladder*
//! 1. [`evaluate_block_per_state`]: the plain version. A block walks the row of its state's action in the full model.
//! 2. [`evaluate_rows`]: on the projected matrix P^π, by `LANES` lanes per row; for rows of some length.
//! 3. [`evaluate_slices`]: on P^π in slices of 32 rows, by one thread per row; for short rows.
//!
//! *Bytes* of a sweep of the projected matrix with n entries, f32 and 32-bit offsets: 8n for P^π, 4S for r^π, 4S + 4S for
//! V read and written, and 4S (rows) or S/8 (slices) for the offsets; gathers of V mostly hit the caches on grids.

use warpkov_device::device::{Global, Offset, Real, kernel, math, shared, thread, warp};

use super::model::{Iterates, Model};
use super::residual::Residuals;
use crate::primitives::rows::Rows;

/// Rows of a slice: the lanes of a warp.
pub const SLICE: usize = 32;

/// Entries of a row that a thread loads together.
const UNROLL: usize = 4;

/// One block per state, as in the source: threads over successors, then a reduction in shared memory.
///
/// *Thread mapping*: block b has state b; thread t adds entries t, t + B, … of the row of π(s). *Shared memory*: one f64 per
/// thread, dynamic. *Barriers*: 1 + log₂ B, for B a power of two. The residual is taken by
/// [`max_change`](super::residual::max_change).
/// *Safety*: the grid has one block per state; the model is as [`Model`] says, but that its rewards are those of actions alone;
/// `entry_reward` has one element per entry, `policy` and `v` have S; actions are those of their states.
#[kernel(T = [f32, f64], O = [u32, u64])]
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
    // Of a state that has no action the sum is empty.
    let (mut entry, mut end, mut sum) = (0, 0, 0.0);
    if let Some(row) = choices.row(state, policy.get(state)) {
        end = rows.ptr.get(row + 1).to_usize();
        entry = rows.ptr.get(row).to_usize() + t as usize;
        if t == 0 {
            sum = reward.get(row).to_f64();
        }
    }
    while entry < end {
        let successor = v.old.get(rows.col.get(entry) as usize).to_f64();
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

/// `LANES` lanes per row of P^π in compressed rows; with 32, a warp per row.
///
/// *Thread mapping*: a grid-stride loop over rows; the residual is recorded once per block. *Shared memory*: 32 words.
/// *Safety*: `rows` has `states` rows, `reward` and `v` have as many elements; columns are below `states`.
#[kernel(T = [f32, f64], O = [u32, u64], LANES = [2, 4, 8, 16, 32])]
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

/// One thread per row of P^π in slices of 32 rows.
///
/// A slice stores the first entries of its 32 rows, then their second ones, and so on, padded with probability 0 to its
/// longest row: the lanes of a warp read neighbouring elements, with no shuffles and no shared memory.
///
/// *Thread mapping*: a grid-stride loop over states; the residual is recorded once per block. *Shared memory*: 32 words.
/// *Safety*: `slices` has a row of entries for each slice; `reward` and `v` have `states` elements; columns are below `states`.
#[kernel(T = [f32, f64], O = [u32, u64])]
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
    // In T: near convergence the difference of two numbers of T is a number of T.
    let mut change = T::ZERO;
    let mut state = thread::index_1d() as u32;
    let (mut entry, mut end) = bounds(state);
    while state < states {
        // The offsets of the next slice are on their way while this one is summed.
        let next = state.saturating_add(stride);
        let (next_entry, next_end) = bounds(next);
        let (own, own_reward) = (v.old.get(state as usize), reward.get(state as usize));
        let mut expected = 0.0;
        while entry < end {
            // So are all loads of a step before the first is used.
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
                let value = v.old.get(successor[k] as usize);
                expected = math::fma(probability[k].to_f64(), value.to_f64(), expected);
            }
            entry += O::from_usize(UNROLL * SLICE);
        }
        let value = T::from_f64(math::fma(gamma, expected, own_reward.to_f64()));
        change = change.max((value - own).abs());
        v.new.set(state as usize, value);
        (state, entry, end) = (next, next_entry, next_end);
    }
    residuals.record(change.to_f64());
}
