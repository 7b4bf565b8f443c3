//! The sup-norm residual ‖V_new − V_old‖∞, and how a sweep learns that it is not needed.
//!
//! The residual of sweep k of a batch goes to slot k of an array that stays on the device. A sweep that finds the slot
//! before its own below θ returns at once and leaves 0 in its own, so that all later ones return as well: a batch of
//! sweeps can be launched ahead, with no word from the host in between.
//!
//! A slot holds the bits of a number that is not negative. Those order as the numbers do, so that a slot takes its maximum
//! by an integer atomic, exact and whatever the order.

use crate::device::{Global, GlobalMut, Real, atomic, block, kernel, thread};

/// Whether the sweep before number `sweep` of this batch has met ‖ΔV‖∞ < `theta`.
#[inline(always)]
#[must_use]
pub fn converged(residuals: GlobalMut<u64>, sweep: u32, theta: f64) -> bool {
    sweep > 0 && f64::from_bits(residuals.get(sweep as usize - 1)) < theta
}

/// Takes the maximum of `change` ≥ 0 over the block into slot `sweep`.
///
/// *Takes part*: every thread of the block, in whole warps. *Barriers*: two.
#[inline(always)]
pub fn record(residuals: GlobalMut<u64>, sweep: u32, change: f64) {
    let largest = block::reduce(change, 0.0, f64::max);
    if thread::thread_idx_x() == 0 {
        atomic::max_nonnegative(residuals, sweep as usize, largest);
    }
}

/// ‖V_new − V_old‖∞ into slot `sweep`, for sweeps that do not record it themselves.
///
/// *Thread mapping*: a grid-stride loop over states. *Safety*: both vectors have `states` elements, `residuals` more than
/// `sweep`.
#[kernel(T = [f32, f64])]
pub fn max_change<T: Real>(
    states: u32,
    v_old: Global<T>,
    v_new: Global<T>,
    theta: f64,
    sweep: u32,
    residuals: GlobalMut<u64>,
) {
    if converged(residuals, sweep, theta) {
        return;
    }
    let mut change: f64 = 0.0;
    let mut state = thread::index_1d() as usize;
    let stride = thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    while state < states as usize {
        change = change.max((v_new.get(state).to_f64() - v_old.get(state).to_f64()).abs());
        state += stride;
    }
    record(residuals, sweep, change);
}

/// ‖V‖∞ into slot 0, infinite where any value is not a number.
///
/// *Thread mapping*: a grid-stride loop over states. *Safety*: `v` has `states` elements, `slots` at least one, which is 0.
#[kernel(T = [f32, f64])]
pub fn largest<T: Real>(states: u32, v: Global<T>, slots: GlobalMut<u64>) {
    let mut found: f64 = 0.0;
    let mut state = thread::index_1d() as usize;
    let stride = thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    while state < states as usize {
        let value = v.get(state).to_f64().abs();
        found = found.max(if value.is_nan() { f64::INFINITY } else { value });
        state += stride;
    }
    record(slots, 0, found);
}
