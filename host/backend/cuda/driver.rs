//! The NVIDIA driver, found at run time.
//!
//! cust links with `libcuda`, but this binary must start on machines that have none. So the symbols that cust needs are
//! defined here, each as a trampoline that calls whatever its slot holds. Until [`driver`] has opened `libcuda.so.1`, that
//! is [`no_driver`], which returns `CUDA_ERROR_STUB_LIBRARY`.
//!
//! A trampoline also replaces error codes that cust's enum does not know, which would be undefined behaviour there, by
//! `CUDA_ERROR_UNKNOWN`. It therefore calls and does not jump, and so cannot pass arguments on the stack: functions with
//! more than six are not forwarded. What else we need of the driver we call ourselves, through [`Driver`], and get its
//! codes as integers.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// What every slot holds before the driver is found.
unsafe extern "C" fn no_driver() -> u32 {
    cust::sys::cudaError_enum::CUDA_ERROR_STUB_LIBRARY as u32
}

/// `code`, if cust's enum has it; else `CUDA_ERROR_UNKNOWN`.
extern "C" fn known(code: u32) -> u32 {
    match code {
        0..=8 | 34 | 100..=102 | 200..=202 | 205..=224 | 300..=304 | 400..=401 | 500 | 600 | 700..=705 => code,
        708..=720 | 800..=809 | 900..=911 => code,
        _ => 999,
    }
}

/// The text of an error code: `cuGetErrorString`, which must set a string in any case, because cust reads it.
///
/// # Safety
/// `text` must be valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(code: u32, text: *mut *const c_char) -> u32 {
    let string = driver().ok().and_then(|driver| driver.error_string(code));
    // SAFETY: as the caller promises.
    unsafe { *text = string.unwrap_or(c"unknown error").as_ptr() };
    0
}

macro_rules! trampolines {
    ($($name:ident)*) => {
        /// What each trampoline calls.
        #[allow(non_upper_case_globals)]
        mod slots {
            use super::*;
            $(pub static $name: AtomicPtr<c_void> = AtomicPtr::new(no_driver as *const () as *mut c_void);)*
        }

        /// Every slot, with the name of the driver's function that belongs there.
        static SLOTS: &[(&str, &AtomicPtr<c_void>)] = &[$((stringify!($name), &slots::$name)),*];

        $(
            // SAFETY: the name is the driver's own, and no other library of this process defines it: `libcuda.so.1` is
            // opened with local symbols. The body keeps the calling convention: it passes registers through.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() -> u32 {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    "sub rsp, 8",
                    "call qword ptr [rip + {slot}]",
                    "add rsp, 8",
                    "mov edi, eax",
                    "jmp {known}",
                    slot = sym slots::$name,
                    known = sym known,
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-16]!",
                    "adrp x16, {slot}",
                    "ldr x16, [x16, :lo12:{slot}]",
                    "blr x16",
                    "ldp x29, x30, [sp], #16",
                    "b {known}",
                    slot = sym slots::$name,
                    known = sym known,
                );
            }
        )*
    };
}

trampolines! {
    cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayDestroy cuCtxCreate_v2 cuCtxDestroy_v2
    cuCtxGetApiVersion cuCtxGetCacheConfig cuCtxGetCurrent cuCtxGetDevice cuCtxGetFlags cuCtxGetLimit
    cuCtxGetSharedMemConfig cuCtxGetStreamPriorityRange cuCtxPopCurrent_v2 cuCtxPushCurrent_v2
    cuCtxSetCacheConfig cuCtxSetCurrent cuCtxSetLimit cuCtxSetSharedMemConfig cuCtxSynchronize
    cuDestroyExternalMemory cuDeviceGet cuDeviceGetAttribute cuDeviceGetCount cuDeviceGetName
    cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxRetain
    cuDevicePrimaryCtxSetFlags_v2 cuDeviceTotalMem_v2 cuDriverGetVersion cuEventCreate cuEventDestroy_v2
    cuEventElapsedTime cuEventQuery cuEventRecord cuEventSynchronize cuExternalMemoryGetMappedBuffer
    cuFuncGetAttribute cuFuncSetCacheConfig cuFuncSetSharedMemConfig cuGraphAddKernelNode cuGraphCreate
    cuGraphDebugDotPrint cuGraphDestroy cuGraphGetEdges cuGraphGetNodes cuGraphKernelNodeGetParams
    cuGraphNodeGetType cuImportExternalMemory cuInit cuLaunchHostFunc cuLinkComplete cuLinkCreate_v2
    cuLinkDestroy cuMemAdvise cuMemAllocAsync cuMemAllocHost_v2 cuMemAllocManaged cuMemAlloc_v2 cuMemFreeAsync
    cuMemFreeHost cuMemFree_v2 cuMemGetInfo_v2 cuMemPrefetchAsync cuMemcpy2D_v2 cuMemcpyAtoH_v2
    cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2 cuMemcpyHtoA_v2
    cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2 cuMemsetD16Async cuMemsetD16_v2 cuMemsetD32Async cuMemsetD32_v2
    cuMemsetD8Async cuMemsetD8_v2 cuModuleGetFunction cuModuleGetGlobal_v2 cuModuleLoad cuModuleLoadData
    cuModuleLoadDataEx cuModuleUnload cuOccupancyAvailableDynamicSMemPerBlock
    cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxPotentialBlockSize cuStreamCreateWithPriority
    cuStreamDestroy_v2 cuStreamGetFlags cuStreamGetPriority cuStreamSynchronize cuStreamWaitEvent
    cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc cuTexObjectCreate cuTexObjectDestroy
    cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc
}

