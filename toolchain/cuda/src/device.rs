//! One GPU: its memory, its kernels and its clock.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cust::CudaApiVersion;
use cust::context::{Context, CurrentContext};
use cust::device::{Device as CudaDevice, DeviceAttribute};
use cust::event::{self, EventFlags};
use cust::memory::{AsyncCopyDestination, DeviceBuffer, LockedBuffer, mem_get_info};
use cust::stream::{Stream, StreamFlags};
use rayon::prelude::*;
use serde::Serialize;
use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Arg, Buffer, Call, Device};

use crate::driver::{self, Driver, Handle, LaunchConfig};
use crate::error::{CudaError, check, from_cust};
use crate::module::{Code, Entry, Modules, choose};

/// Bytes that are made or moved on the host at a time, while those before them are copied.
const PIECE: usize = 16 << 20;

/// Shared memory per block, in bytes, that a kernel may use without asking for more.
const SHARED_BY_DEFAULT: u32 = 48 * 1024;

/// What is known of a GPU without opening it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// Its number, from 0, in the driver's order (`CUDA_VISIBLE_DEVICES` applies).
    pub ordinal: u32,
    /// Its name, as "NVIDIA H200".
    pub name: String,
    /// Compute capability (major, minor).
    pub compute_capability: (u32, u32),
    /// Device memory in bytes.
    pub total_bytes: u64,
    /// Free device memory in bytes, if the GPU lets itself be used now.
    pub free_bytes: Option<u64>,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Size of the level-2 cache in bytes.
    pub l2_bytes: u64,
    /// Most threads in a block.
    pub max_threads: u32,
    /// PCI address, as `0000:1b:00.0`.
    pub pci: String,
    /// The baseline of the device code that it would run: 90 for `sm_90`.
    pub ptx: Option<u32>,
    /// The GPUs that the machine code is for which it would run. `None` if the driver compiles the PTX.
    pub machine_code: Option<u32>,
    /// Why it would run none.
    pub unsupported: Option<String>,
}

/// A GPU, opened: it runs one thing after the other, in the order asked for, on a stream of its own.
///
/// A `Gpu` and its buffers stay on the thread that opened it (they are not `Send`). Several may be open at a time, on
/// one thread or on many.
pub struct Gpu {
    core: Rc<Core>,
}

/// What the GPU and its buffers share. The fields are dropped in this order.
struct Core {
    /// Kernels that were launched here.
    functions: RefCell<HashMap<&'static str, Arc<Function>>>,
    /// Page-locked memory that large copies take turns in, once there was one.
    staging: RefCell<Option<[LockedBuffer<u8>; 2]>>,
    stream: Stream,
    /// Where copies go that run beside the rest.
    side: Stream,
    started: Arc<Started>,
    program: Arc<Program>,
    limits: Limits,
    /// That of the device code.
    baseline: u32,
}

/// A GPU with its context, and the device code that was loaded into it. All of that stays until the process ends or
/// [`Gpu::stop`] is called: opening a GPU again is quick.
struct Started {
    ordinal: u32,
    driver: &'static Driver,
    device: CudaDevice,
    context: Context,
    multiprocessors: u32,
    programs: Mutex<Vec<Arc<Program>>>,
}

/// Device code in a context.
struct Program {
    modules: &'static Modules,
    loaded: Mutex<Loaded>,
}

/// What is loaded of it.
struct Loaded {
    code: Code,
    functions: HashMap<&'static str, Arc<Function>>,
}

/// The GPUs that were started.
static STARTED: Mutex<Vec<Arc<Started>>> = Mutex::new(Vec::new());

/// Contexts of GPUs that are set up or taken down, on a thread of their own. Where this is dropped, the end of that is waited for, so
/// that the process does not end in the middle of it.
#[must_use]
pub struct Background(Option<JoinHandle<()>>);

impl Background {
    /// Does `work`, if there is a thread to do it.
    fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(thread::Builder::new().name("cuda".to_owned()).spawn(work).ok())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic has been printed, and what failed will fail again where the GPU is opened.
            let _ = thread.join();
        }
    }
}

/// The largest launch that the GPU takes.
struct Limits {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

/// A kernel, loaded.
struct Function {
    handle: Handle,
    params: &'static [usize],
    /// Most threads in a block, by the registers that the kernel needs.
    max_threads: u32,
    /// Shared memory that the kernel declares itself, in bytes.
    static_shared: u32,
    /// Dynamic shared memory that it may have so far, in bytes.
    dynamic_shared: Mutex<u32>,
    /// Blocks that the GPU holds at one time, by threads and dynamic shared memory of a block.
    resident: Mutex<HashMap<(u32, u32), u32>>,
}

// SAFETY: the handle is one of the driver, whose functions take it on any thread on which its context is current.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Gpu {
    /// Opens GPU `ordinal`, to launch the kernels of `modules`. Each kernel is loaded when it is first launched: as machine code,
    /// or as PTX that the driver compiles where there is none for this GPU (it keeps the result in a cache on disk).
    ///
    /// # Errors
    /// No driver, no such GPU, no device code for it, or a driver that refuses.
    pub fn open(ordinal: u32, modules: &'static Modules) -> Result<Self, CudaError> {
        let (started, program) = Started::open(ordinal, modules)?;
        started.enter()?;
        let limits = Limits::of(started.device)?;
        let stream = || Stream::new(StreamFlags::DEFAULT, None).map_err(from_cust("cuStreamCreate"));
        let (stream, side) = (stream()?, stream()?);
        let baseline = program.code().baseline.sm;
        let (functions, staging) = (RefCell::default(), RefCell::default());
        let core = Core { functions, staging, stream, side, started, program, limits, baseline };
        Ok(Self { core: Rc::new(core) })
    }

