//! Host side of the kernels, generic over the device: a GPU or the emulator.

pub mod divided;
mod krylov;
mod patterns;
mod policy;
mod slices;
mod streamed;
mod values;

pub use krylov::System;
pub use policy::{BlockPerState, PolicyLayout, Projected};
pub use streamed::{Streamed, Streaming};
pub use values::{Certify, Mixed, Residual, SweepLayout, ValueIteration};
