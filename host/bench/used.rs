//! What one more run used of a GPU, beside its time.

use serde::Serialize;
use warpkov_runtime::gpu::{KernelUsage, Usage};

/// The kernels of a run, its memory, and what ran it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Used {
    /// The kernels, the longest in all first; empty on CPUs and the emulator.
    pub kernels: Vec<Kernel>,
    /// The most bytes of device memory at one time.
    pub peak_bytes: u64,
    /// The version of the driver, by NVML.
    pub driver: Option<String>,
    /// The version of this program.
    pub program: &'static str,
}

/// The launches of a kernel in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kernel {
    /// The entry point: the kernel, and its types.
    pub kernel: &'static str,
    /// Number of launches.
    pub launches: u64,
    /// The time of all launches together, each timed by itself.
    pub seconds: f64,
}

impl From<Usage> for Used {
    fn from(Usage { kernels, peak_bytes, driver, .. }: Usage) -> Self {
        let kernel =
            |KernelUsage { entry, launches, time }| Kernel { kernel: entry, launches, seconds: time.as_secs_f64() };
        let kernels = kernels.into_iter().map(kernel).collect();
        Self { kernels, peak_bytes, driver, program: env!("CARGO_PKG_VERSION") }
    }
}

/// Runs `work` with every kernel launched and timed by itself, and returns what it used, or `None` if nobody `asked`. `work` opens its own
/// buffers: graphs that exist are not measured.
///
/// # Errors
/// Those of `work`.
pub fn used<R, E>(asked: bool, work: impl FnOnce() -> Result<R, E>) -> Result<Option<Used>, E> {
    if !asked {
        return Ok(None);
    }
    let (result, usage) = Usage::during(work);
    result?;
    Ok(Some(usage.into()))
}

/// The energy of 10⁹ backups of a state, if `joules` were needed for `backups` of them.
#[must_use]
pub fn joules_per_1e9(joules: Option<f64>, backups: u64) -> Option<f64> {
    joules.map(|joules| 1e9 * joules / backups as f64)
}
