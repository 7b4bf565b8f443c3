//! Models as Rust code: P(s'|s, a) and R are a function, and only V and π are in memory.
//!
//! A model is a type that implements [`Model`], or [`Events`] if the same random variable drives all its transitions.
//! [`model!`](crate::model) compiles the kernels of this file for it, in the crate that owns the type:
//!
//! ```
//! use warpkov_device::device::Parameter;
//! use warpkov_kernels::mdp::Model;
//!
//! /// A machine that wears out: state 0 is new, the last state is broken.
//! #[derive(Clone, Copy, Parameter)]
//! pub struct Machine {
//!     /// S, the number of conditions.
//!     pub conditions: u64,
//!     /// Probability that the condition gets worse in a period.
//!     pub wear: f64,
//! }
//!
//! impl Model for Machine {
//!     fn gamma(&self) -> f64 {
//!         0.95
//!     }
//!     fn states(&self) -> u64 {
//!         self.conditions
//!     }
//!     fn actions(&self, _state: u64) -> u32 {
//!         2
//!     }
//!     fn outcomes(&self, state: u64, action: u32, mut each: impl FnMut(u64, f64, f64)) {
//!         let worst = self.conditions - 1;
//!         match action {
//!             // Replace the machine.
//!             1 => each(0, 1.0, -50.0),
//!             // Keep it: it earns less, the worse it is.
//!             _ => {
//!                 let profit = 10.0 * (worst - state) as f64 / worst as f64;
//!                 each(state, 1.0 - self.wear, profit);
//!                 each((state + 1).min(worst), self.wear, profit);
//!             }
//!         }
//!     }
//! }
//!
//! warpkov_kernels::model!(Machine);
//! # fn main() {}
//! ```
//!
//! All kernels take V over the states `0..S`, and back up the states `first..first + count`: those of one of several
//! devices. A model is trusted with nothing: a successor outside of the model gives V(s') = NaN, which no sweep takes
//! for convergence, and [`Part::measure`] finds the state.

#[cfg(not(target_arch = "nvptx64"))]
use core::ops::Range;

#[cfg(not(target_arch = "nvptx64"))]
use warpkov_device::launch::{Device, Shape};

use warpkov_device::device::{Global, GlobalMut, Real, Scalars, atomic, block, math, thread, warp};

use super::backup::Change;
use super::change::{key, within};

mod model;
mod sums;

pub use model::{DeviceTable, END, Events, Model, Outcomes, Table};
pub use sums::{MEASURED, Measured, SUM_TOLERANCE, Sums, TILE, Tile, examine, fits};

/// Slots per sweep: the [`key`]s of the greatest increase and the greatest decrease of V, and whether any value changed;
/// all 0 before the sweep.
pub use super::backup::SLOTS;

