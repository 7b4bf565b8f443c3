//! Loaded kernels and their launches.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cust::device::{Device as CudaDevice, DeviceAttribute};
use warpkov_device::launch::{Arg, Call, Swizzle, TensorArg, Unmet};

use super::Core;
use super::info::attribute;
use crate::driver::{self, Driver, Handle, LaunchConfig, TensorMap};
use crate::error::{CudaError, check, launched};

/// Shared memory per block, in bytes, that every kernel may use without
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const SHARED_BY_DEFAULT: u32 = 48 * 1024;

/// The largest launch that the GPU accepts.
pub(super) struct Limits {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

/// A loaded kernel.
pub(super) struct Function {
    handle: Handle,
    params: &'static [usize],
    /// Maximum threads per block, given the kernel's registers.
    max_threads: u32,
    /// Static shared memory per block, in bytes.
    static_shared: u32,
    /// Dynamic shared memory per block, in bytes, that the driver permits at present.
    dynamic_shared: Mutex<u32>,
    /// Blocks resident on the GPU at one time, by (threads per block, dynamic shared memory per block).
    resident: Mutex<HashMap<(u32, u32), u32>>,
}

// SAFETY: `handle` is a `CUfunction`. The driver accepts it on every thread on which its context is current; all other
// fields are `Send`.
unsafe impl Send for Function {}
// SAFETY: as for `Send`; the fields that change are behind mutexes.
unsafe impl Sync for Function {}

impl Limits {
    pub(super) fn of(device: CudaDevice) -> Result<Self, CudaError> {
        use DeviceAttribute::{MaxBlockDimX, MaxBlockDimY, MaxBlockDimZ, MaxGridDimX, MaxGridDimY, MaxGridDimZ};

        let extents =
            |x, y, z| Ok::<_, CudaError>([attribute(device, x)?, attribute(device, y)?, attribute(device, z)?]);
        let optin = cust::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let mut shared_bytes = 0;
        // SAFETY: cuDeviceGetAttribute writes one integer to `shared_bytes`. The device is a handle from cuDeviceGet.
        let code = unsafe { cust::sys::cuDeviceGetAttribute(&mut shared_bytes, optin, device.as_raw()) };
        check("cuDeviceGetAttribute", code as u32)?;
        Ok(Self {
            grid: extents(MaxGridDimX, MaxGridDimY, MaxGridDimZ)?,
            block: extents(MaxBlockDimX, MaxBlockDimY, MaxBlockDimZ)?,
            shared_bytes: shared_bytes.unsigned_abs(),
        })
    }
}

impl Function {
    /// A kernel whose parameters have `params` bytes. `handle` is its `CUfunction`, in the current context.
    pub(super) fn new(driver: &Driver, handle: Handle, params: &'static [usize]) -> Result<Self, CudaError> {
        const MAX_THREADS_PER_BLOCK: i32 = 0;
        const SHARED_SIZE_BYTES: i32 = 1;

        let attribute = |kind: i32| {
            let mut value = 0;
            // SAFETY: cuFuncGetAttribute writes one integer to `value`. `handle` belongs to a module that stays loaded
            // as long as its context.
            check("cuFuncGetAttribute", unsafe { (driver.func_get_attribute)(&mut value, kind, handle) })?;
            Ok::<u32, CudaError>(value.unsigned_abs())
        };
        let (max_threads, static_shared) = (attribute(MAX_THREADS_PER_BLOCK)?, attribute(SHARED_SIZE_BYTES)?);
        let dynamic_shared = Mutex::new(SHARED_BY_DEFAULT.saturating_sub(static_shared));
        Ok(Self { handle, params, max_threads, static_shared, dynamic_shared, resident: Mutex::default() })
    }
}

impl Core {
    /// The kernel with this entry point, loaded at its first launch.
    fn function(&self, entry: &'static str) -> Result<Arc<Function>, CudaError> {
        if let Some(function) = self.functions.borrow().get(entry) {
            return Ok(Arc::clone(function));
        }
        // Loading a kernel may wait for the GPU.
        self.settle()?;
        let added = self.added.borrow();
        let program = added.iter().find(|program| program.has(entry)).unwrap_or(&self.program);
        let function = program.function(&self.context, entry)?;
        self.functions.borrow_mut().insert(entry, Arc::clone(&function));
        Ok(function)
    }

    /// Blocks of `threads` threads and `shared_bytes` of dynamic shared memory that are resident on the GPU at one
    /// time.
    fn resident_blocks(&self, function: &Function, threads: u32, shared_bytes: u32) -> Result<u32, CudaError> {
        let mut resident = function.resident.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&blocks) = resident.get(&(threads, shared_bytes)) {
            return Ok(blocks);
        }
        let mut blocks = 0;
        let threads_in = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: cuOccupancyMaxActiveBlocksPerMultiprocessor writes one integer to `blocks`. The function belongs to
        // the current context.
        let code = unsafe {
            (self.context.driver.occupancy_max_active_blocks)(
                &mut blocks,
                function.handle,
                threads_in,
                shared_bytes as usize,
            )
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        let blocks = blocks.unsigned_abs().max(1) * self.context.multiprocessors;
        resident.insert((threads, shared_bytes), blocks);
        Ok(blocks)
    }

