//! A CUDA driver that fails on demand, to see how a program bears it. As a file named `libcuda.so.1` in a folder of `LD_LIBRARY_PATH`,
//! it takes the place of NVIDIA's.
//!
//! | variable | effect |
//! | --- | --- |
//! | `DRIVER_BEHIND=FILE` | calls are passed on to this driver. Without it, the driver stands in for a GPU of compute capability 9.0 whose memory is the host's and whose kernels do nothing |
//! | `DRIVER_FAULT=CALL K CODE` | the K-th use of CALL returns CODE. A code that destroys a context is then returned by all calls that need one |
//! | `DRIVER_CALLS=FILE` | at the end of the process, FILE has a line with the name and the number of uses of each call, and, of a stand-in, `left` and the number of objects that were not freed |
//! | `DRIVER_MEMORY=BYTES` | the memory of a stand-in, 1 GiB by default |
//!
//! `scripts/device_faults.py` tries all calls of the commands with it.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The arguments of a call, as words. No function of the driver takes more, and none takes a floating-point number by value.
type Arguments = [usize; 12];

const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const INVALID_HANDLE: u32 = 400;
const NOT_FOUND: u32 = 500;
const ILLEGAL_ADDRESS: u32 = 700;

/// The codes after which a context is unusable: an uncorrectable error of the memory, an illegal address, a launch that timed out, a
/// destroyed context, and a failed launch.
const LASTING: [u32; 5] = [214, ILLEGAL_ADDRESS, 702, 709, 719];

/// The beginnings of the names of calls that need a usable context.
const IN_CONTEXT: [&str; 8] =
    ["cuMem", "cuStream", "cuEvent", "cuLaunch", "cuGraph", "cuModule", "cuFunc", "cuOccupancy"];

/// The code that destroyed the context; 0 as long as it is usable.
static LOST: AtomicU32 = AtomicU32::new(0);

/// A fault to come.
struct Fault {
    call: String,
    use_number: u64,
    code: u32,
}

static FAULT: LazyLock<Option<Fault>> = LazyLock::new(|| {
    let text = std::env::var("DRIVER_FAULT").ok()?;
    let mut words = text.split(' ');
    let (call, use_number, code) = (words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Fault { call, use_number, code })
});

/// The driver that calls are passed on to.
static BEHIND: LazyLock<Option<libloading::Library>> = LazyLock::new(|| {
    let file = std::env::var_os("DRIVER_BEHIND")?;
    // SAFETY: loading NVIDIA's driver runs its initialisers, which have no preconditions.
    Some(unsafe { libloading::Library::new(file) }.expect("DRIVER_BEHIND is a driver"))
});

/// A function of the driver.
struct Function {
    name: &'static str,
    uses: AtomicU64,
}

impl Function {
    /// Answers a call: by the fault, by the driver behind, or as a stand-in.
    fn call(&self, arguments: &Arguments, stand_in: fn(&Arguments) -> u32) -> u32 {
        let number = self.uses.fetch_add(1, Ordering::Relaxed) + 1;
        let lost = LOST.load(Ordering::Relaxed);
        if lost != 0 && IN_CONTEXT.iter().any(|beginning| self.name.starts_with(beginning)) {
            return lost;
        }
        if let Some(fault) = &*FAULT
            && fault.call == self.name
            && fault.use_number == number
        {
            if LASTING.contains(&fault.code) {
                LOST.store(fault.code, Ordering::Relaxed);
            }
            return fault.code;
        }
        let Some(library) = &*BEHIND else { return stand_in(arguments) };
        type Passed = unsafe extern "C" fn(
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
        ) -> u32;
        // SAFETY: the driver's functions take integers and pointers only, at most twelve, and return an enumeration. The C ABIs of
        // x86-64 and aarch64 pass those as words, and a function does not see that there are more than it takes.
        unsafe {
            let Ok(function) = library.get::<Passed>(self.name) else { return NOT_FOUND };
            let [a, b, c, d, e, f, g, h, i, j, k, l] = *arguments;
            function(a, b, c, d, e, f, g, h, i, j, k, l)
        }
    }
}

macro_rules! functions {
    ($($name:ident = $stand_in:expr;)*) => {
        $(
            #[allow(non_snake_case)]
            mod $name {
                use super::*;

                pub static FUNCTION: Function = Function { name: stringify!($name), uses: AtomicU64::new(0) };

                // The caller passes the arguments that NVIDIA documents; those after them are words of its stack.
                #[unsafe(no_mangle)]
                #[allow(clippy::too_many_arguments)]
                extern "C" fn $name(
                    a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
                    g: usize, h: usize, i: usize, j: usize, k: usize, l: usize,
                ) -> u32 {
                    FUNCTION.call(&[a, b, c, d, e, f, g, h, i, j, k, l], $stand_in)
                }
            }
        )*

        static FUNCTIONS: &[&Function] = &[$(&$name::FUNCTION),*];
    };
}

