//! Where the recursions run: chosen once, behind one type.

use super::options::Precision;
use crate::runtime;
use crate::runtime::error::from_devices;
use warpkov_kernels::emulator::Emulator;

use super::backend::{Decoded, Expected, Recursions};
use super::model::Hmm;
use super::options::Pseudocounts;
use super::sequences::Sequences;
use super::{cpu, invariants};
use crate::backend::cuda::Gpu;
use crate::common::interrupt;
use crate::hmm::device::{Batch, Limits};
use crate::runtime::choose::DeviceChoice;
use crate::runtime::{Precise, cores, emulator};

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Where the recursions ran failed, or was stopped.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    /// Results that cannot be.
    #[error(transparent)]
    Violated(#[from] invariants::Violated),
}

from_devices!(Error);

/// The recursions over some sequences.
pub type Dynamic<'p> = Box<dyn Recursions<Error = Error> + 'p>;

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
    pub fn open(device: DeviceChoice, model: &Hmm, sequences: &Sequences) -> Result<Self, Error> {
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
            Self::Cpu => cores::all(),
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
    ) -> Result<Dynamic<'p>, Error> {
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
    ) -> Result<Dynamic<'p>, Error> {
        Ok(match self {
            Self::Cpu => Box::new(Checked::new(cpu::Batch::<T>::new(sequences), sequences, precision)),
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
fn finished() -> Result<(), Error> {
    if interrupt::requested() { Err(runtime::Error::Interrupted.into()) } else { Ok(()) }
}

impl<R: Recursions> Recursions for Checked<'_, R>
where
    Error: From<R::Error>,
{
    type Error = Error;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), Error> {
        self.recursions.set_models(models)?;
        self.models = models.to_vec();
        Ok(())
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        let all = self.recursions.log_likelihoods()?;
        finished()?;
        for (model, logs) in self.models.iter().zip(&all) {
            invariants::of_log_likelihoods(model, logs, self.slack)?;
            invariants::of_samples(model, self.sequences, logs, self.slack)?;
        }
        Ok(all)
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        let all = self.recursions.posteriors()?;
        finished()?;
        for (model, posteriors) in self.models.iter().zip(&all) {
            invariants::of_posteriors(model, self.sequences, posteriors, self.slack)?;
        }
        Ok(all)
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, Error> {
        let all = self.recursions.viterbi()?;
        finished()?;
        for (model, decoded) in self.models.iter().zip(&all) {
            invariants::of_decoded(self.sequences, decoded)?;
            invariants::of_sample_paths(model, self.sequences, &decoded.scores, self.slack)?;
        }
        Ok(all)
    }

    fn expect(&mut self) -> Result<Vec<Expected>, Error> {
        let all = self.recursions.expect()?;
        finished()?;
        for (model, expected) in self.models.iter().zip(&all) {
            invariants::of_log_likelihoods(model, &expected.log_likelihoods, self.slack)?;
            invariants::of_expected(self.sequences, expected, self.slack)?;
        }
        Ok(all)
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        let all = self.recursions.e_step()?;
        finished()?;
        for (model, logs) in self.models.iter().zip(&all) {
            invariants::of_log_likelihoods(model, logs, self.slack)?;
        }
        Ok(all)
    }

    fn m_step(&mut self, pseudocounts: &Pseudocounts, floor: f64) -> Result<(), Error> {
        Ok(self.recursions.m_step(pseudocounts, floor)?)
    }

    fn models(&mut self) -> Result<Vec<Hmm>, Error> {
        let models = self.recursions.models()?;
        self.models.clone_from(&models);
        Ok(models)
    }
}
