//! Recursions of a hidden Markov model over semirings.

use warpkov_device::device::{Global, GlobalMut, Named, kernel, math, thread, warp};
use warpkov_device::shared_array;

/// Weights with a sum ⊕ and a product ⊗ that distributes over it. Weights are given by their log₂, so ⊗ is the addition.
pub trait Semiring: Named {
    /// x ⊕ y.
    fn plus(x: f32, y: f32) -> f32;
}

/// ⊕ is the maximum: the weight of the best path.
pub struct MaxPlus;

/// ⊕ is the sum of the weights: the weight of all paths together.
pub struct LogSum;

impl Named for MaxPlus {
    const NAME: &'static str = "MaxPlus";
}

impl Named for LogSum {
    const NAME: &'static str = "LogSum";
}

impl Semiring for MaxPlus {
    #[inline(always)]
    fn plus(x: f32, y: f32) -> f32 {
        x.max(y)
    }
}

impl Semiring for LogSum {
    #[inline(always)]
    fn plus(x: f32, y: f32) -> f32 {
        let (low, high) = (x.min(y), x.max(y));
        // −∞ is the weight 0.
        if low == f32::NEG_INFINITY { high } else { high + math::log2_approx(1.0 + math::exp2_approx(low - high)) }
    }
}

/// States: a lane for each.
const N: u32 = 32;

// ANCHOR: forward
/// log₂ of the sum of the weights of all paths: αₜ(j) = Σᵢ αₜ₋₁(i) Aᵢⱼ · bⱼ(oₜ), scaled to Σⱼ αₜ(j) = 1 at each step.
///
/// *Thread mapping*: a block of one warp for each sequence, a lane for each state.
///
/// *Safety*: `symbols` has `steps` elements for each block and `scores` one; the model has 32 states.
#[kernel]
pub fn forward(
    steps: u32,
    start: Global<f32>,
    transitions: Global<f32>,
    emissions: Global<f32>,
    symbols: Global<u32>,
    scores: GlobalMut<f32>,
) {
    let (sequence, j) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    let matrix = shared_array!(matrix: f32; 1024);
    let rows = shared_array!(rows: f32; 64);
    for i in 0..N {
        matrix.set(i * N + j, math::exp2_approx(transitions.get(i * N + j)));
    }
    let mut alpha = math::exp2_approx(start.get(j));
    let mut exponent = 0.0;
    for step in 0..steps {
        if step > 0 {
            // Two rows in turn: no lane writes what another still reads.
            let row = step % 2 * N;
            rows.set(row + j, alpha);
            warp::sync_warp(warp::FULL);
            alpha = 0.0;
            for i in 0..N {
                alpha = math::fma_f32(rows.get(row + i), matrix.get(i * N + j), alpha);
            }
        }
        let symbol = symbols.get(sequence * steps as usize + step as usize);
        alpha *= math::exp2_approx(emissions.get(symbol * N + j));
        let sum = warp::reduce(alpha, |x, y| x + y);
        alpha /= sum;
        exponent += math::log2_approx(sum);
    }
    if j == 0 {
        scores.set(sequence, exponent);
    }
}
// ANCHOR_END: forward

/// The best path: δₜ(j) = maxᵢ (δₜ₋₁(i) + Aᵢⱼ) + bⱼ(oₜ), and back from the largest δ of the last step. The smallest state
/// breaks ties.
///
/// *Thread mapping*: as [`forward`].
///
/// *Safety*: `symbols` and `path` have `steps` elements for each block, `pointers` 32·`steps`, and `scores` one; the model
/// has 32 states.
#[kernel]
pub fn viterbi(
    steps: u32,
    start: Global<f32>,
    transitions: Global<f32>,
    emissions: Global<f32>,
    symbols: Global<u32>,
    pointers: GlobalMut<u32>,
    path: GlobalMut<u32>,
    scores: GlobalMut<f32>,
) {
    let (sequence, j) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    let first = sequence * steps as usize;
    let matrix = shared_array!(matrix: f32; 1024);
    let rows = shared_array!(rows: f32; 64);
    for i in 0..N {
        matrix.set(i * N + j, transitions.get(i * N + j));
    }
    let mut delta = start.get(j);
    for step in 0..steps {
        // ANCHOR: maximum
        // TODO: which i gives the maximum? The way back needs it.
        if step > 0 {
            let row = step % 2 * N;
            rows.set(row + j, delta);
            warp::sync_warp(warp::FULL);
            delta = f32::NEG_INFINITY;
            for i in 0..N {
                delta = delta.max(rows.get(row + i) + matrix.get(i * N + j));
            }
        }
        let symbol = symbols.get(first + step as usize);
        delta += emissions.get(symbol * N + j);
        pointers.set((first + step as usize) * N as usize + j as usize, j);
        // TODO: the best state of this step alone is not always on the best path.
        let best = warp::reduce(delta, f32::max);
        let state = warp::min_u32(warp::FULL, if delta == best { j } else { N });
        if j == 0 {
            path.set(first + step as usize, state);
        }
        // ANCHOR_END: maximum
    }
    // ANCHOR: back
    let best = warp::reduce(delta, f32::max);
    if j == 0 {
        scores.set(sequence, best);
    }
    // ANCHOR_END: back
}

// ANCHOR: combine
// TODO: this is a chain of T launches. A product is associative.
/// y[t] = y[t − 1] ⊗ x[t] for one t > 0; y[0] = x[0].
///
/// *Thread mapping*: a thread for each element (i, j) of the matrix t.
///
/// *Safety*: x and y have t + 1 matrices of 4 × 4 elements or more.
#[kernel(S = [MaxPlus, LogSum])]
pub fn combine<S: Semiring>(t: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let (i, j) = (thread::thread_idx_x() as usize / 4, thread::thread_idx_x() as usize % 4);
    let at = 16 * t as usize;
    let mut sum = x.get(at + 4 * i + j);
    if t > 0 {
        sum = f32::NEG_INFINITY;
        for k in 0..4 {
            sum = S::plus(sum, y.get(at - 16 + 4 * i + k) + x.get(at + 4 * k + j));
        }
    }
    y.set(at + 4 * i + j, sum);
}
// ANCHOR_END: combine
