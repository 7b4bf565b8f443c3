//! The device library: what a kernel may use, in the vocabulary of `cuda_std`.
//!
//! Every primitive has two bodies: one for `nvptx64`, made of LLVM's NVVM intrinsics or of inline PTX, and one for the
//! host, which asks the [emulator](crate::emulator). A kernel that is written against this module runs on both, unchanged.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`thread`] | who am I: indices and dimensions; barriers and fences |
//! | [`grid`] | launches that overlap |
//! | [`global`] | views of device memory: plain, streaming and vector accesses |
//! | [`parameter`] | what a kernel has as a parameter: scalars, views, and structs of these |
//! | [`shared`] | views of a block's shared memory, static and dynamic |
//! | [`warp`] | shuffles, votes, reductions and scans among 32 lanes |
//! | [`block`] | reductions and scans among the threads of a block |
//! | [`atomic`] | read-modify-write operations with ordering and scope |
//! | [`copy`] | asynchronous copies to shared memory |
//! | [`mma`] | tensor cores |
//! | [`math`] | fused multiply-add and approximate functions |

/// One expression for each of the two targets.
macro_rules! target {
    (nvptx => $nvptx:expr, emulated => $emulated:expr $(,)?) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            $nvptx
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $emulated
        }
    }};
}

pub mod atomic;
pub mod block;
pub mod copy;
pub mod global;
pub mod grid;
pub mod half;
pub mod math;
pub mod mma;
mod number;
#[cfg(target_arch = "nvptx64")]
mod nvvm;
pub mod parameter;
pub mod shared;
pub mod thread;
pub mod warp;

pub use copy::Source;
pub use global::{Global, GlobalMut};
pub use number::{DeviceCopy, Named, Offset, Real, Word};
pub use parameter::Parameter;
pub use shared::Shared;
pub use warpkov_device_macros::{Parameter, kernel};

/// The oldest GPU generation that this code was compiled for, as in `sm_90`; 0 under emulation.
///
/// A kernel may ask `if SM >= 90 { … }`: the branch is decided when the kernel is compiled. Code that older ones cannot have at
/// all stands behind `#[cfg(warpkov_sm = "90")]`, which holds for that generation and all later ones.
pub const SM: u32 = sm();

#[cfg(not(target_arch = "nvptx64"))]
const fn sm() -> u32 {
    0
}

/// The builder says for which GPUs it compiles.
#[cfg(target_arch = "nvptx64")]
const fn sm() -> u32 {
    let Some(text) = option_env!("WARPKOV_SM") else { panic!("WARPKOV_SM is not set: build with warpkov-build") };
    match u32::from_str_radix(text, 10) {
        Ok(sm) => sm,
        Err(_) => panic!("WARPKOV_SM is no number"),
    }
}
