//! The greedy sweep over slices whose entries are small: successors as offsets from their state, probabilities as numbers
//! of a palette.
//!
//! Elements lie as in [`slices`](super::slices). The successor of state s is s + offset, an `i8` or `i16`; the probability
//! is `palette[index]`, of at most 256 different ones, with their discount; so are rewards, `rewards[index]` with indices of
//! 16 bits.
//!
//! *Bytes* per state with A actions of L successors: 2·A·L (`i8`) or 3·A·L (`i16`) for P, 2·A for r, 8 for V in f32.

use crate::device::{Global, GlobalMut, Named, Offset, Plain, Real, kernel};

use super::slices::{Elements, Slices};
use super::{Control, Values};

/// A signed integer that says how far a successor is.
pub trait Distance: Plain + Named {
    /// No distance.
    const ZERO: Self;
    /// The state that is so far from `state`.
    fn from(self, state: u32) -> usize;
}

macro_rules! distances {
    ($($ty:ty)*) => {$(
        impl Distance for $ty {
            const ZERO: Self = 0;
            #[inline(always)]
            fn from(self, state: u32) -> usize {
                state.wrapping_add_signed(i32::from(self)) as usize
            }
        }
    )*};
}
distances!(i8 i16);

/// Offsets and indices into palettes.
#[derive(Clone, Copy)]
struct Small<T: Real, I: Distance> {
    offset: Global<I>,
    prob: Global<u8>,
    palette: Global<T>,
    reward: Global<u16>,
    rewards: Global<T>,
    v: Global<T>,
}

impl<T: Real, I: Distance> Elements<T> for Small<T, I> {
    type Entry = (I, u8);
    /// Number 0 of the palette is the probability 0.
    const NOTHING: (I, u8) = (I::ZERO, 0);

    #[inline(always)]
    fn entry(&self, element: usize) -> (I, u8) {
        (self.offset.get(element), self.prob.get(element))
    }

    #[inline(always)]
    fn term(&self, state: u32, (offset, probability): (I, u8)) -> (T, T) {
        (self.palette.get(probability as usize), self.v.get(offset.from(state)))
    }

    #[inline(always)]
    fn reward(&self, element: usize) -> T {
        self.rewards.get(self.reward.get(element) as usize)
    }
}

/// A sweep over slices of small entries.
///
/// *Thread mapping* and *Safety*: as [`backup_slices`](super::slices::backup_slices); palette indices are in their palettes.
#[kernel(T = [f32, f64], O = [u32, u64], I = [i8, i16])]
pub fn backup_narrow<T: Real, O: Offset, I: Distance>(
    states: u32,
    start: u32,
    place: Global<O>,
    offset: Global<I>,
    prob: Global<u8>,
    palette: Global<T>,
    reward: Global<u16>,
    rewards: Global<T>,
    v_old: Global<T>,
    v_new: GlobalMut<T>,
    sweep: u32,
    stop: Global<f64>,
    slots: GlobalMut<u64>,
    tile: u32,
    skip: u32,
    needs_ptr: Global<u32>,
    needs: Global<u32>,
    changed_old: Global<u32>,
    changed_new: GlobalMut<u32>,
) {
    let control = Control { sweep, stop, slots, tile, skip, needs_ptr, needs, changed_old, changed_new };
    let (slices, values) = (Slices(place), Values { old: v_old, new: v_new });
    let elements = Small { offset, prob, palette, reward, rewards, v: v_old };
    slices.sweep(control, start, states, values, elements);
}
