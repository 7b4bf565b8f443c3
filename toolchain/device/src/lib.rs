#![doc = include_str!("../README.md")]
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
