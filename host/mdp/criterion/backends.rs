//! Backends for the criteria: CPU, GPU and emulator.

use warpkov_device::launch::Device;

use super::{Bounded, Boxed, Criterion, Error, Make, Observe, Options, Stages, Steps, backward, solve};
use crate::mdp::auto::{Sweeps, criterion_cost};
use crate::mdp::cpu::{Engine, EngineOptions};
use crate::mdp::device::{SweepLayout, ValueIteration};
use crate::mdp::dynamic::Unified;
use crate::mdp::error::SolveError;
use crate::mdp::model::Mdp;
use crate::mdp::options::Storage;
use crate::runtime;
use crate::runtime::choose::{DeviceChoice, Place};

/// Backends on all CPU cores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Make for Cpu {
    type Error = SolveError;

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, SolveError>, SolveError> {
        Ok(Box::new(Unified(Engine::<f64>::new(mdp, EngineOptions::default()))))
    }
}

/// Backends on a GPU or the emulator.
pub struct OnDevice<D>(pub D);

impl<D: Device> Make for OnDevice<D>
where
    SolveError: From<D::Error>,
{
    type Error = SolveError;

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, SolveError>, SolveError> {
        let layout = SweepLayout::new(mdp, None).ok_or(SolveError::Storage(Storage::Rows))?;
        Ok(match layout.is_wide() {
            false => Box::new(Unified(ValueIteration::<f64, u32, D>::new(&self.0, &layout)?)),
            true => Box::new(Unified(ValueIteration::<f64, u64, D>::new(&self.0, &layout)?)),
        })
    }
}

/// A solution and the device that computed it.
#[derive(Clone, Debug)]
pub struct Solved {
    /// The solution.
    pub bounded: Bounded,
    /// The name of the device.
    pub device: String,
    /// Automatic choices and their reasons.
    pub notes: Vec<String>,
}

/// Runs [`solve`](super::solve) on a device.
///
/// # Errors
/// The errors of [`solve`](super::solve), and an unavailable device.
pub fn solve_on(
    device: DeviceChoice,
    mdp: &Mdp,
    criterion: &Criterion,
    options: &Options,
    observe: &mut Observe,
) -> Result<Solved, Error<SolveError>> {
    let Opened { make, device, notes } =
        Opened::new(device, mdp, Sweeps::Unknown).map_err(|error| Error::Backend(error.into()))?;
    let bounded = solve(mdp, criterion, options, &*make, &mut |round| observe(round))?;
    Ok(Solved { bounded, device, notes })
}

/// Runs [`backward`](super::backward) on a device. Returns the solution and, if `keep`, all steps.
///
/// # Errors
/// The errors of [`backward`](super::backward), and an unavailable device.
pub fn backward_on(
    device: DeviceChoice,
    mdp: &Mdp,
    steps: u32,
    terminal: Option<&[f64]>,
    keep: bool,
    observe: &mut Observe,
) -> Result<(Solved, Option<Steps>), Error<SolveError>> {
    let Opened { make, device, notes } =
        Opened::new(device, mdp, Sweeps::Steps(steps)).map_err(|error| Error::Backend(error.into()))?;
    let Stages { bounded, steps } = backward(mdp, steps, terminal, keep, &*make, &mut |round| observe(round))?;
    Ok((Solved { bounded, device, notes }, steps))
}

/// An open device.
struct Opened {
    make: Box<dyn Make<Error = SolveError>>,
    /// The name of the device.
    device: String,
    notes: Vec<String>,
}

impl Opened {
    fn new(device: DeviceChoice, mdp: &Mdp, sweeps: Sweeps) -> Result<Self, runtime::Error> {
        let (place, note) = Place::open(device, Some(&criterion_cost(mdp, sweeps)))?;
        let device = place.name();
        let make: Box<dyn Make<Error = SolveError>> = match place {
            Place::Cpu => Box::new(Cpu),
            Place::Gpu(gpu) => Box::new(OnDevice(gpu)),
            Place::Emulated(emulator) => Box::new(OnDevice(emulator)),
        };
        Ok(Self { make, device, notes: note.into_iter().collect() })
    }
}
