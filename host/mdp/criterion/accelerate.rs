//! Sweeps to a fixed point, accelerated by extrapolation.
//!
//! The longer a process lasts, the slower sweeps converge: the error falls like λᵏ with λ near 1. The code takes k
//! sweeps as one step of a sequence x₀, x₁, …. After some steps it forms the combination Σ γᵢ xᵢ₊₁, Σ γᵢ = 1, that
//! minimises ‖Σ γᵢ (xᵢ₊₁ − xᵢ)‖₂. The combination replaces the last xᵢ if a sweep changes it less: reduced rank
//! extrapolation (Eddy 1979; Sidi, *Vector Extrapolation Methods with Applications*, 2017). k doubles while
//! extrapolation helps little. Nothing is proven here; the caller proves bounds for whatever values result.
//!
//! Each xᵢ is the mean of V and TV. An error that alternates in sign can fall as slowly, and would be invisible after
//! an even number of sweeps. From values above the fixed point, sweeps need not come to rest, because rounding errors
//! may cycle. So the sweeps end once changes have the size of rounding errors and no longer fall.

use rayon::prelude::*;

use super::{Allowance, Ended, Error, Session};
use crate::backend::{GreedySweeps, Stop};

/// Number of differences in a combination.
const ORDER: usize = 8;

/// Size of changes that may be rounding errors, in units in the last place of the largest value.
const NOISE: f64 = 1024.0;

/// Sweeps until ‖ΔV‖∞ < `theta` or the `allowance` ends.
pub(super) fn sweep<E: std::error::Error>(
    backend: &mut dyn GreedySweeps<Error = E>,
    theta: f64,
    allowance: &mut Allowance,
    session: &mut Session<E>,
) -> Result<Ended, Error<E>> {
    /// Initial and maximum k.
    const SWEEPS: (u64, u64) = (32, 1 << 16);
    let stop = Stop::Change(theta);
    let (mut together, mut lowest) = (SWEEPS.0, f64::INFINITY);
    let mut seen = vec![backend.values().map_err(Error::Backend)?];
    loop {
        let ended = sweep_up_to(backend, stop, together, allowance, session)?;
        if ended != Ended::Limit {
            return Ok(ended);
        }
        if let Some(ended) = allowance.ended() {
            return Ok(ended);
        }
        let mut mean = backend.values().map_err(Error::Backend)?;
        let ended = sweep_up_to(backend, stop, 1, allowance, session)?;
        if ended != Ended::Limit {
            return Ok(ended);
        }
        if let Some(ended) = allowance.ended() {
            return Ok(ended);
        }
        let next = backend.values().map_err(Error::Backend)?;
        mean.par_iter_mut().zip(next).for_each(|(value, next)| *value = (*value + next) / 2.0);
        backend.reset(Some(&mean)).map_err(Error::Backend)?;
        seen.push(mean);
        if seen.len() <= ORDER {
            continue;
        }
        let before = session.rounds.last().map_or(f64::INFINITY, |round| round.residual);
        let mut after = before;
        if let Some(values) = extrapolated(&seen) {
            backend.reset(Some(&values)).map_err(Error::Backend)?;
            let ended = sweep_up_to(backend, stop, 1, allowance, session)?;
            if ended != Ended::Limit {
                return Ok(ended);
            }
            after = session.rounds.last().map_or(f64::INFINITY, |round| round.residual);
            if after >= before || after.is_nan() {
                backend.reset(seen.last().map(Vec::as_slice)).map_err(Error::Backend)?;
                after = before;
            }
        }
        let last = seen.last().map_or(0.0, |values| values.par_iter().map(|v| v.abs()).reduce(|| 0.0, f64::max));
        let rests = seen.windows(2).all(|pair| pair[0] == pair[1]);
        if rests || after >= lowest && lowest <= NOISE * f64::EPSILON * last {
            return Ok(Ended::Stalled);
        }
        lowest = lowest.min(after);
        if after > before / 8.0 {
            together = (2 * together).min(SWEEPS.1);
        }
        seen = vec![backend.values().map_err(Error::Backend)?];
    }
}

/// Runs `count` sweeps, or fewer if `stop` is met or the allowance ends.
fn sweep_up_to<E: std::error::Error>(
    backend: &mut dyn GreedySweeps<Error = E>,
    stop: Stop,
    count: u64,
    allowance: &mut Allowance,
    session: &mut Session<E>,
) -> Result<Ended, Error<E>> {
    let given = allowance.now(count);
    let mut left = given;
    let ended = session.sweep(backend, stop, &mut left)?;
    allowance.spend(given - left);
    Ok(ended)
}

/// The combination of x₁, x₂, … whose combined step is smallest, or `None` if it is not finite.
fn extrapolated(x: &[Vec<f64>]) -> Option<Vec<f64>> {
    let order = x.len() - 1;
    // Gram matrix of the steps, scaled to trace 1. A small multiple of I regularises it, because steps may be nearly
    // parallel.
    let upper: Vec<Vec<f64>> = (0..order).map(|i| (i..order).map(|j| step_product(x, i, j)).collect()).collect();
    let entry = |i: usize, j: usize| upper[i.min(j)][i.abs_diff(j)];
    let mut gram: Vec<Vec<f64>> = (0..order).map(|i| (0..order).map(|j| entry(i, j)).chain([1.0]).collect()).collect();
    let trace: f64 = (0..order).map(|i| gram[i][i]).sum();
    for (i, row) in gram.iter_mut().enumerate() {
        row[..order].iter_mut().for_each(|entry| *entry /= trace);
        row[i] += 1e-14;
    }
    // Solve (G + μI) c = 1 by elimination without pivoting, as G + μI is positive definite; γ = c / Σ c.
    for k in 0..order {
        let pivot = gram[k].clone();
        for (_, row) in gram.iter_mut().enumerate().filter(|(i, _)| *i != k) {
            let factor = row[k] / pivot[k];
            row.iter_mut().zip(&pivot).for_each(|(entry, pivot)| *entry -= factor * pivot);
        }
    }
    let factors: Vec<f64> = (0..order).map(|k| gram[k][order] / gram[k][k]).collect();
    let sum: f64 = factors.iter().sum();
    let combined = |state: usize| factors.iter().zip(&x[1..]).map(|(c, x)| c / sum * x[state]).sum::<f64>();
    let values: Vec<f64> = (0..x[0].len()).into_par_iter().map(combined).collect();
    values.par_iter().all(|value| value.is_finite()).then_some(values)
}

/// The scalar product of two steps. Adds partial sums in order, so that the result is deterministic.
fn step_product(x: &[Vec<f64>], i: usize, j: usize) -> f64 {
    /// States per partial sum.
    const PART: usize = 1 << 16;
    let states = x[0].len();
    let parts: Vec<f64> = (0..states.div_ceil(PART))
        .into_par_iter()
        .map(|part| {
            let states = part * PART..states.min((part + 1) * PART);
            states.map(|s| (x[i + 1][s] - x[i][s]) * (x[j + 1][s] - x[j][s])).sum()
        })
        .collect();
    parts.iter().sum()
}
