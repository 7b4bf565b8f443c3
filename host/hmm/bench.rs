//! What the recursions take on a GPU, with models and sequences there.

use serde::Serialize;
use warpkov_kernels::launch::Device;

use super::generate::{Error, Kind, Uniform};
use super::recursions::Recursions;
use super::sample::sample;
use crate::backend::Precise;
use crate::backend::cuda::{CudaError, Gpu};
use crate::backend::device::hmm::{Batch, Limits};

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

const fn case(states: u32, sequences: u32, steps: u32) -> Case {
    Case { states, sequences, steps }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// ln P(O).
    Forward,
    /// The most probable paths.
    Viterbi,
    /// Expected counts, which a step of Baum and Welch divides by their sums.
    BaumWelch,
}

/// Times of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// What was done.
    pub operation: Operation,
    /// "f32" or "f64".
    pub precision: &'static str,
    /// The GPU.
    pub device: String,
    /// How often.
    pub runs: usize,
    /// The median, by the GPU's clock.
    pub milliseconds: f64,
    /// The shortest.
    pub least_milliseconds: f64,
    /// Device memory that went between the second run and the last, in bytes.
    pub growth_bytes: u64,
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

/// Measures an operation, launched all at once from a recording; sequences are drawn from the model.
///
/// # Errors
/// If there is no such model, and those of the GPU.
pub fn measure<T: Precise>(gpu: &Gpu, case: Case, operation: Operation, runs: usize) -> Result<Measured, BenchError> {
    let model = Uniform { states: case.states, kind: Kind::Symbols(SYMBOLS), ends: false, seed: 1 }.generate()?;
    let drawn = sample(&model, case.sequences as usize, Some(case.steps as usize), 2)?;
    let mut batch = Batch::<T, Gpu>::new(gpu, &drawn.sequences, Limits::default())?;
    batch.set_models(std::slice::from_ref(&model))?;
    let mut launch = || match operation {
        Operation::Forward => batch.score(),
        Operation::Viterbi => batch.decode(),
        Operation::BaumWelch => batch.count(),
    };
    // The first run takes the memory that all others use.
    launch()?;
    gpu.synchronize()?;
    let recording = gpu.record(&mut launch)?;
    let mut again = || match &recording {
        // SAFETY: the batch is still there, and the same launches are right again.
        Some(recording) => unsafe { gpu.replay(recording) },
        None => launch(),
    };
    again()?;
    gpu.synchronize()?;
    let (before, _) = gpu.memory()?;
    let mut times =
        (0..runs.max(1)).map(|_| Ok(gpu.time(&mut again)?.1.as_secs_f64())).collect::<Result<Vec<_>, CudaError>>()?;
    let (after, _) = gpu.memory()?;
    times.sort_by(f64::total_cmp);
    Ok(Measured {
        case,
        operation,
        precision: T::NAME,
        device: gpu.name(),
        runs: times.len(),
        milliseconds: 1e3 * times[times.len() / 2],
        least_milliseconds: 1e3 * times[0],
        growth_bytes: before.saturating_sub(after),
    })
}
