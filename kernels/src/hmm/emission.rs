//! Emissions as Rust code: the density of an observation and the statistics of its M step are functions.
//!
//! An emission is a type that implements [`Emission`]; the parameters of each state are numbers that training changes.
//! [`emission!`](crate::emission) compiles the kernels of this file for it, in the crate that owns the type:
//!
//! ```
//! use warpkov_device::device::{Parameter, Real};
//! use warpkov_kernels::hmm::Emission;
//!
//! /// Laplace densities b(x) = e^(−|x − μ| / s) / 2s, with parameters μ and s.
//! #[derive(Clone, Copy, Parameter)]
//! pub struct Laplace {
//!     /// The least s that training finds.
//!     pub least: f64,
//! }
//!
//! impl Emission for Laplace {
//!     fn components(&self) -> u32 {
//!         1
//!     }
//!     fn parameters(&self) -> u32 {
//!         2
//!     }
//!     fn log_density(&self, theta: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
//!         let (location, scale) = (theta(0), theta(1));
//!         -(x(0) - location).abs() / scale - Real::ln(2.0 * scale)
//!     }
//!     // For a known location, the M step needs the mean distance from it.
//!     fn statistics(&self) -> u32 {
//!         1
//!     }
//!     fn statistic(&self, _: u32, theta: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
//!         (x(0) - theta(0)).abs()
//!     }
//!     #[cfg(not(target_arch = "nvptx64"))]
//!     fn maximise(&self, theta: &mut [f64], weight: f64, sums: &[f64]) {
//!         theta[1] = (sums[0] / weight).max(self.least);
//!     }
//! }
//!
//! warpkov_kernels::emission!(Laplace);
//! # fn main() {}
//! ```
//!
//! The kernels add the densities of several channels to one table of logarithms; [`tabulate`] makes the rows of the
//! recursions from it.

#[cfg(not(target_arch = "nvptx64"))]
use warpkov_device::device::Scalars;
#[cfg(not(target_arch = "nvptx64"))]
use warpkov_device::launch::{Device, Shape};

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, kernel, thread};

#[cfg(not(target_arch = "nvptx64"))]
use crate::hmm::gaussian::THREADS;
use crate::hmm::gaussian::{ANY_STATE, write_row};
use crate::hmm::model::Split;

/// Emissions as code: densities bⱼ(x) of vectors x of C components in states with P parameters each.
///
/// An emission is plain data, the same for all states. The kernels copy it to every thread. The same code runs on the GPU, on
/// the CPU and under the emulator; on a GPU, a panic ends the program. Functions of numbers are those of
/// [`Real`], which give the same bits everywhere.
pub trait Emission: Copy {
    /// C, at least 1.
    fn components(&self) -> u32;

    /// P.
    fn parameters(&self) -> u32;

    /// ln b(x) of the state whose parameters are `theta(0)` to `theta(P − 1)`; −∞ where b(x) is 0. Missing components of x, which
    /// is `x(0)` to `x(C − 1)`, are NaN. A vector without any component has density 1, and no function is asked about it.
    ///
    /// A component may be an input on which the density depends: ln P(O) is then conditional on it.
    fn log_density(&self, theta: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64;

    /// Number of statistics whose sums [`maximise`](Self::maximise) needs. Without any, training leaves the parameters as they are.
    fn statistics(&self) -> u32 {
        0
    }

    /// Statistic `index` of x in the state with these parameters.
    fn statistic(&self, index: u32, theta: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        let _ = (index, theta, x);
        0.0
    }

    /// The M step of a state: replaces its parameters, given Σ γₜ = `weight` > 0 and the sums Σ γₜ tₖ(xₜ) of all statistics. The
    /// expected log-likelihood Σ γₜ ln b(xₜ) must not decrease, or training stops with an error.
    #[cfg(not(target_arch = "nvptx64"))]
    fn maximise(&self, theta: &mut [f64], weight: f64, sums: &[f64]) {
        let _ = (theta, weight, sums);
    }

    /// Draws x in a state, from `uniform` numbers in \[0, 1). `None`, the default, if there is no way to.
    #[cfg(not(target_arch = "nvptx64"))]
    fn draw(&self, theta: &[f64], uniform: &mut dyn FnMut() -> f64) -> Option<Vec<f64>> {
        let _ = (theta, uniform);
        None
    }
}

/// An emission whose kernels are compiled: the launchers that [`emission!`](crate::emission) implements.
#[cfg(not(target_arch = "nvptx64"))]
pub trait CompiledEmission: Emission + Scalars + Send + Sync + 'static {
    /// The name of the type.
    const NAME: &'static str;

