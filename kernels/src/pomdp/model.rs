//! Kernel parameters: a partially observable process, tensor sizes, and rows with a stride.

use warpkov_device::device::{Global, GlobalMut, Parameter};

use crate::primitives::rows::Rows;

/// A partially observable process with S states, A actions and Ω observations.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `states`, `actions` | scalar | S, A |
/// | `gamma` | scalar | discount per step, in \[0, 1) |
/// | `transitions` | S·A × S, [`Rows`] | T(s, a, s'), row s·A + a; columns below S |
/// | `predecessors` | A·S × S, [`Rows`] | T(s, a, s'), row a·S + s', columns s |
/// | `observations` | A·S × Ω, [`Rows`] | O(a, s', o), row a·S + s'; columns below Ω |
/// | `reward` | S·A | r(s, a), at s·A + a |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    requires(
        transitions.holds(states * actions),
        predecessors.holds(actions * states),
        observations.holds(actions * states),
        reward.len() >= states * actions,
    )
)]
pub struct Model<T> {
    /// S.
    pub states: u32,
    /// A.
    pub actions: u32,
    /// γ, the discount factor.
    pub gamma: f64,
    /// T by rows.
    pub transitions: Rows<T, u64>,
    /// T by columns.
    pub predecessors: Rows<T, u64>,
    /// O.
    pub observations: Rows<T, u64>,
    /// Expected rewards.
    pub reward: Global<T>,
}

/// Dimensions of the tensors, other than S.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `actions`, `observations` | scalar | A, Ω |
/// | `vectors` | scalar | n |
/// | `beliefs` | scalar | B |
#[derive(Clone, Copy, Parameter)]
pub struct Sizes {
    /// A, the number of actions.
    pub actions: u32,
    /// Ω, the number of observations.
    pub observations: u32,
    /// n, the number of vectors in Γ.
    pub vectors: u32,
    /// B, the number of beliefs.
    pub beliefs: u32,
}

/// Rows with a stride, which a kernel writes.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | elements; 0 if there are no rows |
/// | `values` | rows × `stride` | unit of the vectors |
#[derive(Clone, Copy, Parameter)]
#[parameter(holds(rows, width), requires(if stride > 0 { stride >= width; values.len() >= rows * stride }))]
pub struct Strided<T> {
    /// Distance between consecutive rows; 0 if there are no rows.
    pub stride: u32,
    /// Elements of all rows.
    pub values: GlobalMut<T>,
}
