//! Hidden Markov models against published numbers, brute force, and recursions in extended precision.
//!
//! One file, because all comparisons share the collection of results in `All`.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_hmm::backend::{Decoded, Expected, NO_STATE, Recursions, Statistics, posterior_path};
use warpkov_hmm::backends::cpu::{Batch, Exact};
use warpkov_hmm::backends::device::Limits;
use warpkov_hmm::divided::{Divided, Division, RankShare};
use warpkov_hmm::filter::{Filter, Refused};
use warpkov_hmm::generate::{IceCream, Kind, LeftRight, Uniform, restart};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{FLOOR, Options, Precision, Pseudocounts};
use warpkov_hmm::place::{self, recursions};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observation, Observations, Sequences, offsets};
use warpkov_hmm::train::{Status, Trained, aic, bic, train};
use warpkov_runtime::Precise;
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Communicator, Local};

/// Eisner's diary (2002): one to three ice creams per day, as symbols 0 to 2.
const DIARY: [u32; 33] =
    [2, 3, 3, 2, 3, 2, 3, 2, 2, 3, 1, 3, 3, 1, 1, 1, 2, 1, 1, 1, 3, 1, 2, 1, 1, 1, 2, 3, 3, 2, 3, 2, 2];

fn diary() -> Sequences {
    Sequences::of_symbols(&[DIARY.map(|day| day - 1)]).unwrap()
}

fn categorical(start: &[f64], transitions: &[f64], symbols: u32, probs: &[f64]) -> Hmm {
    let emissions = Emissions::Categorical { symbols, probs: probs.to_vec() };
    let (start, transitions) = (start.to_vec(), transitions.to_vec());
    HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().unwrap()
}

/// Results of all recursions for one model.
struct All {
    logs: Vec<f64>,
    posteriors: Vec<f64>,
    decoded: Decoded,
    expected: Expected,
}

