//! From what the user asks to a backend: which device, which method, in which types.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use warpkov_kernels::device::Offset;
use warpkov_kernels::emulator::{Emulator, EmulatorError};
use warpkov_kernels::launch::Device;

use super::certificate::certify;
use super::model::Mdp;
use super::options::{DeviceChoice, Method, Precision, Solution, SolveOptions};
use super::solve::{Backend, Round, Run, policy_iteration};
use crate::backend::cuda::{CudaError, Gpu};
use crate::backend::device::{Layout, Plain, Projected};
use crate::backend::{Precise, cpu};

/// Why a model is not solved.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The method does not run on the device.
    #[error("method {method} does not run on --device {device}: {instead}")]
    Unsupported {
        /// The method asked for.
        method: Method,
        /// The device asked for.
        device: DeviceChoice,
        /// What would.
        instead: &'static str,
    },
    /// No such device, not enough of its memory, or it failed.
    #[error(transparent)]
    Device(#[from] CudaError),
    /// An emulated kernel did what it must not.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
}

impl From<Infallible> for SolveError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Called after each round; breaks to stop the run.
pub type Observer<'a> = &'a mut dyn FnMut(&Round) -> ControlFlow<()>;

/// Solves a model by policy iteration, and certifies the result.
///
/// # Errors
/// [`SolveError`]; that a run meets a limit is no error but its [`Status`](super::solve::Status).
pub fn solve_with(mdp: &Mdp, options: &SolveOptions, observe: Observer) -> Result<Solution, SolveError> {
    let Place { device, notes } = choose(mdp, options)?;
    let method = options.method.unwrap_or(match device {
        Chosen::Cpu => Method::Parallel,
        Chosen::Gpu(_) | Chosen::Emulated => Method::Projected,
    });
    let (name, outcome) = match device {
        Chosen::Cpu => {
            let cores = if method == Method::Serial { 1 } else { rayon::current_num_threads() };
            let name = format!("{cores} CPU {}", if cores == 1 { "core" } else { "cores" });
            let outcome = match options.precision {
                Precision::F32 => on_cpu::<f32>(mdp, method, options, observe),
                Precision::F64 => on_cpu::<f64>(mdp, method, options, observe),
            };
            (name, outcome?)
        }
        Chosen::Gpu(gpu) => {
            let reserve = |bytes| gpu.reserve(bytes, "the model");
            (gpu.name(), on_device(&gpu, mdp, method, options, reserve, observe)?)
        }
        Chosen::Emulated => {
            let emulator = Emulator::default();
            ("the emulator".to_owned(), on_device(&emulator, mdp, method, options, |_| Ok(()), observe)?)
        }
    };
    let Outcome { values, policy, run, setup } = outcome;
    let certificate = certify(mdp, &values);
    Ok(Solution { values, policy, run, certificate, method, precision: options.precision, device: name, notes, setup })
}

/// A device, and what there is to say of the choice.
struct Place {
    device: Chosen,
    notes: Vec<String>,
}

enum Chosen {
    Cpu,
    Gpu(Gpu),
    Emulated,
}

fn choose(mdp: &Mdp, options: &SolveOptions) -> Result<Place, SolveError> {
    let on_cpu = matches!(options.method, Some(Method::Serial | Method::Parallel));
    let on_gpu = matches!(options.method, Some(Method::Plain | Method::Projected));
    let unsupported = |instead| match options.method {
        Some(method) => Err(SolveError::Unsupported { method, device: options.device, instead }),
        None => Ok(()),
    };
    let place = |device| Ok(Place { device, notes: Vec::new() });
    match options.device {
        DeviceChoice::Cpu if on_gpu => unsupported("it needs --device cuda:N or emulated")?,
        DeviceChoice::Cuda(_) | DeviceChoice::Emulated if on_cpu => unsupported("it needs --device cpu")?,
        _ => {}
    }
    match options.device {
        DeviceChoice::Cpu => place(Chosen::Cpu),
        DeviceChoice::Emulated => place(Chosen::Emulated),
        DeviceChoice::Cuda(ordinal) => place(Chosen::Gpu(Gpu::open(ordinal)?)),
        DeviceChoice::Auto if on_cpu => place(Chosen::Cpu),
        DeviceChoice::Auto => match Gpu::open(0).and_then(|gpu| {
            gpu.reserve(bytes_on_device(mdp, options), "the model")?;
            Ok(gpu)
        }) {
            Ok(gpu) => place(Chosen::Gpu(gpu)),
            Err(error) if on_gpu => Err(error.into()),
            Err(error) => Ok(Place {
                device: Chosen::Cpu,
                notes: vec![format!("auto chose the CPU, because {}", reason(&error))],
            }),
        },
    }
}

