//! Random hidden Markov models.

use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts};

use crate::models::Random;

/// Probabilities of many orders of magnitude, a quarter of them 0.
fn distribution(random: &mut Random, n: usize) -> Vec<f64> {
    let weights: Vec<f64> = (0..n)
        .map(|_| if random.below(4) == 0 { 0.0 } else { random.unit() * 10f64.powi(-(random.below(9) as i32)) + 1e-12 })
        .collect();
    let sum: f64 = weights.iter().sum();
    if sum == 0.0 { vec![1.0 / n as f64; n] } else { weights.iter().map(|w| w / sum).collect() }
}

/// Probabilities above 0.
fn positive(random: &mut Random, n: usize) -> Vec<f64> {
    let weights: Vec<f64> = (0..n).map(|_| random.unit() + 1e-3).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

/// π and A, whose rows `row` draws.
fn chain(random: &mut Random, n: usize, row: fn(&mut Random, usize) -> Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    (row(random, n), (0..n).flat_map(|_| row(random, n)).collect())
}

fn validated((start, transitions): (Vec<f64>, Vec<f64>), emissions: Emissions) -> Hmm {
    HmmParts { start, transitions, emissions, end: None, names: Default::default() }.validated().unwrap()
}

/// A model of n states that emits v symbols.
pub fn categorical(random: &mut Random, n: usize, v: usize) -> Hmm {
    let chain = chain(random, n, distribution);
    let probs = (0..n).flat_map(|_| distribution(random, v)).collect();
    validated(chain, Emissions::Categorical { symbols: v as u32, probs })
}

/// A number of magnitude `scale`.
fn about(random: &mut Random, scale: f64) -> f64 {
    scale * 4.0 * (random.unit() - 0.5)
}

/// Covariances of magnitude `scale`², some nearly singular.
fn covariances(random: &mut Random, n: usize, d: usize, scale: f64) -> Covariances {
    if random.below(2) == 0 {
        let spread =
            |random: &mut Random| scale * scale * 10f64.powi(-(random.below(5) as i32)) * (random.unit() + 0.1);
        return Covariances::Diagonal((0..n * d).map(|_| spread(random)).collect());
    }
    let mut matrices = Vec::new();
    for _ in 0..n {
        let factor: Vec<f64> = (0..d * d).map(|_| scale * (2.0 * random.unit() - 1.0)).collect();
        let least = scale * scale * 10f64.powi(-(random.below(5) as i32));
        for i in 0..d {
            for j in 0..d {
                let sum: f64 = (0..d).map(|k| factor[i * d + k] * factor[j * d + k]).sum();
                matrices.push(sum + if i == j { least } else { 0.0 });
            }
        }
    }
    Covariances::Full(matrices)
}

/// A model of n states that emits vectors of d numbers of magnitude `scale`.
pub fn gaussian(random: &mut Random, n: usize, d: usize, scale: f64) -> Hmm {
    let means = (0..n * d).map(|_| about(random, scale)).collect();
    let covariances = covariances(random, n, d, scale);
    let emissions = Emissions::Gaussian { dimensions: d as u32, means, covariances };
    validated(chain(random, n, positive), emissions)
}

/// A value that such a model may have emitted: some are missing, some are far from all means.
pub fn observed(random: &mut Random, scale: f64) -> f64 {
    match random.below(6) {
        0 => f64::NAN,
        1 => 100.0 * about(random, scale),
        _ => about(random, scale),
    }
}
