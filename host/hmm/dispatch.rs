//! Where the recursions run: chosen once, behind one type.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;
use warpkov_kernels::emulator::Emulator;

use super::maximise::Pseudocounts;
use super::model::Hmm;
use super::recursions::{Decoded, Expected, Recursions};
use super::sequences::Sequences;
use crate::backend::cuda::Gpu;
use crate::backend::device::hmm::{Batch, Limits};
use crate::backend::{Precise, cpu};
use crate::mdp::SolveError;
use crate::mdp::options::DeviceChoice;

/// The floating-point type of the recursions. Logarithms and expected counts are summed in `f64` for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// 32 bits, of which 11 count in the products of a GPU for more than 128 states: as much as tensor cores take at one time.
    Tf32,
    /// 32 bits.
    F32,
    /// 64 bits.
    #[default]
    F64,
}

impl Precision {
    /// States up to which there are no products in TF32.
    pub const TF32_STATES: u32 = 128;

    /// By what part of its absolute value an objective may fall by rounding; see
    /// [`Options::slack`](super::train::Options::slack).
    #[must_use]
    pub fn slack(self) -> f64 {
        match self {
            Self::Tf32 => 1e-2,
            Self::F32 => 1e-4,
            Self::F64 => 1e-9,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// The recursions over some sequences.
pub type Dynamic<'p> = Box<dyn Recursions<Error = SolveError> + 'p>;

/// A place where recursions run.
pub enum Place {
    /// All cores.
    Cpu,
    /// A GPU.
    Gpu(Gpu),
    /// Its kernels, without it.
    Emulated(Emulator),
}

/// Products for each core that take less time than a GPU to start.
const MEANWHILE: f64 = 3e8;

impl Place {
    /// What was chosen; `auto` is a GPU where there is one and the work is worth its start.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn open(device: DeviceChoice, model: &Hmm, sequences: &Sequences) -> Result<Self, SolveError> {
        match device {
            DeviceChoice::Cpu => Ok(Self::Cpu),
            DeviceChoice::Emulated => Ok(Self::Emulated(Emulator::default())),
            DeviceChoice::Cuda(ordinal) => Ok(Self::Gpu(Gpu::open(ordinal)?)),
            DeviceChoice::Auto => {
                let products =
                    f64::from(model.states()).powi(2) * sequences.offsets.last().map_or(0.0, |&all| all as f64);
                let small = products < MEANWHILE * rayon::current_num_threads() as f64;
                Ok(if small { Self::Cpu } else { Gpu::open(0).map_or(Self::Cpu, Self::Gpu) })
            }
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => cpu::name(),
            Self::Gpu(gpu) => gpu.name(),
            Self::Emulated(_) => "the emulator".to_owned(),
        }
    }

    /// The recursions over some sequences, within `limits` where it is a device.
    ///
    /// # Errors
    /// Those of the device.
    pub fn recursions<'p>(
        &'p self,
        sequences: &'p Sequences,
        precision: Precision,
        limits: Limits,
    ) -> Result<Dynamic<'p>, SolveError> {
        match precision {
            Precision::Tf32 => self.recursions_in::<f32>(sequences, Limits { plain_tf32: true, ..limits }),
            Precision::F32 => self.recursions_in::<f32>(sequences, limits),
            Precision::F64 => self.recursions_in::<f64>(sequences, limits),
        }
    }

    fn recursions_in<'p, T: Precise>(
        &'p self,
        sequences: &'p Sequences,
        limits: Limits,
    ) -> Result<Dynamic<'p>, SolveError> {
        Ok(match self {
            Self::Cpu => Box::new(Unified(cpu::hmm::Batch::<T>::new(sequences))),
            Self::Gpu(gpu) => Box::new(Unified(Batch::<T, Gpu>::new(gpu, sequences, limits)?)),
            Self::Emulated(emulator) => Box::new(Unified(Batch::<T, Emulator>::new(emulator, sequences, limits)?)),
        })
    }
}

/// Recursions whose errors are those of all.
struct Unified<R>(R);

impl<R: Recursions> Recursions for Unified<R>
where
    SolveError: From<R::Error>,
{
    type Error = SolveError;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), SolveError> {
        Ok(self.0.set_models(models)?)
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, SolveError> {
        Ok(self.0.log_likelihoods()?)
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, SolveError> {
        Ok(self.0.posteriors()?)
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, SolveError> {
        Ok(self.0.viterbi()?)
    }

    fn expect(&mut self) -> Result<Vec<Expected>, SolveError> {
        Ok(self.0.expect()?)
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, SolveError> {
        Ok(self.0.e_step()?)
    }

    fn m_step(&mut self, pseudocounts: &Pseudocounts, floor: f64) -> Result<(), SolveError> {
        Ok(self.0.m_step(pseudocounts, floor)?)
    }

    fn models(&mut self) -> Result<Vec<Hmm>, SolveError> {
        Ok(self.0.models()?)
    }
}