    /// Starts the driver and the context of GPU `ordinal` on a thread of its own, which takes a third of a second: [`open`](Self::open)
    /// then waits for what is left of it, and says what went wrong.
    pub fn start(ordinal: u32, modules: &'static Modules) -> Background {
        // Without a thread, the driver is started where it is needed.
        Background::new(move || drop(Started::open(ordinal, modules)))
    }

    /// Takes down the contexts of all GPUs that are not open, beside whatever the caller does next. What the driver does at the end of
    /// the process anyway takes 0.1 s; half of it can be done before.
    pub fn stop() -> Background {
        let started = std::mem::take(&mut *STARTED.lock().unwrap_or_else(PoisonError::into_inner));
        // One that is open is taken down where it is closed.
        Background::new(move || drop(started))
    }

    /// How many GPUs the driver sees: at least one.
    ///
    /// # Errors
    /// No driver, no GPU, or a driver that refuses.
    pub fn count() -> Result<u32, CudaError> {
        driver::get()?;
        // SAFETY: cuInit may be called any number of times; its flags "must be 0". Not `cust::init`, which loses the
        // codes for a driver that does not match its kernel module.
        check("cuInit", unsafe { cust::sys::cuInit(0) } as u32)?;
        match CudaDevice::num_devices().map_err(from_cust("cuDeviceGetCount"))? {
            0 => Err(CudaError::NoDevice),
            count => Ok(count),
        }
    }

    /// All GPUs that the driver sees, and what each would run of `modules`.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    pub fn list(modules: &'static Modules) -> Result<Vec<DeviceInfo>, CudaError> {
        (0..Self::count()?).map(|ordinal| info(ordinal, modules)).collect()
    }

    /// The newest CUDA version that the driver supports (major, minor).
    ///
    /// # Errors
    /// No driver.
    pub fn driver_version() -> Result<(u32, u32), CudaError> {
        driver::get()?;
        let version = CudaApiVersion::get().map_err(from_cust("cuDriverGetVersion"))?;
        Ok((version.major().unsigned_abs(), version.minor().unsigned_abs()))
    }

    /// Name and number: "NVIDIA H200 (cuda:0)".
    #[must_use]
    pub fn name(&self) -> String {
        let Started { device, ordinal, .. } = &*self.core.started;
        let name = device.name().unwrap_or_else(|_| "GPU".to_owned());
        format!("{name} (cuda:{ordinal})")
    }

    /// Free and total device memory in bytes.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn memory(&self) -> Result<(u64, u64), CudaError> {
        self.core.enter()?;
        let (free, total) = mem_get_info().map_err(from_cust("cuMemGetInfo"))?;
        Ok((free as u64, total as u64))
    }

    /// Checks that `needed` bytes are free, before anything is allocated; `what` they are for begins the message.
    ///
    /// Nothing is set aside: another process may still take the memory.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], or a driver that refuses.
    pub fn reserve(&self, needed: u64, what: &str) -> Result<(), CudaError> {
        let (free, total) = self.memory()?;
        if needed > free {
            return Err(CudaError::OutOfMemory { needed, free, total, what: what.to_owned() });
        }
        Ok(())
    }

    /// Does `work`, and says how long the GPU took for what `work` asked of it (about 0.5 µs resolution).
    ///
    /// # Errors
    /// Those of `work`, and those of the GPU meanwhile.
    pub fn time<R>(&self, work: impl FnOnce() -> Result<R, CudaError>) -> Result<(R, Duration), CudaError> {
        self.core.enter()?;
        let event = || event::Event::new(EventFlags::DEFAULT).map_err(from_cust("cuEventCreate"));
        let (start, stop) = (event()?, event()?);
        start.record(&self.core.stream).map_err(from_cust("cuEventRecord"))?;
        let result = work()?;
        self.core.enter()?;
        stop.record(&self.core.stream).map_err(from_cust("cuEventRecord"))?;
        stop.synchronize().map_err(from_cust("cuEventSynchronize"))?;
        Ok((result, stop.elapsed(&start).map_err(from_cust("cuEventElapsedTime"))?))
    }

    fn allocate<T: DeviceCopy>(&self, len: usize) -> Result<GpuBuffer<T>, CudaError> {
        self.core.enter()?;
        let lacking = |needed| {
            let (free, total) = mem_get_info().unwrap_or_default();
            CudaError::OutOfMemory { needed, free: free as u64, total: total as u64, what: "a buffer".to_owned() }
        };
        let size = len.checked_mul(size_of::<T>()).ok_or_else(|| lacking(u64::MAX))?;
        // SAFETY: cust asks that the memory be written before it is read; the callers do that. For 0 bytes cust does
        // not ask the driver.
        let bytes = unsafe { DeviceBuffer::uninitialized(size) }.map_err(|error| match error {
            cust::error::CudaError::OutOfMemory => lacking(size as u64),
            other => from_cust("cuMemAlloc")(other),
        })?;
        Ok(GpuBuffer { bytes, len, core: Rc::clone(&self.core), elements: PhantomData })
    }
}

