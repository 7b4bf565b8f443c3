//! Benchmarks of the recursions and of a training step, on a GPU with resident models and sequences, or on all cores.

pub mod figures;

use std::convert::Infallible;
use std::time::Instant;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use serde::Serialize;
use warpkov_device::launch::Device;

use warpkov_common::choice::choice;
use warpkov_hmm::backend::Recursions;
use warpkov_hmm::backends::cpu;
use warpkov_hmm::backends::device::{Batch, ForwardMethod, Limits, OverPaths, Scan};
use warpkov_hmm::generate::{Error, Kind, Uniform};
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::{Options, Precision};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::Sequences;
use warpkov_runtime::Precise;
use warpkov_runtime::choose::Place;
use warpkov_runtime::error::from_devices;
use warpkov_runtime::gpu::CudaError;

/// V in all cases.
pub const SYMBOLS: u32 = 16;

/// Maximum number of slices whose launches are recorded as one graph: it has four nodes for each.
const RECORDED_SLICES: u32 = 1 << 14;

/// N states, M sequences of T steps each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// N.
    pub states: u32,
    /// M.
    pub sequences: u32,
    /// T.
    pub steps: u32,
}

/// Cases with published times.
pub const CASES: [Case; 4] = [case(64, 64, 16), case(128, 128, 64), case(512, 512, 16), case(16, 4096, 1024)];

/// Cases of one long sequence, for a comparison of the scan with the plain recursion.
pub const LONG: [Case; 3] = [case(8, 1, 1_000_000), case(32, 1, 1_000_000), case(64, 1, 1_000_000)];

const fn case(states: u32, sequences: u32, steps: u32) -> Case {
    Case { states, sequences, steps }
}

choice! {
    /// The measured operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Operation {
        /// Forward recursion: ln P(O).
        Forward = "forward",
        /// Viterbi recursion: the most probable paths.
        Viterbi = "viterbi",
        /// E step: expected counts, which stay on the device.
        EStep = "e-step",
        /// A training step: expected counts, and the M step on the device.
        BaumWelch = "baum-welch",
    }
}

/// A random model and sequences sampled from it.
#[derive(Clone, Debug)]
pub struct Work {
    case: Case,
    model: Hmm,
    sequences: Sequences,
}

impl Work {
    /// The work of a case, with fixed seeds.
    ///
    /// # Errors
    /// If the model cannot be generated or sampled.
    pub fn new(case: Case) -> Result<Self, BenchError> {
        let model = Uniform { states: case.states, kind: Kind::Symbols(SYMBOLS), ends: false, seed: 1 }.generate()?;
        let drawn = sample(&model, case.sequences as usize, Some(case.steps as usize), 2)?;
        Ok(Self { case, model, sequences: drawn.sequences })
    }
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The operation.
    pub operation: Operation,
    /// The method of the forward recursion.
    pub method: ForwardMethod,
    /// Whether the parallel scan over time ran.
    pub scan: bool,
    /// The floating-point type.
    pub precision: Precision,
    /// Name of the GPU, or the number of cores.
    pub device: String,
    /// The times.
    #[serde(flatten)]
    pub times: Times,
}

/// Times of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Times {
    /// The operation ran.
    Measured {
        /// Number of runs.
        runs: usize,
        /// The median, by GPU events or the CPU clock. CPU times include the transfer of results to the caller.
        milliseconds: f64,
        /// The minimum.
        least_milliseconds: f64,
        /// Growth of device memory between the second run and the last, in bytes.
        growth_bytes: u64,
    },
    /// The GPU's memory does not suffice.
    Lacking {
        /// The requested and the free memory.
        out_of_memory: String,
    },
}

/// Why a measurement fails.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The model cannot be generated.
    #[error(transparent)]
    Generate(#[from] Error),
    /// The sequences cannot be sampled.
    #[error(transparent)]
    Sample(#[from] warpkov_hmm::sample::Error),
    /// The device failed.
    #[error(transparent)]
    Runtime(#[from] warpkov_runtime::Error),
}

from_devices!(BenchError);

/// An operation on some work at a place, on sequences cut as `scan` says. The CPU and [`ForwardMethod::Slices`] cut no sequences, and have
/// f32 in place of TF32. Each step of training begins with the model of the step before.
#[derive(Clone, Copy)]
pub struct Trial<'a> {
    /// The CPU or the GPU.
    pub place: &'a Place,
    /// The model and its sequences.
    pub work: &'a Work,
    /// What is measured.
    pub operation: Operation,
    /// The floating-point type.
    pub precision: Precision,
    /// When the scan over time replaces the plain recursion.
    pub scan: Scan,
    /// That of [`Operation::Forward`] on a device; other operations, and the CPU, have one method.
    pub method: ForwardMethod,
}

impl Trial<'_> {
    /// Times of several runs. A GPU launches all kernels of the operation as one graph, but for more than 2¹⁴ slices.
    ///
    /// # Errors
    /// Those of the device, except a lack of memory: that is a result.
    pub fn measure(&self, runs: usize) -> Result<Measured, BenchError> {
        let &Self { place, work, operation, precision, method, .. } = self;
        let limits = self.limits();
        let times = match precision {
            Precision::F64 => time::<f64>(place, work, operation, limits, runs),
            Precision::F32 | Precision::Tf32 => time::<f32>(place, work, operation, limits, runs),
        };
        let times = match times {
            Err(warpkov_runtime::Error::Device(error @ CudaError::OutOfMemory { .. })) => {
                Times::Lacking { out_of_memory: error.to_string() }
            }
            times => times?,
        };
        let (case, scan, device) = (work.case, limits.chunks.is_some(), place.name());
        Ok(Measured { case, operation, method, scan, precision, device, times })
    }

    /// One run on a device, and nothing on a CPU.
    ///
    /// # Errors
    /// Those of the device.
    pub fn once(&self) -> Result<(), BenchError> {
        fn once<T: Precise>(device: &AnyDevice, trial: &Trial) -> Result<(), DeviceError> {
            launch(&mut batch::<T>(device, trial.work, trial.limits())?, trial.operation)?;
            device.synchronize()
        }
        let Place::Device(device) = self.place else { return Ok(()) };
        Ok(match self.precision {
            Precision::F64 => once::<f64>(device, self),
            Precision::F32 | Precision::Tf32 => once::<f32>(device, self),
        }?)
    }

    fn limits(&self) -> Limits {
        let over = if self.operation == Operation::Viterbi { OverPaths::Maxima } else { OverPaths::Sums };
        let chunks = match (self.place, self.method) {
            (Place::Device(_), ForwardMethod::Fused) => {
                self.scan.steps(over, self.work.case.states, 1, &self.work.sequences)
            }
            _ => None,
        };
        let plain_tf32 = self.precision == Precision::Tf32;
        Limits { chunks, plain_tf32, method: self.method, ..Limits::default() }
    }
}

