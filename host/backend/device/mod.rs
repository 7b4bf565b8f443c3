//! The host side of the kernels, generic over the device they run on: a GPU, or the emulator.

pub mod divided;
pub mod hmm;
mod krylov;
mod mdp;
mod patterns;
pub mod pomdp;
pub mod scan;
mod slices;
mod streamed;
mod values;

pub use krylov::System;
pub use mdp::{Layout, Plain, Projected};
pub use streamed::{Streamed, Streaming};
pub use values::{Certify, Mixed, Plan, Residual, Storage, Values};
