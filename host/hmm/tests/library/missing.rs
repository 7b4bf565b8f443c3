//! Vectors with missing components, against recursions in logarithms with marginal densities by Gaussian elimination,
//! and against formulas.

use std::ops::ControlFlow;

use warpkov_hmm::backend::{NO_STATE, Recursions, Statistics};
use warpkov_hmm::backends::cpu::{Batch, Exact};
use warpkov_hmm::backends::device::{Limits, OverPaths, Scan};
use warpkov_hmm::filter::{Filter, Refused};
use warpkov_hmm::generate::{Kind, Uniform, restart};
use warpkov_hmm::maximise::Spread;
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{Constraint, FLOOR, Options, Precision};
use warpkov_hmm::place::recursions;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observation, Observations, Sequences};
use warpkov_hmm::train::{Error, train};
use warpkov_runtime::choose::{DeviceChoice, Place};

use crate::logarithms::Trellis;
use crate::random::Random;

/// A random model, in units of any magnitude that differ between the components, and sequences of it of which components
/// and whole vectors are missing. Some vectors lie far from all means.
fn case(seed: u64, constraint: Constraint, full: bool) -> (Hmm, Sequences) {
    let random = &mut Random(seed);
    let dimensions = 1 + seed as u32 % 4;
    let d = dimensions as usize;
    let kind = Kind::Vectors { dimensions, full };
    let model = Uniform { states: 1 + seed as u32 % 5, kind, ends: false, seed }.generate().unwrap();
    let drawn = sample(&model, 5, Some(1 + seed as usize % 13), seed).unwrap().sequences;
    // Spherical covariances have one unit.
    let unit = random.magnitude(-30.0, 30.0);
    let units: Vec<f64> = (0..d)
        .map(|_| if constraint == Constraint::Spherical { unit } else { unit * random.magnitude(-3.0, 3.0) })
        .collect();
    let mut parts = model.into_parts();
    if let Emissions::Gaussian { means, covariances, .. } = &mut parts.emissions {
        means.iter_mut().enumerate().for_each(|(at, mean)| *mean *= units[at % d]);
        match covariances {
            Covariances::Diagonal(numbers) => {
                numbers.iter_mut().enumerate().for_each(|(at, number)| *number *= units[at % d].powi(2));
            }
            Covariances::Full(numbers) => {
                numbers.iter_mut().enumerate().for_each(|(at, number)| *number *= units[at % d] * units[at / d % d]);
            }
        }
        *covariances = match constraint {
            Constraint::None => covariances.clone(),
            Constraint::Spherical => covariances.clone().spherical(d),
            Constraint::Tied => covariances.clone().tied(d),
        };
    }
    let Observations::Vectors { mut values, .. } = drawn.observations().clone() else { panic!("vectors") };
    let rate = random.unit();
    for row in values.chunks_exact_mut(d) {
        let (far, whole) = (random.unit() < 0.05, random.unit() < 0.2);
        for (x, unit) in row.iter_mut().zip(&units) {
            *x *= unit * if far { random.magnitude(0.0, 4.0) } else { 1.0 };
            if whole || random.unit() < rate {
                *x = f64::NAN;
            }
        }
    }
    let observations = Observations::Vectors { dimensions, values };
    (parts.validated().unwrap(), Sequences::with_missing(drawn.offsets().to_vec(), observations).unwrap())
}

/// Solves A X = B of K equations by elimination with pivots; `rows` are those of A and B together. Returns X and ln |A|.
fn eliminate(mut rows: Vec<Vec<f64>>) -> (Vec<Vec<f64>>, f64) {
    let k = rows.len();
    let mut log = 0.0;
    for column in 0..k {
        let pivot = (column..k).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs())).unwrap();
        rows.swap(column, pivot);
        let scale = rows[column][column];
        log += scale.abs().ln();
        rows[column].iter_mut().for_each(|x| *x /= scale);
        for row in (0..k).filter(|&row| row != column) {
            let factor = rows[row][column];
            let of_pivot = rows[column].clone();
            rows[row].iter_mut().zip(of_pivot).for_each(|(x, y)| *x -= factor * y);
        }
    }
    (rows.into_iter().map(|row| row[k..].to_vec()).collect(), log)
}

