//! Asynchronous copies from global to shared memory (`cp.async`). The data bypass the registers, and the thread
//! continues.
//!
//! A thread starts copies, combines them into a group with [`commit`], and waits for its older groups with [`wait`].
//! Copies of other threads are visible after the next [barrier](super::thread::sync_threads). The emulator copies at
//! once. It reports an access to the target, and a write to the source, before the thread that has started the copy waits
//! for it.
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel]
//! fn reverse(x: Global<f32>, y: GlobalMut<f32>) {
//!     let tile = shared_array!(tile: f32; 128);
//!     let t = thread::thread_idx_x();
//!     tile.copy::<4>(4 * t, x, 4 * t);
//!     copy::commit();
//!     copy::wait::<0>();
//!     thread::sync_threads();
//!     y.set(t, tile.get(127 - t));
//! }
//!
//! # let device = Emulator::default();
//! # let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
//! let (x, mut y) = (device.upload(&x)?, device.zeros(32)?);
//! // SAFETY: `x` has 128 elements, and `y` one per thread.
//! unsafe { reverse(&device, Shape::new(1, 32), &x, &mut y)? };
//! assert_eq!(device.to_vec(&y)?[..3], [127.0, 126.0, 125.0]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

use super::{AnyIndex, DeviceCopy, Global, GlobalMut, Shared, Word};

/// A view from which an asynchronous copy reads.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// /// Each thread starts a copy of four elements.
/// fn start(tile: Shared<f32>, x: impl copy::Source<f32>) {
///     let t = thread::thread_idx_x();
///     tile.copy::<4>(4 * t, x, 4 * t);
/// }
///
/// #[kernel]
/// fn reverse(x: Global<f32>, y: GlobalMut<f32>) {
///     let tile = shared_array!(tile: f32; 128);
///     let t = thread::thread_idx_x();
///     start(tile, x);
///     copy::commit();
///     copy::wait::<0>();
///     thread::sync_threads();
///     y.set(t, tile.get(127 - t));
/// }
///
/// # let device = Emulator::default();
/// # let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
/// let (x, mut y) = (device.upload(&x)?, device.zeros(32)?);
/// // SAFETY: `x` has 128 elements, and `y` one per thread.
/// unsafe { reverse(&device, Shape::new(1, 32), &x, &mut y)? };
/// assert_eq!(device.to_vec(&y)?[..3], [127.0, 126.0, 125.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Source<T>: Copy {
    /// The address of the element at `index`.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    fn from(self, index: usize) -> *const T;
    /// The `count` elements from `index` on, which a copy reads until it is waited for.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    #[track_caller]
    fn elements(self, index: usize, count: u32) -> impl Iterator<Item = T>;
}

macro_rules! sources {
    ($($view:ident)*) => {$(
        impl<T: DeviceCopy> Source<T> for $view<T> {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            fn from(self, index: usize) -> *const T {
                self.address(index)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            #[track_caller]
            fn elements(self, index: usize, count: u32) -> impl Iterator<Item = T> {
                self.copied(index, count as usize)
            }
        }
    )*};
}
sources!(Global GlobalMut);

impl<T: Word> Shared<T> {
    /// Starts a copy of `from[source..source + COUNT]` to the elements `index … index + COUNT − 1`.
    ///
    /// Does not compile unless the `COUNT` elements have 4, 8 or 16 bytes in total.
    ///
    /// *Safety*: the addresses of the first elements are multiples of this size. The elements of `from` were written by
    /// this thread or before the launch, and nothing writes them before this thread waits for the copy.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn reverse(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let tile = shared_array!(tile: f32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.copy::<2>(2 * t, x, 2 * t);
    ///     copy::commit();
    ///     copy::wait::<0>();
    ///     thread::sync_threads();
    ///     y.set(t, tile.get(63 - t));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    /// let (x, mut y) = (device.upload(&x)?, device.zeros(32)?);
    /// // SAFETY: `x` has 64 elements, and `y` one per thread.
    /// unsafe { reverse(&device, Shape::new(1, 32), &x, &mut y)? };
    /// assert_eq!(device.to_vec(&y)?[..3], [63.0, 62.0, 61.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy<const COUNT: u32>(self, index: impl AnyIndex, from: impl Source<T>, source: impl AnyIndex) {
        let (index, source) = (index.narrow(), source.wide());
        const {
            let bytes = COUNT * if T::WIDE { 8 } else { 4 };
            assert!(matches!(bytes, 4 | 8 | 16), "an asynchronous copy has 4, 8 or 16 bytes");
        }
        self.start_copy::<COUNT>(index, from, source);
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn start_copy<const COUNT: u32>(self, index: u32, from: impl Source<T>, source: usize) {
        target! {
            nvptx => {
                let (to, from) = (self.address(index), from.from(source));
                // SAFETY: the *Safety* section of `copy` and the launcher's: both ranges are in bounds and aligned to
                // their size.
                unsafe {
                    core::arch::asm!("cp.async.ca.shared.global [{}], [{}], {};", in(reg32) to, in(reg64) from,
                                     const COUNT * if T::WIDE { 8 } else { 4 }, options(nostack, preserves_flags));
                }
            },
            emulated => {
                self.check_aligned(index, COUNT * if T::WIDE { 8 } else { 4 });
                for (index, value) in (index..).zip(from.elements(source, COUNT)) {
                    self.set_copied(index, value);
                }
            },
        }
    }

    /// Elements in 16 bytes: 2 or 4.
    pub const IN_16_BYTES: u32 = if T::WIDE { 2 } else { 4 };

    /// Starts a [copy](Self::copy) of [`IN_16_BYTES`](Self::IN_16_BYTES) elements.
    ///
    /// *Safety*: as for [`copy`](Self::copy).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn reverse(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let tile = shared_array!(tile: f32; 128);
    ///     let t = thread::thread_idx_x();
    ///     tile.copy16(4 * t, x, 4 * t);
    ///     copy::commit();
    ///     copy::wait::<0>();
    ///     thread::sync_threads();
    ///     y.set(t, tile.get(127 - t));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
    /// let (x, mut y) = (device.upload(&x)?, device.zeros(32)?);
    /// // SAFETY: `x` has 128 elements, and `y` one per thread.
    /// unsafe { reverse(&device, Shape::new(1, 32), &x, &mut y)? };
    /// assert_eq!(device.to_vec(&y)?[..3], [127.0, 126.0, 125.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy16(self, index: impl AnyIndex, from: impl Source<T>, source: impl AnyIndex) {
        let (index, source) = (index.narrow(), source.wide());
        if T::WIDE {
            self.start_copy::<2>(index, from, source);
        } else {
            self.start_copy::<4>(index, from, source);
        }
    }
}

