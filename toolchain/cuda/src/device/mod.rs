//! A GPU as a [`Device`].
//!
//! | file | contents |
//! | --- | --- |
//! | `info` | properties of the GPUs of this machine |
//! | `context` | primary contexts and the kernels loaded into them |
//! | `buffer` | device memory, page-locked host memory, copies |
//! | `launch` | checks of a launch, and the launch |
//! | `messages` | lines and failed assertions of kernels |
//! | `graph` | events and graphs |
//! | `communicator` | ranks of a group of GPUs, and their exchanges through NCCL |

mod buffer;
mod communicator;
mod context;
mod cusparse;
mod foreign;
mod graph;
mod info;
mod launch;
mod messages;
mod usage;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use cust::CudaApiVersion;
use cust::context::CurrentContext;
use cust::device::Device as CudaDevice;
use cust::event::{Event as CudaEvent, EventFlags};
use cust::memory::{DeviceBuffer, LockedBuffer, mem_get_info};
use cust::stream::{Stream, StreamFlags};
use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Call, Device};

pub use buffer::{GpuBuffer, Pinned};
pub use communicator::{Communicator, Reducible, Reduction, Request};
pub use context::Background;
pub use cusparse::{Cusparse, SparseMatrix, SparseNumber};
pub use foreign::{Foreign, SharedBuffer};
pub use graph::{Event, Graph};
pub use info::DeviceInfo;
pub use usage::{KernelUsage, Usage, energy};

use buffer::Memory;
use communicator::Shared;
use context::{PrimaryContext, Program};
use launch::{Function, Limits};

use crate::driver::{self, Handle};
use crate::error::{CudaError, check, finished, from_cust};
use crate::module::Modules;

/// An open GPU. Its operations execute in the order of their submission, on one stream.
///
/// A `Gpu` and its buffers are not `Send`: they stay on the thread that opened it. Several may be open at a time, on
/// one thread or on several.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// let gpu = Gpu::open(0, &MODULES)?;
/// let buffer = gpu.upload(&[1, 2])?;
/// println!("{} holds {:?}", gpu.name(), gpu.to_vec(&buffer)?);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Gpu {
    core: Rc<Core>,
}

/// State that the GPU and its buffers, events and graphs share. The fields are dropped in this order.
struct Core {
    /// Kernels launched so far, by entry point.
    functions: RefCell<HashMap<&'static str, Arc<Function>>>,
    /// Two page-locked buffers through which large copies pass, allocated by the first of them.
    staging: RefCell<Option<[LockedBuffer<u8>; 2]>>,
    /// Communicators of this GPU.
    communicators: RefCell<Vec<Weak<Shared>>>,
    /// Freed memory, kept as long as there are communicators.
    spare: RefCell<Vec<Memory>>,
    /// The communicators used in the present capture; `None` if there is none.
    captured: RefCell<Option<Vec<Rc<Shared>>>>,
    /// The counters of cooperative grids on `stream` and on `side`, where one launch follows another. All launches leave their
    /// lower 31 bits at 0.
    grid_counters: DeviceBuffer<u32>,
    stream: Stream,
    /// The stream of operations beside those of `stream`.
    side: Stream,
    /// Operations go to `side`.
    on_side: Cell<bool>,
    /// Launches whose times are measured.
    measured: usage::Pending,
    /// The stream of copies that overlap with other work.
    copy_stream: Stream,
    context: Arc<PrimaryContext>,
    program: Arc<Program>,
    /// The programs of [`Gpu::add`].
    added: RefCell<Vec<Arc<Program>>>,
    limits: Limits,
    /// The baseline of the device code in use: 90 for `sm_90`.
    baseline: u32,
}

