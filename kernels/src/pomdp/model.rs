//! What the kernels are given of a partially observable process, of beliefs, and of vectors.

use warpkov_device::device::{Global, GlobalMut, Parameter};

use crate::primitives::rows::Rows;

/// A model of S states, A actions and Ω observations.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `states`, `actions` | 1 | S, A |
/// | `gamma` | 1 | discount for a step, in \[0, 1) |
/// | `transitions` | S·A × S | T(s, a, s'), row s·A + a |
/// | `predecessors` | A·S × S | T(s, a, s'), row a·S + s', columns s |
/// | `observations` | A·S × Ω | O(a, s', o), row a·S + s' |
/// | `reward` | S·A | r(s, a), at s·A + a |
#[derive(Clone, Copy, Parameter)]
pub struct Model<T> {
    /// S.
    pub states: u32,
    /// A.
    pub actions: u32,
    /// γ.
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

/// The numbers of things that tensors have, as far as a kernel needs them.
///
/// | field | unit |
/// | --- | --- |
/// | `states`, `actions`, `observations` | \|S\|, \|A\|, \|Ω\| |
/// | `vectors` | n |
/// | `beliefs` | \|B\| |
#[derive(Clone, Copy, Parameter)]
pub struct Sizes {
    /// |S|.
    pub states: u32,
    /// |A|.
    pub actions: u32,
    /// |Ω|.
    pub observations: u32,
    /// n, the number of vectors in Γ.
    pub vectors: u32,
    /// |B|.
    pub beliefs: u32,
}

/// Rows that a kernel fills, some elements apart.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `stride` | 1 | elements |
/// | `values` | rows × `stride` | that of vectors |
#[derive(Clone, Copy, Parameter)]
pub struct Strided<T> {
    /// From a row to the next; 0 where there are none.
    pub stride: u32,
    /// The elements of all rows.
    pub values: GlobalMut<T>,
}
