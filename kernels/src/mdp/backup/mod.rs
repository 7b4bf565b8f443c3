//! Greedy sweeps (value iteration).
//!
//! *Mathematics*: V_new(s) = maxₐ r(s, a) + γ Σ P(s'|s, a) V_old(s') for every state s with actions; V_new(s) = V_old(s) for
//! a state without actions: 0 for a terminal state, the last value received for a ghost.
//!
//! *Layouts of the model*, from the most general to the most compact:
//! 1. [`rows`]: compressed rows, several lanes per row; for long rows.
//! 2. [`slices`]: SELL (sliced ELLPACK, C = 32), slices of 32 states, one thread per state; for short rows.
//! 3. [`narrow`]: slices with successors as offsets of one or two bytes, and probabilities as one-byte indices into a
//!    palette.
//! 4. [`patterns`]: one pattern number per state, which selects all of its rows; for grids and similar models.
//!
//! *Tiles and early return*, in this file, serve all four layouts. A tile is a range of states; a block processes one
//! tile after another. It skips a tile if no tile that it depends on changed in the previous sweep: the values of the
//! tile would come out bitwise equal. Each sweep of a batch has three slots, for the extremes of its changes and for
//! whether any value changed; all sweeps after one within the bound return at once.

// Indexed loops: an iterator over an array by value would move the array to local memory.
#![allow(clippy::needless_range_loop)]

pub mod narrow;
pub mod patterns;
pub mod rows;
pub mod slices;

use warpkov_device::device::safe::{In, Len, Out};
use warpkov_device::device::{Global, GlobalMut, Parameter, Real, atomic, block, kernel, thread};

use super::change::{key, within};
use super::model::Iterates;

/// Slots per sweep: the greatest increase, the greatest decrease, and whether any value changed; all 0 before the
/// sweep.
pub const SLOTS: usize = 3;

/// A sweep of a batch: its index, the stopping rule, its result slots and its tiles.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `number` | scalar | index in the batch, from 0 |
/// | `stop` | 2 | bound, reward; then 1 (span) or 0 (‖ΔV‖∞) |
/// | `slots` | 3·(`number` + 1) or more | two [`key`]s of rewards, then 0 or 1; 0 before the batch |
/// | `tiles` | [`Tiles`], ⌈states / `tiles.len`⌉ tiles | |
/// | `lag` | scalar | sweeps, ≥ 1 |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(stop.len() >= 2, slots.len() >= SLOTS * (number + 1), lag >= 1))]
#[parameter(holds(states), requires(tiles.holds(states)))]
pub struct Sweep {
    /// Index of the sweep in its batch.
    pub number: u32,
    /// The stopping rule: the bound; then 1 if it applies to the span of the changes, 0 if to their largest magnitude.
    /// It stays in device memory, so that launches of a recorded graph read its present value.
    pub stop: Global<f64>,
    /// [`SLOTS`] per sweep: the [`key`]s of the greatest increase and the greatest decrease, and whether any value
    /// changed.
    pub slots: GlobalMut<u64>,
    /// Tiles of the blocks.
    pub tiles: Tiles,
    /// The sweep stops by the slots of the sweep this many before it: 1, or 2 if ranks combine the slots of a sweep
    /// during the next one.
    pub lag: u32,
}

/// Tiles of states and their dependences.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `len` | scalar | states per tile, ≥ 1 |
/// | `skip` | scalar | 1 or 0 |
/// | `needs_ptr` | tiles + 1 if `skip`; else any length | elements of `needs`, ascending |
/// | `needs` | dependences | tiles |
/// | `changed_old`, `changed_new` | tiles if `skip` | 1 or 0 |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(len >= 1))]
#[parameter(
    holds(states),
    requires(
        if skip > 0 {
            needs_ptr.len() >= states.div_ceil(len) + 1;
            changed_old.len() >= states.div_ceil(len);
            changed_new.len() >= states.div_ceil(len)
        },
    )
)]
pub struct Tiles {
    /// States per tile.
    pub len: u32,
    /// Whether to skip tiles that cannot change.
    pub skip: u32,
    /// Tile t depends on the tiles `needs[needs_ptr[t]..needs_ptr[t + 1]]`, t itself included; not read unless `skip`.
    pub needs_ptr: Global<u32>,
    /// Dependences; see `needs_ptr`.
    pub needs: Global<u32>,
    /// Whether each tile changed in the previous sweep.
    pub changed_old: Global<u32>,
    /// Whether each tile changes in this sweep.
    pub changed_new: GlobalMut<u32>,
}

