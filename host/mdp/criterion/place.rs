//! The places where models are swept: CPU, GPU, emulator.

use warpkov_kernels::launch::Device;

use super::{Bounded, Boxed, Criterion, Error, Make, Observe, Options, Stages, Steps, backward, solve};
use crate::backend::cuda::Gpu;
use crate::mdp::SolveError;
use crate::mdp::backend::{Backup, Backups, State, Stop};
use crate::mdp::cpu::{Engine, EngineOptions};
use crate::mdp::device::{Plan, Values};
use crate::mdp::model::Mdp;
use crate::mdp::options::Storage;
use crate::runtime::choose::DeviceChoice;
use crate::runtime::emulator;

/// All CPU cores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Make for Cpu {
    type Error = SolveError;

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, SolveError>, SolveError> {
        Ok(Box::new(Unified(Engine::<f64>::new(mdp, EngineOptions::default()))))
    }
}

/// A GPU, or the emulator.
pub struct OnDevice<D>(pub D);

impl<D: Device> Make for OnDevice<D>
where
    SolveError: From<D::Error>,
{
    type Error = SolveError;

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, SolveError>, SolveError> {
        let plan = Plan::new(mdp, None).ok_or(SolveError::Storage(Storage::Rows))?;
        Ok(match plan.is_wide() {
            false => Box::new(Unified(Values::<f64, u32, D>::new(&self.0, &plan)?)),
            true => Box::new(Unified(Values::<f64, u64, D>::new(&self.0, &plan)?)),
        })
    }
}

/// A solution, and where it was found.
#[derive(Clone, Debug)]
pub struct Solved {
    /// The solution.
    pub bounded: Bounded,
    /// The device, in words.
    pub device: String,
    /// What was chosen on the user's behalf, and why.
    pub notes: Vec<String>,
}

/// [`solve`](super::solve) on a device.
///
/// # Errors
/// As there, and that there is no such device.
pub fn solve_on(
    device: DeviceChoice,
    mdp: &Mdp,
    criterion: &Criterion,
    options: &Options,
    observe: &mut Observe,
) -> Result<Solved, Error<SolveError>> {
    let Place { make, device, notes } = Place::open(device).map_err(Error::Backend)?;
    let bounded = solve(mdp, criterion, options, &*make, &mut |round| observe(round))?;
    Ok(Solved { bounded, device, notes })
}

/// [`backward`](super::backward) on a device: the solution without the stages that it is made of, and these.
///
/// # Errors
/// As there, and that there is no such device.
pub fn backward_on(
    device: DeviceChoice,
    mdp: &Mdp,
    steps: u32,
    terminal: Option<&[f64]>,
    keep: bool,
    observe: &mut Observe,
) -> Result<(Solved, Option<Steps>), Error<SolveError>> {
    let Place { make, device, notes } = Place::open(device).map_err(Error::Backend)?;
    let Stages { bounded, steps } = backward(mdp, steps, terminal, keep, &*make, &mut |round| observe(round))?;
    Ok((Solved { bounded, device, notes }, steps))
}

/// A place, opened.
struct Place {
    make: Box<dyn Make<Error = SolveError>>,
    /// In words.
    device: String,
    notes: Vec<String>,
}

impl Place {
    fn open(device: DeviceChoice) -> Result<Self, SolveError> {
        let ordinal = match device {
            DeviceChoice::Cpu => return Ok(Self::cpu(Vec::new())),
            DeviceChoice::Emulated => {
                let make = Box::new(OnDevice(emulator()));
                return Ok(Self { make, device: "the emulator".to_owned(), notes: Vec::new() });
            }
            DeviceChoice::Auto => 0,
            DeviceChoice::Cuda(ordinal) => ordinal,
        };
        match Gpu::open(ordinal) {
            Ok(gpu) => Ok(Self { device: gpu.name(), make: Box::new(OnDevice(gpu)), notes: Vec::new() }),
            Err(error) if device == DeviceChoice::Auto => Ok(Self::cpu(vec![format!("auto chose the CPU: {error}")])),
            Err(error) => Err(error.into()),
        }
    }

    fn cpu(notes: Vec<String>) -> Self {
        Self { make: Box::new(Cpu), device: crate::runtime::cores::all(), notes }
    }
}

/// A backend whose errors are those of all.
struct Unified<B>(B);

impl<B: State> State for Unified<B>
where
    SolveError: From<B::Error>,
{
    type Error = SolveError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), SolveError> {
        Ok(self.0.reset(initial)?)
    }

    fn values(&mut self) -> Result<Vec<f64>, SolveError> {
        Ok(self.0.values()?)
    }

    fn policy(&mut self) -> Result<Vec<u32>, SolveError> {
        Ok(self.0.policy()?)
    }

    fn sweep_bytes(&mut self) -> Result<u64, SolveError> {
        Ok(self.0.sweep_bytes()?)
    }
}

impl<B: Backup> Backup for Unified<B>
where
    SolveError: From<B::Error>,
{
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, SolveError> {
        Ok(self.0.backup(stop, max_sweeps)?)
    }
}