/// The states that a launch backs up, of a model with its table.
#[derive(Clone, Copy)]
pub struct Part<M> {
    /// The model.
    pub model: M,
    /// Its table.
    pub table: DeviceTable,
    /// The first state.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl<M: Outcomes> Part<M> {
    /// Calls `each` for the states, `LANES` lanes of a warp together (1 or 32), in a grid-stride loop.
    ///
    /// *Takes part*: every thread of the block, in whole warps.
    #[inline(always)]
    fn states<const LANES: u32>(&self, mut each: impl FnMut(u64)) {
        let stride = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x()) / u64::from(LANES);
        let mut at = thread::index_1d() / u64::from(LANES);
        while at < self.count {
            each(self.first + at);
            at += stride;
        }
    }

    /// A greedy sweep: the body of kernel `NAME_sweep`.
    ///
    /// - *Mathematics*: V_new(s) = maxₐ Σ p·(r + γ V_old(s')) over the outcomes of (s, a); V_old(s) without actions.
    /// - *Thread mapping*: `LANES` lanes per state, which share the actions, in a grid-stride loop over states.
    /// - *Shared memory*: 32 words, static. *Barriers*: eight. *Deterministic*: yes.
    /// - *Valid result in*: `new` from `first` to `first + count`, and slots 3·`number` and the next two.
    ///
    /// It returns at once if the sweep before met the stopping rule, or changed nothing: as in [`super::backup`].
    ///
    /// *Safety*: `old` and `new` have S elements and do not overlap, `slots` has 3·(`number` + 1), `stop` has 2 elements;
    /// the states of this part are below S. *Launch*: any grid; blocks of whole warps; no dynamic shared memory.
    #[inline(always)]
    pub fn sweep<T: Real, const LANES: u32>(
        &self,
        old: Global<T>,
        new: GlobalMut<T>,
        stop: Global<f64>,
        slots: GlobalMut<u64>,
        number: u32,
    ) {
        if number > 0 {
            let before = (number as usize - 1) * SLOTS;
            let (bound, span) = (stop.get(0), u32::from(stop.get(1) > 0.0));
            if slots.get(before + 2) == 0 || within(slots.get(before), slots.get(before + 1), span, bound) {
                return;
            }
        }
        let mut all = Change::<f64>::NONE;
        self.states::<LANES>(|state| {
            let value = |next: u64| old.get(next).to_f64();
            let (best, ..) = examine::<M, LANES, false>(&self.model, &self.table, state, value, math::fma);
            if LANES == 1 || warp::lane_id() == 0 {
                all = all.and(update(state, best, old, new));
            }
        });
        let greatest = block::reduce(all.greatest, f64::NEG_INFINITY, f64::max);
        let fall = block::reduce(all.fall, f64::NEG_INFINITY, f64::max);
        let any = thread::sync_threads_or(all.any);
        if thread::thread_idx_x() == 0 {
            let slot = number as usize * SLOTS;
            atomic::max((slots, slot), key(greatest));
            atomic::max((slots, slot + 1), key(fall));
            if any {
                atomic::max((slots, slot + 2), 1u64);
            }
        }
    }

    /// Measures V for a certificate, and writes the greedy policy: the body of kernel `NAME_measure`.
    ///
    /// - *Mathematics*: the extremes over the states that [`Measured`] lists, and π(s) = argmaxₐ Q(s, a).
    /// - *Thread mapping*: `LANES` lanes per state, which share the actions, in a grid-stride loop over states.
    /// - *Shared memory*: 32 words, static. *Barriers*: two for each slot. *Deterministic*: yes.
    /// - *Valid result in*: `found`, and `policy` from element 0 to `count`.
    ///
    /// *Safety*: `v` has S elements, `policy` has `count`, `found` has [`MEASURED`], all 0. *Launch*: any grid; blocks of
    /// whole warps; no dynamic shared memory.
    #[inline(always)]
    pub fn measure<T: Real, const LANES: u32>(&self, v: Global<T>, policy: GlobalMut<u32>, found: GlobalMut<u64>) {
        let mut all = Measured::NONE;
        self.states::<LANES>(|state| {
            let value = |next: u64| v.get(next).to_f64();
            let (_, action, here) = examine::<M, LANES, true>(&self.model, &self.table, state, value, math::fma);
            all = all.and(here);
            if LANES == 1 || warp::lane_id() == 0 {
                policy.set(state - self.first, action);
            }
        });
        all.each_slot(|slot, value| {
            let greatest = block::reduce(value, 0, |a: u64, b| a.max(b));
            if thread::thread_idx_x() == 0 {
                atomic::max((found, slot), greatest);
            }
        });
    }
}

/// Writes the value of a state whose best Q-factor is `best`.
#[inline(always)]
fn update<T: Real>(state: u64, best: f64, old: Global<T>, new: GlobalMut<T>) -> Change<f64> {
    let before = old.get(state);
    if best == f64::NEG_INFINITY {
        new.set(state, before);
        return Change::NONE;
    }
    let after = T::from_f64(best);
    new.set(state, after);
    change(before.to_f64(), after.to_f64())
}