impl Gpu {
    /// Opens GPU `ordinal` to launch the kernels of `modules`.
    ///
    /// The first launch of a kernel loads it: as machine code, or as PTX if there is no machine code for this GPU. The
    /// driver compiles the PTX and caches the result on disk.
    ///
    /// # Errors
    /// There is no driver, no GPU with this ordinal, or no device code for it; or a driver call fails.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_cuda::*;
    /// static NONE: Modules = Modules { compiler: Err("no rust-src"), assembler: None, baselines: &[] };
    ///
    /// // There is no driver, no GPU, or no device code.
    /// assert!(Gpu::open(0, &NONE).is_err());
    /// ```
    pub fn open(ordinal: u32, modules: &'static Modules) -> Result<Self, CudaError> {
        let (context, program) = PrimaryContext::open(ordinal, modules)?;
        context.enter()?;
        let limits = Limits::of(context.device)?;
        // cust makes streams that wait for the legacy default stream, which nothing here uses.
        let stream = || Stream::new(StreamFlags::NON_BLOCKING, None).map_err(from_cust("cuStreamCreate"));
        let (stream, copy_stream) = (stream()?, stream()?);
        let priorities = CurrentContext::get_stream_priority_range();
        // The blocks of an exchange are few, and other GPUs wait for them: they precede waiting blocks of kernels.
        let priority = Some(priorities.map_err(from_cust("cuCtxGetStreamPriorityRange"))?.greatest);
        let side = Stream::new(StreamFlags::NON_BLOCKING, priority).map_err(from_cust("cuStreamCreate"))?;
        let baseline = program.code().baseline.sm;
        // SAFETY: the kernels that read the counters follow the memset on `stream`, or on `side`, which waits for `stream`.
        let grid_counters = unsafe {
            let counters = DeviceBuffer::<u32>::uninitialized(2).map_err(from_cust("cuMemAlloc"));
            counters.and_then(|mut counters| {
                counters.set_8_async(0, &stream).map_err(from_cust("cuMemsetD8Async")).map(|()| counters)
            })?
        };
        if Usage::is_measured() {
            usage::opened(info::pci(context.device)?);
        }
        let core = Core {
            functions: RefCell::default(),
            staging: RefCell::default(),
            communicators: RefCell::default(),
            spare: RefCell::default(),
            captured: RefCell::default(),
            grid_counters,
            stream,
            side,
            on_side: Cell::new(false),
            measured: usage::Pending::default(),
            copy_stream,
            context,
            program,
            added: RefCell::default(),
            limits,
            baseline,
        };
        Ok(Self { core: Rc::new(core) })
    }

    /// Adds the kernels of another crate to those that this GPU launches. Kernels that it has already are not added again.
    ///
    /// # Errors
    /// [`CudaError::KernelTwice`] if both have a kernel of the same name; there is no device code for this GPU; or a driver call fails.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// # static MORE: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// gpu.add(&MORE)?;
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn add(&self, modules: &'static Modules) -> Result<(), CudaError> {
        let Core { context, program, added, .. } = &*self.core;
        let (_, program_of_modules) = PrimaryContext::open(context.ordinal, modules)?;
        let mut added = added.borrow_mut();
        if Arc::ptr_eq(program, &program_of_modules)
            || added.iter().any(|known| Arc::ptr_eq(known, &program_of_modules))
        {
            return Ok(());
        }
        if let Some(entry) = added.iter().chain([program]).find_map(|known| known.shared_with(&program_of_modules)) {
            return Err(CudaError::KernelTwice { entry: entry.to_owned() });
        }
        added.push(program_of_modules);
        Ok(())
    }

    /// Initialises the driver and creates the context of GPU `ordinal` on a background thread; this takes about 0.3 s.
    ///
    /// A later [`open`](Self::open) waits for the remainder and reports any error.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let starting = Gpu::start(0, &MODULES);
    /// // The program reads its input meanwhile.
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// # drop(starting);
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn start(ordinal: u32, modules: &'static Modules) -> Background {
        // If the thread cannot be created, `open` does all of this.
        Background::new(move || drop(PrimaryContext::open(ordinal, modules)))
    }