    /// Launches [`Observed::add_logs`].
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As for [`Device::launch`].
    unsafe fn add_logs<D: Device>(
        self,
        device: &D,
        shape: Shape,
        observed: ObservedLaunch<'_, D>,
        logs: &mut D::Buffer<f64>,
    ) -> Result<(), D::Error>;

    /// Launches [`Observed::sum`].
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As for [`Device::launch`].
    unsafe fn sum<T: Real, D: Device>(
        self,
        device: &D,
        shape: Shape,
        observed: ObservedLaunch<'_, D>,
        window: (u32, Split),
        gamma: &D::Buffer<T>,
        parts: &mut D::Buffer<f64>,
    ) -> Result<(), D::Error>;
}

/// Observations, and the parameters of all states, with consecutive states in consecutive elements.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | N ≥ 1 |
/// | `stride` | scalar | elements per row, ≥ N |
/// | `rows` | scalar | steps of all sequences |
/// | `x` | rows × C | NaN where a component is missing |
/// | `theta` | models × P × stride | |
#[derive(Clone, Copy)]
pub struct Observed {
    /// N.
    pub states: u32,
    /// Elements per row.
    pub stride: u32,
    /// Steps of all sequences.
    pub rows: u32,
    /// x of each row.
    pub x: Global<f64>,
    /// θ\[p\]\[j\].
    pub theta: Global<f64>,
}

/// [`Observed`] for a launch.
#[cfg(not(target_arch = "nvptx64"))]
#[allow(missing_docs, reason = "the fields are those of the kernel's body")]
pub struct ObservedLaunch<'a, D: Device> {
    pub states: u32,
    pub stride: u32,
    pub rows: u32,
    pub x: &'a D::Buffer<f64>,
    pub theta: &'a D::Buffer<f64>,
}

impl Observed {
    /// x of a row; `None` if all components are missing.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn row<E: Emission>(self, law: &E, row: usize) -> Option<impl Fn(u32) -> f64 + Copy> {
        let components = law.components();
        let x = move |c: u32| self.x.get(row * components as usize + c as usize);
        let mut c = 0;
        while c < components && x(c).is_nan() {
            c += 1;
        }
        (c < components).then_some(x)
    }

    /// θ of a state.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn state<E: Emission>(self, law: &E, model: usize, j: usize) -> impl Fn(u32) -> f64 + Copy {
        let (first, stride) = (model * law.parameters() as usize, self.stride as usize);
        move |p: u32| self.theta.get((first + p as usize) * stride + j)
    }

    /// Adds ln bⱼ(x) of each row and state: the body of kernel `NAME_logs`.
    ///
    /// - *Thread mapping*: a thread per row and state in a grid-stride loop along grid x; grid y is the model.
    /// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `logs`, but for its padding.
    ///
    /// *Safety*: `logs` has models × rows × stride elements, and is no part of `self`. *Launch*: any grid.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn add_logs<E: Emission>(self, law: &E, logs: GlobalMut<f64>) {
        let (n, stride, rows) = (u64::from(self.states), self.stride as usize, self.rows as usize);
        let model = thread::block_idx_y() as usize;
        let step = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
        let mut at = u64::from(thread::block_idx_x()) * u64::from(thread::block_dim_x());
        at += u64::from(thread::thread_idx_x());
        while at < n * rows as u64 {
            let (row, j) = ((at / n) as usize, (at % n) as usize);
            if let Some(x) = self.row(law, row) {
                let place = (model * rows + row) * stride + j;
                logs.set(place, logs.get(place) + law.log_density(self.state(law, model, j), x));
            }
            at += step;
        }
    }

    /// Sums in parts, divided by rows of a window as [`Split`] says: the body of kernel `NAME_sums`.
    ///
    /// - *Mathematics*: `parts[z][0][j]` = Σₜ γₜ(j) and `parts[z][1 + k][j]` = Σₜ γₜ(j) tₖ(xₜ), over the rows with a component.
    /// - *Thread mapping*: a thread per sum and state along grid x; grid y is the model, z the part.
    /// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `parts`.
    ///
    /// *Safety*: `first` is the row of `x` of the window's first row, and `x` has the window's rows; `gamma` has models ×
    /// `split.window` × stride elements, `parts` has models × parts × sums × stride, and is no part of another. *Launch*: a thread
    /// for each sum and state.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn sum<E: Emission, T: Real>(self, law: &E, first: u32, split: Split, gamma: Global<T>, parts: GlobalMut<f64>) {
        let Split { rows, window, split, more } = split;
        let (model, z) = (thread::block_idx_y() as usize, thread::block_idx_z());
        let stride = self.stride as usize;
        let len = sums_len(law) as usize * stride;
        let l = (thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x()) as usize;
        if l >= len {
            return;
        }
        let (index, j) = (l / stride, l % stride);
        let at = (model * thread::grid_dim_z() as usize + z as usize) * len + l;
        let mut sum = if more != 0 { parts.get(at) } else { 0.0 };
        if j < self.states as usize {
            let theta = self.state(law, model, j);
            let mut row = z * split;
            while row < (z * split + split).min(rows) {
                let g = gamma.get((model * window as usize + row as usize) * stride + j).to_f64();
                if g > 0.0
                    && let Some(x) = self.row(law, (first + row) as usize)
                {
                    sum += g * if index == 0 { 1.0 } else { law.statistic(index as u32 - 1, theta, x) };
                }
                row += 1;
            }
        }
        parts.set(at, sum);
    }
}

