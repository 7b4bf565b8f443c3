//! Gaussian emissions on a device: tables of densities, and moments.
//!
//! The kernels take complete vectors. The host computes the densities and the moments of vectors with missing
//! components, which the device has as zeros, and adds them to those of the device.
//! Where the state of a vector is known, its densities in all other states are 0.

use std::f64::consts::TAU;

use rayon::prelude::*;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_device::launch::{Buffer, Device, Dim3, Shape};
use warpkov_kernels::hmm::gaussian::{GaussiansArgs, THREADS, densities, moments, moments_len, sum_shifts};
use warpkov_kernels::hmm::model::Split;

use crate::backend::Statistics;
use crate::backends::cpu::{Completion, Densities, is_partial, restrict};
use crate::backends::device::channels::{DeviceChannels, ShiftedTables, write_row};
use crate::backends::device::launch::Launch;
use crate::backends::device::packing::Packing;
use crate::backends::device::variant::Back;
use crate::model::{Covariances, Emissions, Hmm, cholesky};
use crate::sequences::{Observations, Sequences};
use warpkov_runtime::Precise;

/// A vector with missing components.
pub struct Partial {
    /// Its row in a packing.
    pub row: u32,
    /// D components; NaN where one is missing.
    pub x: Vec<f64>,
    /// Its state, if that is known.
    state: Option<u32>,
}