/// What a state says about a vector: ln of the marginal density, E[x − μ], and Cov[x] as D × D.
struct Told {
    log: f64,
    deviation: Vec<f64>,
    covariance: Vec<f64>,
}

fn told(x: &[f64], mean: &[f64], covariance: &[f64]) -> Told {
    let d = x.len();
    // In units of the deviations.
    let units: Vec<f64> = (0..d).map(|k| covariance[k * d + k].sqrt()).collect();
    let sigma = |a: usize, b: usize| covariance[a * d + b] / units[a] / units[b];
    let (lost, seen): (Vec<usize>, Vec<usize>) = (0..d).partition(|&k| x[k].is_nan());
    let z = |k: usize| (x[k] - mean[k]) / units[k];
    // Σₒₒ⁻¹ of z, and of Σₒₘ.
    let rows = seen.iter().map(|&a| {
        let of_lost = lost.iter().map(|&m| sigma(a, m));
        seen.iter().map(|&b| sigma(a, b)).chain([z(a)]).chain(of_lost).collect()
    });
    let (solved, log) = eliminate(rows.collect());
    let square: f64 = seen.iter().zip(&solved).map(|(&a, row)| z(a) * row[0]).sum();
    let scale: f64 = seen.iter().map(|&a| units[a].ln()).sum();
    let log = -0.5 * (square + log + seen.len() as f64 * std::f64::consts::TAU.ln()) - scale;
    let (mut deviation, mut conditional) = (vec![0.0; d], vec![0.0; d * d]);
    seen.iter().for_each(|&k| deviation[k] = x[k] - mean[k]);
    for (i, &m) in lost.iter().enumerate() {
        let along = |column: usize| seen.iter().zip(&solved).map(|(&a, row)| sigma(a, m) * row[column]).sum::<f64>();
        deviation[m] = along(0) * units[m];
        for (j, &e) in lost.iter().enumerate() {
            conditional[m * d + e] = (sigma(m, e) - along(1 + j)) * units[m] * units[e];
        }
        assert!(conditional[m * d + m] >= 0.0, "{i}");
    }
    Told { log, deviation, covariance: conditional }
}

/// All results by recursions in logarithms.
struct Reference {
    logs: Vec<f64>,
    scores: Vec<f64>,
    gamma: Vec<f64>,
    weights: Vec<f64>,
    sums: Vec<f64>,
    /// N × D × D.
    squares: Vec<f64>,
}

fn reference(model: &Hmm, sequences: &Sequences) -> Reference {
    let n = model.start().len();
    let Emissions::Gaussian { dimensions, means, covariances } = model.emissions() else { panic!("vectors") };
    let d = *dimensions as usize;
    let Covariances::Full(matrices) = covariances.clone().full(d) else { panic!("matrices") };
    let Observations::Vectors { values, .. } = sequences.observations() else { panic!("vectors") };
    let all: Vec<Vec<Told>> = values
        .chunks_exact(d)
        .map(|x| (0..n).map(|j| told(x, &means[j * d..][..d], &matrices[j * d * d..][..d * d])).collect())
        .collect();
    let mut found = Reference {
        logs: Vec::new(),
        scores: Vec::new(),
        gamma: Vec::new(),
        weights: vec![0.0; n],
        sums: vec![0.0; n * d],
        squares: vec![0.0; n * d * d],
    };
    for sequence in 0..sequences.len() {
        let told = &all[sequences.range(sequence)];
        let trellis = Trellis::new(model, told.len(), |t, j| told[t][j].log);
        found.logs.push(trellis.log);
        found.scores.push(trellis.score);
        let gamma: Vec<Vec<f64>> = (0..told.len()).map(|t| trellis.gamma(t)).collect();
        for (gamma, told) in gamma.iter().zip(told) {
            for (j, told) in told.iter().enumerate() {
                found.weights[j] += gamma[j];
                (0..d).for_each(|k| found.sums[j * d + k] += gamma[j] * told.deviation[k]);
                for at in 0..d * d {
                    let product = told.deviation[at / d] * told.deviation[at % d] + told.covariance[at];
                    found.squares[j * d * d + at] += gamma[j] * product;
                }
            }
        }
        found.gamma.extend(gamma.concat());
    }
    found
}

