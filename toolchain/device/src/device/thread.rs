//! Indices of a thread, barriers and fences.
//!
//! A launch runs a *grid* of *blocks* of up to 1024 *threads*. Every thread runs the same function and derives its part
//! of the work from its indices: `thread_idx` within the block and `block_idx` within the grid. Both have three
//! dimensions; x varies fastest. Each 32 consecutive threads of a block form a [warp](super::warp).

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
    /// The thread's index in its block, in x: 0 … `block_dim_x() − 1`.
    thread_idx_x = _thread_idx_x, emulated::current().index().x;
    /// The thread's index in its block, in y.
    thread_idx_y = _thread_idx_y, emulated::current().index().y;
    /// The thread's index in its block, in z.
    thread_idx_z = _thread_idx_z, emulated::current().index().z;
    /// The block's index in the grid, in x: 0 … `grid_dim_x() − 1`.
    block_idx_x = _block_idx_x, emulated::current().block().index.x;
    /// The block's index in the grid, in y.
    block_idx_y = _block_idx_y, emulated::current().block().index.y;
    /// The block's index in the grid, in z.
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

/// The thread's index in a one-dimensional grid: `block_idx_x · block_dim_x + thread_idx_x`.
#[inline(always)]
#[must_use]
pub fn index_1d() -> u64 {
    u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x())
}

/// The thread's linear index in its block; x varies fastest. The warp's index is this index divided by 32.
#[inline(always)]
#[must_use]
pub fn index_in_block() -> u32 {
    target! {
        nvptx => thread_idx_x() + block_dim_x() * (thread_idx_y() + block_dim_y() * thread_idx_z()),
        emulated => emulated::current().index_in_block(),
    }
}

/// Threads of a block: the product of its three dimensions.
#[inline(always)]
#[must_use]
pub fn block_size() -> u32 {
    block_dim_x() * block_dim_y() * block_dim_z()
}

/// Waits until every thread of the block has reached this barrier (`__syncthreads`).
///
/// Writes of the block's threads to shared and global memory before the barrier are visible to all its threads after
/// it. Every thread of the block must reach the same barrier, in the same round of every loop around it: otherwise the
/// behaviour is undefined. If a thread takes another branch, the others may wait forever on a GPU. If it has returned,
/// GPUs since Volta (`sm_70`) go on without it, older ones may hang. The emulator reports both as barrier divergence.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    target! {
        // SAFETY: the function's contract: all threads of the block reach barrier 0 here.
        nvptx => unsafe { nvvm::barrier(0) },
        emulated => {
            emulated::current().barrier(false);
        },
    }
}

/// [`sync_threads`], and returns the number of threads whose `predicate` is true (`__syncthreads_count`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_count(predicate: bool) -> u32 {
    target! {
        // SAFETY: as in `sync_threads`.
        nvptx => unsafe { nvvm::barrier_count(0, predicate) },
        emulated => emulated::current().barrier(predicate),
    }
}

/// [`sync_threads`], and returns whether `predicate` is true for every thread (`__syncthreads_and`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_and(predicate: bool) -> bool {
    target! {
        // SAFETY: as in `sync_threads`.
        nvptx => unsafe { nvvm::barrier_and(0, predicate) },
        emulated => emulated::current().barrier(predicate) == block_size(),
    }
}

/// [`sync_threads`], and returns whether `predicate` is true for at least one thread (`__syncthreads_or`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_or(predicate: bool) -> bool {
    target! {
        // SAFETY: as in `sync_threads`.
        nvptx => unsafe { nvvm::barrier_or(0, predicate) },
        emulated => emulated::current().barrier(predicate) > 0,
    }
}

/// Acquire-release fence at device scope (`__threadfence`): every thread of the GPU observes this thread's writes
/// before the fence ahead of those after it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence() {
    target! {
        // SAFETY: a fence has no precondition.
        nvptx => unsafe { core::arch::asm!("fence.acq_rel.gpu;", options(nostack, preserves_flags)) },
        emulated => emulated::current().fence(super::atomic::Ordering::AcqRel, super::atomic::Scope::Device),
    }
}
