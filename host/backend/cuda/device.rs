//! A GPU: its memory, its one stream, and launches.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::time::Duration;

use cust::context::{Context, CurrentContext};
use cust::device::{Device as CustDevice, DeviceAttribute};
use cust::event::{Event, EventFlags};
use cust::memory::{AsyncCopyDestination, DeviceBuffer};
use cust::stream::{Stream, StreamFlags};
use serde::Serialize;
use warpkov_kernels::device::Plain;
use warpkov_kernels::launch::{Arg, Buffer, Call, Device};

use super::driver::{Driver, driver};
use super::error::CudaError;
use super::module::{self, Module};

/// Dynamic shared memory that a kernel gets without asking, in bytes.
const SHARED_WITHOUT_ASKING: u32 = 48 * 1024;

/// What `warpkov devices` tells of a GPU.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub ordinal: u32,
    /// Its name: "NVIDIA H200".
    pub name: String,
    /// Its compute capability: (9, 0).
    pub compute_capability: (u32, u32),
    /// Its streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of its second-level cache.
    pub l2_bytes: u64,
    /// Bytes of its memory that are free.
    pub free_bytes: u64,
    /// Bytes of its memory.
    pub total_bytes: u64,
    /// The device code it would get, as in `sm_90`.
    pub ptx: Option<String>,
    /// Why it would get none.
    pub unsupported: Option<String>,
}

/// The CUDA version of the driver: (12, 4).
///
/// # Errors
/// Without a driver.
pub fn driver_version() -> Result<(u32, u32), CudaError> {
    open_driver()?.version().map_err(|code| CudaError::of("cuDriverGetVersion", code))
}

fn open_driver() -> Result<&'static Driver, CudaError> {
    driver().map_err(|why| CudaError::NoDriver { why: why.to_owned() })
}

/// A GPU with a context, a stream and the compiled kernels.
///
/// Its context belongs to the thread that opened it, so that it cannot be sent to another.
pub struct Gpu {
    functions: RefCell<HashMap<&'static str, Function>>,
    module: Module,
    stream: Stream,
    driver: &'static Driver,
    device: CustDevice,
    ordinal: u32,
    // The last field: everything above is freed while its context still lives.
    _context: Context,
    _not_send: PhantomData<*const ()>,
}

/// A kernel, found once.
#[derive(Clone, Copy)]
struct Function {
    handle: *mut c_void,
    params: &'static [usize],
    /// Dynamic shared memory that has been asked for.
    shared_bytes: u32,
}

impl Gpu {
    /// Number of GPUs; 0 where there is a driver and no GPU.
    ///
    /// # Errors
    /// Without a driver.
    pub fn count() -> Result<u32, CudaError> {
        open_driver()?;
        match cust::init(cust::CudaFlags::empty()) {
            Ok(()) => CustDevice::num_devices().map_err(CudaError::from_cust("cuDeviceGetCount")),
            Err(cust::error::CudaError::NoDevice) => Ok(0),
            Err(error) => Err(CudaError::of("cuInit", error as u32)),
        }
    }

