//! The sizes of a layout, and its numbers in device memory.

use warpkov_device::launch::Device;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

/// Sizes of the arrays of a layout.
pub(in crate::backends::device) struct Footprint {
    /// Elements of the longest array into which offsets point.
    pub longest: usize,
    /// Bytes of the index, which all precisions share.
    pub shared: usize,
    /// Number of probabilities and rewards that a sweep reads.
    pub numbers: usize,
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
