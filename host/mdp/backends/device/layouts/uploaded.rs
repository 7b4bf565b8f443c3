//! A model in device memory, in any layout.

use std::rc::Rc;

use warpkov_device::device::Offset;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::backup::convert;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::narrow::NarrowIndex;
use super::numbers::ModelNumbers;
use super::patterns::PatternIndex;
use super::rows::RowIndex;
use super::slices::SliceIndex;
use crate::backends::device::sweeps::{BackupLaunch, THREADS};

/// A model in device memory.
pub(in crate::backends::device) struct Uploaded<'m, T: Precise, O: Offset> {
    pub index: Rc<AnyIndex<'m, O>>,
    pub numbers: ModelNumbers<T>,
}

/// The arrays of a layout that are not in T.
pub(in crate::backends::device) enum AnyIndex<'m, O: Offset> {
    Rows(RowIndex<O>),
    Slices(SliceIndex<'m, O>),
    Narrow8(NarrowIndex<O, i8>),
    Narrow16(NarrowIndex<O, i16>),
    Patterns(PatternIndex),
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
