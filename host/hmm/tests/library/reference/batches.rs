//! Batches of sequences against runs one by one, on any number of threads, in both precisions and with little memory.

use std::ops::ControlFlow;

use warpkov_hmm::backend::Recursions;
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::generate::{Kind, LeftRight, Uniform, restart};
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::options::Options;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences, offsets};
use warpkov_hmm::train::train;
use warpkov_runtime::Precise;

use super::common::{all, all_in, categorical, close, one, without_ends};

/// 45 sequences of random lengths between 1 and 70, unsorted.
fn ragged(model: &Hmm, seed: u64) -> Sequences {
    ragged_of(model, 45, seed)
}

fn ragged_of(model: &Hmm, count: usize, seed: u64) -> Sequences {
    let parts: Vec<Sequences> = (0..count)
        .map(|m| sample(model, 1, Some(1 + (m * 37 + 11) % 70), seed + m as u64).unwrap().sequences)
        .collect();
    let offsets = offsets(parts.iter().map(Sequences::steps));
    let observations = match model.emissions() {
        Emissions::Categorical { .. } => Observations::Symbols(
            parts
                .into_iter()
                .flat_map(|part| match part.observations() {
                    Observations::Symbols(symbols) => symbols.clone(),
                    Observations::Vectors { .. } => Vec::new(),
                })
                .collect(),
        ),
        Emissions::Gaussian { dimensions, .. } => Observations::Vectors {
            dimensions: *dimensions,
            values: parts
                .into_iter()
                .flat_map(|part| match part.observations() {
                    Observations::Vectors { values, .. } => values.clone(),
                    Observations::Symbols(_) => Vec::new(),
                })
                .collect(),
        },
        Emissions::Channels(_) => panic!("channels"),
    };
    Sequences::new(offsets, observations).unwrap()
}

/// One of the sequences, alone.
fn alone(sequences: &Sequences, sequence: usize) -> Sequences {
    let range = sequences.range(sequence);
    let observations = match sequences.observations() {
        Observations::Symbols(symbols) => Observations::Symbols(symbols[range.clone()].to_vec()),
        Observations::Vectors { dimensions, values } => {
            let d = *dimensions as usize;
            Observations::Vectors { dimensions: *dimensions, values: values[range.start * d..range.end * d].to_vec() }
        }
    };
    Sequences::new(vec![0, range.len() as u64], observations).unwrap()
}

fn models() -> Vec<Hmm> {
    let kinds =
        [Kind::Symbols(5), Kind::Vectors { dimensions: 2, full: false }, Kind::Vectors { dimensions: 3, full: true }];
    let of_kind =
        |kind| [1, 3, 17, 40].map(|states| Uniform { states, kind, ends: false, seed: 7 }.generate().unwrap());
    let mut models: Vec<Hmm> = kinds.into_iter().flat_map(of_kind).collect();
    models.push(LeftRight { states: 6, jump: 2, kind: Kind::Symbols(4), ends: false, seed: 3 }.generate().unwrap());
    models.push(Uniform { states: 5, kind: Kind::Symbols(4), ends: true, seed: 3 }.generate().unwrap());
    models
}

fn ragged_is_one_by_one<T: Precise>() {
    for model in models() {
        let sequences = ragged(&without_ends(&model), 5);
        let together = all_in::<T>(&model, &sequences);
        let n = model.states() as usize;
        for sequence in 0..sequences.len() {
            let alone = all_in::<T>(&model, &alone(&sequences, sequence));
            let range = sequences.range(sequence);
            assert_eq!(together.logs[sequence].to_bits(), alone.logs[0].to_bits());
            assert_eq!(together.decoded.scores[sequence].to_bits(), alone.decoded.scores[0].to_bits());
            assert_eq!(together.decoded.states[range.clone()], alone.decoded.states);
            let of_batch = together.posteriors[range.start * n..range.end * n].iter().map(|p| p.to_bits());
            assert!(of_batch.eq(alone.posteriors.iter().map(|p| p.to_bits())));
        }
    }
}

#[test]
fn ragged_batches_are_runs_one_by_one_in_f64() {
    ragged_is_one_by_one::<f64>();
}

#[test]
fn ragged_batches_are_runs_one_by_one_in_f32() {
    ragged_is_one_by_one::<f32>();
}

/// Below this many multiplications, one thread does all.
const FEW: usize = 1 << 23;

