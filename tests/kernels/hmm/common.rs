//! Results of all recursions: on a device, on the CPU and by the definitions, and their comparison.

use warpkov::hmm::backend::{Decoded, Expected, NO_STATE, Recursions, Statistics};
use warpkov::hmm::backends::cpu::Batch as OnCpu;
use warpkov::hmm::backends::device::{Batch, Limits};
use warpkov::hmm::model::{Covariances, Emissions, Hmm};
use warpkov::hmm::sequences::{Observations, Sequences};
use warpkov::runtime::Precise;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use crate::Outcome;
use crate::check::{close, same};

/// Results of all recursions for one model.
#[derive(PartialEq, Debug)]
pub struct Said {
    pub logs: Vec<f64>,
    pub posteriors: Vec<f64>,
    pub decoded: Decoded,
    pub expected: Expected,
}

pub fn said<R: Recursions>(recursions: &mut R, models: &[Hmm]) -> Result<Vec<Said>, R::Error> {
    recursions.set_models(models)?;
    let (logs, posteriors) = (recursions.log_likelihoods()?, recursions.posteriors()?);
    let (decoded, expected) = (recursions.viterbi()?, recursions.expect()?);
    let all = logs.into_iter().zip(posteriors).zip(decoded.into_iter().zip(expected));
    Ok(all.map(|((logs, posteriors), (decoded, expected))| Said { logs, posteriors, decoded, expected }).collect())
}

pub fn on_cpu(models: &[Hmm], sequences: &Sequences) -> Vec<Said> {
    let Ok(said) = said(&mut OnCpu::<f64>::new(sequences), models);
    said
}

pub fn on<T: Precise>(device: &AnyDevice, models: &[Hmm], sequences: &Sequences) -> Result<Vec<Said>, DeviceError> {
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

pub fn agree<T: Precise>(got: &Said, expected: &Said, model: &Hmm, sequences: &Sequences) -> Outcome {
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
        (Statistics::Channels(got), Statistics::Channels(expected)) => close("sums", got, expected, 10.0 * all, all),
        other => Err(format!("statistics of two kinds: {other:?}").into()),
    }
}

/// ln Σ eˣ.
fn log_sum(x: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = x.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY { largest } else { largest + x.map(|x| (x - largest).exp()).sum::<f64>().ln() }
}

/// Results of all recursions by the definitions, in logarithms. Paths come from the CPU. Covariances must be diagonal.
pub fn in_logarithms(model: &Hmm, sequences: &Sequences) -> Said {
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
            Emissions::Channels(_) => panic!("channels"),
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
