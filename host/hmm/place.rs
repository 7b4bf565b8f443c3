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

/// Recursions with the common [`Error`] type, whose results are checked against the [invariants](super::invariants).
struct Checked<'p, R> {
    recursions: R,
    sequences: &'p Sequences,
    models: Vec<Hmm>,
    slack: f64,
}

impl<'p, R> Checked<'p, R> {
    fn new(recursions: R, sequences: &'p Sequences, precision: Precision) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::IceCream;

    /// The CPU's recursions with a fault: `doctor` changes their results.
    struct Faulty<'s> {
        right: cpu::Batch<'s, f64>,
        doctor: Doctor,
    }

    /// What is wrong.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Doctor {
        Nothing,
        /// ln P(O) is NaN.
        Nan,
        /// A likelihood above 1.
        AboveOne,
        /// ln P(O) is off by as much.
        Off(f64),
    }

    impl Faulty<'_> {
        fn log(&self, log: &mut f64) {
            *log = match self.doctor {
                Doctor::Nothing => *log,
                Doctor::Nan => f64::NAN,
                Doctor::AboveOne => 1e-3,
                Doctor::Off(off) => *log + off,
            };
        }
    }

    impl Recursions for Faulty<'_> {
        type Error = runtime::Error;

        fn set_models(&mut self, models: &[Hmm]) -> Result<(), Self::Error> {
            self.right.set_models(models).map_err(|never| match never {})
        }

        fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Self::Error> {
            let Ok(mut all) = self.right.log_likelihoods();
            all.iter_mut().flatten().for_each(|log| self.log(log));
            Ok(all)
        }

        fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Self::Error> {
            let Ok(mut all) = self.right.posteriors();
            if self.doctor != Doctor::Nothing {
                all[0][1] += 1e-6;
            }
            Ok(all)
        }

        fn viterbi(&mut self) -> Result<Vec<Decoded>, Self::Error> {
            let Ok(mut all) = self.right.viterbi();
            all.iter_mut().flat_map(|decoded| &mut decoded.scores).for_each(|score| self.log(score));
            Ok(all)
        }

        fn expect(&mut self) -> Result<Vec<Expected>, Self::Error> {
            let Ok(mut all) = self.right.expect();
            if self.doctor != Doctor::Nothing {
                all[0].start[0] += 1e-6;
            }
            Ok(all)
        }

        fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Self::Error> {
            let Ok(mut all) = self.right.e_step();
            all.iter_mut().flatten().for_each(|log| self.log(log));
            Ok(all)
        }

        fn take_counts(&mut self) -> Result<Vec<Expected>, Self::Error> {
            let Ok(all) = self.right.take_counts();
            Ok(all)
        }

        fn m_step(&mut self, options: &Options) -> Result<(), Self::Error> {
            let Ok(()) = self.right.m_step(options);
            Ok(())
        }

        fn models(&mut self) -> Result<Vec<Hmm>, Self::Error> {
            let Ok(all) = self.right.models();
            Ok(all)
        }
    }

    /// Which of the results, of ln P(O), posteriors, paths, counts and the E step, are accepted; the messages of the others.
    fn results(doctor: Doctor) -> [Option<String>; 5] {
        let model = IceCream.generate().unwrap();
        let sequences = Sequences::of_symbols(&[&[2, 0, 2][..], &[1, 1]]).unwrap();
        let right = cpu::Batch::<f64>::new(&sequences);
        let mut checked = Checked::new(Faulty { right, doctor }, &sequences, Precision::F64);
        checked.set_models(&[model]).unwrap();
        let told = |error: Error| match error {
            Error::Violated(violated) => violated.to_string(),
            other => panic!("{other}"),
        };
        [
            checked.log_likelihoods().err().map(told),
            checked.posteriors().err().map(told),
            checked.viterbi().err().map(told),
            checked.expect().err().map(told),
            checked.e_step().err().map(told),
        ]
    }

    #[test]
    fn wrong_results_of_a_backend_are_refused() {
        assert_eq!(results(Doctor::Nothing), [const { None }; 5]);
        for doctor in [Doctor::Nan, Doctor::AboveOne] {
            let [scores, posteriors, _, counts, e_step] = results(doctor).map(Option::unwrap_or_default);
            for found in [scores, e_step] {
                assert!(found.starts_with("internal error: ln P(O) of sequence 1 is "), "{doctor:?}: {found}");
            }
            assert!(posteriors.starts_with("internal error: the sum of posteriors of sequence 1 is 1.000001"));
            assert!(counts.starts_with("internal error: the count of starts of sequence 2 is 2.000001, expected 2;"));
        }
        // Within the possible, but not what the exact recursions say.
        for off in [1e-6, -1e-6] {
            let [scores, ..] = results(Doctor::Off(off)).map(Option::unwrap_or_default);
            assert!(scores.starts_with("internal error: ln P(O) of sequence 1 is -"), "{off}: {scores}");
        }
        // A path cannot be more probable than the sequence, nor less by more than Nᵀ.
        for off in [5.0, -10.0] {
            let [_, _, paths, ..] = results(Doctor::Off(off)).map(Option::unwrap_or_default);
            assert!(paths.starts_with("internal error: ln P(O, q) of sequence 1 is "), "{off}: {paths}");
        }
    }
}
