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

use super::backup::{Change, greater};
use super::change::{key, within};

/// The successor of an outcome after which the process ends, with V = 0.
pub const END: u64 = u64::MAX;

/// A Markov decision process as code.
///
/// A model is plain data: numbers from which the outcomes are computed. The kernels copy it to every thread. The same code
/// runs on the GPU, on the CPU and under the emulator; on a GPU, a panic ends the program.
pub trait Model: Copy {
    /// Whether rewards are costs, to be minimised.
    const MINIMIZE: bool = false;

    /// γ, the discount factor, in \[0, 1).
    fn gamma(&self) -> f64;

    /// S, the number of states, at least 1.
    fn states(&self) -> u64;

    /// The number of actions of a state. A state without actions is terminal: V = 0.
    fn actions(&self, state: u64) -> u32;

    /// Calls `each` with successor, probability and reward of every outcome of an action. The probabilities sum to 1. A
    /// successor is a state below S, or [`END`]; it may come several times, with different rewards.
    fn outcomes(&self, state: u64, action: u32, each: impl FnMut(u64, f64, f64));
}

/// A Markov decision process as code, whose transitions are the events of one random variable: demands, arrivals,
/// failures.
///
/// The probabilities come from a table, which the host computes once, so that they may be those of any distribution.
/// `warpkov_kernels::events!` compiles the kernels for such a model.
pub trait Events: Copy {
    /// Whether rewards are costs, to be minimised.
    const MINIMIZE: bool = false;

    /// What an action makes of a state, before the event: what its outcomes have in common, computed once. `(u64, u32)`, state
    /// and action, will always do; digits of the state in place of the state save a division for every event.
    type Decision: Copy;

    /// γ, the discount factor, in \[0, 1).
    fn gamma(&self) -> f64;

    /// S, the number of states, at least 1.
    fn states(&self) -> u64;

    /// The number of actions of a state. A state without actions is terminal: V = 0.
    fn actions(&self, state: u64) -> u32;

    /// The decision for an action.
    fn decide(&self, state: u64, action: u32) -> Self::Decision;

    /// N, the number of events after a decision.
    fn events(&self, decision: &Self::Decision) -> u32;

    /// The numbers that [`probability`](Self::probability) looks up: the probability of each event, unless that method is
    /// another.
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64>;

    /// The probability of an event after a decision: by default element `event` of the table. Over all events, the
    /// probabilities sum to 1.
    #[inline(always)]
    fn probability(&self, table: &impl Table, _decision: &Self::Decision, event: u32) -> f64 {
        table.number(u64::from(event))
    }

    /// The successor after a decision and an event, a state below S or [`END`], and the reward.
    fn outcome(&self, decision: &Self::Decision, event: u32) -> (u64, f64);
}

/// The outcomes of a model: what the kernels know of it. [`Model`] implies it; `events!` implements it for [`Events`].
pub trait Outcomes: Copy {
    /// As in [`Model`].
    const MINIMIZE: bool;
    /// As in [`Model`].
    fn gamma(&self) -> f64;
    /// As in [`Model`].
    fn states(&self) -> u64;
    /// As in [`Model`].
    fn actions(&self, table: &impl Table, state: u64) -> u32;
    /// The numbers that the outcomes look up; empty for a [`Model`].
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64>;
    /// As in [`Model`].
    fn outcomes(&self, table: &impl Table, state: u64, action: u32, each: impl FnMut(u64, f64, f64));
}

impl<M: Model> Outcomes for M {
    const MINIMIZE: bool = M::MINIMIZE;

    #[inline(always)]
    fn gamma(&self) -> f64 {
        Model::gamma(self)
    }

    #[inline(always)]
    fn states(&self) -> u64 {
        Model::states(self)
    }

    #[inline(always)]
    fn actions(&self, _: &impl Table, state: u64) -> u32 {
        Model::actions(self, state)
    }

    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        Vec::new()
    }

    #[inline(always)]
    fn outcomes(&self, _: &impl Table, state: u64, action: u32, each: impl FnMut(u64, f64, f64)) {
        Model::outcomes(self, state, action, each);
    }
}

