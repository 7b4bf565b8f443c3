//! Device memory, page-locked host memory, and the copies between them.

use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ops::Range;
use std::rc::Rc;

use cust::event::{Event as CudaEvent, EventFlags};
use cust::memory::{AsyncCopyDestination, DeviceBuffer, LockedBuffer, mem_get_info};
use rayon::prelude::*;
use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Arg, Buffer};

use super::graph::Event;
use super::{Core, usage};
use crate::error::{CudaError, from_cust};

/// Size in bytes of a staging buffer. There are two: the host fills one while the GPU reads the other. Larger arrays are
/// copied in pieces of this size.
const PIECE: usize = 16 << 20;

/// Bytes that one host thread copies at a time into a staging buffer.
const PARALLEL_CHUNK: usize = 1 << 20;

/// Copies bytes on all cores.
fn copy(source: &[u8], target: &mut [u8]) {
    let (to, from) = (target.par_chunks_mut(PARALLEL_CHUNK), source.par_chunks(PARALLEL_CHUNK));
    to.zip(from).for_each(|(to, from)| to.copy_from_slice(from));
}

/// Sets bytes to 0 on all cores, which writes to memory of the operating system for the first time.
fn clear(bytes: &mut [u8]) {
    bytes.par_chunks_mut(PARALLEL_CHUNK).for_each(|bytes| bytes.fill(0));
}

/// Memory of a [`Gpu`](super::Gpu): `len` elements of `T`, freed when dropped.
///
/// The GPU stays open as long as one of its buffers exists.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// let gpu = Gpu::open(0, &MODULES)?;
/// let buffer: GpuBuffer<f32> = gpu.upload(&[0.5, 1.5])?;
/// assert_eq!((buffer.len(), gpu.to_vec(&buffer)?), (2, vec![0.5, 1.5]));
/// # Ok::<(), CudaError>(())
/// ```
pub struct GpuBuffer<T> {
    /// Freed by [`Core::free`].
    bytes: ManuallyDrop<DeviceBuffer<u8>>,
    len: usize,
    core: Rc<Core>,
    elements: PhantomData<T>,
}

impl<T: DeviceCopy> Buffer<T> for GpuBuffer<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn arg(&self) -> Arg {
        Arg::Buffer { address: self.bytes.as_device_ptr().as_raw(), len: self.len }
    }
}

impl<T> Drop for GpuBuffer<T> {
    fn drop(&mut self) {
        // SAFETY: the field is not used again.
        let bytes = unsafe { ManuallyDrop::take(&mut self.bytes) };
        usage::given(bytes.len() as u64);
        self.core.free(Memory::Device(bytes));
    }
}

/// The error of an allocation of `needed` bytes, with the memory of the current context. `what` is their purpose.
pub(super) fn lacking(needed: u64, what: &str) -> CudaError {
    let (free, total) = mem_get_info().unwrap_or_default();
    let instead = CudaError::SMALLER;
    CudaError::OutOfMemory { needed, free: free as u64, total: total as u64, what: what.to_owned(), instead }
}

/// Memory to be freed.
pub(super) enum Memory {
    Device(DeviceBuffer<u8>),
    Host(LockedBuffer<u8>),
}

/// Elements in host memory from which a [`Gpu`](super::Gpu) copies asynchronously. The memory is page-locked if the
/// driver grants that.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// let gpu = Gpu::open(0, &MODULES)?;
/// let source: Pinned<u32> = gpu.pin(vec![1, 2, 3])?;
/// let mut target = gpu.zeros(2)?;
/// let event = gpu.record_event()?;
/// // SAFETY: no operation since the event uses `target`.
/// unsafe { gpu.stage(&source, 1..3, &mut target, &event)? };
/// assert_eq!(gpu.to_vec(&target)?, [2, 3]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Pinned<T> {
    elements: Elements<T>,
    core: Rc<Core>,
}

enum Elements<T> {
    Locked(LockedBuffer<u8>),
    Pageable(Vec<T>),
}

impl<T: DeviceCopy> Elements<T> {
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        match self {
            Self::Locked(bytes) => &bytes[range.start * size_of::<T>()..range.end * size_of::<T>()],
            Self::Pageable(elements) => bytemuck::cast_slice(&elements[range]),
        }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        match mem::replace(&mut self.elements, Elements::Pageable(Vec::new())) {
            Elements::Locked(bytes) => self.core.free(Memory::Host(bytes)),
            // Copies from this memory may be in flight. A destructor cannot report a failure.
            Elements::Pageable(elements) => {
                let _ = self.core.idle();
                drop(elements);
            }
        }
    }
}

