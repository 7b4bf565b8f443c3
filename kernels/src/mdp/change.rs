//! Minimum and maximum of ΔV(s) over a sweep, and the early return of launches after convergence.
//!
//! Sweep k of a batch writes elements 2k and 2k + 1 of a device array: max ΔV and max −ΔV, each as a [`key`]. Keys
//! order as the numbers do, so integer atomics take both maxima: exact, and independent of the order of the blocks. The
//! array starts as zeros.
//!
//! A launch returns at once if the previous sweep is within the bound. It leaves zeros, which stand for "no change"; so
//! all later launches return as well. The host thus launches a whole batch without synchronisation.
//!
//! A state without actions has ΔV = NaN, which neither minimum nor maximum takes up.

use atomic::{Ordering, Scope};
use warpkov_device::device::safe::{Atomics, In, Len};
use warpkov_device::device::{Parameter, Real, atomic, block, kernel, thread};

/// Maps a number to an integer > 0 with the same order.
#[inline(always)]
#[must_use]
pub fn key(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The number of a [`key`]; 0 for 0, which means that no number was recorded.
#[inline(always)]
#[must_use]
pub fn number(key: u64) -> f64 {
    match key {
        0 => 0.0,
        _ if key >> 63 == 1 => f64::from_bits(key & !(1 << 63)),
        _ => f64::from_bits(!key),
    }
}

/// (min ΔV, max ΔV) from the two keys of a sweep: that of max ΔV and that of max −ΔV.
#[inline(always)]
#[must_use]
pub fn of_sweep(greatest: u64, opposite: u64) -> (f64, f64) {
    (-number(opposite), number(greatest))
}

/// The extremes of ΔV of a batch of sweeps, and the index of this sweep in the batch.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `sweep` | scalar | index in the batch, from 0 |
/// | `bound` | scalar | reward |
/// | `span` | scalar | 1 or 0 |
/// | `keys` | 2·`sweep` + 2 or more | [`key`]s of rewards; 0 before the batch |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(keys.len() >= 2 * sweep + 2))]
pub struct Extremes {
    /// Index of the sweep in its batch.
    pub sweep: u32,
    /// Sweeps after one within this bound return at once.
    pub bound: f64,
    /// 1: `bound` applies to the span max ΔV − min ΔV. 0: to ‖ΔV‖∞.
    pub span: u32,
    /// Two keys per sweep.
    pub keys: Atomics<u64>,
}

impl Extremes {
    /// Whether the previous sweep was within the bound.
    #[inline(always)]
    #[must_use]
    pub fn met(&self) -> bool {
        if self.sweep == 0 {
            return false;
        }
        // No thread of this launch writes these keys.
        let before = self.keys.chunk(2 * (self.sweep as usize - 1));
        let [greatest, opposite] = before.map(|key| atomic::load(key, Ordering::Relaxed, Scope::Block));
        within(greatest, opposite, self.span, self.bound)
    }
}

/// Whether a sweep with these keys was within `bound`: its span if `span` is not 0, else its ‖ΔV‖∞.
#[inline(always)]
#[must_use]
pub fn within(greatest: u64, opposite: u64, span: u32, bound: f64) -> bool {
    let (least, greatest) = of_sweep(greatest, opposite);
    let size = if span != 0 { greatest - least } else { greatest.max(-least) };
    size < bound
}

/// Extremes of a vector `change` over all states, into the keys of this sweep.
///
/// - *Mathematics*: maxₛ ΔV(s) and maxₛ −ΔV(s).
/// - *Thread mapping*: a grid-stride loop over states, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: four. *Deterministic*: yes.
/// - *Valid result in*: keys 2k and 2k + 1 of sweep k, after the launch.
#[kernel(safe, T = [f32, f64], requires(shape.dimensions == 1))]
pub fn extremes_of_change<'s, T: Real>(states: Len<'s>, change: In<'s, T>, extremes: Extremes) {
    let (mut greatest, mut opposite) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    // After a sweep within the bound, the keys stay 0.
    if !extremes.met() {
        for s in states.elements() {
            let change = change.get(&s).to_f64();
            greatest = greatest.max(change);
            opposite = opposite.max(-change);
        }
    }
    record(extremes.keys, extremes.sweep, greatest, opposite);
}

/// Extremes of V_new − V_old over all states, into the first two keys.
///
/// - *Mathematics*: maxₛ ΔV(s) and maxₛ −ΔV(s), with ΔV = V_new − V_old.
/// - *Thread mapping*: a grid-stride loop over states, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: four. *Deterministic*: yes.
/// - *Valid result in*: `extremes[0]` and `extremes[1]`, as [`key`]s, after the launch; 0 before it.
#[kernel(safe, T = [f32, f64], requires(extremes.len() >= 2, shape.dimensions == 1))]
pub fn extremes_between<'s, T: Real>(states: Len<'s>, v_old: In<'s, T>, v_new: In<'s, T>, extremes: Atomics<u64>) {
    let (mut greatest, mut opposite) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for s in states.elements() {
        let change = v_new.get(&s).to_f64() - v_old.get(&s).to_f64();
        greatest = greatest.max(change);
        opposite = opposite.max(-change);
    }
    record(extremes, 0, greatest, opposite);
}

/// Raises the two keys of sweep `sweep` to the block's maxima.
///
/// *Takes part*: every thread of the block, in whole warps. *Barriers*: four.
#[inline(always)]
fn record(extremes: Atomics<u64>, sweep: u32, greatest: f64, opposite: f64) {
    let greatest = block::reduce(greatest, f64::NEG_INFINITY, f64::max);
    let opposite = block::reduce(opposite, f64::NEG_INFINITY, f64::max);
    // If no state has an action, the minimum is ∞ and the maximum −∞.
    if thread::thread_idx_x() == 0 && greatest >= -opposite {
        let [of_greatest, of_opposite] = extremes.chunk(2 * sweep as usize);
        atomic::max(of_greatest, key(greatest));
        atomic::max(of_opposite, key(opposite));
    }
}
