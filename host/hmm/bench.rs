//! What the recursions and a step of training take: on a GPU with models and sequences there, or on all cores.

pub mod figures;

use std::convert::Infallible;
use std::time::Instant;

use serde::Serialize;
use warpkov_device::launch::Device;

use super::backend::Recursions;
use super::cpu;
use super::generate::{Error, Kind, Uniform};
use super::model::Hmm;
use super::options::{Precision, Pseudocounts};
use super::sample::sample;
use super::sequences::Sequences;
use crate::common::choice::choice;
use crate::hmm::device::{Batch, Limits, Scan};
use crate::runtime::gpu::{CudaError, Gpu};
use crate::runtime::{Precise, cores};

/// V, of all cases.
pub const SYMBOLS: u32 = 16;

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

/// Cases of which times of others are known.
pub const CASES: [Case; 4] = [case(64, 64, 16), case(128, 128, 64), case(512, 512, 16), case(16, 4096, 1024)];

/// Cases of one long sequence, to compare the scan with the recursion.
pub const LONG: [Case; 3] = [case(8, 1, 1_000_000), case(32, 1, 1_000_000), case(64, 1, 1_000_000)];

const fn case(states: u32, sequences: u32, steps: u32) -> Case {
    Case { states, sequences, steps }
}

choice! {
    /// What is measured.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Operation {
        /// ln P(O).
        Forward = "forward",
        /// The most probable paths.
        Viterbi = "viterbi",
        /// Expected counts, on the device.
        EStep = "e-step",
        /// A whole step of training: expected counts, and the model that they make most likely, which the device goes
        /// on with.
        BaumWelch = "baum-welch",
    }
}

/// A random model, and sequences drawn from it.
#[derive(Clone, Debug)]
pub struct Work {
    case: Case,
    model: Hmm,
    sequences: Sequences,
}

impl Work {
    /// That of a case, always the same.
    ///
    /// # Errors
    /// If there is no such model, or nothing to draw.
    pub fn new(case: Case) -> Result<Self, BenchError> {
        let model = Uniform { states: case.states, kind: Kind::Symbols(SYMBOLS), ends: false, seed: 1 }.generate()?;
        let drawn = sample(&model, case.sequences as usize, Some(case.steps as usize), 2)?;
        Ok(Self { case, model, sequences: drawn.sequences })
    }
}

/// What was found of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// What was done.
    pub operation: Operation,
    /// Whether sequences were cut into chunks.
    pub scan: bool,
    /// The floating-point type.
    pub precision: Precision,
    /// Where.
    pub device: String,
    /// Its times.
    #[serde(flatten)]
    pub times: Times,
}