impl Core {
    /// Waits until the GPU executes no operation of this `Gpu`.
    fn idle(&self) -> Result<(), CudaError> {
        // All of them, whatever the others return. The operations of a communicator have a timeout; a failure aborts them,
        // and later operations return it.
        let settled = self.settle();
        self.enter()?;
        let streams = [&self.stream, &self.side, &self.copy_stream].map(|stream| self.synchronize_stream(stream));
        streams.into_iter().fold(settled, Result::and)
    }

    /// Frees memory once no operation uses it.
    ///
    /// The driver waits for all GPUs that reach each other's memory before it frees some. One of them may wait for an
    /// operation that this thread has yet to submit to a communicator. The memory is therefore kept for later buffers as
    /// long as there are communicators.
    pub(super) fn free(&self, memory: Memory) {
        let keep = self.has_communicators();
        // Operations that use the memory may be in flight. cuMemFree waits for them, unlike cuMemFreeAsync. A destructor
        // cannot report a failure.
        let _ = if keep || matches!(memory, Memory::Host(_)) { self.idle() } else { self.enter() };
        if keep {
            self.spare.borrow_mut().push(memory);
        }
    }

    /// Frees the memory that was kept for later buffers.
    pub(super) fn free_spare(&self) {
        let spare = self.spare.take();
        if !spare.is_empty() {
            let _ = self.idle();
        }
    }

    /// Device memory in bytes that is kept for later buffers.
    pub(super) fn spare_bytes(&self) -> usize {
        let bytes = |memory: &Memory| if let Memory::Device(bytes) = memory { bytes.len() } else { 0 };
        self.spare.borrow().iter().map(bytes).sum()
    }

    /// Takes memory that was kept for later buffers.
    fn take_spare(&self, fits: impl Fn(&Memory) -> bool) -> Option<Memory> {
        let mut spare = self.spare.borrow_mut();
        spare.iter().position(fits).map(|at| spare.swap_remove(at))
    }

    /// Page-locked host memory of `size` bytes; undefined contents, which the caller writes before it reads them.
    fn host_memory(&self, size: usize) -> Result<LockedBuffer<u8>, cust::error::CudaError> {
        match self.take_spare(|memory| matches!(memory, Memory::Host(bytes) if bytes.len() == size)) {
            Some(Memory::Host(bytes)) => Ok(bytes),
            // SAFETY: cust requires that the memory is written before it is read, as does this method.
            _ => unsafe { LockedBuffer::uninitialized(size) },
        }
    }

    /// Device memory of `size` bytes, with undefined contents.
    fn device_memory(&self, size: usize) -> Result<DeviceBuffer<u8>, cust::error::CudaError> {
        let spare = self.take_spare(|memory| matches!(memory, Memory::Device(bytes) if bytes.len() == size));
        if let Some(Memory::Device(bytes)) = spare {
            return Ok(bytes);
        }
        // SAFETY: cust requires that the memory is written before it is read; all callers of `allocate` do so. For 0
        // bytes cust does not call the driver.
        match unsafe { DeviceBuffer::uninitialized(size) } {
            Err(cust::error::CudaError::OutOfMemory) if self.spare_bytes() > 0 => {
                self.free_spare();
                // SAFETY: as above.
                unsafe { DeviceBuffer::uninitialized(size) }
            }
            result => result,
        }
    }

    /// A buffer of `len` elements with undefined contents, which the caller initialises.
    pub(super) fn allocate<T: DeviceCopy>(self: &Rc<Self>, len: usize) -> Result<GpuBuffer<T>, CudaError> {
        self.settle()?;
        self.enter()?;
        let size = len.checked_mul(size_of::<T>()).ok_or_else(|| lacking(u64::MAX, "a buffer"))?;
        let bytes = self.device_memory(size).map_err(|error| match error {
            cust::error::CudaError::OutOfMemory => lacking(size as u64, "a buffer"),
            other => from_cust("cuMemAlloc")(other),
        })?;
        usage::taken(size as u64);
        Ok(GpuBuffer { bytes: ManuallyDrop::new(bytes), len, core: Rc::clone(self), elements: PhantomData })
    }

