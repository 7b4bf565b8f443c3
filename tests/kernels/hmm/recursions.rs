//! Models of all sizes against the CPU: with little memory, one sequence at a time, with ties and with vectors.

use warpkov::hmm::backend::NO_STATE;
use warpkov::hmm::backends::device::{Batch, Limits};
use warpkov::hmm::channels::{Channel, Channels, Family, Gamma, Poisson, StudentT};
use warpkov::hmm::generate::{Kind, Uniform};
use warpkov::hmm::model::{Emissions, HmmParts, Names};
use warpkov::hmm::sample::sample;
use warpkov::hmm::sequences::{Observations, Sequences, offsets};
use warpkov::runtime::Precise;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::lessons::wide_tensor_product;
use warpkov_runtime::device::AnyDevice;

use crate::check::{close, same};
use crate::random::Random;
use crate::{Outcome, Suite};

use super::common::{Said, agree, on, on_cpu, said};

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
    suite.add("hmm_gaussian::f32", gaussian::<f32>);
    suite.add("hmm_gaussian::f64", gaussian::<f64>);
    suite.add("hmm_channels::f32", channels::<f32>);
    suite.add("hmm_channels::f64", channels::<f64>);
    suite.add("hmm_plain_tf32", plain_tf32);
    suite.add("mma_f64", tensor_core);
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

/// Channels of exponential families, whose densities and sums are those of kernels; and with Student's t distributions beside them, those
/// of the host. Components and whole rows are missing, and some states are known.
fn channels<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(19);
    for (n, beside) in [(1, false), (5, false), (20, true), (40, false)] {
        let mut positive = |count: usize| -> Vec<f64> { (0..n * count).map(|_| 0.2 + 3.0 * random.unit()).collect() };
        let mut list = vec![
            Channel { columns: vec![0, 1], family: Family::Poisson(Poisson { rates: positive(2) }) },
            Channel { columns: vec![2], family: Family::Gamma(Gamma { shapes: positive(1), rates: positive(1) }) },
        ];
        if beside {
            let (degrees, locations, scales) = (positive(1), positive(1), positive(1));
            list.push(Channel { columns: vec![3], family: Family::StudentT(StudentT { degrees, locations, scales }) });
        }
        let dimensions = if beside { 4 } else { 3 };
        let emissions = Emissions::Channels(Channels { dimensions, names: Vec::new(), list });
        let models = [false, true].map(|ends| {
            let parts = random.hmm(n, 2, ends).into_parts();
            HmmParts { emissions: emissions.clone(), ..parts }.validated().unwrap()
        });
        let lengths: &[usize] = if n < 33 { &[7, 1, 4] } else { &[3, 1] };
        let rows = lengths.iter().sum::<usize>();
        let mut values = Vec::new();
        for _ in 0..rows {
            let counts = [0; 2].map(|_| (5.0 * random.unit()).floor());
            let row = [counts[0], counts[1], 0.01 + 3.0 * random.unit(), 5.0 * random.unit()];
            let lost = random.unit();
            let kept = |column: usize| lost > 0.2 || (lost > 0.05 && column != 1);
            values.extend((0..dimensions as usize).map(|column| if kept(column) { row[column] } else { f64::NAN }));
        }
        let states = (0..rows).map(|_| if random.unit() < 0.2 { n as u32 / 2 } else { NO_STATE });
        let states = states.collect::<Vec<_>>();
        let observations = Observations::Vectors { dimensions, values };
        let sequences = Sequences::with_missing(offsets(lengths.iter().copied()), observations)?;
        for sequences in [sequences.clone(), sequences.with_states(states)?] {
            let all = on::<T>(device, &models, &sequences)?;
            for ((got, expected), model) in all.iter().zip(on_cpu(&models, &sequences)).zip(&models) {
                agree::<T>(got, &expected, model, &sequences)
                    .map_err(|error| format!("N = {n}: {}", error.message().unwrap_or_default()))?;
            }
        }
    }
    Ok(())
}
