//! Where models are solved. [`cpu`] is the only place that knows rayon's loops, [`cuda`] the only one that knows cust.
//!
//! [`device`] holds the host side of the kernels, generic over the [`Device`](warpkov_kernels::launch::Device) they run
//! on: a GPU, or the emulator.

pub mod cpu;
pub mod cuda;
pub mod device;
mod precision;

pub use precision::Precise;