/// How long something takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Times {
    /// It was done.
    Measured {
        /// How often.
        runs: usize,
        /// The median, by the GPU's clock, or by that of the CPU, which results are handed over on as well.
        milliseconds: f64,
        /// The shortest.
        least_milliseconds: f64,
        /// Device memory that went between the second run and the last, in bytes.
        growth_bytes: u64,
    },
    /// It does not fit into the GPU's memory.
    Lacking {
        /// What was asked for, and what is free.
        out_of_memory: String,
    },
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No such model.
    #[error(transparent)]
    Generate(#[from] Error),
    /// No such sequences.
    #[error(transparent)]
    Sample(#[from] super::sample::Error),
    /// The GPU.
    #[error(transparent)]
    Gpu(#[from] CudaError),
}

/// Measures an operation. Sequences are cut as `scan` says. What is asked for is launched all at once from a recording;
/// steps of training go on from one another.
///
/// # Errors
/// Those of the GPU, other than that its memory does not suffice.
pub fn measure(
    gpu: &Gpu,
    work: &Work,
    operation: Operation,
    precision: Precision,
    scan: Scan,
    runs: usize,
) -> Result<Measured, BenchError> {
    let chunks = scan.steps(work.case.states, 1, &work.sequences);
    let (free, _) = gpu.memory()?;
    // Half is for models and sums.
    let trellis = Limits::default().trellis.min(free as usize / 2);
    let limits = Limits { trellis, chunks, plain_tf32: precision == Precision::Tf32 };
    let times = match precision {
        Precision::F64 => time::<f64>(gpu, work, operation, limits, runs),
        Precision::F32 | Precision::Tf32 => time::<f32>(gpu, work, operation, limits, runs),
    };
    let times = match times {
        Err(error @ CudaError::OutOfMemory { .. }) => Times::Lacking { out_of_memory: error.to_string() },
        times => times?,
    };
    Ok(Measured { case: work.case, operation, scan: chunks.is_some(), precision, device: gpu.name(), times })
}

fn time<T: Precise>(
    gpu: &Gpu,
    work: &Work,
    operation: Operation,
    limits: Limits,
    runs: usize,
) -> Result<Times, CudaError> {
    let mut batch = Batch::<T, Gpu>::new(gpu, &work.sequences, limits)?;
    batch.set_models(std::slice::from_ref(&work.model))?;
    let mut launch = || match operation {
        Operation::Forward => batch.score(),
        Operation::Viterbi => batch.decode(),
        Operation::EStep => batch.count(),
        Operation::BaumWelch => {
            batch.count()?;
            batch.maximise(&Pseudocounts::default())
        }
    };
    // The first run takes the memory that all others use.
    launch()?;
    gpu.synchronize()?;
    let recording = gpu.capture(&mut launch)?;
    repeat(gpu, runs, || match &recording {
        // SAFETY: the batch is still there, and the same launches are right again.
        Some(recording) => unsafe { gpu.launch_graph(recording) },
        None => launch(),
    })
}

/// Measures an operation on all cores, of which a pool may have fewer.
///
/// # Panics
/// In TF32, which no CPU has.
#[must_use]
pub fn measure_on_cpu(work: &Work, operation: Operation, precision: Precision, runs: usize) -> Measured {
    let times = match precision {
        Precision::F64 => time_on_cpu::<f64>(work, operation, runs),
        Precision::F32 => time_on_cpu::<f32>(work, operation, runs),
        Precision::Tf32 => panic!("TF32 on a CPU"),
    };
    Measured { case: work.case, operation, scan: false, precision, device: cores::all(), times }
}

fn time_on_cpu<T: Precise>(work: &Work, operation: Operation, runs: usize) -> Times {
    let mut batch = cpu::Batch::<T>::new(&work.sequences);
    let Ok(()) = batch.set_models(std::slice::from_ref(&work.model));
    let mut again = || -> Result<(), Infallible> {
        match operation {
            Operation::Forward => batch.log_likelihoods().map(drop),
            Operation::Viterbi => batch.viterbi().map(drop),
            Operation::EStep => batch.e_step().map(drop),
            Operation::BaumWelch => {
                batch.e_step()?;
                batch.m_step(&Pseudocounts::default(), 1.0)
            }
        }
    };
    // The first run makes the tables that all others use.
    let Ok(()) = again();
    let seconds = (0..runs.max(1)).map(|_| {
        let begun = Instant::now();
        let Ok(()) = again();
        begun.elapsed().as_secs_f64()
    });
    summary(seconds.collect(), 0)
}

/// What is said of some times, in seconds.
fn summary(mut times: Vec<f64>, growth_bytes: u64) -> Times {
    times.sort_by(f64::total_cmp);
    Times::Measured {
        runs: times.len(),
        milliseconds: 1e3 * times[times.len() / 2],
        least_milliseconds: 1e3 * times[0],
        growth_bytes,
    }
}

/// Times what has been done once before.
fn repeat(gpu: &Gpu, runs: usize, mut again: impl FnMut() -> Result<(), CudaError>) -> Result<Times, CudaError> {
    again()?;
    gpu.synchronize()?;
    let (before, _) = gpu.memory()?;
    let times =
        (0..runs.max(1)).map(|_| Ok(gpu.time(&mut again)?.1.as_secs_f64())).collect::<Result<Vec<_>, CudaError>>()?;
    let (after, _) = gpu.memory()?;
    Ok(summary(times, before.saturating_sub(after)))
}
