//! Floating-point types of solvers.

use std::borrow::Cow;

use rayon::prelude::*;
use warpkov_cuda::SparseNumber;
use warpkov_device::device::mma::Multiply;

/// A floating-point type of a solver: `f32` or `f64`.
pub trait Precise: Multiply + SparseNumber + Default + std::fmt::Debug {
    /// Unit roundoff u: half the distance from 1 to the next larger number.
    const UNIT: f64;

    /// Converts the f64 numbers of a model, rounded to nearest. Borrows them if the type is f64.
    fn rounded(model: &[f64]) -> Cow<'_, [Self]>;
}

impl Precise for f32 {
    const UNIT: f64 = Self::EPSILON as f64 / 2.0;

    fn rounded(model: &[f64]) -> Cow<'_, [Self]> {
        Cow::Owned(model.par_iter().map(|&x| x as f32).collect())
    }
}

impl Precise for f64 {
    const UNIT: f64 = Self::EPSILON / 2.0;

    fn rounded(model: &[f64]) -> Cow<'_, [Self]> {
        Cow::Borrowed(model)
    }
}
