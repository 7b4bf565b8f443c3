//! Barriers in shared memory that count arrivals and bytes (`mbarrier`, `sm_90` and later).
//!
//! A [`Mbarrier`] has *phases*, numbered from 0. A phase ends when as many threads have arrived as [`init`](Mbarrier::init) says, and all
//! bytes have come that [`arrive_expecting`](Mbarrier::arrive_expecting) announced, by [bulk copies](super::bulk) that name the barrier.
//! The next phase begins at once. A thread waits for a phase by its *parity*: 0 for the phases 0, 2, 4 …, 1 for the others. So it must
//! not lag by two phases: [`wait`](Mbarrier::wait) returns if the phase that runs has the other parity.
//!
//! What a thread has written before it arrives, and what the copies have brought, is visible to each thread that has waited for the
//! phase.
//!
//! One thread initialises a barrier and calls [`fence_init`], all meet at [`sync_threads`](super::thread::sync_threads), and then the
//! barrier is in use. The emulator reports what is missing of this, phases that never end, bytes that nobody has announced, and reads
//! before the wait.
//!
#![doc = include_str!("examples/bulk.md")]

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

use super::{AnyIndex, Shared};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread as emulated;

/// A barrier: an element of an array of 8-byte words in shared memory. Other accesses to the element are races.
///
#[doc = include_str!("examples/bulk.md")]
#[derive(Clone, Copy)]
pub struct Mbarrier {
    address: u32,
}

impl Mbarrier {
    /// The barrier in the element `index` of `array`.
    ///
    #[doc = include_str!("examples/bulk.md")]
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at(array: Shared<u64>, index: impl AnyIndex) -> Self {
        let index = index.narrow();
        Self { address: array.address(index) }
    }

    /// Its byte address in shared memory.
    #[inline(always)]
    pub(super) fn address(self) -> u32 {
        self.address
    }

    /// Begins phase 0. Each phase waits for `arrivals` calls of [`arrive`](Self::arrive) or
    /// [`arrive_expecting`](Self::arrive_expecting), 1 to 2²⁰ − 1. One thread calls this once, and [`fence_init`] after it.
    ///
    #[doc = include_str!("examples/bulk.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn init(self, arrivals: u32) {
        target! {
            // SAFETY: the barrier is an aligned word of shared memory.
            nvptx => unsafe {
                asm!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) self.address, in(reg32) arrivals,
                     options(nostack, preserves_flags));
            },
            emulated => emulated::current().init_phases(self.address, arrivals),
        }
    }

    /// Arrives in the phase that runs.
    ///
    #[doc = include_str!("examples/bulk.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive(self) {
        target! {
            // SAFETY: the barrier is an aligned word of shared memory.
            nvptx => unsafe {
                asm!("mbarrier.arrive.shared::cta.b64 _, [{}];", in(reg32) self.address, options(nostack, preserves_flags));
            },
            emulated => emulated::current().arrive_in_phase(self.address, 0),
        }
    }

    /// Arrives in the phase that runs of the barrier in the same place of block `rank` of the [cluster](super::cluster). What this thread has
    /// read before, by itself or by [products](super::wgmma) that it has waited for, a thread of that block that has waited by
    /// [`wait_for_blocks`](Self::wait_for_blocks) may let copies overwrite. What this thread has written is not ordered by it: see
    /// [`cluster::sync`](super::cluster::sync).
    ///
    /// *Safety*: the block has begun, its barrier is initialised, and it has not ended: see [`cluster::sync`](super::cluster::sync).
    ///
    #[doc = include_str!("examples/multicast.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive_at(self, rank: u32) {
        target! {
            // SAFETY: the barrier is an aligned word of shared memory, which exists, as the *Safety* section asks.
            nvptx => unsafe {
                asm!("{{ .reg .b32 other; mapa.shared::cluster.u32 other, {}, {}; mbarrier.arrive.shared::cluster.b64 _, \
                      [other]; }}", in(reg32) self.address, in(reg32) rank, options(nostack, preserves_flags));
            },
            emulated => emulated::current().arrive_in_phase_of(rank, self.address),
        }
    }

    /// Arrives, and announces `bytes` bytes, for which the phase waits: those of the copies that name the barrier.
    ///
    #[doc = include_str!("examples/bulk.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive_expecting(self, bytes: u32) {
        target! {
            // SAFETY: the barrier is an aligned word of shared memory.
            nvptx => unsafe {
                asm!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [{}], {};", in(reg32) self.address, in(reg32) bytes,
                     options(nostack, preserves_flags));
            },
            emulated => emulated::current().arrive_in_phase(self.address, bytes),
        }
    }

    /// Whether the last phase of parity `parity` has ended; at first, phase −1 has. Waits for it for a short time.
    ///
    #[doc = include_str!("examples/bulk.md")]
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn try_wait(self, parity: u32) -> bool {
        target! {
            nvptx => {
                let over: u32;
                // SAFETY: the barrier is an aligned word of shared memory.
                unsafe {
                    asm!("{{ .reg .pred over; mbarrier.try_wait.parity.shared::cta.b64 over, [{}], {}; selp.b32 {}, 1, 0, over; }}",
                         in(reg32) self.address, in(reg32) parity, out(reg32) over, options(nostack, preserves_flags));
                }
                over != 0
            },
            emulated => emulated::current().try_wait_for_phase(self.address, parity),
        }
    }

    /// Waits until the phase of parity `parity` has ended.
    ///
    #[doc = include_str!("examples/bulk.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait(self, parity: u32) {
        target! {
            nvptx => while !self.try_wait(parity) {},
            emulated => emulated::current().wait_for_phase(self.address, parity, false),
        }
    }

    /// Waits as [`wait`](Self::wait), also for what threads of other blocks of the cluster have read before they have
    /// [arrived](Self::arrive_at) (`.acquire.cluster`).
    ///
    #[doc = include_str!("examples/multicast.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait_for_blocks(self, parity: u32) {
        target! {
            nvptx => {
                let mut over = 0;
                while over == 0 {
                    // SAFETY: the barrier is an aligned word of shared memory.
                    unsafe {
                        asm!("{{ .reg .pred over; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [{}], {}; \
                              selp.b32 {}, 1, 0, over; }}",
                             in(reg32) self.address, in(reg32) parity, out(reg32) over, options(nostack, preserves_flags));
                    }
                }
            },
            emulated => emulated::current().wait_for_phase(self.address, parity, true),
        }
    }
}

/// Makes barriers that this thread has initialised known to copies and to other blocks of the cluster
/// (`fence.mbarrier_init`). Other threads need a barrier of the block, or of the cluster, behind it.
///
#[doc = include_str!("examples/bulk.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence_init() {
    target! {
        // SAFETY: a fence has no precondition.
        nvptx => unsafe { asm!("fence.mbarrier_init.release.cluster;", options(nostack, preserves_flags)) },
        emulated => emulated::current().fence_async(true),
    }
}
