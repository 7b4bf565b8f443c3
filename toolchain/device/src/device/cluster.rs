//! Clusters: blocks that run at the same time and access each other's shared memory (*distributed shared memory*, `sm_90` and
//! later).
//!
//! A kernel declares the blocks of a cluster, `#[kernel(cluster = 4)]`; they are consecutive in x. The launcher compares: the grid is
//! a multiple of the cluster. Between two calls of [`sync`], a block may access the shared memory of the others through [`map`]. The
//! first call shows that all blocks have begun. The last one keeps each block, and its shared memory, until the others have done with
//! it. The emulator reports accesses without either, and [races](crate::emulator#races).
//!
#![doc = include_str!("examples/cluster.md")]

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;
use core::marker::PhantomData;

#[cfg(target_arch = "nvptx64")]
use super::nvvm;
use super::{AnyIndex, Element, Shared};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread as emulated;

macro_rules! special_registers {
    ($($(#[$doc:meta])* $name:ident = $register:literal, $emulated:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name() -> u32 {
            target! {
                nvptx => {
                    let value: u32;
                    // SAFETY: reading a special register has no precondition.
                    unsafe {
                        asm!(concat!("mov.u32 {}, ", $register, ";"), out(reg32) value,
                             options(pure, nomem, nostack, preserves_flags));
                    }
                    value
                },
                emulated => $emulated,
            }
        }
    )*};
}

special_registers! {
    /// The block's rank in its cluster: 0 … `size() − 1`.
    ///
    #[doc = include_str!("examples/cluster.md")]
    rank = "%cluster_ctarank", emulated::current().cluster_rank();
    /// Blocks of the cluster; 1 in a launch without clusters.
    ///
    #[doc = include_str!("examples/cluster.md")]
    size = "%cluster_nctarank", emulated::current().cluster_size();
}

/// Waits until every thread of the cluster has reached this barrier (`barrier.cluster`).
///
/// Writes of all its threads before it are visible to all of them after it. Every thread of the cluster must reach the same barrier,
/// in the same round of every loop around it, as for [`sync_threads`](super::thread::sync_threads).
///
#[doc = include_str!("examples/cluster.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync() {
    target! {
        // SAFETY: the function's contract: all threads of the cluster reach the barrier here, and so all lanes of each warp.
        nvptx => unsafe {
            nvvm::cluster_arrive();
            nvvm::cluster_wait();
        },
        emulated => emulated::current().sync_cluster(),
    }
}

/// The array `array` in the shared memory of the block of rank `rank` (`mapa`).
///
#[doc = include_str!("examples/cluster.md")]
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn map<T: Element>(array: Shared<T>, rank: u32) -> RemoteShared<T> {
    let address;
    target! {
        // SAFETY: the instruction computes an address.
        nvptx => unsafe {
            asm!("mapa.shared::cluster.u32 {}, {}, {};", out(reg32) address, in(reg32) array.start(), in(reg32) rank,
                 options(pure, nomem, nostack, preserves_flags));
        },
        emulated => address = emulated::current().map_shared(array.start(), rank),
    }
    RemoteShared {
        address,
        len: array.len(),
        #[cfg(not(target_arch = "nvptx64"))]
        rank,
        element: PhantomData,
    }
}

/// An array in the shared memory of a block of the cluster. See [`map`].
///
#[doc = include_str!("examples/cluster.md")]
#[derive(Clone, Copy)]
pub struct RemoteShared<T> {
    /// The address in the cluster's shared memory; under emulation, in the block's.
    address: u32,
    len: u32,
    #[cfg(not(target_arch = "nvptx64"))]
    rank: u32,
    element: PhantomData<T>,
}

impl<T: Element> RemoteShared<T> {
    const BYTES: u32 = size_of::<T>() as u32;

    /// Number of elements.
    ///
    #[doc = include_str!("examples/cluster.md")]
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> u32 {
        self.len
    }

    /// Whether the array has no elements.
    ///
    #[doc = include_str!("examples/cluster.md")]
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The address of the element at `index`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) fn address(self, index: u32) -> u32 {
        #[cfg(not(target_arch = "nvptx64"))]
        if index >= self.len {
            emulated::current().remote_out_of_bounds(self.rank, self.address, Self::BYTES, index, self.len);
        }
        self.address + index * Self::BYTES
    }

    /// The rank of the block.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(super) fn rank(self) -> u32 {
        self.rank
    }

    /// The element at `index`.
    ///
    #[doc = include_str!("examples/cluster.md")]
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: impl AnyIndex) -> T {
        let index = index.narrow();
        let address = self.address(index);
        target! {
            nvptx => {
                let (wide, narrow): (u64, u32);
                // SAFETY: `index` is in bounds, as the launcher's caller promises and the emulator checks.
                unsafe {
                    match Self::BYTES {
                        8 => {
                            asm!("ld.shared::cluster.b64 {}, [{}];", out(reg64) wide, in(reg32) address,
                                 options(readonly, nostack, preserves_flags));
                            return T::from_raw(wide);
                        }
                        4 => asm!("ld.shared::cluster.b32 {}, [{}];", out(reg32) narrow, in(reg32) address,
                                  options(readonly, nostack, preserves_flags)),
                        2 => asm!("ld.shared::cluster.u16 {}, [{}];", out(reg32) narrow, in(reg32) address,
                                  options(readonly, nostack, preserves_flags)),
                        _ => asm!("ld.shared::cluster.u8 {}, [{}];", out(reg32) narrow, in(reg32) address,
                                  options(readonly, nostack, preserves_flags)),
                    }
                }
                T::from_raw(narrow as u64)
            },
            emulated => T::from_raw(emulated::current().load_remote(self.rank, address, Self::BYTES)),
        }
    }

    /// Writes the element at `index`.
    ///
    #[doc = include_str!("examples/cluster.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(self, index: impl AnyIndex, value: T) {
        let index = index.narrow();
        let (address, raw) = (self.address(index), value.to_raw());
        target! {
            // SAFETY: `index` is in bounds, as the launcher's caller promises and the emulator checks.
            nvptx => unsafe {
                match Self::BYTES {
                    8 => asm!("st.shared::cluster.b64 [{}], {};", in(reg32) address, in(reg64) raw,
                              options(nostack, preserves_flags)),
                    4 => asm!("st.shared::cluster.b32 [{}], {};", in(reg32) address, in(reg32) raw as u32,
                              options(nostack, preserves_flags)),
                    2 => asm!("st.shared::cluster.b16 [{}], {};", in(reg32) address, in(reg16) raw as u16,
                              options(nostack, preserves_flags)),
                    _ => asm!("st.shared::cluster.b8 [{}], {};", in(reg32) address, in(reg16) raw as u16,
                              options(nostack, preserves_flags)),
                }
            },
            emulated => emulated::current().store_remote(self.rank, address, Self::BYTES, raw),
        }
    }
}
