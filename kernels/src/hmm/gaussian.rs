//! Normal emissions: the density of every observation in every state, and the moments of the observations weighted by
//! γ.
//!
//! *Mathematics*: with Σⱼ = Lⱼ Lⱼᵀ, ln 𝒩(x; μⱼ, Σⱼ) = cⱼ − ½ ‖Lⱼ⁻¹ (x − μⱼ)‖² and cⱼ = −½ D ln 2π − ln |Lⱼ|. The host
//! supplies μ, L⁻¹ and c, with consecutive states in consecutive elements. Each step has its own row of the emission
//! table, divided by the row's largest density: the recursions then work on numbers near 1, and ln P(O) gains Σ ln of
//! the divisors.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, block, kernel, math, thread, warp};

use crate::hmm::model::Split;
use crate::hmm::{normal, power};

/// In place of a state: any state may have emitted the observation.
pub const ANY_STATE: u32 = u32::MAX;

/// Threads per block of [`densities`].
pub const THREADS: u32 = 128;

/// The normal emissions of models, with consecutive states in consecutive elements.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | elements per row, ≥ N |
/// | `dimensions` | scalar | D; 0 for symbols |
/// | `full` | scalar | 1 or 0 |
/// | `mean` | D × stride | unit of the observations |
/// | `inverse` | D × D × stride if `full`, else D × stride | 1 / unit of the observations |
/// | `constant` | stride | logarithm; −∞ for missing states |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(models),
    requires(
        mean.len() >= models * dimensions * stride,
        if full > 0 { inverse.len() >= models * dimensions * dimensions * stride },
        if full == 0 { inverse.len() >= models * dimensions * stride },
        constant.len() >= models * stride,
    )
)]
pub struct Gaussians {
    /// Elements per row.
    pub stride: u32,
    /// D.
    pub dimensions: u32,
    /// Whether covariances are full; else diagonal.
    pub full: u32,
    /// μ\[d\]\[j\].
    pub mean: Global<f64>,
    /// L⁻¹\[d\]\[e\]\[j\], read for e ≤ d; or 1/σ\[d\]\[j\].
    pub inverse: Global<f64>,
    /// c\[j\].
    pub constant: Global<f64>,
}

/// Normal densities of observations by several models.
#[derive(Clone, Copy)]
pub(super) struct Densities {
    stride: usize,
    dimensions: usize,
    full: u32,
    x: Global<f64>,
    mean: Global<f64>,
    inverse: Global<f64>,
    constant: Global<f64>,
}

impl Densities {
    /// Densities of the rows of `x`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn new(gaussians: Gaussians, x: Global<f64>) -> Self {
        let Gaussians { stride, dimensions, full, mean, inverse, constant } = gaussians;
        Self { stride: stride as usize, dimensions: dimensions as usize, full, x, mean, inverse, constant }
    }

    /// Element k of x − μⱼ, where x is a row of the observations.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn deviation(self, model: usize, row: usize, j: usize, k: usize) -> f64 {
        let d = self.dimensions;
        self.x.get(row * d + k) - self.mean.get((model * d + k) * self.stride + j)
    }

    /// ln 𝒩(x; μⱼ, Σⱼ).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn log(self, model: usize, row: usize, j: usize) -> f64 {
        let (n, d) = (self.stride, self.dimensions);
        let from_mean = |k: usize| self.deviation(model, row, j, k);
        let mut square = 0.0;
        let mut k = 0;
        while k < d {
            let z = if self.full == 0 {
                from_mean(k) * self.inverse.get((model * d + k) * n + j)
            } else {
                let mut z = 0.0;
                let mut e = 0;
                while e <= k {
                    z = self.inverse.get(((model * d + k) * d + e) * n + j).fma(from_mean(e), z);
                    e += 1;
                }
                z
            };
            square = z.fma(z, square);
            k += 1;
        }
        self.constant.get(model * n + j) - 0.5 * square
    }
}

