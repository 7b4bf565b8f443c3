//! Greedy sweeps: V_new(s) = maxₐ r(s, a) + γ Σ P(s'|s, a) V_old(s'), for every state s that has an action; 0 for others.
//!
//! *The layouts of the model*, from the general to the special:
//! 1. [`rows`]: compressed rows, several lanes per row; for long rows.
//! 2. [`slices`]: slices of 32 states, one thread per state; for short rows.
//! 3. [`narrow`]: the same, with successors as offsets of one or two bytes and probabilities as one byte into a palette.
//! 4. [`patterns`]: one number per state, which says what all of its rows look like; for grids and their like.
//!
//! *What they share* is here. States come in tiles; a block takes one tile after the other, and passes over those whose
//! successors have not changed in the last sweep: what depends on nothing new does not change, bit for bit.
//! Every sweep of a batch has three slots, where it leaves the extremes of its changes and whether it changed anything;
//! the sweeps after one that was good enough return at once.

// By index: an iterator over an array by value would put the array to local memory.
#![allow(clippy::needless_range_loop)]

pub mod narrow;
pub mod patterns;
pub mod rows;
pub mod slices;

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, atomic, block, kernel, thread};

use super::change::{key, within};
use super::model::Iterates;

/// Slots of a sweep: the greatest change, the greatest fall, and whether any value changed; each 0 before the sweep.
pub const SLOTS: usize = 3;

/// A sweep of a batch: when and where it has to do anything, and what it leaves.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `number` | 1 | sweeps of the batch |
/// | `stop` | 2 | reward, and 1 for a bound on the span or 0 |
/// | `slots` | 3 × sweeps | [`key`]s of rewards; any change |
/// | `tiles` | states / `tiles.len` | |
#[derive(Clone, Copy, Parameter)]
pub struct Sweep {
    /// Number of the sweep in its batch.
    pub number: u32,
    /// Sweeps after one that met this return at once: the bound, and 1 where it is one on the span of changes, 0 where on
    /// the largest. In memory, so that recorded launches read what it is by then.
    pub stop: Global<f64>,
    /// [`SLOTS`] per sweep: the [`key`]s of the greatest change and the greatest fall, and whether anything changed.
    pub slots: GlobalMut<u64>,
    /// What a block takes at a time.
    pub tiles: Tiles,
}

/// Tiles of states, and which of them depend on which.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `len` | 1 | states |
/// | `skip` | 1 | 1 or 0 |
/// | `needs_ptr` | tiles + 1, or not read | elements of `needs` |
/// | `needs` | dependencies | tiles |
/// | `changed_old`, `changed_new` | tiles | 1 or 0 |
#[derive(Clone, Copy, Parameter)]
pub struct Tiles {
    /// States of a tile.
    pub len: u32,
    /// Whether to pass over tiles that cannot change.
    pub skip: u32,
    /// Tile t depends on tiles `needs[needs_ptr[t]..needs_ptr[t + 1]]`, itself among them; not read unless `skip`.
    pub needs_ptr: Global<u32>,
    /// See `needs_ptr`.
    pub needs: Global<u32>,
    /// Whether each tile changed in the last sweep.
    pub changed_old: Global<u32>,
    /// Whether each tile changes in this one.
    pub changed_new: GlobalMut<u32>,
}

impl Sweep {
    /// Whether an earlier sweep of the batch was good enough.
    #[inline(always)]
    #[must_use]
    pub fn is_done(&self) -> bool {
        if self.number == 0 {
            return false;
        }
        let slot = (self.number as usize - 1) * SLOTS;
        // A sweep that returned at once left its slots at 0, which say that nothing changed.
        let (bound, span) = (self.stop.get(0), u32::from(self.stop.get(1) > 0.0));
        within(self.slots.get(slot), self.slots.get(slot + 1), span, bound) || self.slots.get(slot + 2) == 0
    }

    /// Runs `each` on every tile that may change: it returns what its thread's states did.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: two per tile if `skip`, and those of three reductions.
    #[inline(always)]
    pub fn tiles<T: Real>(&self, states: u32, each: impl FnMut(u32, u32) -> Change<T>) {
        self.tiles_from(0, states, each);
    }