/// The change of one value; infinite if it is NaN, so that no sweep takes it for convergence.
#[inline(always)]
#[must_use]
pub fn change(before: f64, after: f64) -> Change<f64> {
    let by = after - before;
    let infinite = by.is_nan();
    let size = |by: f64| if infinite { f64::INFINITY } else { by };
    Change { greatest: size(by), fall: size(-by), any: infinite || after != before }
}

/// The bit beside the number of sweeps in `found` of [`Many`] which says that the rule was met.
pub const MET: u32 = 32;

/// Models of one type, solved by one block each: the arguments of kernel `NAME_many`.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `words` | models × [`WORDS`](Scalars::WORDS) | the models |
/// | `tables` | sum of the lengths of the tables | |
/// | `table_ptr` | models + 1 | elements of `tables` |
/// | `state_ptr` | models + 1 | states of each model, in `policy`; twice that in `v` |
/// | `bounds` | models | ε-rule of each model, as ‖ΔV‖∞ |
/// | `v` | 2 × states | reward; the first half of each model's elements is V before and after |
/// | `policy` | states | |
/// | `found` | models × ([`MEASURED`] + 1) | slots, then sweeps, and bit [`MET`] if the rule is met |
/// | `max_sweeps` | models | 0 for a model that is done |
#[derive(Clone, Copy)]
pub struct Many {
    /// The words of all models.
    pub words: Global<u64>,
    /// The tables of all models.
    pub tables: Global<f64>,
    /// The table of model m is `tables[table_ptr[m]..table_ptr[m + 1]]`.
    pub table_ptr: Global<u64>,
    /// The states of model m are `state_ptr[m]..state_ptr[m + 1]`.
    pub state_ptr: Global<u64>,
    /// Of a model that never ends, sweeps stop at a span of twice the bound.
    pub bounds: Global<f64>,
    /// V.
    pub v: GlobalMut<f64>,
    /// π.
    pub policy: GlobalMut<u32>,
    /// What a certificate needs, and the number of sweeps.
    pub found: GlobalMut<u64>,
    /// Maximum number of sweeps of each model.
    pub max_sweeps: Global<u32>,
}

