//! Where the recursions run: chosen once, behind one type.

use std::convert::Infallible;
use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use super::model::Hmm;
use super::recursions::{Decoded, Expected, Recursions};
use super::sequences::Sequences;
use crate::backend::Precise;
use crate::backend::cpu::hmm::Batch;
use crate::backend::cuda::CudaError;
use crate::mdp::SolveError;
use crate::mdp::options::DeviceChoice;

/// The floating-point type of the recursions. Logarithms and expected counts are summed in `f64` for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 64 bits.
    #[default]
    F64,
}

impl Precision {
    /// By what part of its absolute value an objective may fall by rounding; see
    /// [`Options::slack`](super::train::Options::slack).
    #[must_use]
    pub fn slack(self) -> f64 {
        match self {
            Self::F32 => 1e-4,
            Self::F64 => 1e-9,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// The recursions over some sequences.
pub type Dynamic<'s> = Box<dyn Recursions<Error = SolveError> + 's>;

/// The recursions, and the device that they run on, in words.
///
/// This is where backends are chosen from: `auto` is the CPU as long as there is no other.
///
/// # Errors
/// If there is no such device.
pub fn recursions(
    sequences: &Sequences,
    device: DeviceChoice,
    precision: Precision,
) -> Result<(Dynamic<'_>, String), SolveError> {
    match device {
        DeviceChoice::Auto | DeviceChoice::Cpu => {
            let dynamic: Dynamic<'_> = match precision {
                Precision::F32 => Box::new(OnCpu(Batch::<f32>::new(sequences))),
                Precision::F64 => Box::new(OnCpu(Batch::<f64>::new(sequences))),
            };
            Ok((dynamic, format!("CPU, {} threads", rayon::current_num_threads())))
        }
        DeviceChoice::Cuda(_) | DeviceChoice::Emulated => {
            let reason = "it has no kernels of hidden Markov models".to_owned();
            Err(CudaError::NoPtx { reason }.into())
        }
    }
}

/// What never fails, as what may.
struct OnCpu<'s, T>(Batch<'s, T>);

fn never<R>(result: Result<R, Infallible>) -> Result<R, SolveError> {
    result.map_err(|never| match never {})
}

impl<T: Precise> Recursions for OnCpu<'_, T> {
    type Error = SolveError;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), SolveError> {
        never(self.0.set_models(models))
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, SolveError> {
        never(self.0.log_likelihoods())
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, SolveError> {
        never(self.0.posteriors())
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, SolveError> {
        never(self.0.viterbi())
    }

    fn expect(&mut self) -> Result<Vec<Expected>, SolveError> {
        never(self.0.expect())
    }
}
