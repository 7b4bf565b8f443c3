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

/// Entries of a row that a thread has on their way together.
const STEP: usize = 4;

/// Where the elements of slices are.
#[derive(Clone, Copy)]
pub struct Slices<O: Offset> {
    /// First entry of each slice.
    pub slice_ptr: Global<O>,
    /// First reward of each slice.
    pub reward_ptr: Global<O>,
    /// Actions · 2¹⁶ + longest row of each slice.
    pub extent: Global<u32>,
}

/// What the elements are.
pub trait Elements: Copy {
    /// An entry as it is stored.
    type Entry: Copy;
    /// An entry with probability 0.
    const NOTHING: Self::Entry;
    /// The entry at `element`.
    fn entry(&self, element: usize) -> Self::Entry;
    /// Its P(s'|s, a) and V(s').
    fn term(&self, state: u32, entry: Self::Entry) -> (f64, f64);
    /// The reward at `element`.
    fn reward(&self, element: usize) -> f64;
}

impl<O: Offset> Slices<O> {
    /// maxₐ r(s, a) + γ Σ P(s'|s, a) V(s') of one state; −∞ where it has no action.
    ///
    /// Two actions at a time: a thread has the entries of both on their way before it uses the first.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn best<E: Elements>(&self, state: u32, gamma: f64, elements: E) -> f64 {
        let (slice, lane) = (state as usize / SLICE, O::from_usize(state as usize % SLICE));
        let extent = self.extent.get(slice);
        let (actions, length) = (extent >> 16, extent & 0xFFFF);
        let mut entry = self.slice_ptr.get(slice) + lane;
        let mut reward = self.reward_ptr.get(slice) + lane;
        let row = O::from_usize(length as usize * SLICE);
        let mut best = f64::NEG_INFINITY;
        let mut action = 0;
        while action < actions {
            let two = action + 1 < actions;
            let first_reward = elements.reward(reward.to_usize());
            let second_reward = if two { elements.reward(reward.to_usize() + SLICE) } else { f64::NEG_INFINITY };
            let (mut first_sum, mut second_sum) = (0.0, 0.0);
            let mut j = 0;
            while j < length {
                let mut first = [E::NOTHING; STEP];
                let mut second = [E::NOTHING; STEP];
                for k in 0..STEP {
                    if j + (k as u32) < length {
                        let element = entry + O::from_usize((j as usize + k) * SLICE);
                        first[k] = elements.entry(element.to_usize());
                        if two {
                            second[k] = elements.entry((element + row).to_usize());
                        }
                    }
                }
                for k in 0..STEP {
                    let (probability, value) = elements.term(state, first[k]);
                    first_sum = math::fma(probability, value, first_sum);
                    let (probability, value) = elements.term(state, second[k]);
                    second_sum = math::fma(probability, value, second_sum);
                }
                j += STEP as u32;
            }
            best = greater(best, math::fma(gamma, first_sum, first_reward));
            best = greater(best, math::fma(gamma, second_sum, second_reward));
            entry += row;
            entry += row;
            reward += O::from_usize(2 * SLICE);
            action += 2;
        }
        best
    }
}

/// Columns and probabilities as they are.
#[derive(Clone, Copy)]
struct Plain<T: Real> {
    col: Global<u32>,
    prob: Global<T>,
    reward: Global<T>,
    v: Global<T>,
}

impl<T: Real> Elements for Plain<T> {
    type Entry = (u32, T);
    const NOTHING: (u32, T) = (0, T::ZERO);

    #[inline(always)]
    fn entry(&self, element: usize) -> (u32, T) {
        (self.col.get(element), self.prob.get(element))
    }

    #[inline(always)]
    fn term(&self, _: u32, (successor, probability): (u32, T)) -> (f64, f64) {
        (probability.to_f64(), self.v.get(successor as usize).to_f64())
    }

    #[inline(always)]
    fn reward(&self, element: usize) -> f64 {
        self.reward.get(element).to_f64()
    }
}

/// A sweep over slices.
///
/// *Thread mapping*: a block per tile, tiles in a grid-stride loop, a thread per state of the tile in a block-stride loop;
/// blocks are whole warps, tiles whole slices. *Safety*: `slice_ptr` and `reward_ptr` have one element per slice and one
/// more, `extent` one per slice, `v_old` and `v_new` have `states`; columns are below `states`; the rest as in
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
    let (slices, values) = (Slices { slice_ptr, reward_ptr, extent }, Values { old: v_old, new: v_new });
    let elements = Plain { col, prob, reward, v: v_old };
    control.tiles(states, |first, end| {
        let mut change = Change::NONE;
        let mut state = first + thread::thread_idx_x();
        while state < end {
            change = change.and(values.update(state, slices.best(state, gamma, elements)));
            state += thread::block_dim_x();
        }
        change
    });
}