impl Sweep {
    /// Whether the sweep `lag` before this one met the stopping rule or changed no value, or the previous sweep returned
    /// at once.
    #[inline(always)]
    #[must_use]
    pub fn is_done(&self) -> bool {
        // A sweep that returned at once left its slots at 0, which is no key.
        if self.lag > 1 && self.number > 0 && self.slots.get((self.number as usize - 1) * SLOTS) == 0 {
            return true;
        }
        if self.number < self.lag {
            return false;
        }
        // Slots of 0 stand for no change.
        let slot = ((self.number - self.lag) as usize) * SLOTS;
        let (bound, span) = (self.stop.get(0), u32::from(self.stop.get(1) > 0.0));
        within(self.slots.get(slot), self.slots.get(slot + 1), span, bound) || self.slots.get(slot + 2) == 0
    }

    /// Runs `each` on every tile of the states `start` to `states` − 1 that may change; a tile begins at `start`. `each`
    /// gets the first state of the tile and the first state behind it, and returns the change of the states of its thread.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: two per tile if `skip`, and those of three reductions.
    #[inline(always)]
    pub fn tiles<T: Real>(&self, start: u32, states: u32, mut each: impl FnMut(u32, u32) -> Change<T>) {
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
                let (mut i, end) = (self.tiles.needs_ptr.get(tile), self.tiles.needs_ptr.get(tile as usize + 1));
                i += thread::thread_idx_x();
                while i < end {
                    any |= self.tiles.changed_old.get(self.tiles.needs.get(i)) > 0;
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
                    self.tiles.changed_new.set(tile, u32::from(any));
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

/// Change of the values of some states.
#[derive(Clone, Copy)]
pub struct Change<T: Real> {
    /// The greatest V_new − V_old.
    pub greatest: T,
    /// The greatest V_old − V_new.
    pub fall: T,
    /// Whether any value differs from before.
    pub any: bool,
}

impl<T: Real> Change<T> {
    /// Change of the empty set of states.
    pub const NONE: Self = Self { greatest: T::NEG_INFINITY, fall: T::NEG_INFINITY, any: false };

    /// Change of states that keep their values.
    pub const STILL: Self = Self { greatest: T::ZERO, fall: T::ZERO, any: false };

    /// Change of the union of two sets of states.
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
    /// Writes the value of a state whose best Q-factor is `best`; −∞ stands for a state without actions.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn update(&self, state: u32, best: T) -> Change<T> {
        let old = self.old.get(state);
        if best > T::NEG_INFINITY {
            self.new.set(state, best);
            let change = best - old;
            Change { greatest: change, fall: -change, any: best != old }
        } else if is_nan(best) {
            // NaN counts as an infinite change, so that no sweep takes it for convergence.
            self.new.set(state, best);
            Change { greatest: -T::NEG_INFINITY, fall: -T::NEG_INFINITY, any: true }
        } else {
            self.new.set(state, old);
            Change::NONE
        }
    }
}

/// The larger of `best` and `q`; NaN if either is NaN.
#[inline(always)]
#[must_use]
pub fn greater<T: Real>(best: T, q: T) -> T {
    if q > best || is_nan(q) { q } else { best }
}

#[inline(always)]
#[allow(clippy::eq_op, reason = "NaN is the only number that differs from itself")]
fn is_nan<T: Real>(x: T) -> bool {
    x != x
}

/// Converts V to another precision.
///
/// - *Mathematics*: `target[s]` = `source[s]`, rounded to U.
/// - *Thread mapping*: one thread per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `target`.
#[kernel(safe, T = [f32, f64], U = [f32, f64], requires(shape.threads >= states))]
pub fn convert<'s, T: Real, U: Real>(states: Len<'s>, source: In<'s, T>, target: Out<'s, U>) {
    if let Some(s) = states.element() {
        target.set(&s, U::from_f64(source.get(&s).to_f64()));
    }
}
