//! Bulk copies between global and shared memory (`cp.async.bulk`, `sm_90` and later): one thread starts a copy of any number of bytes
//! that is a multiple of 16.
//!
//! - A [`load`] tells a [`Mbarrier`] how many bytes it has copied. Threads that have waited for the barrier's phase may read them.
//! - A [`store`] belongs to a group of its thread: [`commit`] ends the group, [`wait_read`] waits until shared memory may be overwritten, and
//!   [`wait`] until global memory is written. Shared memory must exist until then: the thread waits before it ends.
//!
//! Copies use another path to memory than loads and stores do, the *asynchronous proxy*. What ordinary stores have written to shared
//! memory, a copy sees only behind a [`fence`], by the thread that has written, before the barrier of the block, or by the thread that
//! starts the copy, after it.
//!
//! The emulator executes a copy as late as it can, and reports accesses before the wait, missing fences, and sizes and addresses that
//! are no multiples of 16 bytes.
//!
#![doc = include_str!("examples/bulk.md")]

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

use super::mbarrier::Mbarrier;
use super::{AnyIndex, Element, Global, GlobalMut, Shared};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread as emulated;

/// Starts a copy of `from[source..source + count]` to the elements `index … index + count − 1` of `to`. The bytes count for the phase of
/// `barrier` that runs.
///
/// *Safety*: the addresses of the first elements and the size are multiples of 16 bytes.
///
#[doc = include_str!("examples/bulk.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn load<T: Element>(
    to: Shared<T>,
    index: impl AnyIndex,
    from: Global<T>,
    source: impl AnyIndex,
    count: u32,
    barrier: Mbarrier,
) {
    let (index, source) = (index.narrow(), source.wide());
    target! {
        // SAFETY: both ranges are in bounds, as the launcher's caller promises, and aligned, as the *Safety* section asks.
        nvptx => unsafe {
            asm!("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}], {}, [{}];",
                 in(reg32) to.address(index), in(reg64) from.address(source), in(reg32) count * size_of::<T>() as u32,
                 in(reg32) barrier.address(), options(nostack, preserves_flags));
        },
        emulated => {
            let (to, source) = (to.chunk(index, count), from.chunk(source, count as usize));
            emulated::current().load_bulk(to, source, barrier.address());
        },
    }
}

/// Starts a copy of the elements `index … index + count − 1` of `from` to `to[target..target + count]`.
///
/// *Safety*: the addresses of the first elements and the size are multiples of 16 bytes.
///
#[doc = include_str!("examples/bulk.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn store<T: Element>(to: GlobalMut<T>, target: impl AnyIndex, from: Shared<T>, index: impl AnyIndex, count: u32) {
    let (index, target) = (index.narrow(), target.wide());
    target! {
        // SAFETY: both ranges are in bounds, as the launcher's caller promises, and aligned, as the *Safety* section asks.
        nvptx => unsafe {
            asm!("cp.async.bulk.global.shared::cta.bulk_group [{}], [{}], {};",
                 in(reg64) to.address(target), in(reg32) from.address(index), in(reg32) count * size_of::<T>() as u32,
                 options(nostack, preserves_flags));
        },
        emulated => {
            let (from, target) = (from.chunk(index, count), to.chunk(target, count as usize));
            emulated::current().store_bulk(from, target);
        },
    }
}

/// Combines the stores that this thread has started since the last call into a group (`cp.async.bulk.commit_group`).
///
#[doc = include_str!("examples/bulk.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit() {
    target! {
        // SAFETY: the instruction has no precondition.
        nvptx => unsafe { asm!("cp.async.bulk.commit_group;", options(nostack, preserves_flags)) },
        emulated => emulated::current().commit_stores(),
    }
}

/// Waits until at most the last `PENDING` groups of this thread may still read shared memory (`cp.async.bulk.wait_group.read`).
///
#[doc = include_str!("examples/bulk.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_read<const PENDING: u32>() {
    target! {
        // SAFETY: the instruction has no precondition.
        nvptx => unsafe {
            asm!("cp.async.bulk.wait_group.read {};", const PENDING, options(nostack, preserves_flags));
        },
        emulated => emulated::current().wait_for_stores(PENDING as usize, false),
    }
}

/// Waits until at most the last `PENDING` groups of this thread are incomplete (`cp.async.bulk.wait_group`).
///
#[doc = include_str!("examples/bulk.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait<const PENDING: u32>() {
    target! {
        // SAFETY: the instruction has no precondition.
        nvptx => unsafe { asm!("cp.async.bulk.wait_group {};", const PENDING, options(nostack, preserves_flags)) },
        emulated => emulated::current().wait_for_stores(PENDING as usize, true),
    }
}

/// Orders ordinary accesses to shared memory that this thread knows of before copies, and products of warp groups, that follow
/// (`fence.proxy.async`).
///
#[doc = include_str!("examples/bulk.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence() {
    target! {
        // SAFETY: a fence has no precondition.
        nvptx => unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack, preserves_flags)) },
        emulated => emulated::current().fence_async(false),
    }
}
