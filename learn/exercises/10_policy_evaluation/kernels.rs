//! Sweeps of policy evaluation, V_new(s) = r(s) + Σ γ P(s'|s) V(s'), and their residual ‖V_new − V‖∞.

use warpkov_device::device::{Global, GlobalMut, atomic, block, kernel, math, thread};

/// SELL, a thread per state, one entry after the other.
///
/// *Safety*: as the chapter's `Sell` says; `v` and `new` have `states` elements.
// ANCHOR: sell
#[kernel]
pub fn evaluate_sell(
    states: u32,
    first: Global<u32>,
    col: Global<u32>,
    prob: Global<f32>,
    reward: Global<f32>,
    v: Global<f32>,
    new: GlobalMut<f32>,
) {
    let state = thread::index_1d() as usize;
    if state < states as usize {
        let mut entry = first.get(state / 32) as usize + state % 32;
        let end = first.get(state / 32 + 1) as usize;
        let mut sum = reward.get(state);
        while entry < end {
            sum = math::fma_f32(prob.get(entry), v.get(col.get(entry)), sum);
            entry += 32;
        }
        new.set(state, sum);
    }
}
// ANCHOR_END: sell

/// Compressed rows, a thread per state.
///
/// *Safety*: as the chapter's `Rows` says; `v` and `new` have `states` elements.
// ANCHOR: rows
#[kernel]
pub fn evaluate_rows(
    states: u32,
    ptr: Global<u32>,
    col: Global<u32>,
    prob: Global<f32>,
    reward: Global<f32>,
    v: Global<f32>,
    new: GlobalMut<f32>,
) {
    let state = thread::index_1d() as usize;
    if state < states as usize {
        let (mut entry, end) = (ptr.get(state) as usize, ptr.get(state + 1) as usize);
        let mut sum = reward.get(state);
        while entry < end {
            sum = math::fma_f32(prob.get(entry), v.get(col.get(entry)), sum);
            entry += 1;
        }
        new.set(state, sum);
    }
}
// ANCHOR_END: rows

/// Raises the f64 whose bits are `residual[0]` to the largest |V_new(s) − V(s)|, a thread per state.
///
/// *Safety*: `v` and `new` have `states` elements; blocks of whole warps.
// ANCHOR: change
#[kernel]
pub fn max_change(states: u32, v: Global<f32>, new: Global<f32>, residual: GlobalMut<u64>) {
    let state = thread::index_1d() as usize;
    let mut change = 0.0;
    if state < states as usize {
        change = (new.get(state) - v.get(state)).abs();
    }
    let largest = block::reduce(change, 0.0, f32::max);
    if thread::thread_idx_x() == 0 {
        atomic::max_nonnegative(residual, 0, largest.into());
    }
}
// ANCHOR_END: change

/// A sweep over SELL that also raises the f64 whose bits are `residual[0]` to the largest |V_new(s) − V(s)|.
///
/// *Safety*: as the chapter's `Sell` says; `v` and `new` have `states` elements; blocks of whole warps.
#[kernel]
pub fn sweep(
    states: u32,
    first: Global<u32>,
    col: Global<u32>,
    prob: Global<f32>,
    reward: Global<f32>,
    v: Global<f32>,
    new: GlobalMut<f32>,
    residual: GlobalMut<u64>,
) {
    // ANCHOR: part2
    // TODO: compute the residual here as well, and wait less often.
    let state = thread::index_1d() as usize;
    if state < states as usize {
        let mut entry = first.get(state / 32) as usize + state % 32;
        let end = first.get(state / 32 + 1) as usize;
        let mut sum = reward.get(state);
        while entry < end {
            sum = math::fma_f32(prob.get(entry), v.get(col.get(entry)), sum);
            entry += 32;
        }
        new.set(state, sum);
    }
    // The launch of `max_change` computes the residual.
    let _ = residual;
    // ANCHOR_END: part2
}
