//! The device library: the functions and types that kernels use, named as in `cuda_std`.
//!
//! Every primitive has two implementations: for `nvptx64`, an NVVM intrinsic or inline PTX; for the host, a call of the
//! [emulator](crate::emulator). A kernel runs on both unchanged.
//!
//! | module | contents |
//! | --- | --- |
//! | [`thread`] | indices and dimensions, barriers, fences |
//! | [`grid`] | the barrier of a grid, overlapping launches |
//! | [`global`] | views of global memory: plain, streaming and vector accesses |
//! | [`parameter`] | kernel parameters: scalars, views, and structs of both |
//! | [`safe`] | parameters of kernels whose launch is safe |
//! | [`rows`] | views as matrices |
//! | [`shared`] | views of a block's shared memory, static and dynamic |
//! | [`warp`] | shuffles, votes, reductions and scans over the 32 lanes of a warp |
//! | [`block`] | reductions and scans over the threads of a block |
//! | [`cluster`] | clusters of blocks, which access each other's shared memory |
//! | [`atomic`] | atomic operations with ordering and scope |
//! | [`copy`] | asynchronous copies from global to shared memory |
//! | [`bulk`] | bulk copies between global and shared memory |
//! | [`mbarrier`] | barriers in shared memory that count arrivals and bytes |
//! | [`tensor`] | copies of tiles of a tensor |
//! | [`mma`] | tensor cores |
//! | [`wgmma`] | tensor cores, for products of four warps from shared memory |
//! | [`math`] | fused multiply-add, exponential, approximate functions; [`Real`] has the elementary functions |
//! | [`half`] | conversions between f16 and f32 |
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel(T = [f32, f64])]
//! fn axpy<T: Real>(n: u32, a: T, x: Global<T>, y: GlobalMut<T>) {
//!     let i = thread::index_1d();
//!     if i < u64::from(n) {
//!         y.set(i, a.fma(x.get(i), y.get(i)));
//!     }
//! }
//!
//! # let device = Emulator::default();
//! let (x, mut y) = (device.upload(&[1.0, 2.0])?, device.upload(&[0.5; 2])?);
//! // SAFETY: both vectors have n elements.
//! unsafe { axpy(&device, Shape::cover(2, 32), 2, 2.0, &x, &mut y)? };
//! assert_eq!(device.to_vec(&y)?, [2.5, 4.5]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

/// Selects an expression by target.
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
pub mod bulk;
pub mod cluster;
pub mod copy;
mod elementary;
pub mod global;
pub mod grid;
pub mod half;
pub mod math;
pub mod mbarrier;
pub mod mma;
mod number;
#[cfg(target_arch = "nvptx64")]
mod nvvm;
pub mod parameter;
pub mod rows;
pub mod safe;
pub mod shared;
pub mod tensor;
pub mod thread;
pub mod warp;
pub mod wgmma;

pub use crate::{device_assert, device_println, shared_array};
pub use copy::Source;
pub use global::{Global, GlobalMut};
pub use grid::GridGroup;
pub use number::{AnyIndex, DeviceCopy, Element, Named, Offset, Real, Word};
pub use parameter::{Parameter, Scalars};
pub use rows::Rows;
pub use shared::Shared;
pub use tensor::TensorMap;
#[doc(hidden)]
pub use warpkov_device_macros::__with_prefix;
pub use warpkov_device_macros::{DeviceCopy, Parameter, kernel};

// For `#[derive(DeviceCopy)]`.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub use bytemuck;

/// What most kernels use: `use warpkov_device::device::prelude::*;`.
///
/// ```
/// use warpkov_device::device::prelude::*;
///
/// /// Squares of the threads' indices.
/// #[kernel]
/// fn squares(out: GlobalMut<u64>) {
///     let i = thread::index_1d();
///     out.set(i, i * i);
/// }
///
/// # use warpkov_device::{emulator::Emulator, launch::*};
/// # let device = Emulator::default();
/// # let mut out = device.zeros(3)?;
/// // SAFETY: `out` has one element per thread.
/// unsafe { squares(&device, Shape::new(1, 3), &mut out)? };
/// assert_eq!(device.to_vec(&out)?, [0, 1, 4]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub mod prelude {
    pub use super::{
        AnyIndex, DeviceCopy, Element, Global, GlobalMut, GridGroup, Named, Offset, Parameter, Real, Rows, Shared,
        TensorMap, Word, atomic, block, bulk, cluster, copy, device_assert, device_println, grid, half, kernel, math,
        mma, shared, shared_array, thread, warp, wgmma,
    };
}

/// The baseline of this compilation: 90 for `sm_90`; 0 under emulation.
///
/// The condition in `if SM >= 90 { … }` is constant, so the compiler removes the branch that does not apply. Code that
/// does not compile for older GPUs needs `#[cfg(warpkov_sm = "90")]`, which holds for `sm_90` and all later baselines, or a kernel with
/// `#[kernel(sm = 90)]`.
pub const SM: u32 = sm();

#[cfg(not(target_arch = "nvptx64"))]
const fn sm() -> u32 {
    0
}

/// `warpkov-build` sets `WARPKOV_SM` for each baseline.
#[cfg(target_arch = "nvptx64")]
const fn sm() -> u32 {
    let Some(text) = option_env!("WARPKOV_SM") else { panic!("WARPKOV_SM is not set: build with warpkov-build") };
    match u32::from_str_radix(text, 10) {
        Ok(sm) => sm,
        Err(_) => panic!("WARPKOV_SM is no number"),
    }
}
