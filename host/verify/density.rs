//! Normal densities between proved bounds.
//!
//! ln b(x) = −½ (D ln 2π + ln det Σ + q) with q = (x − μ)ᵀ Σ⁻¹ (x − μ).
//!
//! *Diagonal.* Σ is a product and a sum of intervals.
//!
//! *Full.* Let W be any lower triangular matrix of `f64` with a diagonal of nonzero numbers: that of a Cholesky factor's inverse, computed
//! without bounds. Let W Σ Wᵀ = I + E, in intervals. If ‖E‖ ≤ ε < 1 in the largest row sum, which bounds all eigenvalues, then Σ is positive definite,
//! and with y = W (x − μ)
//!
//! > q = yᵀ (I + E)⁻¹ y lies in yᵀ y − yᵀ E y + [0, ε²/(1 − ε)] yᵀ y, and
//! > ln det Σ lies in tr E ± Σ Eᵢⱼ²/(2 (1 − ε)) − 2 Σ ln |Wᵢᵢ|,
//!
//! since (I + E)⁻¹ = I − E + E² (I + E)⁻¹ and |ln(1 + λ) − λ| ≤ λ²/(2 (1 − |λ|)). Where ε is not below 1, nothing is proved.
//!
//! A missing component is left out of x, μ and Σ: the density is the marginal one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use warpkov_hmm::model::Covariances;

use crate::elementary::{Positive, ln};
use crate::interval::{Interval, Sum};

/// ln 2π, rounded to nearest.
const LN_TAU: f64 = 1.837_877_066_409_345_6;

/// The densities of all states.
pub(crate) struct Densities<'a> {
    pub dimensions: usize,
    means: &'a [f64],
    covariances: &'a Covariances,
    factors: Mutex<Factors>,
}

/// The factors of a state for the components that are there, by their numbers.
type Factors = HashMap<(usize, Vec<usize>), Option<Factor>>;

/// W, E and what follows from them.
#[derive(Clone)]
struct Factor {
    /// W, row by row, all of D × D.
    inverse: Vec<f64>,
    /// E, all of D × D.
    error: Vec<Interval>,
    /// ε²/(1 − ε).
    rest: f64,
    /// ln det Σ.
    log_det: Interval,
}

impl<'a> Densities<'a> {
    pub fn new(dimensions: u32, means: &'a [f64], covariances: &'a Covariances) -> Self {
        Self { dimensions: dimensions as usize, means, covariances, factors: Mutex::default() }
    }

    /// b(x) of a state. `None` where Σ is not proved to be positive definite, or the density is too large.
    pub fn at(&self, state: usize, x: &[f64]) -> Option<Positive> {
        let d = self.dimensions;
        let there: Vec<usize> = (0..d).filter(|&k| !x[k].is_nan()).collect();
        let mean = |k: usize| self.means[state * d + k];
        let (log_det, form) = match self.covariances {
            Covariances::Diagonal(variances) => {
                let (mut log_det, mut form) = (Sum::default(), Sum::default());
                for &k in &there {
                    let variance = variances[state * d + k];
                    log_det.add_interval(ln(variance));
                    let off = Interval::point(x[k]) - Interval::point(mean(k));
                    form.add_interval(square(off).over(Interval::point(variance)));
                }
                (log_det.interval(), form.interval())
            }
            Covariances::Full(matrices) => {
                let of_state = &matrices[state * d * d..][..d * d];
                let mut factors = self.factors.lock().unwrap_or_else(PoisonError::into_inner);
                let key = (state, there.clone());
                let factor = factors.entry(key).or_insert_with(|| Factor::new(of_state, d, &there)).clone()?;
                drop(factors);
                (factor.log_det, factor.form(&there, x, mean))
            }
        };
        let mut sum = Sum::default();
        let count = Interval::point(there.len() as f64);
        sum.add_interval(count * Interval::new(LN_TAU.next_down(), LN_TAU.next_up()));
        sum.add_interval(log_det);
        sum.add_interval(form);
        Positive::exp(sum.interval() * Interval::point(-0.5))
    }
}

