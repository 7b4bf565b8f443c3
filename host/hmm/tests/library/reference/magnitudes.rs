//! Numbers of all magnitudes against recursions in extended precision.

use warpkov_hmm::backends::cpu::Exact;
use warpkov_hmm::model::{Hmm, HmmParts};
use warpkov_hmm::sequences::Sequences;

use super::common::{All, all, all_in, categorical, close, gaussian, numbers};

/// Results of the exact recursions alone, for all sequences.
fn exactly(model: &Hmm, sequences: &Sequences) -> All {
    let exact = Exact::new(model);
    let which: Vec<u32> = (0..sequences.len() as u32).collect();
    let mut posteriors = vec![0.0; sequences.steps() * model.start().len()];
    let logs = exact.posteriors(sequences, &which, &mut posteriors);
    assert_eq!(logs, exact.log_likelihoods(sequences, &which));
    let expected = exact.expect(sequences, &which);
    assert_eq!(logs, expected.log_likelihoods);
    All { logs, posteriors, decoded: all(model, sequences).decoded, expected }
}

/// Compares results with the truth. `unit` is the unit roundoff.
fn compare(seed: u64, model: &Hmm, sequences: &Sequences, found: &All, unit: f64) {
    let n = model.start().len();
    let mut pairs = vec![0.0; n * n];
    let (mut loosest, mut least): (f64, f64) = (0.0, f64::INFINITY);
    for sequence in 0..sequences.len() {
        let (truth, range) = (crate::wide::truth(model, sequences, sequence), sequences.range(sequence));
        let (log, steps) = (found.logs[sequence], range.len() as f64);
        let tolerance = 1e4 * unit * truth.log.abs().max(steps);
        let near = (log - truth.log).abs() <= tolerance || log == truth.log;
        assert!(near, "seed {seed}, sequence {sequence}: ln P {log}, expected {}", truth.log);
        // The error of log-densities in f64, and one rounding error per step.
        let tolerance = 1e4 * unit + 1e-14 * truth.steepest * steps;
        let gamma = &found.posteriors[range.start * n..range.end * n];
        for (at, (gamma, expected)) in gamma.iter().zip(&truth.gamma).enumerate() {
            let near = (gamma - expected).abs() <= tolerance;
            assert!(
                near,
                "seed {seed}, sequence {sequence}, t {}, state {}: {gamma}, expected {expected}",
                at / n,
                at % n
            );
        }
        pairs.iter_mut().zip(&truth.pairs).for_each(|(sum, pairs)| *sum += pairs);
        loosest = loosest.max(tolerance * steps * sequences.len() as f64);
        least = least.min(truth.log);
        // The best path has at least 1/N^T of the total probability.
        let (score, most) = (found.decoded.scores[sequence], steps * (n as f64).ln());
        let slack = 1e4 * unit * log.abs().max(steps);
        let bounded = score <= log + slack && log <= score + most + slack;
        assert!(bounded || score == log, "seed {seed}, sequence {sequence}: the best path has {score} of {log}");
    }
    for (at, (pairs, expected)) in found.expected.transitions.iter().zip(&pairs).enumerate() {
        let near = (pairs - expected).abs() <= loosest;
        assert!(near, "seed {seed}, {} to {}: {pairs}, expected {expected}", at / n, at % n);
    }
}

#[test]
fn batches_agree_with_the_truth_at_all_magnitudes_in_f64() {
    for seed in 0..1500 {
        let (model, sequences) = crate::wide::random_case(seed);
        compare(seed, &model, &sequences, &all(&model, &sequences), f64::EPSILON);
    }
}

#[test]
fn batches_agree_with_the_truth_at_all_magnitudes_in_f32() {
    for seed in 0..1500 {
        let (model, sequences) = crate::wide::random_case(seed);
        compare(seed, &model, &sequences, &all_in::<f32>(&model, &sequences), f32::EPSILON.into());
    }
}

