//! Growable device memory.

use crate::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Buffer, Device};

/// A device buffer that grows on demand. Growing discards its content.
pub struct Scratch<T: DeviceCopy>(AnyBuffer<T>);

impl<T: DeviceCopy> Scratch<T> {
    /// A buffer of one element. The first use grows it.
    ///
    /// # Errors
    /// The errors of the device; so for the other methods.
    pub fn new(device: &AnyDevice) -> Result<Self, DeviceError> {
        Ok(Self(device.zeros(1)?))
    }

    /// A buffer of at least `len` elements with unspecified content.
    pub fn of(&mut self, device: &AnyDevice, len: usize) -> Result<&mut AnyBuffer<T>, DeviceError> {
        if self.0.len() < len {
            // Frees the old memory before the new allocation.
            self.0 = device.zeros(0)?;
            self.0 = device.zeros(len.next_power_of_two().min(len + (1 << 24)))?;
        }
        Ok(&mut self.0)
    }

    /// A buffer of at least `len` elements, all bytes zero.
    pub fn cleared(&mut self, device: &AnyDevice, len: usize) -> Result<&mut AnyBuffer<T>, DeviceError> {
        device.clear(self.of(device, len)?)?;
        Ok(&mut self.0)
    }

    /// The buffer with its present length and content.
    pub fn get(&self) -> &AnyBuffer<T> {
        &self.0
    }

    /// The buffer with its present length and content, writable.
    pub fn get_mut(&mut self) -> &mut AnyBuffer<T> {
        &mut self.0
    }
}

impl Scratch<u32> {
    /// The numbers 0, 1, …, at least `len` of them. Correct only for a buffer that the caller never writes.
    pub fn numbers(&mut self, device: &AnyDevice, len: usize) -> Result<&AnyBuffer<u32>, DeviceError> {
        if self.0.len() < len.max(2) {
            let numbers: Vec<u32> = (0..len.next_power_of_two().max(2) as u32).collect();
            self.0 = device.upload(&numbers)?;
        }
        Ok(&self.0)
    }
}
