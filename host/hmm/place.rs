//! The recursions on the chosen backend, with checked results; and their estimated cost.

use super::backend::{Decoded, Expected, Recursions, Stored};
use super::backends::cpu;
use super::invariants;
use super::model::Hmm;
use super::options::{Options, Precision};
use super::sequences::Sequences;
use crate::backends::device::{Batch, Limits, UnfitForSlices};
use warpkov_common::interrupt;
use warpkov_runtime as runtime;
use warpkov_runtime::Precise;
use warpkov_runtime::choose::{Cost, Place};
use warpkov_runtime::comm::Communicator;
use warpkov_runtime::error::from_devices;

/// Why the recursions fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend failed or was interrupted.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    /// The method cannot compute what is asked for.
    #[error(transparent)]
    Method(#[from] UnfitForSlices),
    /// A result violates an invariant.
    #[error(transparent)]
    Violated(#[from] invariants::Violated),
}

from_devices!(Error);

/// The recursions over a batch of sequences, on any backend.
pub type Dynamic<'p> = Box<dyn Recursions<Error = Error> + 'p>;

/// Estimated cost of the recursions: N² multiplications per step.
#[must_use]
pub fn cost(model: &Hmm, sequences: &Sequences) -> Cost {
    let seconds = core_seconds(model, sequences);
    Cost {
        work: format!("{} steps through {} states", sequences.steps(), model.states()),
        cpu: seconds / rayon::current_num_threads() as f64,
        gpu: seconds * (CORE_RATE / GPU_RATE),
    }
}

/// Estimated seconds that a pass over the sequences takes one core.
#[must_use]
pub fn core_seconds(model: &Hmm, sequences: &Sequences) -> f64 {
    let states = f64::from(model.states());
    states * states * sequences.steps() as f64 / CORE_RATE
}

/// Approximate multiplications per second of a CPU core.
const CORE_RATE: f64 = 9e8;

/// Approximate multiplications per second of a GPU. An H200 takes 0.013 ms for the forward recursion of 64 × 64 × 16
/// and 0.17 ms for 512 × 512 × 16: 3·10¹¹ to 10¹³ per second.
const GPU_RATE: f64 = 1e12;

/// The recursions over `sequences` at `place`. `limits` applies to devices.
///
/// # Errors
/// Those of the device.
pub fn recursions<'p>(
    place: &'p Place,
    sequences: &'p Sequences,
    precision: Precision,
    limits: Limits,
) -> Result<Dynamic<'p>, Error> {
    fn typed<'p, T: Precise>(
        place: &'p Place,
        sequences: &'p Sequences,
        precision: Precision,
        limits: Limits,
    ) -> Result<Dynamic<'p>, Error> {
        Ok(match place {
            Place::Cpu => Box::new(Checked::new(cpu::Batch::<T>::new(sequences), sequences, precision)),
            Place::Device(device) => {
                Box::new(Checked::new(Batch::<T>::new(device, sequences, limits)?, sequences, precision))
            }
        })
    }
    match precision {
        Precision::Tf32 => typed::<f32>(place, sequences, precision, Limits { plain_tf32: true, ..limits }),
        Precision::F32 => typed::<f32>(place, sequences, precision, limits),
        Precision::F64 => typed::<f64>(place, sequences, precision, limits),
    }
}

/// Recursions with the common [`Error`] type, whose results are checked against the [invariants].
pub struct Checked<'p, R> {
    recursions: R,
    sequences: &'p Sequences,
    models: Vec<Hmm>,
    slack: f64,
}

impl<'p, R> Checked<'p, R> {
    /// Checks what `recursions` computes over these sequences in this precision.
    #[must_use]
    pub fn new(recursions: R, sequences: &'p Sequences, precision: Precision) -> Self {
        // The factor 10 allows for rounding of sums over states and steps.
        Self { recursions, sequences, models: Vec::new(), slack: 10.0 * precision.slack() }
    }
}

/// Fails if the recursions were interrupted, since their results are then incomplete.
pub(crate) fn finished() -> Result<(), Error> {
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

    fn take_counts(&mut self) -> Result<Vec<Expected>, Error> {
        Ok(self.recursions.take_counts()?)
    }

    fn stored(&self) -> Option<Stored> {
        self.recursions.stored()
    }

    unsafe fn add_ranks(&mut self, comm: &dyn Communicator) -> Result<(), runtime::Error> {
        // SAFETY: the caller's promise.
        unsafe { self.recursions.add_ranks(comm) }
    }

    fn m_step(&mut self, options: &Options) -> Result<(), Error> {
        Ok(self.recursions.m_step(options)?)
    }

    fn weights(&self) -> &[f64] {
        self.recursions.weights()
    }

    fn models(&mut self) -> Result<Vec<Hmm>, Error> {
        let models = self.recursions.models()?;
        self.models.clone_from(&models);
        Ok(models)
    }
}
