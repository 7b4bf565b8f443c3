//! The least and the greatest ΔV(s) of a sweep, and how a launch learns from them that it is not needed.
//!
//! Sweep k of a batch leaves its extremes in elements 2k and 2k + 1 of an array that stays on the device: max ΔV and
//! max −ΔV, each as the [`key`] of a number, whose order as an integer is that of the numbers. So both are taken by an
//! integer atomic, exact and whatever the order, into an array that begins as zeros.
//!
//! A launch that finds the sweep before its own within the bound returns at once. It leaves zeros, which stand for no
//! change at all, so that all later ones return as well: a batch can be launched ahead, with no word from the host.
//!
//! States with no action have no ΔV: their change is not a number, which neither a minimum nor a maximum takes up.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, atomic, block, kernel, thread};

/// An integer that is above 0, and orders as the numbers do.
#[inline(always)]
#[must_use]
pub fn key(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The number of this [`key`]; 0 for 0, that is, where no number was recorded.
#[inline(always)]
#[must_use]
pub fn number(key: u64) -> f64 {
    match key {
        0 => 0.0,
        _ if key >> 63 == 1 => f64::from_bits(key & !(1 << 63)),
        _ => f64::from_bits(!key),
    }
}

/// The extremes (least, greatest) that sweep number `sweep` has recorded.
#[inline(always)]
#[must_use]
pub fn of_sweep(greatest: u64, opposite: u64) -> (f64, f64) {
    (-number(opposite), number(greatest))
}

/// The extremes of a batch of sweeps, and which of them a launch is.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `sweep` | 1 | sweeps of the batch |
/// | `bound` | 1 | reward |
/// | `span` | 1 | 1 or 0 |
/// | `keys` | more than 2·`sweep` + 1 | [`key`]s of rewards; 0 before the sweep |
#[derive(Clone, Copy, Parameter)]
pub struct Extremes {
    /// Number of the sweep in its batch.
    pub sweep: u32,
    /// Sweeps after one within it return at once.
    pub bound: f64,
    /// Whether it bounds the span max ΔV − min ΔV, else ‖ΔV‖∞.
    pub span: u32,
    /// Two for each sweep.
    pub keys: GlobalMut<u64>,
}

impl Extremes {
    /// Whether the sweep before this one was within the bound.
    #[inline(always)]
    #[must_use]
    pub fn met(&self) -> bool {
        if self.sweep == 0 {
            return false;
        }
        let before = 2 * (self.sweep as usize - 1);
        within(self.keys.get(before), self.keys.get(before + 1), self.span, self.bound)
    }
}

/// Whether a sweep with these extremes was within `bound`: by its span where `span` is not 0, else by ‖ΔV‖∞.
#[inline(always)]
#[must_use]
pub fn within(greatest: u64, opposite: u64, span: u32, bound: f64) -> bool {
    let (least, greatest) = of_sweep(greatest, opposite);
    let size = if span != 0 { greatest - least } else { greatest.max(-least) };
    size < bound
}

/// Takes the extremes of `change` over all states into the elements of a sweep.
///
/// *Thread mapping*: a grid-stride loop over states, in blocks of whole warps. *Shared memory*: 64 words. *Barriers*: four.
/// *Deterministic*: yes.
/// *Safety*: `change` has `states` elements.
#[kernel(T = [f32, f64])]
pub fn extremes_of_change<T: Real>(states: u32, change: Global<T>, extremes: Extremes) {
    if extremes.met() {
        return;
    }
    let (mut greatest, mut opposite) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    let mut state = thread::index_1d() as usize;
    while state < states as usize {
        let change = change.get(state).to_f64();
        greatest = greatest.max(change);
        opposite = opposite.max(-change);
        state += thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    }
    record(extremes.keys, extremes.sweep, greatest, opposite);
}

/// Takes the extremes of V_new − V_old over all states into the first two elements.
///
/// *Thread mapping*: a grid-stride loop over states, in blocks of whole warps. *Shared memory*: 64 words. *Barriers*: four.
/// *Deterministic*: yes.
/// *Safety*: both vectors have `states` elements, `extremes` two, which are 0.
#[kernel(T = [f32, f64])]
pub fn extremes_between<T: Real>(states: u32, v_old: Global<T>, v_new: Global<T>, extremes: GlobalMut<u64>) {
    let (mut greatest, mut opposite) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    let mut state = thread::index_1d() as usize;
    while state < states as usize {
        let change = v_new.get(state).to_f64() - v_old.get(state).to_f64();
        greatest = greatest.max(change);
        opposite = opposite.max(-change);
        state += thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    }
    record(extremes, 0, greatest, opposite);
}

/// Takes the extremes that the threads of a block have found into the elements of sweep number `sweep`.
///
/// *Takes part*: every thread of the block, in whole warps. *Barriers*: four.
#[inline(always)]
fn record(extremes: GlobalMut<u64>, sweep: u32, greatest: f64, opposite: f64) {
    let greatest = block::reduce(greatest, f64::NEG_INFINITY, f64::max);
    let opposite = block::reduce(opposite, f64::NEG_INFINITY, f64::max);
    // Where no state has an action, the least is ∞ and the greatest −∞.
    if thread::thread_idx_x() == 0 && greatest >= -opposite {
        atomic::max((extremes, 2 * sweep as usize), key(greatest));
        atomic::max((extremes, 2 * sweep as usize + 1), key(opposite));
    }
}
