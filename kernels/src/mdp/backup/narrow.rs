//! The greedy sweep over slices whose entries are small: successors as offsets from their state, probabilities as numbers
//! of a palette.
//!
//! Elements lie as in [`slices`](super::slices). The successor of state s is s + offset, an `i8` or `i16`; the probability
//! is `palette[index]`, of at most 256 different ones, in f64 and so exact; so are rewards, `rewards[index]` with indices
//! of 16 bits.
//!
//! *Bytes* per state with A actions of L successors: 2·A·L (`i8`) or 3·A·L (`i16`) for P, 2·A for r, 8 for V in f32.

use crate::device::{Global, GlobalMut, Offset, Plain, Real, kernel, math, thread};

use super::slices::SLICE;
use super::{Change, Control, Values, greater};

/// Entries of a row that a thread loads together.
const UNROLL: usize = 4;

/// A signed integer that says how far a successor is.
pub trait Distance: Plain {
    /// The state that is so far from `state`.
    fn from(self, state: u32) -> usize;
}

impl Distance for i8 {
    #[inline(always)]
    fn from(self, state: u32) -> usize {
        state.wrapping_add_signed(i32::from(self)) as usize
    }
}

impl Distance for i16 {
    #[inline(always)]
    fn from(self, state: u32) -> usize {
        state.wrapping_add_signed(i32::from(self)) as usize
    }
}

/// A sweep over slices of small entries.
///
/// *Thread mapping* and *Safety*: as [`backup_slices`](super::slices::backup_slices); palette indices are in their palettes.
#[kernel(T = [f32, f64], O = [u32, u64], I = [i8, i16])]
pub fn backup_narrow<T: Real, O: Offset, I: Distance + crate::device::Named>(
    states: u32,
    slice_ptr: Global<O>,
    reward_ptr: Global<O>,
    extent: Global<u32>,
    offset: Global<I>,
    prob: Global<u8>,
    palette: Global<f64>,
    reward: Global<u16>,
    rewards: Global<f64>,
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
                let earned = rewards.get(reward.get(at.to_usize()) as usize);
                let row_end = entry + O::from_usize(length as usize * SLICE);
                let mut expected = 0.0;
                while entry < row_end {
                    let mut successor = [state as usize; UNROLL];
                    let mut probability = [0; UNROLL];
                    for k in 0..UNROLL {
                        let element = entry + O::from_usize(k * SLICE);
                        if element < row_end {
                            successor[k] = offset.get(element.to_usize()).from(state);
                            probability[k] = prob.get(element.to_usize());
                        }
                    }
                    for k in 0..UNROLL {
                        // Number 0 of the palette is the probability 0.
                        let value = v_old.get(successor[k]).to_f64();
                        expected = math::fma(palette.get(probability[k] as usize), value, expected);
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
