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

/// Waits at the named barrier `barrier`, 1 to 15, until `threads` threads have reached it by this function or by
/// [`arrive_barrier`] (`barrier.sync`). The barrier is then ready for the next round.
///
/// All lanes of a warp reach it, or none, so `threads` is a multiple of 32. It orders the memory accesses of these threads, as
/// [`sync_threads`] does for the whole block. The emulator reports barriers that too few threads reach.
///
/// ```
/// use warpkov_device::device::{GlobalMut, kernel, thread};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
/// use warpkov_device::shared_array;
///
/// /// The first warp produces a number for the second one, and goes on at once. The third warp does not take part.
/// #[kernel]
/// fn pass(out: GlobalMut<u32>) {
///     let cells = shared_array!(cells: u32; 32);
///     let t = thread::thread_idx_x();
///     if t < 32 {
///         cells.set(t, t * t);
///         thread::arrive_barrier(1, 64);
///     } else if t < 64 {
///         thread::sync_barrier(1, 64);
///         out.set(t as usize - 32, cells.get(63 - t));
///     }
/// }
///
/// let device = Emulator::default();
/// let mut out = device.zeros(32)?;
/// // SAFETY: `out` has 32 elements.
/// unsafe { pass(&device, Shape::new(1, 96), &mut out)? };
/// assert_eq!(device.to_vec(&out)?[..3], [961_u32, 900, 841]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_barrier(barrier: u32, threads: u32) {
    target! {
        // SAFETY: the function's contract: `threads` threads reach the barrier.
        nvptx => unsafe { nvvm::barrier_some(barrier, threads) },
        emulated => emulated::current().named_barrier(barrier, threads, true),
    }
}

/// Arrives at the named barrier of [`sync_barrier`], and does not wait (`barrier.arrive`): what the thread has written is
/// visible to those that wait.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn arrive_barrier(barrier: u32, threads: u32) {
    target! {
        // SAFETY: the function's contract: `threads` threads reach the barrier.
        nvptx => unsafe { nvvm::barrier_arrive(barrier, threads) },
        emulated => emulated::current().named_barrier(barrier, threads, false),
    }
}

/// Suspends the thread for about `nanoseconds`, at most a millisecond, between two looks at what it waits for. It may
/// continue at once, as it does under emulation, or after twice the time.
#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("nanosleep.u32 {};", in(reg32) nanoseconds, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = nanoseconds;
}

macro_rules! clocks {
    ($($(#[$doc:meta])* $name:ident: $ty:ty, $class:ident = $instruction:literal, $emulated:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name() -> $ty {
            target! {
                nvptx => {
                    let now: $ty;
                    // SAFETY: the instruction reads a special register.
                    unsafe { core::arch::asm!($instruction, out($class) now, options(nomem, nostack, preserves_flags)) };
                    now
                },
                emulated => $emulated,
            }
        }
    )*};
}

clocks! {
    /// Cycles of the multiprocessor, modulo 2³². The difference of two calls of a thread is the time between them. Under
    /// emulation, the steps of the thread.
    clock: u32, reg32 = "mov.u32 {}, %clock;", emulated::current().time() as u32;
    /// Cycles of the multiprocessor, as [`clock`], in 64 bits.
    ///
    /// ```
    /// use warpkov_device::device::{GlobalMut, kernel, thread};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// Cycles and nanoseconds of a hundred reads.
    /// #[kernel]
    /// fn measure(x: GlobalMut<u64>) {
    ///     let (start, begun) = (thread::clock64(), thread::global_timer());
    ///     for _ in 0..100 {
    ///         let _ = x.get(0);
    ///     }
    ///     x.set(0, thread::clock64() - start);
    ///     x.set(1, thread::global_timer() - begun);
    /// }
    ///
    /// let device = Emulator::default();
    /// let mut x = device.zeros(2)?;
    /// // SAFETY: `x` has two elements.
    /// unsafe { measure(&device, Shape::new(1, 1), &mut x)? };
    /// assert!(device.to_vec(&x)?[0] >= 100);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    clock64: u64, reg64 = "mov.u64 {}, %clock64;", emulated::current().time();
    /// Nanoseconds of a clock that all multiprocessors share, in steps of up to a microsecond or more. Under emulation, those
    /// of the host since 1970.
    global_timer: u64, reg64 = "mov.u64 {}, %globaltimer;", {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    };
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
