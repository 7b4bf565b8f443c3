//! Models in the layout of the [kernels](warpkov_kernels::hmm): rows padded to a stride, models contiguous.

use warpkov_device::launch::{Buffer, Device};
use warpkov_kernels::hmm;
use warpkov_kernels::hmm::model::ModelArgs;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::model::{Emissions, Hmm};
use warpkov_runtime::Precise;

/// Models of equal shape on a device, as probabilities or logarithms.
pub struct Models<T: Precise> {
    /// π.
    pub start: AnyBuffer<T>,
    /// End probabilities, or 1.
    pub end: AnyBuffer<T>,
    /// Whether a model has end probabilities: 1 or 0.
    pub ends: AnyBuffer<u32>,
    /// A.
    pub transitions: AnyBuffer<T>,
    /// Aᵀ.
    pub transposed: AnyBuffer<T>,
    /// bⱼ(v) at v·stride + j; for Gaussian emissions a row per observation.
    pub table: AnyBuffer<T>,
}

impl<T: Precise> Models<T> {
    /// Kernel arguments; `symbols` is the number of rows of a model's emission table.
    pub fn args(&self, symbols: u32) -> ModelArgs<'_, T, AnyDevice> {
        ModelArgs {
            symbols,
            start: &self.start,
            transitions: &self.transitions,
            transposed: &self.transposed,
            table: &self.table,
            end: &self.end,
        }
    }

    /// Uploads probabilities. Positive ones are raised to the least value that the kernels [keep
    /// positive](warpkov_kernels::hmm).
    pub fn probabilities(device: &AnyDevice, models: &[Hmm], stride: usize) -> Result<Self, DeviceError> {
        Self::upload(device, models, stride, 0.0, |least, x| raised(x, least))
    }

    /// Uploads logarithms of the probabilities.
    pub fn logarithms(device: &AnyDevice, models: &[Hmm], stride: usize) -> Result<Self, DeviceError> {
        Self::upload(device, models, stride, f64::NEG_INFINITY, |_, x| x.ln())
    }

    /// Uploads all tables. `of` maps the exponent of a table's least positive number and a probability to an entry;
    /// `outside` fills the padding.
    fn upload(
        device: &AnyDevice,
        models: &[Hmm],
        stride: usize,
        outside: f64,
        of: impl Fn(i32, f64) -> f64,
    ) -> Result<Self, DeviceError> {
        let n = models.first().map_or(0, Hmm::states) as usize;
        let padded = |rows: usize, width: usize, least: i32, at: &dyn Fn(&Hmm, usize, usize) -> f64| {
            let cells = models.iter().flat_map(|model| {
                let of = &of;
                (0..rows).flat_map(move |i| {
                    (0..stride).map(move |j| if i < width && j < n { of(least, at(model, i, j)) } else { outside })
                })
            });
            let cells: Vec<f64> = cells.collect();
            device.upload(&T::rounded(&cells))
        };
        let symbols = models.first().map_or(0, symbols);
        let (normal, entry) = (hmm::normal(T::WIDE), hmm::entry(T::WIDE));
        Ok(Self {
            start: padded(1, 1, normal, &|model, _, j| model.start()[j])?,
            end: padded(1, 1, entry, &|model, _, j| model.end().map_or(1.0, |end| end[j]))?,
            ends: device.upload(&models.iter().map(|model| u32::from(model.end().is_some())).collect::<Vec<_>>())?,
            transitions: padded(stride, n, entry, &|model, i, j| model.transitions()[i * n + j])?,
            transposed: padded(stride, n, entry, &|model, i, j| model.transitions()[j * n + i])?,
            table: padded(symbols, symbols, normal, &|model, v, j| match model.emissions() {
                Emissions::Categorical { probs, .. } => probs[j * symbols + v],
                Emissions::Gaussian { .. } | Emissions::Channels(_) => outside,
            })?,
        })
    }
}

