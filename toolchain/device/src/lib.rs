//! What a GPU kernel in Rust is written with, and how it runs without a GPU.
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
//! A kernel is an ordinary function with the attribute [`kernel`](device::kernel). Its source compiles twice. For
//! `nvptx64-nvidia-cuda` it becomes an entry point of a PTX module; the crate `warpkov-build` does that from a build script.
//! For the host it becomes its own typed launcher, generic over the [`Device`](launch::Device) that runs it: the
//! [`Emulator`](emulator::Emulator) here, or a GPU of the crate `warpkov-cuda`. A launch with a wrong argument does not compile.
//!
//! The emulator runs each CUDA thread as a coroutine and reports what a GPU lets pass: accesses out of bounds, races in shared
//! memory, barriers that some threads miss. So `cargo test` tests kernels on a laptop.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`device`] | the device library: threads, shared memory, warps, atomics, tensor cores |
//! | [`launch`] | how a kernel is launched |
//! | [`emulator`] | how it runs without a GPU |
//!
//! A crate of kernels that is compiled for the GPU as a whole begins with
//!
//! ```text
//! #![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]
//! ```
//!
//! A crate that has kernels in a module beside its `main` needs no such line.
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
