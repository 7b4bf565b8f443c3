//! Sequences cut into chunks have the results of the recursion.

use warpkov::hmm::backend::NO_STATE;
use warpkov::hmm::backends::device::{Batch, Limits};
use warpkov::hmm::generate::{Kind, Uniform};
use warpkov::hmm::model::{Emissions, HmmParts, Names};
use warpkov::hmm::sample::sample;
use warpkov::hmm::sequences::{Observations, Sequences};
use warpkov::runtime::Precise;
use warpkov_runtime::device::AnyDevice;

use crate::check::same;
use crate::random::Random;
use crate::{Outcome, Suite};

use super::common::{agree, on_cpu, said};

pub fn add(suite: &mut Suite) {
    suite.add("hmm_scan::f32", scan::<f32>);
    suite.add("hmm_scan::f64", scan::<f64>);
    suite.add("hmm_scan_ties::f32", scan_ties::<f32>);
    suite.add("hmm_scan_ties::f64", scan_ties::<f64>);
}

/// Sequences cut into chunks have the results of the recursion, and each sequence has the same bits as without the
/// others.
fn scan<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(18);
    let many = [1, 30, 5, 6, 13];
    let long = [if scale > 1 { 300 } else { 12 }, 2];
    let cases: [(usize, usize, u32, &[usize]); 7] = [
        (1, 2, 4, &many),
        (3, 4, 1, &[7, 1]),
        (8, 3, 6, &many),
        (17, 4, 5, &[11, 5, 3]),
        (40, 3, 5, &[9]),
        (64, 5, 5, &long),
        (5, 3, 40, &[85, 3]),
    ];
    for (n, symbols, steps, lengths) in cases {
        let models = [random.hmm(n, symbols, true), random.hmm(n, symbols, false)];
        let models = if n > 32 { &models[..1] } else { &models };
        let sequences = random.observed(lengths, symbols);
        let limits = Limits { chunks: Some(steps), ..Limits::default() };
        let all = said(&mut Batch::<T>::new(device, &sequences, limits)?, models)?;
        for (k, (got, expected)) in all.iter().zip(on_cpu(models, &sequences)).enumerate() {
            agree::<T>(got, &expected, &models[k], &sequences)
                .map_err(|error| format!("N = {n}, L = {steps}: {}", error.message().unwrap_or_default()))?;
        }
        let within = Limits { trellis: 100 * n, ..limits };
        if n == 17 || n == 40 {
            let cut = said(&mut Batch::<T>::new(device, &sequences, within)?, models)?.remove(0);
            same("ln P(O) in windows", &cut.logs, &all[0].logs)?;
            same("γ in windows", &cut.posteriors, &all[0].posteriors)?;
            agree::<T>(&cut, &on_cpu(models, &sequences)[0], &models[0], &sequences)?;
        }
        if let (8, Observations::Symbols(observed)) = (n, sequences.observations()) {
            let range = sequences.range(1);
            let alone = Sequences::of_symbols(&[&observed[range.clone()]])?;
            let alone = said(&mut Batch::<T>::new(device, &alone, limits)?, models)?.remove(0);
            same("ln P(O) alone", &alone.logs, &all[0].logs[1..2])?;
            same("γ alone", &alone.posteriors, &all[0].posteriors[range.start * n..range.end * n])?;
            same("path alone", &alone.decoded.states, &all[0].decoded.states[range])?;
        }
    }
    let kind = Kind::Vectors { dimensions: 2, full: true };
    let model = Uniform { states: 6, kind, ends: false, seed: 5 }.generate()?;
    let drawn = sample(&model, 3, Some(9), 3)?;
    let limits = Limits { chunks: Some(4), ..Limits::default() };
    let models = [model];
    let all = said(&mut Batch::<T>::new(device, &drawn.sequences, limits)?, &models)?;
    agree::<T>(&all[0], &on_cpu(&models, &drawn.sequences)[0], &models[0], &drawn.sequences)
}

/// In chunks, too, ties go to the lowest last state, and so on. A left-right model has no tie.
fn scan_ties<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let limits = Limits { chunks: Some(3), ..Limits::default() };
    for n in [3, 20] {
        // Probabilities are powers of two: over few steps, sums of their logarithms tie exactly. Two states emit symbol
        // 1.
        let p = 1.0 / (n as f64).log2().ceil().exp2();
        let mut transitions = vec![p; n * n];
        transitions.chunks_exact_mut(n).for_each(|row| row[n - 1] += 1.0 - n as f64 * p);
        let mut probs: Vec<f64> = [1.0, 0.0, 0.0].repeat(n);
        for state in [n - 2, n - 1] {
            probs[3 * state..3 * state + 3].copy_from_slice(&[0.5, 0.5, 0.0]);
        }
        let model = HmmParts {
            start: transitions[..n].to_vec(),
            transitions,
            end: None,
            emissions: Emissions::Categorical { symbols: 3, probs },
            names: Names::default(),
        }
        .validated()
        .unwrap();
        let sequences = Sequences::of_symbols(&[
            vec![0, 0, 1, 0, 0, 0, 1, 1, 0],
            vec![0; 10],
            vec![0, 0, 0, 0, 2, 0, 0, 0],
            vec![0, 1, 1, 0, 1, 1, 1],
        ])?;
        let models = [model];
        let got = said(&mut Batch::<T>::new(device, &sequences, limits)?, &models)?.remove(0);
        let expected = on_cpu(&models, &sequences).remove(0);
        same("path", &got.decoded.states, &expected.decoded.states)?;
        same("none", &got.decoded.states[19..27], &[NO_STATE; 8])?;
        agree::<T>(&got, &expected, &models[0], &sequences)?;
    }
    // Equal states: all paths through the first two tie.
    let alike = HmmParts {
        start: vec![0.5, 0.5, 0.0],
        transitions: vec![0.5, 0.5, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 1.0],
        end: None,
        emissions: Emissions::Categorical { symbols: 2, probs: vec![0.5; 6] },
        names: Names::default(),
    }
    .validated()
    .unwrap();
    let sequences = Sequences::of_symbols(&[vec![0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1], vec![1; 6]])?;
    let got = said(&mut Batch::<T>::new(device, &sequences, limits)?, std::slice::from_ref(&alike))?.remove(0);
    same("the lowest states", &got.decoded.states, &[0; 17])?;
    // A left-right model.
    let left_right = HmmParts {
        start: vec![1.0, 0.0, 0.0, 0.0],
        transitions: vec![0.75, 0.25, 0.0, 0.0, 0.0, 0.75, 0.25, 0.0, 0.0, 0.0, 0.5, 0.25, 0.0, 0.0, 0.0, 0.5],
        end: Some(vec![0.0, 0.0, 0.25, 0.5]),
        emissions: Emissions::Categorical { symbols: 2, probs: vec![0.875, 0.125, 0.25, 0.75, 1.0, 0.0, 0.0, 1.0] },
        names: Names::default(),
    }
    .validated()
    .unwrap();
    let sequences =
        Sequences::of_symbols(&[vec![0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1], vec![1; 7], vec![0; 3], vec![1, 1]])?;
    let models = [left_right];
    let got = said(&mut Batch::<T>::new(device, &sequences, limits)?, &models)?.remove(0);
    agree::<T>(&got, &on_cpu(&models, &sequences)[0], &models[0], &sequences)
}