functions! {
    cuCtxGetCurrent = |a| put(a[0], CONTEXT);
    cuCtxGetDevice = |a| put(a[0], 0_i32);
    cuCtxGetStreamPriorityRange = |a| put(a[0], 0_i32) | put(a[1], -5_i32);
    cuCtxPopCurrent_v2 = |a| if a[0] == 0 { 0 } else { put(a[0], CONTEXT) };
    cuCtxPushCurrent_v2 = done;
    cuCtxSetCurrent = done;
    cuCtxSynchronize = done;
    cuDeviceCanAccessPeer = |a| put(a[0], 0_i32);
    cuDeviceGet = |a| if a[1] == 0 { put(a[0], 0_i32) } else { 101 };
    cuDeviceGetAttribute = |a| put(a[0], attribute(a[1] as u32));
    cuDeviceGetCount = |a| put(a[0], 1_i32);
    cuDeviceGetName = |a| put(a[0], *b"a stand-in\0");
    cuDeviceGetP2PAttribute = |a| put(a[0], 0_i32);
    cuDevicePrimaryCtxRelease_v2 = done;
    cuDevicePrimaryCtxReset_v2 = done;
    cuDevicePrimaryCtxRetain = |a| put(a[0], CONTEXT);
    cuDevicePrimaryCtxSetFlags_v2 = done;
    cuDeviceTotalMem_v2 = |a| put(a[0], *TOTAL);
    cuDriverGetVersion = |a| put(a[0], 12_040_i32);
    cuEventCreate = |a| create(a[0]);
    cuEventDestroy_v2 = |a| destroy(a[0]);
    cuEventElapsedTime = |a| put(a[0], 0.5_f32);
    cuEventQuery = |a| exists(a[0]);
    cuEventRecord = |a| exists(a[0]);
    cuEventSynchronize = |a| exists(a[0]);
    cuFuncGetAttribute = |a| put(a[0], if a[1] == 0 { 1024_i32 } else { 0 });
    cuFuncSetAttribute = done;
    cuGetErrorString = |a| {
        put(a[1], std::ptr::null::<u8>());
        INVALID_VALUE
    };
    cuGraphDestroy = |a| destroy(a[0]);
    cuGraphExecDestroy = |a| destroy(a[0]);
    cuGraphInstantiateWithFlags = |a| if exists(a[1]) == 0 { create(a[0]) } else { INVALID_HANDLE };
    cuGraphLaunch = |a| exists(a[0]);
    cuInit = done;
    cuLaunchCooperativeKernel = done;
    cuLaunchKernel = done;
    cuLaunchKernelEx = done;
    cuMemAllocHost_v2 = |a| allocate(a[0], a[1], Of::Host);
    cuMemAlloc_v2 = |a| allocate(a[0], a[1], Of::Device);
    cuMemFreeHost = |a| free(a[0]);
    cuMemFree_v2 = |a| free(a[0]);
    cuMemGetInfo_v2 = |a| put(a[0], *TOTAL - memory().used) | put(a[1], *TOTAL);
    cuMemcpyDtoDAsync_v2 = |a| copy(a[0], a[1], a[2], &[a[0], a[1]]);
    cuMemcpyDtoD_v2 = |a| copy(a[0], a[1], a[2], &[a[0], a[1]]);
    cuMemcpyDtoHAsync_v2 = |a| copy(a[0], a[1], a[2], &[a[1]]);
    cuMemcpyDtoH_v2 = |a| copy(a[0], a[1], a[2], &[a[1]]);
    cuMemcpyHtoDAsync_v2 = |a| copy(a[0], a[1], a[2], &[a[0]]);
    cuMemcpyHtoD_v2 = |a| copy(a[0], a[1], a[2], &[a[0]]);
    cuMemsetD32Async = |a| fill(a[0], a[1] as u32, a[2]);
    cuMemsetD8Async = |a| fill(a[0], a[1] as u8, a[2]);
    cuMemsetD8_v2 = |a| fill(a[0], a[1] as u8, a[2]);
    cuModuleGetGlobal_v2 = |a| allocate(a[0], 32, Of::Module) | put(a[1], 32_usize);
    cuModuleGetFunction = |a| put(a[0], CONTEXT);
    cuModuleLoadData = |a| put(a[0], CONTEXT);
    cuModuleLoadDataEx = |a| put(a[0], CONTEXT);
    cuModuleUnload = done;
    cuOccupancyMaxActiveBlocksPerMultiprocessor = |a| put(a[0], 2_i32);
    cuStreamBeginCapture_v2 = |a| exists(a[0]);
    cuStreamCreateWithPriority = |a| create(a[0]);
    cuStreamDestroy_v2 = |a| destroy(a[0]);
    cuStreamEndCapture = |a| create(a[1]);
    cuStreamQuery = |a| exists(a[0]);
    cuStreamSynchronize = |a| exists(a[0]);
    cuStreamWaitEvent = |a| exists(a[0]) | exists(a[1]);
    cuTensorMapEncodeTiled = done;
    cuThreadExchangeStreamCaptureMode = done;
}