/// The vectors with missing components, in the row order of a packing.
pub fn partial(packing: &Packing, sequences: &Sequences) -> Vec<Partial> {
    match sequences.observations() {
        Observations::Vectors { dimensions, values } if sequences.partial() > 0 => {
            let d = *dimensions as usize;
            let rows = (0..).zip(packing.observation.iter().map(|&at| at as usize));
            let rows = rows.map(|(row, at)| (row, &values[at * d..][..d], sequences.state(at)));
            rows.filter(|(_, x, _)| is_partial(x))
                .map(|(row, x, state)| Partial { row, x: x.to_vec(), state })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Observed vectors in the row order of a packing, 0 for missing components; empty for symbols.
pub fn vectors(packing: &Packing, sequences: &Sequences) -> Vec<f64> {
    match sequences.observations() {
        Observations::Symbols(_) => Vec::new(),
        Observations::Vectors { dimensions, values } => {
            let d = *dimensions as usize;
            let row = |&at: &u32| &values[at as usize * d..][..d];
            let number = |x: &f64| if x.is_nan() { 0.0 } else { *x };
            packing.observation.iter().flat_map(row).map(number).collect()
        }
    }
}

/// Known states of vectors in the row order of a packing; empty if none is known, and for symbols.
pub fn states(packing: &Packing, sequences: &Sequences) -> Vec<u32> {
    match (sequences.observations(), sequences.states()) {
        (Observations::Symbols(_), _) | (_, []) => Vec::new(),
        (_, states) => packing.observation.iter().map(|&at| states[at as usize]).collect(),
    }
}

/// Gaussian emissions of all models on a device; states are contiguous.
pub struct Gaussians {
    pub dimensions: usize,
    pub full: bool,
    mean: AnyBuffer<f64>,
    inverse: AnyBuffer<f64>,
    constant: AnyBuffer<f64>,
    /// The densities of channels; the buffers before are then empty.
    pub channels: Option<DeviceChannels>,
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
    #[expect(clippy::too_many_arguments, reason = "all that tables are made of")]
    pub fn new<T: Precise>(
        device: &AnyDevice,
        models: &[Hmm],
        sequences: &Sequences,
        stride: usize,
        packing: &Packing,
        lengths: &AnyBuffer<u32>,
        base: &AnyBuffer<u32>,
        x: &AnyBuffer<f64>,
        states: &AnyBuffer<u32>,
        partial: &[Partial],
    ) -> Result<Option<(Self, Tables<T>)>, DeviceError> {
        let packed = (packing, sequences);
        if let Some(channels) = DeviceChannels::new(device, models, stride, packed)? {
            return Self::of_channels(device, channels, packed, models.len(), lengths, base, states).map(Some);
        }
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
            channels: None,
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
        // have `rows` rows per model, `shifts` one element per model and sequence; `states` is empty or has one per row.
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
                u32::from(!states.is_empty()),
                states,
                &mut tables.table,
                &mut tables.log_table,
                &mut this.shift,
            )?;
            this.marginalise(device, models, stride, partial, &mut tables)?;
        }
        this.sum_shifts(device, count, packing, lengths, base)?;
        Ok(Some((this, tables)))
    }

    /// Computes the tables of channels.
    fn of_channels<T: Precise>(
        device: &AnyDevice,
        channels: DeviceChannels,
        packed: (&Packing, &Sequences),
        count: usize,
        lengths: &AnyBuffer<u32>,
        base: &AnyBuffer<u32>,
        states: &AnyBuffer<u32>,
    ) -> Result<(Self, Tables<T>), DeviceError> {
        let ShiftedTables { table, log_table, shift } = channels.tables::<T>(device, packed, states)?;
        let mut this = Self {
            dimensions: 0,
            full: false,
            mean: device.zeros(0)?,
            inverse: device.zeros(0)?,
            constant: device.zeros(0)?,
            channels: Some(channels),
            shift,
            shifts: device.zeros(count * packed.0.lengths.len())?,
        };
        this.sum_shifts(device, count, packed.0, lengths, base)?;
        Ok((this, Tables { table, log_table }))
    }

    /// Launches the sums of the shifts of each sequence under `count` models.
    fn sum_shifts(
        &mut self,
        device: &AnyDevice,
        count: usize,
        packing: &Packing,
        lengths: &AnyBuffer<u32>,
        base: &AnyBuffer<u32>,
    ) -> Result<(), DeviceError> {
        let shape = Shape::new(Dim3 { x: packing.lengths.len() as u32, y: count as u32, z: 1 }, 32);
        // SAFETY: `shift` has an element for each model and row of the packing, `shifts` one for each model and sequence.
        unsafe { sum_shifts(device, shape, packing.rows(), lengths, base, &self.shift, &mut self.shifts) }
    }

    /// Replaces the rows of vectors with missing components by their marginal densities.
    fn marginalise<T: Precise>(
        &mut self,
        device: &AnyDevice,
        models: &[Hmm],
        stride: usize,
        partial: &[Partial],
        Tables { table, log_table }: &mut Tables<T>,
    ) -> Result<(), DeviceError> {
        if partial.is_empty() {
            return Ok(());
        }
        let (mut probs, mut logs) = (device.to_vec(table)?, device.to_vec(log_table)?);
        let mut shifts = device.to_vec(&self.shift)?;
        let rows = shifts.len() / models.len();
        for (k, model) in models.iter().enumerate() {
            let Emissions::Gaussian { dimensions, means, covariances } = model.emissions() else { continue };
            let n = model.start().len();
            let densities = Densities::new(n, *dimensions as usize, means, covariances);
            let of_row = |Partial { x, state, .. }: &Partial| {
                let mut found = vec![0.0; densities.stride()];
                densities.logs(x, &mut found);
                restrict(&mut found, *state, f64::NEG_INFINITY);
                found.truncate(n);
                found
            };
            let found: Vec<Vec<f64>> = partial.par_iter().map(of_row).collect();
            for (Partial { row, .. }, found) in partial.iter().zip(found) {
                let at = k * rows + *row as usize;
                let row = at * stride..(at + 1) * stride;
                shifts[at] = write_row(&found, &mut probs[row.clone()], &mut logs[row]);
            }
        }
        device.write(table, &probs)?;
        device.write(log_table, &logs)?;
        device.write(&mut self.shift, &shifts)
    }

    /// Adds the moments of the vectors with missing components in a window to `moments`, rows of `stride` numbers for
    /// each model, and returns γ with 0 in the rows of these vectors; `None` if the window has none.
    #[expect(clippy::too_many_arguments, reason = "all that sums are made of")]
    pub fn complete<T: Precise>(
        &self,
        device: &AnyDevice,
        models: &[Hmm],
        stride: usize,
        Back { window, capacity, .. }: &Back<'_>,
        partial: &[Partial],
        gamma: &AnyBuffer<T>,
        moments: &mut [f64],
    ) -> Result<Option<AnyBuffer<T>>, DeviceError> {
        let first = partial.partition_point(|partial| partial.row < window.rows.start);
        let last = partial.partition_point(|partial| partial.row < window.rows.end);
        if first == last {
            return Ok(None);
        }
        let (d, len) = (self.dimensions, self.moments_len());
        let mut all = device.to_vec(gamma)?;
        // The buffer may be longer.
        let of_model = *capacity as usize * stride;
        let each = models.iter().zip(all.chunks_exact_mut(of_model)).zip(moments.chunks_exact_mut(len * stride));
        for ((model, gamma), moments) in each {
            let Emissions::Gaussian { means, covariances, .. } = model.emissions() else { continue };
            let densities = Densities::new(model.start().len(), d, means, covariances);
            for Partial { row, x, .. } in &partial[first..last] {
                let gamma = &mut gamma[(row - window.rows.start) as usize * stride..][..stride];
                densities.completions(x, |Completion { state, deviation, covariance }| {
                    let g = gamma[state].to_f64();
                    let width = covariance.len();
                    let mut add = |f: usize, more: f64| moments[f * stride + state] += g * more;
                    add(0, 1.0);
                    (0..d).for_each(|k| add(1 + k, deviation[k]));
                    for (entry, more) in covariance.iter().enumerate() {
                        let (a, b) = if width > d { (entry / d, entry % d) } else { (entry, entry) };
                        add(1 + d + entry, deviation[a] * deviation[b] + more);
                    }
                });
                gamma.fill(T::ZERO);
            }
        }
        Ok(Some(device.upload(&all)?))
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

    /// Number of moments per state; 0 for channels.
    pub fn moments_len(&self) -> usize {
        if self.channels.is_some() { 0 } else { moments_len(self.dimensions, self.full) }
    }

    /// Launches the sums of the moments of a window after its backward recursion, in `splits` parts. `gamma` is that of the
    /// trellis without the vectors that [`complete`](Self::complete) takes.
    pub fn count<T: Precise>(
        &self,
        launch: &Launch<'_, T>,
        Back { window, capacity, more, .. }: &Back<'_>,
        splits: u32,
        x: &AnyBuffer<f64>,
        gamma: &AnyBuffer<T>,
        parts: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        let (device, stride) = (launch.device, launch.stride);
        let blocks = (self.moments_len() * stride).div_ceil(256) as u32;
        let shape = Shape::new(Dim3 { x: blocks, y: launch.count, z: splits }, 256);
        let (rows, split) = (window.rows.len() as u32, capacity.div_ceil(splits));
        let split = Split { rows, window: *capacity, split, more: u32::from(*more) };
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
