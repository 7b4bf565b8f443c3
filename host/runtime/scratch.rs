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
    pub fn at_least(&mut self, device: &AnyDevice, len: usize) -> Result<&mut AnyBuffer<T>, DeviceError> {
        if self.0.len() < len {
            // Frees the old memory before the new allocation.
            self.0 = device.zeros(0)?;
            self.0 = device.zeros(len.next_power_of_two().min(len + (1 << 24)))?;
        }
        Ok(&mut self.0)
    }

    /// A buffer of at least `len` elements, all bytes zero.
    pub fn cleared(&mut self, device: &AnyDevice, len: usize) -> Result<&mut AnyBuffer<T>, DeviceError> {
        device.clear(self.at_least(device, len)?)?;
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

/// Declares a struct whose fields are [`Scratch`] buffers of elements of the given types, and its function `new`.
///
/// ```
/// use warpkov_runtime::device::AnyDevice;
/// use warpkov_runtime::scratch::scratch;
/// use warpkov_device::launch::Buffer;
///
/// scratch! {
///     /// Memory of a product.
///     struct Product {
///         /// Partial sums.
///         parts: f64,
///     }
/// }
/// let device = AnyDevice::from(warpkov_device::emulator::Emulator::default());
/// let mut product = Product::new(&device)?;
/// assert!(product.parts.at_least(&device, 100)?.len() >= 100);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! scratch {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(<$real:ident: $bound:path>)? {
            $($(#[$doc:meta])* $field_visibility:vis $field:ident: $element:ty,)*
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $name $(<$real: $bound>)? {
            $($(#[$doc])* $field_visibility $field: $crate::scratch::Scratch<$element>,)*
        }

        impl $(<$real: $bound>)? $name $(<$real>)? {
            /// Buffers of one element each.
            $visibility fn new(
                device: &$crate::device::AnyDevice,
            ) -> ::std::result::Result<Self, $crate::device::DeviceError> {
                Ok(Self { $($field: $crate::scratch::Scratch::new(device)?,)* })
            }
        }
    };
}

pub use scratch;