/// The model and the sequences of the work on a device.
fn batch<'d, T: Precise>(device: &'d AnyDevice, work: &'d Work, limits: Limits) -> Result<Batch<'d, T>, DeviceError> {
    // The other half is for models and sums.
    let half = device.free_memory()?.map_or(usize::MAX, |free| free as usize / 2);
    let limits = Limits { trellis: limits.trellis.min(half), ..limits };
    let mut batch = Batch::<T>::new(device, &work.sequences, limits)?;
    batch.set_models(std::slice::from_ref(&work.model))?;
    Ok(batch)
}

fn time<T: Precise>(
    place: &Place,
    work: &Work,
    operation: Operation,
    limits: Limits,
    runs: usize,
) -> Result<Times, warpkov_runtime::Error> {
    Ok(match place {
        Place::Cpu => time_on_cpu::<T>(work, operation, runs),
        Place::Device(device) => time_on_device::<T>(device, work, operation, limits, runs)?,
    })
}

/// Launches the kernels of an operation.
fn launch<T: Precise>(batch: &mut Batch<T>, operation: Operation) -> Result<(), DeviceError> {
    match operation {
        Operation::Forward => batch.score(),
        Operation::Viterbi => batch.decode(),
        Operation::EStep => batch.count(),
        Operation::BaumWelch => {
            batch.count()?;
            batch.maximise([0.0; 3])
        }
    }
}

fn time_on_device<T: Precise>(
    device: &AnyDevice,
    work: &Work,
    operation: Operation,
    limits: Limits,
    runs: usize,
) -> Result<Times, DeviceError> {
    let mut batch = batch::<T>(device, work, limits)?;
    // The first run allocates the memory of all runs.
    launch(&mut batch, operation)?;
    device.synchronize()?;
    let recorded = limits.method == ForwardMethod::Fused || work.case.steps <= RECORDED_SLICES;
    let graph = if recorded { device.capture(|| launch(&mut batch, operation))? } else { None };
    let mut again = || match &graph {
        // SAFETY: the batch with all buffers of the graph is alive, and the same launches are valid again.
        Some(graph) => unsafe { device.launch_graph(graph) },
        None => launch(&mut batch, operation),
    };
    again()?;
    device.synchronize()?;
    let before = device.free_memory()?.unwrap_or_default();
    let times = (0..runs.max(1)).map(|_| Ok(device.time(&mut again)?.as_secs_f64()));
    let times = times.collect::<Result<Vec<_>, DeviceError>>()?;
    let after = device.free_memory()?.unwrap_or_default();
    Ok(summary(times, before.saturating_sub(after)))
}

fn time_on_cpu<T: Precise>(work: &Work, operation: Operation, runs: usize) -> Times {
    let mut batch = cpu::Batch::<T>::new(&work.sequences);
    let Ok(()) = batch.set_models(std::slice::from_ref(&work.model));
    let again = || -> Result<(), Infallible> {
        match operation {
            Operation::Forward => batch.log_likelihoods().map(drop),
            Operation::Viterbi => batch.viterbi().map(drop),
            Operation::EStep => batch.e_step().map(drop),
            Operation::BaumWelch => {
                batch.e_step()?;
                batch.m_step(&Options { floor: 1.0, ..Options::default() })
            }
        }
    };
    let Ok(times) = repeat(runs, again);
    summary(times, 0)
}

/// Seconds of each of `runs` runs, after one that allocates the memory of all runs.
fn repeat<E>(runs: usize, mut again: impl FnMut() -> Result<(), E>) -> Result<Vec<f64>, E> {
    again()?;
    let timed = |_| {
        let begun = Instant::now();
        again().map(|()| begun.elapsed().as_secs_f64())
    };
    (0..runs.max(1)).map(timed).collect()
}

/// Median and least of times in seconds.
fn summary(mut times: Vec<f64>, growth_bytes: u64) -> Times {
    times.sort_by(f64::total_cmp);
    Times::Measured {
        runs: times.len(),
        milliseconds: 1e3 * times[times.len() / 2],
        least_milliseconds: 1e3 * times[0],
        growth_bytes,
    }
}