    /// The same for the tiles of states `start` to `states` − 1; `start` begins a tile.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: two per tile if `skip`, and those of three reductions.
    #[inline(always)]
    pub fn tiles_from<T: Real>(&self, start: u32, states: u32, mut each: impl FnMut(u32, u32) -> Change<T>) {
        if self.is_done() {
            return;
        }
        let mut all = Change::NONE;
        let mut first = start + thread::block_idx_x() * self.tiles.len;
        let mut tile = start / self.tiles.len + thread::block_idx_x();
        while first < states {
            let mut active = true;
            if self.tiles.skip > 0 {
                let mut any = false;
                let (mut i, end) =
                    (self.tiles.needs_ptr.get(tile as usize), self.tiles.needs_ptr.get(tile as usize + 1));
                i += thread::thread_idx_x();
                while i < end {
                    any |= self.tiles.changed_old.get(self.tiles.needs.get(i as usize) as usize) > 0;
                    i += thread::block_dim_x();
                }
                active = thread::sync_threads_or(any);
            }
            let mut change = Change::STILL;
            if active {
                change = each(first, (states - first).min(self.tiles.len) + first);
            }
            all = all.and(change);
            if self.tiles.skip > 0 {
                let any = thread::sync_threads_or(change.any);
                if thread::thread_idx_x() == 0 {
                    self.tiles.changed_new.set(tile as usize, u32::from(any));
                }
            }
            tile += thread::grid_dim_x();
            first = first.saturating_add(thread::grid_dim_x() * self.tiles.len);
        }
        let greatest = block::reduce(all.greatest.to_f64(), f64::NEG_INFINITY, f64::max);
        let fall = block::reduce(all.fall.to_f64(), f64::NEG_INFINITY, f64::max);
        let any = thread::sync_threads_or(all.any);
        if thread::thread_idx_x() == 0 {
            let slot = self.number as usize * SLOTS;
            atomic::max((self.slots, slot), key(greatest));
            atomic::max((self.slots, slot + 1), key(fall));
            if any {
                atomic::max((self.slots, slot + 2), 1u64);
            }
        }
    }
}

/// How the values of some states changed.
#[derive(Clone, Copy)]
pub struct Change<T: Real> {
    /// The greatest V_new − V_old.
    pub greatest: T,
    /// The greatest V_old − V_new.
    pub fall: T,
    /// Whether any value is another than before.
    pub any: bool,
}

impl<T: Real> Change<T> {
    /// Of no state.
    pub const NONE: Self = Self { greatest: T::NEG_INFINITY, fall: T::NEG_INFINITY, any: false };

    /// Of states that stay as they are.
    pub const STILL: Self = Self { greatest: T::ZERO, fall: T::ZERO, any: false };

    /// Of both.
    #[inline(always)]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            greatest: self.greatest.max(other.greatest),
            fall: self.fall.max(other.fall),
            any: self.any || other.any,
        }
    }
}

impl<T: Real> Iterates<T> {
    /// Writes the value of a state whose best Q-factor is `best`; −∞ where it has no action.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn update(&self, state: u32, best: T) -> Change<T> {
        let old = self.old.get(state as usize);
        if best > T::NEG_INFINITY {
            self.new.set(state as usize, best);
            let change = best - old;
            Change { greatest: change, fall: -change, any: best != old }
        } else if is_nan(best) {
            // Not a number: a change, so that nobody takes it for an end.
            self.new.set(state as usize, best);
            Change { greatest: -T::NEG_INFINITY, fall: -T::NEG_INFINITY, any: true }
        } else {
            self.new.set(state as usize, T::ZERO);
            Change { any: old != T::ZERO, ..Change::NONE }
        }
    }
}

/// The larger of `best` and `q`; not a number where either is none.
#[inline(always)]
#[must_use]
pub fn greater<T: Real>(best: T, q: T) -> T {
    if q > best || is_nan(q) { q } else { best }
}

#[inline(always)]
#[allow(clippy::eq_op, reason = "what is not a number is the only one that differs from itself")]
fn is_nan<T: Real>(x: T) -> bool {
    x != x
}

/// V in another precision.
///
/// *Thread mapping*: one thread per state. *Safety*: both vectors have `states` elements.
#[kernel(T = [f32, f64], U = [f32, f64])]
pub fn convert<T: Real, U: Real>(states: u32, source: Global<T>, target: GlobalMut<U>) {
    let state = thread::index_1d() as usize;
    if state < states as usize {
        target.set(state, U::from_f64(source.get(state).to_f64()));
    }
}