    /// Implements [`Device::upload_pieces`](warpkov_device::launch::Device::upload_pieces).
    pub(super) fn upload_pieces<T: DeviceCopy>(
        self: &Rc<Self>,
        ends: &[usize],
        mut fill: impl FnMut(usize, &mut [T]),
    ) -> Result<GpuBuffer<T>, CudaError> {
        let mut buffer = self.allocate(ends.last().copied().unwrap_or_default())?;
        if !self.copy_pieces(&mut buffer.bytes, ends, &mut fill)? {
            let mut all = vec![T::zeroed(); buffer.len];
            let mut start = 0;
            for (piece, &end) in ends.iter().enumerate() {
                fill(piece, &mut all[start..end]);
                start = end;
            }
            self.write(&mut buffer, &all)?;
        }
        Ok(buffer)
    }

    /// Implements [`Device::write`](warpkov_device::launch::Device::write).
    pub(super) fn write<T: DeviceCopy>(&self, target: &mut GpuBuffer<T>, source: &[T]) -> Result<(), CudaError> {
        let len = target.len;
        assert!(source.len() <= len, "{} elements written to a buffer of {len}", source.len());
        self.settle()?;
        self.enter()?;
        let bytes: &[u8] = bytemuck::cast_slice(source);
        if bytes.len() > PIECE {
            let ends: Vec<usize> = (1..=bytes.len().div_ceil(PIECE)).map(|end| bytes.len().min(end * PIECE)).collect();
            let copied = self.copy_pieces(&mut target.bytes, &ends, |piece, target: &mut [u8]| {
                let source = &bytes[piece * PIECE..][..target.len()];
                copy(source, target);
            })?;
            if copied {
                return Ok(());
            }
        }
        if !bytes.is_empty() {
            let mut target = target.bytes.index(..bytes.len());
            // SAFETY: both sides have the same length. `source` is pageable, for which "the function might be synchronous
            // with respect to host" (CUDA Driver API, API synchronization behavior) and might not; the synchronisation
            // below keeps the borrow of `source` alive until the copy has ended.
            unsafe { target.async_copy_from(bytes, self.current()) }.map_err(from_cust("cuMemcpyHtoDAsync"))?;
        }
        self.synchronize()
    }

    /// Implements [`Device::clear`](warpkov_device::launch::Device::clear).
    pub(super) fn clear<T: DeviceCopy>(&self, buffer: &mut GpuBuffer<T>) -> Result<(), CudaError> {
        self.enter()?;
        // SAFETY: the range is the buffer's own memory. Later uses are ordered after this call by the stream. cust does
        // not call the driver for an empty buffer.
        unsafe { buffer.bytes.set_8_async(0, self.current()) }.map_err(from_cust("cuMemsetD8Async"))
    }

    /// Implements [`Device::download`](warpkov_device::launch::Device::download).
    pub(super) fn download<T: DeviceCopy>(&self, buffer: &GpuBuffer<T>, target: &mut [T]) -> Result<(), CudaError> {
        self.download_from(buffer, 0, target)
    }

    /// Copies the elements from `first` on.
    pub(super) fn download_from<T: DeviceCopy>(
        &self,
        buffer: &GpuBuffer<T>,
        first: usize,
        target: &mut [T],
    ) -> Result<(), CudaError> {
        let (requested, len) = (first + target.len(), buffer.len);
        assert!(requested <= len, "{requested} elements requested from a buffer of {len}");
        // A copy to pageable memory may wait for the stream.
        self.settle()?;
        self.enter()?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(target);
        if !bytes.is_empty() {
            let first = first * size_of::<T>();
            let source = buffer.bytes.index(first..first + bytes.len());
            // SAFETY: both sides have the same length. The synchronisation below keeps the borrow of `target` alive
            // until the copy has ended. The stream orders the copy after all earlier work.
            unsafe { source.async_copy_to(bytes, self.current()) }.map_err(from_cust("cuMemcpyDtoHAsync"))?;
        }
        self.synchronize()
    }

    /// Copies the first `len` elements of `source` to `target`, in the order of the stream.
    ///
    /// # Panics
    /// If one of them is shorter.
    pub(super) fn copy<T: DeviceCopy>(
        &self,
        source: &GpuBuffer<T>,
        target: &mut GpuBuffer<T>,
        len: usize,
    ) -> Result<(), CudaError> {
        assert!(source.len >= len && target.len >= len, "{len} elements of {} and {}", source.len, target.len);
        let bytes = len * size_of::<T>();
        let (source, mut target) = (source.bytes.index(..bytes), target.bytes.index(..bytes));
        // SAFETY: both sides have the same length, and belong to different buffers. Their memory is freed in the order of the stream.
        unsafe { target.async_copy_from(&source, self.current()) }.map_err(from_cust("cuMemcpyDtoDAsync"))
    }