/// Compares numbers, relative to the size of each number's unit.
#[track_caller]
fn near(found: &[f64], expected: &[f64], units: impl Fn(usize) -> f64, tolerance: f64, place: &str) {
    assert_eq!(found.len(), expected.len(), "{place}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(error <= tolerance * expected.abs().max(units(at)), "{place}, {at}: {found:e}, expected {expected:e}");
    }
}

#[test]
fn every_backend_integrates_over_missing_components() {
    let places = [DeviceChoice::Cpu, DeviceChoice::Emulated].map(|device| Place::open(device, None).unwrap().0);
    let (mut partial, mut whole, mut least) = (0, 0, 0.0_f64);
    for seed in 0..160_u64 {
        let full = seed % 2 == 0;
        let (model, sequences) = case(seed, Constraint::None, full);
        let Emissions::Gaussian { dimensions, covariances, .. } = model.emissions() else { panic!("vectors") };
        let d = *dimensions as usize;
        let Covariances::Full(matrices) = covariances.clone().full(d) else { panic!("matrices") };
        let deviation = |j: usize, k: usize| matrices[(j * d + k) * d + k].sqrt();
        let expected = reference(&model, &sequences);
        let Observations::Vectors { values, .. } = sequences.observations() else { panic!("vectors") };
        partial += sequences.partial();
        whole += values.chunks_exact(d).filter(|x| x.iter().all(|x| x.is_nan())).count();
        least = expected.logs.iter().copied().fold(least, f64::min);
        for (place, scan) in [(&places[0], Scan::Never), (&places[1], Scan::Never), (&places[1], Scan::Always)] {
            if matches!(place, Place::Device(_)) && seed % 4 > 1 {
                continue;
            }
            for precision in [Precision::F64, Precision::F32] {
                let wide = precision == Precision::F64;
                let name = format!("seed {seed}, {}, {scan:?}, {precision:?}", place.name());
                let chunks = scan.steps(OverPaths::Sums, model.states(), 1, &sequences);
                let mut all = recursions(place, &sequences, precision, Limits { chunks, ..Limits::default() }).unwrap();
                all.set_models(std::slice::from_ref(&model)).unwrap();
                // Far from all means, posteriors depend on small differences of large logarithms.
                let steep = expected.logs.iter().fold(1.0, |most: f64, log| most.max(log.abs()));
                let tolerance = if wide { 1e-11 + 1e-14 * steep } else { 1e-4 };
                let logs = all.log_likelihoods().unwrap().remove(0);
                near(&logs, &expected.logs, |_| 1.0, tolerance, &name);
                let decoded = all.viterbi().unwrap().remove(0);
                assert!(!decoded.states.contains(&NO_STATE));
                if wide {
                    near(&decoded.scores, &expected.scores, |_| 1.0, 1e-11, &name);
                }
                let gamma = all.posteriors().unwrap().remove(0);
                near(&gamma, &expected.gamma, |_| 1.0, tolerance, &name);
                let found = all.expect().unwrap().remove(0);
                let Statistics::Gaussian { weights, sums, squares } = found.emissions else { panic!("moments") };
                near(&weights, &expected.weights, |_| 1.0, 100.0 * tolerance, &name);
                // Vectors may lie 10⁴ deviations away.
                let size = if steep > 1e3 { 1e4 } else { 10.0 };
                near(&sums, &expected.sums, |at| size * deviation(at / d, at % d), 100.0 * tolerance, &name);
                let entries: Vec<f64> = match full {
                    true => expected.squares.clone(),
                    false => {
                        expected.squares.chunks_exact(d * d).flat_map(|s| s.iter().step_by(d + 1)).copied().collect()
                    }
                };
                let unit = |at: usize| match full {
                    true => deviation(at / (d * d), at / d % d) * deviation(at / (d * d), at % d),
                    false => deviation(at / d, at % d).powi(2),
                };
                near(&squares, &entries, |at| size * size * unit(at), 100.0 * tolerance, &name);
            }
        }
        let which: Vec<u32> = (0..sequences.len() as u32).collect();
        let exact = Exact::new(&model).expect(&sequences, &which);
        near(&exact.log_likelihoods, &expected.logs, |_| 1.0, 1e-11, "the exact recursions");
        let mut filter = Filter::new(&model, 0);
        for x in values[..sequences.range(0).len() * d].chunks_exact(d) {
            filter.push(Observation::Vector(x)).unwrap();
        }
        near(&[filter.log_likelihood()], &expected.logs[..1], |_| 1.0, 1e-11, "the filter");
    }
    // The cases are not all easy.
    assert!(partial > 1000 && whole > 200 && least < -1e4, "{partial} partial, {whole} whole, {least:e}");
}

