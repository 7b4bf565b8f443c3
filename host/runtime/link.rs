//! GPUs of several ranks that exchange data through NCCL, in the order of each GPU's other operations.

use std::ops::Range;

use warpkov_device::device::DeviceCopy;

use super::Error;
use super::comm::{self, Communicator};
use super::device::{AnyBuffer, AnyDevice, DeviceError, of_gpu};
use super::gpu::{self, Reduction};

/// One rank's GPU, linked with those of the other ranks.
pub struct Link(gpu::Communicator);

impl Link {
    /// Links the GPUs of all ranks. `None` if a device is the emulator, if a rank has no NCCL, or if two ranks have the same GPU,
    /// which NCCL refuses: the ranks then exchange data through the memory of their hosts.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn new(device: &AnyDevice, comm: &dyn Communicator) -> Result<Option<Self>, Error> {
        let Some(gpu) = device.gpu() else { return Ok(None) };
        let own = format!("{} {}", comm::node(), gpu.pci()?);
        let mut all = comm.all_gather(own.as_bytes())?;
        all.sort_unstable();
        let shared = all.windows(2).any(|pair| pair[0] == pair[1]);
        if comm.any(shared || gpu::nccl_version().is_err())? {
            return Ok(None);
        }
        let mut id = [0; 128];
        if comm.rank() == 0 {
            id = gpu::Communicator::unique_id()?;
        }
        comm.broadcast(0, &mut id)?;
        Ok(Some(Self(gpu::Communicator::new(gpu, &id, comm.rank(), comm.size(), comm.timeout())?)))
    }

    /// Sends ranges of `source` to ranks, and receives ranges of `target` from ranks.
    ///
    /// # Errors
    /// Those of the GPU; so for the other methods.
    ///
    /// # Safety
    /// The ranks agree on the lengths.
    pub unsafe fn exchange<T: DeviceCopy>(
        &self,
        source: &AnyBuffer<T>,
        sends: &[(u32, Range<usize>)],
        target: &mut AnyBuffer<T>,
        receives: &[(u32, Range<usize>)],
    ) -> Result<(), DeviceError> {
        // SAFETY: the ranks agree on the lengths, by the caller's promise.
        unsafe { self.0.exchange(source.on_gpu(), sends, target.on_gpu_mut(), receives) }.map_err(Into::into)
    }

    /// [`exchange`](Self::exchange) within one buffer.
    ///
    /// # Safety
    /// As for `exchange`.
    pub unsafe fn exchange_in_place<T: DeviceCopy>(
        &self,
        buffer: &mut AnyBuffer<T>,
        sends: &[(u32, Range<usize>)],
        receives: &[(u32, Range<usize>)],
    ) -> Result<(), DeviceError> {
        // SAFETY: the ranks agree on the lengths, by the caller's promise.
        unsafe { self.0.exchange_in_place(buffer.on_gpu_mut(), sends, receives) }.map_err(Into::into)
    }

    /// Replaces each number of a range by its maximum over all ranks.
    ///
    /// # Safety
    /// The ranks agree on the range.
    pub unsafe fn max(&self, numbers: &mut AnyBuffer<u64>, range: Range<usize>) -> Result<(), DeviceError> {
        // SAFETY: the ranks agree on the range, by the caller's promise.
        unsafe { self.0.all_reduce(numbers.on_gpu_mut(), range, Reduction::Max) }.map_err(Into::into)
    }

    /// Gives all ranks the elements of each rank: those of rank r are `parts[r]` of the buffer. To be called in a
    /// [`group`](Self::group).
    ///
    /// # Safety
    /// The ranks agree on the lengths.
    pub unsafe fn share<T: DeviceCopy>(
        &self,
        buffer: &mut AnyBuffer<T>,
        parts: &[Range<usize>],
    ) -> Result<(), DeviceError> {
        // The parts have different lengths: NCCL's way is a group of broadcasts.
        (0..).zip(parts).try_for_each(|(root, part)| {
            // SAFETY: the ranks agree on the lengths, by the caller's promise, and broadcast in this order.
            unsafe { self.0.broadcast(buffer.on_gpu_mut(), part.clone(), root) }.map_err(Into::into)
        })
    }

    /// Submits the operations that `work` calls as one.
    ///
    /// # Safety
    /// The operations use different memory, and the ranks agree on them.
    pub unsafe fn group(&self, work: impl FnOnce() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.group(|| work().map_err(of_gpu)) }.map_err(Into::into)
    }
}
