//! Errors of opening and using a GPU.

use std::cell::RefCell;
use std::time::Duration;

use crate::driver;

/// An error of opening or using a GPU. The message says what to do.
///
/// Compute capabilities and versions are (major, minor).
///
/// ```
/// use warpkov_cuda::CudaError;
///
/// let error = CudaError::BadOrdinal { ordinal: 4, count: 2 };
/// assert_eq!(error.to_string(), "there is no GPU 4: this machine has 2, numbered from 0");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The launch does not meet the kernel's contract.
    #[error(transparent)]
    Unmet(#[from] warpkov_device::launch::Unmet),
    /// `libcuda` cannot be loaded.
    #[error("there is no NVIDIA driver here ({why}): install one, or use the CPU")]
    NoDriver {
        /// The dynamic loader's message.
        why: String,
    },
    /// The driver sees no GPU.
    #[error("the NVIDIA driver sees no GPU: check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use the CPU")]
    NoDevice,
    /// No GPU has the requested ordinal.
    #[error("there is no GPU {ordinal}: this machine has {count}, numbered from 0")]
    BadOrdinal {
        /// The requested ordinal.
        ordinal: u32,
        /// Number of GPUs that the driver sees.
        count: u32,
    },
    /// The binary contains no device code.
    #[error(
        "this binary contains no device code ({reason}): rebuild it with a Rust compiler for GPU code, or use the CPU"
    )]
    NoPtx {
        /// Why the build produced none.
        reason: String,
    },
    /// The GPU is older than all device code in the binary.
    #[error("this GPU has compute capability {}.{}, and the device code needs {}.{} or newer: use another GPU, or the CPU",
        cc.0, cc.1, needs.0, needs.1)]
    DeviceTooOld {
        /// Compute capability of the GPU.
        cc: (u32, u32),
        /// The lowest compute capability that the device code supports.
        needs: (u32, u32),
    },
    /// The driver is older than all device code that the GPU could run.
    #[error("the NVIDIA driver supports CUDA {}.{}, and the device code for this GPU (compute capability {}.{}) needs \
        {}.{}: update the driver, or use the CPU", driver.0, driver.1, cc.0, cc.1, needs.0, needs.1)]
    DriverTooOld {
        /// The newest CUDA version that the driver supports.
        driver: (u32, u32),
        /// The oldest CUDA version that reads the device code.
        needs: (u32, u32),
        /// Compute capability of the GPU.
        cc: (u32, u32),
    },
    /// `WARPKOV_PTX` names a baseline that the binary does not contain.
    #[error(
        "WARPKOV_PTX is `{asked}`, and the binary contains device code for {have}: set it to one of these, or unset it"
    )]
    NoSuchBaseline {
        /// The value of the variable.
        asked: String,
        /// The valid values, separated by commas.
        have: String,
    },
    /// `WARPKOV_CODE` is `machine`, and the binary contains no machine code for this GPU and driver.
    #[error("WARPKOV_CODE is `machine`, and the binary contains no machine code for compute capability {}.{} with a driver \
        for CUDA {}.{}: unset it", cc.0, cc.1, driver.0, driver.1)]
    NoMachineCode {
        /// Compute capability of the GPU.
        cc: (u32, u32),
        /// The newest CUDA version that the driver supports.
        driver: (u32, u32),
    },
    /// `WARPKOV_CODE` has an invalid value.
    #[error("WARPKOV_CODE is `{asked}`: set it to machine or ptx, or unset it")]
    NoSuchCode {
        /// The value of the variable.
        asked: String,
    },
    /// The driver rejected the device code.
    #[error("the NVIDIA driver cannot load the device code ({text}, code {code}): update the driver; its log: {log}")]
    Jit {
        /// The driver's code.
        code: u32,
        /// The driver's description of the code.
        text: String,
        /// The driver's log.
        log: String,
    },
    /// Too little device memory is free.
    #[error("{what} needs {} of GPU memory, and {} of {} are free: use {instead}",
        size(*needed), size(*free), size(*total))]
    OutOfMemory {
        /// Requested bytes.
        needed: u64,
        /// Free bytes.
        free: u64,
        /// Size of the device memory in bytes.
        total: u64,
        /// The purpose of the memory.
        what: String,
        /// What to use instead, such as [`CudaError::SMALLER`].
        instead: &'static str,
    },
    /// The GPU has not the compute capability that a kernel needs.
    #[error("kernel `{entry}` needs compute capability {}.{}{}, and this GPU has {}.{}: use another GPU, or the CPU",
        needs.0, needs.1, if *alone { "" } else { " or newer" }, cc.0, cc.1)]
    KernelNeeds {
        /// The entry point.
        entry: String,
        /// The lowest compute capability that runs it.
        needs: (u32, u32),
        /// Whether no other runs it.
        alone: bool,
        /// Compute capability of the GPU.
        cc: (u32, u32),
    },
    /// The device code lacks a kernel that the program launches.
    #[error("the device code for sm_{sm} has no kernel `{entry}`: this is a fault of the build, please report it")]
    NoKernel {
        /// The requested entry point.
        entry: String,
        /// The baseline of the device code.
        sm: u32,
    },
    /// Two crates have a kernel of the same name.
    #[error("two crates have a kernel `{entry}`, expected different names")]
    KernelTwice {
        /// The entry point.
        entry: String,
    },
    /// The shape of a launch exceeds the GPU's limits, or its arguments do not match the device code.
    #[error("kernel `{entry}` cannot be launched: {why}")]
    BadLaunch {
        /// The entry point.
        entry: String,
        /// The mismatch.
        why: String,
    },
    /// An assertion of a kernel has failed, and stopped it. This process cannot use the GPU any more.
    #[error("kernel `{entry}`, {failed}")]
    Assertion {
        /// The entry point.
        entry: String,
        /// Block, thread, line and message.
        failed: warpkov_device::print::Failed,
    },
    /// NCCL cannot be loaded.
    #[error(
        "there is no NCCL library here ({why}): install NCCL 2.14 or newer, such as PyPI's nvidia-nccl-cu12, or name \
        its file in WARPKOV_NCCL"
    )]
    NoNccl {
        /// The files tried, each with the reason.
        why: String,
    },
    /// `libcusparse` cannot be loaded.
    #[error(
        "there is no cuSPARSE library here ({why}): install one (`pip install nvidia-cusparse-cu12`), or name its file in \
        WARPKOV_CUSPARSE"
    )]
    NoCusparse {
        /// The files tried, each with the reason.
        why: String,
    },
    /// A cuSPARSE call failed.
    #[error("{call} failed: {text}")]
    Cusparse {
        /// The cuSPARSE function.
        call: &'static str,
        /// cuSPARSE's description of the code.
        text: String,
    },
    /// An NCCL call failed on a rank of a communicator.
    #[error("rank {rank} of {size}: {call} failed: {text}; set NCCL_DEBUG=WARN for NCCL's messages")]
    Nccl {
        /// The rank.
        rank: u32,
        /// Number of ranks.
        size: u32,
        /// The NCCL function.
        call: &'static str,
        /// NCCL's description of the code, and its last error.
        text: String,
    },
    /// A rank waited too long for the other ranks of its communicator.
    #[error("rank {rank} of {size}: {call} did not complete within {:.1} s: another rank has failed, has not started, or \
        needs more time than that", waited.as_secs_f64())]
    RankTimeout {
        /// The rank that waited.
        rank: u32,
        /// Number of ranks.
        size: u32,
        /// The operation that it waited for.
        call: &'static str,
        /// The timeout.
        waited: Duration,
    },
    /// A communicator was used after [`abort`](crate::Communicator::abort).
    #[error("rank {rank} of {size}: the communicator was aborted")]
    Aborted {
        /// The rank.
        rank: u32,
        /// Number of ranks.
        size: u32,
    },
    /// Any other error code of the driver.
    #[error("{call} failed: {text} (code {code}); `nvidia-smi` shows the state of the GPU and its driver")]
    Driver {
        /// The driver function.
        call: &'static str,
        /// The code that it returned.
        code: u32,
        /// The driver's description of the code.
        text: String,
    },
}

