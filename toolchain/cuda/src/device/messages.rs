//! Lines and failed assertions of kernels, which a GPU writes to page-locked memory of the host: see [`warpkov_device::print`].

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use cust::context::CurrentContext;
use cust::memory::{CopyDestination, DeviceBuffer, LockedBuffer};
use warpkov_device::print;

use crate::driver::Handle;
use crate::error::{CudaError, check, from_cust};
use crate::module::PRINT;

/// Words for messages: 1 MiB.
const ROOM: usize = 1 << 18;

/// The messages of a context's kernels.
#[derive(Default)]
pub(super) struct Messages {
    state: Mutex<State>,
    /// Held for reading by each capture of the process: a wait for the context would break it.
    captures: RwLock<()>,
}

#[derive(Default)]
struct State {
    /// Exists once a kernel that prints is loaded.
    memory: Option<Memory>,
    /// The entry points of such kernels, by their numbers.
    kernels: Vec<&'static str>,
}

/// A stream that other streams neither wait for nor, while they are captured, are broken by. A copy through the default stream breaks the
/// captures of all threads.
struct Aside(cust::sys::CUstream);

// SAFETY: a stream is a handle that any thread may use while its context is current; `Messages` uses it under a lock.
unsafe impl Send for Aside {}

impl Aside {
    fn new() -> Result<Self, CudaError> {
        /// `CU_STREAM_NON_BLOCKING`.
        const NON_BLOCKING: u32 = 1;

        let mut stream = ptr::null_mut();
        // SAFETY: cuStreamCreateWithPriority writes one handle.
        let code = unsafe { cust::sys::cuStreamCreateWithPriority(&mut stream, NON_BLOCKING, 0) };
        check("cuStreamCreateWithPriority", code as u32).map(|()| Self(stream))
    }

    /// Copies `words` to an address of device memory, and waits for the end.
    ///
    /// # Safety
    /// So many words of device memory begin there, and no kernel that uses them is at work.
    unsafe fn write(&self, address: u64, words: &[u64]) -> Result<(), CudaError> {
        // SAFETY: the stream exists; the caller's promise; `words` lives until the copy is done.
        let [copied, done] = unsafe {
            [
                cust::sys::cuMemcpyHtoDAsync_v2(address, words.as_ptr().cast(), size_of_val(words), self.0) as u32,
                cust::sys::cuStreamSynchronize(self.0) as u32,
            ]
        };
        check("cuMemcpyHtoDAsync", copied).and_then(|()| check("cuStreamSynchronize", done))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // SAFETY: the stream exists and nothing uses it any more. A destructor cannot report a failure.
        let _ = unsafe { cust::sys::cuStreamDestroy_v2(self.0) };
    }
}

/// What kernels write to.
struct Memory {
    words: LockedBuffer<u32>,
    /// The words in use, and the number of lost messages.
    counters: DeviceBuffer<u64>,
    /// The first word that was not read.
    read: usize,
    aside: Aside,
}

impl Memory {
    fn new() -> Result<Self, CudaError> {
        let words = LockedBuffer::new(&0, ROOM).map_err(from_cust("cuMemAllocHost"))?;
        // SAFETY: any bits are numbers.
        let counters = unsafe { DeviceBuffer::<u64>::uninitialized(2) }.map_err(from_cust("cuMemAlloc"))?;
        let aside = Aside::new()?;
        // SAFETY: the buffer has two words, and no kernel knows it yet.
        unsafe { aside.write(counters.as_device_ptr().as_raw(), &[0; 2]) }?;
        Ok(Self { words, counters, read: 0, aside })
    }

    /// Prints the messages that have come.
    fn receive(&mut self) -> Option<print::Failed> {
        // SAFETY: both types have the same layout. The words are accessed by atomic operations only: by `receive`, and by kernels.
        let words = unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<AtomicU32>(), self.words.len()) };
        print::receive(words, &mut self.read)
    }

    /// Begins at the first word again if half of them are used, as they are after a loss. Waits for the context, so that no kernel is at
    /// work; during a capture it does nothing.
    fn rewind(&mut self, captures: &RwLock<()>) -> Result<Option<print::Failed>, cust::error::CudaError> {
        if self.read < ROOM / 2 {
            return Ok(None);
        }
        let _none = match captures.try_write() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            none => none,
        };
        CurrentContext::synchronize()?;
        let failed = self.receive();
        let mut counters = [0; 2];
        self.counters.copy_to(&mut counters)?;
        if counters[1] > 0 {
            print::tell_lost(counters[1], ROOM);
        }
        self.counters.copy_from(&[0; 2])?;
        self.read = 0;
        Ok(failed)
    }
}

impl Messages {
    /// Tells a kernel that prints where to put its messages. Its context is current.
    pub(super) fn connect(&self, module: Handle, entry: &'static str) -> Result<(), CudaError> {
        let (mut variable, mut bytes) = (0, 0);
        // SAFETY: the module is loaded, the name is NUL-terminated, and cuModuleGetGlobal writes an address and a size.
        let code = unsafe { cust::sys::cuModuleGetGlobal_v2(&mut variable, &mut bytes, module.cast(), PRINT.as_ptr()) };
        check("cuModuleGetGlobal", code as u32)?;
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = match &mut state.memory {
            Some(memory) => memory,
            none => none.insert(Memory::new()?),
        };
        let place = [
            memory.words.as_ptr().expose_provenance() as u64,
            ROOM as u64,
            memory.counters.as_device_ptr().as_raw(),
            state.kernels.len() as u64,
        ];
        state.kernels.push(entry);
        debug_assert_eq!(bytes, size_of_val(&place));
        // SAFETY: the variable `warpkov_print` of `warpkov_device::print` has four words of 64 bits, and its module's kernel was not launched
        // yet. With unified addressing, which all GPUs of compute capability 8.0 and higher have, the address of page-locked memory on
        // the host is also its address on the GPU. `Messages::free` frees it with the context.
        unsafe { memory.aside.write(variable, &place) }
    }

    /// A capture, from before its beginning to after its end.
    pub(super) fn capturing(&self) -> RwLockReadGuard<'_, ()> {
        self.captures.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there may be messages.
    pub(super) fn expected(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).memory.is_some()
    }

    /// Prints the messages that have come. The error of a failed assertion takes the place of `result`.
    pub(super) fn told<R>(&self, result: Result<R, CudaError>) -> Result<R, CudaError> {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(memory) = &mut state.memory else { return result };
        let failed = match memory.receive() {
            None if result.is_ok() => memory.rewind(&self.captures).map_err(from_cust("cuCtxSynchronize"))?,
            failed => failed,
        };
        match failed {
            Some(failed) => {
                let entry = state.kernels.get(failed.kernel as usize).copied().unwrap_or_default().to_owned();
                Err(CudaError::Assertion { entry, failed })
            }
            None => result,
        }
    }

    /// Frees the memory. No kernel of the context runs any more, and the context is current.
    pub(super) fn free(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).memory = None;
    }
}
