//! Options of the recursions and of training.

use crate::common::choice::choice;

choice! {
    /// Floating-point type of the recursions. Logarithms and expected counts are summed in `f64` in every case.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Precision {
        /// f32; for more than 128 states GPU tensor cores multiply TF32 numbers, with 11 significant bits.
        Tf32 = "tf32",
        /// 32-bit floating point.
        F32 = "f32",
        /// 64-bit floating point.
        #[default]
        F64 = "f64",
    }
}

impl Precision {
    /// Number of states up to which `Tf32` computes in f32.
    pub const TF32_STATES: u32 = 128;

    /// The [`Options::slack`] for recursions in this precision.
    #[must_use]
    pub fn slack(self) -> f64 {
        match self {
            Self::Tf32 => 1e-2,
            Self::F32 => 1e-4,
            Self::F64 => 1e-9,
        }
    }
}

/// Pseudocounts added to the expected counts, each at least 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pseudocounts {
    /// Added to the counts of π.
    pub start: f64,
    /// Added to the counts of A and of end probabilities.
    pub transitions: f64,
    /// Added to the counts of B.
    pub emissions: f64,
}

impl Pseudocounts {
    /// Whether all pseudocounts are 0.
    pub(super) fn none(&self) -> bool {
        *self == Self::default()
    }
}

/// Default of [`Options::floor`]. Standard deviations down to 3·10⁻⁵ of those of all observations are unaffected.
pub const FLOOR: f64 = 1e-9;

/// Options of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Maximum number of M steps.
    pub iterations: u32,
    /// A model has converged when the relative increase of its objective is at most this.
    pub tolerance: f64,
    /// Pseudocounts, a Dirichlet prior.
    pub pseudocounts: Pseudocounts,
    /// Variance floor as a fraction of the variance of all observations, above 0; see
    /// [`Spread::floors`](super::maximise::Spread::floors).
    pub floor: f64,
    /// Largest relative decrease of the objective that counts as rounding; see [`Precision::slack`].
    pub slack: f64,
}

impl Default for Options {
    fn default() -> Self {
        let pseudocounts = Pseudocounts::default();
        Self { iterations: 100, tolerance: 1e-6, pseudocounts, floor: FLOOR, slack: 1e-9 }
    }
}