/// The table of a model.
pub trait Table {
    /// Element `index`; NaN if there is none, which [`Part::measure`] finds as a wrong probability.
    fn number(&self, index: u64) -> f64;
}

#[cfg(not(target_arch = "nvptx64"))]
impl Table for [f64] {
    #[inline(always)]
    fn number(&self, index: u64) -> f64 {
        self.get(index as usize).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Table for Vec<f64> {
    #[inline(always)]
    fn number(&self, index: u64) -> f64 {
        self.as_slice().number(index)
    }
}

/// The table in device memory.
#[derive(Clone, Copy)]
pub struct DeviceTable {
    /// The numbers.
    pub numbers: Global<f64>,
    /// How many.
    pub len: u64,
}

impl Table for DeviceTable {
    #[inline(always)]
    fn number(&self, index: u64) -> f64 {
        if index < self.len { self.numbers.get(index as usize) } else { f64::NAN }
    }
}

/// Q(s, a) = Σ p·(r + γ V(s')) over the outcomes of an action, of the maximisation form: costs are negated. `fma(x, y, z)`
/// is x·y + z, rounded once or twice.
#[inline(always)]
pub fn q_factor<M: Outcomes>(
    model: &M,
    table: &impl Table,
    (state, action): (u64, u32),
    value: impl Fn(u64) -> f64,
    fma: impl Fn(f64, f64, f64) -> f64,
) -> f64 {
    let (gamma, states) = (model.gamma(), model.states());
    let mut q = 0.0;
    model.outcomes(table, state, action, |next, probability, reward| {
        let reward = if M::MINIMIZE { -reward } else { reward };
        let after = match next {
            END => 0.0,
            next if next < states => value(next),
            _ => f64::NAN,
        };
        q = fma(probability, fma(gamma, after, reward), q);
    });
    q
}

/// What the outcomes of one action add up to.
#[derive(Clone, Copy)]
pub struct Row {
    /// Σ p over the outcomes after which the process goes on.
    pub going: f64,
    /// Σ p over all outcomes.
    pub sum: f64,
    /// Σ p·|r| + γ Σ p·|V(s')|.
    pub magnitude: f64,
    /// The number of outcomes.
    pub outcomes: u32,
    /// Whether every successor is a state or [`END`], every probability within \[0, 1], every reward finite, and the sum
    /// of the probabilities 1 within [`SUM_TOLERANCE`].
    pub valid: bool,
}

/// Maximum deviation of the probabilities of an action from sum 1.
pub const SUM_TOLERANCE: f64 = 1e-6;

impl Row {
    /// The row of an action, with V.
    #[inline(always)]
    pub fn of<M: Outcomes>(
        model: &M,
        table: &impl Table,
        (state, action): (u64, u32),
        value: impl Fn(u64) -> f64,
    ) -> Self {
        let (gamma, states) = (model.gamma(), model.states());
        let mut row = Self { going: 0.0, sum: 0.0, magnitude: 0.0, outcomes: 0, valid: true };
        model.outcomes(table, state, action, |next, probability, reward| {
            row.sum += probability;
            row.outcomes += 1;
            row.magnitude += probability * reward.abs();
            if next < states {
                row.going += probability;
                row.magnitude += gamma * probability * value(next).abs();
            }
            // NaN fails every comparison.
            let fits = (next < states || next == END)
                && (0.0..=1.0 + SUM_TOLERANCE).contains(&probability)
                && reward.abs() <= f64::MAX;
            row.valid = row.valid && fits;
        });
        row.valid = row.valid && (row.sum - 1.0).abs() <= SUM_TOLERANCE;
        row
    }
}

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

    /// The best Q-factor of a state and its action, the lowest-numbered of equals; −∞ and `u32::MAX` without actions. NaN
    /// if a Q-factor is NaN.
    ///
    /// *Takes part*: the `LANES` lanes of the state. *Valid result in*: all of them.
    #[inline(always)]
    fn best<T: Real, const LANES: u32>(&self, state: u64, v: Global<T>) -> (f64, u32) {
        let actions = self.model.actions(&self.table, state);
        let (mut best, mut of_best) = (f64::NEG_INFINITY, u32::MAX);
        let mut action = if LANES == 1 { 0 } else { warp::lane_id() };
        while action < actions {
            let value = |next: u64| v.get(next as usize).to_f64();
            let q = q_factor(&self.model, &self.table, (state, action), value, math::fma);
            if q > best || of_best == u32::MAX {
                of_best = action;
            }
            best = greater(best, q);
            action += LANES;
        }
        if LANES > 1 {
            let greatest = warp::reduce(best, greater);
            // The lowest of the actions whose Q-factor is the greatest.
            let mine = if best >= greatest { of_best } else { u32::MAX };
            return (greatest, warp::reduce(mine, |a: u32, b| a.min(b)));
        }
        (best, of_best)
    }

    /// A greedy sweep: the body of kernel `NAME_sweep`.
    ///
    /// - *Mathematics*: V_new(s) = maxₐ Σ p·(r + γ V_old(s')) over the outcomes of (s, a); V_old(s) without actions.
    /// - *Thread mapping*: `LANES` lanes per state, one per action, in a grid-stride loop over states.
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
            let (best, _) = self.best::<T, LANES>(state, old);
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
    /// - *Thread mapping*: `LANES` lanes per state, one per action, in a grid-stride loop over states.
    /// - *Shared memory*: 32 words, static. *Barriers*: two for each slot. *Deterministic*: yes.
    /// - *Valid result in*: `found`, and `policy` from element 0 to `count`.
    ///
    /// *Safety*: `v` has S elements, `policy` has `count`, `found` has [`MEASURED`], all 0. *Launch*: any grid; blocks of
    /// whole warps; no dynamic shared memory.
    #[inline(always)]
    pub fn measure<T: Real, const LANES: u32>(&self, v: Global<T>, policy: GlobalMut<u32>, found: GlobalMut<u64>) {
        let mut all = Measured::NONE;
        self.states::<LANES>(|state| {
            let (best, action) = self.best::<T, LANES>(state, v);
            let value = |next: u64| v.get(next as usize).to_f64();
            let lanes = if LANES == 1 { (0, 1) } else { (warp::lane_id(), LANES) };
            let here = Measured::of_state(&self.model, &self.table, state, best, value, lanes);
            all = all.and(here);
            if LANES == 1 || warp::lane_id() == 0 {
                policy.set((state - self.first) as usize, action);
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
    let before = old.get(state as usize);
    if best == f64::NEG_INFINITY {
        new.set(state as usize, before);
        return Change::NONE;
    }
    let after = T::from_f64(best);
    new.set(state as usize, after);
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

/// Number of slots of [`Measured`].
pub const MEASURED: usize = 8;

/// What a certificate needs to know of V and the model: extremes over states. In memory, every number is a slot whose
/// maximum over states is that of the extreme, 0 for no state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Least and greatest (TV)(s) − V(s) over states with actions.
    pub change: [f64; 2],
    /// Greatest of Σ p·|r| + γ Σ p·|V(s')| + |V(s)|.
    pub magnitude: f64,
    /// Least and greatest Σ p over the outcomes of an action after which the process goes on.
    pub going: [f64; 2],
    /// Most outcomes of an action.
    pub outcomes: u32,
    /// Whether the process may end.
    pub ends: bool,
    /// The lowest state with an action that is not [valid](Row::valid); `u64::MAX` if there is none.
    pub wrong: u64,
}

impl Measured {
    /// Of no state.
    pub const NONE: Self = Self {
        change: [f64::INFINITY, f64::NEG_INFINITY],
        magnitude: 0.0,
        going: [f64::INFINITY, f64::NEG_INFINITY],
        outcomes: 0,
        ends: false,
        wrong: u64::MAX,
    };

    /// Of one state with V, and `best` = (TV)(s), −∞ without actions; of every `step`-th of its actions, from `lane` on.
    #[inline(always)]
    pub fn of_state<M: Outcomes>(
        model: &M,
        table: &impl Table,
        state: u64,
        best: f64,
        value: impl Fn(u64) -> f64,
        (lane, step): (u32, u32),
    ) -> Self {
        let (mut found, actions, own) = (Self::NONE, model.actions(table, state), value(state));
        // A terminal state has V = 0.
        let by = if actions == 0 { -own } else { best - own };
        found.change = if by.is_nan() { [f64::NEG_INFINITY, f64::INFINITY] } else { [by, by] };
        found.magnitude = own.abs();
        found.ends = actions == 0;
        let mut action = lane;
        while action < actions {
            let row = Row::of(model, table, (state, action), &value);
            let magnitude = row.magnitude + own.abs();
            found.magnitude = if magnitude.is_nan() { f64::INFINITY } else { found.magnitude.max(magnitude) };
            found.going = [found.going[0].min(row.going), found.going[1].max(row.going)];
            found.outcomes = found.outcomes.max(row.outcomes);
            // One rounding of each probability of a row that does not end.
            found.ends |= row.going < row.sum;
            if !row.valid {
                found.wrong = state;
            }
            action += step;
        }
        found
    }

    /// Of the union of two sets of states.
    #[inline(always)]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            change: [self.change[0].min(other.change[0]), self.change[1].max(other.change[1])],
            magnitude: self.magnitude.max(other.magnitude),
            going: [self.going[0].min(other.going[0]), self.going[1].max(other.going[1])],
            outcomes: self.outcomes.max(other.outcomes),
            ends: self.ends || other.ends,
            wrong: self.wrong.min(other.wrong),
        }
    }

    /// Gives number and value of each slot to `each`. An array of them would be in local memory.
    #[inline(always)]
    pub fn each_slot(&self, mut each: impl FnMut(usize, u64)) {
        each(0, key(-self.change[0]));
        each(1, key(self.change[1]));
        each(2, self.magnitude.to_bits());
        each(3, key(-self.going[0]));
        each(4, key(self.going[1]));
        each(5, u64::from(self.outcomes));
        each(6, u64::from(self.ends));
        each(7, !self.wrong);
    }

    /// The slots.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn slots(&self) -> [u64; MEASURED] {
        let mut slots = [0; MEASURED];
        self.each_slot(|slot, value| slots[slot] = value);
        slots
    }

    /// The extremes in the slots.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn of_slots(slots: &[u64; MEASURED]) -> Self {
        use super::change::number;
        Self {
            change: [-number(slots[0]), number(slots[1])],
            magnitude: f64::from_bits(slots[2]),
            going: [-number(slots[3]), number(slots[4])],
            outcomes: slots[5] as u32,
            ends: slots[6] > 0,
            wrong: !slots[7],
        }
    }
}

/// Models of one type, solved by one block each: the arguments of kernel `NAME_many`.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `words` | models × [`WORDS`](Scalars::WORDS) | the models |
/// | `tables` | sum of the lengths of the tables | |
/// | `table_ptr` | models + 1 | elements of `tables` |
/// | `state_ptr` | models + 1 | states of each model, in `policy`; twice that in `v` |
/// | `bounds` | models | ε-rule of each model, as ‖ΔV‖∞; 0 or less for a model that is done |
/// | `v` | 2 × states | reward; the first half of each model's elements is V before and after |
/// | `policy` | states | |
/// | `found` | models × ([`MEASURED`] + 1) | slots, then sweeps |
/// | `max_sweeps` | scalar | ≥ 1 |
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
    /// Maximum number of sweeps.
    pub max_sweeps: u32,
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
        let bound = self.bounds.get(number);
        if bound <= 0.0 {
            return;
        }
        let mut word = number * M::WORDS;
        let model = M::of_words(&mut || {
            word += 1;
            self.words.get(word - 1)
        });
        let (from, to) = (self.table_ptr.get(number), self.table_ptr.get(number + 1));
        let table = DeviceTable { numbers: self.tables.skip(from as usize), len: to - from };
        let (first, states) = (self.state_ptr.get(number), self.state_ptr.get(number + 1) - self.state_ptr.get(number));
        let threads = u64::from(thread::block_dim_x());
        let own = u64::from(thread::thread_idx_x());
        let (mut old, mut new) = (2 * first, 2 * first + states);

