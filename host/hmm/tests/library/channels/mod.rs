//! Models of channels, against formulas that are written here once more.

mod code;
mod densities;
mod recursions;
mod refused;
mod training;

use warpkov_hmm::backends::cpu::Exact;
use warpkov_hmm::channels::{
    Bernoulli, Categorical, Channel, Channels, Code, Exponential, Family, Gamma, Gaussian, Logistic, Mixture,
    Multinomial, Poisson, Regression, StudentT,
};
use warpkov_hmm::covariances::Covariances;
use warpkov_hmm::model::{Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::sequences::{Observations, Sequences, offsets};

use self::code::Rayleigh;
use crate::random::Random;

/// A model of channels with columns 0, 1, … in order, inputs behind them.
pub fn model(start: &[f64], transitions: &[f64], dimensions: u32, list: Vec<Channel>) -> Hmm {
    let emissions = Emissions::Channels(Channels { dimensions, names: Vec::new(), list });
    let (start, transitions) = (start.to_vec(), transitions.to_vec());
    HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().unwrap()
}

/// A channel of these columns.
pub fn channel(columns: &[u32], family: Family) -> Channel {
    Channel { columns: columns.to_vec(), family }
}

/// Sequences of vectors, in which NaN is missing.
pub fn vectors(dimensions: u32, sequences: &[Vec<f64>]) -> Sequences {
    let lengths = sequences.iter().map(|values| values.len() / dimensions as usize);
    let observations = Observations::Vectors { dimensions, values: sequences.concat() };
    Sequences::with_missing(offsets(lengths), observations).unwrap()
}

/// ln b(x) of a model of one state, whose rows before the last are conditions.
pub fn log_density(dimensions: u32, list: Vec<Channel>, x: &[f64]) -> f64 {
    let model = model(&[1.0], &[1.0], dimensions, list);
    let sequences = vectors(dimensions, &[x.to_vec()]);
    sequences.check(&model).unwrap();
    Exact::new(&model).log_likelihoods(&sequences, &[0])[0]
}

/// ln Γ(x) for x > 0, by Stirling's series from 30 on, and the recurrence below.
pub fn log_gamma(mut x: f64) -> f64 {
    let mut product = 0.0;
    while x < 30.0 {
        product += x.ln();
        x += 1.0;
    }
    let x2 = x * x;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / 1680.0 / x2) / x2) / x2) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - product
}

/// A distribution, whose entries are positive.
fn distribution(random: &mut Random, len: usize) -> Vec<f64> {
    let numbers: Vec<f64> = (0..len).map(|_| 0.05 + random.unit()).collect();
    let sum: f64 = numbers.iter().sum();
    numbers.iter().map(|x| x / sum).collect()
}

/// The names of all families, with autoregression and code behind them.
pub const ALL: [&str; 13] = [
    "categorical",
    "bernoulli",
    "poisson",
    "multinomial",
    "exponential",
    "gamma",
    "gaussian",
    "student-t",
    "mixture",
    "regression",
    "logistic",
    "autoregression",
    "Rayleigh",
];

/// A random channel of a family, with columns from `first` on, the last of them inputs; and their number.
pub fn drawn(random: &mut Random, name: &str, n: usize, first: u32) -> (Channel, u32) {
    let mut reals = |count: usize, scale: f64| -> Vec<f64> {
        (0..n * count).map(|_| scale * (2.0 * random.unit() - 1.0)).collect()
    };
    let (two, four) = (reals(2, 3.0), reals(4, 3.0));
    let (coefficients, lagged) = (reals(2, 1.0), reals(4, 0.3));
    let mut positives = |count: usize, low: f64, high: f64| -> Vec<f64> {
        (0..n * count).map(|_| random.magnitude(low, high)).collect()
    };
    let (rates, shapes, variances) = (positives(2, -1.0, 1.0), positives(2, -0.5, 1.0), positives(2, -1.0, 0.5));
    let (four_variances, degrees) = (positives(4, -1.0, 0.5), positives(2, 0.3, 1.5));
    let mut rows = |len: usize| -> Vec<f64> { (0..n).flat_map(|_| distribution(random, len)).collect() };
    let (three, pairs, probs) = (rows(3), rows(2), rows(3));
    let correlated = |variances: &[f64]| -> Vec<f64> {
        variances
            .chunks_exact(2)
            .flat_map(|v| [v[0], 0.5 * (v[0] * v[1]).sqrt(), 0.5 * (v[0] * v[1]).sqrt(), v[1]])
            .collect()
    };
    let (family, outputs, inputs) = match name {
        "categorical" => (Family::Categorical(Categorical { probs: three }), 1, 0),
        "bernoulli" => {
            (Family::Bernoulli(Bernoulli { probs: probs.chunks_exact(3).flat_map(|p| [p[0], p[1]]).collect() }), 2, 0)
        }
        "poisson" => (Family::Poisson(Poisson { rates }), 2, 0),
        "multinomial" => (Family::Multinomial(Multinomial { trials: Some(7), probs: three }), 3, 0),
        "exponential" => (Family::Exponential(Exponential { rates }), 2, 0),
        "gamma" => (Family::Gamma(Gamma { shapes, rates }), 2, 0),
        "gaussian" => {
            let covariances = Covariances::Full(correlated(&variances));
            (Family::Gaussian(Gaussian { means: two, covariances }), 2, 0)
        }
        "student-t" => (Family::StudentT(StudentT { degrees, locations: two, scales: variances }), 2, 0),
        "mixture" => (Family::Mixture(Mixture { weights: pairs, means: four, variances: four_variances }), 2, 0),
        "regression" => {
            let inputs = vec![first + 1, first + 2];
            let intercepts = two[..n].to_vec();
            (
                Family::Regression(Regression {
                    inputs,
                    lags: 0,
                    coefficients,
                    intercepts,
                    variances: variances[..n].to_vec(),
                }),
                1,
                2,
            )
        }
        "logistic" => {
            let inputs = vec![first + 1, first + 2];
            (Family::Logistic(Logistic { inputs, coefficients, intercepts: two[..n].to_vec() }), 1, 2)
        }
        "Rayleigh" => (Family::Code(Code::new(Rayleigh { components: 2 }, None, rates)), 2, 0),
        _ => {
            // Two components of one lag.
            (
                Family::Regression(Regression {
                    inputs: Vec::new(),
                    lags: 1,
                    coefficients: lagged,
                    intercepts: two,
                    variances,
                }),
                2,
                0,
            )
        }
    };
    ((channel(&(first..first + outputs).collect::<Vec<_>>(), family)), outputs + inputs)
}