    /// Releases the contexts of all GPUs that are not open, on a background thread.
    ///
    /// The driver needs 0.1 s to release a context when the process exits. Calling this while other work remains hides
    /// half of that time. The context of an open GPU is released when the GPU is dropped.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// let stopping = Gpu::stop();
    /// // The program writes its output meanwhile.
    /// drop(stopping);
    /// ```
    pub fn stop() -> Background {
        let contexts = PrimaryContext::take_all();
        Background::new(move || drop(contexts))
    }

    /// The number of GPUs that the driver sees; at least 1.
    ///
    /// # Errors
    /// There is no driver or no GPU, or a driver call fails.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_cuda::*;
    /// match Gpu::count() {
    ///     Ok(count) => assert!(count >= 1),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn count() -> Result<u32, CudaError> {
        driver::get()?;
        // SAFETY: cuInit may be called any number of times; "the Flags parameter must be 0". `cust::init` would hide
        // the codes that report a mismatch of driver and kernel module.
        check("cuInit", unsafe { cust::sys::cuInit(0) } as u32)?;
        match CudaDevice::num_devices().map_err(from_cust("cuDeviceGetCount"))? {
            0 => Err(CudaError::NoDevice),
            count => Ok(count),
        }
    }

    /// The properties of all GPUs that the driver sees, and the device code of `modules` that each would run.
    ///
    /// # Errors
    /// As for [`count`](Self::count).
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// for info in Gpu::list(&MODULES)? {
    ///     let DeviceInfo { name, total_bytes, .. } = info;
    ///     println!("{name}: {}", size(total_bytes));
    /// }
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn list(modules: &'static Modules) -> Result<Vec<DeviceInfo>, CudaError> {
        (0..Self::count()?).map(|ordinal| info::info(ordinal, modules)).collect()
    }

    /// The newest CUDA version that the driver supports (major, minor).
    ///
    /// # Errors
    /// There is no driver.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_cuda::*;
    /// match Gpu::driver_version() {
    ///     Ok((major, minor)) => println!("a driver for CUDA {major}.{minor}"),
    ///     Err(error) => assert!(error.to_string().contains("driver"), "{error}"),
    /// }
    /// ```
    pub fn driver_version() -> Result<(u32, u32), CudaError> {
        driver::get()?;
        let version = CudaApiVersion::get().map_err(from_cust("cuDriverGetVersion"))?;
        Ok((version.major().unsigned_abs(), version.minor().unsigned_abs()))
    }

    /// The ordinal with which the GPU was opened.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// assert_eq!(gpu.ordinal(), 0);
    /// # Ok::<(), CudaError>(())
    /// ```
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.core.context.ordinal
    }

    /// The PCI address, which tells the GPUs of a node apart: "0000:1b:00.0".
    ///
    /// # Errors
    /// If the driver does not tell.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// println!("{} at {}", gpu.name(), gpu.pci()?);
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn pci(&self) -> Result<String, CudaError> {
        info::pci(info::cuda_device(self.ordinal())?)
    }

    /// Name and ordinal: "NVIDIA H200 (cuda:0)".
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// assert!(gpu.name().ends_with("(cuda:0)"));
    /// # Ok::<(), CudaError>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> String {
        let PrimaryContext { device, ordinal, .. } = &*self.core.context;
        let name = device.name().unwrap_or_else(|_| "GPU".to_owned());
        format!("{name} (cuda:{ordinal})")
    }

    /// Free and total device memory in bytes.
    ///
    /// # Errors
    /// A driver call fails.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// let (free, total) = gpu.memory()?;
    /// println!("{} of {} are free", size(free), size(total));
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn memory(&self) -> Result<(u64, u64), CudaError> {
        self.core.enter()?;
        let (free, total) = mem_get_info().map_err(from_cust("cuMemGetInfo"))?;
        // Buffers can have the memory kept as well.
        Ok(((free + self.core.spare_bytes()) as u64, total as u64))
    }

    /// Checks that `needed` bytes of device memory are free. `what`, the purpose of the memory, begins the error
    /// message.
    ///
    /// This allocates nothing: another process may take the memory afterwards.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], or a driver call fails.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// gpu.reserve(1 << 20, "the matrix")?;
    /// assert!(matches!(gpu.reserve(u64::MAX, "the matrix"), Err(CudaError::OutOfMemory { .. })));
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn reserve(&self, needed: u64, what: &str) -> Result<(), CudaError> {
        let (free, total) = self.memory()?;
        if needed > free {
            return Err(CudaError::OutOfMemory {
                needed,
                free,
                total,
                what: what.to_owned(),
                instead: CudaError::SMALLER,
            });
        }
        Ok(())
    }

    /// Calls `work` and measures the GPU time of the operations it submits, with a resolution of about 0.5 µs.
    ///
    /// # Errors
    /// Errors of `work`, and errors of the GPU while it executes the operations.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// let mut buffer = gpu.zeros::<f32>(1 << 20)?;
    /// let ((), time) = gpu.time(|| gpu.clear(&mut buffer))?;
    /// println!("{time:?}");
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn time<R>(&self, work: impl FnOnce() -> Result<R, CudaError>) -> Result<(R, Duration), CudaError> {
        self.core.enter()?;
        let event = || CudaEvent::new(EventFlags::DEFAULT).map_err(from_cust("cuEventCreate"));
        let (start, stop) = (event()?, event()?);
        start.record(self.core.current()).map_err(from_cust("cuEventRecord"))?;
        let result = work()?;
        self.core.enter()?;
        stop.record(self.core.current()).map_err(from_cust("cuEventRecord"))?;
        self.core.settle()?;
        self.core.context.messages.told(stop.synchronize().map_err(from_cust("cuEventSynchronize")))?;
        Ok((result, stop.elapsed(&start).map_err(from_cust("cuEventElapsedTime"))?))
    }
}

