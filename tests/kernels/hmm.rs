//! The recursions of hidden Markov models on every device, against the CPU and against the definitions.
//!
//! One file, because all cases share the reference results of `in_logarithms` and the comparison `agree`.

use std::f64::consts::LN_2;

use warpkov::hmm::backend::{Decoded, Expected, NO_STATE, Recursions, Statistics};
use warpkov::hmm::backends::cpu::{Batch as OnCpu, Exact};
use warpkov::hmm::backends::device::{Batch, ForwardMethod, Limits};
use warpkov::hmm::generate::{Kind, Uniform};
use warpkov::hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov::hmm::options::{Options, Pseudocount, Pseudocounts};
use warpkov::hmm::sample::sample;
use warpkov::hmm::sequences::{Observations, Sequences, offsets};
use warpkov::runtime::Precise;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::hmm::slices::{emission_product, product, row_sums, scale_rows, start_rows};
use warpkov_kernels::hmm::{power, top};
use warpkov_kernels::lessons::wide_tensor_product;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use crate::check::{close, of, same};
use crate::random::Random;
use crate::{Outcome, Suite, wide};

pub fn add(suite: &mut Suite) {
    suite.add("hmm_small::f32", small::<f32>);
    suite.add("hmm_small::f64", small::<f64>);
    suite.add("hmm_middle::f32", middle::<f32>);
    suite.add("hmm_middle::f64", middle::<f64>);
    suite.add("hmm_large::f32", large::<f32>);
    suite.add("hmm_large::f64", large::<f64>);
    suite.add("hmm_windows::f32", windows::<f32>);
    suite.add("hmm_windows::f64", windows::<f64>);
    suite.add("hmm_one_by_one::f32", one_by_one::<f32>);
    suite.add("hmm_one_by_one::f64", one_by_one::<f64>);
    suite.add("hmm_ties::f32", ties::<f32>);
    suite.add("hmm_ties::f64", ties::<f64>);
    suite.add("hmm_maximise::f32", maximise::<f32>);
    suite.add("hmm_maximise::f64", maximise::<f64>);
    suite.add("hmm_gaussian::f32", gaussian::<f32>);
    suite.add("hmm_gaussian::f64", gaussian::<f64>);
    suite.add("hmm_out_of_range::f32", out_of_range::<f32>);
    suite.add("hmm_out_of_range::f64", out_of_range::<f64>);
    suite.add("hmm_orders_of_magnitude::f32", orders_of_magnitude::<f32>);
    suite.add("hmm_orders_of_magnitude::f64", orders_of_magnitude::<f64>);
    suite.add("hmm_out_of_range_trained::f32", out_of_range_trained::<f32>);
    suite.add("hmm_out_of_range_trained::f64", out_of_range_trained::<f64>);
    suite.add("hmm_taken_again::f32", taken_again::<f32>);
    suite.add("hmm_taken_again::f64", taken_again::<f64>);
    suite.add("hmm_scan::f32", scan::<f32>);
    suite.add("hmm_scan::f64", scan::<f64>);
    suite.add("hmm_scan_ties::f32", scan_ties::<f32>);
    suite.add("hmm_scan_ties::f64", scan_ties::<f64>);
    suite.add("hmm_slices::f32", slices::<f32>);
    suite.add("hmm_slices::f64", slices::<f64>);
    suite.add("hmm_doubtful_rows::f32", doubtful_rows::<f32>);
    suite.add("hmm_doubtful_rows::f64", doubtful_rows::<f64>);
    suite.add("hmm_by_slices::f32", by_slices::<f32>);
    suite.add("hmm_by_slices::f64", by_slices::<f64>);
    suite.add("hmm_long_by_slices::f32", long_by_slices::<f32>);
    suite.add("hmm_long_by_slices::f64", long_by_slices::<f64>);
    suite.add("hmm_plain_tf32", plain_tf32);
    suite.add("mma_f64", tensor_core);
}

/// Results of all recursions for one model.
#[derive(PartialEq, Debug)]
struct Said {
    logs: Vec<f64>,
    posteriors: Vec<f64>,
    decoded: Decoded,
    expected: Expected,
}

fn said<R: Recursions>(recursions: &mut R, models: &[Hmm]) -> Result<Vec<Said>, R::Error> {
    recursions.set_models(models)?;
    let (logs, posteriors) = (recursions.log_likelihoods()?, recursions.posteriors()?);
    let (decoded, expected) = (recursions.viterbi()?, recursions.expect()?);
    let all = logs.into_iter().zip(posteriors).zip(decoded.into_iter().zip(expected));
    Ok(all.map(|((logs, posteriors), (decoded, expected))| Said { logs, posteriors, decoded, expected }).collect())
}

fn on_cpu(models: &[Hmm], sequences: &Sequences) -> Vec<Said> {
    let Ok(said) = said(&mut OnCpu::<f64>::new(sequences), models);
    said
}

fn on<T: Precise>(device: &AnyDevice, models: &[Hmm], sequences: &Sequences) -> Result<Vec<Said>, DeviceError> {
    said(&mut Batch::<T>::new(device, sequences, Limits::default())?, models)
}

/// ln P(path, O) of each sequence.
fn scores(model: &Hmm, sequences: &Sequences, states: &[u32]) -> Vec<f64> {
    let n = model.states() as usize;
    let Emissions::Categorical { symbols, probs } = model.emissions() else { return Vec::new() };
    let Observations::Symbols(observed) = sequences.observations() else { return Vec::new() };
    let score = |m: usize| {
        let range = sequences.range(m);
        if states[range.start] == NO_STATE {
            return f64::NEG_INFINITY;
        }
        let path = &states[range.clone()];
        let emitted =
            path.iter().zip(&observed[range]).map(|(&q, &v)| probs[q as usize * *symbols as usize + v as usize].ln());
        let moves = path.windows(2).map(|pair| model.transitions()[pair[0] as usize * n + pair[1] as usize].ln());
        let last = model.end().map_or(0.0, |end| end[path[path.len() - 1] as usize].ln());
        model.start()[path[0] as usize].ln() + emitted.sum::<f64>() + moves.sum::<f64>() + last
    };
    (0..sequences.len()).map(score).collect()
}

