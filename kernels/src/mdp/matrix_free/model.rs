//! The traits of models as code.

use warpkov_device::device::Global;

use super::{Sums, Tile};

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
/// failures. An action does the same, whatever the event: it adds to the successor and to the reward.
///
/// That is how inventory models are: a demand takes from the stock, and an order adds to it when it arrives. The kernels
/// compute the outcome of an event once for all actions. `warpkov_kernels::events!` compiles them.
///
/// The probabilities come from a table, which the host computes once, so that they may be those of any distribution.
pub trait Events: Copy {
    /// Whether rewards are costs, to be minimised.
    const MINIMIZE: bool = false;

    /// A state as the events need it, computed once for all of them: its digits, its sum. `u64`, the number of the state, will
    /// always do.
    type State: Copy;

    /// γ, the discount factor, in \[0, 1).
    fn gamma(&self) -> f64;

    /// S, the number of states, at least 1.
    fn states(&self) -> u64;

    /// The number of actions of a state. A state without actions is terminal: V = 0.
    fn actions(&self, state: u64) -> u32;

    /// The state with this number.
    fn state(&self, number: u64) -> Self::State;

    /// What an action adds to the number of the successor, and to the reward, whatever the event.
    fn action(&self, state: &Self::State, action: u32) -> (u64, f64);

    /// N, the number of events.
    fn events(&self, state: &Self::State) -> u32;

    /// The numbers that [`probability`](Self::probability) looks up: the probability of each event, unless that method is
    /// another.
    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64>;

    /// The probability of an event: by default element `event` of the table. Over all events, the probabilities sum to 1.
    #[inline(always)]
    fn probability(&self, table: &impl Table, _state: &Self::State, event: u32) -> f64 {
        table.number(u64::from(event))
    }

    /// The number of the successor after an event, before the action adds to it, and the reward; [`END`] if the process ends,
    /// whatever the action.
    fn outcome(&self, state: &Self::State, event: u32) -> (u64, f64);
}

/// The outcomes of a model: what the kernels know of it. [`Model`] implies it; `events!` implements it for [`Events`]. A
/// [`Model`] that needs a table implements it itself.
pub trait Outcomes: Copy {
    /// As in [`Model`].
    const MINIMIZE: bool;

    /// Actions of which a thread adds up the outcomes together, at most [`TILE`](super::TILE).
    const TOGETHER: u32 = 1;

    /// Whether the lanes of a warp compute the outcomes of an action together.
    const SHARED: bool = false;

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

    /// The sums over the outcomes of the actions of a tile, the first of which is below the number of actions or, with
    /// [`SHARED`](Self::SHARED) and `LANES` = 32, may not be. `MEASURE` is whether all sums are needed, or the Q-factors alone.
    /// `fma(x, y, z)` is x·y + z, rounded once or twice.
    ///
    /// *Takes part*: all 32 lanes, with [`SHARED`](Self::SHARED) and `LANES` = 32.
    #[inline(always)]
    fn sums<const LANES: u32, const MEASURE: bool>(
        &self,
        table: &impl Table,
        state: u64,
        tile: Tile,
        value: impl Fn(u64) -> f64,
        fma: impl Fn(f64, f64, f64) -> f64,
    ) -> Sums {
        Sums::of_action(self, table, (state, tile.first), value, fma)
    }
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
    /// Element `index`; NaN if there is none, which [`Part::measure`](super::Part::measure) finds as a wrong
    /// probability.
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
        if index < self.len { self.numbers.get(index) } else { f64::NAN }
    }
}