    /// Opens a GPU: makes its primary context current, and compiles the kernels that fit it.
    ///
    /// # Errors
    /// Without a driver, without such a GPU, or where no device code of this binary runs on it.
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        let (device, context) = enter(ordinal)?;
        let baseline = baseline_for(device)?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).map_err(CudaError::from_cust("cuStreamCreate"))?;
        Ok(Self {
            functions: RefCell::default(),
            module: Module::load(baseline)?,
            stream,
            driver: open_driver()?,
            device,
            ordinal,
            _context: context,
            _not_send: PhantomData,
        })
    }

    /// Every GPU of this machine.
    ///
    /// # Errors
    /// Without a driver, or where it fails.
    pub fn list() -> Result<Vec<DeviceInfo>, CudaError> {
        (0..Self::count()?)
            .map(|ordinal| {
                let (device, _context) = enter(ordinal)?;
                let (free, total) = memory()?;
                let (ptx, unsupported) = match baseline_for(device) {
                    Ok(baseline) => (Some(format!("sm_{}", baseline.sm)), None),
                    Err(error) => (None, Some(error.to_string())),
                };
                Ok(DeviceInfo {
                    ordinal,
                    name: device.name().map_err(CudaError::from_cust("cuDeviceGetName"))?,
                    compute_capability: capability(device)?,
                    multiprocessors: attribute(device, DeviceAttribute::MultiprocessorCount)?,
                    l2_bytes: u64::from(attribute(device, DeviceAttribute::L2CacheSize)?),
                    free_bytes: free,
                    total_bytes: total,
                    ptx,
                    unsupported,
                })
            })
            .collect()
    }

    /// Name and number: "NVIDIA H200 (cuda:0)".
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.device.name().unwrap_or_else(|_| "GPU".to_owned());
        format!("{name} (cuda:{})", self.ordinal)
    }

    /// Streaming multiprocessors.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn multiprocessors(&self) -> Result<u32, CudaError> {
        attribute(self.device, DeviceAttribute::MultiprocessorCount)
    }

    /// Checks that `needed` bytes of device memory are free, before anything is allocated.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], which names `what`.
    pub fn reserve(&self, needed: u64, what: &str) -> Result<(), CudaError> {
        let (free, total) = memory()?;
        if needed > free {
            return Err(CudaError::OutOfMemory { what: what.to_owned(), needed, free, total });
        }
        Ok(())
    }

    /// The time between the start and the end of what `work` launches, by the GPU's own clock.
    ///
    /// # Errors
    /// Those of `work` and of the driver.
    pub fn time(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Duration, CudaError> {
        let event = || Event::new(EventFlags::DEFAULT).map_err(CudaError::from_cust("cuEventCreate"));
        let (start, end) = (event()?, event()?);
        start.record(&self.stream).map_err(CudaError::from_cust("cuEventRecord"))?;
        work()?;
        end.record(&self.stream).map_err(CudaError::from_cust("cuEventRecord"))?;
        end.synchronize().map_err(CudaError::from_cust("cuEventSynchronize"))?;
        let milliseconds = end.elapsed_time_f32(&start).map_err(CudaError::from_cust("cuEventElapsedTime"))?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }

    /// Threads of a block at which a multiprocessor holds most threads of a kernel that needs `shared_bytes` per block.
    ///
    /// # Errors
    /// Without such an entry, or where the driver fails.
    pub fn occupancy_block_size(&self, entry: &'static str, shared_bytes: usize) -> Result<u32, CudaError> {
        let function = self.function(entry)?;
        let (mut grid, mut block): (c_int, c_int) = (0, 0);
        // SAFETY: the function belongs to a loaded module, and both numbers are valid for a write.
        let code = unsafe {
            (self.driver.cuOccupancyMaxPotentialBlockSize)(
                &mut grid,
                &mut block,
                function.handle,
                std::ptr::null_mut(),
                shared_bytes,
                0,
            )
        };
        CudaError::check("cuOccupancyMaxPotentialBlockSize", code)?;
        Ok(block as u32)
    }

    fn function(&self, entry: &'static str) -> Result<Function, CudaError> {
        if let Some(&function) = self.functions.borrow().get(entry) {
            return Ok(function);
        }
        let (handle, params) = self.module.function(entry)?;
        let function = Function { handle, params, shared_bytes: SHARED_WITHOUT_ASKING };
        self.functions.borrow_mut().insert(entry, function);
        Ok(function)
    }

    /// Asks for more dynamic shared memory than a kernel has by default, where that is needed.
    fn allow_shared(&self, entry: &'static str, function: Function, bytes: u32) -> Result<(), CudaError> {
        const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
        if bytes <= function.shared_bytes {
            return Ok(());
        }
        // SAFETY: the function belongs to a loaded module.
        let code =
            unsafe { (self.driver.cuFuncSetAttribute)(function.handle, MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes as c_int) };
        if code != 0 {
            let reason = format!("{bytes} bytes of shared memory per block are more than this GPU has");
            return Err(CudaError::Launch { entry, reason });
        }
        self.functions.borrow_mut().insert(entry, Function { shared_bytes: bytes, ..function });
        Ok(())
    }

    fn bytes(&self, bytes: usize) -> Result<Option<DeviceBuffer<u8>>, CudaError> {
        if bytes == 0 {
            return Ok(None);
        }
        // SAFETY: every caller writes the whole buffer before anyone can read it.
        match unsafe { DeviceBuffer::uninitialized(bytes) } {
            Ok(buffer) => Ok(Some(buffer)),
            Err(cust::error::CudaError::OutOfMemory) => {
                let (free, total) = memory()?;
                Err(CudaError::OutOfMemory { what: "a buffer".to_owned(), needed: bytes as u64, free, total })
            }
            Err(error) => Err(CudaError::of("cuMemAlloc", error as u32)),
        }
    }
}

/// Makes the primary context of a GPU current.
fn enter(ordinal: u32) -> Result<(CustDevice, Context), CudaError> {
    let count = Gpu::count()?;
    if count == 0 {
        return Err(CudaError::NoGpu);
    }
    if ordinal >= count {
        return Err(CudaError::NoSuchGpu { ordinal, count });
    }
    let device = CustDevice::get_device(ordinal).map_err(CudaError::from_cust("cuDeviceGet"))?;
    let context = Context::new(device).map_err(CudaError::from_cust("cuDevicePrimaryCtxRetain"))?;
    CurrentContext::set_current(&context).map_err(CudaError::from_cust("cuCtxSetCurrent"))?;
    Ok((device, context))
}

fn attribute(device: CustDevice, attribute: DeviceAttribute) -> Result<u32, CudaError> {
    device.get_attribute(attribute).map(|value| value as u32).map_err(CudaError::from_cust("cuDeviceGetAttribute"))
}