impl Factor {
    /// Of the rows and columns `there` of a symmetric matrix of `d` rows.
    fn new(matrix: &[f64], d: usize, there: &[usize]) -> Option<Self> {
        let n = there.len();
        let sigma = |i: usize, j: usize| matrix[there[i] * d + there[j]];
        let inverse = inverse_of_cholesky(n, &sigma)?;
        let w = |i: usize, k: usize| inverse[i * n + k];
        let entry = |at: usize| {
            let (i, j) = (at / n, at % n);
            let mut sum = Sum::default();
            for k in 0..=i {
                (0..=j).for_each(|l| sum.add_product3(w(i, k), sigma(k, l), w(j, l)));
            }
            sum.add(if i == j { -1.0 } else { 0.0 });
            sum.interval()
        };
        let error: Vec<Interval> = (0..n * n).map(entry).collect();
        let size = |x: &Interval| x.hi.max(-x.lo);
        let (mut squares, mut trace, mut epsilon) = (Sum::default(), Sum::default(), 0.0_f64);
        for (i, row) in error.chunks(n.max(1)).enumerate() {
            let mut sum = Sum::default();
            row.iter().for_each(|x| sum.add(size(x)));
            epsilon = epsilon.max(sum.interval().hi);
            row.iter().for_each(|x| squares.add_interval(square(*x)));
            trace.add_interval(row[i]);
        }
        let left = Interval::point(1.0) - Interval::point(epsilon);
        if left.lo.is_nan() || left.lo <= 0.0 {
            return None;
        }
        let rest = square(Interval::point(epsilon)).over(left).hi;
        let spread = squares.interval().over(left * Interval::point(2.0)).hi;
        let mut log_det = trace;
        log_det.add_interval(Interval::new(-spread, spread));
        (0..n).for_each(|i| log_det.add_interval(ln(w(i, i).abs()) * Interval::point(-2.0)));
        Some(Self { inverse, error, rest, log_det: log_det.interval() })
    }

    /// q.
    fn form(&self, there: &[usize], x: &[f64], mean: impl Fn(usize) -> f64) -> Interval {
        let n = there.len();
        let y = |i: usize| {
            let mut sum = Sum::default();
            for (j, &k) in there.iter().enumerate().take(i + 1) {
                sum.add_product(self.inverse[i * n + j], x[k]);
                sum.add_product(-self.inverse[i * n + j], mean(k));
            }
            sum.interval()
        };
        let y: Vec<Interval> = (0..n).map(y).collect();
        let (mut own, mut mixed) = (Sum::default(), Sum::default());
        for i in 0..n {
            own.add_interval(square(y[i]));
            (0..n).for_each(|j| mixed.add_interval(y[i] * self.error[i * n + j] * y[j]));
        }
        let own = own.interval();
        let rest = Interval::new(0.0, (Interval::point(self.rest) * own).hi);
        let form = own - mixed.interval() + rest;
        Interval::new(form.lo.max(0.0), form.hi)
    }
}

/// x² of the numbers x within an interval.
fn square(x: Interval) -> Interval {
    let square = x * x;
    if x.contains(0.0) { Interval::new(0.0, square.hi) } else { square }
}

/// The inverse of the lower Cholesky factor of a matrix of n rows, without bounds. `None` if there is none.
fn inverse_of_cholesky(n: usize, matrix: &dyn Fn(usize, usize) -> f64) -> Option<Vec<f64>> {
    let mut factor = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| factor[i * n + k] * factor[j * n + k]).sum();
            let rest = matrix(i, j) - known;
            factor[i * n + j] = if i == j { rest.sqrt() } else { rest / factor[j * n + j] };
        }
    }
    let mut inverse = vec![0.0; n * n];
    for j in 0..n {
        for i in j..n {
            let known: f64 = (j..i).map(|k| factor[i * n + k] * inverse[k * n + j]).sum();
            inverse[i * n + j] = (if i == j { 1.0 } else { 0.0 } - known) / factor[i * n + i];
        }
    }
    let usable = |(at, x): (usize, &f64)| x.is_finite() && (at / n != at % n || *x != 0.0);
    inverse.iter().enumerate().all(usable).then_some(inverse)
}
