//! What a process uses of its GPUs: kernels with their times, memory, energy.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cust::event::{Event, EventFlags};
use cust::stream::Stream;

use super::info;
use crate::driver::Handle;
use crate::error::{CudaError, from_cust};
use crate::library::{Search, functions};

/// What the GPUs of this process have done since [`Usage::measure`].
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// Usage::measure();
/// let gpu = Gpu::open(0, &MODULES)?;
/// gpu.to_vec(&gpu.upload(&[1.0; 1000])?)?;
/// drop(gpu);
/// let usage: Usage = Usage::so_far();
/// assert!(usage.peak_bytes >= 8000);
/// for kernel in &usage.kernels {
///     println!("{}: {} launches, {:?}", kernel.entry, kernel.launches, kernel.time);
/// }
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The kernels, the longest in all first. The last launches of a GPU that is still open may be missing before it is synchronised.
    pub kernels: Vec<KernelUsage>,
    /// The most bytes of device memory that buffers had at one time, on all GPUs together.
    pub peak_bytes: u64,
    /// Energy of the whole GPUs since they were first opened, in joules, by NVML; `None` if it cannot tell. Other processes on the same GPUs are in it.
    pub joules: Option<f64>,
    /// The version of the driver, by NVML.
    pub driver: Option<String>,
}

/// The launches of a kernel.
///
/// ```
/// use std::time::Duration;
/// use warpkov_cuda::KernelUsage;
///
/// let kernel = KernelUsage { entry: "vector_add_f32", launches: 4, time: Duration::from_micros(20) };
/// assert_eq!(kernel.time / kernel.launches as u32, Duration::from_micros(5));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelUsage {
    /// The entry point: the kernel, and its types.
    pub entry: &'static str,
    /// Number of launches.
    pub launches: u64,
    /// The time of all launches together, by the clock of the GPU. Each includes a few microseconds of its events.
    pub time: Duration,
}

/// Whether launches are measured.
static ON: AtomicBool = AtomicBool::new(false);

/// Bytes of device memory that buffers have, and the most so far.
static BYTES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Launches and nanoseconds of each kernel; millijoules of each GPU, by its address, when it was first opened.
static FOUND: Mutex<Found> = Mutex::new(Found { kernels: BTreeMap::new(), energy: BTreeMap::new() });

struct Found {
    kernels: BTreeMap<&'static str, (u64, f64)>,
    energy: BTreeMap<String, Option<u64>>,
}

fn found() -> MutexGuard<'static, Found> {
    FOUND.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Usage {
    /// Measures all GPUs that this process opens from now on. Every launch is timed by itself, and graphs are not recorded, so the
    /// process takes longer.
    ///
    /// # Examples
    /// ```
    /// warpkov_cuda::Usage::measure();
    /// ```
    pub fn measure() {
        ON.store(true, Ordering::Relaxed);
    }

    /// Whether launches are measured.
    ///
    /// ```
    /// warpkov_cuda::Usage::measure();
    /// assert!(warpkov_cuda::Usage::is_measured());
    /// ```
    #[must_use]
    pub fn is_measured() -> bool {
        ON.load(Ordering::Relaxed)
    }

    /// What `work` does on GPUs, which it synchronises at its end: every launch is timed by itself, and graphs are not recorded, so it takes
    /// longer. Graphs from before are launched without being measured. The peak is that of all buffers, those from before included.
    ///
    /// # Examples
    /// ```
    /// let (sum, usage) = warpkov_cuda::Usage::during(|| 1 + 1);
    /// assert!(sum == 2 && usage.kernels.is_empty());
    /// ```
    pub fn during<R>(work: impl FnOnce() -> R) -> (R, Self) {
        let before = Self::so_far();
        let was_on = ON.swap(true, Ordering::Relaxed);
        BYTES[1].store(BYTES[0].load(Ordering::Relaxed), Ordering::Relaxed);
        let result = work();
        ON.store(was_on, Ordering::Relaxed);
        let after = Self::so_far();
        BYTES[1].fetch_max(before.peak_bytes, Ordering::Relaxed);
        let only = |kernel: &KernelUsage| {
            let same = before.kernels.iter().find(|earlier| earlier.entry == kernel.entry);
            let (launches, time) = same.map_or((0, Duration::ZERO), |same| (same.launches, same.time));
            let (launches, time) = (kernel.launches - launches, kernel.time.saturating_sub(time));
            (launches > 0).then_some(KernelUsage { launches, time, ..kernel.clone() })
        };
        let mut kernels: Vec<_> = after.kernels.iter().filter_map(only).collect();
        kernels.sort_by_key(|kernel| Reverse(kernel.time));
        let joules = after.joules.map(|joules| joules - before.joules.unwrap_or(0.0));
        (result, Self { kernels, joules, ..after })
    }

    /// What was measured so far.
    ///
    /// # Examples
    /// ```
    /// // No GPU was opened.
    /// let usage = warpkov_cuda::Usage::so_far();
    /// assert!(usage.kernels.is_empty() && usage.joules.is_none());
    /// ```
    #[must_use]
    pub fn so_far() -> Self {
        let found = found();
        let entry = |(&entry, &(launches, seconds)): (&&'static str, &(u64, f64))| KernelUsage {
            entry,
            launches,
            time: Duration::from_secs_f64(seconds),
        };
        let mut kernels: Vec<_> = found.kernels.iter().map(entry).collect();
        kernels.sort_by_key(|kernel| Reverse(kernel.time));
        let used =
            |(pci, before): (&String, &Option<u64>)| Some(millijoules(pci)?.checked_sub((*before)?)? as f64 * 1e-3);
        let joules = found.energy.iter().map(used).sum::<Option<f64>>().filter(|_| !found.energy.is_empty());
        let driver = nvml().and_then(Nvml::driver);
        Self { kernels, peak_bytes: BYTES[1].load(Ordering::Relaxed), joules, driver }
    }
}

