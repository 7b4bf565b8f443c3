//! The M step of Baum and Welch: the model that maximises the likelihood of the expected counts, computed where the
//! counts are.
//!
//! *Mathematics*:
//!
//! > πᵢ ∝ Σ γ₁(i) + c,  Aᵢⱼ ∝ Σ ξ(i, j) + c,  endᵢ ∝ Σ γ_T(i) + c,  Bⱼᵥ ∝ Σ over oₜ = v of γₜ(j), + c
//!
//! with pseudocounts c of a Dirichlet prior; row i of A and endᵢ are normalised together. A zero stays zero,
//! pseudocounts or not; a row without counts stays unchanged; a positive entry [stays positive](super). The next E step
//! reads the tables in place: nothing leaves the device.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, block, kernel, thread, warp};
use warpkov_device::shared_array;

use crate::hmm::{entry, normal, raised};

/// Least sum of a row that is normalised; a smaller one leaves the row unchanged.
const LEAST: f64 = f64::MIN_POSITIVE;

/// Warps per block of [`maximise_emissions`].
const WARPS: u32 = 8;

/// Threads per block of [`maximise_emissions`].
pub const EMISSION_THREADS: u32 = 32 * WARPS;

/// Expected counts of several models, one after another.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `pairs_pitch`, `counts_pitch` | scalar | elements between models |
/// | `pairs` | stride × stride | Σ α̂ᵀ û: expected counts / A |
/// | `first_start`, `first_final`, `first_symbol` | scalar | elements of `counts` |
/// | `counts` | starts, ends: stride; symbols: V × stride | expected counts |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(models, stride),
    requires(
        pairs.len() >= (models - 1) * pairs_pitch + stride * stride,
        counts.len() >= (models - 1) * counts_pitch + first_start.max(first_final) + stride,
    )
)]
pub struct Counted {
    /// Distance between the `pairs` of consecutive models.
    pub pairs_pitch: u64,
    /// Σ α̂ᵀ û; its element-wise product with A is Σ ξ.
    pub pairs: Global<f64>,
    /// Distance between the `counts` of consecutive models.
    pub counts_pitch: u64,
    /// First count of starts.
    pub first_start: u64,
    /// First count of ends.
    pub first_final: u64,
    /// First count of symbols.
    pub first_symbol: u64,
    /// All other counts.
    pub counts: Global<f64>,
}

/// The tables of models that [`maximise_transitions`] updates: those of [`Model`](super::model::Model) other than the
/// emissions.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `ends` | 1 | 1 if the model has end probabilities, else 0 |
/// | `start`, `end` | stride | probability |
/// | `transitions`, `transposed` | stride × stride | probability |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(models, stride),
    requires(
        ends.len() >= models,
        start.len() >= models * stride,
        transitions.len() >= models * stride * stride,
        transposed.len() >= models * stride * stride,
        end.len() >= models * stride,
    )
)]
pub struct Tables<T> {
    /// Whether each model has end probabilities.
    pub ends: Global<u32>,
    /// π.
    pub start: GlobalMut<T>,
    /// A.
    pub transitions: GlobalMut<T>,
    /// Aᵀ.
    pub transposed: GlobalMut<T>,
    /// Probability of the end after each state.
    pub end: GlobalMut<T>,
}

/// Unnormalised probability, count + pseudocount; 0 if the present probability is 0.
#[inline(always)]
fn weight(prob: f64, count: f64, pseudocount: f64) -> f64 {
    if prob > 0.0 { count + pseudocount } else { 0.0 }
}

