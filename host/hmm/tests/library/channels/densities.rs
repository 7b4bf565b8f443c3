//! Densities against formulas, and their normalisation.

use std::f64::consts::PI;

use warpkov_hmm::channels::{
    Bernoulli, Categorical, Exponential, Family, Gamma, Gaussian, Logistic, Mixture, Multinomial, Poisson, Regression,
    StudentT,
};
use warpkov_hmm::covariances::Covariances;

use super::{ALL, channel, drawn, log_density, log_gamma, reference};
use crate::random::Random;

#[track_caller]
fn near(found: f64, expected: f64, scale: f64) {
    let error = (found - expected).abs();
    assert!(found == expected || error <= 1e-13 * scale.max(1.0), "{found:e}, expected {expected:e}, error {error:e}");
}

#[test]
fn densities_are_those_of_the_formulas_over_many_magnitudes() {
    let random = &mut Random(1);
    for _ in 0..300 {
        let rate = random.magnitude(-8.0, 8.0);
        let count = (rate * random.magnitude(-2.0, 1.0)).floor();
        let log = |family, x: f64| log_density(1, vec![channel(&[0], family)], &[x]);
        // Terms cancel: errors are relative to the largest.
        let terms = count * rate.ln().abs() + rate + log_gamma(count + 1.0).abs();
        let expected = if count > 0.0 { count * rate.ln() } else { 0.0 } - rate - log_gamma(count + 1.0);
        near(log(Family::Poisson(Poisson { rates: vec![rate] }), count), expected, terms);
        let x = random.magnitude(-10.0, 3.0) / rate;
        near(log(Family::Exponential(Exponential { rates: vec![rate] }), x), rate.ln() - rate * x, rate * x);
        let shape = random.magnitude(-6.0, 6.0);
        let x = shape / rate * random.magnitude(-3.0, 1.0);
        let terms = [shape * rate.ln(), (shape - 1.0) * x.ln(), -rate * x, -log_gamma(shape)];
        let gamma = Family::Gamma(Gamma { shapes: vec![shape], rates: vec![rate] });
        near(log(gamma, x), terms.iter().sum(), terms.iter().map(|term| term.abs()).sum());
        let (scale, degrees) = (random.magnitude(-20.0, 20.0), random.magnitude(-1.0, 3.0));
        let (location, r) = (scale * random.magnitude(-3.0, 3.0), random.magnitude(-6.0, 12.0));
        let x = location + scale * r;
        let r = (x - location) / scale;
        let half = 0.5 * (degrees + 1.0);
        let terms = [
            log_gamma(half),
            -log_gamma(0.5 * degrees),
            -0.5 * (degrees * PI).ln(),
            -scale.ln(),
            -half * (r * r / degrees).ln_1p(),
        ];
        let student =
            Family::StudentT(StudentT { degrees: vec![degrees], locations: vec![location], scales: vec![scale] });
        near(log(student, x), terms.iter().sum(), terms.iter().map(|term| term.abs()).sum());
    }
}

/// Special cases whose densities have closed forms: Cauchy's distribution, and t with two degrees of freedom.
#[test]
fn t_distributions_have_known_special_cases() {
    for r in [0.0_f64, 1e-8, 0.3, 1.0, 17.0, 1e8, 1e120] {
        let log = |degrees| {
            let family = StudentT { degrees: vec![degrees], locations: vec![0.0], scales: vec![1.0] };
            log_density(1, vec![channel(&[0], Family::StudentT(family))], &[r])
        };
        let tail = |a: f64| if r < 1e100 { (r * r / a).ln_1p() } else { 2.0 * r.ln() - a.ln() };
        near(log(1.0), -PI.ln() - tail(1.0), tail(1.0));
        near(log(2.0), -(8.0_f64.sqrt()).ln() - 1.5 * tail(2.0), tail(2.0));
        if r < 100.0 {
            let normal = -0.5 * (r * r + std::f64::consts::TAU.ln());
            assert!((log(1e9) - normal).abs() < 1e-4, "{r}");
        }
    }
}