        let mut ends = false;
        let mut state = own;
        while state < states {
            ends |= Measured::of_state(&model, &table, state, 0.0, |_| 0.0, (0, 1)).ends;
            state += threads;
        }
        let ends = thread::sync_threads_or(ends);

        let mut sweep = 0;
        loop {
            let mut all = Change::<f64>::NONE;
            let mut state = own;
            while state < states {
                let (best, _) = best_of(&model, &table, state, |next| self.v.get((old + next) as usize));
                let before = self.v.get((old + state) as usize);
                if best == f64::NEG_INFINITY {
                    self.v.set((new + state) as usize, before);
                } else {
                    self.v.set((new + state) as usize, best);
                    all = all.and(change(before, best));
                }
                state += threads;
            }
            let greatest = block::reduce(all.greatest, f64::NEG_INFINITY, f64::max);
            let fall = block::reduce(all.fall, f64::NEG_INFINITY, f64::max);
            let size = if ends { greatest.max(fall) } else { (greatest + fall) / 2.0 };
            sweep += 1;
            let last = size < bound || greatest.max(fall) <= 0.0 || sweep == self.max_sweeps;
            // The reduction is valid in the first warp: thread 0 decides for the block.
            let done = thread::sync_threads_or(thread::thread_idx_x() == 0 && last);
            (old, new) = (new, old);
            if done {
                break;
            }
        }
        if old != 2 * first {
            let mut state = own;
            while state < states {
                self.v.set((new + state) as usize, self.v.get((old + state) as usize));
                state += threads;
            }
        }
        thread::sync_threads();
        let mut all = Measured::NONE;
        let mut state = own;
        while state < states {
            let value = |next: u64| self.v.get((2 * first + next) as usize);
            let (best, action) = best_of(&model, &table, state, value);
            all = all.and(Measured::of_state(&model, &table, state, best, value, (0, 1)));
            self.policy.set((first + state) as usize, action);
            state += threads;
        }
        all.each_slot(|slot, value| {
            let greatest = block::reduce(value, 0, |a: u64, b| a.max(b));
            if thread::thread_idx_x() == 0 {
                self.found.set(number * (MEASURED + 1) + slot, greatest);
            }
        });
        if thread::thread_idx_x() == 0 {
            self.found.set(number * (MEASURED + 1) + MEASURED, u64::from(sweep));
        }
    }
}