impl Many {
    /// Solves the block's model by greedy sweeps, and measures V: the body of kernel `NAME_many`.
    ///
    /// - *Mathematics*: V ← TV until the rule is met, V does not change, or after `max_sweeps` sweeps; then [`Measured`]
    ///   and the greedy policy of V.
    /// - *Thread mapping*: a block per model, a thread per state in a block-stride loop.
    /// - *Shared memory*: 32 words, static. *Barriers*: five per sweep, and those of the measurement. *Deterministic*: yes.
    /// - *Valid result in*: the first half of each model's part of `v`, `policy` and `found`.
    ///
    /// *Safety*: the shapes above. *Launch*: a block per model; whole warps; no dynamic shared memory.
    #[inline(always)]
    pub fn solve<M: Outcomes + Scalars>(&self) {
        let number = thread::block_idx_x() as usize;
        let (bound, max_sweeps) = (self.bounds.get(number), self.max_sweeps.get(number));
        if max_sweeps == 0 {
            return;
        }
        let mut word = number * M::WORDS;
        let model = M::of_words(&mut || {
            word += 1;
            self.words.get(word - 1)
        });
        let (from, to) = (self.table_ptr.get(number), self.table_ptr.get(number + 1));
        let table = DeviceTable { numbers: self.tables.skip(from), len: to - from };
        let (first, states) = (self.state_ptr.get(number), self.state_ptr.get(number + 1) - self.state_ptr.get(number));
        let threads = u64::from(thread::block_dim_x());
        let own = u64::from(thread::thread_idx_x());
        let (mut old, mut new) = (2 * first, 2 * first + states);

        let mut ends = false;
        let mut state = own;
        while state < states {
            ends |= examine::<M, 1, true>(&model, &table, state, |_| 0.0, math::fma).2.ends;
            state += threads;
        }
        let ends = thread::sync_threads_or(ends);

        let mut sweep = 0;
        let met = loop {
            let mut all = Change::<f64>::NONE;
            let mut state = own;
            while state < states {
                let value = |next: u64| self.v.get(old + next);
                let (best, ..) = examine::<M, 1, false>(&model, &table, state, value, math::fma);
                let before = self.v.get(old + state);
                if best == f64::NEG_INFINITY {
                    self.v.set(new + state, before);
                } else {
                    self.v.set(new + state, best);
                    all = all.and(change(before, best));
                }
                state += threads;
            }
            let greatest = block::reduce(all.greatest, f64::NEG_INFINITY, f64::max);
            let fall = block::reduce(all.fall, f64::NEG_INFINITY, f64::max);
            let size = if ends { greatest.max(fall) } else { (greatest + fall) / 2.0 };
            sweep += 1;
            let met = size < bound || greatest.max(fall) <= 0.0;
            // The reduction is valid in the first warp: thread 0 decides for the block.
            let done = thread::sync_threads_or(thread::thread_idx_x() == 0 && (met || sweep == max_sweeps));
            (old, new) = (new, old);
            if done {
                break met;
            }
        };
        if old != 2 * first {
            let mut state = own;
            while state < states {
                self.v.set(new + state, self.v.get(old + state));
                state += threads;
            }
        }
        thread::sync_threads();
        let mut all = Measured::NONE;
        let mut state = own;
        while state < states {
            let value = |next: u64| self.v.get(2 * first + next);
            let (_, action, here) = examine::<M, 1, true>(&model, &table, state, value, math::fma);
            all = all.and(here);
            self.policy.set(first + state, action);
            state += threads;
        }
        all.each_slot(|slot, value| {
            let greatest = block::reduce(value, 0, |a: u64, b| a.max(b));
            if thread::thread_idx_x() == 0 {
                self.found.set(number * (MEASURED + 1) + slot, greatest);
            }
        });
        if thread::thread_idx_x() == 0 {
            self.found.set(number * (MEASURED + 1) + MEASURED, u64::from(sweep) | u64::from(met) << MET);
        }
    }
}

/// A model of which a block solves each: the launcher that [`many!`](crate::many) implements.
#[cfg(not(target_arch = "nvptx64"))]
pub trait Blocks: Outcomes + Scalars + Send + Sync + 'static {
    /// Launches [`Many::solve`].
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As for [`Device::launch`].
    unsafe fn many<D: Device>(device: &D, shape: Shape, launch: ManyLaunch<'_, D>) -> Result<(), D::Error>;
}

/// A model whose kernels are compiled: the launchers that [`model!`](crate::model) implements.
#[cfg(not(target_arch = "nvptx64"))]
pub trait Compiled: Blocks {
    /// Launches [`Part::sweep`]. `LANES` is 1 or 32.
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As for [`Device::launch`].
    unsafe fn sweep<T: Real, const LANES: u32, D: Device>(
        self,
        device: &D,
        shape: Shape,
        launch: SweepLaunch<'_, T, D>,
    ) -> Result<(), D::Error>;

    /// Launches [`Part::measure`]. `LANES` is 1 or 32.
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As for [`Device::launch`].
    unsafe fn measure<T: Real, const LANES: u32, D: Device>(
        self,
        device: &D,
        shape: Shape,
        launch: MeasureLaunch<'_, T, D>,
    ) -> Result<(), D::Error>;
}

