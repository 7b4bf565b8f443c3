//! The greedy sweep over SELL slices of compressed entries: successors as offsets from their state, probabilities and
//! rewards as palette indices.
//!
//! The elements are ordered as in [`slices`](super::slices). The successor of state s is s + offset, with an offset of
//! type `i8` or `i16`. The probability is `palette[index]`, discount included, with at most 256 different values. The
//! reward is `rewards[index]`, with 16-bit indices.
//!
//! *Bytes* per state with A actions of L successors: 2·A·L (`i8`) or 3·A·L (`i16`) for P, 2·A for r, 8 for V in f32.

use warpkov_device::device::{DeviceCopy, Global, Named, Offset, Parameter, Real, kernel};

use super::Sweep;
use super::slices::{Elements, Placed};
use crate::mdp::model::Iterates;

/// A signed integer: the offset of a successor from its state.
pub trait Distance: DeviceCopy + Named {
    /// Offset 0.
    const ZERO: Self;
    /// The state at this offset from `state`.
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

/// SELL slices of compressed entries.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `place` | 4 × slices | first entry; first reward; actions; row length |
/// | `offset` | elements | states; s + offset is below S |
/// | `prob` | elements | below the length of `palette` |
/// | `palette` | 1 … 256 | γ P(s'\|s, a); the first is 0 |
/// | `reward` | elements of rewards | below the length of `rewards` |
/// | `rewards` | 1 … 2¹⁶ | r(s, a); −∞ for a missing action |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(palette.len() >= 1, rewards.len() >= 1))]
#[parameter(holds(slices), requires(place.len() >= 4 * slices))]
pub struct NarrowSlices<T, O, I: Distance> {
    /// Position and size of each slice, as in [`Placed`]; aligned to four elements.
    pub place: Global<O>,
    /// Offset of each successor from its state.
    pub offset: Global<I>,
    /// Palette index of each probability.
    pub prob: Global<u8>,
    /// Discounted probabilities.
    pub palette: Global<T>,
    /// Palette index of each reward.
    pub reward: Global<u16>,
    /// Rewards.
    pub rewards: Global<T>,
}

/// Decoder of offsets and palette indices.
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
    /// Palette index 0 is the probability 0.
    const NOTHING: (I, u8) = (I::ZERO, 0);

    #[inline(always)]
    fn entry(&self, element: usize) -> (I, u8) {
        (self.offset.get(element), self.prob.get(element))
    }

    #[inline(always)]
    fn term(&self, state: u32, (offset, probability): (I, u8)) -> (T, T) {
        (self.palette.get(probability), self.v.get(offset.from(state)))
    }

    #[inline(always)]
    fn reward(&self, element: usize) -> T {
        self.rewards.get(self.reward.get(element))
    }
}

/// A sweep over slices of compressed entries.
///
/// - *Mathematics*: V_new(s) = maxₐ r(s, a) + γ Σ P(s'|s, a) V_old(s').
/// - *Thread mapping*: as [`backup_slices`](super::slices::backup_slices).
/// - *Shared memory*: 32 words, static. *Barriers*: those of [`Sweep::tiles`]. *Deterministic*: yes.
/// - *Valid result in*: `v.new` from `start` on, and the slots of `sweep`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `start` | scalar | multiple of `sweep.tiles.len` |
/// | `slices` | [`NarrowSlices`], ⌈S / 32⌉ slices | elements of the slices from `start` on |
/// | `v` | [`Iterates`] | |
/// | `sweep` | [`Sweep`] | `tiles.len` a multiple of 32 |
#[kernel(
    T = [f32, f64], O = [u32, u64], I = [i8, i16],
    requires(
        slices.holds(states.div_ceil(super::slices::SLICE)),
        v.holds(states),
        sweep.holds(states),
        start % sweep.tiles.len == 0,
        sweep.tiles.len % super::slices::SLICE == 0,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
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
