//! Likelihoods and paths of vectors against sums over all paths in rational arithmetic of 400 bits.

use std::sync::LazyLock;

use dashu_int::IBig;
use dashu_int::ops::BitTest;
use dashu_ratio::RBig;
use rayon::prelude::*;
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts};
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_verify::hmm::{likelihoods, shortfalls};
use warpkov_verify::interval::Interval;
use warpkov_verify::rational::rational;

#[path = "support/hmms.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod hmms;

#[path = "support/models.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod models;

use hmms::{gaussian, observed};
use models::{Random, seeds};

/// x to 400 bits.
fn round(x: &RBig) -> RBig {
    const BITS: i64 = 400;

    let (numerator, denominator) = (x.numerator().clone(), IBig::from(x.denominator().clone()));
    let shift = BITS - (numerator.bit_len() as i64 - denominator.bit_len() as i64);
    let two = |exponent: i64| IBig::ONE << exponent as usize;
    match shift {
        0.. => RBig::from((numerator << shift as usize) / denominator) / RBig::from(two(shift)),
        _ => RBig::from(numerator / (denominator << (-shift) as usize)) * RBig::from(two(-shift)),
    }
}

/// m·2ᵉ > 0, m to 400 bits.
#[derive(Clone, Debug)]
struct Big {
    m: RBig,
    e: i64,
}

impl Big {
    /// m is brought near 1.
    fn new(m: &RBig, e: i64) -> Self {
        let shift = m.numerator().bit_len() as i64 - m.denominator().bit_len() as i64;
        Self { m: round(&(m * two(-shift))), e: e + shift }
    }

    fn times(&self, m: &RBig) -> Self {
        Self::new(&(&self.m * m), self.e)
    }

    fn product(&self, other: &Self) -> Self {
        Self::new(&(&self.m * &other.m), self.e + other.e)
    }

    fn quotient(&self, other: &Self) -> Self {
        Self::new(&(&self.m / &other.m), self.e - other.e)
    }

    fn plus(&self, other: &Self) -> Self {
        match other.e - self.e {
            ..-1000 => self.clone(),
            1001.. => other.clone(),
            shift => Self::new(&(&self.m + &other.m * two(shift)), self.e),
        }
    }

    fn at_most(&self, other: &Self) -> bool {
        let shift = other.e - self.e;
        // m is between ½ and 2.
        if shift.abs() > 4 { shift > 0 } else { self.m <= &other.m * two(shift) }
    }
}

fn two(exponent: i64) -> RBig {
    let power = RBig::from(IBig::ONE << exponent.unsigned_abs() as usize);
    if exponent < 0 { RBig::ONE / power } else { power }
}

/// ln 2 = 2 Σ (1/3)²ᵏ⁺¹/(2k + 1), to more bits than others need.
static LN_2: LazyLock<RBig> = LazyLock::new(|| {
    let third = |k: u32| RBig::ONE / RBig::from(IBig::from(3).pow(2 * k as usize + 1) * IBig::from(2 * k + 1));
    RBig::from(2) * (0..150).fold(RBig::ZERO, |sum, k| sum + third(k))
});

/// eˣ = 2ᵏ eʳ for |x| < 10¹².
fn exp(x: &RBig) -> Big {
    let k = (x / &*LN_2).to_f64().value().round();
    let rest = x - rational(k) * &*LN_2;
    let sum = (1..120).rev().fold(RBig::ONE, |sum, n| RBig::ONE + round(&(&rest * sum / RBig::from(n))));
    Big::new(&sum, k as i64)
}

/// The square root of x > 0, by Newton's method.
fn root(x: &RBig) -> RBig {
    let mut y = rational(x.to_f64().value().sqrt());
    for _ in 0..8 {
        y = round(&((&y + x / &y) / RBig::from(2)));
    }
    y
}

/// π, by Machin's formula.
static PI: LazyLock<RBig> = LazyLock::new(|| {
    let arctan = |n: i32| {
        let square = RBig::from(n * n);
        let mut power = RBig::ONE / RBig::from(n);
        let mut sum = RBig::ZERO;
        for k in 0..300 {
            let term = round(&(&power / RBig::from(2 * k + 1)));
            sum = if k % 2 == 0 { sum + term } else { sum - term };
            power = round(&(power / &square));
        }
        sum
    };
    RBig::from(16) * arctan(5) - RBig::from(4) * arctan(239)
});

/// The density of the components of x that are there.
fn density(mean: &[f64], matrix: &dyn Fn(usize, usize) -> f64, x: &[f64]) -> Big {
    let there: Vec<usize> = (0..x.len()).filter(|&k| !x[k].is_nan()).collect();
    let n = there.len();
    // Σ | x − μ, eliminated.
    let mut a: Vec<Vec<RBig>> = there
        .iter()
        .map(|&i| {
            let off = rational(x[i]) - rational(mean[i]);
            there.iter().map(|&j| rational(matrix(i, j))).chain([off]).collect()
        })
        .collect();
    let off: Vec<RBig> = a.iter().map(|row| row[n].clone()).collect();
    let mut determinant = RBig::ONE;
    for k in 0..n {
        let pivot = a[k].clone();
        determinant *= &pivot[k];
        for (i, row) in a.iter_mut().enumerate() {
            if i != k {
                let factor = &row[k] / &pivot[k];
                row.iter_mut().zip(&pivot).for_each(|(x, y)| *x -= &factor * y);
            }
        }
    }
    let form = (0..n).fold(RBig::ZERO, |sum, k| sum + &off[k] * &a[k][n] / &a[k][k]);
    let tau = RBig::from(2) * &*PI;
    let scale = (0..n).fold(determinant, |product, _| round(&(product * &tau)));
    exp(&(-form / RBig::from(2))).times(&(RBig::ONE / root(&scale)))
}