/// An error as part of a sentence.
fn reason(error: &CudaError) -> String {
    error.to_string()
}

/// What a backend made of the model.
struct Outcome {
    values: Vec<f64>,
    policy: Vec<u32>,
    run: Run,
    setup: Duration,
}

fn on_cpu<T: Precise>(
    mdp: &Mdp,
    method: Method,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Outcome, SolveError> {
    let start = Instant::now();
    match method {
        Method::Serial => run(cpu::Serial::<T>::new(mdp), start, options, observe),
        _ => run(cpu::Parallel::<T>::new(mdp), start, options, observe),
    }
}

/// Whether offsets into the model, or into any P^π, need 64 bits.
fn is_wide(mdp: &Mdp, layout: Layout) -> bool {
    layout.capacity(mdp).max(mdp.transitions.nnz()) > u32::MAX as usize
}

fn bytes_on_device(mdp: &Mdp, options: &SolveOptions) -> u64 {
    fn of<T: Precise, O: Offset>(mdp: &Mdp, method: Option<Method>, layout: Layout) -> u64 {
        match method {
            Some(Method::Plain) => Plain::<T, O, Emulator>::bytes(mdp),
            _ => Projected::<T, O, Emulator>::bytes(mdp, layout),
        }
    }
    let layout = Layout::choose(mdp);
    match (options.precision, is_wide(mdp, layout)) {
        (Precision::F32, false) => of::<f32, u32>(mdp, options.method, layout),
        (Precision::F32, true) => of::<f32, u64>(mdp, options.method, layout),
        (Precision::F64, false) => of::<f64, u32>(mdp, options.method, layout),
        (Precision::F64, true) => of::<f64, u64>(mdp, options.method, layout),
    }
}

fn on_device<D: Device>(
    device: &D,
    mdp: &Mdp,
    method: Method,
    options: &SolveOptions,
    reserve: impl Fn(u64) -> Result<(), D::Error>,
    observe: Observer,
) -> Result<Outcome, SolveError>
where
    SolveError: From<D::Error>,
{
    fn typed<T: Precise, O: Offset, D: Device>(
        device: &D,
        mdp: &Mdp,
        method: Method,
        layout: Layout,
        options: &SolveOptions,
        observe: Observer,
    ) -> Result<Outcome, SolveError>
    where
        SolveError: From<D::Error>,
    {
        let start = Instant::now();
        match method {
            Method::Plain => run(Plain::<T, O, D>::new(device, mdp)?, start, options, observe),
            _ => run(Projected::<T, O, D>::new(device, mdp, layout)?, start, options, observe),
        }
    }
    reserve(bytes_on_device(mdp, options))?;
    let layout = Layout::choose(mdp);
    match (options.precision, is_wide(mdp, layout)) {
        (Precision::F32, false) => typed::<f32, u32, D>(device, mdp, method, layout, options, observe),
        (Precision::F32, true) => typed::<f32, u64, D>(device, mdp, method, layout, options, observe),
        (Precision::F64, false) => typed::<f64, u32, D>(device, mdp, method, layout, options, observe),
        (Precision::F64, true) => typed::<f64, u64, D>(device, mdp, method, layout, options, observe),
    }
}

fn run<B: Backend>(
    mut backend: B,
    start: Instant,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Outcome, SolveError>
where
    SolveError: From<B::Error>,
{
    let setup = start.elapsed();
    let run = policy_iteration(&mut backend, &options.limits, observe)?;
    Ok(Outcome { values: backend.values()?, policy: backend.policy()?, run, setup })
}
