//! Stochastic EM against training on all sequences at once.

use std::ops::ControlFlow;

use warpkov_hmm::backends::cpu::Exact;
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::{Options, Precision, Pseudocounts};
use warpkov_hmm::place::recursions;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_hmm::stochastic::{EXPONENT, Stochastic};
use warpkov_hmm::train::train;
use warpkov_runtime::choose::{DeviceChoice, Place};

use crate::channels::case;

/// The sequences `from` to `until`.
fn part(all: &Sequences, from: usize, until: usize) -> Sequences {
    let range = all.range(from).start..all.range(until - 1).end;
    let offsets = (from..until).map(|m| (all.range(m).end - range.start) as u64);
    let offsets = std::iter::once(0).chain(offsets).collect();
    let observations = match all.observations() {
        Observations::Symbols(symbols) => Observations::Symbols(symbols[range].to_vec()),
        Observations::Vectors { dimensions, values } => {
            let d = *dimensions as usize;
            Observations::Vectors { dimensions: *dimensions, values: values[range.start * d..range.end * d].to_vec() }
        }
    };
    Sequences::new(offsets, observations).unwrap()
}

fn learn(trained: &mut Stochastic, sequences: &Sequences, device: DeviceChoice) -> f64 {
    let place = Place::open(device, None).unwrap().0;
    trained.learn(&mut *recursions(&place, sequences, Precision::F64, Default::default()).unwrap(), sequences).unwrap()
}

/// After as many iterations of EM on all sequences.
fn by_all(model: &Hmm, sequences: &Sequences, options: &Options, iterations: u32) -> Hmm {
    let place = Place::open(DeviceChoice::Cpu, None).unwrap().0;
    let mut all = recursions(&place, sequences, Precision::F64, Default::default()).unwrap();
    let options = Options { iterations, tolerance: 0.0, ..options.clone() };
    train(&mut *all, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(())).unwrap().runs.remove(0).model
}

fn log_likelihood(model: &Hmm, sequences: &Sequences) -> f64 {
    let which: Vec<u32> = (0..sequences.len() as u32).collect();
    Exact::new(model).log_likelihoods(sequences, &which).iter().sum()
}

const KINDS: [Kind; 3] =
    [Kind::Symbols(4), Kind::Vectors { dimensions: 2, full: false }, Kind::Vectors { dimensions: 2, full: true }];

/// One batch of all sequences is one iteration of EM, with a prior, too; and equal batches go on like EM with α = 1 where the E step stays.
#[test]
fn one_batch_is_one_iteration() {
    for (kind, seed) in KINDS.into_iter().zip(1..) {
        let made = |seed| Uniform { states: 3, kind, ends: true, seed }.generate().unwrap();
        let sequences = sample(&made(seed), 20, Some(15), seed).unwrap().sequences;
        let options = Options { pseudocounts: Pseudocounts::equal(0.5), ..Options::default() };
        for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
            let mut trained = Stochastic::new(made(seed + 9), options.clone(), EXPONENT).unwrap();
            let log = learn(&mut trained, &sequences, device);
            assert!((log - log_likelihood(&made(seed + 9), &sequences)).abs() < 1e-8 * log.abs());
            let expected = by_all(&made(seed + 9), &sequences, &options, 1);
            let (found, expected) =
                (log_likelihood(trained.model(), &sequences), log_likelihood(&expected, &sequences));
            assert!((found - expected).abs() < 1e-8 * expected.abs(), "{kind:?}, {device}: {found}, {expected}");
            assert_eq!(trained.batches(), 1);
        }
    }
}

/// Passes over small batches come near the maximum that EM finds, and start to finish in fewer E steps of all sequences.
#[test]
fn passes_over_batches_come_near_the_maximum() {
    for (kind, seed) in KINDS.into_iter().zip(1..) {
        let truth = Uniform { states: 3, kind, ends: false, seed }.generate().unwrap();
        let sequences = sample(&truth, 200, Some(20), seed).unwrap().sequences;
        let start = Uniform { states: 3, kind, ends: false, seed: seed + 50 }.generate().unwrap();
        let passes = 3;
        let mut trained = Stochastic::new(start.clone(), Options::default(), EXPONENT).unwrap();
        for _ in 0..passes {
            for first in (0..200).step_by(10) {
                learn(&mut trained, &part(&sequences, first, first + 10), DeviceChoice::Cpu);
            }
        }
        let before = log_likelihood(&start, &sequences);
        let found = log_likelihood(trained.model(), &sequences);
        let same_work = log_likelihood(&by_all(&start, &sequences, &Options::default(), passes), &sequences);
        assert!(found > same_work && same_work > before, "{kind:?}: {found}, {same_work}, {before}");
    }
}

/// The prior counts against all sequences, however often they come.
#[test]
fn passes_come_to_the_maximum_with_a_prior() {
    let made = |seed| Uniform { states: 2, kind: Kind::Symbols(3), ends: true, seed }.generate().unwrap();
    let sequences = sample(&made(1), 6, Some(8), 1).unwrap().sequences;
    let options = Options { pseudocounts: Pseudocounts::equal(5.0), ..Options::default() };
    let mut trained = Stochastic::new(made(2), options.clone(), 0.6).unwrap();
    for _ in 0..2000 {
        (0..6).step_by(3).for_each(|first| {
            learn(&mut trained, &part(&sequences, first, first + 3), DeviceChoice::Cpu);
        });
        trained.end_pass();
    }
    let expected = by_all(&made(2), &sequences, &options, 2000);
    let pairs = trained.model().transitions().iter().zip(expected.transitions());
    assert!(pairs.clone().all(|(x, y)| (x - y).abs() < 5e-3), "{:?}", pairs.collect::<Vec<_>>());
}

/// Moments are about the means of the time: where the E step is the same, the averages are those of all observations.
#[test]
fn moments_move_with_the_means() {
    for full in [false, true] {
        let kind = Kind::Vectors { dimensions: 2, full };
        let made = |seed| Uniform { states: 1, kind, ends: false, seed }.generate().unwrap();
        let sequences = sample(&made(3), 40, Some(5), 3).unwrap().sequences;
        // Equal weights of all batches of equal size.
        let mut trained = Stochastic::new(made(4), Options::default(), 1.0).unwrap();
        (0..8).for_each(|batch| {
            learn(&mut trained, &part(&sequences, 5 * batch, 5 * batch + 5), DeviceChoice::Cpu);
        });
        let expected = log_likelihood(&by_all(&made(4), &sequences, &Options::default(), 1), &sequences);
        let found = log_likelihood(trained.model(), &sequences);
        assert!((found - expected).abs() < 1e-9 * expected.abs(), "{found}, {expected}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (channels, _) = case(1, 2, &["poisson"], &[3]);
    let said = |model: Hmm, exponent| Stochastic::new(model, Options::default(), exponent).unwrap_err();
    assert!(said(channels, 0.7).contains("channels"));
    let symbols = Uniform { states: 2, kind: Kind::Symbols(2), ends: false, seed: 1 }.generate().unwrap();
    for exponent in [0.5, 1.1, f64::NAN] {
        assert!(said(symbols.clone(), exponent).contains("exponent"));
    }
}