impl CudaError {
    /// What to use instead if a GPU lacks memory and nothing better is known.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(warpkov_cuda::CudaError::SMALLER, "a smaller problem, f32, or the CPU");
    /// ```
    pub const SMALLER: &str = "a smaller problem, f32, or the CPU";

    /// The error for `code`, which `call` returned.
    pub(crate) fn driver(call: &'static str, code: u32) -> Self {
        match code {
            100 => Self::NoDevice,
            driver::STUB_LIBRARY => Self::NoDriver { why: format!("{call} is a stub") },
            _ => Self::Driver { call, code, text: driver::describe(code) + &kernels(call, code) },
        }
    }
}

/// The codes of failures that a GPU finds while it works, and that a later call returns.
const WHILE_AT_WORK: [u32; 14] = [201, 214, 220, 221, 226, 227, 700, 702, 709, 714, 715, 717, 718, 719];

/// Kernels to name in an error.
const NAMED: usize = 4;

thread_local! {
    /// The entry points of the last kernels that this thread launched and has not waited for, each once.
    static LAUNCHED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// This thread launches a kernel.
pub(crate) fn launched(entry: &'static str) {
    with_launched(|entries| {
        if entries.last() != Some(&entry) {
            entries.retain(|&other| other != entry);
            if entries.len() == NAMED {
                entries.remove(0);
            }
            entries.push(entry);
        }
    });
}

/// The kernels that this thread launched last, if it has not waited for them.
pub(crate) fn unfinished() -> Vec<&'static str> {
    with_launched(|entries| entries.clone()).unwrap_or_default()
}