/// The context, its modules, and their functions: no call reads them, and they end with the context.
const CONTEXT: usize = 64;

fn done(_: &Arguments) -> u32 {
    0
}

/// `CUdevice_attribute`s of an H100.
fn attribute(attribute: u32) -> i32 {
    match attribute {
        1..=3 | 105 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => 48 << 10,
        10 => 32,
        16 => 132,
        33 | 34 | 50 => 0,
        38 => 50 << 20,
        39 => 2048,
        75 => 9,
        76 => 0,
        81 | 97 => 227 << 10,
        _ => 1,
    }
}

/// Whose memory an allocation is.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Device,
    Host,
    /// A variable of device code.
    Module,
}

/// The memory and the other objects of the stand-in.
#[derive(Default)]
struct Memory {
    /// The words of each allocation, by its address.
    allocations: HashMap<usize, (Vec<u128>, Of)>,
    /// Bytes of device memory in use.
    used: usize,
    /// Streams, events and graphs; false once they are destroyed.
    objects: Vec<bool>,
}

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);
static TOTAL: LazyLock<usize> =
    LazyLock::new(|| std::env::var("DRIVER_MEMORY").ok().and_then(|text| text.parse().ok()).unwrap_or(1 << 30));

fn memory() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the result of a call.
fn put<T>(address: usize, value: T) -> u32 {
    // SAFETY: NVIDIA documents that the caller passes the address of such a result.
    unsafe { std::ptr::with_exposed_provenance_mut::<T>(address).write_unaligned(value) };
    0
}

fn create(address: usize) -> u32 {
    let objects = &mut memory().objects;
    objects.push(true);
    // Handles are no addresses that could be read.
    put(address, CONTEXT + objects.len())
}

fn object(objects: &mut [bool], handle: usize) -> Option<&mut bool> {
    objects.get_mut(handle.checked_sub(CONTEXT + 1)?).filter(|exists| **exists)
}

fn exists(handle: usize) -> u32 {
    if object(&mut memory().objects, handle).is_some() { 0 } else { INVALID_HANDLE }
}

fn destroy(handle: usize) -> u32 {
    match object(&mut memory().objects, handle) {
        Some(exists) => {
            *exists = false;
            0
        }
        None => INVALID_HANDLE,
    }
}

fn allocate(address: usize, bytes: usize, of: Of) -> u32 {
    let memory = &mut *memory();
    if bytes == 0 {
        return INVALID_VALUE;
    }
    if of == Of::Device && bytes.next_multiple_of(16) > *TOTAL - memory.used {
        return OUT_OF_MEMORY;
    }
    // Not cleared by a driver either: what is read before it is written is no zero here.
    let words = vec![u128::from_ne_bytes([0x5a; 16]); bytes.div_ceil(16)];
    let place = words.as_ptr().expose_provenance();
    memory.allocations.insert(place, (words, of));
    if of == Of::Device {
        memory.used += bytes.next_multiple_of(16);
    }
    put(address, place)
}

fn free(address: usize) -> u32 {
    let memory = &mut *memory();
    match memory.allocations.remove(&address) {
        Some((words, Of::Device)) => memory.used -= 16 * words.len(),
        Some(_) => {}
        None => return INVALID_VALUE,
    }
    0
}

/// Whether an allocation has these bytes.
fn holds(address: usize, bytes: usize) -> bool {
    let allocations = &memory().allocations;
    allocations.iter().any(|(&start, (words, _))| start <= address && address + bytes <= start + 16 * words.len())
}

fn copy(target: usize, source: usize, bytes: usize, on_device: &[usize]) -> u32 {
    if !on_device.iter().all(|&address| holds(address, bytes)) {
        return INVALID_VALUE;
    }
    let (source, target) =
        (std::ptr::with_exposed_provenance::<c_void>(source), std::ptr::with_exposed_provenance_mut(target));
    // SAFETY: addresses of the device were found in an allocation, and the caller passes valid ones of the host.
    unsafe { std::ptr::copy(source.cast::<u8>(), target, bytes) };
    0
}

fn fill<T: Copy>(address: usize, value: T, count: usize) -> u32 {
    if !holds(address, count * size_of::<T>()) {
        return INVALID_VALUE;
    }
    for at in 0..count {
        put(address + at * size_of::<T>(), value);
    }
    0
}

/// Writes the numbers of uses.
extern "C" fn end() {
    let Some(file) = std::env::var_os("DRIVER_CALLS") else { return };
    let used = |function: &&Function| function.uses.load(Ordering::Relaxed);
    let mut text: String = FUNCTIONS.iter().map(|function| format!("{} {}\n", function.name, used(function))).collect();
    if BEHIND.is_none() {
        let memory = memory();
        let allocations = memory.allocations.values().filter(|(_, of)| *of != Of::Module).count();
        let left = allocations + memory.objects.iter().filter(|&&exists| exists).count();
        text += &format!("left {left}\n");
    }
    std::fs::write(file, text).expect("DRIVER_CALLS can be written");
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