impl Shared<u32> {
    /// Starts a copy of the 16 bytes that begin at byte 16·`source` of `from`, to the words `index … index + 3`.
    ///
    /// *Safety*: `index` is a multiple of 4. The bytes of `from` were written before the launch.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn reverse(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let tile = shared_array!(bits: u32; 128);
    ///     let t = thread::thread_idx_x();
    ///     tile.copy_bits(4 * t, x, t);
    ///     copy::commit();
    ///     copy::wait::<0>();
    ///     thread::sync_threads();
    ///     y.set(t, f32::from_bits(tile.get(127 - t)));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
    /// let (x, mut y) = (device.upload(&x)?, device.zeros(32)?);
    /// // SAFETY: `x` has 128 elements, and `y` one per thread.
    /// unsafe { reverse(&device, Shape::new(1, 32), &x, &mut y)? };
    /// assert_eq!(device.to_vec(&y)?[..3], [127.0, 126.0, 125.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy_bits<T: DeviceCopy>(self, index: impl AnyIndex, from: Global<T>, source: impl AnyIndex) {
        let (index, source) = (index.narrow(), source.wide());
        target! {
            nvptx => {
                let (to, from) = (self.address(index), from.address16(source));
                // SAFETY: this method's *Safety* section and the launcher's: both ranges are in bounds and aligned to
                // 16 bytes.
                unsafe {
                    core::arch::asm!("cp.async.cg.shared.global [{}], [{}], 16;", in(reg32) to, in(reg64) from,
                                     options(nostack, preserves_flags));
                }
            },
            emulated => {
                self.check_aligned(index, 16);
                let each = 16 / size_of::<T>();
                let mut bytes = Vec::with_capacity(16);
                for element in from.copied(each * source, each) {
                    bytes.extend_from_slice(bytemuck::bytes_of(&element));
                }
                for (k, word) in bytes.chunks(4).enumerate() {
                    self.set_copied(index + k as u32, u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                }
            },
        }
    }
}

/// Combines the copies that this thread has started since the last call into a group (`cp.async.commit_group`).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn reverse(x: Global<f32>, y: GlobalMut<f32>) {
///     let tile = shared_array!(tile: f32; 128);
///     let t = thread::thread_idx_x();
///     for k in 0..4 {
///         tile.copy::<1>(32 * k + t, x, 32 * k + t);
///     }
///     copy::commit();
///     copy::wait::<0>();
///     thread::sync_threads();
///     y.set(t, tile.get(127 - t));
/// }
///
/// # let device = Emulator::default();
/// # let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
/// let (x, mut y) = (device.upload(&x)?, device.zeros(32)?);
/// // SAFETY: `x` has 128 elements, and `y` one per thread.
/// unsafe { reverse(&device, Shape::new(1, 32), &x, &mut y)? };
/// assert_eq!(device.to_vec(&y)?[..3], [127.0, 126.0, 125.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit() {
    target! {
        // SAFETY: the instruction has no precondition.
        nvptx => unsafe { core::arch::asm!("cp.async.commit_group;", options(nostack, preserves_flags)) },
        emulated => crate::emulator::thread::current().commit_copies(),
    }
}

/// Waits until at most the last `PENDING` groups of this thread are incomplete (`cp.async.wait_group`).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn reverse(x: Global<f32>, y: GlobalMut<f32>) {
///     let tile = shared_array!(tile: f32; 128);
///     let t = thread::thread_idx_x();
///     for k in [3, 0, 1, 2] {
///         tile.copy::<1>(32 * k + t, x, 32 * k + t);
///         copy::commit();
///     }
///     // The oldest of the four groups is complete.
///     copy::wait::<3>();
///     thread::sync_threads();
///     y.set(t, tile.get(127 - t));
/// }
///
/// # let device = Emulator::default();
/// # let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
/// let (x, mut y) = (device.upload(&x)?, device.zeros(32)?);
/// // SAFETY: `x` has 128 elements, and `y` one per thread.
/// unsafe { reverse(&device, Shape::new(1, 32), &x, &mut y)? };
/// assert_eq!(device.to_vec(&y)?[..3], [127.0, 126.0, 125.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait<const PENDING: u32>() {
    target! {
        nvptx => {
            // SAFETY: the instruction has no precondition.
            unsafe {
                core::arch::asm!("cp.async.wait_group {};", const PENDING, options(nostack, preserves_flags));
            }
        },
        emulated => crate::emulator::thread::current().wait_for_copies(PENDING as usize),
    }
}
