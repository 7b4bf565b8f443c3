//! Device memory that this process shares with other libraries: PyTorch, CuPy, JAX. All of them use the primary context of a
//! GPU, so an address of one is an address of all.
//!
//! The calling thread has the same current context before and after each call, whichever library has set it.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use cust::context::legacy::ContextStack;
use cust::memory::{AsyncCopyDestination, DeviceBuffer, DevicePointer, DeviceSlice};
use cust::stream::{Stream, StreamFlags};

use super::buffer::lacking;
use super::context::PrimaryContext;
use crate::error::{CudaError, check, from_cust};

/// A stream for copies between the host and memory of other libraries.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// let foreign: Foreign = Foreign::open(0)?;
/// let buffer = foreign.upload(&[1, 2, 3])?;
/// let mut bytes = [0; 3];
/// // SAFETY: the buffer has three bytes, and nothing writes to them.
/// unsafe { foreign.download(buffer.address(), &mut bytes) }?;
/// assert_eq!(bytes, [1, 2, 3]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Foreign {
    /// Destroyed while the context is current.
    stream: ManuallyDrop<Stream>,
    context: Arc<PrimaryContext>,
}

impl PrimaryContext {
    /// Runs `work` with this context, and then restores that of the calling thread.
    fn within<R>(&self, work: impl FnOnce() -> Result<R, CudaError>) -> Result<R, CudaError> {
        ContextStack::push(&self.context).map_err(from_cust("cuCtxPushCurrent"))?;
        let result = work();
        ContextStack::pop().map_err(from_cust("cuCtxPopCurrent"))?;
        result
    }
}

impl Foreign {
    /// A stream of GPU `ordinal`.
    ///
    /// # Errors
    /// There is no such GPU, or a driver call fails.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// let foreign = Foreign::open(0)?;
    /// println!("a stream for other libraries: {:#x}", foreign.stream());
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        let context = PrimaryContext::of(ordinal)?;
        let stream = || Stream::new(StreamFlags::NON_BLOCKING, None).map_err(from_cust("cuStreamCreate"));
        let stream = ManuallyDrop::new(context.within(stream)?);
        Ok(Self { stream, context })
    }

    /// The stream as the driver's functions take it (`CUstream`). It lives as long as this value.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// let foreign = Foreign::open(0)?;
    /// println!("a stream for other libraries: {:#x}", foreign.stream());
    /// # Ok::<(), CudaError>(())
    /// ```
    #[must_use]
    pub fn stream(&self) -> usize {
        self.stream.as_inner() as usize
    }

    /// Copies from device memory, after all work that was submitted to the [stream](Self::stream).
    ///
    /// # Safety
    /// `target.len()` bytes from `address` on are memory of this GPU, and nothing writes to them until this returns.
    ///
    /// # Errors
    /// A driver call fails.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// let foreign = Foreign::open(0)?;
    /// let buffer = foreign.upload(&[1, 2, 3])?;
    /// let mut bytes = [0; 3];
    /// // SAFETY: the buffer has three bytes, and nothing writes to them.
    /// unsafe { foreign.download(buffer.address(), &mut bytes) }?;
    /// assert_eq!(bytes, [1, 2, 3]);
    /// # Ok::<(), CudaError>(())
    /// ```
    pub unsafe fn download(&self, address: u64, target: &mut [u8]) -> Result<(), CudaError> {
        if target.is_empty() {
            return Ok(());
        }
        self.context.within(|| {
            // SAFETY: the caller's promise. The slice is only the source of the copy below.
            let source: DeviceSlice<u8> =
                unsafe { DeviceSlice::from_raw_parts(DevicePointer::from_raw(address), target.len()) };
            // SAFETY: both sides have the same length. The synchronisation below keeps the borrow of `target` alive until the
            // copy has ended.
            unsafe { source.async_copy_to(target, &self.stream) }.map_err(from_cust("cuMemcpyDtoHAsync"))?;
            // SAFETY: the stream lives as long as `self`, and its context is current.
            let code = unsafe { (self.context.driver.stream_synchronize)(self.stream.as_inner().cast()) };
            check("cuStreamSynchronize", code)
        })
    }

    /// Device memory with these bytes, which work of any stream may use from now on.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], or a driver call fails.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// let foreign = Foreign::open(0)?;
    /// let buffer = foreign.upload(&[1, 2, 3])?;
    /// let mut bytes = [0; 3];
    /// // SAFETY: the buffer has three bytes, and nothing writes to them.
    /// unsafe { foreign.download(buffer.address(), &mut bytes) }?;
    /// assert_eq!(bytes, [1, 2, 3]);
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn upload(&self, source: &[u8]) -> Result<SharedBuffer, CudaError> {
        let failed = |error| match error {
            cust::error::CudaError::OutOfMemory => lacking(source.len() as u64, "an array"),
            other => from_cust("cuMemAlloc")(other),
        };
        // The copy is synchronous.
        let bytes = self.context.within(|| DeviceBuffer::from_slice(source).map_err(failed))?;
        Ok(SharedBuffer { bytes: ManuallyDrop::new(bytes), context: Arc::clone(&self.context) })
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // A destructor cannot report a failure.
        let _ = self.context.within(|| {
            // SAFETY: the field is not used again.
            unsafe { ManuallyDrop::drop(&mut self.stream) };
            Ok(())
        });
    }
}

/// Device memory for other libraries, freed when dropped, by any thread.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// let foreign = Foreign::open(0)?;
/// let buffer: SharedBuffer = foreign.upload(&[1, 2, 3])?;
/// let mut bytes = [0; 3];
/// // SAFETY: the buffer has three bytes, and nothing writes to them.
/// unsafe { foreign.download(buffer.address(), &mut bytes) }?;
/// assert_eq!(bytes, [1, 2, 3]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct SharedBuffer {
    /// Freed while the context is current.
    bytes: ManuallyDrop<DeviceBuffer<u8>>,
    context: Arc<PrimaryContext>,
}

// SAFETY: the buffer is an address of device memory, which the driver's functions take on any thread with this context. This
// type reads and writes none of it.
unsafe impl Send for SharedBuffer {}
// SAFETY: as above.
unsafe impl Sync for SharedBuffer {}

impl SharedBuffer {
    /// The address of the memory; 0 if there are no bytes.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// let foreign = Foreign::open(0)?;
    /// assert_ne!(foreign.upload(&[1, 2, 3])?.address(), 0);
    /// assert_eq!(foreign.upload(&[])?.address(), 0);
    /// # Ok::<(), CudaError>(())
    /// ```
    #[must_use]
    pub fn address(&self) -> u64 {
        if self.bytes.is_empty() { 0 } else { self.bytes.as_device_ptr().as_raw() }
    }

    /// The ordinal of the GPU.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// let foreign = Foreign::open(0)?;
    /// assert_eq!(foreign.upload(&[1, 2, 3])?.ordinal(), 0);
    /// # Ok::<(), CudaError>(())
    /// ```
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.context.ordinal
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // A destructor cannot report a failure. cuMemFree waits for all work of the GPU, so for that of other libraries, too.
        let _ = self.context.within(|| {
            // SAFETY: the field is not used again.
            unsafe { ManuallyDrop::drop(&mut self.bytes) };
            Ok(())
        });
    }
}
