//! Where the recursions run: chosen once, behind one type.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;
use warpkov_kernels::emulator::Emulator;

use super::invariants;
use super::maximise::Pseudocounts;
use super::model::Hmm;
use super::recursions::{Decoded, Expected, Recursions};
use super::sequences::Sequences;
use crate::backend::cuda::Gpu;
use crate::backend::device::hmm::{Batch, Limits};
use crate::backend::{Precise, cpu, emulator};
use crate::interrupt;
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
            DeviceChoice::Emulated => Ok(Self::Emulated(emulator())),
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
            Precision::Tf32 => self.recursions_in::<f32>(sequences, precision, Limits { plain_tf32: true, ..limits }),
            Precision::F32 => self.recursions_in::<f32>(sequences, precision, limits),
            Precision::F64 => self.recursions_in::<f64>(sequences, precision, limits),
        }
    }

    fn recursions_in<'p, T: Precise>(
        &'p self,
        sequences: &'p Sequences,
        precision: Precision,
        limits: Limits,
    ) -> Result<Dynamic<'p>, SolveError> {
        Ok(match self {
            Self::Cpu => Box::new(Checked::new(cpu::hmm::Batch::<T>::new(sequences), sequences, precision)),
            Self::Gpu(gpu) => {
                Box::new(Checked::new(Batch::<T, Gpu>::new(gpu, sequences, limits)?, sequences, precision))
            }
            Self::Emulated(emulator) => {
                Box::new(Checked::new(Batch::<T, Emulator>::new(emulator, sequences, limits)?, sequences, precision))
            }
        })
    }
}

/// Recursions whose errors are those of all, and whose results [hold what must hold](super::invariants).
struct Checked<'p, R> {
    recursions: R,
    sequences: &'p Sequences,
    models: Vec<Hmm>,
    slack: f64,
}

impl<'p, R> Checked<'p, R> {
    fn new(recursions: R, sequences: &'p Sequences, precision: Precision) -> Self {
        // Sums over states and steps have their rounding, too.
        Self { recursions, sequences, models: Vec::new(), slack: 10.0 * precision.slack() }
    }
}

/// An error where recursions were left off in the midst: what they returned means nothing.
fn finished() -> Result<(), SolveError> {
    if interrupt::requested() { Err(SolveError::Interrupted) } else { Ok(()) }
}

impl<R: Recursions> Recursions for Checked<'_, R>
where
    SolveError: From<R::Error>,
{
    type Error = SolveError;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), SolveError> {
        self.recursions.set_models(models)?;
        self.models = models.to_vec();
        Ok(())
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, SolveError> {
        let all = self.recursions.log_likelihoods()?;
        finished()?;
        for (model, logs) in self.models.iter().zip(&all) {
            invariants::of_log_likelihoods(model, logs, self.slack)?;
            invariants::of_samples(model, self.sequences, logs, self.slack)?;
        }
        Ok(all)
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, SolveError> {
        let all = self.recursions.posteriors()?;
        finished()?;
        for (model, posteriors) in self.models.iter().zip(&all) {
            invariants::of_posteriors(model, self.sequences, posteriors, self.slack)?;
        }
        Ok(all)
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, SolveError> {
        let all = self.recursions.viterbi()?;
        finished()?;
        for (model, decoded) in self.models.iter().zip(&all) {
            invariants::of_decoded(self.sequences, decoded)?;
            invariants::of_sample_paths(model, self.sequences, &decoded.scores, self.slack)?;
        }
        Ok(all)
    }

    fn expect(&mut self) -> Result<Vec<Expected>, SolveError> {
        let all = self.recursions.expect()?;
        finished()?;
        for (model, expected) in self.models.iter().zip(&all) {
            invariants::of_log_likelihoods(model, &expected.log_likelihoods, self.slack)?;
            invariants::of_expected(self.sequences, expected, self.slack)?;
        }
        Ok(all)
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, SolveError> {
        let all = self.recursions.e_step()?;
        finished()?;
        for (model, logs) in self.models.iter().zip(&all) {
            invariants::of_log_likelihoods(model, logs, self.slack)?;
        }
        Ok(all)
    }

    fn m_step(&mut self, pseudocounts: &Pseudocounts, floor: f64) -> Result<(), SolveError> {
        Ok(self.recursions.m_step(pseudocounts, floor)?)
    }

    fn models(&mut self) -> Result<Vec<Hmm>, SolveError> {
        let models = self.recursions.models()?;
        self.models.clone_from(&models);
        Ok(models)
    }
}
