//! Device code.
#![cfg_attr(target_arch = "nvptx64", no_std)]

pub mod device;
#[cfg(not(target_arch = "nvptx64"))]
pub mod launch;
