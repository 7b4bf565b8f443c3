//! The greedy sweep over slices of 32 states: one thread per state.
//!
//! A slice has room for the most actions A and the longest row L of its 32 states. Entry j of action a of the state in
//! lane l is element ((a·L + j)·32 + l) from the slice's first; missing entries have probability 0, missing actions the
//! reward −∞. Probabilities are stored with their discount, γ P(s'|s, a). The lanes of a warp read neighbouring elements.
//!
//! *Bytes* per state with A actions of L successors, f32: 8·A·L for P, 4·A for r, 8 for V read and written, 12/32 for the
//! slice; gathers of V mostly hit the caches where states are near their successors.

use warpkov_device::device::{Global, Offset, Parameter, Real, kernel, thread};

use super::{Change, Sweep, greater};
use crate::mdp::model::Iterates;

/// States of a slice: the lanes of a warp.
pub const SLICE: usize = 32;

/// Entries of a row that a thread has on their way together.
const STEP: usize = 4;

/// Where the elements of slices are: of each slice its first entry, its first reward, its most actions A, its longest row L.
#[derive(Clone, Copy)]
pub struct Placed<O: Offset>(pub Global<O>);

/// What the elements are.
pub trait Elements<T>: Copy {
    /// An entry as it is stored.
    type Entry: Copy;
    /// An entry with probability 0.
    const NOTHING: Self::Entry;
    /// The entry at `element`.
    fn entry(&self, element: usize) -> Self::Entry;
    /// Its γ P(s'|s, a) and V(s').
    fn term(&self, state: u32, entry: Self::Entry) -> (T, T);
    /// The reward at `element`.
    fn reward(&self, element: usize) -> T;
}

impl<O: Offset> Placed<O> {
    /// maxₐ r(s, a) + Σ γ P(s'|s, a) V(s') of one state; −∞ where it has no action.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn best<T: Real, E: Elements<T>>(&self, state: u32, elements: E) -> T {
        let (slice, lane) = (state as usize / SLICE, O::from_usize(state as usize % SLICE));
        let [first, first_reward, actions, length] = self.0.get4(slice);
        let (mut row, mut reward) = (first + lane, first_reward + lane);
        let (actions, length) = (actions.to_usize() as u32, length.to_usize() as u32);
        let mut best = T::NEG_INFINITY;
        let mut action = 0;
        while action < actions {
            let mut q = elements.reward(reward.to_usize());
            let mut j = 0;
            while j < length {
                // All loads of a step are on their way before the first is used.
                let mut entries = [E::NOTHING; STEP];
                for k in 0..STEP {
                    if j + (k as u32) < length {
                        entries[k] = elements.entry((row + O::from_usize(k * SLICE)).to_usize());
                    }
                }
                for k in 0..STEP {
                    let (probability, value) = elements.term(state, entries[k]);
                    q = probability.fma(value, q);
                }
                row += O::from_usize((length - j).min(STEP as u32) as usize * SLICE);
                j += STEP as u32;
            }
            best = greater(best, q);
            reward += O::from_usize(SLICE);
            action += 1;
        }
        best
    }

    /// Backs up the states from `start` to `states` − 1, a thread per state.
    ///
    /// *Takes part* and *Barriers*: as in [`Sweep::tiles_from`].
    #[inline(always)]
    pub fn sweep<T: Real, E: Elements<T>>(&self, sweep: Sweep, start: u32, states: u32, v: Iterates<T>, elements: E) {
        sweep.tiles_from(start, states, |first, end| {
            let mut change = Change::NONE;
            let mut state = first + thread::thread_idx_x();
            while state < end {
                change = change.and(v.update(state, self.best(state, elements)));
                state += thread::block_dim_x();
            }
            change
        });
    }
}

/// Slices whose columns and probabilities are stored as they are.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `place` | 4 × slices | elements; actions; entries |
/// | `col` | elements | states |
/// | `prob` | elements | γ P(s'\|s, a) |
/// | `reward` | elements of rewards | r(s, a), −∞ for no action |
#[derive(Clone, Copy, Parameter)]
pub struct Slices<T, O> {
    /// Where the elements of each slice are, as in [`Placed`].
    pub place: Global<O>,
    /// Column of each entry.
    pub col: Global<u32>,
    /// Discounted probability of each entry.
    pub prob: Global<T>,
    /// Reward of each action.
    pub reward: Global<T>,
}

/// Columns and probabilities as they are.
#[derive(Clone, Copy)]
struct Columns<T: Real> {
    col: Global<u32>,
    prob: Global<T>,
    reward: Global<T>,
    v: Global<T>,
}

impl<T: Real> Elements<T> for Columns<T> {
    type Entry = (u32, T);
    const NOTHING: (u32, T) = (0, T::ZERO);

    #[inline(always)]
    fn entry(&self, element: usize) -> (u32, T) {
        (self.col.get(element), self.prob.get(element))
    }

    #[inline(always)]
    fn term(&self, _: u32, (successor, probability): (u32, T)) -> (T, T) {
        (probability, self.v.get(successor as usize))
    }

    #[inline(always)]
    fn reward(&self, element: usize) -> T {
        self.reward.get(element)
    }
}

/// A sweep over slices, from the one of state `start` on; those before it are not looked at.
///
/// `slices.place` counts from the first element that is there: where a model is on the device in parts, from the
/// first of the part.
///
/// *Thread mapping*: a block per tile, tiles in a grid-stride loop, a thread per state of the tile in a block-stride loop;
/// blocks are whole warps, tiles whole slices. *Safety*: `v` has `states` elements; columns are below
/// `states`; the rest as in [`Slices`] and [`Sweep`].
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn backup_slices<T: Real, O: Offset>(states: u32, start: u32, slices: Slices<T, O>, v: Iterates<T>, sweep: Sweep) {
    let Slices { place, col, prob, reward } = slices;
    Placed(place).sweep(sweep, start, states, v, Columns { col, prob, reward, v: v.old });
}
