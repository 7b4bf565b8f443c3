//! What recursions and training are asked for.

use crate::common::choice::choice;

choice! {
    /// The floating-point type of the recursions. Logarithms and expected counts are summed in `f64` for both.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Precision {
        /// 32 bits, of which 11 count in the products of a GPU for more than 128 states: as much as tensor cores take
        /// at one time.
        Tf32 = "tf32",
        /// 32 bits.
        F32 = "f32",
        /// 64 bits.
        #[default]
        F64 = "f64",
    }
}

impl Precision {
    /// States up to which there are no products in TF32.
    pub const TF32_STATES: u32 = 128;

    /// By what part of its absolute value an objective may fall by rounding; see
    /// [`Options::slack`].
    #[must_use]
    pub fn slack(self) -> f64 {
        match self {
            Self::Tf32 => 1e-2,
            Self::F32 => 1e-4,
            Self::F64 => 1e-9,
        }
    }
}

/// What is added to the expected counts, each 0 or more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pseudocounts {
    /// To those of π.
    pub start: f64,
    /// To those of A and of ends.
    pub transitions: f64,
    /// To those of B.
    pub emissions: f64,
}

impl Pseudocounts {
    /// Whether there are none.
    pub(super) fn none(&self) -> bool {
        *self == Self::default()
    }
}

/// The default of [`Options::floor`]: deviations of 3·10⁻⁵ of those of all observations are taken for what they are.
pub const FLOOR: f64 = 1e-9;

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// M steps at most.
    pub iterations: u32,
    /// A model has converged when its objective rises by no more than this part of its absolute value.
    pub tolerance: f64,
    /// Dirichlet prior.
    pub pseudocounts: Pseudocounts,
    /// The least variance in each dimension, as a part of that of all observations, above 0; see
    /// [`Spread::floors`](super::maximise::Spread::floors).
    pub floor: f64,
    /// By what part of its absolute value the objective may fall by rounding: 10⁻⁹ in `f64`, 10⁻⁴ in `f32`.
    pub slack: f64,
}

impl Default for Options {
    fn default() -> Self {
        let pseudocounts = Pseudocounts::default();
        Self { iterations: 100, tolerance: 1e-6, pseudocounts, floor: FLOOR, slack: 1e-9 }
    }
}
