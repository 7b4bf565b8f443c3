//! The host side of the kernels, generic over the device they run on: a GPU, or the emulator.

pub mod divided;
mod krylov;
mod mdp;
pub mod scan;
mod slices;
mod values;

pub use krylov::System;
pub use mdp::{Layout, Plain, Projected};
pub use values::{Certify, Mixed, Plan, Residual, Storage, Values};