/// The arguments of [`Part::sweep`].
#[cfg(not(target_arch = "nvptx64"))]
#[allow(missing_docs, reason = "the fields are those of the kernel's body")]
pub struct SweepLaunch<'a, T: Real, D: Device> {
    pub table: &'a D::Buffer<f64>,
    pub states: Range<u64>,
    pub old: &'a D::Buffer<T>,
    pub new: &'a mut D::Buffer<T>,
    pub stop: &'a D::Buffer<f64>,
    pub slots: &'a mut D::Buffer<u64>,
    pub number: u32,
}

/// The arguments of [`Part::measure`].
#[cfg(not(target_arch = "nvptx64"))]
#[allow(missing_docs, reason = "the fields are those of the kernel's body")]
pub struct MeasureLaunch<'a, T: Real, D: Device> {
    pub table: &'a D::Buffer<f64>,
    pub states: Range<u64>,
    pub v: &'a D::Buffer<T>,
    pub policy: &'a mut D::Buffer<u32>,
    pub found: &'a mut D::Buffer<u64>,
}

/// The arguments of [`Many::solve`].
#[cfg(not(target_arch = "nvptx64"))]
#[allow(missing_docs, reason = "the fields are those of the kernel's body")]
pub struct ManyLaunch<'a, D: Device> {
    pub words: &'a D::Buffer<u64>,
    pub tables: &'a D::Buffer<f64>,
    pub table_ptr: &'a D::Buffer<u64>,
    pub state_ptr: &'a D::Buffer<u64>,
    pub bounds: &'a D::Buffer<f64>,
    pub v: &'a mut D::Buffer<f64>,
    pub policy: &'a mut D::Buffer<u32>,
    pub found: &'a mut D::Buffer<u64>,
    pub max_sweeps: &'a D::Buffer<u32>,
}

