//! The kinds of layout of a model for value iteration. Each file has one of them: what the host computes, its arrays in device
//! memory, and the launch of its sweep. The arrays are [`ModelNumbers`], two in the precision of V, and an index of integers that
//! all precisions share.

pub(super) mod narrow;
pub(super) mod patterns;
pub(crate) mod rows;
pub(super) mod slices;

use std::rc::Rc;

use warpkov_device::device::Offset;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::backup::convert;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::sweeps::{BackupLaunch, THREADS};
use narrow::NarrowIndex;
use patterns::PatternIndex;
use rows::RowIndex;
use slices::SliceIndex;

/// Sizes of the arrays of a layout.
pub(super) struct Footprint {
    /// Elements of the longest array into which offsets point.
    pub longest: usize,
    /// Bytes of the index, which all precisions share.
    pub shared: usize,
    /// Number of probabilities and rewards that a sweep reads.
    pub numbers: usize,
}

/// A model in device memory.
pub(super) struct Uploaded<'m, T: Precise, O: Offset> {
    pub index: Rc<AnyIndex<'m, O>>,
    pub numbers: ModelNumbers<T>,
}

/// The arrays of a layout that are not in T.
pub(super) enum AnyIndex<'m, O: Offset> {
    Rows(RowIndex<O>),
    Slices(SliceIndex<'m, O>),
    Narrow8(NarrowIndex<O, i8>),
    Narrow16(NarrowIndex<O, i16>),
    Patterns(PatternIndex),
}

/// The arrays of a layout in T.
pub(crate) struct ModelNumbers<T: Precise> {
    /// Probabilities; discounted ones except in rows.
    pub prob: AnyBuffer<T>,
    /// Expected rewards.
    pub reward: AnyBuffer<T>,
}

impl<T: Precise> ModelNumbers<T> {
    pub fn upload(device: &AnyDevice, prob: &[f64], reward: &[f64]) -> Result<Self, DeviceError> {
        Ok(Self { prob: device.upload(&T::rounded(prob))?, reward: device.upload(&T::rounded(reward))? })
    }
}

impl<T: Precise, O: Offset> Uploaded<'_, T, O> {
    /// Launches a sweep.
    ///
    /// # Safety
    /// As [`BackupLaunch`] says.
    pub unsafe fn launch(&self, launch: BackupLaunch<T>) -> Result<(), DeviceError> {
        let numbers = &self.numbers;
        // SAFETY: `SweepLayout::upload` made the index and the numbers of the same model. The caller assures the rest.
        unsafe {
            match &*self.index {
                AnyIndex::Rows(rows) => rows.launch(numbers, launch),
                AnyIndex::Slices(slices) => slices.launch(numbers, launch),
                AnyIndex::Narrow8(narrow) => narrow.launch(numbers, launch),
                AnyIndex::Narrow16(narrow) => narrow.launch(numbers, launch),
                AnyIndex::Patterns(patterns) => patterns.launch(numbers, launch),
            }
        }
    }

    /// Replaces the expected rewards. Returns false without any change if rows share rewards.
    pub fn set_rewards(&mut self, device: &AnyDevice, rewards: &[f64]) -> Result<bool, DeviceError> {
        let target = &mut self.numbers.reward;
        match &*self.index {
            AnyIndex::Rows(_) => device.write(target, &T::rounded(rewards))?,
            AnyIndex::Slices(slices) => device.write(target, &slices.rewards(rewards))?,
            AnyIndex::Narrow8(_) | AnyIndex::Narrow16(_) | AnyIndex::Patterns(_) => return Ok(false),
        }
        Ok(true)
    }
}

impl<'m, O: Offset> Uploaded<'m, f64, O> {
    /// Converts the model to f32 on the device; `None` if an array exceeds 2³² − 1 elements.
    pub fn shortened(&self, device: &AnyDevice) -> Result<Option<Uploaded<'m, f32, O>>, DeviceError> {
        let ModelNumbers { prob, reward } = &self.numbers;
        Ok(match (shortened(device, prob)?, shortened(device, reward)?) {
            (Some(prob), Some(reward)) => {
                Some(Uploaded { index: Rc::clone(&self.index), numbers: ModelNumbers { prob, reward } })
            }
            _ => None,
        })
    }
}

/// Converts an `f64` array to f32; `None` if it exceeds the 2³² − 1 elements of one launch.
fn shortened(device: &AnyDevice, exact: &AnyBuffer<f64>) -> Result<Option<AnyBuffer<f32>>, DeviceError> {
    let Ok(count) = u32::try_from(exact.len()) else { return Ok(None) };
    let mut found = device.zeros(exact.len())?;
    convert(device, Shape::cover(count.into(), THREADS), count, exact, &mut found)?;
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use warpkov_device::emulator::Emulator;

    use super::*;
    use crate::backends::device::SweepLayout;
    use crate::generate::{Garnet, SlipGrid};
    use crate::options::Storage;

    /// Conversion on the device and on the host gives the same bits.
    #[test]
    fn device_and_host_convert_to_the_same_bits() {
        let device = AnyDevice::from(Emulator::default());
        let bits = |model: Uploaded<f32, u32>| {
            let ModelNumbers { prob, reward } = model.numbers;
            [prob, reward]
                .map(|numbers| device.to_vec(&numbers).unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        let garnet = Garnet { states: 300, ragged: true, terminals: 0.1, ..Garnet::default() };
        let grid = SlipGrid { width: 30, height: 20, walls: 0.2, ..SlipGrid::default() };
        let mut kinds = 0;
        for mdp in [garnet.generate().unwrap(), grid.generate().unwrap()] {
            for storage in [Storage::Rows, Storage::Slices, Storage::Narrow, Storage::Patterns] {
                let Some(sweep_layout) = SweepLayout::new(&mdp, Some(storage)) else { continue };
                let exact = sweep_layout.upload::<f64, u32>(&device).unwrap();
                let short = exact.shortened(&device).unwrap().unwrap();
                let uploaded = sweep_layout.upload(&device).unwrap();
                assert_eq!(bits(short), bits(uploaded), "{storage}");
                kinds += 1;
            }
        }
        assert!(kinds >= 6, "{kinds}");
    }
}
