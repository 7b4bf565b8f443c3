//! Models, the results of all recursions, and a comparison.

use std::convert::Infallible;
use std::ops::ControlFlow;

use warpkov_hmm::backend::{Decoded, Expected, Recursions};
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::Options;
use warpkov_hmm::sequences::{Observations, Sequences, offsets};
use warpkov_hmm::train::{Trained, train};
use warpkov_runtime::Precise;

pub fn categorical(start: &[f64], transitions: &[f64], symbols: u32, probs: &[f64]) -> Hmm {
    let emissions = Emissions::Categorical { symbols, probs: probs.to_vec() };
    let (start, transitions) = (start.to_vec(), transitions.to_vec());
    HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().unwrap()
}

/// Sequences of scalars.
pub fn numbers(sequences: &[&[f64]]) -> Sequences {
    let observations = Observations::Vectors { dimensions: 1, values: sequences.concat() };
    Sequences::new(offsets(sequences.iter().map(|x| x.len())), observations).unwrap()
}

pub fn gaussian(start: &[f64], transitions: &[f64], means: &[f64], variances: &[f64]) -> Hmm {
    let covariances = Covariances::Diagonal(variances.to_vec());
    let emissions = Emissions::Gaussian { dimensions: 1, means: means.to_vec(), covariances };
    let (start, transitions) = (start.to_vec(), transitions.to_vec());
    HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().unwrap()
}

/// The same model without end probabilities.
pub fn without_ends(model: &Hmm) -> Hmm {
    let mut model = model.clone().into_parts();
    if model.end.take().is_some() {
        let n = model.start.len();
        for row in model.transitions.chunks_exact_mut(n) {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= sum);
        }
    }
    model.validated().unwrap()
}

/// Results of all recursions for one model.
pub struct All {
    pub logs: Vec<f64>,
    pub posteriors: Vec<f64>,
    pub decoded: Decoded,
    pub expected: Expected,
}

pub fn all_in<T: Precise>(model: &Hmm, sequences: &Sequences) -> All {
    sequences.check(model).unwrap();
    let mut batch = Batch::<T>::new(sequences);
    one(batch.set_models(std::slice::from_ref(model)).map(|()| vec![()]));
    All {
        logs: one(batch.log_likelihoods()),
        posteriors: one(batch.posteriors()),
        decoded: one(batch.viterbi()),
        expected: one(batch.expect()),
    }
}

pub fn all(model: &Hmm, sequences: &Sequences) -> All {
    all_in::<f64>(model, sequences)
}

/// The result for the only model.
pub fn one<R>(results: Result<Vec<R>, Infallible>) -> R {
    let Ok(mut results) = results;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

pub fn trained(model: &Hmm, sequences: &Sequences, options: &Options) -> Trained {
    let mut batch = Batch::<f64>::new(sequences);
    train(&mut batch, vec![model.clone()], options, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[track_caller]
pub fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(near || found == expected, "[{at}] is {found}, expected {expected}");
    }
}
