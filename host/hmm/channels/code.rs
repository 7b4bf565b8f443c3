//! Emissions as Rust code.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use warpkov_common::random::unit;
use warpkov_device::launch::Shape;
use warpkov_kernels::hmm::emission::{CompiledEmission, Natural, ObservedLaunch, sums_len};
use warpkov_kernels::hmm::model::Split;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_runtime::gpu::Modules;

use super::family::{Density, Domain, Drawn, Estimated, LEAST_WEIGHT, OnDevice, Parameter, Parametric, Sizes};

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
        Self { law: Arc::new(Compiled { emission, modules: modules.into() }), parameters }
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

    fn on_device(&self) -> Option<OnDevice> {
        Some(OnDevice { law: Arc::clone(&self.law), parameters: self.parameters.clone(), skipped: 0 })
    }

    fn prepare(&self, x: &[f64], prepared: &mut [f64]) {
        prepared.copy_from_slice(x);
    }
}

/// An emission, whatever its type: what the recursions on the CPU and on devices need of it.
pub(crate) trait Law: Send + Sync {
    /// The name of the type.
    fn name(&self) -> &'static str;

    /// The value of the type.
    fn words(&self) -> Vec<u64>;

    /// C.
    fn components(&self) -> usize;

    /// P.
    fn parameters(&self) -> usize;

    /// Sums per state: of γ, and of γ times each statistic.
    fn sums(&self) -> usize;

    /// Adds ln bⱼ(x) to each of the N `logs`. `parameters` are N × P.
    fn add_to(&self, parameters: &[f64], x: &[f64], logs: &mut [f64]);

    /// Adds x to the sums of a state, `gamma` times.
    fn count(&self, theta: &[f64], x: &[f64], gamma: f64, sums: &mut [f64]);

    /// The M step of a state.
    fn maximise(&self, theta: &mut [f64], weight: f64, sums: &[f64]);

    /// Draws x in a state.
    fn draw(&self, theta: &[f64], uniform: &mut dyn FnMut() -> f64) -> Option<Vec<f64>>;

    /// Makes the kernels known to a device.
    fn add_to_device(&self, device: &AnyDevice) -> Result<(), DeviceError>;

    /// Launches [`Observed::add_logs`](warpkov_kernels::hmm::emission::Observed::add_logs).
    ///
    /// # Safety
    /// As there.
    unsafe fn launch_logs(
        &self,
        device: &AnyDevice,
        shape: Shape,
        observed: ObservedLaunch<'_, AnyDevice>,
        logs: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError>;

    /// Launches [`Observed::sum`](warpkov_kernels::hmm::emission::Observed::sum) with γ in a buffer of f32 or f64.
    ///
    /// # Safety
    /// As there.
    unsafe fn launch_sums(
        &self,
        device: &AnyDevice,
        shape: Shape,
        observed: ObservedLaunch<'_, AnyDevice>,
        window: (u32, Split),
        gamma: &dyn Any,
        parts: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError>;
}

/// The law of an exponential family, whose kernels are among those of the solvers.
pub(crate) fn natural(statistics: usize) -> Arc<dyn Law> {
    Arc::new(Compiled { emission: Natural { statistics: statistics as u32 }, modules: None })
}

/// An emission with the module of its kernels.
struct Compiled<E> {
    emission: E,
    modules: Option<&'static Modules>,
}

impl<E: CompiledEmission> Law for Compiled<E> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn words(&self) -> Vec<u64> {
        let mut words = Vec::new();
        self.emission.to_words(&mut |word| words.push(word));
        words
    }

    fn components(&self) -> usize {
        self.emission.components() as usize
    }

    fn parameters(&self) -> usize {
        self.emission.parameters() as usize
    }

    fn sums(&self) -> usize {
        sums_len(&self.emission) as usize
    }

    fn add_to(&self, parameters: &[f64], x: &[f64], logs: &mut [f64]) {
        let width = self.parameters();
        for (state, log) in logs.iter_mut().enumerate() {
            let theta = &parameters[state * width..][..width];
            *log += self.emission.log_density(|p| theta[p as usize], |c| x[c as usize]);
        }
    }

    fn count(&self, theta: &[f64], x: &[f64], gamma: f64, sums: &mut [f64]) {
        let [weight, sums @ ..] = sums else { return };
        *weight += gamma;
        for (index, sum) in (0..).zip(sums) {
            *sum += gamma * self.emission.statistic(index, |p| theta[p as usize], |c| x[c as usize]);
        }
    }

    fn maximise(&self, theta: &mut [f64], weight: f64, sums: &[f64]) {
        self.emission.maximise(theta, weight, sums);
    }

    fn draw(&self, theta: &[f64], uniform: &mut dyn FnMut() -> f64) -> Option<Vec<f64>> {
        self.emission.draw(theta, uniform)
    }

    fn add_to_device(&self, device: &AnyDevice) -> Result<(), DeviceError> {
        match (device.gpu(), self.modules) {
            (Some(gpu), Some(modules)) => Ok(gpu.add(modules)?),
            _ => Ok(()),
        }
    }

    unsafe fn launch_logs(
        &self,
        device: &AnyDevice,
        shape: Shape,
        observed: ObservedLaunch<'_, AnyDevice>,
        logs: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.emission.add_logs(device, shape, observed, logs) }
    }

    unsafe fn launch_sums(
        &self,
        device: &AnyDevice,
        shape: Shape,
        observed: ObservedLaunch<'_, AnyDevice>,
        window: (u32, Split),
        gamma: &dyn Any,
        parts: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe {
            match (gamma.downcast_ref::<AnyBuffer<f32>>(), gamma.downcast_ref::<AnyBuffer<f64>>()) {
                (Some(gamma), _) => self.emission.sum(device, shape, observed, window, gamma, parts),
                (_, Some(gamma)) => self.emission.sum(device, shape, observed, window, gamma, parts),
                _ => Err(DeviceError::Missing("γ is neither f32 nor f64")),
            }
        }
    }
}
