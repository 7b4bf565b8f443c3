//! The sup-norm residual ‖V_new − V_old‖∞, and how a sweep learns that it is not needed.
//!
//! The residual of sweep k of a batch goes to slot k of an array that stays on the device. A sweep that finds the slot
//! before its own below θ returns at once and leaves 0 in its own, so that all later ones return as well: a batch of
//! sweeps can be launched ahead, with no word from the host in between.
//!
//! A slot holds the bits of a number that is not negative. Those order as the numbers do, so that a slot takes its maximum
//! by an integer atomic, exact and whatever the order.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, atomic, block, kernel, thread};

/// The residuals of a batch of sweeps, and which of them a launch is.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `theta` | 1 | reward |
/// | `sweep` | 1 | sweeps of the batch |
/// | `slots` | more than `sweep` | bits of rewards ≥ 0; 0 before the sweep |
#[derive(Clone, Copy, Parameter)]
pub struct Residuals {
    /// θ: sweeps after one with ‖ΔV‖∞ < θ return at once.
    pub theta: f64,
    /// Number of the sweep in its batch.
    pub sweep: u32,
    /// A slot for each sweep.
    pub slots: GlobalMut<u64>,
}

impl Residuals {
    /// Whether the sweep before this one has met ‖ΔV‖∞ < θ.
    #[inline(always)]
    #[must_use]
    pub fn converged(&self) -> bool {
        self.sweep > 0 && f64::from_bits(self.slots.get(self.sweep as usize - 1)) < self.theta
    }

    /// Takes the maximum of `change` ≥ 0 over the block into the slot of this sweep.
    ///
    /// *Takes part*: every thread of the block, in whole warps. *Barriers*: two.
    #[inline(always)]
    pub fn record(&self, change: f64) {
        record(self.slots, self.sweep, change);
    }
}

/// Takes the maximum of `change` ≥ 0 over the block into a slot.
///
/// *Takes part*: every thread of the block, in whole warps. *Barriers*: two.
#[inline(always)]
fn record(slots: GlobalMut<u64>, slot: u32, change: f64) {
    let largest = block::reduce(change, 0.0, f64::max);
    if thread::thread_idx_x() == 0 {
        atomic::max_nonnegative(slots, slot as usize, largest);
    }
}

/// ‖V_new − V_old‖∞ into the slot of a sweep that does not record it itself.
///
/// *Thread mapping*: a grid-stride loop over states. *Safety*: both vectors have `states` elements.
#[kernel(T = [f32, f64])]
pub fn max_change<T: Real>(states: u32, v_old: Global<T>, v_new: Global<T>, residuals: Residuals) {
    if residuals.converged() {
        return;
    }
    let mut change: f64 = 0.0;
    let mut state = thread::index_1d() as usize;
    let stride = thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    while state < states as usize {
        change = change.max((v_new.get(state).to_f64() - v_old.get(state).to_f64()).abs());
        state += stride;
    }
    residuals.record(change);
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