/// The likelihood rises in every step of EM, and the M step that `train` makes is the same on every backend.
#[test]
fn training_raises_the_likelihood_of_incomplete_vectors() {
    let emulated = Place::open(DeviceChoice::Emulated, None).unwrap().0;
    for seed in 0..300_u64 {
        let full = seed % 2 == 0;
        let constraint = [Constraint::None, Constraint::Tied, Constraint::Spherical][seed as usize % 3];
        let (model, sequences) = case(seed, constraint, full);
        let model = restart_within(&model, &sequences, seed, constraint);
        let options = Options { iterations: 12, tolerance: 0.0, constraint, ..Options::default() };
        let mut batch = Batch::<f64>::new(&sequences);
        let trained = train(&mut batch, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(()));
        let trained = trained.unwrap_or_else(|error: Error<_>| panic!("seed {seed}: {error}"));
        let run = trained.best();
        for pair in run.log_likelihoods.windows(2) {
            let rounding = if full { f64::EPSILON / FLOOR } else { 1e-9 };
            assert!(pair[1] >= pair[0] - rounding * pair[0].abs().max(1.0), "seed {seed}: {pair:?}");
        }
        assert!(constraint.holds(&run.model), "seed {seed}");
        run.model.clone().into_parts().validated().unwrap();
        if seed % 10 == 0 {
            let options = Options { iterations: 3, ..options };
            let mut batch = Batch::<f64>::new(&sequences);
            let Ok(host) = train(&mut batch, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(())) else {
                panic!("no sequence is impossible")
            };
            let mut device = recursions(&emulated, &sequences, Precision::F64, Limits::default()).unwrap();
            let device = train(device.as_mut(), vec![model], &options, &mut |_| ControlFlow::Continue(())).unwrap();
            let (host, device) = (&host.best().log_likelihoods, &device.best().log_likelihoods);
            near(device, host, |_| 1.0, 1e-7, &format!("seed {seed}"));
        }
    }
}

