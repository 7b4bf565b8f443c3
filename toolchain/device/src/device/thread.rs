//! Indices of a thread, barriers and fences.
//!
//! A launch runs a *grid* of *blocks* of up to 1024 *threads*. Every thread runs the same function and derives its part
//! of the work from its indices: `thread_idx` within the block and `block_idx` within the grid. Both have three
//! dimensions; x varies fastest. Each 32 consecutive threads of a block form a [warp](super::warp).
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel]
//! fn squares(n: u32, out: GlobalMut<u64>) {
//!     let i = thread::index_1d();
//!     if i < n.into() {
//!         out.set(i, i * i);
//!     }
//! }
//!
//! # let device = Emulator::default();
//! # let mut out = device.zeros(100)?;
//! // SAFETY: `out` has n elements.
//! unsafe { squares(&device, Shape::cover(100, 32), 100, &mut out)? };
//! assert_eq!(device.to_vec(&out)?[98..], [9604, 9801]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

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
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn indices(out: PerThread<u32>) {
    ///     out.set(thread::thread_idx_x());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// indices(&device, Shape::new(2, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[30..34], [30, 31, 0, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    thread_idx_x = _thread_idx_x, emulated::current().index().x;
    /// The thread's index in its block, in y.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn indices(out: PerThread<u32>) {
    ///     out.set(thread::thread_idx_y());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// indices(&device, Shape::new(1, Dim3 { x: 32, y: 2, z: 1 }), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[30..34], [0, 0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    thread_idx_y = _thread_idx_y, emulated::current().index().y;
    /// The thread's index in its block, in z.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn indices(out: PerThread<u32>) {
    ///     out.set(thread::thread_idx_z());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// indices(&device, Shape::new(1, Dim3 { x: 32, y: 1, z: 2 }), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[30..34], [0, 0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    thread_idx_z = _thread_idx_z, emulated::current().index().z;
    /// The block's index in the grid, in x: 0 … `grid_dim_x() − 1`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn blocks(out: PerThread<u32>) {
    ///     out.set(thread::block_idx_x());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// blocks(&device, Shape::new(2, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[30..34], [0, 0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    block_idx_x = _block_idx_x, emulated::current().block().index.x;
    /// The block's index in the grid, in y.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn blocks(out: PerThread<u32>) {
    ///     out.set(thread::block_idx_y());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// blocks(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[30..34], [0, 0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    block_idx_y = _block_idx_y, emulated::current().block().index.y;
    /// The block's index in the grid, in z.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn blocks(out: PerThread<u32>) {
    ///     out.set(thread::block_idx_z());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// blocks(&device, Shape::new(Dim3 { x: 1, y: 1, z: 2 }, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[30..34], [0, 0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    block_idx_z = _block_idx_z, emulated::current().block().index.z;
    /// Threads of a block, in x.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn threads(out: PerThread<u32>) {
    ///     out.set(thread::block_dim_x());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// threads(&device, Shape::new(1, Dim3 { x: 16, y: 4, z: 1 }), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [16; 64]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    block_dim_x = _block_dim_x, emulated::current().block().shape.block.x;
    /// Threads of a block, in y.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn threads(out: PerThread<u32>) {
    ///     out.set(thread::block_dim_y());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// threads(&device, Shape::new(1, Dim3 { x: 16, y: 4, z: 1 }), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [4; 64]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    block_dim_y = _block_dim_y, emulated::current().block().shape.block.y;
    /// Threads of a block, in z.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn threads(out: PerThread<u32>) {
    ///     out.set(thread::block_dim_z());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// threads(&device, Shape::new(1, Dim3 { x: 16, y: 1, z: 4 }), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [4; 64]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    block_dim_z = _block_dim_z, emulated::current().block().shape.block.z;
    /// Blocks of the grid, in x.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn blocks(out: PerThread<u32>) {
    ///     out.set(thread::grid_dim_x());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// blocks(&device, Shape::new(2, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [2; 64]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    grid_dim_x = _grid_dim_x, emulated::current().block().shape.grid.x;
    /// Blocks of the grid, in y.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn blocks(out: PerThread<u32>) {
    ///     out.set(thread::grid_dim_y());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// blocks(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [2; 64]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    grid_dim_y = _grid_dim_y, emulated::current().block().shape.grid.y;
    /// Blocks of the grid, in z.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn blocks(out: PerThread<u32>) {
    ///     out.set(thread::grid_dim_z());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(64)?;
    /// blocks(&device, Shape::new(Dim3 { x: 1, y: 1, z: 2 }, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [2; 64]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    grid_dim_z = _grid_dim_z, emulated::current().block().shape.grid.z;
}

/// The thread's index in a one-dimensional grid: `block_idx_x · block_dim_x + thread_idx_x`.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn indices(out: PerThread<u64>) {
///     out.set(thread::index_1d());
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// indices(&device, Shape::new(2, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[30..34], [30, 31, 32, 33]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn index_1d() -> u64 {
    u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x())
}

