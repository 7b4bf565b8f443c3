//! Who a thread is, and where it waits for others.
//!
//! A launch runs a *grid* of *blocks*, each of up to 1024 *threads*. Every thread runs the same function and tells its
//! own part of the work by its indices: `thread_idx` within the block, `block_idx` within the grid. Both have up to three
//! dimensions, of which x varies fastest. Thirty-two threads that are neighbours in the block form a [warp](super::warp).

#[cfg(target_arch = "nvptx64")]
use super::nvvm;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread as emulated;
#[cfg(target_arch = "nvptx64")]
use core::arch::nvptx;

macro_rules! special_registers {
    ($($(#[$doc:meta])* $name:ident = $intrinsic:ident, $emulated:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name() -> u32 {
            target! {
                // SAFETY: reading a special register has no precondition.
                nvptx => unsafe { nvptx::$intrinsic() },
                emulated => $emulated,
            }
        }
    )*};
}

special_registers! {
    /// This thread's index in its block, in x: 0 … `block_dim_x() − 1`.
    thread_idx_x = _thread_idx_x, emulated::current().index().x;
    /// This thread's index in its block, in y.
    thread_idx_y = _thread_idx_y, emulated::current().index().y;
    /// This thread's index in its block, in z.
    thread_idx_z = _thread_idx_z, emulated::current().index().z;
    /// This block's index in the grid, in x: 0 … `grid_dim_x() − 1`.
    block_idx_x = _block_idx_x, emulated::current().block().index.x;
    /// This block's index in the grid, in y.
    block_idx_y = _block_idx_y, emulated::current().block().index.y;
    /// This block's index in the grid, in z.
    block_idx_z = _block_idx_z, emulated::current().block().index.z;
    /// Threads of a block, in x.
    block_dim_x = _block_dim_x, emulated::current().block().shape.block.x;
    /// Threads of a block, in y.
    block_dim_y = _block_dim_y, emulated::current().block().shape.block.y;
    /// Threads of a block, in z.
    block_dim_z = _block_dim_z, emulated::current().block().shape.block.z;
    /// Blocks of the grid, in x.
    grid_dim_x = _grid_dim_x, emulated::current().block().shape.grid.x;
    /// Blocks of the grid, in y.
    grid_dim_y = _grid_dim_y, emulated::current().block().shape.grid.y;
    /// Blocks of the grid, in z.
    grid_dim_z = _grid_dim_z, emulated::current().block().shape.grid.z;
}

/// This thread's index in a one-dimensional grid: `block_idx_x · block_dim_x + thread_idx_x`.
#[inline(always)]
#[must_use]
pub fn index_1d() -> u64 {
    u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x())
}

/// This thread's index in its block, all dimensions counted, x fastest. Neighbours by this index share a warp.
#[inline(always)]
#[must_use]
pub fn index_in_block() -> u32 {
    thread_idx_x() + block_dim_x() * (thread_idx_y() + block_dim_y() * thread_idx_z())
}

/// Threads of a block, all dimensions counted.
#[inline(always)]
#[must_use]
pub fn block_size() -> u32 {
    block_dim_x() * block_dim_y() * block_dim_z()
}

/// Waits until every thread of the block is here (`__syncthreads`).
///
/// What any of them wrote to shared or global memory before is visible to all of them after. Every thread of the block
/// must come to the same barrier: one that returned early, or took another branch, leaves the others waiting. The emulator
/// reports that as a barrier that diverged.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    target! {
        // SAFETY: barrier 0 takes all threads of the block, as this function's contract asks.
        nvptx => unsafe { nvvm::barrier(0) },
        emulated => {
            emulated::current().barrier(false);
        },
    }
}

/// [`sync_threads`], and the number of threads whose `predicate` is true (`__syncthreads_count`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_count(predicate: bool) -> u32 {
    target! {
        // SAFETY: as in `sync_threads`.
        nvptx => unsafe { nvvm::barrier_count(0, predicate) },
        emulated => emulated::current().barrier(predicate),
    }
}

/// [`sync_threads`], and whether `predicate` is true for every thread (`__syncthreads_and`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_and(predicate: bool) -> bool {
    target! {
        // SAFETY: as in `sync_threads`.
        nvptx => unsafe { nvvm::barrier_and(0, predicate) },
        emulated => emulated::current().barrier(predicate) == block_size(),
    }
}

/// [`sync_threads`], and whether `predicate` is true for some thread (`__syncthreads_or`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_or(predicate: bool) -> bool {
    target! {
        // SAFETY: as in `sync_threads`.
        nvptx => unsafe { nvvm::barrier_or(0, predicate) },
        emulated => emulated::current().barrier(predicate) > 0,
    }
}

/// Orders this thread's writes before the fence ahead of those after it, as seen by every thread of the GPU
/// (`__threadfence`).
#[inline(always)]
pub fn fence() {
    target! {
        // SAFETY: a fence only orders memory accesses.
        nvptx => unsafe { core::arch::asm!("fence.acq_rel.gpu;", options(nostack, preserves_flags)) },
        emulated => core::sync::atomic::fence(core::sync::atomic::Ordering::AcqRel),
    }
}