#[test]
fn probabilities_of_counts_sum_to_one() {
    let sum = |dimensions: u32, family: &Family, all: &mut dyn Iterator<Item = Vec<f64>>| -> f64 {
        let columns: Vec<u32> = (0..dimensions).collect();
        all.map(|x| log_density(dimensions, vec![channel(&columns, family.clone())], &x).exp()).sum()
    };
    let one = |found: f64| assert!((found - 1.0).abs() < 1e-12, "{found}");
    for rate in [0.0, 1e-9, 0.3, 5.0, 40.0] {
        let poisson = Family::Poisson(Poisson { rates: vec![rate] });
        one(sum(1, &poisson, &mut (0..200).map(|x| vec![f64::from(x)])));
    }
    let multinomial = Family::Multinomial(Multinomial { trials: None, probs: vec![0.5, 0.2, 0.3] });
    let counts = (0..=6).flat_map(|a| (0..=6 - a).map(move |b| vec![a as f64, b as f64, (6 - a - b) as f64]));
    one(sum(3, &multinomial, &mut counts.into_iter()));
    let bits = || (0..4).map(|x| vec![f64::from(x % 2), f64::from(x / 2)]);
    one(sum(2, &Family::Bernoulli(Bernoulli { probs: vec![0.125, 1e-9] }), &mut bits()));
    let categorical = Family::Categorical(Categorical { probs: vec![0.1, 0.0, 0.9] });
    one(sum(1, &categorical, &mut (0..3).map(|x| vec![f64::from(x)])));
    let logistic = |x: f64| -> f64 {
        let family = Logistic { inputs: vec![1], coefficients: vec![-3.0], intercepts: vec![0.5] };
        [0.0, 1.0]
            .map(|y| log_density(2, vec![channel(&[0], Family::Logistic(family.clone()))], &[y, x]).exp())
            .iter()
            .sum()
    };
    [-1e3, -2.0, 0.0, 0.7, 1e3].map(logistic).into_iter().for_each(one);
}

/// Integrals by the trapezoidal rule over ln x or asinh x, which converges fast for smooth functions that vanish at the ends.
#[test]
fn densities_integrate_to_one() {
    let integral = |family: &Family, positive: bool, before: &[f64]| -> f64 {
        let lags = before.len();
        let (columns, h) = (vec![channel(&[0], family.clone())], 0.01);
        let steps = (-6000..6000).map(|k| f64::from(k) * h);
        let terms = steps.map(|u| {
            let (x, slope) = if positive { (u.exp(), u.exp()) } else { (u.sinh(), u.cosh()) };
            let rows: Vec<f64> = before.iter().copied().chain([x]).collect();
            assert_eq!(rows.len(), lags + 1);
            (log_density(1, columns.clone(), &rows) + slope.ln()).exp()
        });
        terms.sum::<f64>() * h
    };
    let one = |found: f64| assert!((found - 1.0).abs() < 1e-9, "{found}");
    let student = StudentT { degrees: vec![1.5], locations: vec![2.0], scales: vec![0.3] };
    let mixture = Mixture { weights: vec![0.25, 0.75], means: vec![-1.0, 4.0], variances: vec![0.5, 2.0] };
    let lagged = Regression {
        inputs: Vec::new(),
        lags: 2,
        coefficients: vec![0.5, -0.25],
        intercepts: vec![1.0],
        variances: vec![0.7],
    };
    let gaussian = Gaussian { means: vec![0.5], covariances: Covariances::Full(vec![3.0]) };
    one(integral(&Family::Exponential(Exponential { rates: vec![3.0] }), true, &[]));
    one(integral(&Family::Gamma(Gamma { shapes: vec![0.7], rates: vec![0.1] }), true, &[]));
    one(integral(&Family::Gamma(Gamma { shapes: vec![30.0], rates: vec![5.0] }), true, &[]));
    one(integral(&Family::StudentT(student), false, &[]));
    one(integral(&Family::Mixture(mixture), false, &[]));
    one(integral(&Family::Gaussian(gaussian), false, &[]));
    one(integral(&Family::Regression(lagged), false, &[1.0, -2.0]));
}

/// Every family has the density of the tests' own formula, and the product of the densities of its other components where one is missing.
#[test]
fn random_channels_have_the_densities_of_the_formulas() {
    for seed in 0..30 {
        for name in ALL {
            let random = &mut Random(seed);
            let (channel, dimensions) = drawn(random, name, 1, 0);
            let mut row: Vec<f64> = (0..dimensions).map(|_| 3.0 * random.unit()).collect();
            match name {
                "categorical" | "poisson" => row.iter_mut().for_each(|x| *x = x.floor()),
                "bernoulli" => row.iter_mut().for_each(|x| *x = (*x / 2.0).floor()),
                "logistic" => row[0] = (row[0] / 2.0).floor(),
                "multinomial" => row = vec![2.0, 0.0, 5.0],
                _ => {}
            }
            let missing = if matches!(name, "multinomial" | "categorical" | "regression" | "logistic") { 1 } else { 2 };
            for lost in 0..missing {
                if lost > 0 {
                    row[1] = f64::NAN;
                }
                let before: Vec<f64> = (0..dimensions).map(|_| random.unit()).collect();
                let rows = match name {
                    "autoregression" => [before.clone(), row.clone()].concat(),
                    _ => row.clone(),
                };
                let expected = reference(&channel, 1, 0, &row, Some(&before));
                near(log_density(dimensions, vec![channel.clone()], &rows), expected, 10.0 * expected.abs());
            }
        }
    }
}
