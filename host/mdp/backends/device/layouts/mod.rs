//! The kinds of layout of a model for value iteration. Each of the files `rows`, `slices`, `narrow` and `patterns` has one of them: what the
//! host computes, its arrays in device memory, and the launch of its sweep. The arrays are [`ModelNumbers`](numbers::ModelNumbers), two in the
//! precision of V, and an index of integers that all precisions share; both together are [`Uploaded`](uploaded::Uploaded).

pub(super) mod narrow;
pub(crate) mod numbers;
pub(super) mod patterns;
pub(crate) mod rows;
pub(super) mod slices;
pub(super) mod uploaded;