/// Numbers of a state's parameter.
pub fn of_state(numbers: &[f64], n: usize, state: usize) -> &[f64] {
    let width = numbers.len() / n;
    &numbers[state * width..][..width]
}

fn log_normal(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((x - mean).powi(2) / variance + variance.ln() + std::f64::consts::TAU.ln())
}

/// ln b(x) of a channel in a state, by the formula of its family, for the row `now` of a sequence and the one before it.
pub fn reference(channel: &Channel, n: usize, state: usize, now: &[f64], before: Option<&[f64]>) -> f64 {
    let x: Vec<f64> = channel.columns.iter().map(|&column| now[column as usize]).collect();
    let seen = || x.iter().copied().enumerate().filter(|(_, x)| !x.is_nan());
    if seen().next().is_none() {
        return 0.0;
    }
    let input = |inputs: &[u32]| -> Vec<f64> { inputs.iter().map(|&column| now[column as usize]).collect() };
    match &channel.family {
        Family::Categorical(Categorical { probs }) => of_state(probs, n, state)[x[0] as usize].ln(),
        Family::Bernoulli(Bernoulli { probs }) => seen()
            .map(|(k, x)| {
                let p = of_state(probs, n, state)[k];
                if x == 1.0 { p.ln() } else { (1.0 - p).ln() }
            })
            .sum(),
        Family::Poisson(Poisson { rates }) => seen()
            .map(|(k, x)| {
                let rate = of_state(rates, n, state)[k];
                let power = if x == 0.0 { 0.0 } else { x * rate.ln() };
                power - rate - log_gamma(x + 1.0)
            })
            .sum(),
        Family::Multinomial(Multinomial { probs, .. }) => {
            let terms = seen().map(|(k, x)| {
                let power = if x == 0.0 { 0.0 } else { x * of_state(probs, n, state)[k].ln() };
                power - log_gamma(x + 1.0)
            });
            log_gamma(x.iter().sum::<f64>() + 1.0) + terms.sum::<f64>()
        }
        Family::Exponential(Exponential { rates }) => {
            seen().map(|(k, x)| of_state(rates, n, state)[k].ln() - of_state(rates, n, state)[k] * x).sum()
        }
        Family::Gamma(Gamma { shapes, rates }) => seen()
            .map(|(k, x)| {
                let (shape, rate) = (of_state(shapes, n, state)[k], of_state(rates, n, state)[k]);
                shape * rate.ln() + (shape - 1.0) * x.ln() - rate * x - log_gamma(shape)
            })
            .sum(),
        Family::Gaussian(Gaussian { means, covariances }) => {
            let means = of_state(means, n, state);
            match (covariances, x.len()) {
                (Covariances::Full(matrices), 2) if seen().count() == 2 => {
                    let s = of_state(matrices, n, state);
                    // The first component, and the second one given the first.
                    let slope = s[2] / s[0];
                    let given = means[1] + slope * (x[0] - means[0]);
                    log_normal(x[0], means[0], s[0]) + log_normal(x[1], given, s[3] - slope * s[1])
                }
                (Covariances::Full(matrices), c) => {
                    seen().map(|(k, x)| log_normal(x, means[k], of_state(matrices, n, state)[k * (c + 1)])).sum()
                }
                (Covariances::Diagonal(variances), _) => {
                    seen().map(|(k, x)| log_normal(x, means[k], of_state(variances, n, state)[k])).sum()
                }
            }
        }
        Family::StudentT(StudentT { degrees, locations, scales }) => seen()
            .map(|(k, x)| {
                let [degrees, location, scale] = [degrees, locations, scales].map(|all| of_state(all, n, state)[k]);
                let r2 = ((x - location) / scale).powi(2);
                log_gamma(0.5 * (degrees + 1.0))
                    - log_gamma(0.5 * degrees)
                    - 0.5 * (degrees * std::f64::consts::PI).ln()
                    - scale.ln()
                    - 0.5 * (degrees + 1.0) * (1.0 + r2 / degrees).ln()
            })
            .sum(),
        Family::Mixture(Mixture { weights, means, variances }) => {
            let [weights, means, variances] = [weights, means, variances].map(|all| of_state(all, n, state));
            let c = x.len();
            let part = |part: usize| {
                let terms = seen().map(|(k, x)| log_normal(x, means[part * c + k], variances[part * c + k]));
                weights[part].ln() + terms.sum::<f64>()
            };
            let logs: Vec<f64> = (0..weights.len()).map(part).collect();
            let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
        }
        Family::Regression(Regression { inputs, lags, coefficients, intercepts, variances }) => {
            let mut z = input(inputs);
            if *lags > 0 {
                let Some(before) = before else { return 0.0 };
                z.extend(channel.columns.iter().map(|&column| before[column as usize]));
            }
            let r = z.len();
            let mean = |k: usize| {
                let row = &of_state(coefficients, n, state)[k * r..][..r];
                of_state(intercepts, n, state)[k] + row.iter().zip(&z).map(|(a, z)| a * z).sum::<f64>()
            };
            seen().map(|(k, x)| log_normal(x, mean(k), of_state(variances, n, state)[k])).sum()
        }
        Family::Logistic(Logistic { inputs, coefficients, intercepts }) => {
            let z = input(inputs);
            let row = of_state(coefficients, n, state);
            let psi = of_state(intercepts, n, state)[0] + row.iter().zip(&z).map(|(a, z)| a * z).sum::<f64>();
            let odds = psi.exp();
            if x[0] == 1.0 { (odds / (1.0 + odds)).ln() } else { (1.0 / (1.0 + odds)).ln() }
        }
        Family::Code(code) => seen()
            .map(|(k, x)| {
                let square = of_state(code.parameters(), n, state)[k];
                (x / square).ln() - 0.5 * x * x / square
            })
            .sum(),
    }
}

