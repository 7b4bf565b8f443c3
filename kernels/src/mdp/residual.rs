//! The sup-norm residual ‖V_new − V_old‖∞, and the early return of sweeps after convergence.
//!
//! Sweep k of a batch writes its residual to slot k of a device array. A sweep whose predecessor's residual is below θ
//! returns at once and leaves 0 in its own slot; so all later sweeps return as well. The host thus launches a whole
//! batch of sweeps without synchronisation.
//!
//! A slot holds the bits of a nonnegative f64. These bits order as the numbers do, so an integer atomic takes the
//! maximum: exact, and independent of the order of the blocks.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, atomic, block, kernel, thread};

/// The residuals of a batch of sweeps, and the index of this sweep in the batch.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `theta` | scalar | reward |
/// | `sweep` | scalar | index in the batch, from 0 |
/// | `slots` | `sweep` + 1 or more | bits of rewards ≥ 0; 0 before the batch |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(slots.len() >= sweep + 1))]
pub struct Residuals {
    /// θ: sweeps after one with ‖ΔV‖∞ < θ return at once.
    pub theta: f64,
    /// Index of the sweep in its batch.
    pub sweep: u32,
    /// One slot per sweep.
    pub slots: GlobalMut<u64>,
}

impl Residuals {
    /// Whether the previous sweep met ‖ΔV‖∞ < θ.
    #[inline(always)]
    #[must_use]
    pub fn converged(&self) -> bool {
        self.sweep > 0 && f64::from_bits(self.slots.get(self.sweep as usize - 1)) < self.theta
    }

    /// Raises this sweep's slot to the block's maximum of `change` ≥ 0.
    ///
    /// *Takes part*: every thread of the block, in whole warps. *Barriers*: two.
    #[inline(always)]
    pub fn record(&self, change: f64) {
        record(self.slots, self.sweep, change);
    }
}

/// Raises a slot to the block's maximum of `change` ≥ 0.
///
/// *Takes part*: every thread of the block, in whole warps. *Barriers*: two.
#[inline(always)]
fn record(slots: GlobalMut<u64>, slot: u32, change: f64) {
    let largest = block::reduce(change, 0.0, f64::max);
    if thread::thread_idx_x() == 0 {
        atomic::max_nonnegative(slots, slot as usize, largest);
    }
}

/// The residual ‖V_new − V_old‖∞ into this sweep's slot, for evaluation kernels that do not record it themselves.
///
/// - *Mathematics*: maxₛ |V_new(s) − V_old(s)|.
/// - *Thread mapping*: a grid-stride loop over states, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes.
/// - *Valid result in*: `residuals.slots[residuals.sweep]`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `v_old`, `v_new` | S | reward |
/// | `residuals` | [`Residuals`] | |
#[kernel(
    T = [f32, f64],
    requires(
        v_old.len() >= states,
        v_new.len() >= states,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
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

/// The norm ‖V‖∞ into slot 0.
///
/// - *Mathematics*: maxₛ |V(s)|; ∞ if any V(s) is NaN.
/// - *Thread mapping*: a grid-stride loop over states, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes.
/// - *Valid result in*: `slots[0]`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `v` | S | reward |
/// | `slots` | 1 or more | 0 before the launch |
#[kernel(T = [f32, f64], requires(v.len() >= states, slots.len() >= 1, shape.block % 32 == 0, shape.dimensions == 1))]
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