fn all_in<T: Precise>(model: &Hmm, sequences: &Sequences) -> All {
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

fn all(model: &Hmm, sequences: &Sequences) -> All {
    all_in::<f64>(model, sequences)
}

/// The result for the only model.
fn one<R>(results: Result<Vec<R>, Infallible>) -> R {
    let Ok(mut results) = results;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

fn trained(model: &Hmm, sequences: &Sequences, options: &Options) -> Trained {
    let mut batch = Batch::<f64>::new(sequences);
    train(&mut batch, vec![model.clone()], options, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[track_caller]
fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(near || found == expected, "[{at}] is {found}, expected {expected}");
    }
}

/// P(o₁ … oₜ) of every prefix, and the filtered distribution of its last state.
fn filtered(model: &Hmm, symbols: &[u32]) -> Vec<(f64, Vec<f64>)> {
    let n = model.states() as usize;
    let beginnings = (1..=symbols.len()).map(|length| {
        let beginning = Sequences::of_symbols(&[&symbols[..length]]).unwrap();
        let all = all(model, &beginning);
        (all.logs[0].exp(), all.posteriors[(length - 1) * n..].to_vec())
    });
    beginnings.collect()
}

/// αₜ without scaling, for models without end probabilities: P(o₁ … oₜ) times the filtered distribution.
fn alpha(model: &Hmm, symbols: &[u32]) -> Vec<f64> {
    filtered(model, symbols).iter().flat_map(|(prob, filter)| filter.iter().map(move |p| prob * p)).collect()
}

#[test]
fn eisners_ice_cream_has_the_published_likelihood() {
    let model = IceCream.generate().unwrap();
    let all = all(&model, &diary());
    // Published: 0.912e-18. The other digits are from brute force in exact arithmetic.
    close(&all.logs, &[-41.537_817_821_1], 1e-11);
    close(&[all.logs[0].exp() * 1e19], &[9.127_565], 1e-6);
    // α without end probabilities: .1 .1; .009 .063; .00135 .03591. An extra state, which emits an unused symbol,
    // replaces the end.
    let HmmParts { mut start, emissions, .. } = model.into_parts();
    start.push(0.0);
    let Emissions::Categorical { symbols: 3, probs } = emissions else { panic!("three symbols") };
    let mut probs: Vec<f64> = probs.chunks(3).flat_map(|row| [row, &[0.0]].concat()).collect();
    probs.extend([0.0, 0.0, 0.0, 1.0]);
    let transitions = vec![0.8, 0.1, 0.1, 0.1, 0.8, 0.1, 0.0, 0.0, 1.0];
    let emissions = Emissions::Categorical { symbols: 4, probs };
    let names = Names::default();
    let endless = HmmParts { start, transitions, end: None, emissions, names }.validated().unwrap();
    let mut batch = Batch::<f64>::new(SEQUENCES_OF_THREE.get_or_init(three));
    one(batch.set_models(std::slice::from_ref(&endless)).map(|()| vec![()]));
    close(&one(batch.log_likelihoods()), &[0.2f64.ln(), 0.072f64.ln(), 0.03726f64.ln()], 1e-14);
}

static SEQUENCES_OF_THREE: std::sync::OnceLock<Sequences> = std::sync::OnceLock::new();

/// The first day, the first two days, and the first three days.
fn three() -> Sequences {
    Sequences::of_symbols(&[vec![1], vec![1, 2], vec![1, 2, 2]]).unwrap()
}

#[test]
fn eisners_ice_cream_has_the_published_counts() {
    let all = all(&IceCream.generate().unwrap(), &diary());
    let Statistics::Categorical(counts) = &all.expected.emissions else { panic!("symbols") };
    // Published to three decimals.
    close(counts, &[9.931, 3.212, 1.537, 1.069, 7.788, 9.463], 5e-4);
    close(&all.expected.transitions, &[12.855, 1.6, 1.695, 15.85], 1e-3);
    close(&[all.expected.end.iter().sum()], &[1.0], 1e-14);
}

#[test]
fn eisners_ice_cream_learns_as_published() {
    let model = IceCream.generate().unwrap();
    let step = Options { iterations: 1, tolerance: 0.0, ..Options::default() };
    let run = trained(&model, &diary(), &step).runs.remove(0).model;
    close(run.transitions(), &[0.8757410, 0.1089602, 0.0925170, 0.8651580], 1e-7);
    close(run.end().unwrap(), &[0.0152988, 0.0423250], 1e-7);
    let Emissions::Categorical { probs, .. } = run.emissions() else { panic!("symbols") };
    close(probs, &[0.6765024, 0.2188194, 0.1046782, 0.0583723, 0.4250865, 0.5165412], 1e-7);
    // From π = .3 .7, after ten iterations (published).
    let ten = Options { iterations: 10, ..step.clone() };
    let run = trained(&HmmParts { start: vec![0.3, 0.7], ..model.into_parts() }.validated().unwrap(), &diary(), &ten)
        .runs
        .remove(0)
        .model;
    close(run.transitions(), &[0.9337, 0.0663, 0.0718, 0.8650], 1e-4);
    close(run.end().unwrap(), &[0.0, 0.0632], 1e-4);
    let Emissions::Categorical { probs, .. } = run.emissions() else { panic!("symbols") };
    close(probs, &[0.6407, 0.1481, 0.2112, 1.5e-4, 0.5341, 0.4657], 1e-4);
}

#[test]
fn jurafsky_and_martin() {
    // States H, C; symbols 1, 2, 3 ice creams (Speech and Language Processing, 3rd edition, appendix A).
    let model = categorical(&[0.8, 0.2], &[0.6, 0.4, 0.5, 0.5], 3, &[0.2, 0.4, 0.4, 0.5, 0.4, 0.1]);
    close(&alpha(&model, &[2, 0, 2]), &[0.32, 0.02, 0.0404, 0.069, 0.023496, 0.005066], 1e-14);
    let all = all(&model, &Sequences::of_symbols(&[[2, 0, 2]]).unwrap());
    close(&[all.logs[0].exp(), all.decoded.scores[0].exp()], &[0.028562, 0.0128], 1e-14);
    assert_eq!(all.decoded.states, [0, 1, 0]);
}

#[test]
fn umbrella() {
    // States rain, no rain; observations umbrella, none (Russell and Norvig).
    let model = categorical(&[0.5, 0.5], &[0.7, 0.3, 0.3, 0.7], 2, &[0.9, 0.1, 0.2, 0.8]);
    let seen = [0, 0, 1, 0, 0];
    let filter: Vec<f64> = filtered(&model, &seen).iter().map(|(_, filter)| filter[0]).collect();
    close(&filter, &[0.8182, 0.8834, 0.1907, 0.7308, 0.8673], 1e-4);
    let all = all(&model, &Sequences::of_symbols(&[seen]).unwrap());
    let smoothed: Vec<f64> = all.posteriors.iter().step_by(2).copied().collect();
    close(&smoothed, &[0.8673, 0.8204, 0.3075, 0.8204, 0.8673], 1e-4);
    close(&[all.logs[0].exp(), all.decoded.scores[0].exp()], &[0.034_303_700_5, 0.011_573_604], 1e-9);
    assert_eq!(all.decoded.states, [0, 0, 1, 0, 0]);
    assert_eq!(posterior_path(&all.posteriors, 2), [0, 0, 1, 0, 0]);
}

#[test]
fn wikipedias_examples() {
    // States rainy, sunny; symbols walk, shop, clean.
    let model = categorical(&[0.6, 0.4], &[0.7, 0.3, 0.4, 0.6], 3, &[0.1, 0.4, 0.5, 0.6, 0.3, 0.1]);
    let seen = Sequences::of_symbols(&[[0, 1, 2]]).unwrap();
    let all_of = all(&model, &seen);
    close(&[all_of.logs[0].exp(), all_of.decoded.scores[0].exp()], &[0.033612, 0.01344], 1e-14);
    assert_eq!(all_of.decoded.states, [1, 0, 0]);
    // States healthy, fever; symbols normal, cold, dizzy.
    let model = categorical(&[0.6, 0.4], &[0.7, 0.3, 0.4, 0.6], 3, &[0.5, 0.4, 0.1, 0.1, 0.3, 0.6]);
    let all_of = all(&model, &seen);
    close(&[all_of.logs[0].exp(), all_of.decoded.scores[0].exp()], &[0.03628, 0.01512], 1e-14);
    assert_eq!(all_of.decoded.states, [0, 0, 1]);
}

#[test]
fn borodovsky_and_ekisheva() {
    // States H, L; GGCACTGAA over ACGT (Problems and Solutions in Biological Sequence Analysis).
    let model = categorical(&[0.5, 0.5], &[0.5, 0.5, 0.4, 0.6], 4, &[0.2, 0.3, 0.3, 0.2, 0.3, 0.2, 0.2, 0.3]);
    let all = all(&model, &Sequences::of_symbols(&[[2, 2, 1, 0, 1, 3, 2, 0, 0]]).unwrap());
    close(&[all.decoded.scores[0].exp() * 1e8, all.logs[0].exp() * 1e6], &[4.251528, 3.791_016_035_52], 1e-11);
    assert_eq!(all.decoded.states, [0, 0, 0, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn huangs_market() {
    // States bull, bear, steady; symbols up, down, unchanged (Huang, Acero and Hon, Spoken Language Processing, 8.2).
    let transitions = [0.6, 0.2, 0.2, 0.5, 0.3, 0.2, 0.4, 0.1, 0.5];
    let model = categorical(&[0.5, 0.2, 0.3], &transitions, 3, &[0.7, 0.1, 0.2, 0.1, 0.6, 0.3, 0.3, 0.3, 0.4]);
    close(&alpha(&model, &[0, 0]), &[0.35, 0.02, 0.09, 0.1792, 0.0085, 0.0357], 1e-14);
}

/// Every path q of a sequence with P(O, q), in the order of the numbers whose digits are the states, last state first.
fn paths(model: &Hmm, symbols: &[u32]) -> Vec<(Vec<u32>, f64)> {
    let Emissions::Categorical { symbols: v, probs } = model.emissions() else { panic!("symbols") };
    let n = model.states();
    let prob = |path: &[u32]| {
        let mut product = model.start()[path[0] as usize];
        for (t, &state) in path.iter().enumerate() {
            if t > 0 {
                product *= model.row(path[t - 1] as usize)[state as usize];
            }
            product *= probs[(state * v + symbols[t]) as usize];
        }
        product * model.end().map_or(1.0, |end| end[path[path.len() - 1] as usize])
    };
    (0..n.pow(symbols.len() as u32))
        .map(|number| {
            let path: Vec<u32> = (0..symbols.len() as u32).map(|t| number / n.pow(t) % n).collect();
            let prob = prob(&path);
            (path, prob)
        })
        .collect()
}

#[test]
fn small_models_agree_with_brute_force() {
    for seed in 0..60 {
        let (states, symbols) = (1 + seed as u32 % 4, 1 + seed as u32 % 3);
        let kind = Kind::Symbols(symbols);
        let model = match seed % 3 {
            0 => Uniform { states, kind, ends: false, seed }.generate(),
            1 => Uniform { states, kind, ends: true, seed }.generate(),
            _ => LeftRight { states, jump: 1, kind, ends: true, seed }.generate(),
        };
        let model = model.unwrap();
        let drawn = sample(&Uniform { states: 2, kind, ends: false, seed }.generate().unwrap(), 6, Some(5), seed);
        let drawn = drawn.unwrap().sequences;
        let Observations::Symbols(seen) = drawn.observations() else { panic!("symbols") };
        // Lengths 1, 2, 3, 4, 5 and 5.
        let cut: Vec<&[u32]> = (0..6).map(|m| &seen[5 * m..][..5.min(m + 1)]).collect();
        let sequences = Sequences::of_symbols(&cut).unwrap();
        let all = all(&model, &sequences);
        let n = states as usize;
        let (mut start, mut end) = (vec![0.0; n], vec![0.0; n]);
        let (mut pairs, mut counts) = (vec![0.0; n * n], vec![0.0; n * symbols as usize]);
        for (m, seen) in cut.iter().enumerate() {
            let paths = paths(&model, seen);
            let total: f64 = paths.iter().map(|(_, prob)| prob).sum();
            let range = sequences.range(m);
            close(&[all.logs[m]], &[total.ln()], 1e-12);
            let mut gamma = vec![0.0; seen.len() * n];
            for (path, prob) in paths.iter().filter(|(_, prob)| *prob > 0.0) {
                let weight = prob / total;
                start[path[0] as usize] += weight;
                end[path[path.len() - 1] as usize] += weight;
                for (t, &state) in path.iter().enumerate() {
                    gamma[t * n + state as usize] += weight;
                    counts[state as usize * symbols as usize + seen[t] as usize] += weight;
                    if t > 0 {
                        pairs[path[t - 1] as usize * n + state as usize] += weight;
                    }
                }
            }
            close(&all.posteriors[range.start * n..range.end * n], &gamma, 1e-12);
            // Ties go to the first path. In random models, rounding cannot break a tie, because there are none.
            let best = paths.iter().map(|(_, prob)| *prob).fold(0.0, f64::max);
            let path = &all.decoded.states[range];
            if best == 0.0 {
                assert!(path.iter().all(|&state| state == NO_STATE) && all.decoded.scores[m] == f64::NEG_INFINITY);
            } else {
                close(&[all.decoded.scores[m]], &[best.ln()], 1e-13);
                let first = paths.iter().find(|(_, prob)| *prob >= best * (1.0 - 1e-12));
                assert_eq!(path, first.unwrap().0, "seed {seed}, sequence {m}");
            }
        }
        close(&all.expected.start, &start, 1e-12);
        close(&all.expected.end, &end, 1e-12);
        close(&all.expected.transitions, &pairs, 1e-12);
        let Statistics::Categorical(found) = &all.expected.emissions else { panic!("symbols") };
        close(found, &counts, 1e-12);
    }
}

#[test]
fn ties_go_to_the_lowest_state_from_the_end() {
    // All paths have the same probability.
    let model = categorical(&[0.25; 4], &[0.25; 16], 2, &[0.5; 8]);
    let all_of = all(&model, &Sequences::of_symbols(&[[0, 1, 0, 1, 1]]).unwrap());
    assert_eq!(all_of.decoded.states, [0; 5]);
    // The paths 1 0 and 0 1 tie and all others are impossible. The path that ends in 0 wins.
    let model = categorical(&[0.5, 0.5], &[0.0, 1.0, 1.0, 0.0], 1, &[1.0, 1.0]);
    for length in 2..6 {
        let all_of = all(&model, &Sequences::of_symbols(&[vec![0; length]]).unwrap());
        let expected: Vec<u32> = (0..length as u32).rev().map(|left| left % 2).collect();
        assert_eq!(all_of.decoded.states, expected);
    }
}

#[test]
fn impossible_sequences_have_no_path_and_no_counts() {
    // State 1 never returns to state 0, and only state 0 emits symbol 0.
    let model = categorical(&[1.0, 0.0], &[0.5, 0.5, 0.0, 1.0], 2, &[1.0, 0.0, 0.0, 1.0]);
    let both = Sequences::of_symbols(&[vec![0, 1, 0], vec![0, 0, 1]]).unwrap();
    let all_of = all(&model, &both);
    assert_eq!(all_of.logs, [f64::NEG_INFINITY, 0.25f64.ln()]);
    assert_eq!(all_of.decoded.states, [NO_STATE, NO_STATE, NO_STATE, 0, 0, 1]);
    assert_eq!(all_of.decoded.scores, [f64::NEG_INFINITY, 0.25f64.ln()]);
    assert_eq!(all_of.posteriors, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(posterior_path(&all_of.posteriors, 2), [NO_STATE, NO_STATE, NO_STATE, 0, 0, 1]);
    assert_eq!(all_of.expected.transitions, [1.0, 1.0, 0.0, 0.0]);
    let mut batch = Batch::<f64>::new(&both);
    let error = train(&mut batch, vec![model], &Options::default(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.to_string(), "sequence 1 has probability 0 under the model, and training cannot change that");
}

/// Sequences of random lengths between 1 and 70, unsorted.
fn ragged(model: &Hmm, seed: u64) -> Sequences {
    let parts: Vec<Sequences> =
        (0..45).map(|m| sample(model, 1, Some(1 + (m * 37 + 11) % 70), seed + m as u64).unwrap().sequences).collect();
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

/// The same model without end probabilities.
fn without_ends(model: &Hmm) -> Hmm {
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

#[test]
fn ragged_batches_are_runs_one_by_one_in_f64() {
    ragged_is_one_by_one::<f64>();
}

#[test]
fn ragged_batches_are_runs_one_by_one_in_f32() {
    ragged_is_one_by_one::<f32>();
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    for model in models() {
        let sequences = ragged(&without_ends(&model), 9);
        let runs = [1, 2, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let all = pool.install(|| all_in::<f32>(&model, &sequences));
            (all.logs, all.posteriors, all.decoded, all.expected)
        });
        assert!(runs[0] == runs[1] && runs[0] == runs[2]);
    }
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

#[test]
fn likelihood_rises_in_every_step_of_500_random_models() {
    for seed in 0..500 {
        let states = 1 + (seed % 6) as u32;
        let kind = match seed % 4 {
            0 | 1 => Kind::Symbols(2 + (seed % 5) as u32),
            2 => Kind::Vectors { dimensions: 1 + (seed % 3) as u32, full: false },
            _ => Kind::Vectors { dimensions: 1 + (seed % 3) as u32, full: true },
        };
        let ends = seed % 8 > 4;
        let source = Uniform { states: states + 1, kind, ends, seed }.generate().unwrap();
        let sequences = sample(&source, 5, Some(12), seed).unwrap().sequences;
        let model = Uniform { states, kind, ends, seed: seed + 1000 }.generate().unwrap();
        let prior = if seed % 3 == 0 { 0.5 } else { 0.0 };
        let pseudocounts = Pseudocounts::equal(prior);
        let options = Options { iterations: 25, tolerance: 0.0, pseudocounts, ..Options::default() };
        let trained = trained(&model, &sequences, &options);
        let run = trained.best();
        assert!(run.objectives.len() >= 2);
        for pair in run.objectives.windows(2) {
            // The condition number of a covariance is limited by the floor only, and densities lose the corresponding
            // digits.
            let rounding = if matches!(kind, Kind::Vectors { full: true, .. }) { f64::EPSILON / FLOOR } else { 1e-9 };
            assert!(pair[1] >= pair[0] - rounding * pair[0].abs(), "seed {seed}: {pair:?}");
        }
        run.model.clone().into_parts().validated().unwrap();
    }
}

#[test]
fn zeros_stay_zero_and_restarts_find_more() {
    let source = LeftRight { states: 4, jump: 1, kind: Kind::Symbols(6), ends: true, seed: 1 }.generate().unwrap();
    let sequences = sample(&source, 40, Some(60), 2).unwrap().sequences;
    let restarts: Vec<Hmm> = (0..6).map(|stream| restart(&source, &sequences, 5, stream)).collect();
    let mut batch = Batch::<f64>::new(&sequences);
    let options = Options { iterations: 500, tolerance: 1e-9, ..Options::default() };
    let trained = train(&mut batch, restarts, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((trained.runs.len(), trained.status), (6, Status::Converged));
    for run in &trained.runs {
        assert!(run.objective() <= trained.best().objective());
        let zeros = |model: &Hmm| model.transitions().iter().map(|p| *p == 0.0).collect::<Vec<_>>();
        assert!(zeros(&run.model).iter().zip(zeros(&source)).all(|(own, source)| *own || !source));
        assert_eq!(run.model.start(), [1.0, 0.0, 0.0, 0.0]);
    }
    let best = trained.best();
    assert!(best.log_likelihood() > all(&source, &sequences).logs.iter().sum::<f64>());
    // Free parameters: 3 · 1 of A, 1 of the end, 4 · 5 of B.
    assert_eq!(source.parameters(), 24);
    close(&[aic(source.parameters(), -100.0)], &[248.0], 1e-15);
    close(&[bic(source.parameters(), &sequences, -100.0)], &[24.0 * (sequences.steps() as f64).ln() + 200.0], 1e-15);
}

#[test]
fn gaussian_densities_agree_with_the_formula() {
    // One state: ln 𝒩((1, 2); (0, 0), Σ) with Σ = ((2, 1), (1, 2)): |Σ| = 3, xᵀ Σ⁻¹ x = (2 − 4 + 8) / 3 = 2.
    let model = |covariances| {
        let emissions = Emissions::Gaussian { dimensions: 2, means: vec![0.0, 0.0], covariances };
        HmmParts { start: vec![1.0], transitions: vec![1.0], end: None, emissions, names: Names::default() }
            .validated()
            .unwrap()
    };
    let observations = Observations::Vectors { dimensions: 2, values: vec![1.0, 2.0] };
    let sequences = Sequences::new(vec![0, 1], observations).unwrap();
    let log_two_pi = std::f64::consts::TAU.ln();
    let full = all(&model(Covariances::Full(vec![2.0, 1.0, 1.0, 2.0])), &sequences);
    close(&full.logs, &[-log_two_pi - 0.5 * 3f64.ln() - 1.0], 1e-15);
    let diagonal = all(&model(Covariances::Diagonal(vec![2.0, 0.5])), &sequences);
    close(&diagonal.logs, &[-log_two_pi - 0.25 - 4.0], 1e-15);
    assert_eq!(diagonal.decoded.scores, diagonal.logs);
}

#[test]
fn gaussian_training_finds_means_far_from_zero() {
    // Two clusters around 1e8 ± 3 with variance 1: sums of squares about 0 would lose all digits.
    let mut values = Vec::new();
    for k in 0..400 {
        let spread = [-1.0, 1.0][k / 2 % 2];
        values.push(1e8 + [-3.0, 3.0][k % 2] + spread);
    }
    let observations = Observations::Vectors { dimensions: 1, values };
    let sequences = Sequences::new(vec![0, 400], observations).unwrap();
    let emissions = Emissions::Gaussian {
        dimensions: 1,
        means: vec![1e8 - 1.0, 1e8 + 1.0],
        covariances: Covariances::Diagonal(vec![1.0, 1.0]),
    };
    let (start, transitions) = (vec![0.5, 0.5], vec![0.5; 4]);
    let model = HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().unwrap();
    let trained = trained(&model, &sequences, &Options { tolerance: 1e-12, ..Options::default() });
    let Emissions::Gaussian { means, covariances: Covariances::Diagonal(variances), .. } =
        trained.best().model.emissions()
    else {
        panic!("diagonal")
    };
    close(&[means[0] - 1e8, means[1] - 1e8], &[-3.0, 3.0], 1e-4);
    close(variances, &[1.0, 1.0], 1e-3);
    close(trained.best().model.transitions(), &[0.0, 1.0, 1.0, 0.0], 1e-4);
}

#[test]
fn samples_have_the_distribution_of_the_model() {
    let model = Uniform { states: 3, kind: Kind::Symbols(4), ends: true, seed: 4 }.generate().unwrap();
    let drawn = sample(&model, 20_000, None, 1).unwrap();
    assert_eq!(drawn.sequences.len(), 20_000);
    let count = |state: u32| drawn.states.iter().filter(|&&s| s == state).count() as f64;
    // Each visit of a state ends with the same probability, so the count is binomial. It deviates by at most 4 σ,
    // except in 1 of 10⁴ tests.
    let last = |state: u32| {
        drawn.sequences.offsets()[1..].iter().filter(|end| drawn.states[**end as usize - 1] == state).count()
    };
    for state in 0..3 {
        let (visits, p) = (count(state), model.end().unwrap()[state as usize]);
        let deviation = (last(state) as f64 - visits * p) / (visits * p * (1.0 - p)).sqrt();
        assert!(deviation.abs() < 4.0, "state {state}: {deviation}");
    }
    assert_eq!(sample(&model, 3, None, 1).unwrap().sequences.range(2), drawn.sequences.range(2));
    let endless = without_ends(&model);
    assert_eq!(
        sample(&endless, 1, None, 1).unwrap_err().to_string(),
        "the model has no end probabilities: expected a length"
    );
}

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

/// Sequences of scalars.
fn numbers(sequences: &[&[f64]]) -> Sequences {
    let observations = Observations::Vectors { dimensions: 1, values: sequences.concat() };
    Sequences::new(offsets(sequences.iter().map(|x| x.len())), observations).unwrap()
}

fn gaussian(start: &[f64], transitions: &[f64], means: &[f64], variances: &[f64]) -> Hmm {
    let covariances = Covariances::Diagonal(variances.to_vec());
    let emissions = Emissions::Gaussian { dimensions: 1, means: means.to_vec(), covariances };
    let (start, transitions) = (start.to_vec(), transitions.to_vec());
    HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().unwrap()
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

#[test]
fn training_from_random_means_increases_the_likelihood() {
    let mut random = crate::wide::Random(7);
    for run in 0..160 {
        let n = 2 + run % 4;
        let spread = [1.0, 10.0, 100.0, 1000.0][run / 4 % 4];
        let centres: Vec<f64> = (0..n).map(|_| spread * random.unit()).collect();
        let sequences: Vec<Vec<f64>> = (0..4)
            .map(|_| {
                let mut state = 0;
                let mut draw = || {
                    state = if random.unit() < 0.1 { random.below(n) } else { state };
                    centres[state] + random.unit() - 0.5
                };
                (0..60).map(|_| draw()).collect()
            })
            .collect();
        let slices: Vec<&[f64]> = sequences.iter().map(Vec::as_slice).collect();
        let data = numbers(&slices);
        let means: Vec<f64> = (0..n).map(|_| spread * (3.0 * random.unit() - 1.0)).collect();
        // Left-right, and dense.
        let transitions: Vec<f64> = match run % 2 {
            0 => vec![1.0 / n as f64; n * n],
            _ => (0..n * n)
                .map(|at| match (at / n, at % n) {
                    (i, j) if i + 1 == n => f64::from(u8::from(i == j)),
                    (i, j) => {
                        if j == i || j == i + 1 {
                            0.5
                        } else {
                            0.0
                        }
                    }
                })
                .collect(),
        };
        let model = gaussian(&vec![1.0 / n as f64; n], &transitions, &means, &vec![1.0; n]);
        let first: f64 = (0..4).map(|sequence| crate::wide::truth(&model, &data, sequence).log).sum();
        let trained = trained(&model, &data, &Options { iterations: 30, ..Options::default() });
        let logs = &trained.best().log_likelihoods;
        close(&logs[..1], &[first], 1e-12);
        assert!(logs.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9 * pair[0].abs()), "{logs:?}");
        // The results for the trained model agree with the truth.
        let last: f64 = (0..4).map(|sequence| crate::wide::truth(&trained.best().model, &data, sequence).log).sum();
        close(&logs[logs.len() - 1..], &[last], 1e-9);
    }
}

type Running<'r> = dyn Recursions<Error = place::Error> + 'r;

/// The results of `work` on each of `size` ranks.
fn on_ranks<T: Send>(
    size: u32,
    device: DeviceChoice,
    precision: Precision,
    sequences: &Sequences,
    work: impl Fn(&mut Running) -> T + Sync,
) -> Vec<T> {
    let found = Local::run(size, Duration::from_secs(60), |local| {
        let division = Division::new(sequences, size);
        let share = division.share(local.rank());
        let (place, _) = Place::open(device, None).unwrap();
        let divided = Divided::open(&division, share.as_ref(), &place, precision, Limits::default(), local);
        let mut divided = divided.map_err(|error| error.to_string())?;
        let found = work(&mut divided);
        let shares = divided.shares(&place.name()).map_err(|error| error.to_string())?;
        if let Some(RankShare { work, time, .. }) = shares.get(local.rank() as usize) {
            let own = division.of_rank(local.rank());
            assert_eq!((work.sequences, work.steps), (own.len(), share.as_ref().map_or(0, Sequences::steps)));
            assert!(time.sweeps > 0.0 && time.waiting > 0.0, "{shares:?}");
        }
        assert_eq!(shares.len(), if size > 1 { size as usize } else { 0 });
        Ok::<_, String>(found)
    });
    found.unwrap()
}

/// The numbers of a model.
fn parameters(model: &Hmm) -> Vec<f64> {
    let emitted = match model.emissions() {
        Emissions::Categorical { probs, .. } => probs.clone(),
        Emissions::Gaussian { means, covariances, .. } => {
            let (Covariances::Diagonal(squares) | Covariances::Full(squares)) = covariances;
            [&means[..], squares].concat()
        }
    };
    [model.start(), model.transitions(), model.end().unwrap_or_default(), &emitted].concat()
}

/// Scores, paths, posteriors and counts of all models, and their training, on each of several ranks and on one.
fn ranks_are_one(device: DeviceChoice, precision: Precision, models: &[Hmm], sequences: &Sequences, sizes: &[u32]) {
    let options = Options {
        iterations: 4,
        tolerance: 0.0,
        pseudocounts: Pseudocounts { transitions: 0.25.into(), ..Pseudocounts::default() },
        slack: precision.slack(),
        ..Options::default()
    };
    let work = |recursions: &mut Running| {
        recursions.set_models(models).unwrap();
        let found = (
            recursions.log_likelihoods().unwrap(),
            recursions.viterbi().unwrap(),
            recursions.posteriors().unwrap(),
            recursions.expect().unwrap(),
        );
        let trained = train(recursions, models.to_vec(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
        (found, trained)
    };
    let (place, _) = Place::open(device, None).unwrap();
    let (alone, trained) = work(&mut *recursions(&place, sequences, precision, Limits::default()).unwrap());
    for &size in sizes {
        let ranks = on_ranks(size, device, precision, sequences, work);
        let (first, learned) = &ranks[0];
        assert!((&first.0, &first.1, &first.2) == (&alone.0, &alone.1, &alone.2), "{size} ranks");
        // In f32 the CPU rounds the counts of a group, and a group is of one rank.
        let tolerance = if precision == Precision::F64 { 1e-12 } else { 1e-5 };
        for (expected, counts) in alone.3.iter().zip(&first.3) {
            assert_eq!(counts.log_likelihoods, expected.log_likelihoods);
            close(&counts.transitions, &expected.transitions, tolerance);
            close(&counts.start, &expected.start, tolerance);
            close(&counts.end, &expected.end, tolerance);
        }
        assert_eq!((learned.best, learned.status), (trained.best, trained.status));
        for (run, expected) in learned.runs.iter().zip(&trained.runs) {
            close(&run.log_likelihoods, &expected.log_likelihoods, tolerance);
            close(&parameters(&run.model), &parameters(&expected.model), tolerance);
        }
        for (found, also) in &ranks[1..] {
            assert!(also == learned, "all of {size} ranks learn the same bits");
            assert!(found.0.is_empty() && found.1.is_empty() && found.2.is_empty());
            assert_eq!(found.3, first.3);
        }
        assert!(on_ranks(size, device, precision, sequences, work) == ranks, "{size} ranks, again");
    }
}

/// Sequences of these lengths, or shorter where the model ends them.
fn of_lengths(model: &Hmm, lengths: &[usize]) -> Sequences {
    let parts: Vec<Sequences> =
        (0..).zip(lengths).map(|(seed, &length)| sample(model, 1, Some(length), seed).unwrap().sequences).collect();
    let offsets = offsets(parts.iter().map(Sequences::steps));
    let mut parts = parts.into_iter().map(|part| part.observations().clone());
    let mut all = parts.next().unwrap();
    for part in parts {
        match (&mut all, part) {
            (Observations::Symbols(all), Observations::Symbols(part)) => all.extend(part),
            (Observations::Vectors { values: all, .. }, Observations::Vectors { values: part, .. }) => all.extend(part),
            _ => unreachable!("one model emits one kind"),
        }
    }
    Sequences::new(offsets, all).unwrap()
}

fn kinds() -> [(Kind, bool); 5] {
    let vectors = |dimensions, full| Kind::Vectors { dimensions, full };
    [
        (Kind::Symbols(4), false),
        (Kind::Symbols(5), true),
        (vectors(2, false), true),
        (vectors(3, true), false),
        (vectors(1, false), false),
    ]
}

/// A random model of this kind, and restarts.
fn several(states: u32, kind: Kind, ends: bool, sequences: &Sequences) -> Vec<Hmm> {
    let model = Uniform { states, kind, ends, seed: 8 }.generate().unwrap();
    let restarts: Vec<Hmm> = (0..2).map(|stream| restart(&model, sequences, 3, stream)).collect();
    [vec![model], restarts].concat()
}

#[test]
fn any_number_of_ranks_is_one_rank() {
    for (kind, ends) in kinds() {
        let source = Uniform { states: 4, kind, ends: false, seed: 2 }.generate().unwrap();
        for lengths in [&[3, 400, 1, 1, 60, 2, 90, 31, 5, 5, 5, 17][..], &[20, 200, 7]] {
            let sequences = of_lengths(&source, lengths);
            for precision in [Precision::F64, Precision::F32] {
                let models = several(3, kind, ends, &sequences);
                ranks_are_one(DeviceChoice::Cpu, precision, &models, &sequences, &[1, 2, 3, 4, 5, 6, 7]);
            }
        }
    }
}

#[test]
fn emulated_ranks_are_one_rank() {
    for (kind, ends) in kinds() {
        let source = Uniform { states: 3, kind, ends: false, seed: 2 }.generate().unwrap();
        let sequences = of_lengths(&source, &[3, 40, 12]);
        for precision in [Precision::F64, Precision::F32] {
            let models = several(2, kind, ends, &sequences);
            ranks_are_one(DeviceChoice::Emulated, precision, &models, &sequences, &[2, 4]);
        }
    }
}

#[test]
fn an_impossible_sequence_has_its_own_number_on_every_rank() {
    let model = categorical(&[1.0, 0.0], &[0.5, 0.5, 0.0, 1.0], 2, &[1.0, 0.0, 0.0, 1.0]);
    let sequences = Sequences::of_symbols(&[&[0, 0, 0, 1][..], &[0, 1, 1], &[0, 1], &[0, 1, 0], &[1]]).unwrap();
    let ranks = on_ranks(3, DeviceChoice::Cpu, Precision::F64, &sequences, |recursions| {
        let models = vec![model.clone()];
        let error = train(recursions, models, &Options::default(), &mut |_| ControlFlow::Continue(())).unwrap_err();
        recursions.set_models(std::slice::from_ref(&model)).unwrap();
        (error.to_string(), recursions.viterbi().unwrap(), recursions.posteriors().unwrap())
    });
    let mut batch = Batch::<f64>::new(&sequences);
    let Ok(()) = batch.set_models(std::slice::from_ref(&model));
    let (Ok(paths), Ok(posteriors)) = (batch.viterbi(), batch.posteriors());
    assert_eq!((&ranks[0].1, &ranks[0].2), (&paths, &posteriors));
    let expected = "sequence 4 has probability 0 under the model, and training cannot change that";
    assert!(ranks.iter().all(|(error, ..)| error == expected));
}

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