/// A row of a channel and of its inputs that its family supports.
pub fn observed(random: &mut Random, channel: &Channel, dimensions: u32) -> Vec<f64> {
    let mut row: Vec<f64> = (0..dimensions).map(|_| 0.01 + 3.0 * random.unit()).collect();
    match channel.family.name() {
        "categorical" | "poisson" => row.iter_mut().for_each(|x| *x = x.floor().min(2.0)),
        "bernoulli" => row.iter_mut().for_each(|x| *x = (*x / 2.0).floor()),
        "logistic" => row[0] = (row[0] / 2.0).floor(),
        "multinomial" => {
            let (first, second) = (row[0].floor(), row[1].floor());
            row = vec![first, second, 7.0 - first - second];
        }
        _ => {}
    }
    row
}

/// A random model with channels of these families, and sequences of random lengths. Components and whole channels are missing.
pub fn case(seed: u64, n: usize, names: &[&str], lengths: &[usize]) -> (Hmm, Sequences) {
    let random = &mut Random(seed);
    let (mut list, mut widths, mut first) = (Vec::new(), Vec::new(), 0);
    for name in names {
        let (channel, width) = drawn(random, name, n, first);
        list.push(channel);
        widths.push(width);
        first += width;
    }
    let mut values = Vec::new();
    for length in lengths {
        let mut sequence = Vec::new();
        for _ in 0..*length {
            for (channel, &width) in list.iter().zip(&widths) {
                let mut row = observed(random, channel, width);
                let outputs = channel.columns.len();
                let whole = matches!(channel.family.name(), "multinomial");
                if channel.family.lags() == 0 && random.unit() < 0.15 {
                    let one = (random.unit() * outputs as f64) as usize;
                    let lost = if whole || random.unit() < 0.5 { 0..outputs } else { one..one + 1 };
                    row[lost].fill(f64::NAN);
                }
                sequence.extend(row);
            }
        }
        values.push(sequence);
    }
    let start = distribution(random, n);
    let transitions: Vec<f64> = (0..n).flat_map(|_| distribution(random, n)).collect();
    (model(&start, &transitions, first, list), vectors(first, &values))
}
