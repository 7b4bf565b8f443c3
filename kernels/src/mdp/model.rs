//! What the kernels are given of a Markov decision process, and of its values.

use warpkov_device::device::{Global, GlobalMut, Offset, Parameter};

use super::choices::Choices;
use crate::primitives::rows::Rows;

/// A model of S states in compressed rows, one for each pair of state and action.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `choices` | S states | rows of each state |
/// | `rows` | rows × S | P(s'\|s, a) |
/// | `reward` | rows | r(s, a) |
/// | `gamma` | 1 | discount for a step, in \[0, 1\] |
#[derive(Clone, Copy, Parameter)]
pub struct Model<T, O: Offset> {
    /// Which rows belong to which state.
    pub choices: Choices<O>,
    /// P, columns below S.
    pub rows: Rows<T, O>,
    /// The expected reward of each row.
    pub reward: Global<T>,
    /// γ.
    pub gamma: f64,
}

/// V before a sweep and after it.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `old` | S | reward |
/// | `new` | S | reward |
#[derive(Clone, Copy, Parameter)]
pub struct Iterates<T> {
    /// Before.
    pub old: Global<T>,
    /// After.
    pub new: GlobalMut<T>,
}