fn agree<T: Precise>(got: &Said, expected: &Said, model: &Hmm, sequences: &Sequences) -> Outcome {
    let tolerance: f64 = if T::WIDE { 1e-11 } else { 2e-4 };
    // Log-densities have rounding errors.
    let largest =
        expected.logs.iter().filter(|log| log.is_finite()).fold(0.0_f64, |largest, log| largest.max(log.abs()));
    let tolerance = tolerance.max(1e-14 * largest);
    let logs = |what: &str, got: &[f64], expected: &[f64]| -> Outcome {
        let finite = |x: &[f64]| x.iter().map(|x| x.is_finite()).collect::<Vec<_>>();
        same(&format!("{what}: finite"), &finite(got), &finite(expected))?;
        let only = |x: &[f64]| x.iter().copied().filter(|x| x.is_finite()).collect::<Vec<_>>();
        close(what, &only(got), &only(expected), tolerance, tolerance)
    };
    logs("ln P(O)", &got.logs, &expected.logs)?;
    close("γ", &got.posteriors, &expected.posteriors, tolerance, 0.0)?;
    logs("ln P(path, O)", &got.decoded.scores, &expected.decoded.scores)?;
    if matches!(model.emissions(), Emissions::Categorical { .. }) {
        logs("the path's", &scores(model, sequences, &got.decoded.states), &expected.decoded.scores)?;
    }
    if T::WIDE {
        same("path", &got.decoded.states, &expected.decoded.states)?;
    }
    let all = tolerance * sequences.steps() as f64;
    logs("ln P(O) of the E step", &got.expected.log_likelihoods, &expected.logs)?;
    close("start", &got.expected.start, &expected.expected.start, all, 0.0)?;
    close("end", &got.expected.end, &expected.expected.end, all, 0.0)?;
    close("transitions", &got.expected.transitions, &expected.expected.transitions, all, 0.0)?;
    match (&got.expected.emissions, &expected.expected.emissions) {
        (Statistics::Categorical(got), Statistics::Categorical(expected)) => {
            close("emissions", got, expected, all, 0.0)
        }
        (
            Statistics::Gaussian { weights, sums, squares },
            Statistics::Gaussian { weights: of_weights, sums: of_sums, squares: of_squares },
        ) => {
            close("weights", weights, of_weights, all, 0.0)?;
            close("sums", sums, of_sums, 10.0 * all, all)?;
            close("squares", squares, of_squares, 100.0 * all, all)
        }
        other => Err(format!("statistics of two kinds: {other:?}").into()),
    }
}

impl Random {
    /// A random distribution over `n` elements; about a quarter of them are 0, but not the element `keep`.
    fn distribution(&mut self, n: usize, total: f64, keep: usize) -> Vec<f64> {
        let weights: Vec<f64> =
            (0..n).map(|i| if i != keep && self.below(4) == 0 { 0.0 } else { 0.01 + self.unit() }).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| total * weight / sum).collect()
    }

    /// A random model of symbols, with end probabilities if `ends`.
    fn hmm(&mut self, n: usize, symbols: usize, ends: bool) -> Hmm {
        let end: Option<Vec<f64>> = ends.then(|| (0..n).map(|_| 0.5 * self.unit()).collect());
        let left = |i: usize| end.as_ref().map_or(1.0, |end| 1.0 - end[i]);
        HmmParts {
            start: self.distribution(n, 1.0, 0),
            transitions: (0..n).flat_map(|i| self.distribution(n, left(i), i)).collect(),
            emissions: Emissions::Categorical {
                symbols: symbols as u32,
                probs: (0..n).flat_map(|i| self.distribution(symbols, 1.0, i % symbols)).collect(),
            },
            end: end.clone(),
            names: Names::default(),
        }
        .validated()
        .unwrap()
    }

    /// Random sequences of these lengths.
    fn observed(&mut self, lengths: &[usize], symbols: usize) -> Sequences {
        let symbols = (0..lengths.iter().sum()).map(|_| self.below(symbols as u64) as u32).collect();
        Sequences::new(offsets(lengths.iter().copied()), Observations::Symbols(symbols)).unwrap()
    }
}

/// Products of TF32 numbers have an error of 11-bit factors: no more, and no less.
fn plain_tf32(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(18);
    let models = [random.hmm(130, 3, false)];
    let sequences = random.observed(&[3, 2], 3);
    let said = |plain_tf32| {
        said(&mut Batch::<f32>::new(device, &sequences, Limits { plain_tf32, ..Limits::default() })?, &models)
    };
    let (plain, split) = (said(true)?.remove(0), said(false)?.remove(0));
    let exact = on_cpu(&models, &sequences).remove(0);
    close("ln P(O)", &plain.logs, &exact.logs, 2e-3, 0.0)?;
    close("γ", &plain.posteriors, &exact.posteriors, 2e-3, 0.0)?;
    same("paths need no products", &plain.decoded.states, &split.decoded.states)?;
    let off = |said: &Said| said.logs.iter().zip(&exact.logs).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
    same("fewer bits", &[off(&plain) > 4.0 * off(&split)], &[true])
}

/// Checks several models with N states on sequences of various lengths.
fn check<T: Precise>(device: &AnyDevice, random: &mut Random, n: usize, symbols: usize, lengths: &[usize]) -> Outcome {
    let models = [random.hmm(n, symbols, false), random.hmm(n, symbols, true)];
    let sequences = random.observed(lengths, symbols);
    for (k, (got, expected)) in
        on::<T>(device, &models, &sequences)?.iter().zip(on_cpu(&models, &sequences)).enumerate()
    {
        agree::<T>(got, &expected, &models[k], &sequences)
            .map_err(|error| format!("N = {n}, V = {symbols}, model {k}: {}", error.message().unwrap_or_default()))?;
    }
    Ok(())
}

fn small<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(11);
    for (n, symbols) in [(1, 1), (2, 3), (7, 5), (8, 2), (9, 4), (16, 16), (17, 3), (32, 6)] {
        check::<T>(device, &mut random, n, symbols, &[3, 1, 17, 2, 40, 1, 5, 9, 9, 33, 4])?;
    }
    // The counts of this many symbols exceed the shared memory of a block.
    check::<T>(device, &mut random, 12, 700, &[5, 20, 1])
}

fn middle<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(12);
    check::<T>(device, &mut random, 33, 3, &[1, 40, 9])?;
    check::<T>(device, &mut random, 64, 5, &[4, 1])?;
    let long = if scale > 1 { 100 } else { 5 };
    check::<T>(device, &mut random, 65, 4, &[2, long, 1, 3])?;
    check::<T>(device, &mut random, 128, 3, &[3, long])
}

fn large<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(13);
    check::<T>(device, &mut random, 129, 3, if scale > 1 { &[3, 1, 4, 4] } else { &[3, 1, 3, 3] })?;
    if scale > 1 {
        check::<T>(device, &mut random, 300, 7, &(1..80).collect::<Vec<_>>())?;
        check::<T>(device, &mut random, 512, 7, &[70; 40])?;
    }
    Ok(())
}

/// With little memory, results that are not sums over steps have the same bits, and sums agree within rounding.
fn windows<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(14);
    for n in [5, 30, 40, 130] {
        let models = [random.hmm(n, 4, true)];
        let lengths: &[usize] = match n {
            _ if n < 33 || scale > 1 => &[9, 3, 1, 14, 9, 6],
            40 => &[9, 3, 1, 9, 6],
            _ => &[3, 1, 5, 2],
        };
        let sequences = random.observed(lengths, 4);
        let whole = on::<T>(device, &models, &sequences)?;
        let limits = Limits { trellis: 192 * n, ..Limits::default() };
        let cut = said(&mut Batch::<T>::new(device, &sequences, limits)?, &models)?;
        same("ln P(O)", &cut[0].logs, &whole[0].logs)?;
        same("γ", &cut[0].posteriors, &whole[0].posteriors)?;
        agree::<T>(&cut[0], &on_cpu(&models, &sequences)[0], &models[0], &sequences)?;
    }
    Ok(())
}