#[test]
fn exact_recursions_agree_with_the_truth_at_all_magnitudes() {
    for seed in 0..1500 {
        let (model, sequences) = crate::wide::random_case(seed);
        compare(seed, &model, &sequences, &exactly(&model, &sequences), f64::EPSILON);
    }
}

/// Checks the results of both precisions against the truth.
fn right_in_both(model: &Hmm, sequences: &Sequences) -> Vec<f64> {
    let found = all(model, sequences);
    compare(0, model, sequences, &found, f64::EPSILON);
    compare(0, model, sequences, &all_in::<f32>(model, sequences), f32::EPSILON.into());
    found.logs
}

#[test]
fn an_unreachable_state_does_not_make_others_underflow() {
    // The process starts in the state with mean 0, but the first observation is 50.
    let model = gaussian(&[1.0, 0.0], &[0.5, 0.5, 0.0, 1.0], &[0.0, 50.0], &[1.0, 1.0]);
    let logs = right_in_both(&model, &numbers(&[&[50.0, 0.0, 50.0], &[50.0; 7], &[0.0, 50.0, 0.0]]));
    // Of 50 0 50: the path 0 0 1 dominates.
    close(&logs[..1], &[-1254.14], 1e-5);
}

#[test]
fn sequences_of_another_model_are_scored() {
    // A left-right model with five states, on data that visit the means in another order.
    let transitions = [
        [0.9, 0.1, 0.0, 0.0, 0.0],
        [0.0, 0.9, 0.1, 0.0, 0.0],
        [0.0, 0.0, 0.9, 0.1, 0.0],
        [0.0, 0.0, 0.0, 0.9, 0.1],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ];
    let model = gaussian(&[1.0, 0.0, 0.0, 0.0, 0.0], &transitions.concat(), &[0.0, 30.0, -20.0, 60.0, 10.0], &[1.0; 5]);
    let word = |order: [f64; 5]| order.iter().flat_map(|&mean| [mean; 200]).collect::<Vec<_>>();
    let words = [word([10.0, -20.0, 60.0, 0.0, 30.0]), word([0.0, 30.0, -20.0, 60.0, 10.0]), word([60.0; 5])];
    right_in_both(&model, &numbers(&[&words[0], &words[1], &words[2]]));
}

#[test]
fn a_dominant_state_that_becomes_impossible_leaves_the_others() {
    // State 0 emits symbol 0 a hundred times as often as state 1, and never symbol 1. Both states are absorbing.
    let model = categorical(&[0.5, 0.5], &[1.0, 0.0, 0.0, 1.0], 3, &[0.99, 0.0, 0.01, 0.0099, 0.5, 0.4901]);
    let mut seen = vec![0; 200];
    seen.push(1);
    right_in_both(&model, &Sequences::of_symbols(&[seen.clone(), [seen, vec![2; 300]].concat()]).unwrap());
}

#[test]
fn subnormal_probabilities_count() {
    let seen = Sequences::of_symbols(&[vec![1; 40], vec![0, 1, 0, 1, 1, 0], vec![0; 3]]).unwrap();
    // Subnormal entries of B.
    let model = categorical(&[0.5, 0.5], &[0.7, 0.3, 0.4, 0.6], 2, &[1.0, 5e-324, 1.0, 1.5e-323]);
    right_in_both(&model, &seen);
    // Subnormal entries of A and π.
    let model = categorical(&[1.0, 5e-324], &[1.0, 1e-320, 1e-310, 1.0], 2, &[1.0, 0.0, 0.0, 1.0]);
    right_in_both(&model, &seen);
    // Tiny end probabilities, two of them subnormal.
    for end in [1e-310, 5e-324, 1e-30] {
        let model = categorical(&[0.5, 0.5], &[0.7, 0.3, 0.4, 0.6], 2, &[0.5, 0.5, 0.1, 0.9]);
        let model = HmmParts { end: Some(vec![end, 0.0]), ..model.into_parts() }.validated().unwrap();
        right_in_both(&model, &seen);
    }
}