    /// Implements [`Device::pin`](warpkov_device::launch::Device::pin).
    pub(super) fn pin<T: DeviceCopy>(self: &Rc<Self>, source: Vec<T>) -> Result<Pinned<T>, CudaError> {
        self.settle()?;
        self.enter()?;
        let bytes: &[u8] = bytemuck::cast_slice(&source);
        // The next statement writes all of the memory.
        let elements = match self.host_memory(bytes.len()) {
            Ok(mut locked) => {
                copy(bytes, &mut locked);
                Elements::Locked(locked)
            }
            Err(_) => Elements::Pageable(source),
        };
        Ok(Pinned { elements, core: Rc::clone(self) })
    }

    /// Implements [`Device::stage`](warpkov_device::launch::Device::stage).
    ///
    /// # Safety
    /// As for that method.
    pub(super) unsafe fn stage<T: DeviceCopy>(
        self: &Rc<Self>,
        source: &Pinned<T>,
        range: Range<usize>,
        target: &mut GpuBuffer<T>,
        after: &Event,
    ) -> Result<(), CudaError> {
        let bytes = source.elements.bytes(range);
        if bytes.is_empty() {
            return Ok(());
        }
        if matches!(source.elements, Elements::Pageable(_)) {
            // A copy from pageable memory may wait for `after`.
            self.settle()?;
        }
        self.enter()?;
        self.wait(&self.copy_stream, after)?;
        let mut target = target.bytes.index(..bytes.len());
        // SAFETY: both sides have the same length. Nothing writes to `source`, and its destructor waits for the copy.
        // The copy waits for `after`, and the caller promises that nothing submitted after it uses `target`. Work
        // submitted from now on waits for the event recorded below.
        unsafe { target.async_copy_from(bytes, &self.copy_stream) }.map_err(from_cust("cuMemcpyHtoDAsync"))?;
        self.wait(&self.stream, &self.record_event(&self.copy_stream)?)
    }

    /// Copies pieces to `target` through two page-locked staging buffers: the GPU reads one at full bandwidth while
    /// `fill` writes the other. Returns false and does nothing if the driver grants no page-locked memory.
    fn copy_pieces<T: DeviceCopy>(
        &self,
        target: &mut DeviceBuffer<u8>,
        ends: &[usize],
        mut fill: impl FnMut(usize, &mut [T]),
    ) -> Result<bool, CudaError> {
        self.settle()?;
        let starts = || [0].into_iter().chain(ends.iter().copied());
        let largest = starts().zip(ends).map(|(start, end)| (end - start) * size_of::<T>()).max().unwrap_or_default();
        let mut staging = self.staging.borrow_mut();
        if staging.as_ref().is_none_or(|staging| staging[0].len() < largest) {
            // The fill below writes all of the memory.
            let locked = || self.host_memory(largest.max(PIECE));
            let (Ok(mut one), Ok(mut other)) = (locked(), locked()) else { return Ok(false) };
            clear(&mut one);
            clear(&mut other);
            let outgrown = staging.replace([one, other]);
            outgrown.into_iter().flatten().for_each(|bytes| self.free(Memory::Host(bytes)));
        }
        let Some(staging) = staging.as_mut() else { return Ok(false) };
        let event = || CudaEvent::new(EventFlags::DISABLE_TIMING).map_err(from_cust("cuEventCreate"));
        let copied = [event()?, event()?];
        let mut pieces = starts().zip(ends).enumerate();
        let done = pieces.try_for_each(|(piece, (start, &end))| {
            let range = start * size_of::<T>()..end * size_of::<T>();
            if range.is_empty() {
                return Ok(());
            }
            let (staged, copied) = (&mut staging[piece % 2], &copied[piece % 2]);
            // "Before the first call to cuEventRecord(), an event represents an empty set of work": the first two waits
            // return at once.
            copied.synchronize().map_err(from_cust("cuEventSynchronize"))?;
            let bytes = &mut staged[..range.len()];
            fill(piece, bytemuck::cast_slice_mut(bytes));
            self.enter()?;
            // SAFETY: both sides have the same length. The host does not touch the staging buffer before the event
            // recorded below, or the synchronisation at the end, reports the end of the copy.
            unsafe { target.index(range).async_copy_from(&*bytes, self.current()) }
                .map_err(from_cust("cuMemcpyHtoDAsync"))?;
            copied.record(self.current()).map_err(from_cust("cuEventRecord"))
        });
        self.synchronize()?;
        done.map(|()| true)
    }
}