/// A sequence has the same results in a batch and alone, to the last bit, and so does a repeated run.
fn one_by_one<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(15);
    for n in [6, 20, 50, 140] {
        let models = [random.hmm(n, 4, false)];
        let lengths: &[usize] = match n {
            _ if n <= 20 || scale > 1 => &[4, 1, 7, 7, 2, 36, 5, 1, 6],
            50 => &[3, 1, 4, 3],
            _ => &[3, 1, 3],
        };
        let sequences = random.observed(lengths, 4);
        let all = on::<T>(device, &models, &sequences)?.remove(0);
        same("twice", &[on::<T>(device, &models, &sequences)?.remove(0)], std::slice::from_ref(&all))?;
        let Observations::Symbols(observed) = sequences.observations() else { continue };
        for m in 0..lengths.len() {
            let range = sequences.range(m);
            let alone =
                Sequences::new(vec![0, range.len() as u64], Observations::Symbols(observed[range.clone()].to_vec()))
                    .unwrap();
            let alone = on::<T>(device, &models, &alone)?.remove(0);
            same("ln P(O)", &alone.logs, &all.logs[m..=m])?;
            same("γ", &alone.posteriors, &all.posteriors[range.start * n..range.end * n])?;
            same("path", &alone.decoded.states, &all.decoded.states[range])?;
            same("score", &alone.decoded.scores, &all.decoded.scores[m..=m])?;
        }
    }
    Ok(())
}

/// Ties between paths go to the lowest last state, then the lowest state before it, and so on. Impossible sequences
/// have no path.
fn ties<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    for n in [3, 20, 70, 130] {
        // All states are equal, except that only the last one emits symbol 1. No state emits symbol 2.
        let mut probs: Vec<f64> = [1.0, 0.0, 0.0].repeat(n);
        probs[3 * n - 3..].copy_from_slice(&[0.5, 0.5, 0.0]);
        let model = HmmParts {
            start: vec![1.0 / n as f64; n],
            transitions: vec![1.0 / n as f64; n * n],
            end: None,
            emissions: Emissions::Categorical { symbols: 3, probs },
            names: Names::default(),
        }
        .validated()
        .unwrap();
        let sequences = Sequences::of_symbols(&[vec![0, 0, 0], vec![0, 1, 0, 0], vec![0, 2], vec![2], vec![1]])?;
        let said = on::<T>(device, std::slice::from_ref(&model), &sequences)?.remove(0);
        let last = n as u32 - 1;
        same("path", &said.decoded.states, &[0, 0, 0, 0, last, 0, 0, NO_STATE, NO_STATE, NO_STATE, last])?;
        same(
            "impossible",
            &said.logs.iter().map(|x| *x == f64::NEG_INFINITY).collect::<Vec<_>>(),
            &[false, false, true, true, false],
        )?;
        same("score", &said.decoded.scores[2..4], &[f64::NEG_INFINITY; 2])?;
        same("γ of what is impossible", &said.posteriors[7 * n..10 * n], &vec![0.0; 3 * n])?;
        agree::<T>(&said, &on_cpu(std::slice::from_ref(&model), &sequences)[0], &model, &sequences)?;
    }
    Ok(())
}

