//! The greedy sweep over slices whose entries are small: successors as offsets from their state, probabilities as numbers
//! of a palette.
//!
//! Elements lie as in [`slices`](super::slices). The successor of state s is s + offset, an `i8` or `i16`; the probability
//! is `palette[index]`, of at most 256 different ones, with their discount; so are rewards, `rewards[index]` with indices of
//! 16 bits.
//!
//! *Bytes* per state with A actions of L successors: 2·A·L (`i8`) or 3·A·L (`i16`) for P, 2·A for r, 8 for V in f32.

use warpkov_device::device::{DeviceCopy, Global, Named, Offset, Parameter, Real, kernel};

use super::Sweep;
use super::slices::{Elements, Placed};
use crate::mdp::model::Iterates;

/// A signed integer that says how far a successor is.
pub trait Distance: DeviceCopy + Named {
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

/// Slices of small entries.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `place` | 4 × slices | elements; actions; entries |
/// | `offset` | elements | states |
/// | `prob` | elements | elements of `palette` |
/// | `palette` | ≤ 256 | γ P(s'\|s, a); the first is 0 |
/// | `reward` | elements of rewards | elements of `rewards` |
/// | `rewards` | ≤ 2¹⁶ | r(s, a), −∞ for no action |
#[derive(Clone, Copy, Parameter)]
pub struct NarrowSlices<T, O, I: Distance> {
    /// Where the elements of each slice are, as in [`Placed`].
    pub place: Global<O>,
    /// How far each successor is.
    pub offset: Global<I>,
    /// Number of each entry's probability.
    pub prob: Global<u8>,
    /// Discounted probabilities.
    pub palette: Global<T>,
    /// Number of each action's reward.
    pub reward: Global<u16>,
    /// Rewards.
    pub rewards: Global<T>,
}

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
    slices: NarrowSlices<T, O, I>,
    v: Iterates<T>,
    sweep: Sweep,
) {
    let NarrowSlices { place, offset, prob, palette, reward, rewards } = slices;
    let elements = Small { offset, prob, palette, reward, rewards, v: v.old };
    Placed(place).sweep(sweep, start, states, v, elements);
}