fn capability(device: CustDevice) -> Result<(u32, u32), CudaError> {
    let major = attribute(device, DeviceAttribute::ComputeCapabilityMajor)?;
    Ok((major, attribute(device, DeviceAttribute::ComputeCapabilityMinor)?))
}

fn baseline_for(device: CustDevice) -> Result<&'static module::Baseline, CudaError> {
    let forced = std::env::var("WARPKOV_PTX").ok();
    module::choose(module::baselines(), capability(device)?, driver_version()?, forced.as_deref())
}

/// Free and total bytes of the current GPU's memory.
fn memory() -> Result<(u64, u64), CudaError> {
    let (free, total) = cust::memory::mem_get_info().map_err(CudaError::from_cust("cuMemGetInfo"))?;
    Ok((free as u64, total as u64))
}

/// Memory of a GPU: `len` elements of `T`.
pub struct GpuBuffer<T> {
    /// `None` where there is no element: the driver has no empty allocations.
    memory: Option<DeviceBuffer<u8>>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Plain> Buffer<T> for GpuBuffer<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn arg(&self) -> Arg {
        let address = self.memory.as_ref().map_or(0, |memory| memory.as_device_ptr().as_raw());
        Arg::Buffer { address, len: self.len }
    }
}

impl Device for Gpu {
    type Error = CudaError;
    type Buffer<T: Plain> = GpuBuffer<T>;

    fn zeros<T: Plain>(&self, len: usize) -> Result<GpuBuffer<T>, CudaError> {
        let mut buffer = GpuBuffer { memory: self.bytes(len * size_of::<T>())?, len, element: PhantomData };
        self.clear(&mut buffer)?;
        Ok(buffer)
    }

    fn upload<T: Plain>(&self, source: &[T]) -> Result<GpuBuffer<T>, CudaError> {
        let mut memory = self.bytes(size_of_val(source))?;
        if let Some(memory) = &mut memory {
            // On the stream, so that it comes before the launches that follow.
            // SAFETY: `source` is ordinary memory, which the driver has copied when the call returns.
            let copied = unsafe { memory.async_copy_from(bytemuck::cast_slice::<T, u8>(source), &self.stream) };
            copied.map_err(CudaError::from_cust("cuMemcpyHtoDAsync"))?;
            self.synchronize()?;
        }
        Ok(GpuBuffer { memory, len: source.len(), element: PhantomData })
    }

    fn clear<T: Plain>(&self, buffer: &mut GpuBuffer<T>) -> Result<(), CudaError> {
        let Some(memory) = &mut buffer.memory else { return Ok(()) };
        // SAFETY: the memory is used by this stream only.
        unsafe { memory.set_8_async(0, &self.stream) }.map_err(CudaError::from_cust("cuMemsetD8Async"))
    }

    fn download<T: Plain>(&self, buffer: &GpuBuffer<T>, target: &mut [T]) -> Result<(), CudaError> {
        assert!(target.len() <= buffer.len, "a download is longer than its buffer");
        let Some(memory) = buffer.memory.as_ref().filter(|_| !target.is_empty()) else { return Ok(()) };
        let target = bytemuck::cast_slice_mut::<T, u8>(target);
        // SAFETY: `target` is not touched before the stream is synchronised below.
        let copied = unsafe { memory.index(..target.len()).async_copy_to(target, &self.stream) };
        copied.map_err(CudaError::from_cust("cuMemcpyDtoHAsync"))?;
        self.synchronize()
    }

    fn synchronize(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(CudaError::from_cust("cuStreamSynchronize"))
    }

    unsafe fn launch(&self, call: Call<'_>) -> Result<(), CudaError> {
        let function = self.function(call.entry)?;
        let sizes = call.args.iter().map(Arg::param_size);
        if !sizes.clone().eq(function.params.iter().copied()) {
            let reason = format!(
                "its launcher passes parameters of {:?} bytes, and the device code takes {:?}",
                sizes.collect::<Vec<_>>(),
                function.params
            );
            return Err(CudaError::Launch { entry: call.entry, reason });
        }
        self.allow_shared(call.entry, function, call.shape.shared_bytes)?;
        // Eight bytes hold any parameter; the driver reads as many as the kernel declares.
        let mut parameters: Vec<[u8; 8]> = call
            .args
            .iter()
            .map(|argument| match argument {
                Arg::Buffer { address, .. } => address.to_ne_bytes(),
                Arg::Scalar { bytes, .. } => *bytes,
            })
            .collect();
        let mut pointers: Vec<*mut c_void> =
            parameters.iter_mut().map(|parameter| parameter.as_mut_ptr().cast()).collect();
        let (grid, block) = (call.shape.grid, call.shape.block);
        // SAFETY: number and sizes of the parameters are the kernel's own, as just checked; the caller promises the rest.
        let code = unsafe {
            (self.driver.cuLaunchKernel)(
                function.handle,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                call.shape.shared_bytes,
                self.stream.as_inner().cast(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        CudaError::check(call.entry, code)
    }
}
