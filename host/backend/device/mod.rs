//! The host side of the kernels, generic over the device they run on: a GPU, or the emulator.

mod mdp;
pub mod scan;

pub use mdp::{Layout, Plain, Projected};