macro_rules! unforwarded {
    ($($name:ident)*) => {
        $(
            /// Has arguments on the stack, which a trampoline cannot pass on: always fails, and is never called by us.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() -> u32 {
                // SAFETY: it only returns a code.
                unsafe { no_driver() }
            }
        )*
    };
}

unforwarded! { cuLaunchKernel cuLinkAddData_v2 }

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $ty:ty),*);)*) => {
        /// The driver's functions that we call ourselves, as the driver API declares them, with integers for codes.
        #[allow(non_snake_case)]
        pub struct Driver {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($argument: $ty),*) -> u32,)*
        }

        impl Driver {
            /// Finds the functions.
            ///
            /// # Safety
            /// `library` must be the NVIDIA driver, and never be closed.
            unsafe fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: these are the driver API's own declarations of these names.
                unsafe { Ok(Self { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* }) }
            }
        }
    };
}

functions! {
    /// Driver version: 1000 · major + 10 · minor.
    cuDriverGetVersion(version: *mut c_int);
    /// The text of an error code.
    cuGetErrorString(code: u32, text: *mut *const c_char);
    /// Compiles and loads a module.
    cuModuleLoadDataEx(module: *mut *mut c_void, image: *const c_void, count: c_uint, options: *mut c_int,
                       values: *mut *mut c_void);
    /// Unloads a module.
    cuModuleUnload(module: *mut c_void);
    /// Finds a kernel in a module.
    cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char);
    /// Sets an attribute of a kernel.
    cuFuncSetAttribute(function: *mut c_void, attribute: c_int, value: c_int);
    /// Blocks of a size that one multiprocessor holds at one time.
    cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: *mut c_void, block: c_int,
                                                shared_bytes: usize);
    /// Launches a kernel.
    cuLaunchKernel(function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
                   block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: *mut c_void,
                   parameters: *mut *mut c_void, extra: *mut *mut c_void);
}

impl Driver {
    /// The driver's text for an error code, if it has one.
    pub fn error_string(&self, code: u32) -> Option<&'static CStr> {
        let mut text = std::ptr::null();
        // SAFETY: `text` is valid for the write; the strings are constants of the driver, which is never closed.
        unsafe { ((self.cuGetErrorString)(code, &mut text) == 0 && !text.is_null()).then(|| CStr::from_ptr(text)) }
    }

    /// The CUDA version that the driver supports: (12, 4).
    pub fn version(&self) -> Result<(u32, u32), u32> {
        let mut version = 0;
        // SAFETY: `version` is valid for the write.
        match unsafe { (self.cuDriverGetVersion)(&mut version) } {
            0 => Ok((version as u32 / 1000, version as u32 % 1000 / 10)),
            code => Err(code),
        }
    }
}

/// The driver, opened at the first call; or why there is none.
pub fn driver() -> Result<&'static Driver, &'static str> {
    static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
    DRIVER.get_or_init(open).as_ref().map_err(String::as_str)
}

fn open() -> Result<Driver, String> {
    // SAFETY: the driver's initialisers may run in any process.
    let library = unsafe { Library::new("libcuda.so.1").or_else(|_| Library::new("libcuda.so")) };
    let library: &'static Library = Box::leak(Box::new(library.map_err(|error| why(&error))?));
    // SAFETY: this is the driver, and it is leaked above.
    let driver = unsafe { Driver::find(library) }.map_err(|error| why(&error))?;
    for (name, slot) in SLOTS {
        // SAFETY: the address is only called by the trampoline of this name, with the arguments that cust gives it.
        // A function that an old driver lacks keeps `no_driver`.
        if let Ok(function) = unsafe { library.get::<*mut c_void>(format!("{name}\0").as_bytes()) } {
            slot.store(*function, Ordering::Release);
        }
    }
    Ok(driver)
}

/// What the dynamic linker says is in the source of libloading's errors.
fn why(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cust_fails_in_peace_without_a_driver() {
        if driver().is_err() {
            assert!(cust::init(cust::CudaFlags::empty()).is_err());
            assert!(
                SLOTS.iter().all(|(_, slot)| slot.load(Ordering::Acquire) == no_driver as *const () as *mut c_void)
            );
            let error = cust::device::Device::num_devices().unwrap_err();
            assert!(!error.to_string().is_empty());
        } else {
            assert!(cust::init(cust::CudaFlags::empty()).is_ok());
        }
    }

    #[test]
    fn codes_that_cust_does_not_know_are_replaced() {
        for code in [0, 2, 34, 100, 209, 224, 304, 700, 720, 809, 911, 999] {
            assert_eq!(known(code), code);
        }
        for code in [9, 35, 36, 46, 103, 203, 225, 226, 305, 402, 721, 810, 812, 912, 914, 917, 1000, u32::MAX] {
            assert_eq!(known(code), 999);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> = SLOTS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), SLOTS.len());
    }
}
