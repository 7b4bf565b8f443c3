//! Emissions of [channels](crate::channels) on a device.
//!
//! The device computes the densities, and their sums from the posteriors, if all channels are [code](crate::channels::Code) or
//! exponential families with few statistics. Otherwise the host does.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use warpkov_device::launch::{Buffer, Device, Dim3, Shape};
use warpkov_kernels::hmm::emission::{ObservedLaunch, tabulate};
use warpkov_kernels::hmm::gaussian::THREADS;
use warpkov_kernels::hmm::model::Split;
use warpkov_kernels::hmm::{normal, power};

use crate::backend::sums_of_channels;
use crate::backends::cpu::{ChannelDensities, restrict};
use crate::backends::device::packing::Packing;
use crate::channels::{Law, natural};
use crate::model::{Emissions, Hmm};
use crate::sequences::Sequences;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

/// Maximum number of partial sums.
const PARTS: u32 = 64;

/// Maximum number of blocks that compute densities, each of several rows.
const BLOCKS: u64 = 1 << 16;

/// Densities of channels.
pub struct DeviceChannels {
    /// Those of each model on the host.
    densities: Vec<ChannelDensities>,
    /// The code of all densities; `None` if the host computes them.
    laws: Option<Vec<LawOnDevice>>,
    states: usize,
    stride: usize,
}

/// The densities of a channel as code, with its observations and the parameters of all models.
struct LawOnDevice {
    law: Arc<dyn Law>,
    /// How many sums come before those of the channel, and the place of those among all.
    skipped: usize,
    sums: Range<usize>,
    x: AnyBuffer<f64>,
    theta: AnyBuffer<f64>,
}

/// Rows of `stride` densities, of their logarithms, and the logarithms of their scales, for each model and row of a packing.
pub struct ShiftedTables<T: Precise> {
    pub table: AnyBuffer<T>,
    pub log_table: AnyBuffer<T>,
    pub shift: AnyBuffer<f64>,
}

/// One row of a table of densities, and of their logarithms. Returns the logarithm of the scale.
pub fn write_row<T: Precise>(found: &[f64], probs: &mut [T], logs: &mut [T]) -> f64 {
    let largest = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let largest = if largest > f64::NEG_INFINITY { largest } else { 0.0 };
    for ((&log, prob), entry) in found.iter().zip(probs).zip(logs) {
        // As the kernel does.
        let least = if log > f64::NEG_INFINITY { power(normal(T::WIDE)) } else { 0.0 };
        *entry = T::from_f64(log);
        *prob = T::from_f64((log - largest).exp().max(least));
    }
    largest
}

/// No sums of any model.
pub fn no_sums(models: &[Hmm]) -> Vec<Vec<f64>> {
    let of = |model: &Hmm| match model.emissions() {
        Emissions::Channels(channels) => vec![0.0; sums_of_channels(channels, model)],
        _ => Vec::new(),
    };
    models.iter().map(of).collect()
}

impl DeviceChannels {
    /// The densities of models of channels; `None` for other models.
    pub fn new(
        device: &AnyDevice,
        models: &[Hmm],
        stride: usize,
        packed: (&Packing, &Sequences),
    ) -> Result<Option<Self>, DeviceError> {
        let of = |model: &Hmm| match model.emissions() {
            Emissions::Channels(channels) => Some(ChannelDensities::new(model.start().len(), channels)),
            _ => None,
        };
        let densities: Option<Vec<ChannelDensities>> = models.iter().map(of).collect();
        let Some(densities) = densities.filter(|densities| !densities.is_empty()) else { return Ok(None) };
        let states = models[0].start().len();
        let mut made = Self { densities, laws: None, states, stride };
        made.laws = made.laws(device, packed)?;
        Ok(Some(made))
    }

