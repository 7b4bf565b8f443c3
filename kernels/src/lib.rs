//! The device code of warpkov.
//!
//! This crate compiles twice. For `nvptx64-nvidia-cuda` it is a PTX module: the host crate's build script does that. For the
//! host it is an ordinary library: the same kernels run under the [emulator](warpkov_device::emulator), and each kernel's name is its typed launcher,
//! generic over the [`Device`](warpkov_device::launch::Device) it runs on.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`lessons`] | one small kernel per primitive of the device library |
//! | [`hmm`] | kernels for hidden Markov models |
//! | [`mdp`] | kernels for Markov decision processes |
//! | [`pomdp`] | kernels for partially observable ones |
//! | [`primitives`] | kernels that every model class uses: the prefix sum |
//!
//! What kernels are written with is the crate [`warpkov_device`].
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

pub mod hmm;
pub mod lessons;
pub mod mdp;
pub mod pomdp;
pub mod primitives;