/// Sums per state: of γ, and of γ times each statistic.
#[inline(always)]
pub fn sums_len<E: Emission>(law: &E) -> u32 {
    1 + law.statistics()
}

/// Densities of each row, divided by the largest and raised to normal numbers, and their logarithms before the division, as by
/// [`densities`](super::gaussian::densities), from the sums of the logarithms over all channels. NaN, which is ∞ − ∞, stands for −∞.
///
/// - *Thread mapping*: a block per row, `block_idx_y` the model; a thread per state.
/// - *Shared memory*: 33 words, static. *Barriers*: three. *Deterministic*: yes.
/// - *Valid result in*: `table`, `log_table` and `shift`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | N ≤ `stride` |
/// | `stride` | scalar | elements per row |
/// | `logs` | models × rows × stride | logarithm |
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
        logs.len() >= shape.grid * stride,
        if known > 0 { state.len() >= shape.grid.x },
        table.len() >= shape.grid * stride,
        log_table.len() >= shape.grid * stride,
        shift.len() >= shape.grid,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = THREADS
)]
pub fn tabulate<T: Real>(
    states: u32,
    stride: u32,
    logs: Global<f64>,
    known: u32,
    state: Global<u32>,
    table: GlobalMut<T>,
    log_table: GlobalMut<T>,
    shift: GlobalMut<f64>,
) {
    let (row, model) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize);
    let first = (model * thread::grid_dim_x() as usize + row) * stride as usize;
    let log = |j: usize| {
        let log = if j < states as usize { logs.get(first + j) } else { f64::NEG_INFINITY };
        if log.is_nan() { f64::NEG_INFINITY } else { log }
    };
    let state = if known > 0 { state.get(row) } else { ANY_STATE };
    write_row(stride as usize, state, log, table, log_table, shift);
}

/// The emissions of an exponential family, ln b(x) = h(x) + Σ T(x) η: x is h(x) and all statistics T(x), and η are the parameters.
/// A statistic of 0 adds nothing, even if its η is −∞.
#[derive(Clone, Copy, Parameter)]
pub struct Natural {
    /// Number of statistics.
    pub statistics: u32,
}

impl Emission for Natural {
    fn components(&self) -> u32 {
        1 + self.statistics
    }

