//! The greedy sweep over SELL slices of 32 states, one thread per state; for short rows.
//!
//! The number of actions A and the row length L of a slice are the maxima over its 32 states. Entry j of action a of
//! the state in lane l is element (a·L + j)·32 + l, counted from the slice's first entry; its reward is element a·32 +
//! l, counted from the slice's first reward. Missing entries have probability 0, missing actions reward −∞. The
//! probabilities include the discount: γ P(s'|s, a). All accesses to the model are coalesced.
//!
//! *Bytes* per state with A actions of L successors, f32: 8·A·L for P, 4·A for r, 8 to read and write V, 12/32 for the
//! slice. If successors are near their states, the caches serve most gathers of V.

use warpkov_device::device::{Global, Offset, Parameter, Real, kernel, thread};

use super::{Change, Sweep, greater};
use crate::mdp::model::Iterates;

/// States per slice: the lanes of a warp.
pub const SLICE: usize = 32;

/// Entries in flight per thread.
const STEP: usize = 4;

/// Position and size of each slice, four numbers: first entry, first reward, number of actions A, row length L.
#[derive(Clone, Copy)]
pub struct Placed<O: Offset>(pub Global<O>);

/// Decoder of the elements of a slice.
pub trait Elements<T>: Copy {
    /// An entry in its stored form.
    type Entry: Copy;
    /// The entry with probability 0.
    const NOTHING: Self::Entry;
    /// The entry at `element`.
    fn entry(&self, element: usize) -> Self::Entry;
    /// γ P(s'|s, a) and V(s') of an entry.
    fn term(&self, state: u32, entry: Self::Entry) -> (T, T);
    /// The reward at `element`.
    fn reward(&self, element: usize) -> T;
}

impl<O: Offset> Placed<O> {
    /// maxₐ r(s, a) + Σ γ P(s'|s, a) V(s') of one state; −∞ without actions.
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
                // Issue all loads of a step before the first use.
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

    /// Backs up the states from `start` to `states` − 1, one thread per state.
    ///
    /// *Takes part* and *Barriers*: as in [`Sweep::tiles`].
    #[inline(always)]
    pub fn sweep<T: Real, E: Elements<T>>(&self, sweep: Sweep, start: u32, states: u32, v: Iterates<T>, elements: E) {
        sweep.tiles(start, states, |first, end| {
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

/// SELL slices with uncompressed columns and probabilities.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `place` | 4 × slices | first entry; first reward; actions; row length |
/// | `col` | elements | states, below S |
/// | `prob` | elements | γ P(s'\|s, a) |
/// | `reward` | elements of rewards | r(s, a); −∞ for a missing action |
#[derive(Clone, Copy, Parameter)]
#[parameter(holds(slices), requires(place.len() >= 4 * slices))]
pub struct Slices<T, O> {
    /// Position and size of each slice, as in [`Placed`]; aligned to four elements.
    pub place: Global<O>,
    /// Column of each entry.
    pub col: Global<u32>,
    /// Discounted probability of each entry.
    pub prob: Global<T>,
    /// Reward of each action.
    pub reward: Global<T>,
}

/// Decoder of uncompressed columns and probabilities.
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
        (probability, self.v.get(successor))
    }

    #[inline(always)]
    fn reward(&self, element: usize) -> T {
        self.reward.get(element)
    }
}

/// A sweep over slices, from the slice of state `start` on.
///
/// `slices.place` counts from the first element in device memory: if only a part of the model is on the device, from
/// the first element of that part.
///
/// - *Mathematics*: V_new(s) = maxₐ r(s, a) + γ Σ P(s'|s, a) V_old(s').
/// - *Thread mapping*: a block per tile, in a grid-stride loop over tiles; a thread per state of the tile, in a
///   block-stride loop.
/// - *Shared memory*: 32 words, static. *Barriers*: those of [`Sweep::tiles`]. *Deterministic*: yes.
/// - *Valid result in*: `v.new` from `start` on, and the slots of `sweep`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `start` | scalar | multiple of `sweep.tiles.len` |
/// | `slices` | [`Slices`], ⌈S / 32⌉ slices | elements of the slices from `start` on |
/// | `v` | [`Iterates`] | |
/// | `sweep` | [`Sweep`] | `tiles.len` a multiple of 32 |
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        slices.holds(states.div_ceil(SLICE)),
        v.holds(states),
        sweep.holds(states),
        start % sweep.tiles.len == 0,
        sweep.tiles.len % SLICE == 0,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn backup_slices<T: Real, O: Offset>(states: u32, start: u32, slices: Slices<T, O>, v: Iterates<T>, sweep: Sweep) {
    let Slices { place, col, prob, reward } = slices;
    Placed(place).sweep(sweep, start, states, v, Columns { col, prob, reward, v: v.old });
}
