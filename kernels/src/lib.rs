//! The device code of warpkov.
//!
//! This crate compiles twice. For `nvptx64-nvidia-cuda` it is a PTX module: `build.rs` of the host crate does that. For
//! the host it is an ordinary library: the same kernels run under the [`emulator`], and each kernel's name is its typed
//! launcher, generic over the [`Device`](launch::Device) it runs on.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`device`] | the device library: threads, shared memory, warps, atomics |
//! | [`lessons`] | one small kernel per primitive of the device library |
//! | [`hmm`] | kernels for hidden Markov models |
//! | [`mdp`] | kernels for Markov decision processes |
//! | [`pomdp`] | kernels for partially observable ones |
//! | [`primitives`] | kernels that every model class uses: the prefix sum |
//! | [`launch`] | how a kernel is launched |
//! | [`emulator`] | how it runs without a GPU |
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, asm_experimental_arch, core_intrinsics, link_llvm_intrinsics, stdarch_nvptx)
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

// `#[kernel]` writes paths that begin with the crate's name, here too.
extern crate self as warpkov_kernels;

pub mod device;
#[cfg(not(target_arch = "nvptx64"))]
pub mod emulator;
pub mod hmm;
#[cfg(not(target_arch = "nvptx64"))]
pub mod launch;
pub mod lessons;
pub mod mdp;
pub mod pomdp;
pub mod primitives;
