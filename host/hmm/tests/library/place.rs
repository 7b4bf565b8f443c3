//! Results of backends are checked.

use warpkov_hmm::backend::{Decoded, Expected, Recursions};
use warpkov_hmm::backends::cpu;
use warpkov_hmm::generate::IceCream;
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::{Options, Precision};
use warpkov_hmm::place::{Checked, Error};
use warpkov_hmm::sequences::Sequences;
use warpkov_runtime as runtime;

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