    /// Uploads the densities as code.
    fn laws(
        &self,
        device: &AnyDevice,
        (packing, sequences): (&Packing, &Sequences),
    ) -> Result<Option<Vec<LawOnDevice>>, DeviceError> {
        let Self { densities, states, stride, .. } = self;
        let of_models: Option<Vec<_>> = densities.iter().map(ChannelDensities::on_device).collect();
        let Some(of_models) = of_models else { return Ok(None) };
        let rows = &packing.observation[..];
        // No statistics: the sum of γ.
        let (x, theta) = (device.zeros(rows.len())?, device.zeros(0)?);
        let mut laws = vec![LawOnDevice { law: natural(0), skipped: 0, sums: 0..1, x, theta }];
        for at in 0..of_models[0].len() {
            let (first, sums) = &of_models[0][at];
            let (law, skipped, sums) = (Arc::clone(&first.law), first.skipped, sums.clone());
            law.add_to_device(device)?;
            let (components, width) = (law.components(), law.parameters());
            let mut x = vec![0.0; rows.len() * components];
            x.par_chunks_exact_mut(components).zip(rows).for_each(|(x, &row)| {
                densities[0].prepare(at, densities[0].rows(sequences, row as usize), x);
            });
            let mut theta = vec![0.0; of_models.len() * width * stride];
            for (model, of_model) in of_models.iter().enumerate() {
                for (i, &number) in of_model[at].0.parameters.iter().enumerate() {
                    theta[(model * width + i % width) * stride + i / width] = number;
                }
            }
            debug_assert_eq!(of_models[0][at].0.parameters.len(), states * width);
            let (x, theta) = (device.upload(&x)?, device.upload(&theta)?);
            laws.push(LawOnDevice { law, skipped, sums, x, theta });
        }
        Ok(Some(laws))
    }