impl Started {
    /// GPU `ordinal` with `modules`, which it can run. It is started if it was not.
    fn open(ordinal: u32, modules: &'static Modules) -> Result<(Arc<Self>, Arc<Program>), CudaError> {
        let code = choose(modules, compute_capability(device(ordinal)?)?, Gpu::driver_version()?)?;
        let started = Self::get(ordinal)?;
        let mut programs = started.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = programs.iter().find(|program| ptr::eq(program.modules, modules));
        let program = known.map(Arc::clone).unwrap_or_else(|| {
            let loaded = Mutex::new(Loaded { code, functions: HashMap::new() });
            let program = Arc::new(Program { modules, loaded });
            programs.push(Arc::clone(&program));
            program
        });
        drop(programs);
        Ok((started, program))
    }

    /// GPU `ordinal`, started if it was not.
    fn get(ordinal: u32) -> Result<Arc<Self>, CudaError> {
        let device = device(ordinal)?;
        let mut all = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = all.iter().find(|started| started.ordinal == ordinal) {
            return Ok(Arc::clone(started));
        }
        let driver = driver::get()?;
        let multiprocessors = attribute(device, DeviceAttribute::MultiprocessorCount)?;
        let context = Context::new(device).map_err(from_cust("cuDevicePrimaryCtxRetain"))?;
        let started = Arc::new(Self { ordinal, driver, device, context, multiprocessors, programs: Mutex::default() });
        all.push(Arc::clone(&started));
        Ok(started)
    }

    /// Makes the context current on the calling thread.
    fn enter(&self) -> Result<(), CudaError> {
        CurrentContext::set_current(&self.context).map_err(from_cust("cuCtxSetCurrent"))
    }

