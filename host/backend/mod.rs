//! Where models are solved.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`cpu`] | one core, or all of them |
//! | [`device`] | the host side of the kernels, generic over the [`Device`](warpkov_kernels::launch::Device) they run on |
//! | [`cuda`] | the device that is a GPU; nothing outside of it knows cust |

pub mod cpu;
pub mod cuda;
pub mod device;
mod palette;
mod precision;

pub use precision::Precise;