    /// Raises the kernel's limit of dynamic shared memory per block to `bytes`.
    fn allow_shared(&self, entry: &str, function: &Function, bytes: u32) -> Result<(), CudaError> {
        const MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;

        check_shared(entry, function, &self.limits, bytes)?;
        let mut allowed = function.dynamic_shared.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes > *allowed {
            let value = i32::try_from(bytes).unwrap_or(i32::MAX);
            // SAFETY: the function belongs to a loaded module. `check_shared` has verified that static and dynamic
            // shared memory together do not exceed CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, as the
            // documentation of this attribute requires.
            let code = unsafe {
                (self.context.driver.func_set_attribute)(function.handle, MAX_DYNAMIC_SHARED_SIZE_BYTES, value)
            };
            check("cuFuncSetAttribute", code)?;
            *allowed = bytes;
        }
        Ok(())
    }

    /// The tensor map of an argument, if it is a tensor.
    fn tensor_map(&self, entry: &str, arg: &Arg) -> Result<Option<TensorMap>, CudaError> {
        /// `CU_TENSOR_MAP_DATA_TYPE_UINT8` and the types of 2, 4 and 8 bytes: a copy needs the size only.
        const TYPES: [(u32, u32); 4] = [(1, 0), (2, 1), (4, 2), (8, 4)];

        let Arg::Tensor(TensorArg { address, element, rank, sizes, tile, swizzle }) = *arg else { return Ok(None) };
        let ty = TYPES.iter().find(|(size, _)| *size == element);
        let (Some(encode), Some((_, ty))) = (self.context.driver.tensor_map_encode_tiled, ty) else {
            let why = "the driver is too old for tensor maps, or an element is none of 1, 2, 4 or 8 bytes".to_owned();
            return Err(CudaError::BadLaunch { entry: entry.to_owned(), why });
        };
        let extents = sizes.map(u64::from);
        let row = extents[0] * u64::from(element);
        let (strides, steps, mut map) = ([row, row * extents[1]], [1; 3], TensorMap([0; 16]));
        let swizzle = match swizzle {
            Swizzle::None => 0,
            Swizzle::B128 => 3,
        };
        // SAFETY: cuTensorMapEncodeTiled writes one map, and reads `rank` extents and steps, and `rank` − 1 strides. `Tensor::new` has
        // checked the limits that its documentation names.
        let code = unsafe {
            encode(
                &mut map,
                *ty,
                rank,
                ptr::with_exposed_provenance_mut(address as usize),
                extents.as_ptr(),
                strides.as_ptr(),
                tile.as_ptr(),
                steps.as_ptr(),
                0,
                swizzle,
                0,
                0,
            )
        };
        check("cuTensorMapEncodeTiled", code).map(|()| Some(map))
    }

