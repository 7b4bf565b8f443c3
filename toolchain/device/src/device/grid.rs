//! Overlapping launches: a grid starts before the previous grid ends (*programmatic dependent launch*, `sm_90` and
//! later).
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
