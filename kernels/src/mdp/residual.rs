//! The sup-norm residual ‖V_new − V_old‖∞, and the early return of sweeps after convergence.
//!
//! Sweep k of a batch writes its residual to slot k of a device array. A sweep whose predecessor's residual is below θ
//! returns at once and leaves 0 in its own slot; so all later sweeps return as well. The host thus launches a whole
//! batch of sweeps without synchronisation.
//!
//! A slot holds the bits of a nonnegative f64. These bits order as the numbers do, so an integer atomic takes the
//! maximum: exact, and independent of the order of the blocks.

use atomic::{Cell, Ordering, Scope};
use warpkov_device::device::safe::{Atomics, In, Len};
use warpkov_device::device::{GlobalMut, Parameter, Real, atomic, block, kernel, thread};

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
        record((self.slots, self.sweep as usize), change);
    }
}

/// Raises a slot to the block's maximum of `change` ≥ 0.
///
/// *Takes part*: every thread of the block, in whole warps. *Barriers*: two.
#[inline(always)]
fn record(slot: impl Cell<u64>, change: f64) {
    let largest = block::reduce(change, 0.0, f64::max);
    if thread::thread_idx_x() == 0 {
        // The bits of nonnegative numbers order as the numbers do.
        atomic::max(slot, largest.to_bits());
    }
}

/// The residual ‖V_new − V_old‖∞ into this sweep's slot, for evaluation kernels that do not record it themselves.
///
/// - *Mathematics*: maxₛ |V_new(s) − V_old(s)|.
/// - *Thread mapping*: a grid-stride loop over states, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes.
/// - *Valid result in*: `slots[sweep]`, after the launch.
///
/// `theta`, `sweep` and `slots` are those of [`Residuals`].
#[kernel(safe, T = [f32, f64], requires(slots.len() >= sweep + 1, shape.dimensions == 1))]
pub fn max_change<'s, T: Real>(
    states: Len<'s>,
    v_old: In<'s, T>,
    v_new: In<'s, T>,
    theta: f64,
    sweep: u32,
    slots: Atomics<u64>,
) {
    // No thread of this launch writes the slot before.
    let before = || atomic::load(slots.at(sweep as usize - 1), Ordering::Relaxed, Scope::Block);
    let converged = sweep > 0 && f64::from_bits(before()) < theta;
    let mut change: f64 = 0.0;
    // After convergence, the slot stays 0.
    if !converged {
        for s in states.elements() {
            change = change.max((v_new.get(&s).to_f64() - v_old.get(&s).to_f64()).abs());
        }
    }
    record(slots.at(sweep), change);
}

/// The norm ‖V‖∞ into slot 0.
///
/// - *Mathematics*: maxₛ |V(s)|; ∞ if any V(s) is NaN.
/// - *Thread mapping*: a grid-stride loop over states, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes.
/// - *Valid result in*: `slots[0]`, after the launch; 0 before it.
#[kernel(safe, T = [f32, f64], requires(slots.len() >= 1, shape.dimensions == 1))]
pub fn largest<'s, T: Real>(states: Len<'s>, v: In<'s, T>, slots: Atomics<u64>) {
    let mut found: f64 = 0.0;
    for s in states.elements() {
        let value = v.get(&s).to_f64().abs();
        found = found.max(if value.is_nan() { f64::INFINITY } else { value });
    }
    record(slots.at(0), found);
}
