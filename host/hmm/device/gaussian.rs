//! Gaussian emissions on a device: tables of densities, and moments.

use std::f64::consts::TAU;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::hmm::gaussian::{GaussiansArgs, THREADS, densities, moments, moments_len, sum_shifts};
use warpkov_kernels::hmm::model::Split;

use crate::backend::Statistics;
use crate::device::packing::{Packing, Window};
use crate::model::{Covariances, Emissions, Hmm, cholesky};
use crate::sequences::{Observations, Sequences};
use warpkov_runtime::Precise;

/// Observed vectors in the row order of a packing; empty for symbols.
pub fn vectors(packing: &Packing, sequences: &Sequences) -> Vec<f64> {
    match sequences.observations() {
        Observations::Symbols(_) => Vec::new(),
        Observations::Vectors { dimensions, values } => {
            let d = *dimensions as usize;
            packing.observation.iter().flat_map(|&at| &values[at as usize * d..][..d]).copied().collect()
        }
    }
}

/// Gaussian emissions of all models on a device; states are contiguous.
pub struct Gaussians {
    pub dimensions: usize,
    pub full: bool,
    mean: AnyBuffer<f64>,
    inverse: AnyBuffer<f64>,
    constant: AnyBuffer<f64>,
    /// Logarithm of the scale that divides the densities of each row.
    shift: AnyBuffer<f64>,
    /// Sum of `shift` over each sequence.
    pub shifts: AnyBuffer<f64>,
}

/// Tables of densities and of their logarithms, one row per observation.
pub struct Tables<T: Precise> {
    pub table: AnyBuffer<T>,
    pub log_table: AnyBuffer<T>,
}

/// L⁻¹ (D × D, lower triangular) and ln |L| of the Cholesky factor L of a covariance matrix.
fn inverted(matrix: &[f64], d: usize) -> (Vec<f64>, f64) {
    // `Hmm` guarantees positive definite matrices, so `cholesky` succeeds.
    let factor = cholesky(matrix, d).unwrap_or_else(|| vec![f64::NAN; d * d]);
    let mut inverse = vec![0.0; d * d];
    for column in 0..d {
        for row in column..d {
            let known: f64 = (column..row).map(|k| factor[row * d + k] * inverse[k * d + column]).sum();
            inverse[row * d + column] = (f64::from(u8::from(row == column)) - known) / factor[row * d + row];
        }
    }
    (inverse, (0..d).map(|k| factor[k * d + k].ln()).sum())
}