/// The results of `f` on 1, 2, 3 and 5 threads.
fn on_threads<R: Send>(f: impl Fn() -> R + Sync) -> [R; 4] {
    [1, 2, 3, 5].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(&f))
}

fn threads_do_not_matter<T: Precise>() {
    for model in models().into_iter().filter(|model| model.states() > 10) {
        let n = model.states() as usize;
        let sequences = ragged_of(&without_ends(&model), FEW / (34 * n * n) + 1, 9);
        assert!(sequences.steps() * n * n >= FEW, "{} steps", sequences.steps());
        let runs = on_threads(|| {
            let all = all_in::<T>(&model, &sequences);
            (all.logs, all.posteriors, all.decoded, all.expected)
        });
        assert!(runs[1..].iter().all(|run| *run == runs[0]));
        let restarts: Vec<Hmm> = (0..2).map(|stream| restart(&model, &sequences, 5, stream)).collect();
        let options = Options { iterations: 2, tolerance: 0.0, ..Options::default() };
        let runs = on_threads(|| {
            let mut batch = Batch::<T>::new(&sequences);
            train(&mut batch, restarts.clone(), &options, &mut |_| ControlFlow::Continue(())).unwrap()
        });
        assert!(runs[1..].iter().all(|run| *run == runs[0]));
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit_in_f64() {
    threads_do_not_matter::<f64>();
}

#[test]
fn the_number_of_threads_does_not_change_a_bit_in_f32() {
    threads_do_not_matter::<f32>();
}

#[test]
fn single_precision_is_near_double() {
    for model in models() {
        let sequences = ragged(&without_ends(&model), 11);
        let (single, double) = (all_in::<f32>(&model, &sequences), all(&model, &sequences));
        close(&single.logs, &double.logs, 1e-5);
        close(&single.posteriors, &double.posteriors, 1e-4);
        close(&single.expected.transitions, &double.expected.transitions, 1e-4);
        close(&single.decoded.scores, &double.decoded.scores, 1e-6);
    }
}

#[test]
fn small_probabilities_do_not_underflow() {
    // All probabilities of one symbol, and of all paths but one, are below the range of f32.
    let tiny = 1e-60;
    let model = categorical(&[0.5, 0.5], &[1.0 - 1e-30, 1e-30, 1e-30, 1.0 - 1e-30], 2, &[1.0, tiny, 1.0, 3.0 * tiny]);
    let sequences = Sequences::of_symbols(&[vec![1; 1000]]).unwrap();
    let expected = 0.5f64.ln() + 1000.0 * (3.0 * tiny).ln();
    close(&all(&model, &sequences).logs, &[expected], 1e-13);
    close(&all_in::<f32>(&model, &sequences).logs, &[expected], 1e-6);
    // α̂ underflows for a state that later is the only one able to emit the observation.
    let model = categorical(&[0.5, 0.5], &[1.0, 0.0, 0.0, 1.0], 3, &[0.9, 0.1, 0.0, 0.1, 0.8, 0.1]);
    let mut seen = vec![0; 300];
    seen.push(2);
    let sequences = Sequences::of_symbols(&[seen]).unwrap();
    let all_of = all(&model, &sequences);
    close(&all_of.logs, &[0.5f64.ln() + 301.0 * 0.1f64.ln()], 1e-14);
    let certain = |gamma: &[f64]| gamma[0] < 1e-15 && (gamma[1] - 1.0).abs() < 1e-15;
    assert!(all_of.posteriors.chunks_exact(2).all(certain));
    close(&all_of.expected.transitions, &[0.0, 0.0, 0.0, 300.0], 1e-14);
}

#[test]
fn long_sequences_need_little_memory_and_give_the_same_bits() {
    for model in models() {
        let sequences = ragged(&without_ends(&model), 13);
        let with = |bytes: usize| {
            let mut batch = Batch::<f64>::with_trellis(&sequences, bytes);
            one(batch.set_models(std::slice::from_ref(&model)).map(|()| vec![()]));
            (one(batch.posteriors()), one(batch.viterbi()), one(batch.expect()))
        };
        let (whole, stretches) = (with(usize::MAX), with(0));
        assert!(whole.0 == stretches.0 && whole.1 == stretches.1);
        assert_eq!(whole.2.log_likelihoods, stretches.2.log_likelihoods);
        // Sums over steps have another order.
        close(&whole.2.transitions, &stretches.2.transitions, 1e-12);
        close(&whole.2.start, &stretches.2.start, 1e-12);
        assert_eq!(whole.2.emissions, stretches.2.emissions);
    }
}
