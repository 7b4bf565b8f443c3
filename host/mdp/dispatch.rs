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
use super::solve::{Backend, Limits, Round, Run, policy_iteration};
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
    let Done { result, method, device, notes, setup } =
        with_backend(mdp, options, Solve { limits: &options.limits, observe })?;
    let Solved { values, policy, run } = result;
    let certificate = certify(mdp, &values);
    Ok(Solution { values, policy, run, certificate, method, precision: options.precision, device, notes, setup })
}

struct Solve<'a> {
    limits: &'a Limits,
    observe: Observer<'a>,
}

struct Solved {
    values: Vec<f64>,
    policy: Vec<u32>,
    run: Run,
}

impl Job for Solve<'_> {
    type Result = Solved;

    fn run<B: Backend>(self, mut backend: B) -> Result<Solved, SolveError>
    where
        SolveError: From<B::Error>,
    {
        let run = policy_iteration(&mut backend, self.limits, self.observe)?;
        Ok(Solved { values: backend.values()?, policy: backend.policy()?, run })
    }
}

/// Something to do with a backend, whichever it is.
pub trait Job {
    /// What comes of it.
    type Result;

    /// Does it.
    fn run<B: Backend>(self, backend: B) -> Result<Self::Result, SolveError>
    where
        SolveError: From<B::Error>;
}

/// What came of a job, and where it was done.
pub struct Done<R> {
    /// What came of it.
    pub result: R,
    /// The method, asked for or chosen.
    pub method: Method,
    /// The device, in words.
    pub device: String,
    /// What was chosen on the user's behalf, and why.
    pub notes: Vec<String>,
    /// Time to convert the model and to bring it to the device.
    pub setup: Duration,
}

/// Chooses the device, the method and the types, brings the model there, and does the job.
///
/// # Errors
/// [`SolveError`].
pub fn with_backend<J: Job>(mdp: &Mdp, options: &SolveOptions, job: J) -> Result<Done<J::Result>, SolveError> {
    let Place { device, notes } = choose(mdp, options)?;
    let method = options.method.unwrap_or(match device {
        Chosen::Cpu => Method::Parallel,
        Chosen::Gpu(_) | Chosen::Emulated => Method::Projected,
    });
    let (device, (result, setup)) = match device {
        Chosen::Cpu => {
            let cores = if method == Method::Serial { 1 } else { rayon::current_num_threads() };
            let name = format!("{cores} CPU {}", if cores == 1 { "core" } else { "cores" });
            let done = match options.precision {
                Precision::F32 => on_cpu::<f32, J>(mdp, method, job),
                Precision::F64 => on_cpu::<f64, J>(mdp, method, job),
            };
            (name, done?)
        }
        Chosen::Gpu(gpu) => (gpu.name(), on_device(&gpu, mdp, method, options.precision, job)?),
        Chosen::Emulated => {
            ("the emulator".to_owned(), on_device(&Emulator::default(), mdp, method, options.precision, job)?)
        }
    };
    Ok(Done { result, method, device, notes, setup })
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
        DeviceChoice::Cuda(ordinal) => place(Chosen::Gpu(open_with_room(ordinal, mdp, options)?)),
        DeviceChoice::Auto if on_cpu => place(Chosen::Cpu),
        DeviceChoice::Auto => match open_with_room(0, mdp, options) {
            Ok(gpu) => place(Chosen::Gpu(gpu)),
            Err(error) if on_gpu => Err(error.into()),
            Err(error) => Ok(Place { device: Chosen::Cpu, notes: vec![format!("auto chose the CPU: {error}")] }),
        },
    }
}

/// A GPU with enough free memory for the model.
fn open_with_room(ordinal: u32, mdp: &Mdp, options: &SolveOptions) -> Result<Gpu, CudaError> {
    let gpu = Gpu::open(ordinal)?;
    gpu.reserve(bytes_on_device(mdp, options), "the model")?;
    Ok(gpu)
}

fn on_cpu<T: Precise, J: Job>(mdp: &Mdp, method: Method, job: J) -> Result<(J::Result, Duration), SolveError> {
    let start = Instant::now();
    match method {
        Method::Serial => timed(start, Ok::<_, Infallible>(cpu::Serial::<T>::new(mdp)), job),
        _ => timed(start, Ok::<_, Infallible>(cpu::Parallel::<T>::new(mdp)), job),
    }
}

/// Does the job on a backend whose making began at `start`.
fn timed<B: Backend, J: Job>(
    start: Instant,
    backend: Result<B, B::Error>,
    job: J,
) -> Result<(J::Result, Duration), SolveError>
where
    SolveError: From<B::Error>,
{
    let backend = backend?;
    let setup = start.elapsed();
    Ok((job.run(backend)?, setup))
}

/// Whether offsets into the model, or into any P^π, need 64 bits. Kernels look a few rows of a slice beyond an offset
/// before they compare it with the end, and that must not wrap around.
fn is_wide(mdp: &Mdp, layout: Layout) -> bool {
    layout.capacity(mdp).max(mdp.transitions.nnz()) > u32::MAX as usize - 1024
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

fn on_device<D: Device, J: Job>(
    device: &D,
    mdp: &Mdp,
    method: Method,
    precision: Precision,
    job: J,
) -> Result<(J::Result, Duration), SolveError>
where
    SolveError: From<D::Error>,
{
    fn typed<T: Precise, O: Offset, D: Device, J: Job>(
        device: &D,
        mdp: &Mdp,
        method: Method,
        layout: Layout,
        job: J,
    ) -> Result<(J::Result, Duration), SolveError>
    where
        SolveError: From<D::Error>,
    {
        let start = Instant::now();
        match method {
            Method::Plain => timed(start, Plain::<T, O, D>::new(device, mdp), job),
            _ => timed(start, Projected::<T, O, D>::new(device, mdp, layout), job),
        }
    }
    let layout = Layout::choose(mdp);
    match (precision, is_wide(mdp, layout)) {
        (Precision::F32, false) => typed::<f32, u32, D, J>(device, mdp, method, layout, job),
        (Precision::F32, true) => typed::<f32, u64, D, J>(device, mdp, method, layout, job),
        (Precision::F64, false) => typed::<f64, u32, D, J>(device, mdp, method, layout, job),
        (Precision::F64, true) => typed::<f64, u64, D, J>(device, mdp, method, layout, job),
    }
}