    /// Implements [`Device::launch`](warpkov_device::launch::Device::launch).
    ///
    /// # Safety
    /// As for that method.
    pub(super) unsafe fn launch(&self, call: &Call<'_>) -> Result<(), CudaError> {
        self.enter()?;
        let function = self.function(call.entry)?;
        check_launch(call, &function, &self.limits)?;
        self.allow_shared(call.entry, &function, call.shape.shared_bytes)?;
        let counter = self.grid_counter();
        let mut values: Vec<u64> = call.args.iter().map(|arg| value(arg, counter)).collect();
        let mut maps = Vec::new();
        for arg in call.args {
            maps.extend(self.tensor_map(call.entry, arg)?);
        }
        let mut maps = maps.iter_mut();
        let parameters = call.args.iter().zip(&mut values).map(|(arg, value)| match (arg, value) {
            (Arg::Tensor(_), _) => maps.next().map_or(ptr::null_mut(), |map| ptr::from_mut(map).cast()),
            (_, value) => ptr::from_mut(value).cast(),
        });
        let mut parameters: Vec<*mut c_void> = parameters.collect();
        let (mut grid, block) = (call.shape.grid, call.shape.block);
        let resident = || self.resident_blocks(&function, block.x * block.y * block.z, call.shape.shared_bytes);
        if call.shape.resident {
            grid.x = grid.x.min(resident()?);
        }
        if call.is_cooperative() {
            Unmet::unless_resident(call.kernel, grid.count(), resident()?.into())?;
            launched(call.entry);
            // SAFETY: as for cuLaunchKernel below, whose parameters these are. All blocks fit on the GPU at one time.
            let code = unsafe {
                (self.context.driver.launch_cooperative_kernel)(
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
                )
            };
            return check("cuLaunchCooperativeKernel", code);
        }
        launched(call.entry);
        let mut attributes = Vec::new();
        if call.cluster > 1 {
            attributes.push(driver::cluster(call.cluster));
        }
        // Device code below sm_90 has no `griddepcontrol.wait`, so its launches must not overlap.
        if call.shape.overlapping && self.baseline >= 90 {
            attributes.push(driver::OVERLAPPING);
        }
        if let Some(launch) = self.context.driver.launch_kernel_ex.filter(|_| !attributes.is_empty()) {
            let config = LaunchConfig {
                grid: [grid.x, grid.y, grid.z],
                block: [block.x, block.y, block.z],
                shared_bytes: call.shape.shared_bytes,
                stream: self.stream(),
                attributes: attributes.as_ptr(),
                attribute_count: attributes.len() as u32,
            };
            // SAFETY: the function and its parameters are valid as in the call below. `LaunchConfig` and
            // `LaunchAttribute` have the layouts of CUlaunchConfig and CUlaunchAttribute, and both outlive the call.
            let code = unsafe { launch(&config, function.handle, parameters.as_mut_ptr(), ptr::null_mut()) };
            return check("cuLaunchKernelEx", code);
        }
        // SAFETY: cuLaunchKernel: "If f has N parameters, then kernelParams needs to be an array of N pointers. Each of
        // kernelParams[0] through kernelParams[N-1] must point to a region of memory from which the actual kernel
        // parameter will be copied." `check_launch` has compared number and sizes with the device code; no size exceeds
        // the eight bytes of a value. The caller promises that the addresses among the values are valid for the kernel.
        let code = unsafe {
            (self.context.driver.launch_kernel)(
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

/// The eight bytes from which the driver copies an argument. `counter` is the address of a grid's counter.
fn value(arg: &Arg, counter: u64) -> u64 {
    match *arg {
        Arg::Grid => counter,
        Arg::Buffer { address, .. } => address,
        Arg::Scalar { bytes, .. } => u64::from_ne_bytes(bytes),
        // Passed as a map of 128 bytes.
        Arg::Tensor(_) => 0,
    }
}

/// Checks the arguments against the device code, and the shape against the GPU.
fn check_launch(call: &Call<'_>, function: &Function, limits: &Limits) -> Result<(), CudaError> {
    let bad = |why| Err(CudaError::BadLaunch { entry: call.entry.to_owned(), why });
    let (args, params) = (call.args, function.params);
    if args.len() != params.len() {
        return bad(format!("the launch has {} arguments and the device code takes {}", args.len(), params.len()));
    }
    if let Some(at) = (0..args.len()).find(|&at| args[at].param_size() != params[at]) {
        let (given, taken) = (args[at].param_size(), params[at]);
        return bad(format!("argument {at} has {given} bytes and the device code takes {taken}"));
    }
    let (grid, block) = (call.shape.grid, call.shape.block);
    for (name, extent, limit) in [("grid", grid, limits.grid), ("block", block, limits.block)] {
        let extent = [extent.x, extent.y, extent.z];
        if (0..3).any(|axis| extent[axis] == 0 || extent[axis] > limit[axis]) {
            return bad(format!("its {name} is {extent:?}; the GPU accepts 1 to {limit:?}"));
        }
    }
    if block.count() > u64::from(function.max_threads) {
        let (threads, most) = (block.count(), function.max_threads);
        return bad(format!("its block has {threads} threads; on this GPU the kernel's registers allow {most}"));
    }
    check_shared(call.entry, function, limits, call.shape.shared_bytes)
}

/// Checks that a block's static shared memory plus `bytes` of dynamic shared memory fit the GPU.
fn check_shared(entry: &str, function: &Function, limits: &Limits, bytes: u32) -> Result<(), CudaError> {
    let (needed, most) = (u64::from(function.static_shared) + u64::from(bytes), u64::from(limits.shared_bytes));
    if needed > most {
        let why = format!("a block needs {needed} bytes of shared memory, and this GPU has {most}");
        return Err(CudaError::BadLaunch { entry: entry.to_owned(), why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use warpkov_device::launch::{Dim3, Shape};

    use super::*;

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
        let call =
            Call { kernel: "sweep", entry: "sweep_f32", shape, args, cluster: 1, thread: |_| unreachable!("a GPU") };
        check_launch(&call, &function, &LIMITS).err().map(|error| error.to_string())
    }

    fn args() -> [Arg; 2] {
        [Arg::Buffer { address: 0x7f00_0000_0100, len: 3 }, Arg::scalar(7_u32)]
    }

    #[test]
    fn a_valid_launch_passes() {
        assert_eq!(refusal(Shape::new(1, 768), &args()), None);
        assert_eq!(refusal(Shape::new(i32::MAX as u32, 32).with_shared(226 * 1024), &args()), None);
    }

    #[test]
    fn arguments_must_match_the_device_code() {
        let shape = Shape::new(1, 32);
        assert_eq!(
            refusal(shape, &args()[..1]).as_deref(),
            Some("kernel `sweep_f32` cannot be launched: the launch has 1 arguments and the device code takes 2")
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
        assert_eq!(value(&args()[0], 0), 0x7f00_0000_0100);
        assert_eq!(value(&Arg::scalar(0.5_f32), 0).to_ne_bytes()[..4], 0.5_f32.to_ne_bytes());
        assert_eq!(value(&Arg::scalar(-1.5_f64), 0), (-1.5_f64).to_bits());
        assert_eq!(value(&Arg::Grid, 0x1234), 0x1234);
    }
}