impl Core {
    /// Makes the context current on the calling thread.
    fn enter(&self) -> Result<(), CudaError> {
        self.context.enter()
    }

    /// The stream to which operations go at present.
    fn current(&self) -> &Stream {
        if self.on_side.get() { &self.side } else { &self.stream }
    }

    /// [`current`](Self::current), as the driver's functions take it.
    fn stream(&self) -> Handle {
        self.current().as_inner().cast()
    }

    /// The address of the counter for a cooperative grid on the current stream.
    fn grid_counter(&self) -> u64 {
        self.grid_counters.as_device_ptr().as_raw() + if self.on_side.get() { 4 } else { 0 }
    }

    /// An error of a driver call, which may be due to a failed assertion of a kernel: then that is the error.
    fn told<R>(&self, result: Result<R, CudaError>) -> Result<R, CudaError> {
        if result.is_err() { self.context.messages.told(result) } else { result }
    }

    /// Waits for all work submitted to the stream.
    fn synchronize(&self) -> Result<(), CudaError> {
        self.settle()?;
        self.synchronize_stream(self.current())
    }

    /// Waits for a stream, without limit: its operations of communicators have ended or were aborted.
    fn synchronize_stream(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: the stream lives as long as `self`, and all callers have made its context current.
        let code = unsafe { (self.context.driver.stream_synchronize)(stream.as_inner().cast()) };
        self.context.messages.told(check("cuStreamSynchronize", code)).inspect(|()| finished())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The streams are destroyed next and need their context. A destructor cannot report a failure.
        let _ = self.enter().and_then(|()| self.measured.read());
        if self.context.messages.expected()
            && let Err(error @ CudaError::Assertion { .. }) = self.synchronize()
        {
            // Nobody else will tell.
            eprintln!("{error}");
        }
    }
}

impl Device for Gpu {
    type Error = CudaError;
    type Buffer<T: DeviceCopy> = GpuBuffer<T>;
    type Pinned<T: DeviceCopy> = Pinned<T>;
    type Event = Event;
    type Graph = Graph;

    fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<GpuBuffer<T>, CudaError> {
        let mut buffer = self.core.allocate(len)?;
        self.clear(&mut buffer)?;
        Ok(buffer)
    }

