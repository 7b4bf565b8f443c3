//! Floating-point types of a run.

use std::borrow::Cow;

use rayon::prelude::*;
use warpkov_device::device::mma::Multiply;

/// A precision that a run may have: `f32` or `f64`.
pub trait Precise: Multiply + Default + std::fmt::Debug {
    /// Unit roundoff: half the distance from 1 to the next number.
    const UNIT: f64;

    /// Numbers of a model, which are f64, in this precision; rounded to nearest, and borrowed where nothing changes.
    fn of(model: &[f64]) -> Cow<'_, [Self]>;
}

impl Precise for f32 {
    const UNIT: f64 = Self::EPSILON as f64 / 2.0;

    fn of(model: &[f64]) -> Cow<'_, [Self]> {
        Cow::Owned(model.par_iter().map(|&x| x as f32).collect())
    }
}

impl Precise for f64 {
    const UNIT: f64 = Self::EPSILON / 2.0;

    fn of(model: &[f64]) -> Cow<'_, [Self]> {
        Cow::Borrowed(model)
    }
}