    fn observed<'l>(&self, law: &'l LawOnDevice, rows: u32) -> ObservedLaunch<'l, AnyDevice> {
        let (states, stride) = (self.states as u32, self.stride as u32);
        ObservedLaunch { states, stride, rows, x: &law.x, theta: &law.theta }
    }

    /// The tables of all models. `known` are the known states of the rows, if there are any.
    pub fn tables<T: Precise>(
        &self,
        device: &AnyDevice,
        (packing, sequences): (&Packing, &Sequences),
        known: &AnyBuffer<u32>,
    ) -> Result<ShiftedTables<T>, DeviceError> {
        let Self { densities, laws, states, stride } = self;
        let (rows, count) = (packing.observation.len(), densities.len());
        let numbers = count * rows * stride;
        if let Some(laws) = laws {
            let mut logs = device.zeros(numbers)?;
            let blocks = ((rows * states) as u64).div_ceil(256).min(BLOCKS) as u32;
            let shape = |x, threads| Shape::new(Dim3 { x, y: count as u32, z: 1 }, threads);
            let (table, log_table) = (device.zeros(numbers)?, device.zeros(numbers)?);
            let mut tables = ShiftedTables { table, log_table, shift: device.zeros(count * rows)? };
            let (observed, has_states) = (rows as u32, u32::from(!known.is_empty()));
            // SAFETY: each law has its components for all rows, and its parameters for all states of all models. The tables have
            // `stride` numbers for each row of each model, `known` is empty or has a state for each row.
            unsafe {
                for law in &laws[1..] {
                    law.law.launch_logs(device, shape(blocks, 256), self.observed(law, observed), &mut logs)?;
                }
                let ShiftedTables { table, log_table, shift } = &mut tables;
                tabulate(
                    device,
                    shape(observed, THREADS),
                    *states as u32,
                    *stride as u32,
                    &logs,
                    has_states,
                    known,
                    table,
                    log_table,
                    shift,
                )?;
            }
            return Ok(tables);
        }
        let (mut probs, mut logs) = (vec![T::ZERO; numbers], vec![T::NEG_INFINITY; numbers]);
        let mut shifts = vec![0.0; count * rows];
        let each =
            probs.par_chunks_exact_mut(*stride).zip(logs.par_chunks_exact_mut(*stride)).zip(&mut shifts).enumerate();
        each.for_each(|(row, ((probs, logs), shift))| {
            let (densities, at) = (&densities[row / rows], packing.observation[row % rows] as usize);
            let mut found = vec![0.0; *states];
            densities.logs(densities.rows(sequences, at), &mut found);
            restrict(&mut found, sequences.state(at), f64::NEG_INFINITY);
            *shift = write_row(&found, probs, logs);
        });
        Ok(ShiftedTables {
            table: device.upload(&probs)?,
            log_table: device.upload(&logs)?,
            shift: device.upload(&shifts)?,
        })
    }

    /// Adds the posteriors of a window to the sums of each model. It has these rows of the packing; γ has `capacity` rows per model.
    pub fn count<T: Precise>(
        &self,
        device: &AnyDevice,
        (packing, sequences): (&Packing, &Sequences),
        (window, capacity): (&Range<u32>, u32),
        gamma: &AnyBuffer<T>,
        sums: &mut [Vec<f64>],
    ) -> Result<(), DeviceError> {
        let Self { densities, laws, states, stride } = self;
        let Some(laws) = laws else {
            let all = device.to_vec(gamma)?;
            let observations = &packing.observation[window.start as usize..window.end as usize];
            let chunk = observations.len().div_ceil(PARTS as usize).max(1);
            let each = densities.iter().zip(all.chunks_exact(capacity as usize * stride)).zip(sums);
            for ((densities, gamma), sums) in each {
                let of_part = |(part, gamma): (&[u32], &[T])| {
                    let mut sums = vec![0.0; sums.len()];
                    for (&at, gamma) in part.iter().zip(gamma.chunks_exact(*stride)) {
                        densities.count(
                            densities.rows(sequences, at as usize),
                            |state| gamma[state].to_f64(),
                            &mut sums,
                        );
                    }
                    sums
                };
                let parts = observations.par_chunks(chunk).zip(gamma.par_chunks(chunk * stride));
                // Added in order: the same bits by any number of threads.
                for part in parts.map(of_part).collect::<Vec<_>>() {
                    sums.iter_mut().zip(part).for_each(|(sum, more)| *sum += more);
                }
            }
            return Ok(());
        };
        let count = densities.len();
        let parts = capacity.div_ceil(64).min(PARTS);
        let (rows, split) = (window.len() as u32, capacity.div_ceil(parts));
        let split = Split { rows, window: capacity, split, more: 0 };
        for law in laws {
            let len = law.law.sums() * stride;
            let mut found = device.zeros(count * parts as usize * len)?;
            let blocks = len.div_ceil(256) as u32;
            let shape = Shape::new(Dim3 { x: blocks, y: count as u32, z: parts }, 256);
            let (observed, first) = (self.observed(law, packing.rows()), window.start);
            // SAFETY: as for `tables`. `Packing::windows` yields windows within its rows, `gamma` has `capacity` rows per model, and
            // `found` has `parts` parts for each.
            unsafe { law.law.launch_sums(device, shape, observed, (first, split), gamma, &mut found)? };
            let found = device.to_vec(&found)?;
            for (part, found) in found.chunks_exact(len).enumerate() {
                let sums = &mut sums[part / parts as usize];
                let width = sums.len() / states;
                for (at, sum) in law.sums.clone().enumerate() {
                    let row = &found[(law.skipped + at) * stride..][..*states];
                    row.iter().enumerate().for_each(|(state, more)| sums[state * width + sum] += more);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use warpkov_runtime::emulator;

    use super::*;
    use crate::channels::{Channel, Channels, Code, Family, Poisson, StudentT};
    use crate::model::{HmmParts, Names};
    use crate::sequences::Observations;

    /// Whether the device computes the densities of these channels of one column each.
    fn on_device(families: Vec<Family>) -> bool {
        let d = families.len();
        let list = families.into_iter().zip(0..).map(|(family, column)| Channel { columns: vec![column], family });
        let channels = Channels { dimensions: d as u32, names: Vec::new(), list: list.collect() };
        let emissions = Emissions::Channels(channels);
        let parts =
            HmmParts { start: vec![1.0], transitions: vec![1.0], end: None, emissions, names: Names::default() };
        let sequences =
            Sequences::new(vec![0, 2], Observations::Vectors { dimensions: d as u32, values: vec![1.0; 2 * d] });
        let (model, sequences) = (parts.validated().unwrap(), sequences.unwrap());
        let packing = Packing::new(&sequences);
        let made = DeviceChannels::new(&emulator().into(), &[model], 8, (&packing, &sequences)).unwrap();
        made.unwrap().laws.is_some()
    }

    #[test]
    fn densities_stay_on_the_device_unless_a_channel_is_of_the_host() {
        let poisson = || Family::Poisson(Poisson { rates: vec![2.0] });
        let given = || Family::Code(Code::new(warpkov_kernels::hmm::emission::Given { states: 1 }, None, vec![0.0]));
        let [degrees, locations, scales] = [3.0, 0.0, 1.0].map(|x| vec![x]);
        assert!(on_device(vec![poisson()]) && on_device(vec![poisson(), given()]));
        assert!(!on_device(vec![poisson(), Family::StudentT(StudentT { degrees, locations, scales })]));
    }
}