    /// Loads a kernel. A driver that does not take the machine code gets the PTX, now and from then on.
    fn load(&self, code: &mut Code, entry: &Entry) -> Result<Handle, CudaError> {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`.
        const RELAXED: u32 = 2;

        self.enter()?;
        // What is being recorded may launch a kernel for the first time. Loading it waits for nothing that is recorded.
        let mut mode = RELAXED;
        // SAFETY: the mode has a place, to which the former one of this thread is written.
        let mut exchange = || unsafe { (self.driver.thread_exchange_capture_mode)(&mut mode) };
        check("cuThreadExchangeStreamCaptureMode", exchange())?;
        let handle = code.load(self.driver, entry).or_else(|error| match (error, code.as_ptx()) {
            (CudaError::Jit { .. }, Some(ptx)) => {
                *code = ptx;
                code.load(self.driver, entry)
            }
            (error, _) => Err(error),
        });
        check("cuThreadExchangeStreamCaptureMode", exchange())?;
        handle
    }
}

impl Program {
    /// The device code that runs.
    fn code(&self) -> Code {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).code
    }

    /// The kernel of that name, loaded if it was not.
    fn function(&self, started: &Started, entry: &str) -> Result<Arc<Function>, CudaError> {
        let loaded = &mut *self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = loaded.functions.get(entry) {
            return Ok(Arc::clone(function));
        }
        let entry = loaded.code.baseline.entry(entry)?;
        let handle = started.load(&mut loaded.code, entry)?;
        let attribute = |kind: i32| {
            let mut value = 0;
            // SAFETY: the result has a place, and the function belongs to a loaded module.
            check("cuFuncGetAttribute", unsafe { (started.driver.func_get_attribute)(&mut value, kind, handle) })?;
            Ok::<u32, CudaError>(value.unsigned_abs())
        };
        // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK and CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES.
        let (max_threads, static_shared) = (attribute(0)?, attribute(1)?);
        let dynamic_shared = Mutex::new(SHARED_BY_DEFAULT.saturating_sub(static_shared));
        let (params, resident) = (entry.params, Mutex::default());
        let function = Function { handle, params, max_threads, static_shared, dynamic_shared, resident };
        let function = Arc::new(function);
        loaded.functions.insert(entry.name, Arc::clone(&function));
        Ok(function)
    }
}

impl Core {
    /// Makes the context current on the calling thread.
    fn enter(&self) -> Result<(), CudaError> {
        self.started.enter()
    }

    fn stream(&self) -> Handle {
        self.stream.as_inner().cast()
    }

    /// The point that `stream` has reached once it has done what it was asked for so far.
    fn record_event(self: &Rc<Self>, stream: &Stream) -> Result<Event, CudaError> {
        const DISABLE_TIMING: u32 = 2;

        let mut event = ptr::null_mut();
        // SAFETY: the result has a place, and the context is current.
        check("cuEventCreate", unsafe { (self.started.driver.event_create)(&mut event, DISABLE_TIMING) })?;
        let moment = Event { event, core: Rc::clone(self) };
        // SAFETY: event and stream live, and are of the same context.
        check("cuEventRecord", unsafe { (self.started.driver.event_record)(event, stream.as_inner().cast()) })?;
        Ok(moment)
    }

    /// Lets what `stream` is asked for from now on wait for `moment`.
    fn wait(&self, stream: &Stream, moment: &Event) -> Result<(), CudaError> {
        // SAFETY: both live; that the event is destroyed before it comes does not matter to who waits already.
        check("cuStreamWaitEvent", unsafe {
            (self.started.driver.stream_wait_event)(stream.as_inner().cast(), moment.event, 0)
        })
    }

    /// Copies to `target` piece by piece, as [`Device::upload_pieces`] does: through page-locked memory, which the GPU reads
    /// at full speed and by itself. False, and nothing is done, where there is none.
    fn copy_pieces<T: DeviceCopy>(
        &self,
        target: &mut DeviceBuffer<u8>,
        ends: &[usize],
        mut fill: impl FnMut(usize, &mut [T]),
    ) -> Result<bool, CudaError> {
        let starts = || [0].into_iter().chain(ends.iter().copied());
        let largest = starts().zip(ends).map(|(start, end)| (end - start) * size_of::<T>()).max().unwrap_or_default();
        let mut staging = self.staging.borrow_mut();
        if staging.as_ref().is_none_or(|staging| staging[0].len() < largest) {
            // SAFETY: all of it is written next.
            let locked = || unsafe { LockedBuffer::uninitialized(largest.max(PIECE)) };
            let (Ok(mut one), Ok(mut other)) = (locked(), locked()) else { return Ok(false) };
            one.par_chunks_mut(1 << 20).chain(other.par_chunks_mut(1 << 20)).for_each(|bytes| bytes.fill(0));
            *staging = Some([one, other]);
        }
        let Some(staging) = staging.as_mut() else { return Ok(false) };
        let event = || event::Event::new(EventFlags::DISABLE_TIMING).map_err(from_cust("cuEventCreate"));
        let copied = [event()?, event()?];
        let mut pieces = starts().zip(ends).enumerate();
        let done = pieces.try_for_each(|(piece, (start, &end))| {
            let range = start * size_of::<T>()..end * size_of::<T>();
            if range.is_empty() {
                return Ok(());
            }
            let (staged, copied) = (&mut staging[piece % 2], &copied[piece % 2]);
            // An event that was not recorded yet is over.
            copied.synchronize().map_err(from_cust("cuEventSynchronize"))?;
            let bytes = &mut staged[..range.len()];
            fill(piece, bytemuck::cast_slice_mut(bytes));
            self.enter()?;
            // SAFETY: both sides have the same length, and the host's is not touched before the event, or the end of this.
            unsafe { target.index(range).async_copy_from(&*bytes, &self.stream) }
                .map_err(from_cust("cuMemcpyHtoDAsync"))?;
            copied.record(&self.stream).map_err(from_cust("cuEventRecord"))
        });
        self.synchronize()?;
        done.map(|()| true)
    }

    /// Waits for everything asked for so far.
    fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the stream lives as long as `self`, and its context is current.
        check("cuStreamSynchronize", unsafe { (self.started.driver.stream_synchronize)(self.stream()) })
    }

    /// The kernel of that name, looked up once.
    fn function(&self, entry: &'static str) -> Result<Arc<Function>, CudaError> {
        if let Some(function) = self.functions.borrow().get(entry) {
            return Ok(Arc::clone(function));
        }
        let function = self.program.function(&self.started, entry)?;
        self.functions.borrow_mut().insert(entry, Arc::clone(&function));
        Ok(function)
    }

    /// Blocks of `threads` threads and `shared_bytes` of dynamic shared memory that the GPU holds at one time.
    fn resident_blocks(&self, function: &Function, threads: u32, shared_bytes: u32) -> Result<u32, CudaError> {
        let mut resident = function.resident.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&blocks) = resident.get(&(threads, shared_bytes)) {
            return Ok(blocks);
        }
        let mut blocks = 0;
        let threads_in = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: the result has a place, and the function belongs to the current context.
        let code = unsafe {
            (self.started.driver.occupancy_max_active_blocks)(
                &mut blocks,
                function.handle,
                threads_in,
                shared_bytes as usize,
            )
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        let blocks = blocks.unsigned_abs().max(1) * self.started.multiprocessors;
        resident.insert((threads, shared_bytes), blocks);
        Ok(blocks)
    }

    /// Lets the kernel have `bytes` of dynamic shared memory per block.
    fn allow_shared(&self, entry: &str, function: &Function, bytes: u32) -> Result<(), CudaError> {
        const MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;

        check_shared(entry, function, &self.limits, bytes)?;
        let mut allowed = function.dynamic_shared.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes > *allowed {
            let value = i32::try_from(bytes).unwrap_or(i32::MAX);
            // SAFETY: the function belongs to the loaded module; static and dynamic memory together stay within
            // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, as the attribute's documentation asks.
            let code = unsafe {
                (self.started.driver.func_set_attribute)(function.handle, MAX_DYNAMIC_SHARED_SIZE_BYTES, value)
            };
            check("cuFuncSetAttribute", code)?;
            *allowed = bytes;
        }
        Ok(())
    }

    /// [`Device::launch`].
    ///
    /// # Safety
    /// As there.
    unsafe fn launch(&self, call: &Call<'_>) -> Result<(), CudaError> {
        self.enter()?;
        let function = self.function(call.entry)?;
        check_launch(call, &function, &self.limits)?;
        self.allow_shared(call.entry, &function, call.shape.shared_bytes)?;
        let mut values: Vec<u64> = call.args.iter().map(value).collect();
        let mut parameters: Vec<*mut c_void> = values.iter_mut().map(|value| ptr::from_mut(value).cast()).collect();
        let (mut grid, block) = (call.shape.grid, call.shape.block);
        if call.shape.resident {
            let threads = block.x * block.y * block.z;
            grid.x = grid.x.min(self.resident_blocks(&function, threads, call.shape.shared_bytes)?);
        }
        // Device code of older GPUs does not wait itself.
        let overlapping = call.shape.overlapping && self.baseline >= 90;
        if let Some(launch) = self.started.driver.launch_kernel_ex.filter(|_| overlapping) {
            let config = LaunchConfig {
                grid: [grid.x, grid.y, grid.z],
                block: [block.x, block.y, block.z],
                shared_bytes: call.shape.shared_bytes,
                stream: self.stream(),
                attributes: &driver::OVERLAPPING,
                attribute_count: 1,
            };
            // SAFETY: as below; the launch and its attribute are laid out as the driver has them, and are there until it returns.
            let code = unsafe { launch(&config, function.handle, parameters.as_mut_ptr(), ptr::null_mut()) };
            return check("cuLaunchKernelEx", code);
        }
        // SAFETY: cuLaunchKernel takes one pointer per parameter, to as many bytes as the parameter has: number and
        // sizes were checked against the device code, and none exceeds the eight bytes of a value. It copies them
        // before it returns. That the addresses are good is the caller's promise.
        let code = unsafe {
            (self.started.driver.launch_kernel)(
                function.handle,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                call.shape.shared_bytes,
                self.stream(),
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", code)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The streams are destroyed next, and need their context. Nobody is left to tell of a failure.
        let _ = self.enter();
    }
}

impl Device for Gpu {
    type Error = CudaError;
    type Buffer<T: DeviceCopy> = GpuBuffer<T>;
    type Pinned<T: DeviceCopy> = Pinned<T>;
    type Event = Event;
    type Graph = Graph;

    fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<GpuBuffer<T>, CudaError> {
        let mut buffer = self.allocate(len)?;
        self.clear(&mut buffer)?;
        Ok(buffer)
    }

    fn upload<T: DeviceCopy>(&self, source: &[T]) -> Result<GpuBuffer<T>, CudaError> {
        let mut buffer = self.allocate(source.len())?;
        self.write(&mut buffer, source)?;
        Ok(buffer)
    }

    fn upload_pieces<T: DeviceCopy>(
        &self,
        ends: &[usize],
        mut fill: impl FnMut(usize, &mut [T]),
    ) -> Result<GpuBuffer<T>, CudaError> {
        let mut buffer = self.allocate(ends.last().copied().unwrap_or_default())?;
        if !self.core.copy_pieces(&mut buffer.bytes, ends, &mut fill)? {
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

    fn write<T: DeviceCopy>(&self, target: &mut GpuBuffer<T>, source: &[T]) -> Result<(), CudaError> {
        assert_eq!(target.len, source.len(), "elements");
        self.core.enter()?;
        let bytes: &[u8] = bytemuck::cast_slice(source);
        if bytes.len() > PIECE {
            let ends: Vec<usize> = (1..=bytes.len().div_ceil(PIECE)).map(|end| bytes.len().min(end * PIECE)).collect();
            let copied = self.core.copy_pieces(&mut target.bytes, &ends, |piece, target: &mut [u8]| {
                let source = &bytes[piece * PIECE..][..target.len()];
                target
                    .par_chunks_mut(1 << 20)
                    .zip(source.par_chunks(1 << 20))
                    .for_each(|(to, from)| to.copy_from_slice(from));
            })?;
            if copied {
                return Ok(());
            }
        }
        // SAFETY: both sides have the same length, and the host's outlives the copy, which is waited for: from pageable
        // memory "the function might be synchronous with respect to host", that is, it might not.
        unsafe { target.bytes.async_copy_from(bytes, &self.core.stream) }.map_err(from_cust("cuMemcpyHtoDAsync"))?;
        self.core.synchronize()
    }

    fn clear<T: DeviceCopy>(&self, buffer: &mut GpuBuffer<T>) -> Result<(), CudaError> {
        self.core.enter()?;
        // SAFETY: the memory is the buffer's, and later uses of it follow on the same stream. cust does nothing for a
        // buffer without memory.
        unsafe { buffer.bytes.set_8_async(0, &self.core.stream) }.map_err(from_cust("cuMemsetD8Async"))
    }

    fn download<T: DeviceCopy>(&self, buffer: &GpuBuffer<T>, target: &mut [T]) -> Result<(), CudaError> {
        assert!(target.len() <= buffer.len, "{} elements wanted of {}", target.len(), buffer.len);
        self.core.enter()?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(target);
        if !bytes.is_empty() {
            let source = buffer.bytes.index(..bytes.len());
            // SAFETY: both sides have the same length, and the host's outlives the copy, which is waited for. It comes
            // after everything that the stream was asked for before.
            unsafe { source.async_copy_to(bytes, &self.core.stream) }.map_err(from_cust("cuMemcpyDtoHAsync"))?;
        }
        self.core.synchronize()
    }

    fn synchronize(&self) -> Result<(), CudaError> {
        self.core.enter()?;
        self.core.synchronize()
    }

    /// Moves `source` to page-locked memory, which the GPU reads by itself. Where there is none, copies go through the
    /// driver's own: slower, and not beside other work.
    fn pin<T: DeviceCopy>(&self, source: Vec<T>) -> Result<Pinned<T>, CudaError> {
        self.core.enter()?;
        let bytes: &[u8] = bytemuck::cast_slice(&source);
        // SAFETY: all of it is written next, and read after that only.
        let elements = match unsafe { LockedBuffer::uninitialized(bytes.len()) } {
            Ok(mut locked) => {
                const CHUNK: usize = 16 << 20;
                locked
                    .par_chunks_mut(CHUNK)
                    .zip(bytes.par_chunks(CHUNK))
                    .for_each(|(to, from)| to.copy_from_slice(from));
                Elements::Locked(locked)
            }
            Err(_) => Elements::Pageable(source),
        };
        Ok(Pinned { elements, core: Rc::clone(&self.core) })
    }

    fn record_event(&self) -> Result<Event, CudaError> {
        self.core.enter()?;
        self.core.record_event(&self.core.stream)
    }

    unsafe fn stage<T: DeviceCopy>(
        &self,
        source: &Pinned<T>,
        range: Range<usize>,
        target: &mut GpuBuffer<T>,
        after: &Event,
    ) -> Result<(), CudaError> {
        let bytes = source.elements.bytes(range);
        if bytes.is_empty() {
            return Ok(());
        }
        self.core.enter()?;
        let Core { stream, side, .. } = &*self.core;
        self.core.wait(side, after)?;
        let mut target = target.bytes.index(..bytes.len());
        // SAFETY: both sides have the same length. The host's outlives the copy, which `Pinned` waits for, and nobody
        // writes it. What used the target before `after` is done then, and what uses it from now on waits, as follows.
        unsafe { target.async_copy_from(bytes, side) }.map_err(from_cust("cuMemcpyHtoDAsync"))?;
        self.core.wait(stream, &self.core.record_event(side)?)
    }

    fn capture(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Option<Graph>, CudaError> {
        /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads may do what they like.
        const THREAD_LOCAL: u32 = 1;

        let Started { driver, .. } = &*self.core.started;
        self.core.enter()?;
        // SAFETY: the stream lives, and its context is current.
        check("cuStreamBeginCapture", unsafe { (driver.stream_begin_capture)(self.core.stream(), THREAD_LOCAL) })?;
        let done = work();
        self.core.enter()?;
        let mut graph = ptr::null_mut();
        // SAFETY: the result has a place; the capture has begun, and ends whether all went well in it or not.
        let code = unsafe { (driver.stream_end_capture)(self.core.stream(), &mut graph) };
        let mut recording = Graph { graph: ptr::null_mut(), core: Rc::clone(&self.core) };
        let made = done.and_then(|()| check("cuStreamEndCapture", code)).and_then(|()| {
            // SAFETY: the result has a place, and the graph is whole.
            let code = unsafe { (driver.graph_instantiate)(&mut recording.graph, graph, 0) };
            check("cuGraphInstantiate", code)
        });
        if !graph.is_null() {
            // SAFETY: nobody else has the graph; what was made of it does not need it.
            check("cuGraphDestroy", unsafe { (driver.graph_destroy)(graph) })?;
        }
        made.map(|()| Some(recording))
    }

    unsafe fn launch_graph(&self, recording: &Graph) -> Result<(), CudaError> {
        self.core.enter()?;
        // SAFETY: graph and stream live, and are of the same context. That the addresses in it are good is the caller's
        // promise.
        check("cuGraphLaunch", unsafe { (self.core.started.driver.graph_launch)(recording.graph, self.core.stream()) })
    }

    unsafe fn launch(&self, call: Call<'_>, _: impl Fn()) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.core.launch(&call) }
    }
}

/// Memory of a [`Gpu`]: `len` elements of `T`, freed when dropped.
///
/// The GPU stays open as long as one of its buffers lives.
pub struct GpuBuffer<T> {
    bytes: DeviceBuffer<u8>,
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
        // The memory is freed next, in its context. Memory from cuMemAlloc may be freed while kernels that use it are
        // in flight: unlike for cuMemAllocAsync, cuMemFree waits for them.
        let _ = self.core.enter();
    }
}

/// Elements in the host's memory, page-locked where the driver does that: what a [`Gpu`] copies from by itself.
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
        // Copies from here may be on their way, and the memory is freed next, in its context. Nobody is left to tell of a
        // failure.
        let _ = self.core.enter();
        let _ = self.core.side.synchronize();
    }
}

/// A point in what a [`Gpu`] was asked for.
pub struct Event {
    event: Handle,
    core: Rc<Core>,
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.core.enter();
        // SAFETY: it was created, and nobody else has it. "An event may be destroyed before it is complete."
        unsafe { (self.core.started.driver.event_destroy)(self.event) };
    }
}

/// Launches that a [`Gpu`] recorded: a CUDA graph.
pub struct Graph {
    graph: Handle,
    core: Rc<Core>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            let _ = self.core.enter();
            // SAFETY: it was created, and nobody else has it. If it is running, "it will not be destroyed until execution
            // completes".
            unsafe { (self.core.started.driver.graph_exec_destroy)(self.graph) };
        }
    }
}

impl Limits {
    fn of(device: CudaDevice) -> Result<Self, CudaError> {
        use DeviceAttribute::{MaxBlockDimX, MaxBlockDimY, MaxBlockDimZ, MaxGridDimX, MaxGridDimY, MaxGridDimZ};

        let extents =
            |x, y, z| Ok::<_, CudaError>([attribute(device, x)?, attribute(device, y)?, attribute(device, z)?]);
        let optin = cust::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let mut shared_bytes = 0;
        // SAFETY: the result has a place, and the device came from the driver.
        let code = unsafe { cust::sys::cuDeviceGetAttribute(&mut shared_bytes, optin, device.as_raw()) };
        check("cuDeviceGetAttribute", code as u32)?;
        Ok(Self {
            grid: extents(MaxGridDimX, MaxGridDimY, MaxGridDimZ)?,
            block: extents(MaxBlockDimX, MaxBlockDimY, MaxBlockDimZ)?,
            shared_bytes: shared_bytes.unsigned_abs(),
        })
    }
}

/// The eight bytes that the driver reads an argument from.
fn value(arg: &Arg) -> u64 {
    match *arg {
        Arg::Buffer { address, .. } => address,
        Arg::Scalar { bytes, .. } => u64::from_ne_bytes(bytes),
    }
}

/// Checks the arguments against the device code, and the shape against the GPU.
fn check_launch(call: &Call<'_>, function: &Function, limits: &Limits) -> Result<(), CudaError> {
    let bad = |why| Err(CudaError::BadLaunch { entry: call.entry.to_owned(), why });
    let (args, params) = (call.args, function.params);
    if args.len() != params.len() {
        return bad(format!("it was given {} arguments and the device code takes {}", args.len(), params.len()));
    }
    if let Some(at) = (0..args.len()).find(|&at| args[at].param_size() != params[at] || params[at] > 8) {
        let (given, taken) = (args[at].param_size(), params[at]);
        return bad(format!("argument {at} has {given} bytes and the device code takes {taken}"));
    }
    let (grid, block) = (call.shape.grid, call.shape.block);
    for (name, extent, limit) in [("grid", grid, limits.grid), ("block", block, limits.block)] {
        let extent = [extent.x, extent.y, extent.z];
        if (0..3).any(|axis| extent[axis] == 0 || extent[axis] > limit[axis]) {
            return bad(format!("its {name} is {extent:?}, and this GPU takes 1 to {limit:?}"));
        }
    }
    if block.count() > u64::from(function.max_threads) {
        let (threads, most) = (block.count(), function.max_threads);
        return bad(format!("its block has {threads} threads, and on this GPU the kernel takes at most {most}"));
    }
    check_shared(call.entry, function, limits, call.shape.shared_bytes)
}

/// Checks that the GPU has `bytes` of shared memory per block beside what the kernel declares.
fn check_shared(entry: &str, function: &Function, limits: &Limits, bytes: u32) -> Result<(), CudaError> {
    let (needed, most) = (u64::from(function.static_shared) + u64::from(bytes), u64::from(limits.shared_bytes));
    if needed > most {
        let why = format!("a block needs {needed} bytes of shared memory, and this GPU has {most}");
        return Err(CudaError::BadLaunch { entry: entry.to_owned(), why });
    }
    Ok(())
}

/// The GPU of that number.
fn device(ordinal: u32) -> Result<CudaDevice, CudaError> {
    let count = Gpu::count()?;
    if ordinal >= count {
        return Err(CudaError::BadOrdinal { ordinal, count });
    }
    CudaDevice::get_device(ordinal).map_err(from_cust("cuDeviceGet"))
}

fn info(ordinal: u32, modules: &'static Modules) -> Result<DeviceInfo, CudaError> {
    let device = device(ordinal)?;
    let compute_capability = compute_capability(device)?;
    let code = choose(modules, compute_capability, Gpu::driver_version()?);
    // Free memory is known to a context only, and what the driver takes for machine code. A GPU may be taken.
    let opened = Started::open(ordinal, modules).and_then(|(started, program)| {
        started.enter()?;
        Ok((started, program))
    });
    let free = opened.as_ref().ok().and_then(|_| mem_get_info().ok()).map(|(free, _)| free as u64);
    let code = code.and_then(|code| match (opened, code.baseline.entries.first()) {
        (Ok((started, program)), Some(entry)) => program.function(&started, entry.name).map(|_| program.code()),
        _ => Ok(code),
    });
    let unsupported = code.as_ref().err().map(ToString::to_string);
    let [domain, bus, slot] = [DeviceAttribute::PciDomainId, DeviceAttribute::PciBusId, DeviceAttribute::PciDeviceId]
        .map(|kind| attribute(device, kind));
    Ok(DeviceInfo {
        ordinal,
        name: device.name().map_err(from_cust("cuDeviceGetName"))?,
        compute_capability,
        total_bytes: device.total_memory().map_err(from_cust("cuDeviceTotalMem"))? as u64,
        free_bytes: free,
        multiprocessors: attribute(device, DeviceAttribute::MultiprocessorCount)?,
        l2_bytes: u64::from(attribute(device, DeviceAttribute::L2CacheSize)?),
        max_threads: attribute(device, DeviceAttribute::MaxThreadsPerBlock)?,
        pci: format!("{:04x}:{:02x}:{:02x}.0", domain?, bus?, slot?),
        ptx: code.as_ref().ok().map(|code| code.baseline.sm),
        machine_code: code.as_ref().ok().and_then(Code::machine),
        unsupported,
    })
}

fn compute_capability(device: CudaDevice) -> Result<(u32, u32), CudaError> {
    let number = |kind| attribute(device, kind);
    Ok((number(DeviceAttribute::ComputeCapabilityMajor)?, number(DeviceAttribute::ComputeCapabilityMinor)?))
}

fn attribute(device: CudaDevice, kind: DeviceAttribute) -> Result<u32, CudaError> {
    let value = device.get_attribute(kind).map_err(from_cust("cuDeviceGetAttribute"))?;
    Ok(value.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use warpkov_device::launch::{Dim3, Shape};

    use super::*;
    use crate::module::Baseline;

    const LIMITS: Limits =
        Limits { grid: [i32::MAX as u32, 65_535, 65_535], block: [1024, 1024, 64], shared_bytes: 227 * 1024 };

    fn refusal(shape: Shape, args: &[Arg]) -> Option<String> {
        let function = Function {
            handle: ptr::null_mut(),
            params: &[8, 4],
            max_threads: 768,
            static_shared: 1024,
            dynamic_shared: Mutex::new(0),
            resident: Mutex::default(),
        };
        let call = Call { kernel: "sweep", entry: "sweep_f32", shape, args };
        check_launch(&call, &function, &LIMITS).err().map(|error| error.to_string())
    }

    fn args() -> [Arg; 2] {
        [Arg::Buffer { address: 0x7f00_0000_0100, len: 3 }, Arg::scalar(7_u32)]
    }

    #[test]
    fn a_good_launch_passes() {
        assert_eq!(refusal(Shape::new(1, 768), &args()), None);
        assert_eq!(refusal(Shape::new(i32::MAX as u32, 32).with_shared(226 * 1024), &args()), None);
    }

    #[test]
    fn arguments_must_be_those_of_the_device_code() {
        let shape = Shape::new(1, 32);
        assert_eq!(
            refusal(shape, &args()[..1]).as_deref(),
            Some("kernel `sweep_f32` cannot be launched: it was given 1 arguments and the device code takes 2")
        );
        assert_eq!(
            refusal(shape, &[args()[0], Arg::scalar(7_u64)]).as_deref(),
            Some("kernel `sweep_f32` cannot be launched: argument 1 has 8 bytes and the device code takes 4")
        );
    }

    #[test]
    fn shapes_must_fit_the_gpu() {
        let refused = |shape| refusal(shape, &args()).is_some();
        assert!(refused(Shape::new(0, 32)));
        assert!(refused(Shape::new(1, 0)));
        assert!(refused(Shape::cover(u64::MAX, 32)));
        assert!(refused(Shape::new(1, 769)));
        assert!(refused(Shape::new(Dim3 { x: 1, y: 65_536, z: 1 }, 32)));
        assert!(refused(Shape::new(1, Dim3 { x: 1, y: 1, z: 65 })));
        assert!(refused(Shape::new(1, 32).with_shared(226 * 1024 + 1)));
    }

    #[test]
    fn arguments_keep_their_bytes() {
        assert_eq!(value(&args()[0]), 0x7f00_0000_0100);
        assert_eq!(value(&Arg::scalar(0.5_f32)).to_ne_bytes()[..4], 0.5_f32.to_ne_bytes());
        assert_eq!(value(&Arg::scalar(-1.5_f64)), (-1.5_f64).to_bits());
    }

    /// Device code for this GPU: a kernel that does nothing, as PTX and as machine code that no driver takes.
    fn modules() -> Option<&'static Modules> {
        let (major, minor) = compute_capability(device(0).ok()?).ok()?;
        let text = b".version 7.4\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n";
        let mut data = Vec::new();
        let mut ends = vec![0];
        for code in [text.as_slice(), b"\x7fELF"] {
            let mut encoder = flate2::write::DeflateEncoder::new(&mut data, flate2::Compression::default());
            std::io::Write::write_all(&mut encoder, code).and_then(|()| encoder.finish().map(drop)).unwrap();
            ends.push(data.len());
        }
        let entries = vec![Entry { name: "nothing", params: &[], at: ends.leak() }].leak();
        let machine = vec![10 * major + minor].leak();
        let baselines = vec![Baseline { sm: 80, ptx: (7, 4), machine, data: data.leak(), entries }].leak();
        Some(Box::leak(Box::new(Modules { compiler: Ok("a test"), assembler: Some(("12.0", (12, 0))), baselines })))
    }

    #[test]
    fn a_driver_that_does_not_take_the_machine_code_gets_ptx() {
        let Some(modules) = modules() else { return };
        let (started, program) = Started::open(0, modules).unwrap();
        let entry = &modules.baselines[0].entries[0];
        let (mut code, mut forced) = (program.code(), program.code());
        assert!(code.machine().is_some());
        assert!(started.load(&mut code, entry).is_ok_and(|function| !function.is_null()));
        assert!(code.machine().is_none());
        forced.replaceable = false;
        assert!(matches!(started.load(&mut forced, entry), Err(CudaError::Jit { .. })));
    }

    #[test]
    fn what_is_open_outlives_a_stop() {
        let Some(modules) = modules() else { return };
        let gpu = Gpu::open(0, modules).unwrap();
        let buffer = gpu.upload(&[1_u32, 2, 3]).unwrap();
        drop(Gpu::stop());
        assert_eq!(gpu.to_vec(&buffer).unwrap(), [1, 2, 3]);
        drop((buffer, gpu));
        // Nothing of it is left: this is another context.
        assert!(Gpu::open(0, modules).is_ok_and(|gpu| gpu.upload(&[4_u32]).is_ok()));
    }

    #[test]
    fn without_a_driver_everything_says_so() {
        if driver::get().is_ok() {
            return;
        }
        static NONE: Modules = Modules { compiler: Err("a test"), assembler: None, baselines: &[] };
        drop(Gpu::start(0, &NONE));
        drop(Gpu::stop());
        for error in
            [Gpu::count().err(), Gpu::list(&NONE).err(), Gpu::driver_version().err(), Gpu::open(0, &NONE).err()]
        {
            assert!(matches!(error, Some(CudaError::NoDriver { .. })), "{error:?}");
        }
    }
}
