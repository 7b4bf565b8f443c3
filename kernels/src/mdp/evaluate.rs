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

use crate::device::{Global, GlobalMut, Offset, Real, kernel, math, shared, thread, warp};

use super::choices::Choices;
use super::residual;
use super::row::Rows;

/// Rows of a slice: the lanes of a warp.
pub const SLICE: usize = 32;

/// Entries of a row that a thread loads together.
const UNROLL: usize = 4;

/// One block per state, as in the source: threads over successors, then a reduction in shared memory.
///
/// *Thread mapping*: block b has state b; thread t adds entries t, t + B, … of the row of π(s). *Shared memory*: one f64 per
/// thread, dynamic. *Barriers*: 1 + log₂ B, for B a power of two. The residual is taken by
/// [`max_change`](super::residual::max_change).
/// *Safety*: the grid has one block per state; `row_ptr` has one element per row and one more, `action_reward` one per row,
/// `reward` one per entry, and `policy`, `v_old` and `v_new` have S; actions are those of their states, columns below S.
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn evaluate_block_per_state<T: Real, O: Offset>(
    actions: u32,
    offsets: Global<O>,
    row_ptr: Global<O>,
    col: Global<u32>,
    prob: Global<T>,
    reward: Global<T>,
    action_reward: Global<T>,
    gamma: f64,
    policy: Global<u32>,
    v_old: Global<T>,
    v_new: GlobalMut<T>,
    theta: f64,
    sweep: u32,
    residuals: GlobalMut<u64>,
) {
    if residual::converged(residuals, sweep, theta) {
        return;
    }
    let partial = shared::dynamic_shared_mem::<f64>();
    let (state, t) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    // Of a state that has no action the sum is empty.
    let (mut entry, mut end, mut sum) = (0, 0, 0.0);
    if let Some(row) = (Choices { actions, offsets }).row(state, policy.get(state)) {
        end = row_ptr.get(row + 1).to_usize();
        entry = row_ptr.get(row).to_usize() + t as usize;
        if t == 0 {
            sum = action_reward.get(row).to_f64();
        }
    }
    while entry < end {
        let successor = v_old.get(col.get(entry) as usize).to_f64();
        sum = math::fma(prob.get(entry).to_f64(), math::fma(gamma, successor, reward.get(entry).to_f64()), sum);
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
        v_new.set(state, T::from_f64(partial.get(0)));
    }
}

/// `LANES` lanes per row of P^π in compressed rows; with 32, a warp per row.
///
/// *Thread mapping*: a grid-stride loop over rows; the residual is recorded once per block. *Shared memory*: 32 words.
/// *Safety*: `row_ptr` has `states + 1` elements, `reward`, `v_old` and `v_new` have `states`; columns are below `states`.
#[kernel(T = [f32, f64], O = [u32, u64], LANES = [2, 4, 8, 16, 32])]
pub fn evaluate_rows<T: Real, O: Offset, const LANES: u32>(
    states: u32,
    row_ptr: Global<O>,
    col: Global<u32>,
    prob: Global<T>,
    reward: Global<T>,
    gamma: f64,
    v_old: Global<T>,
    v_new: GlobalMut<T>,
    theta: f64,
    sweep: u32,
    residuals: GlobalMut<u64>,
) {
    if residual::converged(residuals, sweep, theta) {
        return;
    }
    let rows = Rows { row_ptr, col, prob };
    let states = states as usize;
    let per_block = (thread::block_dim_x() / LANES) as usize;
    let mut change: f64 = 0.0;
    let mut first = thread::block_idx_x() as usize * per_block;
    while first < states {
        let state = first + (thread::thread_idx_x() / LANES) as usize;
        let inside = state < states;
        let expected = rows.expect::<LANES>(inside.then_some(state), v_old);
        if inside && thread::thread_idx_x().is_multiple_of(LANES) {
            let value = T::from_f64(math::fma(gamma, expected, reward.get(state).to_f64()));
            change = change.max((value.to_f64() - v_old.get(state).to_f64()).abs());
            v_new.set(state, value);
        }
        first += thread::grid_dim_x() as usize * per_block;
    }
    residual::record(residuals, sweep, change);
}

/// One thread per row of P^π in slices of 32 rows.
///
/// A slice stores the first entries of its 32 rows, then their second ones, and so on, padded with probability 0 to its
/// longest row: the lanes of a warp read neighbouring elements, with no shuffles and no shared memory.
///
/// *Thread mapping*: a grid-stride loop over states; the residual is recorded once per block. *Shared memory*: 32 words.
/// *Safety*: `slice_ptr` has one element per slice and one more, `reward`, `v_old` and `v_new` have `states`; columns are
/// below `states`.
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn evaluate_slices<T: Real, O: Offset>(
    states: u32,
    slice_ptr: Global<O>,
    col: Global<u32>,
    prob: Global<T>,
    reward: Global<T>,
    gamma: f64,
    v_old: Global<T>,
    v_new: GlobalMut<T>,
    theta: f64,
    sweep: u32,
    residuals: GlobalMut<u64>,
) {
    if residual::converged(residuals, sweep, theta) {
        return;
    }
    let stride = thread::grid_dim_x() * thread::block_dim_x();
    let lane = O::from_usize(warp::lane_id() as usize);
    let bounds = |state: u32| {
        let slice = state as usize / SLICE;
        if state < states { (slice_ptr.get(slice) + lane, slice_ptr.get(slice + 1)) } else { (lane, lane) }
    };
    // In T: near convergence the difference of two numbers of T is a number of T.
    let mut change = T::ZERO;
    let mut state = thread::index_1d() as u32;
    let (mut entry, mut end) = bounds(state);
    while state < states {
        // The offsets of the next slice are on their way while this one is summed.
        let next = state.saturating_add(stride);
        let (next_entry, next_end) = bounds(next);
        let (own, own_reward) = (v_old.get(state as usize), reward.get(state as usize));
        let mut expected = 0.0;
        while entry < end {
            // So are all loads of a step before the first is used.
            let mut successor = [state; UNROLL];
            let mut probability = [T::ZERO; UNROLL];
            for k in 0..UNROLL {
                let at = entry + O::from_usize(k * SLICE);
                if at < end {
                    successor[k] = col.get(at.to_usize());
                    probability[k] = prob.get(at.to_usize());
                }
            }
            for k in 0..UNROLL {
                let value = v_old.get(successor[k] as usize);
                expected = math::fma(probability[k].to_f64(), value.to_f64(), expected);
            }
            entry += O::from_usize(UNROLL * SLICE);
        }
        let value = T::from_f64(math::fma(gamma, expected, own_reward.to_f64()));
        change = change.max((value - own).abs());
        v_new.set(state as usize, value);
        (state, entry, end) = (next, next_entry, next_end);
    }
    residual::record(residuals, sweep, change.to_f64());
}
