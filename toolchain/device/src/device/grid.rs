//! The barrier of a grid, and overlapping launches.
//!
//! # Cooperative launches
//!
//! A kernel with a [`GridGroup`] among its parameters is launched *cooperatively*: all its blocks are on the device at one time,
//! so they can wait for each other. A launch with more blocks than that is an error that gives both numbers;
//! [`Shape::grid_stride`](crate::launch::Shape::grid_stride) takes as many as fit. Only such a kernel has a group, so that no
//! other can call [`GridGroup::sync`].
//!
#![doc = include_str!("examples/grid.md")]
//!
//! # Overlapping launches
//!
//! A grid starts before the previous grid ends (*programmatic dependent launch*, `sm_90` and later).
//!
//! In a sequence of short dependent launches, the end of each grid and the start of the next take much of the time. A
//! launch with [`Shape::overlapping`](crate::launch::Shape::overlapping) starts as soon as every block of the previous
//! grid has called [`launch_dependents`] or ended. Until its call of [`wait`], a kernel may compute indices and load
//! data that no grid in flight writes. *Every* thread calls [`wait`] before it accesses data that the previous grid
//! writes, and before it writes data that the previous grid reads.
//!
//! If each kernel calls [`launch_dependents`] after its own [`wait`], at most two grids are in flight. Before its
//! [`wait`], a kernel may then read the results of all launches except the previous one.
//!
//! Both functions do nothing in a launch without overlap and below `sm_90`. The emulator runs one launch after another,
//! and reports an access before [`wait`] that races with one of the previous launch; of the previous launch's reads of
//! read-only views it knows those after [`launch_dependents`].
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel]
//! fn increment(x: GlobalMut<u32>) {
//!     let t = thread::thread_idx_x() as usize;
//!     grid::wait();
//!     grid::launch_dependents();
//!     x.set(t, x.get(t) + 1);
//! }
//!
//! # let device = Emulator::default();
//! # let mut x = device.zeros(32)?;
//! for _ in 0..3 {
//!     // SAFETY: `x` has one element per thread, and every thread waits before it accesses them.
//!     unsafe { increment(&device, Shape::new(1, 32).overlapping(), &mut x)? };
//! }
//! assert_eq!(device.to_vec(&x)?, [3; 32]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

#[cfg(target_arch = "nvptx64")]
use super::GlobalMut;
#[cfg(target_arch = "nvptx64")]
use super::atomic::{self, AtomicNumber, Ordering, Scope};
#[cfg(target_arch = "nvptx64")]
use super::thread;

/// All threads of a cooperative launch: a parameter of its kernel, for which the launch has no argument.
///
#[doc = include_str!("examples/grid.md")]
#[derive(Clone, Copy)]
pub struct GridGroup {
    /// Blocks that have arrived in this round; the top bit changes from round to round.
    #[cfg(target_arch = "nvptx64")]
    counter: GlobalMut<u32>,
}

impl GridGroup {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(super) fn new(counter: GlobalMut<u32>) -> Self {
        Self { counter }
    }

    #[cfg(not(target_arch = "nvptx64"))]
    pub(super) fn new() -> Self {
        Self {}
    }

    /// Waits until every thread of the grid has reached this barrier.
    ///
    /// Writes of all threads before it are visible to all threads after it. Every thread of the grid must reach the same barrier,
    /// in the same round of every loop around it: otherwise the launch never ends. The emulator reports who waits where.
    ///
    #[doc = include_str!("examples/grid.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn sync(self) {
        target! {
            nvptx => {
                thread::sync_threads();
                if thread::index_in_block() == 0 {
                    const ROUND: u32 = 1 << 31;
                    let blocks = thread::grid_dim_x() * thread::grid_dim_y() * thread::grid_dim_z();
                    let first = thread::block_idx_x() | thread::block_idx_y() | thread::block_idx_z() == 0;
                    // All blocks together add 2³¹: the lower bits are 0 again after each round, also for the next launch.
                    let arrival = if first { ROUND - (blocks - 1) } else { 1 };
                    let before = u32::fetch_add((self.counter, 0), arrival, Ordering::AcqRel, Scope::Device);
                    while (atomic::load((self.counter, 0), Ordering::Acquire, Scope::Device) ^ before) & ROUND == 0 {}
                }
                thread::sync_threads();
            },
            emulated => crate::emulator::thread::current().sync_grid(),
        }
    }
}

/// Waits until all previous grids have ended and their writes are visible (`griddepcontrol.wait`).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn increment(x: GlobalMut<u32>) {
///     let t = thread::thread_idx_x() as usize;
///     grid::wait();
///     x.set(t, x.get(t) + 1);
/// }
///
/// # let device = Emulator::default();
/// # let mut x = device.zeros(32)?;
/// for _ in 0..3 {
///     // SAFETY: `x` has one element per thread, and every thread waits before it accesses them.
///     unsafe { increment(&device, Shape::new(1, 32).overlapping(), &mut x)? };
/// }
/// assert_eq!(device.to_vec(&x)?, [3; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
pub fn wait() {
    #[cfg(all(target_arch = "nvptx64", warpkov_sm = "90"))]
    // SAFETY: the instruction has no precondition. Without the option `nomem`, the compiler moves no memory access
    // across it.
    unsafe {
        core::arch::asm!("griddepcontrol.wait;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    crate::emulator::thread::current().wait_for_launches();
}

/// Lets the next grid start once every block has called this or ended (`griddepcontrol.launch_dependents`).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn increment(x: GlobalMut<u32>) {
///     let t = thread::thread_idx_x() as usize;
///     grid::wait();
///     grid::launch_dependents();
///     x.set(t, x.get(t) + 1);
/// }
///
/// # let device = Emulator::default();
/// # let mut x = device.zeros(32)?;
/// for _ in 0..3 {
///     // SAFETY: `x` has one element per thread, and every thread waits before it accesses them.
///     unsafe { increment(&device, Shape::new(1, 32).overlapping(), &mut x)? };
/// }
/// assert_eq!(device.to_vec(&x)?, [3; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
pub fn launch_dependents() {
    #[cfg(all(target_arch = "nvptx64", warpkov_sm = "90"))]
    // SAFETY: the instruction has no precondition and no effect on this grid.
    unsafe {
        core::arch::asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    crate::emulator::thread::current().launch_dependents();
}
