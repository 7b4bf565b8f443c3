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
    let states = states as usize;
    let stride = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
    let bounds = |state: usize| {
        if state < states {
            (first.get(state / 32) as usize + state % 32, first.get(state / 32 + 1) as usize)
        } else {
            (0, 0)
        }
    };
    let mut change: f32 = 0.0;
    let mut state = thread::index_1d() as usize;
    let (mut entry, mut end) = bounds(state);
    while state < states {
        // The position of the next slice arrives while this slice is computed.
        let (next_entry, next_end) = bounds(state + stride);
        let (own, mut sum) = (v.get(state), reward.get(state));
        while entry < end {
            // All loads of a step are on their way before the first is used.
            let (mut successor, mut probability, mut value) = ([0; 4], [0.0; 4], [0.0; 4]);
            for k in 0..4 {
                if entry + 32 * k < end {
                    successor[k] = col.get(entry + 32 * k) as usize;
                    probability[k] = prob.get(entry + 32 * k);
                }
            }
            for k in 0..4 {
                if entry + 32 * k < end {
                    value[k] = v.get(successor[k]);
                }
            }
            for k in 0..4 {
                sum = math::fma_f32(probability[k], value[k], sum);
            }
            entry += 4 * 32;
        }
        change = change.max((sum - own).abs());
        new.set(state, sum);
        state += stride;
        (entry, end) = (next_entry, next_end);
    }
    let largest = block::reduce(change, 0.0, f32::max);
    if thread::thread_idx_x() == 0 {
        atomic::max_nonnegative(residual, 0, largest.into());
    }
    // ANCHOR_END: part2
}