    fn uninitialised<T: DeviceCopy>(&self, len: usize) -> Result<GpuBuffer<T>, CudaError> {
        self.core.allocate(len)
    }

    fn upload<T: DeviceCopy>(&self, source: &[T]) -> Result<GpuBuffer<T>, CudaError> {
        let mut buffer = self.core.allocate(source.len())?;
        self.write(&mut buffer, source)?;
        Ok(buffer)
    }

    fn upload_pieces<T: DeviceCopy>(
        &self,
        ends: &[usize],
        fill: impl FnMut(usize, &mut [T]),
    ) -> Result<GpuBuffer<T>, CudaError> {
        self.core.told(self.core.upload_pieces(ends, fill))
    }

    fn write<T: DeviceCopy>(&self, target: &mut GpuBuffer<T>, source: &[T]) -> Result<(), CudaError> {
        self.core.told(self.core.write(target, source))
    }

    fn clear<T: DeviceCopy>(&self, buffer: &mut GpuBuffer<T>) -> Result<(), CudaError> {
        self.core.told(self.core.clear(buffer))
    }

    fn download<T: DeviceCopy>(&self, buffer: &GpuBuffer<T>, target: &mut [T]) -> Result<(), CudaError> {
        self.core.told(self.core.download(buffer, target))
    }

    fn synchronize(&self) -> Result<(), CudaError> {
        self.core.enter()?;
        self.core.synchronize()?;
        self.core.measured.read()
    }

    /// Moves `source` to page-locked memory. If the driver grants none, `source` stays pageable: [`stage`](Self::stage)
    /// is then slower, and its copies may not overlap with other work.
    fn pin<T: DeviceCopy>(&self, source: Vec<T>) -> Result<Pinned<T>, CudaError> {
        self.core.pin(source)
    }

    fn record_event(&self) -> Result<Event, CudaError> {
        self.core.enter()?;
        self.core.told(self.core.record_event(self.core.current()))
    }

    unsafe fn stage<T: DeviceCopy>(
        &self,
        source: &Pinned<T>,
        range: Range<usize>,
        target: &mut GpuBuffer<T>,
        after: &Event,
    ) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        self.core.told(unsafe { self.core.stage(source, range, target, after) })
    }

    fn capture(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Option<Graph>, CudaError> {
        // The launches of a graph have no times of their own.
        if Usage::is_measured() { Ok(None) } else { self.core.capture(work).map(Some) }
    }

    unsafe fn launch_graph(&self, graph: &Graph) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        self.core.told(unsafe { self.core.launch_graph(graph) })
    }

    unsafe fn beside<C>(
        &self,
        context: &mut C,
        side: impl FnOnce(&mut C) -> Result<(), CudaError>,
        main: impl FnOnce(&mut C) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let (end, done) = self.core.aside(|| side(context))?;
        let done = done.and_then(|()| main(context));
        self.core.enter()?;
        // A failure joins the streams again, too: a capture in progress requires it.
        done.and(self.core.wait(&self.core.stream, &end))
    }

    unsafe fn launch(&self, call: Call<'_>) -> Result<(), CudaError> {
        let core = &self.core;
        // SAFETY: the caller's promise.
        let launch = || unsafe { core.launch(&call) };
        let timed = || core.enter().and_then(|()| core.measured.measure(call.entry, core.current(), launch));
        core.told(if Usage::is_measured() { timed() } else { launch() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_reports_a_missing_driver() {
        if driver::get().is_ok() {
            return;
        }
        static NONE: Modules = Modules { compiler: Err("a test"), assembler: None, baselines: &[] };
        drop(Gpu::start(0, &NONE));
        drop(Gpu::stop());
        for error in [
            Gpu::count().err(),
            Gpu::list(&NONE).err(),
            Gpu::driver_version().err(),
            Gpu::open(0, &NONE).err(),
            Foreign::open(0).err(),
        ] {
            assert!(matches!(error, Some(CudaError::NoDriver { .. })), "{error:?}");
        }
    }
}