/// Several models in one batch have the counts of each by itself, also where a window's rows fill a buffer only in part.
#[test]
fn models_of_one_batch_do_not_mix() {
    let emulated = Place::open(DeviceChoice::Emulated, None).unwrap().0;
    for seed in 0..8 {
        let (model, sequences) = case(seed, Constraint::None, seed % 2 == 0);
        let models: Vec<Hmm> = (0..3).map(|at| restart(&model, &sequences, seed, at).clone()).collect();
        let counts = |models: &[Hmm]| {
            let mut batch = recursions(&emulated, &sequences, Precision::F64, Limits::default()).unwrap();
            batch.set_models(models).unwrap();
            batch.expect().unwrap()
        };
        let alone: Vec<_> = models.iter().flat_map(|model| counts(std::slice::from_ref(model))).collect();
        assert_eq!(counts(&models), alone, "seed {seed}");
    }
}

/// A random model as `train --restarts` begins with, which satisfies the constraint.
fn restart_within(model: &Hmm, sequences: &Sequences, seed: u64, constraint: Constraint) -> Hmm {
    let mut parts = restart(model, sequences, seed, 1).into_parts();
    if let Emissions::Gaussian { dimensions, covariances, .. } = &mut parts.emissions {
        let d = *dimensions as usize;
        *covariances = match constraint {
            Constraint::None => covariances.clone(),
            Constraint::Spherical => covariances.clone().spherical(d),
            Constraint::Tied => covariances.clone().tied(d),
        };
    }
    parts.validated().unwrap()
}

