//! Centres of clusters of observed vectors, as means that training starts from.
//!
//! k-means++ (Arthur and Vassilvitskii, *k-means++: The Advantages of Careful Seeding*, 2007) draws each further centre among the
//! observations in proportion to the squared distance from its nearest centre. Lloyd's algorithm then moves each centre to the
//! mean of the observations that are nearest to it. Distances are in units of the standard deviation of each dimension, over
//! observed components, and observations count by the weights of their sequences.

use rand_chacha::rand_core::Rng;

use crate::sequences::{Observations, Sequences};
use warpkov_common::random::{below, draw};

/// Maximum number of observations that clusters are made of. Of more, this many are drawn.
const MOST: usize = 1 << 14;

/// Steps of Lloyd's algorithm.
const STEPS: usize = 10;

/// Least variance about the centres, as a fraction of that of all observations.
const LEAST: f64 = 1e-3;

/// Replaces `means`, N × D, by centres of clusters, and returns the variances about them, D numbers, of all clusters together. A
/// component without observations stays. `variances` has those of all observations, D positive numbers.
pub(super) fn centres(means: &mut [f64], sequences: &Sequences, variances: &[f64], random: &mut impl Rng) -> Vec<f64> {
    let Observations::Vectors { values, .. } = sequences.observations() else { return variances.to_vec() };
    let d = variances.len();
    let rows: Vec<(&[f64], f64)> = chosen(sequences, random)
        .into_iter()
        .map(|at| (&values[at * d..][..d], sequences.weight(sequences.place(at).0 - 1) / sequences.unit()))
        .filter(|(_, weight)| *weight > 0.0)
        .collect();
    let distance = |row: &[f64], mean: &[f64]| -> f64 {
        let parts = row.iter().zip(mean).zip(variances).filter(|((x, _), _)| !x.is_nan());
        parts.map(|((x, mean), variance)| (x - mean) / variance * (x - mean)).sum()
    };
    let mut nearest = vec![1.0; rows.len()];
    for (state, mean) in means.chunks_exact_mut(d).enumerate() {
        let parts = || rows.iter().zip(&nearest).map(|((_, weight), nearest)| weight * nearest);
        let total: f64 = parts().sum();
        let drawn = match total > 0.0 && total.is_finite() {
            true => draw(random, rows.iter().zip(parts().map(|part| part / total))),
            // All observations are centres.
            false => rows.get(below(random, rows.len().max(1) as u64) as usize),
        };
        let Some((row, _)) = drawn else { return variances.to_vec() };
        put(mean, row.iter().copied());
        for ((row, _), nearest) in rows.iter().zip(&mut nearest) {
            let found = distance(row, mean);
            *nearest = if state == 0 { found } else { nearest.min(found) };
        }
    }
    let nearest = |row: &[f64], means: &[f64]| {
        let distances = means.chunks_exact(d).map(|mean| distance(row, mean)).enumerate();
        distances.fold((0, f64::INFINITY), |best, found| if found.1 < best.1 { found } else { best }).0
    };
    for _ in 0..STEPS {
        let [mut sums, mut counts] = [(); 2].map(|()| vec![0.0; means.len()]);
        for (row, weight) in &rows {
            let state = nearest(row, means);
            for (k, x) in row.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
                sums[state * d + k] += weight * x;
                counts[state * d + k] += weight;
            }
        }
        put(means, sums.iter().zip(&counts).map(|(sum, count)| if *count > 0.0 { sum / count } else { f64::NAN }));
    }
    let [mut parts, mut counts] = [(); 2].map(|()| vec![0.0; d]);
    for (row, weight) in &rows {
        let mean = &means[nearest(row, means) * d..][..d];
        for (k, x) in row.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
            parts[k] += weight * ((x - mean[k]) / variances[k] * (x - mean[k]));
            counts[k] += weight;
        }
    }
    let of = |k: usize| variances[k] * if counts[k] > 0.0 { (parts[k] / counts[k]).clamp(LEAST, 1.0) } else { 1.0 };
    (0..d).map(of).collect()
}

/// Replaces numbers, except where there is NaN.
fn put(numbers: &mut [f64], by: impl Iterator<Item = f64>) {
    numbers.iter_mut().zip(by).filter(|(_, x)| !x.is_nan()).for_each(|(number, x)| *number = x);
}

/// Indices of the observations that clusters are made of.
fn chosen(sequences: &Sequences, random: &mut impl Rng) -> Vec<usize> {
    let steps = sequences.steps();
    match steps <= MOST {
        true => (0..steps).collect(),
        false => (0..MOST).map(|_| below(random, steps as u64) as usize).collect(),
    }
}

#[cfg(test)]
mod tests {
    use warpkov_common::random::random;

    use super::*;

    /// Means of three clouds of points, in some unit, with a missing component, and the variances about them.
    fn clouds(unit: f64, weights: Option<[f64; 4]>) -> (Vec<f64>, Vec<f64>) {
        let places = [[0.0, 0.0], [9.0, 1.0], [4.0, 30.0], [500.0, 500.0]];
        let point = |at: usize| {
            let near = [(at % 7) as f64 * 0.1 - 0.3, (at % 5) as f64 * 0.1 - 0.2];
            [0, 1].map(|k| unit * (places[at / 35][k] + near[k]))
        };
        let sequences = if weights.is_some() { 4 } else { 3 };
        let mut values: Vec<f64> = (0..35 * sequences).flat_map(point).collect();
        values[3] = f64::NAN;
        let offsets = (0..=sequences as u64).map(|at| 35 * at).collect();
        let found = Sequences::with_missing(offsets, Observations::Vectors { dimensions: 2, values }).unwrap();
        let found = if let Some(weights) = weights { found.with_weights(weights.to_vec()).unwrap() } else { found };
        let mut means = vec![f64::NAN; 6];
        let variances = crate::maximise::Spread::new(&found).variances;
        let within = centres(&mut means, &found, &variances, &mut random(1, 2));
        let mut means: Vec<[f64; 2]> = means.as_chunks().0.to_vec();
        means.sort_by(|a, b| a[0].total_cmp(&b[0]));
        (means.concat(), within)
    }

    #[test]
    fn centres_are_those_of_clouds_in_any_unit() {
        for unit in [1e-60, 1e-3, 1.0, 1e50] {
            for weights in [None, Some([1e-9, 1e-9, 1e-9, 0.0]), Some([3e200, 3e200, 3e200, 0.0])] {
                let (found, within) = clouds(unit, weights);
                // Of seven and of five points at distances of 0.1, or the floor.
                for (found, expected) in within.iter().zip([0.04, 0.02]) {
                    assert!(
                        found / unit / unit >= 0.99 * expected && found / unit / unit < 0.2,
                        "{within:?}, unit {unit}"
                    );
                }
                for (found, expected) in found.iter().zip([0.0, 0.0, 4.0, 30.0, 9.0, 1.0]) {
                    assert!((found / unit - expected).abs() < 0.02, "{found}, expected {expected}, unit {unit}");
                }
            }
        }
    }

    #[test]
    fn equal_observations_are_all_centres() {
        let observations = Observations::Vectors { dimensions: 1, values: vec![2.0; 3] };
        let mut means = vec![0.0; 5];
        let within = centres(&mut means, &Sequences::new(vec![0, 3], observations).unwrap(), &[1.0], &mut random(1, 2));
        assert_eq!((means, within), (vec![2.0; 5], vec![LEAST]));
    }
}
