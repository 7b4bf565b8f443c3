//! Observations one at a time against the recursions over every beginning, and predictions.

use warpkov_hmm::filter::{Filter, Refused};
use warpkov_hmm::model::{Covariances, Emissions, HmmParts, Names};
use warpkov_hmm::sequences::{Observation, Observations, Sequences};

use super::common::categorical;

/// Observation `at` of sequences.
fn observation(sequences: &Sequences, at: usize) -> Observation<'_> {
    match sequences.observations() {
        Observations::Symbols(symbols) => Observation::Symbol(symbols[at]),
        Observations::Vectors { dimensions, values } => {
            Observation::Vector(&values[at * *dimensions as usize..][..*dimensions as usize])
        }
    }
}

/// The first `steps` observations of a sequence.
fn beginning(sequences: &Sequences, sequence: usize, steps: usize) -> Sequences {
    let range = sequences.range(sequence);
    let observations = match sequences.observations() {
        Observations::Symbols(symbols) => Observations::Symbols(symbols[range][..steps].to_vec()),
        &Observations::Vectors { dimensions, ref values } => {
            let d = dimensions as usize;
            Observations::Vectors { dimensions, values: values[range.start * d..][..steps * d].to_vec() }
        }
    };
    Sequences::new(vec![0, steps as u64], observations).unwrap()
}

fn near(found: &[f64], expected: &[f64], tolerance: f64, place: &str) {
    assert_eq!(found.len(), expected.len(), "{place}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance * (1.0 + expected.abs()), "{place}: {found} for {expected}");
    }
}

/// What is known after each observation is what the forward-backward recursion over the observations so far says. A refused
/// observation changes nothing.
#[test]
fn filtering_agrees_with_the_recursions_over_every_beginning() {
    let (mut steps, mut refused, mut smallest) = (0, 0, 1.0_f64);
    for seed in 0..300 {
        let (model, sequences) = crate::wide::random_case(seed);
        let n = model.start().len();
        let lag = [0, 1, 3, 1000][seed as usize % 4];
        let mut filter = Filter::new(&model, lag);
        for sequence in 0..sequences.len().min(2) {
            let length = sequences.range(sequence).len().min(30);
            let mut possible = true;
            for t in 1..=length {
                let place = format!("seed {seed}, sequence {sequence}, step {t}");
                let pushed = filter.push(observation(&sequences, sequences.range(sequence).start + t - 1));
                if model.end().is_some() {
                    // Until the sequence ends, its end is open: its end is compared below.
                    possible = pushed.is_ok();
                } else {
                    let truth = crate::wide::truth(&model, &beginning(&sequences, sequence, t), 0);
                    possible = truth.log > f64::NEG_INFINITY;
                    assert_eq!(pushed.err(), (!possible).then_some(Refused::Impossible), "{place}");
                    if possible {
                        let tolerance = 1e-12 * (1.0 + truth.steepest) * t as f64;
                        near(&[filter.log_likelihood()], &[truth.log], 1e-12, &place);
                        near(filter.probs(), &truth.gamma[(t - 1) * n..], tolerance, &place);
                        let smoothed = (t > lag).then(|| &truth.gamma[(t - 1 - lag) * n..][..n]);
                        assert_eq!(filter.smoothed().is_some(), smoothed.is_some(), "{place}");
                        near(&filter.smoothed().unwrap_or_default(), smoothed.unwrap_or_default(), tolerance, &place);
                        let positive = truth.gamma.iter().copied().filter(|p| *p > 0.0);
                        smallest = positive.fold(smallest, f64::min);
                    }
                }
                if !possible {
                    assert_eq!(filter.steps(), t as u64 - 1, "{place}");
                    refused += 1;
                    break;
                }
                steps += 1;
            }
            if !possible {
                filter = Filter::new(&model, lag);
                continue;
            }
            let truth = crate::wide::truth(&model, &beginning(&sequences, sequence, length), 0);
            let place = format!("seed {seed}, end of sequence {sequence}");
            match filter.finish() {
                Ok((smoothed, log)) => {
                    let kept = lag.min(length);
                    near(&[log], &[truth.log], 1e-12, &place);
                    let tolerance = 1e-12 * (1.0 + truth.steepest) * length as f64;
                    near(&smoothed.concat(), &truth.gamma[(length - kept) * n..], tolerance, &place);
                    assert_eq!((filter.steps(), filter.log_likelihood()), (0, 0.0));
                }
                Err(error) => {
                    assert_eq!((error, truth.log), (Refused::Endless, f64::NEG_INFINITY), "{place}");
                    filter = Filter::new(&model, lag);
                }
            }
        }
    }
    // The cases are not all easy.
    assert!(steps > 3000 && refused > 20 && smallest < 1e-300, "{steps} steps, {refused} refused, {smallest:e}");
}

