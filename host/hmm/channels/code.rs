//! Emissions as Rust code.

use std::fmt;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use warpkov_common::random::unit;
use warpkov_kernels::hmm::emission::CompiledEmission;
use warpkov_runtime::gpu::Modules;

use super::family::{Density, Domain, Drawn, Estimated, LEAST_WEIGHT, Parameter, Parametric, Sizes};
use super::law::{Coded, Law, compiled};

/// A family that is code: any [`Emission`](warpkov_kernels::hmm::Emission), with the parameters of all states.
///
/// A model with such a channel is like any other, but that no file format can hold it.
#[derive(Clone)]
pub struct Code {
    law: Arc<dyn Law>,
    /// N × P, row by row.
    parameters: Vec<f64>,
}

impl Code {
    /// An emission with the parameters of all states, N × P, row by row. `modules` are the compiled kernels of the emission's crate,
    /// `warpkov_cuda::modules!()`; `None` without GPUs.
    #[must_use]
    pub fn new<E: CompiledEmission>(
        emission: E,
        modules: impl Into<Option<&'static Modules>>,
        parameters: Vec<f64>,
    ) -> Self {
        Self { law: compiled(emission, modules.into()), parameters }
    }

    /// The name of the emission's type.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.law.name()
    }

    /// The parameters of all states, N × P, row by row.
    #[must_use]
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// C, the number of components.
    pub(crate) fn components(&self) -> usize {
        self.law.components()
    }

    fn of_state(&self, state: usize) -> &[f64] {
        let width = self.law.parameters();
        &self.parameters[state * width..][..width]
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name()).field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// The same type with the same numbers.
impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.law.words() == other.law.words() && self.parameters == other.parameters
    }
}

impl Parametric for Code {
    fn parameters(&self, _: Sizes) -> Vec<Parameter<'_>> {
        let (shape, numbers) = (vec![self.law.parameters()], &self.parameters[..]);
        vec![Parameter { name: "parameters", shape, domain: Domain::Real, numbers }]
    }

    fn numbers_mut(&mut self) -> Vec<&mut Vec<f64>> {
        vec![&mut self.parameters]
    }

    fn draw(&self, sizes: Sizes, state: usize, _: &[f64], random: &mut ChaCha8Rng) -> Drawn {
        let drawn = self.law.draw(self.of_state(state), &mut || unit(random));
        drawn.filter(|x| x.len() == sizes.components).ok_or("a function that draws all its components")
    }
}

/// Sums of γ and of γ times each statistic.
impl Estimated for Code {
    fn density(&self, _: Sizes) -> Box<dyn Density> {
        Box::new(self.clone())
    }

    fn sums(&self, _: Sizes) -> usize {
        self.law.sums()
    }

    fn slopes(&self, _: Sizes, _: usize, _: &[f64]) -> Option<Vec<Vec<f64>>> {
        None
    }

    /// Parameters that are no numbers are not taken.
    fn maximise(&mut self, _: Sizes, state: usize, sums: &[f64], _: &[f64]) {
        let [weight, sums @ ..] = sums else { return };
        if *weight >= LEAST_WEIGHT {
            let mut theta = self.of_state(state).to_vec();
            self.law.maximise(&mut theta, *weight, sums);
            if theta.iter().all(|number| number.is_finite()) {
                let width = theta.len();
                self.parameters[state * width..][..width].copy_from_slice(&theta);
            }
        }
    }
}

impl Density for Code {
    fn add_logs(&self, x: &[f64], _: &[f64], logs: &mut [f64]) {
        self.law.add_to(&self.parameters, x, logs);
    }

    fn count(&self, x: &[f64], _: &[f64], state: usize, gamma: f64, sums: &mut [f64]) {
        self.law.count(self.of_state(state), x, gamma, sums);
    }

    fn on_device(&self) -> Option<Coded> {
        Some(Coded { law: Arc::clone(&self.law), parameters: self.parameters.clone(), skipped: 0 })
    }

    fn prepare(&self, x: &[f64], prepared: &mut [f64]) {
        prepared.copy_from_slice(x);
    }
}
