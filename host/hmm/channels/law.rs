//! Emissions as code, whatever their types: densities and sums on the CPU, and launches of their kernels.

use std::any::Any;
use std::sync::Arc;

use warpkov_device::launch::Shape;
use warpkov_kernels::hmm::emission::{CompiledEmission, Natural, ObservedLaunch, sums_len};
use warpkov_kernels::hmm::model::Split;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_runtime::gpu::Modules;

/// The densities of a channel as code that a device runs.
pub(crate) struct Coded {
    pub law: Arc<dyn Law>,
    /// θ, N × P.
    pub parameters: Vec<f64>,
    /// How many sums of the law come before those of the family.
    pub skipped: usize,
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

/// An emission as a law.
pub(super) fn compiled<E: CompiledEmission>(emission: E, modules: Option<&'static Modules>) -> Arc<dyn Law> {
    Arc::new(Compiled { emission, modules })
}

/// The law of an exponential family, whose kernels are among those of the solvers.
pub(crate) fn natural(statistics: usize) -> Arc<dyn Law> {
    compiled(Natural { statistics: statistics as u32 }, None)
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
