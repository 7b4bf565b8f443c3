//! What families of distributions have in common.

use std::ops::Range;

use rand_chacha::ChaCha8Rng;

use super::law::Coded;

/// The numbers that a parameter may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Finite numbers.
    Real,
    /// Finite numbers above 0.
    Positive,
    /// Finite numbers of at least 0.
    Nonnegative,
    /// Numbers from 0 to 1.
    Probability,
    /// Probabilities that sum to 1 over the last index.
    Distribution,
    /// Symmetric positive definite matrices.
    Covariance,
}

/// A parameter of a family in all states.
#[derive(Clone, Debug)]
pub struct Parameter<'a> {
    /// Its name, in the plural, as in JSON.
    pub name: &'static str,
    /// The lengths of the indices after that of the state.
    pub shape: Vec<usize>,
    /// The numbers that it may take.
    pub domain: Domain,
    /// N × `shape` numbers, row by row.
    pub numbers: &'a [f64],
}

impl Parameter<'_> {
    /// Numbers per state.
    #[must_use]
    pub fn width(&self) -> usize {
        self.shape.iter().fold(1, |width, length| width.saturating_mul(*length))
    }
}

/// The numbers that the shapes of parameters depend on.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// N.
    pub states: usize,
    /// C, the number of components x of the channel.
    pub components: usize,
    /// Number of regressors z.
    pub regressors: usize,
}

impl Sizes {
    /// The components of a state among those of all states.
    #[must_use]
    pub fn of(self, state: usize) -> Range<usize> {
        state * self.components..(state + 1) * self.components
    }
}

/// A draw, or what it needs beside the parameters.
pub(crate) type Drawn = Result<Vec<f64>, &'static str>;

/// A family of distributions of the components x of a channel, one distribution for each state.
pub(crate) trait Parametric: Send + Sync {
    /// All parameters.
    fn parameters(&self, sizes: Sizes) -> Vec<Parameter<'_>>;

    /// The numbers of all parameters, in the order of [`parameters`](Self::parameters).
    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>>;

    /// The first component whose value is impossible for every choice of parameters, and what was expected. Components may be
    /// missing, but not all of them. None by default: every number is possible.
    fn unsupported(&self, _sizes: Sizes, _x: &[f64]) -> Option<(usize, &'static str)> {
        None
    }

    /// Draws x in a state, given z.
    fn draw(&self, sizes: Sizes, state: usize, z: &[f64], random: &mut ChaCha8Rng) -> Drawn;
}

/// A family with an M step from sums over the observations.
pub(crate) trait Estimated: Parametric {
    /// The densities with the present parameters.
    fn density(&self, sizes: Sizes) -> Box<dyn Density>;

    /// Number of sums per state.
    fn sums(&self, sizes: Sizes) -> usize;

    /// ∂ Σ γ ln b(x) / ∂θ of a state for each parameter, in order, from its sums; with respect to the logarithms of distributions. `None` if
    /// the family does not say.
    fn slopes(&self, sizes: Sizes, state: usize, sums: &[f64]) -> Option<Vec<Vec<f64>>>;

    /// The M step of a state from its sums: the expected log-likelihood does not decrease. `floors` has the least variance of each
    /// component. Without observations nothing changes.
    fn maximise(&mut self, sizes: Sizes, state: usize, sums: &[f64], floors: &[f64]);
}

/// Densities bⱼ(x) of a channel in all states. Some components of x may be missing, which are NaN.
pub(crate) trait Density: Send + Sync {
    /// Adds ln bⱼ(x) to each of the N `logs`.
    fn add_logs(&self, x: &[f64], z: &[f64], logs: &mut [f64]);

    /// Adds an observation to the sums of a state, `gamma` times.
    fn count(&self, x: &[f64], z: &[f64], state: usize, gamma: f64, sums: &mut [f64]);

    /// The densities as code that a device runs; `None` if the host computes them.
    fn on_device(&self) -> Option<Coded> {
        None
    }

    /// Writes what that code takes as x.
    fn prepare(&self, _x: &[f64], _prepared: &mut [f64]) {}
}

/// A derivative `sum` / `by`; 0 without observations, whatever the parameter.
pub fn per(sum: f64, by: f64) -> f64 {
    if sum == 0.0 { 0.0 } else { sum / by }
}

/// A weight below which a state has no observations.
pub const LEAST_WEIGHT: f64 = f64::MIN_POSITIVE;

/// The first component that is neither missing nor `valid`.
pub fn component(x: &[f64], expected: &'static str, valid: impl Fn(f64) -> bool) -> Option<(usize, &'static str)> {
    x.iter().position(|&x| !x.is_nan() && !valid(x)).map(|at| (at, expected))
}

/// The first component that is neither missing nor 0 or 1.
pub fn bit(x: &[f64]) -> Option<(usize, &'static str)> {
    component(x, "0 or 1", |x| x == 0.0 || x == 1.0)
}

/// Whether x is an integer of at least 0.
pub fn is_count(x: f64) -> bool {
    x >= 0.0 && x.fract() == 0.0
}