/// Densities of each row, divided by the largest and raised to normal numbers, and their logarithms before the
/// division. `shift[row]` is the logarithm of the divisor. Where the state of a row is known, the densities of all others are 0.
///
/// - *Thread mapping*: a block per row, `block_idx_y` the model; a thread per state.
/// - *Shared memory*: 33 words, static. *Barriers*: three. *Deterministic*: yes.
/// - *Valid result in*: `table`, `log_table` and `shift`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `gaussians` | [`Gaussians`] | D ≥ 1 |
/// | `x` | rows × D | observations |
/// | `known` | scalar | 1 or 0: whether `state` is read |
/// | `state` | rows if `known`; else any length | known states, or [`ANY_STATE`] |
/// | `table` | models × rows × stride | density, at most 1 |
/// | `log_table` | models × rows × stride | logarithm |
/// | `shift` | models × rows | logarithm |
///
/// *Launch*: rows × models blocks.
#[kernel(
    T = [f32, f64],
    requires(
        gaussians.holds(shape.grid.y),
        gaussians.dimensions >= 1,
        x.len() >= shape.grid.x * gaussians.dimensions,
        if known > 0 { state.len() >= shape.grid.x },
        table.len() >= shape.grid * gaussians.stride,
        log_table.len() >= shape.grid * gaussians.stride,
        shift.len() >= shape.grid,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = THREADS
)]
pub fn densities<T: Real>(
    gaussians: Gaussians,
    x: Global<f64>,
    known: u32,
    state: Global<u32>,
    table: GlobalMut<T>,
    log_table: GlobalMut<T>,
    shift: GlobalMut<f64>,
) {
    let (row, model) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize);
    let densities = Densities::new(gaussians, x);
    let state = if known > 0 { state.get(row) } else { ANY_STATE };
    let log = |j: usize| densities.log(model, row, j);
    write_row(gaussians.stride as usize, state, log, table, log_table, shift);
}

/// Writes the densities of the block's row, as [`densities`] does, from their logarithms in each state.
///
/// *Takes part*: every thread of the block. *Shared memory*: 33 words, static. *Barriers*: three.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn write_row<T: Real>(
    n: usize,
    state: u32,
    log: impl Fn(usize) -> f64,
    table: GlobalMut<T>,
    log_table: GlobalMut<T>,
    shift: GlobalMut<f64>,
) {
    let all = warpkov_device::shared_array!(density_largest: f64; 1);
    let place = thread::block_idx_y() as usize * thread::grid_dim_x() as usize + thread::block_idx_x() as usize;
    let of = |j: usize| if state == ANY_STATE || state as usize == j { log(j) } else { f64::NEG_INFINITY };
    let mut largest = f64::NEG_INFINITY;
    let mut j = thread::thread_idx_x() as usize;
    while j < n {
        largest = largest.max(of(j));
        j += THREADS as usize;
    }
    let largest = block::reduce(largest, f64::NEG_INFINITY, f64::max);
    let largest = if largest > f64::NEG_INFINITY { largest } else { 0.0 };
    if thread::thread_idx_x() == 0 {
        all.set(0, largest);
        shift.set(place, largest);
    }
    thread::sync_threads();
    let largest = all.get(0);
    j = thread::thread_idx_x() as usize;
    while j < n {
        let log = of(j);
        log_table.set(place * n + j, T::from_f64(log));
        let least = if log > f64::NEG_INFINITY { power(normal(T::WIDE)) } else { 0.0 };
        table.set(place * n + j, T::from_f64(math::exp(log - largest).max(least)));
        j += THREADS as usize;
    }
}

/// Sum of the logarithms by which [`densities`] divided, per sequence.
///
/// - *Mathematics*: Σₜ shiftₜ over the steps of a sequence.
/// - *Thread mapping*: a warp per sequence, one warp per block, `block_idx_y` the model.
/// - *Shared memory*: none. *Barriers*: none.
/// - *Deterministic*: yes; the bits of a sequence do not depend on the other sequences. *Valid result in*: `sums`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `rows` | scalar | steps of all sequences |
/// | `lengths` | M | steps |
/// | `base` | longest + 1 | rows, ascending |
/// | `shift` | models × `rows` | logarithm |
/// | `sums` | models × M | logarithm |
///
/// *Launch*: M × models blocks.
#[kernel(
    requires(
        lengths.len() >= shape.grid.x,
        shift.len() >= shape.grid.y * rows,
        sums.len() >= shape.grid,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 32
)]
pub fn sum_shifts(rows: u32, lengths: Global<u32>, base: Global<u32>, shift: Global<f64>, sums: GlobalMut<f64>) {
    let (m, model) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize);
    let mut sum = 0.0;
    let mut t = warp::lane_id();
    while t < lengths.get(m) {
        sum += shift.get(model * rows as usize + base.get(t) as usize + m);
        t += 32;
    }
    let sum = warp::reduce(sum, |a, b| a + b);
    if warp::lane_id() == 0 {
        sums.set(model * thread::grid_dim_x() as usize + m, sum);
    }
}