/// P(O, q) of all paths q.
fn all_paths(model: &Hmm, densities: &[Vec<Big>]) -> Vec<(Vec<u32>, Big)> {
    let n = model.states();
    let mut all = vec![(Vec::new(), Big::new(&RBig::ONE, 0))];
    for of_step in densities {
        let mut next = Vec::new();
        for (path, p) in &all {
            for state in 0..n {
                let step = match path.last() {
                    None => model.start()[state as usize],
                    Some(&before) => model.row(before as usize)[state as usize],
                };
                next.push(([&path[..], &[state]].concat(), p.times(&rational(step)).product(&of_step[state as usize])));
            }
        }
        all = next;
    }
    all
}

/// ln x is within, up to the 400 bits of x and of the exponentials.
#[track_caller]
fn encloses(found: Interval, x: &Big, what: &str) {
    let slack = two(-200);
    let [least, most] = [exp(&rational(found.lo)), exp(&rational(found.hi))];
    let is_within = least.times(&(RBig::ONE - &slack)).at_most(x) && x.at_most(&most.times(&(RBig::ONE + slack)));
    assert!(is_within, "{what}: {found:?}");
}

#[test]
fn likelihoods_and_paths_of_vectors_are_enclosed() {
    seeds(60).into_par_iter().for_each(|seed| {
        let random = &mut Random(seed ^ 0xde);
        let (n, d, length) = (1 + random.below(3) as usize, 1 + random.below(3) as usize, 1 + random.below(4) as usize);
        let scale = 10f64.powi(random.below(17) as i32 - 8);
        let model = gaussian(random, n, d, scale);
        let Emissions::Gaussian { means, covariances, .. } = model.emissions() else { unreachable!() };
        let values: Vec<f64> = (0..length * d).map(|_| observed(random, scale)).collect();
        let of_state = |x: &[f64], i: usize| {
            let entry = |k: usize, l: usize| match covariances {
                Covariances::Diagonal(variances) if k == l => variances[i * d + k],
                Covariances::Diagonal(_) => 0.0,
                Covariances::Full(matrices) => matrices[(i * d + k) * d + l],
            };
            density(&means[i * d..(i + 1) * d], &entry, x)
        };
        let densities: Vec<Vec<Big>> = values.chunks(d).map(|x| (0..n).map(|i| of_state(x, i)).collect()).collect();
        let observations = Observations::Vectors { dimensions: d as u32, values };
        let sequences = Sequences::with_missing(vec![0, length as u64], observations).unwrap();
        let all = all_paths(&model, &densities);
        let sum = all.iter().map(|(_, p)| p.clone()).reduce(|a, b| a.plus(&b)).unwrap();
        let found = likelihoods(&model, &sequences, &[]).unwrap()[0];
        let what = format!("seed {seed}, {:?}", model.emissions());
        encloses(found, &sum, &what);
        let width = 1e-11 * found.hi.abs().max(1.0);
        assert!(found.hi - found.lo <= width, "{what}: {found:?}");
        let most = all.iter().map(|(_, p)| p).reduce(|a, b| if a.at_most(b) { b } else { a }).unwrap();
        for (path, p) in &all {
            let gap = shortfalls(&model, &sequences, &[], path).unwrap()[0];
            if most.at_most(p) {
                assert!(gap.lo == 0.0 && gap.hi <= width, "{what}: {gap:?}");
            } else {
                encloses(gap, &most.quotient(p), &what);
            }
        }
    });
}

/// A Hilbert matrix of 12 rows is positive definite, but no factor in f64 shows it.
#[test]
fn what_is_not_proved_to_be_positive_definite_is_undecided() {
    let of_size = |d: usize| {
        let matrix = (0..d * d).map(|at| 1.0 / (at / d + at % d + 1) as f64).collect();
        let emissions =
            Emissions::Gaussian { dimensions: d as u32, means: vec![0.0; d], covariances: Covariances::Full(matrix) };
        let parts =
            HmmParts { start: vec![1.0], transitions: vec![1.0], emissions, end: None, names: Default::default() };
        let model = parts.validated().ok()?;
        let values = vec![0.5; d];
        let sequences = Sequences::new(vec![0, 1], Observations::Vectors { dimensions: d as u32, values }).unwrap();
        Some((likelihoods(&model, &sequences, &[]).unwrap()[0], shortfalls(&model, &sequences, &[], &[0]).unwrap()[0]))
    };
    let (small, gap) = of_size(6).unwrap();
    assert!(small.hi - small.lo < 1e-4 && gap.lo == 0.0 && gap.hi < 1e-4, "{small:?} {gap:?}");
    // Either the model is refused, or nothing is proved, or the bounds are finite and wide.
    let wide = |found: Interval| !found.hi.is_finite() || found.hi - found.lo > 1e-12;
    assert!(of_size(12).is_none_or(|(large, _)| wide(large)));
}

#[test]
fn other_observations_are_refused() {
    let emissions =
        Emissions::Gaussian { dimensions: 1, means: vec![0.0], covariances: Covariances::Diagonal(vec![1.0]) };
    let parts = HmmParts { start: vec![1.0], transitions: vec![1.0], emissions, end: None, names: Default::default() };
    let model = parts.validated().unwrap();
    let error = likelihoods(&model, &Sequences::of_symbols(&[&[0][..]]).unwrap(), &[]).unwrap_err();
    assert_eq!(error.to_string(), "observations of another kind than the model emits");
}
