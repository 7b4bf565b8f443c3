//! Normal emissions: densities of every observation in every state, and moments of the observations that a state is thought to have
//! emitted.
//!
//! With Σⱼ = Lⱼ Lⱼᵀ, ln 𝒩(x; μⱼ, Σⱼ) = cⱼ − ½ ‖Lⱼ⁻¹ (x − μⱼ)‖², cⱼ = −½ D ln 2π − ln |Lⱼ|. The host gives μ, L⁻¹ and c, states side by side. What
//! is emitted by each row is a row of its own of the emission table, divided by its largest element: the recursions have
//! numbers near 1, and ln P(O) = … + Σ ln of what rows were divided by.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, block, kernel, math, thread, warp};

use crate::hmm::model::Split;
use crate::hmm::{normal, power};

/// Threads of a block of [`densities`].
pub const THREADS: u32 = 128;

/// The normal emissions of models, states side by side.
///
/// | field | shape, of a model | unit |
/// | --- | --- | --- |
/// | `stride` | 1 | states, with gaps |
/// | `dimensions` | 1 | D; 0 where symbols are emitted |
/// | `full` | 1 | 1 or 0 |
/// | `mean` | D × stride | that of observations |
/// | `inverse` | D × D, or D, × stride | 1 / that of observations |
/// | `constant` | stride | logarithm; −∞ where there is no state |
#[derive(Clone, Copy, Parameter)]
pub struct Gaussians {
    /// Elements of a row.
    pub stride: u32,
    /// D.
    pub dimensions: u32,
    /// Whether covariances are full, else diagonal.
    pub full: u32,
    /// μ\[d\]\[j\].
    pub mean: Global<f64>,
    /// L⁻¹\[d\]\[e\]\[j\], of which e ≤ d counts; or 1/σ\[d\]\[j\].
    pub inverse: Global<f64>,
    /// c\[j\].
    pub constant: Global<f64>,
}

/// Normal densities by several models, of what was observed.
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
    /// Of the rows of `x`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn new(gaussians: Gaussians, x: Global<f64>) -> Self {
        let Gaussians { stride, dimensions, full, mean, inverse, constant } = gaussians;
        Self { stride: stride as usize, dimensions: dimensions as usize, full, x, mean, inverse, constant }
    }

    /// Element k of x − μⱼ, x a row of what was observed.
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

/// Densities of each row, divided by the largest, whose logarithm is `shift[row]`, and normal numbers; and their logarithms themselves.
///
/// *Thread mapping*: a block per row, the grid's y the model; a thread per state. *Shared memory*: 33 words, static. *Barriers*: three.
/// *Deterministic*: yes. *Safety*: `x` has `rows` rows of D numbers; tables have as many rows for each model; blocks have [`THREADS`] threads.
#[kernel(T = [f32, f64])]
pub fn densities<T: Real>(
    gaussians: Gaussians,
    x: Global<f64>,
    table: GlobalMut<T>,
    log_table: GlobalMut<T>,
    shift: GlobalMut<f64>,
) {
    let all = warpkov_device::shared_array!(density_largest: f64; 1);
    let (row, model) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize);
    let n = gaussians.stride as usize;
    let place = model * thread::grid_dim_x() as usize + row;
    let densities = Densities::new(gaussians, x);
    let of = |j: usize| densities.log(model, row, j);
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

/// Σₜ `shift[row]` of each sequence.
///
/// *Thread mapping*: a warp per sequence, in blocks of one, the grid's y the model. *Deterministic*: yes, and the bits of a sequence do not
/// depend on the others. *Safety*: `shift` has `rows` elements for each model, `sums` one for each model and sequence.
#[kernel]
pub fn sum_shifts(rows: u32, lengths: Global<u32>, base: Global<u32>, shift: Global<f64>, sums: GlobalMut<f64>) {
    let (m, model) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize);
    let mut sum = 0.0;
    let mut t = warp::lane_id();
    while t < lengths.get(m) {
        sum += shift.get(model * rows as usize + base.get(t as usize) as usize + m);
        t += 32;
    }
    let sum = warp::reduce(sum, |a, b| a + b);
    if warp::lane_id() == 0 {
        sums.set(model * thread::grid_dim_x() as usize + m, sum);
    }
}

/// How many moments a state has: Σ γ, Σ γ (x − μ), and the diagonal or all of Σ γ (x − μ)(x − μ)ᵀ.
#[must_use]
pub const fn moments_len(dimensions: usize, full: bool) -> usize {
    1 + dimensions + if full { dimensions * dimensions } else { dimensions }
}

/// What γ of an observation adds to moment f of a state.
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

/// Moments in parts, [split] by rows of a window: `parts[z][f][j]`.
///
/// [split]: Split
///
/// *Thread mapping*: the grid's x is a chunk of the moments of all states, a thread each; its y the model, its z the part.
/// *Deterministic*: yes. *Safety*: the window's first row is row `first` of `x`; `gamma` has the window's rows for each model; the
/// rest as [`densities`].
#[kernel(T = [f32, f64])]
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