/// Compiles the kernels of this model: `model!(Forest);` in the module of the kernels, beside the type, which implements
/// [`Model`] and derives `Clone`, `Copy` and `Parameter`.
///
/// It defines the kernels `forest_sweep`, `forest_measure` and `forest_many`, and implements [`Compiled`].
#[macro_export]
macro_rules! model {
    ($model:ident) => {
        ::warpkov_device::device::__with_prefix! { $model
            /// A greedy sweep: see `warpkov_kernels::mdp::matrix_free`.
            ///
            /// # Safety
            /// As for the function of the same name in that module.
            #[::warpkov_device::device::kernel(
                T = [f32, f64], LANES = [1, 32],
                requires(
                    table.len() >= table_len,
                    first + count <= $crate::mdp::matrix_free::Outcomes::states(&model),
                    old.len() >= $crate::mdp::matrix_free::Outcomes::states(&model),
                    new.len() >= $crate::mdp::matrix_free::Outcomes::states(&model),
                    stop.len() >= 2,
                    slots.len() >= $crate::mdp::matrix_free::SLOTS * (number + 1),
                    shape.block % 32 == 0,
                    shape.dimensions == 1,
                )
            )]
            pub fn PREFIX_sweep<T: ::warpkov_device::device::Real, const LANES: u32>(
                model: $model,
                table: ::warpkov_device::device::Global<f64>,
                table_len: u64,
                first: u64,
                count: u64,
                old: ::warpkov_device::device::Global<T>,
                new: ::warpkov_device::device::GlobalMut<T>,
                stop: ::warpkov_device::device::Global<f64>,
                slots: ::warpkov_device::device::GlobalMut<u64>,
                number: u32,
            ) {
                let table = $crate::mdp::matrix_free::DeviceTable { numbers: table, len: table_len };
                let part = $crate::mdp::matrix_free::Part { model, table, first, count };
                part.sweep::<T, LANES>(old, new, stop, slots, number);
            }

            /// Measures V for a certificate: see `warpkov_kernels::mdp::matrix_free`.
            ///
            /// # Safety
            /// As for the function of the same name in that module.
            #[::warpkov_device::device::kernel(
                T = [f32, f64], LANES = [1, 32],
                requires(
                    table.len() >= table_len,
                    first + count <= $crate::mdp::matrix_free::Outcomes::states(&model),
                    v.len() >= $crate::mdp::matrix_free::Outcomes::states(&model),
                    policy.len() >= count,
                    found.len() >= $crate::mdp::matrix_free::MEASURED,
                    shape.block % 32 == 0,
                    shape.dimensions == 1,
                )
            )]
            pub fn PREFIX_measure<T: ::warpkov_device::device::Real, const LANES: u32>(
                model: $model,
                table: ::warpkov_device::device::Global<f64>,
                table_len: u64,
                first: u64,
                count: u64,
                v: ::warpkov_device::device::Global<T>,
                policy: ::warpkov_device::device::GlobalMut<u32>,
                found: ::warpkov_device::device::GlobalMut<u64>,
            ) {
                let table = $crate::mdp::matrix_free::DeviceTable { numbers: table, len: table_len };
                let part = $crate::mdp::matrix_free::Part { model, table, first, count };
                part.measure::<T, LANES>(v, policy, found);
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::mdp::matrix_free::Compiled for $model {
                unsafe fn sweep<
                    T: ::warpkov_device::device::Real,
                    const LANES: u32,
                    D: ::warpkov_device::launch::Device,
                >(
                    self,
                    device: &D,
                    shape: ::warpkov_device::launch::Shape,
                    launch: $crate::mdp::matrix_free::SweepLaunch<'_, T, D>,
                ) -> ::core::result::Result<(), D::Error> {
                    let $crate::mdp::matrix_free::SweepLaunch { table, states, old, new, stop, slots, number } = launch;
                    let len = ::warpkov_device::launch::Buffer::len(table) as u64;
                    let (first, count) = (states.start, states.end - states.start);
                    // SAFETY: the caller's promise.
                    unsafe {
                        PREFIX_sweep::<T, LANES, D>(
                            device, shape, self, table, len, first, count, old, new, stop, slots, number,
                        )
                    }
                }

                unsafe fn measure<
                    T: ::warpkov_device::device::Real,
                    const LANES: u32,
                    D: ::warpkov_device::launch::Device,
                >(
                    self,
                    device: &D,
                    shape: ::warpkov_device::launch::Shape,
                    launch: $crate::mdp::matrix_free::MeasureLaunch<'_, T, D>,
                ) -> ::core::result::Result<(), D::Error> {
                    let $crate::mdp::matrix_free::MeasureLaunch { table, states, v, policy, found } = launch;
                    let len = ::warpkov_device::launch::Buffer::len(table) as u64;
                    let (first, count) = (states.start, states.end - states.start);
                    // SAFETY: the caller's promise.
                    unsafe {
                        PREFIX_measure::<T, LANES, D>(device, shape, self, table, len, first, count, v, policy, found)
                    }
                }
            }
        }

        $crate::many!($model);
    };
}