/// All kernels of this thread have ended.
pub(crate) fn finished() {
    with_launched(Vec::clear);
}

/// The kernels that an error of `call` may be due to, as the end of its text.
fn kernels(call: &str, code: u32) -> String {
    let text = with_launched(|entries| match entries.last() {
        Some(last) if call.starts_with("cuLaunch") => format!(", kernel `{last}`"),
        Some(_) if WHILE_AT_WORK.contains(&code) => format!(", in one of the last kernels: `{}`", entries.join("`, `")),
        _ => String::new(),
    });
    text.unwrap_or_default()
}

/// Uses the kernels of this thread, unless it ends: a GPU may be closed by a destructor after them.
fn with_launched<R>(work: impl FnOnce(&mut Vec<&'static str>) -> R) -> Option<R> {
    LAUNCHED.try_with(|entries| work(&mut entries.borrow_mut())).ok()
}

/// Converts a code that `call` returned into a result.
pub(crate) fn check(call: &'static str, code: u32) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError::driver(call, code)) }
}

/// Converts an error of cust: `.map_err(from_cust("cuMemAlloc"))`.
pub(crate) fn from_cust(call: &'static str) -> impl FnOnce(cust::error::CudaError) -> CudaError {
    move |error| CudaError::driver(call, error as u32)
}

/// A number of bytes as text with a unit: `1.50 GiB`, `1.5 MiB`, `300 bytes`.
///
/// ```
/// use warpkov_cuda::size;
///
/// assert_eq!(size(3 << 29), "1.50 GiB");
/// assert_eq!(size(300), "300 bytes");
/// ```
#[must_use]
pub fn size(bytes: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    match bytes as f64 {
        b if b >= 1024.0 * MIB => format!("{:.2} GiB", b / (1024.0 * MIB)),
        b if b >= MIB => format!("{:.1} MiB", b / MIB),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(3 << 19), "1.5 MiB");
        assert_eq!(size(139 << 30), "139.00 GiB");
    }

    #[test]
    fn messages_give_advice() {
        let memory = CudaError::OutOfMemory {
            needed: 3 << 30,
            free: 1 << 30,
            total: 2 << 30,
            what: "the matrix".into(),
            instead: CudaError::SMALLER,
        };
        assert_eq!(
            memory.to_string(),
            "the matrix needs 3.00 GiB of GPU memory, and 1.00 GiB of 2.00 GiB are free: use a smaller problem, f32, or the CPU"
        );
        let driver = CudaError::DriverTooOld { driver: (11, 8), needs: (12, 0), cc: (9, 0) };
        assert_eq!(
            driver.to_string(),
            "the NVIDIA driver supports CUDA 11.8, and the device code for this GPU (compute capability 9.0) needs 12.0: \
             update the driver, or use the CPU"
        );
        assert_eq!(
            CudaError::BadOrdinal { ordinal: 4, count: 2 }.to_string(),
            "there is no GPU 4: this machine has 2, numbered from 0"
        );
    }

    #[test]
    fn failures_name_kernels() {
        for entry in ["a", "b", "c", "d", "d", "b", "e"] {
            launched(entry);
        }
        let text = |call, code| CudaError::driver(call, code).to_string();
        assert!(text("cuStreamSynchronize", 700).contains("in one of the last kernels: `c`, `d`, `b`, `e` (code 700)"));
        assert!(text("cuLaunchKernel", 1).contains("kernel `e` (code 1)"));
        assert!(!text("cuMemAlloc", 2).contains("kernel"));
        finished();
        assert!(!text("cuStreamSynchronize", 700).contains("kernel"));
    }

    #[test]
    fn unknown_codes_are_reported_as_unknown() {
        let error = check("cuStreamSynchronize", 4321).unwrap_err();
        assert_eq!(
            error,
            CudaError::Driver { call: "cuStreamSynchronize", code: 4321, text: String::from("unknown code") }
        );
        assert!(check("cuInit", 0).is_ok());
        assert_eq!(check("cuInit", 100), Err(CudaError::NoDevice));
        assert!(matches!(check("cuInit", 34), Err(CudaError::NoDriver { .. })));
    }
}
