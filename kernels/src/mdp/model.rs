//! Kernel parameters: a Markov decision process and its value function.

use warpkov_device::device::{Global, GlobalMut, Offset, Parameter};

use super::choices::Choices;
use crate::primitives::rows::Rows;

/// A Markov decision process with S states, in compressed rows: one row per state-action pair.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `choices` | [`Choices`] | rows of each state |
/// | `rows` | rows × S, [`Rows`] | P(s'\|s, a); columns below S |
/// | `reward` | rows | r(s, a), finite |
/// | `gamma` | scalar | discount per step, in \[0, 1\] |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(states),
    requires(
        choices.holds(states),
        if choices.actions > 0 {
            rows.holds(states * choices.actions);
            reward.len() >= states * choices.actions
        },
    )
)]
pub struct Model<T, O: Offset> {
    /// Rows of each state.
    pub choices: Choices<O>,
    /// P.
    pub rows: Rows<T, O>,
    /// Expected reward of each row.
    pub reward: Global<T>,
    /// γ, the discount factor.
    pub gamma: f64,
}

/// V before and after a sweep.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `old` | S | reward |
/// | `new` | S; does not overlap `old` | reward |
#[derive(Clone, Copy, Parameter)]
#[parameter(holds(states), requires(old.len() >= states, new.len() >= states))]
pub struct Iterates<T> {
    /// V before the sweep.
    pub old: Global<T>,
    /// V after the sweep.
    pub new: GlobalMut<T>,
}