/// Gaussian emissions with diagonal and with full covariances.
fn gaussian<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    for (states, dimensions, full) in [(3, 1, false), (12, 3, true), (40, 2, false), (130, 2, true)] {
        let kind = Kind::Vectors { dimensions, full };
        let models = [4, 5].map(|seed| Uniform { states, kind, ends: seed == 5, seed }.generate());
        let [first, second] = models;
        let (first, second) = (first?, second?);
        // Few steps of many states: each step is slow under emulation.
        let steps = if states < 33 || scale > 1 { 7 } else { 3 };
        let drawn = sample(&first, 5, Some(steps), 3)?;
        let models = [first, second];
        let all = on::<T>(device, &models, &drawn.sequences)?;
        for ((got, expected), model) in all.iter().zip(on_cpu(&models, &drawn.sequences)).zip(&models) {
            agree::<T>(got, &expected, model, &drawn.sequences)
                .map_err(|error| format!("N = {states}, D = {dimensions}: {}", error.message().unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// ln Σ eˣ.
fn log_sum(x: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = x.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY { largest } else { largest + x.map(|x| (x - largest).exp()).sum::<f64>().ln() }
}

/// Results of all recursions by the definitions, in logarithms. Paths come from the CPU. Covariances must be diagonal.
fn in_logarithms(model: &Hmm, sequences: &Sequences) -> Said {
    let n = model.states() as usize;
    let log_b = |at: usize, j: usize| match (model.emissions(), sequences.observations()) {
        (Emissions::Categorical { symbols, probs }, Observations::Symbols(seen)) => {
            probs[j * *symbols as usize + seen[at] as usize].ln()
        }
        (
            Emissions::Gaussian { means, covariances: Covariances::Diagonal(variances), .. },
            Observations::Vectors { dimensions, values },
        ) => {
            let d = *dimensions as usize;
            let term = |k: usize| {
                let (x, variance) = (values[at * d + k] - means[j * d + k], variances[j * d + k]);
                -0.5 * (x * x / variance + (std::f64::consts::TAU * variance).ln())
            };
            (0..d).map(term).sum()
        }
        _ => f64::NAN,
    };
    let log_a: Vec<f64> = model.transitions().iter().map(|a| a.ln()).collect();
    let decoded = on_cpu(std::slice::from_ref(model), sequences).remove(0).decoded;
    let mut expected = Expected {
        log_likelihoods: Vec::new(),
        start: vec![0.0; n],
        transitions: vec![0.0; n * n],
        end: vec![0.0; n],
        emissions: match model.emissions() {
            Emissions::Categorical { probs, .. } => Statistics::Categorical(vec![0.0; probs.len()]),
            Emissions::Gaussian { means, .. } => {
                let zeros = || vec![0.0; means.len()];
                Statistics::Gaussian { weights: vec![0.0; n], sums: zeros(), squares: zeros() }
            }
        },
    };
    let mut posteriors = vec![0.0; sequences.steps() * n];
    for m in 0..sequences.len() {
        let range = sequences.range(m);
        let steps = range.len();
        let b: Vec<f64> =
            range.clone().flat_map(|at| (0..n).map(move |j| (at, j))).map(|(at, j)| log_b(at, j)).collect();
        let mut alpha: Vec<f64> = (0..n).map(|j| model.start()[j].ln() + b[j]).collect();
        for t in 1..steps {
            for j in 0..n {
                let p = log_sum((0..n).map(|i| alpha[(t - 1) * n + i] + log_a[i * n + j]));
                alpha.push(p + b[t * n + j]);
            }
        }
        let mut beta: Vec<f64> = model.end().map_or(vec![0.0; n], |end| end.iter().map(|x| x.ln()).collect());
        let log = log_sum((0..n).map(|j| alpha[(steps - 1) * n + j] + beta[j]));
        expected.log_likelihoods.push(log);
        if log == f64::NEG_INFINITY {
            continue;
        }
        for t in (0..steps).rev() {
            if t + 1 < steps {
                let u: Vec<f64> = (0..n).map(|j| b[(t + 1) * n + j] + beta[j]).collect();
                for i in 0..n {
                    for j in 0..n {
                        let x = alpha[t * n + i] + log_a[i * n + j] + u[j];
                        expected.transitions[i * n + j] += (x - log).exp();
                    }
                }
                beta = (0..n).map(|i| log_sum((0..n).map(|j| log_a[i * n + j] + u[j]))).collect();
            }
            for j in 0..n {
                let (at, gamma) = (range.start + t, (alpha[t * n + j] + beta[j] - log).exp());
                posteriors[at * n + j] = gamma;
                expected.start[j] += if t == 0 { gamma } else { 0.0 };
                expected.end[j] += if t + 1 == steps { gamma } else { 0.0 };
                match (&mut expected.emissions, sequences.observations(), model.emissions()) {
                    (
                        Statistics::Categorical(counts),
                        Observations::Symbols(seen),
                        Emissions::Categorical { symbols, .. },
                    ) => counts[j * *symbols as usize + seen[at] as usize] += gamma,
                    (
                        Statistics::Gaussian { weights, sums, squares },
                        Observations::Vectors { dimensions, values },
                        Emissions::Gaussian { means, .. },
                    ) => {
                        let d = *dimensions as usize;
                        weights[j] += gamma;
                        for k in 0..d {
                            let x = values[at * d + k] - means[j * d + k];
                            sums[j * d + k] += gamma * x;
                            squares[j * d + k] += gamma * x * x;
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    Said { logs: expected.log_likelihoods.clone(), posteriors, decoded, expected }
}

/// The model extended to `n` states by unreachable ones, which emit all symbols, or vectors around 25.
fn with_unreachable(model: &Hmm, n: usize) -> Hmm {
    let old = model.states() as usize;
    let more = |row: &[f64], by: f64| row.iter().copied().chain(vec![by; n - old]).collect::<Vec<f64>>();
    let mut transitions: Vec<f64> = model.transitions().chunks_exact(old).flat_map(|row| more(row, 0.0)).collect();
    for i in old..n {
        transitions.extend((0..n).map(|j| f64::from(u8::from(j == i))));
    }
    let emissions = match model.emissions() {
        Emissions::Categorical { symbols, probs } => {
            let v = *symbols as usize;
            let probs = probs.iter().copied().chain(vec![1.0 / v as f64; (n - old) * v]).collect();
            Emissions::Categorical { symbols: *symbols, probs }
        }
        Emissions::Gaussian { dimensions, means, covariances: Covariances::Diagonal(variances) } => {
            let wide = |x: &[f64], by: f64| {
                x.iter().copied().chain(vec![by; (n - old) * *dimensions as usize]).collect::<Vec<f64>>()
            };
            let covariances = Covariances::Diagonal(wide(variances, 1.0));
            Emissions::Gaussian { dimensions: *dimensions, means: wide(means, 25.0), covariances }
        }
        full => full.clone(),
    };
    let end = model.end().map(|end| more(end, 0.0));
    HmmParts { start: more(model.start(), 0.0), transitions, end, emissions, names: Names::default() }
        .validated()
        .unwrap()
}

/// A model of two states and two symbols.
fn of_two(start: [f64; 2], transitions: [f64; 4], probs: [f64; 4], end: Option<[f64; 2]>) -> Hmm {
    HmmParts {
        start: start.to_vec(),
        transitions: transitions.to_vec(),
        end: end.map(|end| end.to_vec()),
        emissions: Emissions::Categorical { symbols: 2, probs: probs.to_vec() },
        names: Names::default(),
    }
    .validated()
    .unwrap()
}

/// Results agree with the definitions in one piece, with little memory, and in chunks; larger emulated cases run one of
/// the three.
fn agree_everywhere<T: Precise>(
    device: &AnyDevice,
    scale: usize,
    models: &[Hmm],
    sequences: &Sequences,
    what: &str,
) -> Outcome {
    let n = models[0].states() as usize;
    let truth: Vec<Said> = models.iter().map(|model| in_logarithms(model, sequences)).collect();
    let whole = Limits::default();
    let mut all = vec![("in windows", Limits { trellis: 192 * n, ..whole })];
    if n <= 16 || scale > 1 {
        all.push(("whole", whole));
    }
    if n <= 16 || n <= 64 && (scale > 1 || n == 33) {
        all.push(("in chunks", Limits { chunks: Some(2), ..whole }));
    }
    for (how, limits) in all {
        let got = said(&mut Batch::<T>::new(device, sequences, limits)?, models)?;
        for (k, (got, expected)) in got.iter().zip(&truth).enumerate() {
            agree::<T>(got, expected, &models[k], sequences).map_err(|error| {
                format!("{what}, {how}, N = {n}, model {k}: {}", error.message().unwrap_or_default())
            })?;
        }
    }
    Ok(())
}

/// States whose probability underflows relative to another state, and which later are the only possible ones.
fn out_of_range<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let half = [0.5, 0.5, 0.0, 1.0];
    let symbols = [
        // The observations are unlikely in state 0, the only reachable state.
        of_two([1.0, 0.0], half, [1.0 - 1e-300, 1e-300, 1e-300, 1.0 - 1e-300], None),
        // A state leads by a factor of 10⁴⁰⁰ and then cannot emit the observation.
        of_two([0.5, 0.5], [1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1e-200, 1.0], None),
        of_two([1.0, 0.0], half, [0.5; 4], Some([0.0, 1e-310])),
        // Subnormal probabilities in all states.
        of_two([0.5, 0.5], half, [1.0, 5e-320, 1.0, 2e-315], None),
        of_two([1.0, 1e-310], [1.0, 1e-312, 1e-300, 1.0], [1.0, 0.0, 0.5, 0.5], Some([0.0, 1e-30])),
        // Probabilities of ordinary size.
        of_two([0.5, 0.5], [0.5; 4], [0.25, 0.75, 0.75, 0.25], None),
    ];
    let observed = [vec![1, 0, 1], vec![0, 0, 1], vec![0], vec![0, 1, 0, 1, 1, 0]];
    let vectors = HmmParts {
        start: vec![1.0, 0.0],
        transitions: half.to_vec(),
        end: None,
        emissions: Emissions::Gaussian {
            dimensions: 1,
            means: vec![0.0, 50.0],
            covariances: Covariances::Diagonal(vec![1.0, 1.0]),
        },
        names: Names::default(),
    }
    .validated()
    .unwrap();
    let values = Sequences::new(
        offsets([3, 1, 4]),
        Observations::Vectors { dimensions: 1, values: vec![50.0, 0.0, 50.0, 0.1, 0.0, 0.2, 49.0, 50.0] },
    )
    .unwrap();
    let logs = on::<T>(device, std::slice::from_ref(&vectors), &values)?.remove(0).logs;
    close("ln P(O)", &logs[..1], &[-1_254.143_109_960_734], 1e-9, 0.0)?;
    for n in [2, 12, 33, 130, 300, 1030] {
        if n > 130 && scale == 1 {
            continue;
        }
        let models: Vec<Hmm> = symbols.iter().map(|model| with_unreachable(model, n)).collect();
        let few = n > 16 && scale == 1 || n > 1024;
        let (models, observed) = if few { (&models[..2], &observed[..2]) } else { (&models[..], &observed[..]) };
        agree_everywhere::<T>(device, scale, models, &Sequences::of_symbols(observed)?, "symbols")?;
        if !few {
            agree_everywhere::<T>(device, scale, &[with_unreachable(&vectors, n)], &values, "vectors")?;
        }
    }
    Ok(())
}

impl Random {
    /// 10^−x with x uniform in [0, `orders`), or 0 with a small probability.
    fn magnitude(&mut self, orders: f64) -> f64 {
        if self.below(6) == 0 { 0.0 } else { 10_f64.powf(-orders * self.unit()) }
    }

    /// A distribution with such elements that sums to `total`. The element `keep` is not small.
    fn uneven(&mut self, n: usize, orders: f64, keep: usize, total: f64) -> Vec<f64> {
        let weights: Vec<f64> = (0..n).map(|i| if i == keep { 1.0 } else { self.magnitude(orders) }).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| total * weight / sum).collect()
    }

    /// A random model with parameters of all magnitudes: left-right or with all transitions.
    fn wild(&mut self, n: usize, symbols: usize, ends: bool, vectors: bool) -> Hmm {
        let orders = [2.0, 40.0, 320.0];
        let order = |random: &mut Self| orders[random.below(3) as usize];
        let left_right = self.below(2) == 0;
        let end: Option<Vec<f64>> = ends.then(|| (0..n).map(|_| 0.5 * self.magnitude(310.0)).collect());
        let mut transitions = Vec::new();
        for i in 0..n {
            let total = 1.0 - end.as_ref().map_or(0.0, |end| end[i]);
            let mut row = vec![0.0; n];
            if left_right {
                let on = if i + 1 < n { 0.1 + 0.8 * self.unit() } else { 0.0 };
                row[i] = (1.0 - on) * total;
                if i + 1 < n {
                    row[i + 1] = on * total;
                }
            } else {
                let (orders, keep) = (order(self), self.below(n as u64) as usize);
                row = self.uneven(n, orders, keep, total);
            }
            transitions.extend(row);
        }
        let emissions = if vectors {
            let spread = 10_f64.powf(2.0 * self.unit());
            Emissions::Gaussian {
                dimensions: 2,
                means: self.signed(2 * n).into_iter().map(|x| spread * x).collect(),
                covariances: Covariances::Diagonal((0..2 * n).map(|_| 10_f64.powf(4.0 * self.unit() - 1.0)).collect()),
            }
        } else {
            let orders = order(self);
            let probs = (0..n).flat_map(|i| self.uneven(symbols, orders, i % symbols, 1.0)).collect();
            Emissions::Categorical { symbols: symbols as u32, probs }
        };
        let start = if left_right { [vec![1.0], vec![0.0; n - 1]].concat() } else { self.uneven(n, 200.0, 0, 1.0) };
        HmmParts { start, transitions, end, emissions, names: Names::default() }.validated().unwrap()
    }
}

/// Models and sequences with numbers of all magnitudes.
fn orders_of_magnitude<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(31);
    for n in [3, 8, 11, 25, 40, 129] {
        if n == 129 && scale == 1 {
            continue;
        }
        let lengths: &[usize] = if n < 32 || scale > 1 { &[7, 1, 12, 4] } else { &[3, 5] };
        for _ in 0..scale.min(8) {
            let models = [random.wild(n, 3, false, false), random.wild(n, 3, true, false)];
            let sequences = random.observed(lengths, 3);
            agree_everywhere::<T>(device, scale, &models, &sequences, "symbols")?;
            let models = [random.wild(n, 3, true, true)];
            let values = random.signed(2 * lengths.iter().sum::<usize>()).into_iter().map(|x| 30.0 * x).collect();
            let observations = Observations::Vectors { dimensions: 2, values };
            let sequences = Sequences::new(offsets(lengths.iter().copied()), observations).unwrap();
            agree_everywhere::<T>(device, scale, &models, &sequences, "vectors")?;
        }
    }
    Ok(())
}

/// The model with an additional state, which every other state enters with probability 1e-300 and which has the
/// emissions of state 0: every sequence of two or more steps may underflow and is in doubt.
fn with_doubt(model: &Hmm) -> Hmm {
    let n = model.start().len();
    let mut transitions: Vec<f64> =
        model.transitions().chunks_exact(n).flat_map(|row| row.iter().copied().chain([1e-300])).collect();
    // The additional state may go to every state.
    transitions.extend(vec![1.0 / (n + 1) as f64; n + 1]);
    let again = |x: &[f64]| [x, &x[..x.len() / n]].concat();
    let emissions = match model.emissions() {
        Emissions::Categorical { symbols, probs } => Emissions::Categorical { symbols: *symbols, probs: again(probs) },
        Emissions::Gaussian { dimensions, means, covariances } => Emissions::Gaussian {
            dimensions: *dimensions,
            means: again(means),
            covariances: match covariances {
                Covariances::Diagonal(x) => Covariances::Diagonal(again(x)),
                Covariances::Full(x) => Covariances::Full(again(x)),
            },
        },
    };
    let end = model.end().map(|end| [end, &[0.0]].concat());
    HmmParts { start: [model.start(), &[0.0]].concat(), transitions, end, emissions, names: Names::default() }
        .validated()
        .unwrap()
}

/// Sequences in doubt are recomputed in f64 in every precision. The results agree with the definitions and with the
/// host, and have the same bits with little memory and in chunks.
fn taken_again<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    for seed in 0..if scale > 1 { 150 } else { 24 } {
        let (model, sequences) = wide::random_case(seed);
        let model = with_doubt(&model);
        let n = model.start().len();
        let truths: Vec<_> = (0..sequences.len()).map(|m| wide::truth(&model, &sequences, m)).collect();
        let all: Vec<u32> = (0..sequences.len() as u32).collect();
        let exact = Exact::new(&model).expect(&sequences, &all);
        let mut whole: Option<(Vec<f64>, Vec<f64>, Expected)> = None;
        for (how, limits) in [
            ("whole", Limits::default()),
            ("little memory", Limits { trellis: 600 * n, ..Limits::default() }),
            ("chunks", Limits { chunks: Some(5), ..Limits::default() }),
        ] {
            let what = |what: &str| format!("seed {seed}, {how}, N = {n}: {what}");
            let mut batch = Batch::<T>::new(device, &sequences, limits)?;
            batch.set_models(std::slice::from_ref(&model))?;
            let (logs, gamma) = (batch.log_likelihoods()?.remove(0), batch.posteriors()?.remove(0));
            let expected = batch.expect()?.remove(0);
            let mut pairs = vec![0.0; n * n];
            let mut loosest: f64 = 0.0;
            for (m, truth) in truths.iter().enumerate() {
                let range = sequences.range(m);
                // A sequence of one step uses no transition, so it is not in doubt.
                let unit = if T::WIDE || range.len() > 1 { 1e-12 } else { 1e-4 };
                let steps = range.len() as f64;
                if truth.log.is_finite() {
                    let tolerance = unit * truth.log.abs().max(steps);
                    close(&what("ln P(O)"), &logs[m..=m], &[truth.log], tolerance, 0.0)?;
                } else {
                    same(&what("ln P(O)"), &logs[m..=m], &[truth.log])?;
                }
                let tolerance = unit + 1e-14 * truth.steepest * steps;
                let found = &gamma[range.start * n..range.end * n];
                close(&what("γ"), found, &truth.gamma, tolerance, 0.0)?;
                pairs.iter_mut().zip(&truth.pairs).for_each(|(sum, pairs)| *sum += pairs);
                loosest = loosest.max(tolerance * steps * sequences.len() as f64);
            }
            close(&what("ξ"), &expected.transitions, &pairs, loosest, 0.0)?;
            close(&what("ξ of the host"), &expected.transitions, &exact.transitions, loosest, 0.0)?;
            close(&what("starts"), &expected.start, &exact.start, loosest, 0.0)?;
            close(&what("ends"), &expected.end, &exact.end, loosest, 0.0)?;
            match (&expected.emissions, &exact.emissions) {
                (Statistics::Categorical(got), Statistics::Categorical(expected)) => {
                    close(&what("emissions"), got, expected, loosest, 0.0)?;
                }
                (
                    Statistics::Gaussian { weights, sums, squares },
                    Statistics::Gaussian { weights: of_weights, sums: of_sums, squares: of_squares },
                ) => {
                    // Observations may be far from the means.
                    let far = |x: &[f64]| loosest * x.iter().fold(1.0, |most: f64, x| most.max(x.abs())) * 1e3;
                    close(&what("weights"), weights, of_weights, loosest, 0.0)?;
                    close(&what("sums"), sums, of_sums, far(of_sums), 0.0)?;
                    close(&what("squares"), squares, of_squares, far(of_squares), 0.0)?;
                }
                other => return Err(format!("statistics of two kinds: {other:?}").into()),
            }
            let Some((of_logs, of_gamma, of_expected)) = &whole else {
                whole = Some((logs, gamma, expected));
                continue;
            };
            for m in (0..sequences.len()).filter(|&m| sequences.range(m).len() > 1) {
                let range = sequences.range(m);
                let range = range.start * n..range.end * n;
                same(&what("the bits of ln P(O)"), &logs[m..=m], &of_logs[m..=m])?;
                same(&what("the bits of γ"), &gamma[range.clone()], &of_gamma[range])?;
            }
            close(&what("ξ as before"), &expected.transitions, &of_expected.transitions, loosest, 0.0)?;
        }
    }
    Ok(())
}

/// A training step includes the expected counts of sequences in doubt, and the likelihood rises.
fn out_of_range_trained<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(33);
    let whole = Limits::default();
    let cases = [
        (5, whole),
        (5, Limits { chunks: Some(3), ..whole }),
        (5, Limits { trellis: 960, ..whole }),
        (34, whole),
        (130, whole),
    ];
    for (n, limits) in cases {
        let first = with_unreachable(&of_two([1.0, 0.0], [0.5, 0.5, 0.0, 1.0], [1.0, 1e-300, 1e-300, 1.0], None), n);
        let mut second = with_unreachable(&first, n).into_parts();
        second.transitions[..2].copy_from_slice(&[1.0, 1e-310]);
        let second = second.validated().unwrap();
        let models = [first, second];
        let observed: &[usize] = if n > 64 { &[3, 2] } else { &[8, 3, 5, 1] };
        let sequences = random.observed(observed, 2);
        let mut batch = Batch::<T>::new(device, &sequences, limits)?;
        batch.set_models(&models)?;
        let before = batch.e_step()?;
        batch.m_step(&Options { floor: 1e-6, ..Options::default() })?;
        let tolerance = if T::WIDE { 1e-11 } else { 1e-4 };
        for (k, (got, model)) in batch.models()?.iter().zip(&models).enumerate() {
            let what = |what: &str| format!("N = {n}, model {k}: {what}");
            let truth = in_logarithms(model, &sequences);
            close(&what("ln P(O)"), &before[k], &truth.logs, 0.0, tolerance)?;
            let rows = |probs: &[f64], counts: &[f64], width: usize| {
                let pairs = probs.chunks_exact(width).zip(counts.chunks_exact(width));
                let of = |(probs, counts): (&[f64], &[f64])| {
                    let sum: f64 = counts.iter().sum();
                    if sum > 0.0 { counts.iter().map(|count| count / sum).collect() } else { probs.to_vec() }
                };
                pairs.flat_map(of).collect::<Vec<f64>>()
            };
            close(&what("π"), got.start(), &rows(model.start(), &truth.expected.start, n), tolerance, 0.0)?;
            let transitions = rows(model.transitions(), &truth.expected.transitions, n);
            close(&what("A"), got.transitions(), &transitions, tolerance, 0.0)?;
            let (
                Emissions::Categorical { probs: got, .. },
                Emissions::Categorical { probs, .. },
                Statistics::Categorical(counts),
            ) = (got.emissions(), model.emissions(), &truth.expected.emissions)
            else {
                continue;
            };
            close(&what("B"), got, &rows(probs, counts, 2), tolerance, 0.0)?;
        }
        let after = batch.e_step()?;
        for (before, after) in before.iter().zip(after) {
            let (before, after): (f64, f64) = (before.iter().sum(), after.iter().sum());
            same("risen", &[after >= before - tolerance * before.abs()], &[true])?;
        }
    }
    Ok(())
}

/// Two training steps of models with and without ends agree with the CPU, for each way of counting.
fn maximise<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(21);
    let (whole, tolerance) = (Limits::default(), if T::WIDE { 1e-11 } else { 1e-3 });
    let long: &[usize] = &[3, 1, 17, 2, 9];
    let cases: [(usize, usize, Limits, &[usize]); 7] = [
        (3, 2, whole, long),
        (12, 5, whole, long),
        (12, 700, whole, &[5, 20, 1]),
        (9, 4, Limits { chunks: Some(4), ..whole }, long),
        (30, 4, Limits { trellis: 192 * 30, ..whole }, long),
        (40, 3, whole, if scale > 1 { &[4, 1, 9] } else { &[4, 1, 5] }),
        (if scale > 1 { 300 } else { 130 }, 3, whole, if scale > 1 { &[3, 1, 4] } else { &[3, 1] }),
    ];
    for (n, symbols, limits, lengths) in cases {
        let mut models = vec![random.hmm(n, symbols, false), random.hmm(n, symbols, true)];
        // The last state of the first model is unreachable, so its parameters stay.
        let last = n - 1;
        let without_last = |row: &mut [f64]| {
            row[last] = 0.0;
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|prob| *prob /= sum);
        };
        let mut parts = models[0].clone().into_parts();
        without_last(&mut parts.start);
        parts.transitions.chunks_exact_mut(n).take(last).for_each(without_last);
        let kept = parts.transitions[last * n..].to_vec();
        models[0] = parts.validated().unwrap();
        let sequences = random.observed(lengths, symbols);
        let priors: &[f64] = if n < 64 || scale > 1 { &[0.0, 0.25] } else { &[0.0] };
        // The host computes the M step of pseudocounts that differ.
        let differing = (n < 10).then(|| Pseudocount::Each((0..n * n).map(|at| 0.1 * at as f64).collect()));
        let equal = priors.iter().map(|&prior| (prior, Pseudocount::Equal(2.0 * prior)));
        for (prior, transitions) in equal.chain(differing.map(|counts| (0.25, counts))) {
            let [start, emissions] = [1.0, 3.0].map(|factor| (factor * prior).into());
            let pseudocounts = Pseudocounts { start, transitions, emissions };
            let options = Options { pseudocounts, floor: 1e-6, ..Options::default() };
            let mut expected = OnCpu::<f64>::new(&sequences);
            let mut got = Batch::<T>::new(device, &sequences, limits)?;
            let Ok(()) = expected.set_models(&models);
            got.set_models(&models)?;
            // Without counts no parameter changes.
            got.m_step(&options)?;
            for _ in 0..2 {
                let Ok(logs) = expected.e_step();
                for (got, expected) in got.e_step()?.iter().zip(logs) {
                    close("ln P(O)", got, &expected, tolerance, tolerance)?;
                }
                let Ok(()) = expected.m_step(&options);
                got.m_step(&options)?;
            }
            let Ok(expected_models) = expected.models();
            let trained = got.models()?;
            for (got, expected) in trained.iter().zip(&expected_models) {
                let what = |what: &str| format!("N = {n}, V = {symbols}, pseudocount {prior}: {what}");
                close(&what("π"), got.start(), expected.start(), tolerance, 0.0)?;
                close(&what("A"), got.transitions(), expected.transitions(), tolerance, 0.0)?;
                same(&what("ends"), &[got.end().is_some()], &[expected.end().is_some()])?;
                if let (Some(got), Some(expected)) = (got.end(), expected.end()) {
                    close(&what("end"), got, expected, tolerance, 0.0)?;
                }
                if let (Emissions::Categorical { probs: got, .. }, Emissions::Categorical { probs: expected, .. }) =
                    (got.emissions(), expected.emissions())
                {
                    close(&what("B"), got, expected, tolerance, 0.0)?;
                }
                let zeros = |probs: &[f64]| probs.iter().map(|prob| *prob == 0.0).collect::<Vec<_>>();
                if T::WIDE {
                    same(&what("zeros"), &zeros(got.transitions()), &zeros(expected.transitions()))?;
                }
                got.clone().into_parts().validated()?;
            }
            if prior == 0.0 {
                close("a state without counts", &trained[0].transitions()[last * n..], &kept, 1e-6, 0.0)?;
            }
            // The next recursion uses the updated models.
            let Ok(decoded) = expected.viterbi();
            for (got, expected) in got.viterbi()?.iter().zip(decoded) {
                close("ln P(path, O)", &got.scores, &expected.scores, tolerance, tolerance)?;
            }
            let Ok(counts) = expected.expect();
            for (got, expected) in got.expect()?.iter().zip(counts) {
                let all = tolerance * sequences.steps() as f64;
                close("ξ", &got.transitions, &expected.transitions, all, 0.0)?;
            }
        }
    }
    Ok(())
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

/// The partial kernels of a step together give the forward recursion.
pub fn slices<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(16);
    let (n, v, m) = (37, 5, 6);
    let model = random.hmm(n, v, false);
    let sequences = random.observed(&[4; 6], v);
    let Observations::Symbols(observed) = sequences.observations() else { return Ok(()) };
    let Emissions::Categorical { probs, .. } = model.emissions() else { return Ok(()) };
    let by_symbol: Vec<f64> = (0..v * n).map(|at| probs[at % n * v + at / n]).collect();
    let (emissions, transitions) =
        (device.upload(&of::<T>(&by_symbol))?, device.upload(&of::<T>(model.transitions()))?);
    let (start, end) = (device.upload(&of::<T>(model.start()))?, device.upload(&of::<T>(&vec![1.0; n]))?);
    let symbols: Vec<u32> = (0..4 * m).map(|at| observed[at % m * 4 + at / m]).collect();
    let symbols = device.upload(&symbols)?;
    let (mut c, mut w) = (device.zeros::<T>(m * n)?, device.zeros::<T>(m * n)?);
    let (mut exponents, mut likelihoods) = (device.zeros::<f64>(m)?, device.zeros::<f64>(2 * m)?);
    let (grid, block) = (Dim3 { x: n.div_ceil(32) as u32, y: m as u32, z: 1 }, 32);
    let (elements, of_rows) = (Shape::new(grid, block), Shape::new(m as u32, 64));
    let (rows, states) = (m as u32, n as u32);
    start_rows(device, elements, rows, states, &start, &mut c)?;
    for t in 0..4 {
        scale_rows(device, of_rows, rows, states, 1e-30, &mut c, &mut exponents)?;
        let (first, v) = (rows * t, v as u32);
        emission_product(device, elements, rows, states, v, first, &symbols, &emissions, &c, &mut w)?;
        product(device, elements, rows, states, &w, &transitions, &mut c)?;
    }
    row_sums(device, of_rows, rows, states, &w, &end, &exponents, &mut likelihoods)?;
    let likelihoods = device.to_vec(&likelihoods)?;
    let logs: Vec<f64> = likelihoods.chunks_exact(2).map(|pair| pair[0].ln() + pair[1] * LN_2).collect();
    let tolerance = if T::WIDE { 1e-12 } else { 1e-5 };
    close("ln P(O)", &logs, &on_cpu(&[model], &sequences)[0].logs, tolerance, 0.0)
}

/// A number below the least one puts its row in doubt, and no other row; and the row stays so.
fn doubtful_rows<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut c = device.upload(&of::<T>(&[1.0, 1e-20, 0.0, 1e-20, 0.0, 0.0]))?;
    let (mut exponents, mut likelihoods) = (device.zeros::<f64>(3)?, device.zeros::<f64>(6)?);
    let (shape, top) = (Shape::new(3, 32), top(T::WIDE));
    for least in [power(top - 60), 1e-30] {
        scale_rows(device, shape, 3, 2, least, &mut c, &mut exponents)?;
    }
    row_sums(device, shape, 3, 2, &c, &device.upload(&of::<T>(&[1.0; 2]))?, &exponents, &mut likelihoods)?;
    let found = device.to_vec(&likelihoods)?;
    same("in doubt", &[0, 2, 4].map(|at| found[at].is_nan()), &[true, false, false])?;
    same("scaled", &[(power(top)..power(top + 1)).contains(&found[2])], &[true])?;
    close("1e-20", &[found[2].ln() + found[3] * LN_2], &[f64::ln(1e-20)], 1e-6, 0.0)?;
    same("nothing", &found[4..], &[0.0; 2])
}

/// The method slices has the likelihoods of the fused kernels and of exact arithmetic, whatever the lengths, the ends and the
/// magnitudes.
fn by_slices<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let limits = Limits { method: ForwardMethod::Slices, chunks: Some(5), ..Limits::default() };
    let logs = |models: &[Hmm], sequences: &Sequences, limits: Limits| {
        let mut batch = Batch::<T>::new(device, sequences, limits)?;
        batch.set_models(models)?;
        batch.log_likelihoods()
    };
    let mut random = Random::new(41);
    for n in [1, 3, 33, 70, 130] {
        let lengths: &[usize] = if n < 33 || scale > 1 { &[3, 1, 17, 2, 17, 1, 33] } else { &[3, 1, 4, 4] };
        let sequences = random.observed(lengths, 4);
        let models = [random.hmm(n, 4, false), random.hmm(n, 4, true)];
        let (found, expected) = (logs(&models, &sequences, limits)?, on_cpu(&models, &sequences));
        for (found, expected) in found.iter().zip(&expected) {
            let possible = |logs: &[f64]| logs.iter().map(|log| log.is_finite()).collect::<Vec<_>>();
            same("possible", &possible(found), &possible(&expected.logs))?;
            let finite = |logs: &[f64]| logs.iter().copied().filter(|log| log.is_finite()).collect::<Vec<_>>();
            let tolerance = if T::WIDE { 1e-12 } else { 1e-4 };
            close("ln P(O)", &finite(found), &finite(&expected.logs), tolerance, tolerance)?;
        }
        // The other results have one method, and training changes the models of this one.
        let mut batch = Batch::<T>::new(device, &sequences, limits)?;
        let all = said(&mut batch, &models)?;
        agree::<T>(&all[1], &expected[1], &models[1], &sequences)?;
        batch.e_step()?;
        batch.m_step(&Options::default())?;
        let (trained, after) = (batch.models()?, batch.log_likelihoods()?);
        same("after an M step", &after, &logs(&trained, &sequences, limits)?)?;
    }
    let agrees = |what: &str, found: f64, truth: f64, steps: usize| {
        let tolerance = if T::WIDE { 1e-12 } else { 1e-4 } * truth.abs().max(steps as f64);
        match truth.is_finite() {
            true => close(what, &[found], &[truth], tolerance, 0.0),
            false => same(what, &[found], &[truth]),
        }
    };
    for seed in 0..if scale > 1 { 150 } else { 24 } {
        let (model, sequences) = wide::random_case(seed);
        if !matches!(model.emissions(), Emissions::Categorical { .. }) {
            continue;
        }
        for model in [with_doubt(&model), model] {
            let models = std::slice::from_ref(&model);
            let found = logs(models, &sequences, limits)?.remove(0);
            let fused = logs(models, &sequences, Limits::default())?.remove(0);
            for (m, (found, fused)) in found.into_iter().zip(fused).enumerate() {
                let (truth, steps) = (wide::truth(&model, &sequences, m).log, sequences.range(m).len());
                agrees(&format!("seed {seed}, sequence {m}"), found, truth, steps)?;
                agrees(&format!("seed {seed}, sequence {m}, fused"), found, fused, steps)?;
            }
        }
    }
    for _ in 0..scale.min(8) {
        let models = [random.wild(6, 3, false, false), random.wild(6, 3, true, false)];
        let sequences = random.observed(&[7, 1, 12, 4], 3);
        for (model, found) in models.iter().zip(logs(&models, &sequences, limits)?) {
            for (m, found) in found.into_iter().enumerate() {
                agrees("all magnitudes", found, wide::truth(model, &sequences, m).log, sequences.range(m).len())?;
            }
        }
    }
    Ok(())
}

/// 4000 steps and more: P(O) is below e^−5000, far below every number of f64.
fn long_by_slices<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let models = [Uniform { states: 3, kind: Kind::Symbols(4), ends: true, seed: 42 }.generate()?];
    let sequences = Random::new(42).observed(&[200, 4_200, 4_000], 4);
    let mut batch = Batch::<T>::new(device, &sequences, Limits { method: ForwardMethod::Slices, ..Limits::default() })?;
    batch.set_models(&models)?;
    let (found, expected) =
        (batch.log_likelihoods()?.remove(0), Exact::new(&models[0]).log_likelihoods(&sequences, &[0, 1, 2]));
    same("possible", &[expected[1].is_finite(), expected[1] < -5000.0], &[true; 2])?;
    close("ln P(O)", &found, &expected, 0.0, if T::WIDE { 1e-12 } else { 1e-6 })
}

/// A product of 16 × 8 and 8 × 8 matrices of small integers in f64 is exact.
pub fn tensor_core(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(17);
    let mut integers = |n: usize| (0..n).map(|_| random.below(21) as f64 - 10.0).collect::<Vec<_>>();
    let (a, b, c) = (integers(128), integers(64), integers(128));
    let mut d = device.zeros::<f64>(128)?;
    // SAFETY: the matrices are 16 × 8, 8 × 8, 16 × 8 and 16 × 8.
    unsafe {
        wide_tensor_product(
            device,
            Shape::new(1, 32),
            &device.upload(&a)?,
            &device.upload(&b)?,
            &device.upload(&c)?,
            &mut d,
        )?;
    }
    let element = |at: usize| c[at] + (0..8).map(|k| a[at / 8 * 8 + k] * b[8 * k + at % 8]).sum::<f64>();
    same("A·B + C", &device.to_vec(&d)?, &(0..128).map(element).collect::<Vec<_>>())
}