impl<T: Precise> Models<T> {
    /// Downloads the probabilities of categorical models into `hosts`. Rows from an f32 device are rescaled to sum to 1
    /// in f64.
    pub fn read(&self, device: &AnyDevice, stride: usize, hosts: &mut [Hmm]) -> Result<(), DeviceError> {
        let all = |buffer: &AnyBuffer<T>| {
            let mut found = vec![T::ZERO; buffer.len()];
            device.download(buffer, &mut found)?;
            Ok::<_, DeviceError>(found)
        };
        let (start, transitions, end, table) =
            (all(&self.start)?, all(&self.transitions)?, all(&self.end)?, all(&self.table)?);
        for (k, host) in hosts.iter_mut().enumerate() {
            let (n, v) = (host.start().len(), symbols(host));
            let of_start = |i: usize| start[k * stride + i];
            let of_transitions = |at: usize| transitions[(k * stride + at / n) * stride + at % n];
            let of_end = |i: usize| end[k * stride + i];
            let of_table = |at: usize| table[(k * v + at % v) * stride + at / v];
            fill(host, &of_start, &of_transitions, &of_end, &of_table);
        }
        Ok(())
    }
}

/// `prob`, raised to 2^`least` where it is positive.
pub fn raised(prob: f64, least: i32) -> f64 {
    if prob > 0.0 { prob.max(hmm::power(least)) } else { 0.0 }
}

/// Replaces a model by the one that [`Models::read`] returns where a device stores it. Gaussian models, whose M step is
/// that of the host, stay as they are.
pub fn round<T: Precise>(model: &mut Hmm) {
    let Emissions::Categorical { probs, .. } = model.emissions() else { return };
    let of =
        |probs: &[f64], least: i32| -> Vec<T> { probs.iter().map(|&prob| T::from_f64(raised(prob, least))).collect() };
    let (normal, entry) = (hmm::normal(T::WIDE), hmm::entry(T::WIDE));
    let (start, transitions) = (of(model.start(), normal), of(model.transitions(), entry));
    let (end, table) = (of(model.end().unwrap_or_default(), entry), of(probs, normal));
    fill(model, &|i| start[i], &|at| transitions[at], &|i| end[i], &|at| table[at]);
}

/// Replaces the probabilities of a model by those of π, A, end and B. Rows of f32 are rescaled to sum to 1 in f64.
fn fill<T: Precise>(
    model: &mut Hmm,
    start: &dyn Fn(usize) -> T,
    transitions: &dyn Fn(usize) -> T,
    end: &dyn Fn(usize) -> T,
    table: &dyn Fn(usize) -> T,
) {
    let take = |probs: &mut [f64], of: &dyn Fn(usize) -> T| {
        probs.iter_mut().enumerate().for_each(|(at, prob)| *prob = of(at).to_f64());
    };
    let scale = |probs: &mut [f64], last: Option<&mut f64>| {
        let total = probs.iter().sum::<f64>() + last.as_deref().copied().unwrap_or(0.0);
        if !T::WIDE && total > 0.0 {
            probs.iter_mut().chain(last).for_each(|prob| *prob /= total);
        }
    };
    model.update(|model| {
        let n = model.start.len();
        take(&mut model.start, start);
        scale(&mut model.start, None);
        take(&mut model.transitions, transitions);
        if let Some(ends) = &mut model.end {
            take(ends, end);
        }
        for (i, row) in model.transitions.chunks_exact_mut(n).enumerate() {
            scale(row, model.end.as_mut().map(|end| &mut end[i]));
        }
        if let Emissions::Categorical { symbols, probs } = &mut model.emissions {
            take(probs, table);
            probs.chunks_exact_mut(*symbols as usize).for_each(|row| scale(row, None));
        }
    });
}

/// V, or 0 for Gaussian emissions.
pub fn symbols(model: &Hmm) -> usize {
    model.emissions().symbols() as usize
}