/// A restored filter goes on with the same bits, and numbers of another filter change nothing.
#[test]
fn filters_are_saved_and_restored() {
    for seed in 0..100 {
        let (model, sequences) = crate::wide::random_case(seed);
        for lag in [0, 2] {
            let mut filter = Filter::new(&model, lag);
            for at in sequences.range(0).take(20) {
                let mut restored = Filter::new(&model, lag);
                let saved = filter.save();
                assert!(restored.restore(&saved));
                assert!(!restored.restore(&saved[1..]) && !restored.restore(&[]));
                assert!(!restored.restore(&[&saved[..saved.len() - 3], &[f64::NAN, 0.0, 0.0]].concat()));
                let seen = observation(&sequences, at);
                assert_eq!(restored.push(seen), filter.push(seen));
                assert_eq!(restored.smoothed(), filter.smoothed());
                assert_eq!(restored.save(), filter.save());
                assert_eq!(restored.steps(), filter.steps());
                let mut another = filter.another();
                assert!(another.restore(&filter.save()));
                assert_eq!(restored.break_off(), another.break_off());
            }
        }
    }
}

/// Predictions are those of powers of A, and a step without an observation is a prediction.
#[test]
fn predictions_are_powers_of_the_transition_matrix() {
    let model = categorical(
        &[1.0, 0.0, 0.0],
        &[0.9, 0.1, 0.0, 0.0, 0.5, 0.5, 0.2, 0.0, 0.8],
        2,
        &[0.5, 0.5, 0.1, 0.9, 0.75, 0.25],
    );
    let mut filter = Filter::new(&model, 0);
    near(&filter.predicted(0), &[0.0; 3], 0.0, "before the first observation");
    near(&filter.predicted(1), &[1.0, 0.0, 0.0], 0.0, "the first observation");
    near(&filter.predicted(2), &[0.9, 0.1, 0.0], 1e-15, "the second observation");
    filter.push(Observation::Symbol(0)).unwrap();
    near(&filter.predicted(0), &[1.0, 0.0, 0.0], 0.0, "0 steps");
    near(&filter.predicted(1), &[0.9, 0.1, 0.0], 1e-15, "1 step");
    near(&filter.predicted(2), &[0.81, 0.14, 0.05], 1e-15, "2 steps");
    near(&filter.observation(&filter.predicted(1)), &[0.46, 0.54], 1e-15, "the next symbol");
    filter.push(Observation::Missing).unwrap();
    near(filter.probs(), &[0.9, 0.1, 0.0], 1e-15, "a missing observation");
    near(&[filter.log_likelihood()], &[0.5_f64.ln()], 1e-15, "a missing observation");
    // Far ahead, the stationary distribution: π = (10, 2, 5) / 17.
    near(&filter.predicted(10_000), &[10.0 / 17.0, 2.0 / 17.0, 5.0 / 17.0], 1e-12, "10,000 steps");
    assert_eq!(filter.push(Observation::Symbol(2)), Err(Refused::Symbol { found: 2, symbols: 2 }));
    assert_eq!(filter.push(Observation::Vector(&[0.0])), Err(Refused::Vector { found: 1, expected: 0 }));

    // A mixture of 𝒩(0, 1) and 𝒩(4, 9) with weights ½: mean 2, variance 5 + 4.
    let emissions = Emissions::Gaussian {
        dimensions: 1,
        means: vec![0.0, 4.0],
        covariances: Covariances::Diagonal(vec![1.0, 9.0]),
    };
    let parts =
        HmmParts { start: vec![0.5; 2], transitions: vec![0.5; 4], end: None, emissions, names: Names::default() };
    let model = parts.validated().unwrap();
    let mut filter = Filter::new(&model, 0);
    near(&filter.observation(&[0.5, 0.5]), &[2.0, 3.0], 1e-15, "a mixture");
    let infinite = filter.push(Observation::Vector(&[f64::INFINITY]));
    assert_eq!(infinite, Err(Refused::Vector { found: 0, expected: 1 }));
    // NaN is a missing component.
    filter.push(Observation::Vector(&[f64::NAN])).unwrap();
    near(&[filter.log_likelihood()], &[0.0], 1e-15, "a missing number");
    assert_eq!(filter.steps(), 1);
}