impl Gaussians {
    /// Uploads the emissions of `models` and computes their tables; `None` for categorical emissions.
    pub fn new<T: Precise>(
        device: &AnyDevice,
        models: &[Hmm],
        stride: usize,
        packing: &Packing,
        lengths: &AnyBuffer<u32>,
        base: &AnyBuffer<u32>,
        x: &AnyBuffer<f64>,
    ) -> Result<Option<(Self, Tables<T>)>, DeviceError> {
        let Some(Emissions::Gaussian { dimensions, covariances, .. }) = models.first().map(|model| model.emissions())
        else {
            return Ok(None);
        };
        let (d, full) = (*dimensions as usize, matches!(covariances, Covariances::Full(_)));
        let factors = if full { d * d } else { d };
        let count = models.len();
        let mut mean = vec![0.0; count * d * stride];
        let mut inverse = vec![0.0; count * factors * stride];
        let mut constant = vec![f64::NEG_INFINITY; count * stride];
        for (k, model) in models.iter().enumerate() {
            let Emissions::Gaussian { means, covariances, .. } = model.emissions() else { continue };
            for j in 0..model.states() as usize {
                let (of_state, log_determinant) = match covariances {
                    Covariances::Diagonal(variances) => {
                        let variances = &variances[j * d..][..d];
                        (
                            variances.iter().map(|x| 1.0 / x.sqrt()).collect(),
                            variances.iter().map(|x| 0.5 * x.ln()).sum(),
                        )
                    }
                    Covariances::Full(matrices) => inverted(&matrices[j * d * d..][..d * d], d),
                };
                for (f, &x) in of_state.iter().enumerate() {
                    inverse[(k * factors + f) * stride + j] = x;
                }
                for (f, &x) in means[j * d..][..d].iter().enumerate() {
                    mean[(k * d + f) * stride + j] = x;
                }
                constant[k * stride + j] = -0.5 * d as f64 * TAU.ln() - log_determinant;
            }
        }
        let (rows, sequences) = (packing.observation.len(), packing.lengths.len());
        let mut this = Self {
            dimensions: d,
            full,
            mean: device.upload(&mean)?,
            inverse: device.upload(&inverse)?,
            constant: device.upload(&constant)?,
            shift: device.zeros(count * rows)?,
            shifts: device.zeros(count * sequences)?,
        };
        let mut tables =
            Tables { table: device.zeros(count * rows * stride)?, log_table: device.zeros(count * rows * stride)? };
        let shape = |x: usize, threads| Shape::new(Dim3 { x: x as u32, y: count as u32, z: 1 }, threads);
        // SAFETY: `x` holds one vector per row of the `Packing`; `Sequences::fit` has compared its dimension with that
        // of the models, and `Hmm` guarantees N × D means and N × D or N × D × D covariances. The tables and `shift`
        // have `rows` rows per model, `shifts` one element per model and sequence.
        unsafe {
            densities(
                device,
                shape(rows, THREADS),
                GaussiansArgs {
                    stride: stride as u32,
                    dimensions: d as u32,
                    full: u32::from(full),
                    mean: &this.mean,
                    inverse: &this.inverse,
                    constant: &this.constant,
                },
                x,
                &mut tables.table,
                &mut tables.log_table,
                &mut this.shift,
            )?;
            let shape = shape(sequences, 32);
            sum_shifts(device, shape, packing.rows(), lengths, base, &this.shift, &mut this.shifts)?;
        }
        Ok(Some((this, tables)))
    }

    /// Kernel arguments.
    pub fn args(&self, stride: usize) -> GaussiansArgs<'_, AnyDevice> {
        GaussiansArgs {
            stride: stride as u32,
            dimensions: self.dimensions as u32,
            full: u32::from(self.full),
            mean: &self.mean,
            inverse: &self.inverse,
            constant: &self.constant,
        }
    }

    /// Number of moments per state.
    pub fn moments_len(&self) -> usize {
        moments_len(self.dimensions, self.full)
    }

    /// Launches the sums of the moments of a window, in `splits` parts. `more`: add to the parts of later windows.
    #[expect(clippy::too_many_arguments, reason = "all that sums are made of")]
    pub fn count<T: Precise>(
        &self,
        device: &AnyDevice,
        models: u32,
        stride: usize,
        window: &Window,
        capacity: u32,
        splits: u32,
        more: bool,
        x: &AnyBuffer<f64>,
        gamma: &AnyBuffer<T>,
        parts: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        let blocks = (self.moments_len() * stride).div_ceil(256) as u32;
        let shape = Shape::new(Dim3 { x: blocks, y: models, z: splits }, 256);
        let (rows, split) = (window.rows.len() as u32, capacity.div_ceil(splits));
        let split = Split { rows, window: capacity, split, more: u32::from(more) };
        // SAFETY: `Packing::windows` yields windows within the rows of `x`, `gamma` has `capacity` rows per model, and
        // the caller has sized `parts` for `splits` parts of each model.
        unsafe { moments(device, shape, self.args(stride), window.rows.start, split, x, gamma, parts) }
    }

    /// The statistics of a model of `n` states from its moments, in rows of `stride` elements.
    pub fn statistics(&self, sums: &[f64], n: usize, stride: usize) -> Statistics {
        let d = self.dimensions;
        let of =
            |first: usize, len: usize| (0..n * len).map(|at| sums[(first + at % len) * stride + at / len]).collect();
        Statistics::Gaussian { weights: of(0, 1), sums: of(1, d), squares: of(1 + d, self.moments_len() - 1 - d) }
    }
}
