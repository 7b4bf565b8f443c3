//! Properties of the GPUs of this machine.

use cust::device::{Device as CudaDevice, DeviceAttribute};
use cust::memory::mem_get_info;
use serde::Serialize;

use super::Gpu;
use super::context::PrimaryContext;
use crate::driver;
use crate::error::{CudaError, check, from_cust};
use crate::module::{Code, Modules, choose};

/// Properties of a GPU, as [`Gpu::list`] reports them.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// for info in Gpu::list(&MODULES)? {
///     let DeviceInfo { name, total_bytes, .. } = info;
///     println!("{name}: {}", size(total_bytes));
/// }
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// Ordinal, from 0, in the driver's order (`CUDA_VISIBLE_DEVICES` applies).
    pub ordinal: u32,
    /// Name, such as "NVIDIA H200".
    pub name: String,
    /// Compute capability (major, minor).
    pub compute_capability: (u32, u32),
    /// Device memory in bytes.
    pub total_bytes: u64,
    /// Free device memory in bytes; `None` if no context can be created on the GPU now.
    pub free_bytes: Option<u64>,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Size of the L2 cache in bytes.
    pub l2_bytes: u64,
    /// Maximum threads per block.
    pub max_threads: u32,
    /// PCI address, such as `0000:1b:00.0`.
    pub pci: String,
    /// Ordinals of the GPUs whose memory this one can access, those with the fastest link first.
    pub peers: Vec<u32>,
    /// Baseline of the device code that the GPU would run: 90 for `sm_90`. `None` if it can run none.
    pub ptx: Option<u32>,
    /// Target of the machine code that the GPU would run: 86 for `sm_86`. `None` if the driver compiles the PTX.
    pub machine_code: Option<u32>,
    /// The reason why the GPU can run none of the device code.
    pub unsupported: Option<String>,
}

/// The device with this ordinal.
pub(super) fn cuda_device(ordinal: u32) -> Result<CudaDevice, CudaError> {
    let count = Gpu::count()?;
    if ordinal >= count {
        return Err(CudaError::BadOrdinal { ordinal, count });
    }
    CudaDevice::get_device(ordinal).map_err(from_cust("cuDeviceGet"))
}

/// The properties of a GPU, and the device code of `modules` that it would run.
pub(super) fn info(ordinal: u32, modules: &'static Modules) -> Result<DeviceInfo, CudaError> {
    let device = cuda_device(ordinal)?;
    let compute_capability = compute_capability(device)?;
    let code = choose(modules, compute_capability, Gpu::driver_version()?);
    // Two properties need a context: the free memory, and whether the driver accepts the machine code. Another process
    // may hold the GPU exclusively, so a failure here is no error.
    let opened = PrimaryContext::open(ordinal, modules).and_then(|(context, program)| {
        context.enter()?;
        Ok((context, program))
    });
    let free = opened.as_ref().ok().and_then(|_| mem_get_info().ok()).map(|(free, _)| free as u64);
    let code = code.and_then(|code| match (opened, code.baseline.entries.first()) {
        (Ok((context, program)), Some(entry)) => program.function(&context, entry.name).map(|_| program.code()),
        _ => Ok(code),
    });
    let unsupported = code.as_ref().err().map(ToString::to_string);
    Ok(DeviceInfo {
        ordinal,
        name: device.name().map_err(from_cust("cuDeviceGetName"))?,
        compute_capability,
        total_bytes: device.total_memory().map_err(from_cust("cuDeviceTotalMem"))? as u64,
        free_bytes: free,
        multiprocessors: attribute(device, DeviceAttribute::MultiprocessorCount)?,
        l2_bytes: u64::from(attribute(device, DeviceAttribute::L2CacheSize)?),
        max_threads: attribute(device, DeviceAttribute::MaxThreadsPerBlock)?,
        pci: pci(device)?,
        peers: peers(ordinal, device)?,
        ptx: code.as_ref().ok().map(|code| code.baseline.sm),
        machine_code: code.as_ref().ok().and_then(Code::machine),
        unsupported,
    })
}

/// The PCI address: "0000:1b:00.0".
pub(super) fn pci(device: CudaDevice) -> Result<String, CudaError> {
    let [domain, bus, slot] = [DeviceAttribute::PciDomainId, DeviceAttribute::PciBusId, DeviceAttribute::PciDeviceId]
        .map(|kind| attribute(device, kind));
    Ok(format!("{:04x}:{:02x}:{:02x}.0", domain?, bus?, slot?))
}

/// The GPUs whose memory GPU `ordinal` can access, in the driver's order of performance.
fn peers(ordinal: u32, device: CudaDevice) -> Result<Vec<u32>, CudaError> {
    /// `CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK`; 0 is the fastest link.
    const PERFORMANCE_RANK: i32 = 1;

    let driver = driver::get()?;
    let mut peers = Vec::new();
    for other in (0..Gpu::count()?).filter(|&other| other != ordinal) {
        let peer = cuda_device(other)?.as_raw();
        let (mut accessible, mut rank) = (0, 0);
        // SAFETY: both devices are handles from cuDeviceGet, and the function writes one integer.
        let code = unsafe { (driver.device_can_access_peer)(&mut accessible, device.as_raw(), peer) };
        check("cuDeviceCanAccessPeer", code)?;
        if accessible != 0 {
            // SAFETY: as above. A driver that refuses leaves the rank at 0, so that the ordinal decides.
            unsafe { (driver.device_get_p2p_attribute)(&mut rank, PERFORMANCE_RANK, device.as_raw(), peer) };
            peers.push((rank, other));
        }
    }
    peers.sort_unstable();
    Ok(peers.into_iter().map(|(_, other)| other).collect())
}

/// Compute capability (major, minor).
pub(super) fn compute_capability(device: CudaDevice) -> Result<(u32, u32), CudaError> {
    let number = |kind| attribute(device, kind);
    Ok((number(DeviceAttribute::ComputeCapabilityMajor)?, number(DeviceAttribute::ComputeCapabilityMinor)?))
}

pub(super) fn attribute(device: CudaDevice, kind: DeviceAttribute) -> Result<u32, CudaError> {
    let value = device.get_attribute(kind).map_err(from_cust("cuDeviceGetAttribute"))?;
    Ok(value.unsigned_abs())
}
