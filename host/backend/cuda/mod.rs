//! NVIDIA GPUs, through the CUDA driver: the only place that knows cust.
//!
//! The binary holds its device code and finds the driver when it runs, so it starts anywhere; [`Gpu::open`] says what is
//! missing where there is no GPU.

mod device;
mod driver;
mod error;
mod module;

pub use device::{Background, DeviceInfo, Gpu, GpuBuffer, Moment, Pinned};
pub use error::CudaError;
pub(crate) use error::size;
pub use module::{ASSEMBLER, Baseline, DEVICE_COMPILER, Entry, NO_PTX, baselines};