/// Compiles the kernel by which a block solves each of many models: a part of [`model!`](crate::model).
#[macro_export]
macro_rules! many {
    ($model:ident) => {
        ::warpkov_device::device::__with_prefix! { $model
            /// Solves a model per block: see `warpkov_kernels::mdp::matrix_free`.
            ///
            /// # Safety
            /// As for the function of the same name in that module.
            #[::warpkov_device::device::kernel(
                requires(
                    words.len() >= shape.grid * <$model as ::warpkov_device::device::Scalars>::WORDS,
                    table_ptr.len() >= shape.grid + 1,
                    state_ptr.len() >= shape.grid + 1,
                    bounds.len() >= shape.grid,
                    max_sweeps.len() >= shape.grid,
                    found.len() >= shape.grid * ($crate::mdp::matrix_free::MEASURED + 1),
                    shape.block % 32 == 0,
                    shape.dimensions == 1,
                )
            )]
            pub fn PREFIX_many(
                words: ::warpkov_device::device::Global<u64>,
                tables: ::warpkov_device::device::Global<f64>,
                table_ptr: ::warpkov_device::device::Global<u64>,
                state_ptr: ::warpkov_device::device::Global<u64>,
                bounds: ::warpkov_device::device::Global<f64>,
                v: ::warpkov_device::device::GlobalMut<f64>,
                policy: ::warpkov_device::device::GlobalMut<u32>,
                found: ::warpkov_device::device::GlobalMut<u64>,
                max_sweeps: ::warpkov_device::device::Global<u32>,
            ) {
                let many = $crate::mdp::matrix_free::Many {
                    words,
                    tables,
                    table_ptr,
                    state_ptr,
                    bounds,
                    v,
                    policy,
                    found,
                    max_sweeps,
                };
                many.solve::<$model>();
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::mdp::matrix_free::Blocks for $model {
                unsafe fn many<D: ::warpkov_device::launch::Device>(
                    device: &D,
                    shape: ::warpkov_device::launch::Shape,
                    launch: $crate::mdp::matrix_free::ManyLaunch<'_, D>,
                ) -> ::core::result::Result<(), D::Error> {
                    let $crate::mdp::matrix_free::ManyLaunch {
                        words,
                        tables,
                        table_ptr,
                        state_ptr,
                        bounds,
                        v,
                        policy,
                        found,
                        max_sweeps,
                    } = launch;
                    // SAFETY: the caller's promise.
                    unsafe {
                        PREFIX_many(
                            device, shape, words, tables, table_ptr, state_ptr, bounds, v, policy, found, max_sweeps,
                        )
                    }
                }
            }
        }
    };
}

/// [`model!`](crate::model) for a type that implements [`Events`].
#[macro_export]
macro_rules! events {
    ($model:ident) => {
        impl $crate::mdp::matrix_free::Outcomes for $model {
            const MINIMIZE: bool = <Self as $crate::mdp::Events>::MINIMIZE;
            const TOGETHER: u32 = $crate::mdp::matrix_free::TILE as u32;
            const SHARED: bool = true;

            #[inline(always)]
            fn gamma(&self) -> f64 {
                $crate::mdp::Events::gamma(self)
            }

            #[inline(always)]
            fn states(&self) -> u64 {
                $crate::mdp::Events::states(self)
            }

            #[inline(always)]
            fn actions(&self, _: &impl $crate::mdp::Table, state: u64) -> u32 {
                $crate::mdp::Events::actions(self, state)
            }

            #[cfg(not(target_arch = "nvptx64"))]
            fn table(&self) -> ::std::vec::Vec<f64> {
                $crate::mdp::Events::table(self)
            }

            #[inline(always)]
            fn outcomes(
                &self,
                table: &impl $crate::mdp::Table,
                state: u64,
                action: u32,
                mut each: impl FnMut(u64, f64, f64),
            ) {
                use $crate::mdp::{END, Events};
                let state = Events::state(self, state);
                let (offset, of_action) = Events::action(self, &state, action);
                let (mut event, events) = (0, Events::events(self, &state));
                while event < events {
                    let probability = Events::probability(self, table, &state, event);
                    if probability != 0.0 {
                        let (next, reward) = Events::outcome(self, &state, event);
                        each(
                            if next == END { END } else { next.wrapping_add(offset) },
                            probability,
                            reward + of_action,
                        );
                    }
                    event += 1;
                }
            }

            #[inline(always)]
            fn sums<const LANES: u32, const MEASURE: bool>(
                &self,
                table: &impl $crate::mdp::Table,
                state: u64,
                tile: $crate::mdp::matrix_free::Tile,
                value: impl Fn(u64) -> f64,
                fma: impl Fn(f64, f64, f64) -> f64,
            ) -> $crate::mdp::matrix_free::Sums {
                $crate::mdp::matrix_free::Sums::of_events::<_, LANES, MEASURE>(self, table, state, tile, value, fma)
            }
        }

        $crate::model!($model);
    };
}
