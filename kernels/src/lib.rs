//! The device code of warpkov.
//!
//! This crate compiles twice. The host crate's build script compiles it for `nvptx64-nvidia-cuda` into one PTX module.
//! Cargo compiles it for the host as an ordinary library: the same kernels then run under the
//! [emulator](warpkov_device::emulator), and each kernel's name is its typed launcher, generic over the
//! [`Device`](warpkov_device::launch::Device) that runs it.
//!
//! | module | contents |
//! | --- | --- |
//! | [`lessons`] | one small kernel per primitive of the device library |
//! | [`hmm`] | kernels for hidden Markov models |
//! | [`mdp`] | kernels for Markov decision processes |
//! | [`pomdp`] | kernels for partially observable Markov decision processes |
//! | [`primitives`] | kernels that all model classes share: prefix sum, copy, vector operations |
//!
//! The crate [`warpkov_device`] is the device library: threads, warps, shared memory, atomics, tensor cores.
//!
//! # How a kernel is documented
//!
//! - *Mathematics*: the formula that the kernel evaluates. Where all kernels of a file share it, it stands in the
//!   file's head.
//! - *Thread mapping*: the work of a thread, a warp and a block.
//! - *Shared memory* and *Barriers*: per block; a word is 8 bytes. "Barriers" counts `__syncthreads` on the path of one
//!   thread.
//! - *Deterministic*: whether equal launches give equal bits.
//! - *Valid result in*: the buffers, or the lanes, that hold the result.
//! - *Safety*: a table of the parameters with the shape and the range that the caller guarantees. A shape in brackets
//!   names elements per model: model m's part follows that of model m − 1. The tables of structs stand at the structs.
//! - *Launch*: grid, block and dynamic shared memory. "Any grid" means that the kernel loops over the rest (grid
//!   stride).
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

pub mod hmm;
pub mod lessons;
pub mod mdp;
pub mod pomdp;
pub mod primitives;
