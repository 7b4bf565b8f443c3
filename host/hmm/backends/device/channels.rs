//! Emissions of [channels](crate::channels) on a device: the host computes their densities, and their sums from the posteriors.

use std::ops::Range;

use rayon::prelude::*;

use warpkov_kernels::hmm::{normal, power};

use crate::backend::sums_of_channels;
use crate::backends::cpu::{ChannelDensities, restrict};
use crate::backends::device::packing::Packing;
use crate::model::{Emissions, Hmm};
use crate::sequences::Sequences;
use warpkov_runtime::Precise;

/// Densities of the channels of each model; `None` for other models.
pub fn prepared(models: &[Hmm]) -> Option<Vec<ChannelDensities>> {
    let of = |model: &Hmm| match model.emissions() {
        Emissions::Channels(channels) => Some(ChannelDensities::new(model.start().len(), channels)),
        _ => None,
    };
    models.iter().map(of).collect()
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

/// Rows of `stride` densities, of their logarithms, and the logarithms of their scales, for each model and row of a packing.
pub fn tables<T: Precise>(
    densities: &[ChannelDensities],
    states: usize,
    stride: usize,
    packing: &Packing,
    sequences: &Sequences,
) -> (Vec<T>, Vec<T>, Vec<f64>) {
    let rows = packing.observation.len();
    let numbers = densities.len() * rows * stride;
    let (mut probs, mut logs) = (vec![T::ZERO; numbers], vec![T::NEG_INFINITY; numbers]);
    let mut shifts = vec![0.0; densities.len() * rows];
    let each = probs.par_chunks_exact_mut(stride).zip(logs.par_chunks_exact_mut(stride)).zip(&mut shifts).enumerate();
    each.for_each(|(row, ((probs, logs), shift))| {
        let (densities, at) = (&densities[row / rows], packing.observation[row % rows] as usize);
        let mut found = vec![0.0; states];
        densities.logs(densities.rows(sequences, at), &mut found);
        restrict(&mut found, sequences.state(at), f64::NEG_INFINITY);
        *shift = write_row(&found, probs, logs);
    });
    (probs, logs, shifts)
}

/// No sums of any model.
pub fn no_sums(models: &[Hmm]) -> Vec<Vec<f64>> {
    let of = |model: &Hmm| match model.emissions() {
        Emissions::Channels(channels) => vec![0.0; sums_of_channels(channels, model)],
        _ => Vec::new(),
    };
    models.iter().map(of).collect()
}

/// Adds posteriors of rows of a packing, each of `stride` numbers, to the sums of a model.
pub fn count<T: Precise>(
    densities: &ChannelDensities,
    (packing, sequences): (&Packing, &Sequences),
    rows: Range<u32>,
    gamma: &[T],
    stride: usize,
    sums: &mut [f64],
) {
    let observations = &packing.observation[rows.start as usize..rows.end as usize];
    for (&at, gamma) in observations.iter().zip(gamma.chunks_exact(stride)) {
        densities.count(densities.rows(sequences, at as usize), |state| gamma[state].to_f64(), sums);
    }
}