/// Anderson's maximum of the likelihood (1957) where the second of two components is missing in some vectors.
#[test]
fn a_bivariate_normal_has_the_textbooks_estimates() {
    let pairs = [[1.0, 2.5], [2.0, 3.0], [0.5, 1.0], [3.0, 5.5], [4.0, 5.0], [2.5, 4.5]];
    let alone = [1.5, 6.0, -2.0];
    let mean = |x: &mut dyn Iterator<Item = f64>| {
        let all: Vec<f64> = x.collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let firsts = || pairs.iter().map(|x| x[0]).chain(alone);
    let mu = mean(&mut firsts());
    let sigma = mean(&mut firsts().map(|x| (x - mu) * (x - mu)));
    let [x, y] = [0, 1].map(|k| mean(&mut pairs.iter().map(|pair| pair[k])));
    let sxx = mean(&mut pairs.iter().map(|pair| (pair[0] - x) * (pair[0] - x)));
    let sxy = mean(&mut pairs.iter().map(|pair| (pair[0] - x) * (pair[1] - y)));
    let syy = mean(&mut pairs.iter().map(|pair| (pair[1] - y) * (pair[1] - y)));
    let slope = sxy / sxx;
    let expected =
        [mu, y + slope * (mu - x), sigma, slope * sigma, slope * sigma, syy - slope * sxy + slope * slope * sigma];

    let values = pairs.concat().into_iter().chain(alone.iter().flat_map(|&x| [x, f64::NAN])).collect();
    let sequences = Sequences::with_missing(vec![0, 9], Observations::Vectors { dimensions: 2, values }).unwrap();
    let covariances = Covariances::Full(vec![1.0, 0.0, 0.0, 1.0]);
    let emissions = Emissions::Gaussian { dimensions: 2, means: vec![0.0, 0.0], covariances };
    let parts = HmmParts { start: vec![1.0], transitions: vec![1.0], end: None, emissions, names: Names::default() };
    let model = parts.validated().unwrap();
    let options = Options { iterations: 400, tolerance: 0.0, ..Options::default() };
    let mut batch = Batch::<f64>::new(&sequences);
    let Ok(trained) = train(&mut batch, vec![model], &options, &mut |_| ControlFlow::Continue(())) else {
        panic!("no sequence is impossible")
    };
    let Emissions::Gaussian { means, covariances: Covariances::Full(matrix), .. } = trained.best().model.emissions()
    else {
        panic!("a matrix")
    };
    near(&[&means[..], matrix].concat(), &expected, |_| 1.0, 1e-6, "the estimates");
    // The floor of a component comes from the numbers that were observed.
    let spread = Spread::new(&sequences);
    near(&spread.variances, &[sigma, syy], |_| 1.0, 1e-12, "variances");
    assert_eq!(spread.largest, [6.0, 5.5]);
}

#[test]
fn sequences_have_missing_components_only_where_asked() {
    let vectors = |values: &[f64]| Observations::Vectors { dimensions: 2, values: values.to_vec() };
    let holes = [1.0, f64::NAN, f64::NAN, f64::NAN, 3.0, 4.0];
    let error = Sequences::new(vec![0, 3], vectors(&holes)).unwrap_err().to_string();
    assert_eq!(error, "sequence 1, position 1: found NaN, expected a finite number");
    let sequences = Sequences::with_missing(vec![0, 2, 3], vectors(&holes)).unwrap();
    assert_eq!((sequences.partial(), sequences.select(&[1]).unwrap().partial()), (2, 0));
    assert_eq!(sequences.select(&[0]).unwrap().partial(), 2);
    let error = Sequences::with_missing(vec![0, 1], vectors(&[f64::NAN, f64::INFINITY])).unwrap_err().to_string();
    assert_eq!(error, "sequence 1, position 1: found inf, expected a finite number");
    let kind = Kind::Vectors { dimensions: 2, full: true };
    let model = Uniform { states: 2, kind, ends: false, seed: 1 }.generate().unwrap();
    let mut filter = Filter::new(&model, 0);
    let infinite = filter.push(Observation::Vector(&[f64::NAN, f64::INFINITY]));
    assert_eq!(infinite, Err(Refused::Vector { found: 1, expected: 2 }));
    filter.push(Observation::Vector(&[f64::NAN, f64::NAN])).unwrap();
    assert!(filter.log_likelihood().abs() < 1e-15);
}

/// Every variant of the kernels, in windows of few rows, agrees with the CPU.
#[test]
fn incomplete_vectors_in_windows_of_every_variant() {
    let emulated = Place::open(DeviceChoice::Emulated, None).unwrap().0;
    for (states, full) in [(20, true), (40, false), (140, true)] {
        let kind = Kind::Vectors { dimensions: 2, full };
        let model = Uniform { states, kind, ends: false, seed: u64::from(states) }.generate().unwrap();
        let drawn = sample(&model, 3, Some(7), 5).unwrap().sequences;
        let Observations::Vectors { dimensions, mut values } = drawn.observations().clone() else { panic!("vectors") };
        values.iter_mut().step_by(3).for_each(|x| *x = f64::NAN);
        values[4..6].fill(f64::NAN);
        let observations = Observations::Vectors { dimensions, values };
        let sequences = Sequences::with_missing(drawn.offsets().to_vec(), observations).unwrap();
        let mut host = Batch::<f64>::new(&sequences);
        let Ok(()) = host.set_models(std::slice::from_ref(&model));
        let Ok(mut expected) = host.expect();
        let expected = expected.remove(0);
        // Some rows of three arrays, or all.
        let few = 3 * 8 * 8 * (states as usize).next_multiple_of(32);
        for trellis in [few, Limits::default().trellis] {
            let name = format!("{states} states, {trellis} bytes");
            let limits = Limits { trellis, ..Limits::default() };
            let mut device = recursions(&emulated, &sequences, Precision::F64, limits).unwrap();
            device.set_models(std::slice::from_ref(&model)).unwrap();
            let found = device.expect().unwrap().remove(0);
            near(&found.log_likelihoods, &expected.log_likelihoods, |_| 1.0, 1e-11, &name);
            near(&found.transitions, &expected.transitions, |_| 1.0, 1e-9, &name);
            let (
                Statistics::Gaussian { weights, sums, squares },
                Statistics::Gaussian { weights: of, sums: about, squares: around },
            ) = (&found.emissions, &expected.emissions)
            else {
                panic!("moments")
            };
            near(weights, of, |_| 1.0, 1e-9, &name);
            near(sums, about, |_| 1.0, 1e-9, &name);
            near(squares, around, |_| 1.0, 1e-9, &name);
        }
    }
}