/// Moments per state: Σ γ, Σ γ (x − μ), and the diagonal or all elements of Σ γ (x − μ)(x − μ)ᵀ.
#[must_use]
pub const fn moments_len(dimensions: usize, full: bool) -> usize {
    1 + dimensions + if full { dimensions * dimensions } else { dimensions }
}

/// Contribution of an observation with γ = `g` to moment f of a state.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn moment(g: f64, f: usize, dimensions: usize, full: u32, from_mean: impl Fn(usize) -> f64) -> f64 {
    let d = dimensions;
    if f == 0 {
        g
    } else if f <= d {
        g * from_mean(f - 1)
    } else if full == 0 {
        g * from_mean(f - 1 - d) * from_mean(f - 1 - d)
    } else {
        g * (from_mean((f - 1 - d) / d) * from_mean((f - 1 - d) % d))
    }
}

/// Moments in parts, divided by rows of a window as [`Split`] says: `parts[z][f][j]`.
///
/// - *Mathematics*: Σₜ γₜ(j), Σₜ γₜ(j) (xₜ − μⱼ), and the diagonal or all of Σₜ γₜ(j) (xₜ − μⱼ)(xₜ − μⱼ)ᵀ.
/// - *Thread mapping*: a thread per moment and state along grid x; grid y is the model, z the part.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `parts`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `gaussians` | [`Gaussians`] | D ≥ 1 |
/// | `first` | scalar | row of `x` of the window's first row |
/// | `split` | [`Split`] | |
/// | `x` | `first` + `split.rows` rows of D | observations |
/// | `gamma` | models × `split.window` × stride | γ |
/// | `parts` | models × parts × [`moments_len`] × stride | |
#[kernel(
    T = [f32, f64],
    requires(
        gaussians.holds(shape.grid.y),
        gaussians.dimensions >= 1,
        x.len() >= (first + split.rows) * gaussians.dimensions,
        gamma.len() >= shape.grid.y * split.window * gaussians.stride,
        parts.len() >= shape.grid.y * shape.grid.z * moments_len(gaussians.dimensions as usize, gaussians.full != 0) * gaussians.stride,
        shape.grid.x * shape.block >= moments_len(gaussians.dimensions as usize, gaussians.full != 0) * gaussians.stride,
        shape.block.x == shape.block,
    )
)]
pub fn moments<T: Real>(
    gaussians: Gaussians,
    first: u32,
    split: Split,
    x: Global<f64>,
    gamma: Global<T>,
    parts: GlobalMut<f64>,
) {
    let Gaussians { stride, dimensions, full, mean, .. } = gaussians;
    let Split { rows, window, split, more } = split;
    let (model, z) = (thread::block_idx_y() as usize, thread::block_idx_z());
    let (n, d) = (stride as usize, dimensions as usize);
    let len = moments_len(d, full != 0) * n;
    let l = (thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x()) as usize;
    if l >= len {
        return;
    }
    let (f, j) = (l / n, l % n);
    let from_mean = |row: u32, k: usize| x.get((first + row) as usize * d + k) - mean.get((model * d + k) * n + j);
    let mut sum = 0.0;
    let mut row = z * split;
    while row < (z * split + split).min(rows) {
        let g = gamma.get((model * window as usize + row as usize) * n + j).to_f64();
        sum += moment(g, f, d, full, |k| from_mean(row, k));
        row += 1;
    }
    let at = (model * thread::grid_dim_z() as usize + z as usize) * len + l;
    let before = if more != 0 { parts.get(at) } else { 0.0 };
    parts.set(at, before + sum);
}
