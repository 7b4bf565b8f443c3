//! The greedy sweep over slices of 32 states: one thread per state.
//!
//! A slice has room for the most actions A and the longest row L of its 32 states. Entry j of action a of the state in
//! lane l is element ((a·L + j)·32 + l) from the slice's first; missing entries have probability 0, missing actions the
//! reward −∞. The lanes of a warp read neighbouring elements.
//!
//! *Bytes* per state with A actions of L successors, f32: 8·A·L for P, 4·A for r, 8 for V read and written, 12/32 for the
//! slice; gathers of V mostly hit the caches where states are near their successors.

use crate::device::{Global, GlobalMut, Offset, Real, kernel, math, thread};

use super::{Change, Control, Values, greater};

/// States of a slice: the lanes of a warp.
pub const SLICE: usize = 32;

/// Entries of a row that a thread loads together.
const UNROLL: usize = 4;

/// A sweep over slices.
///
/// *Thread mapping*: a block per tile, tiles in a grid-stride loop, a thread per state of the tile in a block-stride loop;
/// blocks are whole warps, tiles whole slices. *Safety*: `slice_ptr` and `reward_ptr` have one element per slice and one
/// more, `extent` (actions · 2¹⁶ + longest row) one per slice, `v_old` and `v_new` have `states`; columns are below `states`; the rest as in
/// [`Control`].
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn backup_slices<T: Real, O: Offset>(
    states: u32,
    slice_ptr: Global<O>,
    reward_ptr: Global<O>,
    extent: Global<u32>,
    col: Global<u32>,
    prob: Global<T>,
    reward: Global<T>,
    gamma: f64,
    v_old: Global<T>,
    v_new: GlobalMut<T>,
    sweep: u32,
    span: u32,
    bound: f64,
    slots: GlobalMut<u64>,
    tile: u32,
    skip: u32,
    needs_ptr: Global<u32>,
    needs: Global<u32>,
    changed_old: Global<u32>,
    changed_new: GlobalMut<u32>,
) {
    let control = Control { sweep, span, bound, slots, tile, skip, needs_ptr, needs, changed_old, changed_new };
    let values = Values { old: v_old, new: v_new };
    control.tiles(states, |first, end| {
        let mut change = Change::NONE;
        let mut state = first + thread::thread_idx_x();
        while state < end {
            let (slice, lane) = (state as usize / SLICE, O::from_usize(state as usize % SLICE));
            let (actions, length) = (extent.get(slice) >> 16, extent.get(slice) & 0xFFFF);
            let mut entry = slice_ptr.get(slice) + lane;
            let mut at = reward_ptr.get(slice) + lane;
            let mut best = f64::NEG_INFINITY;
            let mut action = 0;
            while action < actions {
                let earned = reward.get(at.to_usize()).to_f64();
                let row_end = entry + O::from_usize(length as usize * SLICE);
                let mut expected = 0.0;
                while entry < row_end {
                    // All loads of a step are on their way before the first is used.
                    let mut successor = [state; UNROLL];
                    let mut probability = [T::ZERO; UNROLL];
                    for k in 0..UNROLL {
                        let element = entry + O::from_usize(k * SLICE);
                        if element < row_end {
                            successor[k] = col.get(element.to_usize());
                            probability[k] = prob.get(element.to_usize());
                        }
                    }
                    for k in 0..UNROLL {
                        let value = v_old.get(successor[k] as usize).to_f64();
                        expected = math::fma(probability[k].to_f64(), value, expected);
                    }
                    entry += O::from_usize(UNROLL * SLICE);
                }
                entry = row_end;
                at += O::from_usize(SLICE);
                best = greater(best, math::fma(gamma, expected, earned));
                action += 1;
            }
            change = change.and(values.update(state, best));
            state += thread::block_dim_x();
        }
        change
    });
}