/// A, its transpose, the end probabilities and π, from the counts Σ α̂ᵀ û and those of starts and ends.
///
/// - *Thread mapping*: a block per state, and one for π; `block_idx_y` is the model; a thread per state.
/// - *Shared memory*: 33 words, static. *Barriers*: three. *Deterministic*: yes. *Valid result in*: `tables`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | N |
/// | `stride` | scalar | elements per row, ≥ N |
/// | `pseudocount_start`, `pseudocount` | scalar | ≥ 0 |
/// | `counted` | [`Counted`] | |
/// | `tables` | [`Tables`] | |
#[kernel(
    T = [f32, f64],
    requires(
        states <= stride,
        counted.holds(shape.grid.y, stride),
        tables.holds(shape.grid.y, stride),
        shape.grid.x == states + 1,
        shape.block % 32 == 0,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn maximise_transitions<T: Real>(
    states: u32,
    stride: u32,
    pseudocount_start: f64,
    pseudocount: f64,
    counted: Counted,
    tables: Tables<T>,
) {
    let Counted { pairs_pitch, pairs, counts_pitch, first_start, first_final, counts, .. } = counted;
    let Tables { ends, start, transitions, transposed, end } = tables;
    let whole = shared_array!(maximise_total: f64; 1);
    let (i, model) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize);
    let (n, width, t) = (states as usize, stride as usize, thread::thread_idx_x());
    let counts_of = |first: u64, j: usize| counts.get(model * counts_pitch as usize + first as usize + j);
    let for_start = i == n;
    let has_end = ends.get(model) != 0 && !for_start;
    let (own, row) = (model * width, (model * width + i) * width);
    let weight_of = |j: usize| {
        if for_start {
            weight(start.get(own + j).to_f64(), counts_of(first_start, j), pseudocount_start)
        } else {
            let prob = transitions.get(row + j).to_f64();
            weight(prob, prob * pairs.get(model * pairs_pitch as usize + i * width + j), pseudocount)
        }
    };
    let last = if has_end { weight(end.get(own + i).to_f64(), counts_of(first_final, i), pseudocount) } else { 0.0 };
    let mut sum = if t == 0 { last } else { 0.0 };
    let mut j = t as usize;
    while j < n {
        sum += weight_of(j);
        j += thread::block_dim_x() as usize;
    }
    let sum = block::reduce(sum, 0.0, |a, b| a + b);
    if t == 0 {
        whole.set(0, sum);
    }
    // All threads have read the state's end probability, which thread 0 replaces below.
    thread::sync_threads();
    let total = whole.get(0);
    if total < LEAST {
        return;
    }
    j = t as usize;
    while j < n {
        let prob = weight_of(j) / total;
        if for_start {
            start.set(own + j, T::from_f64(raised(prob, normal(T::WIDE))));
        } else {
            let prob = T::from_f64(raised(prob, entry(T::WIDE)));
            transitions.set(row + j, prob);
            transposed.set((own + j) * width + i, prob);
        }
        j += thread::block_dim_x() as usize;
    }
    if t == 0 && has_end {
        end.set(own + i, T::from_f64(raised(last / total, entry(T::WIDE))));
    }
}

/// B, from the counts of symbols.
///
/// - *Thread mapping*: a block per 32 states, a lane per state; of 8 warps, warp w has the symbols w, w + 8, ….
///   `block_idx_y` is the model.
/// - *Shared memory*: 256 words, static. *Barriers*: one. *Deterministic*: yes. *Valid result in*: `table`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | elements per row |
/// | `symbols` | scalar | V |
/// | `pseudocount` | scalar | ≥ 0 |
/// | `counted` | [`Counted`] | V rows of symbol counts |
/// | `table` | models × V × `stride` | probability |
#[kernel(
    T = [f32, f64],
    requires(
        counted.counts.len() >= (shape.grid.y - 1) * counted.counts_pitch + counted.first_symbol + symbols * stride,
        table.len() >= shape.grid.y * symbols * stride,
        shape.grid.x == stride.div_ceil(32),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = EMISSION_THREADS
)]
pub fn maximise_emissions<T: Real>(stride: u32, symbols: u32, pseudocount: f64, counted: Counted, table: GlobalMut<T>) {
    let Counted { counts_pitch, first_symbol: first, counts, .. } = counted;
    let sums = shared_array!(emission_sums: f64; 256);
    let (lane, id, model) = (warp::lane_id(), warp::warp_id(), thread::block_idx_y() as usize);
    let j = 32 * thread::block_idx_x() + lane;
    let at = |v: u32| (model * symbols as usize + v as usize) * stride as usize + j as usize;
    let weight_of = |v: u32| {
        let counted = model * counts_pitch as usize + first as usize + v as usize * stride as usize + j as usize;
        weight(table.get(at(v)).to_f64(), counts.get(counted), pseudocount)
    };
    let mut sum = 0.0;
    let mut v = if j < stride { id } else { symbols };
    while v < symbols {
        sum += weight_of(v);
        v += WARPS;
    }
    sums.set(32 * id + lane, sum);
    thread::sync_threads();
    let mut total = 0.0;
    let mut other = 0;
    while other < WARPS {
        total += sums.get(32 * other + lane);
        other += 1;
    }
    if j >= stride || total < LEAST {
        return;
    }
    v = id;
    while v < symbols {
        table.set(at(v), T::from_f64(raised(weight_of(v) / total, normal(T::WIDE))));
        v += WARPS;
    }
}
