//! GPUs of several ranks that exchange data through NCCL, in the order of each GPU's other operations; and sums over the memory of all
//! devices, with such a link or without.

use std::ops::Range;

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::primitives::sum::{sum_parts, sum_threads};

use super::Error;
use super::comm::{self, Communicator};
use super::device::{AnyBuffer, AnyDevice, DeviceError, of_gpu};
use super::gpu::{self, Reduction};
use super::scratch::Scratch;

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

/// From so many numbers on, [`Sums`] use a [`Link`]. It takes a second to make, which a hundred of these sums gain, and five hundred of half
/// the numbers (`benches/results/2026-11-27-h200-x4.md`).
const LONG: usize = 1 << 19;

/// Sums over all ranks, in the memory of their devices.
///
/// Each rank adds a part of the numbers, and all gather the parts. The order of a sum depends on the number of ranks alone, so all ranks
/// have the same bits.
pub struct Sums {
    /// Unknown before the first sum that needs it.
    link: Option<Option<Link>>,
    /// The own part of the numbers of all ranks, one rank's after another's.
    parts: Scratch<f64>,
    /// Their sum.
    sum: Scratch<f64>,
}

impl Sums {
    /// Sums in the memory of this device.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(device: &AnyDevice) -> Result<Self, DeviceError> {
        Ok(Self { link: None, parts: Scratch::new(device)?, sum: Scratch::new(device)? })
    }

    /// Replaces each of the first `len` numbers by its sum over all ranks.
    ///
    /// # Errors
    /// Those of the device, and if a rank fails.
    ///
    /// # Safety
    /// The ranks agree on `len`.
    pub unsafe fn add(
        &mut self,
        device: &AnyDevice,
        comm: &dyn Communicator,
        numbers: &mut AnyBuffer<f64>,
        len: usize,
    ) -> Result<(), Error> {
        let (size, rank) = (comm.size(), comm.rank());
        if size == 1 || len == 0 {
            return Ok(());
        }
        let range = |of| comm::part(len, size, of);
        if self.link.is_none() && len >= LONG && u32::try_from(range(0).len()).is_ok() {
            self.link = Some(Link::new(device, comm)?);
        }
        let Some(link) = self.link.as_ref().and_then(Option::as_ref).filter(|_| len >= LONG) else {
            let mut all = vec![0.0; len];
            device.download(numbers, &mut all)?;
            comm.all_reduce_sum(&mut all)?;
            return Ok(device.write(numbers, &all)?);
        };
        let own = range(rank).len();
        let for_all = |range: &dyn Fn(u32) -> Range<usize>| (0..size).map(|of| (of, range(of))).collect::<Vec<_>>();
        let parts = self.parts.at_least(device, size as usize * own)?;
        let sum = self.sum.at_least(device, own)?;
        let place = |of: u32| of as usize * own..(of as usize + 1) * own;
        let shape = Shape::new(Dim3 { x: own.div_ceil(32) as u32, y: 1, z: 1 }, sum_threads(size));
        // SAFETY: the ranks agree on `len`, by the caller's promise, and thereby on each rank's part. `parts` and `sum` are sized above.
        unsafe {
            link.exchange(numbers, &for_all(&range), parts, &for_all(&place))?;
            if own > 0 {
                sum_parts(device, shape, own as u32, size, parts, sum)?;
            }
            link.exchange(sum, &for_all(&|_| 0..own), numbers, &for_all(&range))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use warpkov_device::emulator::Emulator;

    use super::*;
    use crate::comm::Local;

    /// Through the memory of the hosts: emulators have no link.
    #[test]
    fn sums_are_those_of_the_ranks() {
        for (len, more) in [(1, 0), (100, 7), (20_000, 1)] {
            let number = |rank: u32, i: usize| 0.1 * f64::from(rank + 1) + i as f64;
            let found = Local::run::<_, Error>(3, Duration::from_secs(60), |local| {
                let device = AnyDevice::from(Emulator::default());
                let own: Vec<f64> = (0..len + more).map(|i| number(local.rank(), i)).collect();
                let mut numbers = device.upload(&own)?;
                // SAFETY: all ranks have `len` numbers.
                unsafe { Sums::new(&device)?.add(&device, local, &mut numbers, len)? };
                let all = device.to_vec(&numbers)?;
                assert_eq!(all[len..], own[len..]);
                Ok(all[..len].to_vec())
            });
            let expected: Vec<f64> = (0..len).map(|i| number(0, i) + number(1, i) + number(2, i)).collect();
            assert!(found.unwrap().iter().all(|of_rank| *of_rank == expected));
        }
    }
}