/// The thread's linear index in its block; x varies fastest. The warp's index is this index divided by 32.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn indices(out: PerThread<u32>) {
///     out.set(thread::index_in_block());
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// indices(&device, Shape::new(2, Dim3 { x: 8, y: 4, z: 1 }), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[30..34], [30, 31, 0, 1]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn index_in_block() -> u32 {
    target! {
        nvptx => thread_idx_x() + block_dim_x() * (thread_idx_y() + block_dim_y() * thread_idx_z()),
        emulated => emulated::current().index_in_block(),
    }
}

/// Threads of a block: the product of its three dimensions.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn sizes(out: PerThread<u32>) {
///     out.set(thread::block_size());
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// sizes(&device, Shape::new(1, Dim3 { x: 8, y: 4, z: 2 }), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [64; 64]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn reverse(out: GlobalMut<u32>) {
///     let tile = shared_array!(tile: u32; 64);
///     let t = thread::thread_idx_x();
///     tile.set(t, t);
///     thread::sync_threads();
///     out.set(t, tile.get(63 - t));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// // SAFETY: `out` has one element per thread.
/// unsafe { reverse(&device, Shape::new(1, 64), &mut out)? };
/// assert_eq!(device.to_vec(&out)?[..3], [63_u32, 62, 61]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn vote(out: PerThread<u32>) {
///     out.set(thread::sync_threads_count(thread::thread_idx_x() < 40));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// vote(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [40; 64]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn vote(out: PerThread<u32>) {
///     out.set(u32::from(thread::sync_threads_and(thread::thread_idx_x() < 40)));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// vote(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [0; 64]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn vote(out: PerThread<u32>) {
///     out.set(u32::from(thread::sync_threads_or(thread::thread_idx_x() == 40)));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// vote(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [1; 64]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn pass(out: GlobalMut<u32>) {
///     let cells = shared_array!(cells: u32; 32);
///     let t = thread::thread_idx_x();
///     if t < 32 {
///         cells.set(t, t + 100);
///         thread::arrive_barrier(1, 64);
///     } else {
///         thread::sync_barrier(1, 64);
///         out.set(t as usize - 32, cells.get(63 - t));
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// // SAFETY: `out` has 32 elements.
/// unsafe { pass(&device, Shape::new(1, 64), &mut out)? };
/// assert_eq!(device.to_vec(&out)?[..2], [131_u32, 130]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::{Ordering, Scope};
/// #[kernel]
/// fn wait(flag: GlobalMut<u32>) {
///     if thread::block_idx_x() == 0 {
///         while atomic::load((flag, 0), Ordering::Relaxed, Scope::Device) == 0 {
///             thread::nanosleep(100);
///         }
///         atomic::add((flag, 0), 10);
///     } else {
///         atomic::add((flag, 0), 1);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut flag = device.zeros(1)?;
/// // SAFETY: `flag` has one element.
/// unsafe { wait(&device, Shape::new(2, 1), &mut flag)? };
/// assert_eq!(device.to_vec(&flag)?, [11_u32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn measure(x: GlobalMut<u32>) {
    ///     let start = thread::clock();
    ///     x.set(0, x.get(1));
    ///     x.set(0, thread::clock().wrapping_sub(start));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut x = device.zeros(2)?;
    /// // SAFETY: `x` has two elements.
    /// unsafe { measure(&device, Shape::new(1, 1), &mut x)? };
    /// assert!(device.to_vec(&x)?[0] >= 2);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
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
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn now(out: PerThread<u64>) {
    ///     out.set(thread::global_timer());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// now(&device, Shape::new(1, 32), &mut out)?;
    /// let seconds = device.to_vec(&out)?[0] / 1_000_000_000;
    /// assert!(seconds > 1_700_000_000, "under emulation, since 1970");
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    global_timer: u64, reg64 = "mov.u64 {}, %globaltimer;", {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    };
}

/// Acquire-release fence at device scope (`__threadfence`): every thread of the GPU observes this thread's writes
/// before the fence ahead of those after it.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::{Ordering, Scope};
/// #[kernel]
/// fn publish(data: GlobalMut<u32>, flag: GlobalMut<u32>) {
///     if thread::block_idx_x() == 1 {
///         data.set(0, 7);
///         thread::fence();
///         atomic::store((flag, 0), 1, Ordering::Relaxed, Scope::Device);
///     } else {
///         while atomic::load((flag, 0), Ordering::Relaxed, Scope::Device) == 0 {}
///         thread::fence();
///         data.set(1, data.get(0) + 1);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let (mut data, mut flag) = (device.zeros(2)?, device.zeros(1)?);
/// // SAFETY: `data` has two elements, and `flag` one.
/// unsafe { publish(&device, Shape::new(2, 1), &mut data, &mut flag)? };
/// assert_eq!(device.to_vec(&data)?, [7_u32, 8]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence() {
    target! {
        // SAFETY: a fence has no precondition.
        nvptx => unsafe { core::arch::asm!("fence.acq_rel.gpu;", options(nostack, preserves_flags)) },
        emulated => emulated::current().fence(super::atomic::Ordering::AcqRel, super::atomic::Scope::Device),
    }
}