/// The energy in joules that GPU `ordinal` has taken since its driver was loaded, by NVML, which looks some ten times a second; `None`
/// if it cannot tell.
///
/// ```
/// // Without a driver, nobody can.
/// println!("{:?} J", warpkov_cuda::energy(0));
/// ```
#[must_use]
pub fn energy(ordinal: u32) -> Option<f64> {
    let pci = info::cuda_device(ordinal).and_then(info::pci).ok()?;
    millijoules(&pci).map(|millijoules| millijoules as f64 * 1e-3)
}

/// Notes that the GPU at this address has been opened.
pub(super) fn opened(pci: String) {
    found().energy.entry(pci).or_insert_with_key(|pci| millijoules(pci));
}

/// Notes that a buffer has taken `bytes`.
pub(super) fn taken(bytes: u64) {
    let now = BYTES[0].fetch_add(bytes, Ordering::Relaxed) + bytes;
    BYTES[1].fetch_max(now, Ordering::Relaxed);
}

/// Notes that a buffer of `bytes` is gone.
pub(super) fn given(bytes: u64) {
    BYTES[0].fetch_sub(bytes, Ordering::Relaxed);
}

/// Launches of one GPU whose times are not known yet.
#[derive(Default)]
pub(super) struct Pending(RefCell<Vec<(&'static str, Event, Event)>>);

impl Pending {
    /// Launches that wait before their times are read.
    const MOST: usize = 1024;

    /// Calls `launch`, between two events of the stream. The context is current.
    pub(super) fn measure(
        &self,
        entry: &'static str,
        stream: &Stream,
        launch: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let event = || -> Result<Event, CudaError> {
            let event = Event::new(EventFlags::DEFAULT).map_err(from_cust("cuEventCreate"))?;
            event.record(stream).map_err(from_cust("cuEventRecord"))?;
            Ok(event)
        };
        let start = event()?;
        launch()?;
        self.0.borrow_mut().push((entry, start, event()?));
        if self.0.borrow().len() >= Self::MOST { self.read() } else { Ok(()) }
    }

    /// Waits for the launches and adds their times. The context is current.
    pub(super) fn read(&self) -> Result<(), CudaError> {
        for (entry, start, end) in self.0.take() {
            end.synchronize().map_err(from_cust("cuEventSynchronize"))?;
            let time = end.elapsed(&start).map_err(from_cust("cuEventElapsedTime"))?;
            let mut found = found();
            let (launches, seconds) = found.kernels.entry(entry).or_default();
            (*launches, *seconds) = (*launches + 1, *seconds + time.as_secs_f64());
        }
        Ok(())
    }
}

/// NVML, NVIDIA's management library, which comes with the driver.
const SEARCH: Search = Search { variable: "WARPKOV_NVML", names: &["libnvidia-ml.so.1"], packages: &[] };

functions! {
    /// The doc comments list the parameters; NVIDIA's *NVML API* describes the functions.
    Nvml of "NVML":
    /// ()
    init = nvmlInit_v2() -> u32;
    /// (text, bytes)
    driver_version = nvmlSystemGetDriverVersion(*mut c_char, u32) -> u32;
    /// (address, &device)
    by_address = nvmlDeviceGetHandleByPciBusId_v2(*const c_char, *mut Handle) -> u32;
    /// (device, &millijoules since the driver was loaded)
    energy = nvmlDeviceGetTotalEnergyConsumption(Handle, *mut u64) -> u32;
}

/// NVML, loaded and initialised at the first call.
fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    let load = || {
        let nvml = SEARCH.load(|name| std::env::var_os(name), |library, _| Nvml::resolve(library)).ok()?;
        // SAFETY: nvmlInit_v2 has no preconditions.
        (unsafe { (nvml.init)() } == 0).then_some(nvml)
    };
    NVML.get_or_init(load).as_ref()
}

impl Nvml {
    fn driver(&self) -> Option<String> {
        let mut text = [0_u8; 96];
        // SAFETY: nvmlSystemGetDriverVersion writes at most that many bytes, with a NUL at the end.
        let code = unsafe { (self.driver_version)(text.as_mut_ptr().cast(), text.len() as u32) };
        let end = text.iter().position(|&byte| byte == 0)?;
        (code == 0).then(|| String::from_utf8_lossy(&text[..end]).into_owned())
    }
}

/// Millijoules of the GPU at this address since its driver was loaded.
fn millijoules(pci: &str) -> Option<u64> {
    let (nvml, address) = (nvml()?, CString::new(pci).ok()?);
    let (mut device, mut millijoules) = (std::ptr::null_mut(), 0);
    // SAFETY: the address is NUL-terminated; the function writes one handle.
    let found = unsafe { (nvml.by_address)(address.as_ptr(), &mut device) };
    // SAFETY: the handle is that of a device if it was found; the function writes one number.
    (found == 0 && unsafe { (nvml.energy)(device, &mut millijoules) } == 0).then_some(millijoules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_bytes_at_one_time_are_counted() {
        let before = Usage::so_far().peak_bytes;
        taken(before + 1000);
        given(1000);
        taken(500);
        given(before + 500);
        assert_eq!(Usage::so_far().peak_bytes, before + 1000);
    }
}
