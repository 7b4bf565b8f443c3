//! NVIDIA GPUs, through cust. Nothing outside of this module knows cust or the driver.
//!
//! Three layers: [`driver`] finds `libcuda` and keeps its error codes harmless, [`module`] loads the PTX that fits, and
//! [`Gpu`] is the [`Device`](warpkov_kernels::launch::Device) that kernels are launched on.

mod device;
mod driver;
mod error;
mod module;

pub use device::{DeviceInfo, Gpu, GpuBuffer, driver_version};
pub use error::CudaError;
pub use module::{DEVICE_COMPILER, NO_PTX, baselines};
