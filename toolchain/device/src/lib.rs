//! GPU kernels in Rust: a device library, typed launches, and an emulator that runs kernels without a GPU.
//!
//! ```
//! use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Device, Shape};
//!
//! /// y ← a·x + y: one thread per element.
//! ///
//! /// *Safety*: both vectors have `n` elements.
//! #[kernel(T = [f32, f64])]
//! pub fn axpy<T: Real>(n: u32, a: T, x: Global<T>, y: GlobalMut<T>) {
//!     let i = thread::index_1d() as usize;
//!     if i < n as usize {
//!         y.set(i, a.fma(x.get(i), y.get(i)));
//!     }
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let device = Emulator::default();
//!     let (n, x) = (3, device.upload(&[1.0, 2.0, 3.0])?);
//!     let mut y = device.upload(&[0.5; 3])?;
//!     // SAFETY: both vectors have n elements.
//!     unsafe { axpy(&device, Shape::cover(n.into(), 256), n, 2.0, &x, &mut y) }?;
//!     assert_eq!(device.to_vec(&y)?, [2.5, 4.5, 6.5]);
//!     Ok(())
//! }
//! ```
//!
//! A kernel is an ordinary function with the attribute [`kernel`](device::kernel). Its source compiles twice:
//!
//! - for `nvptx64-nvidia-cuda`, to an entry point of a PTX module. The crate `warpkov-build` runs this compilation from
//!   a build script;
//! - for the host, to a typed launcher of the same name, generic over the [`Device`](launch::Device) that runs the
//!   kernel: the [`Emulator`](emulator::Emulator) of this crate or a GPU of the crate `warpkov-cuda`. A launch with a
//!   wrong number or type of arguments does not compile.
//!
//! The emulator runs each CUDA thread as a coroutine. It reports faults that a GPU does not detect: accesses out of
//! bounds, [races](emulator#races) in shared and global memory, reads of uninitialised memory, barriers that not all
//! threads reach, and waits that never end. It also [counts](emulator::profile) what profilers count. With it, `cargo
//! test` tests kernels on a machine without a GPU.
//!
//! | module | contents |
//! | --- | --- |
//! | [`device`] | the device library: threads, shared memory, warps, atomics, tensor cores |
//! | [`launch`] | the device interface: buffers, copies, launches, events, graphs |
//! | [`emulator`] | the emulator |
//! | [`mod@print`] | lines and failed assertions of kernels |
//!
//! A crate that contains kernels only, and is compiled for the GPU as a whole, begins with
//!
//! ```text
//! #![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]
//! ```
//!
//! A crate whose kernels are in one module does not need this line.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, core_intrinsics, link_llvm_intrinsics, stdarch_nvptx)
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

pub mod device;
#[cfg(not(target_arch = "nvptx64"))]
pub mod emulator;
#[cfg(not(target_arch = "nvptx64"))]
pub mod launch;
pub mod print;
