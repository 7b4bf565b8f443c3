#![doc = include_str!("../README.md")]
//!
//! This crate compiles twice. The host crate's build script compiles it for `nvptx64-nvidia-cuda` into one PTX module.
//! Cargo compiles it for the host as an ordinary library: the same kernels then run under the
//! [emulator](warpkov_device::emulator), and each kernel's name is its typed launcher, generic over the
//! [`Device`](warpkov_device::launch::Device) that runs it.
//!
//! | module | contents |
//! | --- | --- |
//! | [`lessons`] | one small kernel per primitive of the device library |
//! | [`library`] | kernels that test every function of the device library |
//! | [`hopper`] | kernels for GPUs of compute capability 9.0 and newer |
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
//! - *Shared memory* and *Barriers*: per block. A word of static shared memory is an element, of 4 or
//!   8 bytes; the barriers are those that
//!   one thread passes.
//! - *Deterministic*: whether equal launches give equal bits.
//! - *Valid result in*: the buffers that hold the result, after the launch.
//! - *Safety*: a table of the parameters; safe kernels have none, or one without the heading. The caller guarantees that each buffer has at least the stated shape, that
//!   each value is in its range, and that every buffer starts at a multiple of 16 bytes, as device allocations do. A
//!   buffer that a kernel writes overlaps no other buffer unless the table permits it. The tables of structs stand at
//!   the structs. "models × …" means that the part of model m + 1 follows that of model m.
//! - *Launch*: what a block of the grid has, where *Thread mapping* does not say it.
//!
//! The contract in the attribute, `requires(…)`, says what the launcher compares before a launch: lengths of buffers,
//! grid, block and dynamic shared memory. A kernel whose contract names no grid covers all elements with any number of
//! blocks (grid-stride loop), or its *Thread mapping* says what a block has. Structs of parameters have contracts of
//! their own. The ranges of values in buffers are up to the caller.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

pub mod hmm;
pub mod hopper;
pub mod lessons;
pub mod library;
pub mod mdp;
pub mod pomdp;
pub mod primitives;