/// [`Part::best`] by one thread, with any V.
#[inline(always)]
fn best_of<M: Outcomes>(model: &M, table: &impl Table, state: u64, value: impl Fn(u64) -> f64) -> (f64, u32) {
    let actions = model.actions(table, state);
    let (mut best, mut of_best, mut action) = (f64::NEG_INFINITY, u32::MAX, 0);
    while action < actions {
        let q = q_factor(model, table, (state, action), &value, math::fma);
        if q > best || of_best == u32::MAX {
            of_best = action;
        }
        best = greater(best, q);
        action += 1;
    }
    (best, of_best)
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
    pub max_sweeps: u32,
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
            #[::warpkov_device::device::kernel(T = [f32, f64], LANES = [1, 32])]
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
            #[::warpkov_device::device::kernel(T = [f32, f64], LANES = [1, 32])]
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
            #[::warpkov_device::device::kernel]
            pub fn PREFIX_many(
                words: ::warpkov_device::device::Global<u64>,
                tables: ::warpkov_device::device::Global<f64>,
                table_ptr: ::warpkov_device::device::Global<u64>,
                state_ptr: ::warpkov_device::device::Global<u64>,
                bounds: ::warpkov_device::device::Global<f64>,
                v: ::warpkov_device::device::GlobalMut<f64>,
                policy: ::warpkov_device::device::GlobalMut<u32>,
                found: ::warpkov_device::device::GlobalMut<u64>,
                max_sweeps: u32,
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
                let decision = $crate::mdp::Events::decide(self, state, action);
                let (mut event, events) = (0, $crate::mdp::Events::events(self, &decision));
                while event < events {
                    let probability = $crate::mdp::Events::probability(self, table, &decision, event);
                    // An event that never happens costs no more than its probability. NaN is not 0.
                    if probability != 0.0 {
                        let (next, reward) = $crate::mdp::Events::outcome(self, &decision, event);
                        each(next, probability, reward);
                    }
                    event += 1;
                }
            }
        }

        $crate::model!($model);
    };
}
