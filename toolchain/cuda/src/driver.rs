//! The CUDA driver, loaded at run time.
//!
//! cust calls `cu…` functions that the linker would resolve in `libcuda`. A binary linked that way does not start on a
//! machine without a driver. This module therefore defines every function that cust 0.3.2 can call, as a *trampoline*:
//! it calls through a slot, which [`get`] fills from `libcuda.so.1`. An unfilled slot returns `CUDA_ERROR_STUB_LIBRARY`
//! (34). [`Driver`] holds the functions that cust lacks, and those that take arguments on the stack, which a trampoline
//! cannot forward.
//!
//! cust reads the returned code as a Rust `enum` of the 87 codes that it knows, so an unknown code of a newer driver
//! would be undefined behaviour. A trampoline therefore passes each code through [`sanitize`].

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

use crate::error::CudaError;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("the CUDA backend is written for Linux on x86-64 and aarch64");

/// `CUDA_ERROR_STUB_LIBRARY`: every function returns this code as long as no driver is loaded.
pub const STUB_LIBRARY: u32 = 34;

/// `CUDA_ERROR_NOT_READY`: work queried for has not completed.
pub const NOT_READY: u32 = 600;

/// A driver handle: `CUmodule`, `CUfunction`, `CUstream`, `CUevent`, `CUgraph` or `CUgraphExec`.
pub type Handle = *mut c_void;

/// The driver, loaded at the first call.
///
/// # Errors
/// [`CudaError::NoDriver`] if there is none.
pub fn get() -> Result<&'static Driver, CudaError> {
    DRIVER.get_or_init(load).as_ref().map_err(|why| CudaError::NoDriver { why: why.clone() })
}

/// The driver's description of `code`.
pub fn describe(code: u32) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the `cuGetErrorString` defined below always sets `text` to a NUL-terminated string that is never freed.
    unsafe {
        cuGetErrorString(code, &mut text);
        CStr::from_ptr(text)
    }
    .to_string_lossy()
    .into_owned()
}

static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();

fn load() -> Result<Driver, String> {
    // SAFETY: loading the driver runs its initialisers, which have no preconditions.
    let open = |name: &str| unsafe { Library::new(name) };
    let library = open("libcuda.so.1").or_else(|error| open("libcuda.so").map_err(|_| reason(&error)))?;
    let driver = Driver::resolve(&library)?;
    for (name, slot) in SLOTS {
        // SAFETY: the slot stores the address only. Its trampoline has the same symbol name, so callers use the
        // documented prototype. The slot of a function that an old driver lacks keeps its stub.
        if let Ok(function) = unsafe { library.get::<*mut c_void>(*name) } {
            slot.store(*function, Ordering::Release);
        }
    }
    // Never unloaded: destructors may call its functions until the process ends.
    std::mem::forget(library);
    Ok(driver)
}

/// The dynamic loader's message, if there is one.
pub fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub stream: Handle,
    pub attributes: *const LaunchAttribute,
    pub attribute_count: u32,
}

