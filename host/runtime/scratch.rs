//! Device memory that grows.

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Buffer, Device};

/// A buffer that is made larger when it must be; what it holds is then lost.
pub struct Scratch<T: DeviceCopy, D: Device>(D::Buffer<T>);

impl<T: DeviceCopy, D: Device> Scratch<T, D> {
    /// One element; the first use makes it as long as it asks for.
    ///
    /// # Errors
    /// Those of the device, as for all that follows.
    pub fn new(device: &D) -> Result<Self, D::Error> {
        Ok(Self(device.zeros(1)?))
    }

    /// At least `len` elements, whatever they hold.
    pub fn of(&mut self, device: &D, len: usize) -> Result<&mut D::Buffer<T>, D::Error> {
        if self.0.len() < len {
            // The old memory goes before the new is asked for.
            self.0 = device.zeros(0)?;
            self.0 = device.zeros(len.next_power_of_two().min(len + (1 << 24)))?;
        }
        Ok(&mut self.0)
    }

    /// At least `len` elements, all bytes zero.
    pub fn cleared(&mut self, device: &D, len: usize) -> Result<&mut D::Buffer<T>, D::Error> {
        device.clear(self.of(device, len)?)?;
        Ok(&mut self.0)
    }

    /// What it was last made.
    pub fn get(&self) -> &D::Buffer<T> {
        &self.0
    }

    /// The same, to be written.
    pub fn get_mut(&mut self) -> &mut D::Buffer<T> {
        &mut self.0
    }
}

impl<D: Device> Scratch<u32, D> {
    /// 0, 1, …, at least `len` of them, where nothing else is ever written.
    pub fn numbers(&mut self, device: &D, len: usize) -> Result<&D::Buffer<u32>, D::Error> {
        if self.0.len() < len.max(2) {
            let numbers: Vec<u32> = (0..len.next_power_of_two().max(2) as u32).collect();
            self.0 = device.upload(&numbers)?;
        }
        Ok(&self.0)
    }
}