    fn parameters(&self) -> u32 {
        self.statistics
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn log_density(&self, theta: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        let mut log = x(0);
        let mut k = 0;
        while k < self.statistics {
            let statistic = x(1 + k);
            if statistic != 0.0 {
                log += statistic * theta(k);
            }
            k += 1;
        }
        log
    }

    fn statistics(&self) -> u32 {
        self.statistics
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn statistic(&self, index: u32, _: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        x(1 + index)
    }
}

crate::emission!(Natural);

/// Densities that are given: component j of x is ln b(x) of state j, whose parameter is j. Numbers below −10³⁰⁰ stand for −∞.
#[derive(Clone, Copy, Parameter)]
pub struct Given {
    /// N.
    pub states: u32,
}

impl Emission for Given {
    fn components(&self) -> u32 {
        self.states
    }

    fn parameters(&self) -> u32 {
        1
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn log_density(&self, theta: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        let j = theta(0) as u32;
        let log = if j < self.states { x(j) } else { f64::NAN };
        if log < -1e300 { f64::NEG_INFINITY } else { log }
    }
}

crate::emission!(Given);

/// Compiles the kernels of emissions: `emission!(Laplace);` in the module of the kernels, beside the type, which implements
/// [`Emission`] and derives `Clone`, `Copy` and `Parameter`.
///
/// It defines the kernels `laplace_logs` and `laplace_sums`, and implements [`CompiledEmission`].
#[macro_export]
macro_rules! emission {
    ($law:ident) => {
        ::warpkov_device::device::__with_prefix! { $law
            /// Adds the logarithms of densities: see `warpkov_kernels::hmm::emission`.
            ///
            /// # Safety
            /// As for the function of the same name in that module.
            #[::warpkov_device::device::kernel(
                requires(
                    states >= 1,
                    stride >= states,
                    x.len() >= rows * $crate::hmm::Emission::components(&law),
                    theta.len() >= shape.grid.y * $crate::hmm::Emission::parameters(&law) * stride,
                    logs.len() >= shape.grid.y * rows * stride,
                    shape.dimensions <= 2,
                    shape.block.x == shape.block,
                )
            )]
            pub fn PREFIX_logs(
                law: $law,
                states: u32,
                stride: u32,
                rows: u32,
                x: ::warpkov_device::device::Global<f64>,
                theta: ::warpkov_device::device::Global<f64>,
                logs: ::warpkov_device::device::GlobalMut<f64>,
            ) {
                $crate::hmm::emission::Observed { states, stride, rows, x, theta }.add_logs(&law, logs);
            }

            /// Sums of γ and of γ times the statistics: see `warpkov_kernels::hmm::emission`.
            ///
            /// # Safety
            /// As for the function of the same name in that module.
            #[::warpkov_device::device::kernel(
                T = [f32, f64],
                requires(
                    states >= 1,
                    stride >= states,
                    x.len() >= (first + rows) * $crate::hmm::Emission::components(&law),
                    theta.len() >= shape.grid.y * $crate::hmm::Emission::parameters(&law) * stride,
                    window >= rows,
                    split >= 1,
                    gamma.len() >= shape.grid.y * window * stride,
                    parts.len() >= shape.grid.y * shape.grid.z * $crate::hmm::emission::sums_len(&law) * stride,
                    shape.grid.x * shape.block >= $crate::hmm::emission::sums_len(&law) * stride,
                    shape.block.x == shape.block,
                )
            )]
            pub fn PREFIX_sums<T: ::warpkov_device::device::Real>(
                law: $law,
                states: u32,
                stride: u32,
                x: ::warpkov_device::device::Global<f64>,
                theta: ::warpkov_device::device::Global<f64>,
                first: u32,
                rows: u32,
                window: u32,
                split: u32,
                more: u32,
                gamma: ::warpkov_device::device::Global<T>,
                parts: ::warpkov_device::device::GlobalMut<f64>,
            ) {
                let observed = $crate::hmm::emission::Observed { states, stride, rows, x, theta };
                observed.sum(&law, first, $crate::hmm::model::Split { rows, window, split, more }, gamma, parts);
            }

            #[cfg(not(target_arch = "nvptx64"))]
            impl $crate::hmm::emission::CompiledEmission for $law {
                const NAME: &'static str = stringify!($law);

                unsafe fn add_logs<D: ::warpkov_device::launch::Device>(
                    self,
                    device: &D,
                    shape: ::warpkov_device::launch::Shape,
                    observed: $crate::hmm::emission::ObservedLaunch<'_, D>,
                    logs: &mut D::Buffer<f64>,
                ) -> ::core::result::Result<(), D::Error> {
                    let $crate::hmm::emission::ObservedLaunch { states, stride, rows, x, theta } = observed;
                    // SAFETY: the caller's promise.
                    unsafe { PREFIX_logs(device, shape, self, states, stride, rows, x, theta, logs) }
                }

                unsafe fn sum<T: ::warpkov_device::device::Real, D: ::warpkov_device::launch::Device>(
                    self,
                    device: &D,
                    shape: ::warpkov_device::launch::Shape,
                    observed: $crate::hmm::emission::ObservedLaunch<'_, D>,
                    (first, split): (u32, $crate::hmm::model::Split),
                    gamma: &D::Buffer<T>,
                    parts: &mut D::Buffer<f64>,
                ) -> ::core::result::Result<(), D::Error> {
                    let $crate::hmm::emission::ObservedLaunch { states, stride, x, theta, .. } = observed;
                    let $crate::hmm::model::Split { rows, window, split, more } = split;
                    // SAFETY: the caller's promise.
                    unsafe {
                        PREFIX_sums(
                            device, shape, self, states, stride, x, theta, first, rows, window, split, more, gamma,
                            parts,
                        )
                    }
                }
            }
        }
    };
}