/// `CUlaunchAttribute` with an integer value.
#[repr(C, align(8))]
pub struct LaunchAttribute {
    pub id: u32,
    pub padding: u32,
    pub value: u32,
    pub rest: [u32; 15],
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION` with the value 1: the launch may overlap with the one before
/// it.
pub const OVERLAPPING: LaunchAttribute = LaunchAttribute { id: 6, padding: 0, value: 1, rest: [0; 15] };

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: clusters of `blocks` × 1 × 1 blocks.
pub fn cluster(blocks: u32) -> LaunchAttribute {
    let mut rest = [0; 15];
    (rest[0], rest[1]) = (1, 1);
    LaunchAttribute { id: 4, padding: 0, value: blocks, rest }
}

/// `cuLaunchKernelEx`.
pub type LaunchKernelEx = unsafe extern "C" fn(*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void) -> u32;

/// `CUtensorMap`: "must be aligned to 64 bytes".
#[repr(C, align(64))]
pub struct TensorMap(pub [u64; 16]);

/// `cuTensorMapEncodeTiled`.
pub type TensorMapEncodeTiled = unsafe extern "C" fn(
    *mut TensorMap,
    u32,
    u32,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    u32,
    u32,
    u32,
    u32,
) -> u32;

macro_rules! driver {
    ($($(#[$doc:meta])* $field:ident = $symbol:ident($($arg:ty),*);)*) => {
        /// Driver functions that return their code as an integer: those that cust lacks, and those that a trampoline
        /// cannot forward. The doc comments list the parameters; NVIDIA's *CUDA Driver API* describes the functions.
        pub struct Driver {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($arg),*) -> u32,)*
            /// (config, function, parameters, extra); `None` before CUDA 11.8.
            pub launch_kernel_ex: Option<LaunchKernelEx>,
            /// (&map, type, rank, address, extents, strides in bytes, extents of a tile, element strides, interleave, swizzle,
            /// L2 promotion, fill); `None` before CUDA 12.0.
            pub tensor_map_encode_tiled: Option<TensorMapEncodeTiled>,
        }

        impl Driver {
            fn resolve(library: &Library) -> Result<Self, String> {
                Ok(Self {
                    $(
                        // SAFETY: the type is the prototype that the CUDA Driver API documents for this symbol, with
                        // enumerations as integers of their size and handles as pointers. The library is never
                        // unloaded.
                        $field: *unsafe { library.get(stringify!($symbol)) }
                            .map_err(|_| format!("the driver is too old: it lacks {}", stringify!($symbol)))?,
                    )*
                    // SAFETY: as above.
                    launch_kernel_ex: unsafe { library.get("cuLaunchKernelEx") }.ok().map(|function| *function),
                    // SAFETY: as above.
                    tensor_map_encode_tiled: unsafe { library.get("cuTensorMapEncodeTiled") }.ok().map(|function| *function),
                })
            }
        }
    };
}

driver! {
    /// (code, &text)
    get_error_string = cuGetErrorString(u32, *mut *const c_char);
    /// (&module, image, options, kinds of options, their values)
    module_load_data_ex = cuModuleLoadDataEx(*mut Handle, *const c_void, u32, *mut u32, *mut *mut c_void);
    /// (&function, module, name)
    module_get_function = cuModuleGetFunction(*mut Handle, Handle, *const c_char);
    /// (&value, attribute, function)
    func_get_attribute = cuFuncGetAttribute(*mut i32, i32, Handle);
    /// (function, attribute, value)
    func_set_attribute = cuFuncSetAttribute(Handle, i32, i32);
    /// (function, grid x y z, block x y z, dynamic shared bytes, stream, parameters, extra)
    launch_kernel = cuLaunchKernel(
        Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void
    );
    /// (function, grid x y z, block x y z, dynamic shared bytes, stream, parameters)
    launch_cooperative_kernel = cuLaunchCooperativeKernel(
        Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void
    );
    /// (&blocks, function, threads in a block, shared bytes)
    occupancy_max_active_blocks = cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut i32, Handle, i32, usize);
    /// (stream); not through cust, because this call returns the failures of kernels, with codes that cust lacks
    stream_synchronize = cuStreamSynchronize(Handle);
    /// (stream)
    stream_query = cuStreamQuery(Handle);
    /// (event)
    event_query = cuEventQuery(Handle);
    /// (&accessible, device, peer)
    device_can_access_peer = cuDeviceCanAccessPeer(*mut i32, i32, i32);
    /// (&value, attribute, device, peer)
    device_get_p2p_attribute = cuDeviceGetP2PAttribute(*mut i32, i32, i32, i32);
    /// (stream, event, flags); this and the next three not through cust, which consumes the event
    stream_wait_event = cuStreamWaitEvent(Handle, Handle, u32);
    /// (&event, flags)
    event_create = cuEventCreate(*mut Handle, u32);
    /// (event, stream)
    event_record = cuEventRecord(Handle, Handle);
    /// (event)
    event_destroy = cuEventDestroy_v2(Handle);
    /// (&mode), swapped with the mode of the calling thread
    thread_exchange_capture_mode = cuThreadExchangeStreamCaptureMode(*mut u32);
    /// (stream, mode)
    stream_begin_capture = cuStreamBeginCapture_v2(Handle, u32);
    /// (stream, &graph)
    stream_end_capture = cuStreamEndCapture(Handle, *mut Handle);
    /// (&executable graph, graph, flags)
    graph_instantiate = cuGraphInstantiateWithFlags(*mut Handle, Handle, u64);
    /// (executable graph, stream)
    graph_launch = cuGraphLaunch(Handle, Handle);
    /// (graph)
    graph_destroy = cuGraphDestroy(Handle);
    /// (executable graph)
    graph_exec_destroy = cuGraphExecDestroy(Handle);
}

/// Maps every code that cust's `cudaError_enum` lacks to `CUDA_ERROR_UNKNOWN` (999).
extern "C" fn sanitize(code: u32) -> u32 {
    match code {
        0..=8 | 34 | 100..=102 | 200..=202 | 205..=224 | 300..=304 | 400..=401 | 500 | 600 => code,
        700..=705 | 708..=720 | 800..=809 | 900..=911 => code,
        _ => 999,
    }
}

/// The initial value of every slot.
extern "C" fn stub() -> u32 {
    STUB_LIBRARY
}

/// Sets `*text` to a description of `code`, with or without a driver. It never fails: otherwise cust's `Display` would
/// return an error, and `to_string` would panic.
///
/// # Safety
/// `text` is valid for a write of one pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(code: u32, text: *mut *const c_char) -> u32 {
    let mut found = std::ptr::null();
    if let Some(Ok(driver)) = DRIVER.get() {
        // SAFETY: cuGetErrorString "sets *pStr to the address of a NULL-terminated string description of the error
        // code"; for an unknown code it sets NULL and returns CUDA_ERROR_INVALID_VALUE.
        unsafe { (driver.get_error_string)(code, &mut found) };
    }
    if found.is_null() {
        found = if code == STUB_LIBRARY { c"there is no CUDA driver".as_ptr() } else { c"unknown code".as_ptr() };
    }
    // SAFETY: the caller's promise.
    unsafe { *text = found };
    0
}

// A trampoline aligns the stack to 16 bytes, leaves the arguments in their registers, calls through the slot, and jumps
// to `sanitize` with the returned code as its argument. Arguments on the stack would be displaced, hence at most six
// arguments.
#[cfg(target_arch = "x86_64")]
macro_rules! forward {
    ($slot:ident) => {
        naked_asm!(
            "sub rsp, 8",
            "call qword ptr [rip + {slot}]",
            "add rsp, 8",
            "mov edi, eax",
            "jmp {sanitize}",
            slot = sym $slot,
            sanitize = sym sanitize,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! forward {
    ($slot:ident) => {
        naked_asm!(
            "stp x29, x30, [sp, #-16]!",
            "mov x29, sp",
            "adrp x16, {slot}",
            "ldr x16, [x16, :lo12:{slot}]",
            "blr x16",
            "ldp x29, x30, [sp], #16",
            "b {sanitize}",
            slot = sym $slot,
            sanitize = sym sanitize,
        )
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! refuse {
    () => {
        naked_asm!("mov eax, 34", "ret")
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! refuse {
    () => {
        naked_asm!("mov w0, #34", "ret")
    };
}

/// Defines a trampoline for each name. The underscores stand for the arguments; their number is checked against cust.
macro_rules! trampolines {
    ($($name:ident($($arg:tt),*);)*) => {
        $(
            #[allow(non_snake_case)]
            mod $name {
                use super::*;

                pub static SLOT: AtomicPtr<c_void> = AtomicPtr::new(stub as *mut c_void);

                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                extern "C" fn $name() -> u32 {
                    forward!(SLOT)
                }

                const _: () = assert!(<[&str]>::len(&[$(stringify!($arg)),*]) <= 6);
                const _: fn() = || {
                    let _: unsafe extern "C" fn($($arg),*) -> cust::sys::CUresult = cust::sys::$name;
                };
            }
        )*

        /// Every trampoline's slot.
        static SLOTS: &[(&str, &AtomicPtr<c_void>)] = &[$((stringify!($name), &$name::SLOT)),*];
    };
}

/// Defines functions that always return 34. They take arguments on the stack, and this crate never calls them through
/// cust.
macro_rules! refused {
    ($($name:ident;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> u32 {
                refuse!()
            }
        )*
    };
}

refused! {
    cuLaunchKernel;
    cuLinkAddData_v2;
}

trampolines! {
    cuArray3DCreate_v2(_, _);
    cuArray3DGetDescriptor_v2(_, _);
    cuArrayDestroy(_);
    cuCtxCreate_v2(_, _, _);
    cuCtxDestroy_v2(_);
    cuCtxGetApiVersion(_, _);
    cuCtxGetCacheConfig(_);
    cuCtxGetCurrent(_);
    cuCtxGetDevice(_);
    cuCtxGetFlags(_);
    cuCtxGetLimit(_, _);
    cuCtxGetSharedMemConfig(_);
    cuCtxGetStreamPriorityRange(_, _);
    cuCtxPopCurrent_v2(_);
    cuCtxPushCurrent_v2(_);
    cuCtxSetCacheConfig(_);
    cuCtxSetCurrent(_);
    cuCtxSetLimit(_, _);
    cuCtxSetSharedMemConfig(_);
    cuCtxSynchronize();
    cuDestroyExternalMemory(_);
    cuDeviceGet(_, _);
    cuDeviceGetAttribute(_, _, _);
    cuDeviceGetCount(_);
    cuDeviceGetName(_, _, _);
    cuDevicePrimaryCtxRelease_v2(_);
    cuDevicePrimaryCtxReset_v2(_);
    cuDevicePrimaryCtxRetain(_, _);
    cuDevicePrimaryCtxSetFlags_v2(_, _);
    cuDeviceTotalMem_v2(_, _);
    cuDriverGetVersion(_);
    cuEventCreate(_, _);
    cuEventDestroy_v2(_);
    cuEventElapsedTime(_, _, _);
    cuEventQuery(_);
    cuEventRecord(_, _);
    cuEventSynchronize(_);
    cuExternalMemoryGetMappedBuffer(_, _, _);
    cuFuncGetAttribute(_, _, _);
    cuFuncSetCacheConfig(_, _);
    cuFuncSetSharedMemConfig(_, _);
    cuGraphAddKernelNode(_, _, _, _, _);
    cuGraphCreate(_, _);
    cuGraphDebugDotPrint(_, _, _);
    cuGraphDestroy(_);
    cuGraphGetEdges(_, _, _, _);
    cuGraphGetNodes(_, _, _);
    cuGraphKernelNodeGetParams(_, _);
    cuGraphNodeGetType(_, _);
    cuImportExternalMemory(_, _);
    cuInit(_);
    cuLaunchHostFunc(_, _, _);
    cuLinkComplete(_, _, _);
    cuLinkCreate_v2(_, _, _, _);
    cuLinkDestroy(_);
    cuMemAdvise(_, _, _, _);
    cuMemAllocAsync(_, _, _);
    cuMemAllocHost_v2(_, _);
    cuMemAllocManaged(_, _, _);
    cuMemAlloc_v2(_, _);
    cuMemFreeAsync(_, _);
    cuMemFreeHost(_);
    cuMemFree_v2(_);
    cuMemGetInfo_v2(_, _);
    cuMemPrefetchAsync(_, _, _, _);
    cuMemcpy2D_v2(_);
    cuMemcpyAtoH_v2(_, _, _, _);
    cuMemcpyDtoDAsync_v2(_, _, _, _);
    cuMemcpyDtoD_v2(_, _, _);
    cuMemcpyDtoHAsync_v2(_, _, _, _);
    cuMemcpyDtoH_v2(_, _, _);
    cuMemcpyHtoA_v2(_, _, _, _);
    cuMemcpyHtoDAsync_v2(_, _, _, _);
    cuMemcpyHtoD_v2(_, _, _);
    cuMemsetD16Async(_, _, _, _);
    cuMemsetD16_v2(_, _, _);
    cuMemsetD32Async(_, _, _, _);
    cuMemsetD32_v2(_, _, _);
    cuMemsetD8Async(_, _, _, _);
    cuMemsetD8_v2(_, _, _);
    cuModuleGetFunction(_, _, _);
    cuModuleGetGlobal_v2(_, _, _, _);
    cuModuleLoad(_, _);
    cuModuleLoadData(_, _);
    cuModuleLoadDataEx(_, _, _, _, _);
    cuModuleUnload(_);
    cuOccupancyAvailableDynamicSMemPerBlock(_, _, _, _);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(_, _, _, _);
    cuOccupancyMaxPotentialBlockSize(_, _, _, _, _, _);
    cuStreamCreateWithPriority(_, _, _);
    cuStreamDestroy_v2(_);
    cuStreamGetFlags(_, _);
    cuStreamGetPriority(_, _);
    cuStreamSynchronize(_);
    cuStreamWaitEvent(_, _, _);
    cuSurfObjectCreate(_, _);
    cuSurfObjectDestroy(_);
    cuSurfObjectGetResourceDesc(_, _);
    cuTexObjectCreate(_, _, _, _);
    cuTexObjectDestroy(_);
    cuTexObjectGetResourceDesc(_, _);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_cust_has_a_definition() {
        // 101 forwarded, two refused, and `cuGetErrorString`.
        assert_eq!(SLOTS.len(), 101);
        assert!(SLOTS.windows(2).all(|pair| pair[0].0 < pair[1].0), "sorted, hence each once");
        assert!(SLOTS.iter().all(|(_, slot)| !slot.load(Ordering::Acquire).is_null()));
    }

    #[test]
    fn trampolines_without_a_driver_return_stub_library() {
        if get().is_ok() {
            return;
        }
        assert!(cust::init(cust::CudaFlags::empty()).is_err());
        let mut version = 7;
        // SAFETY: no driver is loaded, so these calls reach the stub, which takes no arguments and accesses no memory.
        unsafe {
            assert_eq!(cust::sys::cuInit(0) as u32, STUB_LIBRARY);
            assert_eq!(cust::sys::cuDriverGetVersion(&mut version) as u32, STUB_LIBRARY);
            assert_eq!(cust::sys::cuLinkAddData_v2 as *const () as usize, cuLinkAddData_v2 as *const () as usize);
        }
        assert_eq!(version, 7);
    }

    #[test]
    fn trampolines_pass_six_arguments_and_sanitize_the_code() {
        static SLOT: AtomicPtr<c_void> = AtomicPtr::new(target as *mut c_void);

        extern "C" fn target(a: u64, b: u8, c: u64, d: u64, e: u64, f: u32) -> u32 {
            assert_eq!((a, b, c, d, e), (u64::MAX, 2, 3, 4, u64::MAX - 1));
            f
        }

        #[unsafe(naked)]
        extern "C" fn trampoline(_: u64, _: u8, _: u64, _: u64, _: u64, _: u32) -> u32 {
            forward!(SLOT)
        }

        for (code, seen) in [(0, 0), (2, 2), (719, 719), (999, 999), (46, 999), (721, 999), (u32::MAX, 999)] {
            assert_eq!(trampoline(u64::MAX, 2, 3, 4, u64::MAX - 1, code), seen);
        }
    }

    #[test]
    fn sanitize_knows_the_87_codes_of_cust() {
        assert_eq!((0..100_000).filter(|&code| sanitize(code) == code).count(), 87);
        assert_eq!(sanitize(cust::sys::CUresult::CUDA_ERROR_EXTERNAL_DEVICE as u32), 911);
        assert_eq!(sanitize(912), 999);
    }

    #[test]
    fn every_code_has_a_description() {
        assert_eq!(describe(123_456), "unknown code");
        assert!(!describe(STUB_LIBRARY).is_empty());
        assert!(!cust::error::CudaError::InvalidValue.to_string().is_empty());
    }
}
