//! Buffers of the emulated device.

use std::cell::{Cell, RefCell, UnsafeCell};

use super::shadow::Shadow;
use crate::device::DeviceCopy;
use crate::launch::{Arg, Buffer};

/// A buffer, as views know it, whatever its element type.
pub(crate) struct Record {
    /// Address of the first element.
    pub address: usize,
    pub shadow: RefCell<Shadow>,
    /// Whether some elements may have no value.
    pub partial: Cell<bool>,
    /// Whether each element has a value, if `partial`.
    written: RefCell<Vec<bool>>,
    /// The last operation that has used it: a launch, or a write of the host.
    used: Cell<Option<Use>>,
}

/// An operation.
#[derive(Clone, Copy)]
pub(super) struct Use {
    /// Those after an event have larger numbers than it.
    pub number: u64,
    /// The kernel, or the method of the device.
    pub by: &'static str,
}

/// A point in the order of operations.
///
/// ```
/// # use warpkov_device::emulator::{EmulatedEvent, Emulator};
/// # use warpkov_device::launch::Device;
/// let device = Emulator::default();
/// let (source, mut target) = (device.pin(vec![1, 2, 3])?, device.zeros(2)?);
/// let event: EmulatedEvent = device.record_event()?;
/// // SAFETY: no operation since the event uses `target`.
/// unsafe { device.stage(&source, 1..3, &mut target, &event)? };
/// assert_eq!(device.to_vec(&target)?, [2, 3]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct EmulatedEvent(pub(super) u64);

impl Record {
    pub(super) fn use_by(&self, operation: Use) {
        self.used.set(Some(operation));
    }

    /// What has used it since the event.
    pub(super) fn used_since(&self, event: &EmulatedEvent) -> Option<&'static str> {
        self.used.get().filter(|operation| operation.number > event.0).map(|operation| operation.by)
    }

    #[inline]
    pub fn written(&self, element: usize) -> bool {
        !self.partial.get() || self.written.borrow()[element]
    }

    #[inline]
    pub fn write(&self, element: usize) {
        if self.partial.get() {
            self.written.borrow_mut()[element] = true;
        }
    }
}

/// Memory of the emulated device.
///
/// Kernels access the elements through views by address, as on a GPU, so Rust's borrow checker does not see those
/// accesses.
///
/// ```
/// # use warpkov_device::emulator::{EmulatedBuffer, Emulator};
/// # use warpkov_device::launch::{Buffer, Device};
/// let device = Emulator::default();
/// let buffer: EmulatedBuffer<f32> = device.upload(&[0.5, 1.5])?;
/// assert_eq!((buffer.len(), device.to_vec(&buffer)?), (2, vec![0.5, 1.5]));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct EmulatedBuffer<T> {
    elements: Box<[UnsafeCell<T>]>,
    record: Box<Record>,
}

impl<T: DeviceCopy> EmulatedBuffer<T> {
    pub(super) fn new(elements: impl Iterator<Item = T>) -> Self {
        let elements: Box<[_]> = elements.map(UnsafeCell::new).collect();
        let record = Record {
            address: elements.as_ptr().expose_provenance(),
            shadow: RefCell::default(),
            partial: Cell::new(false),
            written: RefCell::default(),
            used: Cell::new(None),
        };
        Self { elements, record: Box::new(record) }
    }

    /// Elements whose reads are faults until they are written.
    pub(super) fn uninitialised(len: usize) -> Self {
        // Not 0, which would hide the fault from tests without the check.
        const GARBAGE: u8 = 0xcb;
        let mut value = T::zeroed();
        bytemuck::bytes_of_mut(&mut value).fill(GARBAGE);
        let buffer = Self::new(std::iter::repeat_n(value, len));
        buffer.record.partial.set(len > 0);
        buffer.record.written.borrow_mut().resize(len, false);
        buffer
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Writes the first elements from the host.
    pub(super) fn fill(&mut self, values: impl Iterator<Item = T>) {
        let mut count = 0;
        for (element, value) in self.elements.iter_mut().zip(values) {
            *element.get_mut() = value;
            self.record.write(count);
            count += 1;
        }
        if count == self.elements.len() {
            self.record.partial.set(false);
        }
    }

    pub(super) fn read(&self, target: &mut [T]) {
        let source = &self.elements[..target.len()];
        for (target, element) in target.iter_mut().zip(source) {
            // SAFETY: launches are synchronous, so no thread writes to the element now.
            *target = unsafe { *element.get() };
        }
    }
}

impl<T: DeviceCopy> Buffer<T> for EmulatedBuffer<T> {
    fn len(&self) -> usize {
        self.elements.len()
    }

    /// The address is that of the buffer's record, from which the emulated views take the address of the elements.
    fn arg(&self) -> Arg {
        // `UnsafeCell` permits writes through an address from a shared reference.
        Arg::Buffer { address: (&raw const *self.record).expose_provenance() as u64, len: self.elements.len() }
    }
}
