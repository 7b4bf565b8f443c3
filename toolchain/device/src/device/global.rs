//! Views of global memory.
//!
//! A view is a kernel's parameter for a buffer. No thread writes to a [`Global`] during the launch, so the GPU reads it
//! through its non-coherent cache. A [`GlobalMut`] is read and written. The emulator checks every access against the
//! length of the buffer. The GPU checks none: the caller of the launcher promises that all are in bounds.
//!
//! The 32 lanes of a warp issue one access together. It is fastest if they access consecutive elements: the warp then
//! transfers only as many 32-byte sectors as its data fill ("coalesced").
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel]
//! fn axpy(a: f32, x: Global<f32>, y: GlobalMut<f32>) {
//!     let i = thread::index_1d();
//!     y.set(i, a * x.get(i) + y.get(i));
//! }
//!
//! # let device = Emulator::default();
//! let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.upload(&[0.5; 4])?);
//! // SAFETY: both vectors have one element per thread.
//! unsafe { axpy(&device, Shape::new(1, 4), 2.0, &x, &mut y)? };
//! assert_eq!(device.to_vec(&y)?, [2.5, 4.5, 6.5, 8.5]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

#[cfg(not(target_arch = "nvptx64"))]
use crate::{
    emulator::{
        bulk::Piece,
        clock::Action,
        fault,
        memory::Record,
        thread::{self as emulated, Elements},
    },
    launch::Arg,
};
#[cfg(not(target_arch = "nvptx64"))]
use core::panic::Location;

use super::{AnyIndex, DeviceCopy};

/// A buffer that no thread writes during the launch.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn double(x: Global<f32>, y: GlobalMut<f32>) {
///     let i = thread::index_1d();
///     y.set(i, 2.0 * x.get(i));
/// }
///
/// # let device = Emulator::default();
/// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.zeros(4)?);
/// // SAFETY: all indices are within the buffers.
/// unsafe { double(&device, Shape::new(1, 4), &x, &mut y)? };
/// assert_eq!(device.to_vec(&y)?, [2.0, 4.0, 6.0, 8.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Global<T> {
    ptr: *const T,
    #[cfg(not(target_arch = "nvptx64"))]
    extent: Extent,
}

/// A buffer that the kernel reads and writes.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn scale(x: GlobalMut<f32>) {
///     let i = thread::index_1d();
///     x.set(i, 10.0 * x.get(i));
/// }
///
/// # let device = Emulator::default();
/// let mut x = device.upload(&[1.0, 2.0, 3.0, 4.0])?;
/// // SAFETY: `x` has one element per thread.
/// unsafe { scale(&device, Shape::new(1, 4), &mut x)? };
/// assert_eq!(device.to_vec(&x)?, [10.0, 20.0, 30.0, 40.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct GlobalMut<T> {
    ptr: *mut T,
    #[cfg(not(target_arch = "nvptx64"))]
    extent: Extent,
}

/// The emulated buffer of a view.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
struct Extent {
    record: *const Record,
    /// The buffer's element that is the view's first.
    first: usize,
    /// Elements of the view.
    len: usize,
    /// Bytes of an element.
    size: usize,
    /// The kernel's parameter.
    name: &'static str,
}

/// The accesses of an array of `count` elements of `size` bytes each: the number of elements of one.
#[cfg(not(target_arch = "nvptx64"))]
fn per_access(count: usize, size: usize) -> usize {
    [16, 8, 4].into_iter().find(|bytes| (count * size).is_multiple_of(*bytes)).map_or(1, |bytes| (bytes / size).max(1))
}

#[cfg(not(target_arch = "nvptx64"))]
impl Extent {
    #[track_caller]
    #[inline]
    fn check(&self, start: usize, count: usize) {
        if start.checked_add(count).is_none_or(|end| end > self.len) {
            self.out_of_bounds(start.saturating_add(count.saturating_sub(1)));
        }
    }

    #[track_caller]
    #[cold]
    fn out_of_bounds(&self, index: usize) -> ! {
        let len = self.first + self.len;
        let place = self.place(index);
        let shape = emulated::current().block().shape;
        let threads = shape.grid.count() * shape.block.count();
        // The thread's own element. Of a launch with two dimensions, any that a thread may have.
        let own = match u64::from(shape.grid.x) * u64::from(shape.block.x) == threads {
            true => index as u64 == super::thread::index_1d(),
            false => (index as u64) < threads,
        };
        let hint = if own && threads > len as u64 {
            format!("the launch has {threads} threads and `{}` {len} elements: is `if i < n` missing?", self.name)
        } else {
            format!("do the bounds of the loop, or the length of `{}`, fit?", self.name)
        };
        fault::raise_with(fault::Kind::OutOfBounds { place, len }, hint);
    }

    fn place(&self, index: usize) -> fault::Place {
        fault::Place { array: self.name, index: self.first.saturating_add(index), shared: false }
    }

    /// Checks that a vector access of `bytes` bytes is aligned: device allocations are aligned to 256 bytes.
    #[track_caller]
    #[inline]
    fn check_aligned(&self, index: usize, bytes: usize) {
        if !((self.first + index) * self.size).is_multiple_of(bytes) {
            let hint = format!("the view begins at element {} of `{}`", self.first, self.name);
            fault::raise_with(fault::Kind::Misaligned { place: self.place(index), bytes }, hint);
        }
    }

    #[inline(always)]
    fn elements(&self, index: usize, count: usize) -> Elements<'_> {
        // SAFETY: the launch's buffers outlive it.
        let record = unsafe { &*self.record };
        Elements { record, name: &self.name, first: self.first + index, count, size: self.size }
    }

    /// Checks a read of a buffer that no thread of the launch writes.
    #[track_caller]
    #[inline]
    fn check_read_only(&self, index: usize, count: usize) {
        self.check(index, count);
        let thread = emulated::current();
        let exhausted = !thread.reads_unrecorded();
        // SAFETY: the launch's buffers outlive it.
        let partial = unsafe { (*self.record).partial.get() };
        if exhausted || partial {
            thread.read_only(self.elements(index, count), exhausted, Location::caller());
        }
    }

    #[track_caller]
    #[inline]
    fn check_access(&self, index: usize, count: usize, action: Action) {
        self.check(index, count);
        emulated::current().global(self.elements(index, count), action, Location::caller());
    }
}

/// Consecutive elements, aligned for 16-byte accesses.
#[cfg(target_arch = "nvptx64")]
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct In16<T>(T);

/// Consecutive elements, aligned for 8-byte accesses.
#[cfg(target_arch = "nvptx64")]
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct In8<T>(T);

/// Consecutive elements, aligned for 4-byte accesses.
#[cfg(target_arch = "nvptx64")]
#[derive(Clone, Copy)]
#[repr(C, align(4))]
struct In4<T>(T);

/// The elements K·`index` … K·`index` + K − 1, in accesses as wide as their size is a multiple of, 16 bytes at most.
///
/// # Safety
/// The elements are in bounds, `first` is a multiple of 16, and nobody writes them at the same time.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
unsafe fn read<T: Copy, const K: usize>(first: *const T, index: usize) -> [T; K] {
    // SAFETY: the caller's; an array whose size is a multiple of a width lies at multiples of it.
    unsafe {
        match size_of::<[T; K]>() {
            size if size % 16 == 0 => (*first.cast::<In16<[T; K]>>().add(index)).0,
            size if size % 8 == 0 => (*first.cast::<In8<[T; K]>>().add(index)).0,
            size if size % 4 == 0 => (*first.cast::<In4<[T; K]>>().add(index)).0,
            _ => *first.cast::<[T; K]>().add(index),
        }
    }
}

/// Writes the elements K·`index` … K·`index` + K − 1 in the same way.
///
/// # Safety
/// As for [`read`].
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
unsafe fn write<T: Copy, const K: usize>(first: *mut T, index: usize, values: [T; K]) {
    // SAFETY: as in `read`.
    unsafe {
        match size_of::<[T; K]>() {
            size if size % 16 == 0 => *first.cast::<In16<[T; K]>>().add(index) = In16(values),
            size if size % 8 == 0 => *first.cast::<In8<[T; K]>>().add(index) = In8(values),
            size if size % 4 == 0 => *first.cast::<In4<[T; K]>>().add(index) = In4(values),
            _ => *first.cast::<[T; K]>().add(index) = values,
        }
    }
}

impl<T: DeviceCopy> Global<T> {
    /// The view of the elements from `first` on. A kernel that adds `first` to every index of a loop adds it once
    /// instead. Before [`get4`](Self::get4), `first` must be a multiple of 4.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn rest(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let i = thread::index_1d();
    ///     let rest = x.skip(2);
    ///     y.set(i, rest.get(i));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.zeros(2)?);
    /// // SAFETY: all indices are within the buffers.
    /// unsafe { rest(&device, Shape::new(1, 2), &x, &mut y)? };
    /// assert_eq!(device.to_vec(&y)?, [3.0, 4.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn skip(self, first: impl AnyIndex) -> Self {
        let first = first.wide();
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(first, 0);
        Self {
            // SAFETY: `first` is in bounds: checked above, or on a GPU promised by the launcher's caller.
            ptr: unsafe { self.ptr.add(first) },
            #[cfg(not(target_arch = "nvptx64"))]
            extent: Extent { first: self.extent.first + first, len: self.extent.len - first, ..self.extent },
        }
    }

    /// The element at `index`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn copy(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let i = thread::index_1d();
    ///     y.set(i, x.get(i));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.zeros(4)?);
    /// // SAFETY: all indices are within the buffers.
    /// unsafe { copy(&device, Shape::new(1, 4), &x, &mut y)? };
    /// assert_eq!(device.to_vec(&y)?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: impl AnyIndex) -> T {
        let index = index.wide();
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check_read_only(index, 1);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe { *self.ptr.add(index) }
    }

    /// Elements `4·index … 4·index + 3`, in accesses of 16 bytes, or one of their size if it is less.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn sums(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let i = thread::index_1d();
    ///     y.set(i, x.get4(i).iter().sum());
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 5.0])?, device.zeros(2)?);
    /// // SAFETY: all indices are within the buffers.
    /// unsafe { sums(&device, Shape::new(1, 2), &x, &mut y)? };
    /// assert_eq!(device.to_vec(&y)?, [10.0, 5.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get4(self, index: impl AnyIndex) -> [T; 4] {
        let index = index.wide();
        #[cfg(not(target_arch = "nvptx64"))]
        {
            self.extent.check_read_only(4 * index, 4);
            self.extent.check_aligned(4 * index, 16.min(4 * size_of::<T>()));
        }
        target! {
            // SAFETY: in bounds as the launcher's caller promises; cuMemAlloc aligns buffers to 256 bytes.
            nvptx => unsafe { read(self.ptr, index) },
            // SAFETY: checked above.
            emulated => unsafe { self.ptr.add(4 * index).cast::<[T; 4]>().read_unaligned() },
        }
    }

    /// Elements K·`index` … K·`index` + K − 1, in accesses as wide as their size is a multiple of, 16 bytes at most.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) fn get_array<const K: usize>(self, index: usize) -> [T; K] {
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let step = per_access(K, size_of::<T>());
            self.extent.check(K * index, K);
            for first in (K * index..K * index + K).step_by(step) {
                self.extent.check_aligned(first, step * size_of::<T>());
                self.extent.check_read_only(first, step);
            }
        }
        target! {
            // SAFETY: in bounds as the launcher's caller promises; cuMemAlloc aligns buffers to 256 bytes, and arrays have this size.
            nvptx => unsafe { read(self.ptr, index) },
            // SAFETY: checked above.
            emulated => unsafe { self.ptr.add(K * index).cast::<[T; K]>().read_unaligned() },
        }
    }

    /// The address of the element at `index`, for an asynchronous copy.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(super) fn address(self, index: usize) -> *const T {
        // SAFETY: in bounds as the launcher's caller promises.
        unsafe { self.ptr.add(index) }
    }

    /// The address of byte `16·index`, for an asynchronous copy.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(super) fn address16(self, index: usize) -> *const T {
        // SAFETY: in bounds as the launcher's caller promises.
        unsafe { self.ptr.byte_add(16 * index) }
    }

    /// The `count` elements from `index` on, which an asynchronous copy reads.
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    pub(super) fn copied(self, index: usize, count: usize) -> impl Iterator<Item = T> {
        self.extent.check_read_only(index, count);
        self.extent.check_aligned(index, count * size_of::<T>());
        // SAFETY: the indices are in bounds: checked above.
        (index..index + count).map(move |index| unsafe { *self.ptr.add(index) })
    }

    /// The element at `index`, read once: its cache line is the first to be evicted (`ld.global.cs`), so that it does
    /// not displace data that are read again.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn copy(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let i = thread::index_1d();
    ///     y.set(i, x.get_streaming(i));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.zeros(4)?);
    /// // SAFETY: all indices are within the buffers.
    /// unsafe { copy(&device, Shape::new(1, 4), &x, &mut y)? };
    /// assert_eq!(device.to_vec(&y)?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get_streaming(self, index: impl AnyIndex) -> T
    where
        T: super::Word,
    {
        let index = index.wide();
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check_read_only(index, 1);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe {
            target! {
                nvptx => {
                    let address = self.ptr.add(index);
                    if T::WIDE {
                        let raw: u64;
                        core::arch::asm!("ld.global.cs.b64 {}, [{}];", out(reg64) raw, in(reg64) address,
                                         options(pure, readonly, nostack, preserves_flags));
                        T::from_raw(raw)
                    } else {
                        let raw: u32;
                        core::arch::asm!("ld.global.cs.b32 {}, [{}];", out(reg32) raw, in(reg64) address,
                                         options(pure, readonly, nostack, preserves_flags));
                        T::from_raw(raw as u64)
                    }
                },
                emulated => *self.ptr.add(index),
            }
        }
    }
}

impl<T: DeviceCopy> GlobalMut<T> {
    /// The element at `index`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn square(x: GlobalMut<u32>) {
    ///     let i = thread::index_1d();
    ///     x.set(i, x.get(i) * x.get(i));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut x = device.upload(&[1_u32, 2, 3])?;
    /// // SAFETY: all indices are within the buffer.
    /// unsafe { square(&device, Shape::new(1, 3), &mut x)? };
    /// assert_eq!(device.to_vec(&x)?, [1, 4, 9]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: impl AnyIndex) -> T {
        let index = index.wide();
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check_access(index, 1, Action::Read);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe { *self.ptr.add(index) }
    }

    /// Writes the element at `index`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn fill(x: GlobalMut<u32>) {
    ///     x.set(thread::index_1d(), 7);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut x = device.upload(&[1_u32, 2, 3])?;
    /// // SAFETY: all indices are within the buffer.
    /// unsafe { fill(&device, Shape::new(1, 3), &mut x)? };
    /// assert_eq!(device.to_vec(&x)?, [7, 7, 7]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(self, index: impl AnyIndex, value: T) {
        let index = index.wide();
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check_access(index, 1, Action::Write);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe { *self.ptr.add(index) = value }
    }

    /// Reads the element at `index`, which other threads may [`mark`](Self::mark) at the same time: the value before or
    /// after. The access is a plain one: the compiler may use the value again where the kernel peeks again, so a thread
    /// that waits for another one must read by [`atomic::load`](super::atomic::load).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn any_odd(x: GlobalMut<u32>) {
    ///     // Threads that see the flag need not look at their number.
    ///     let i = thread::index_1d();
    ///     if x.peek(0) == 0 && x.get(1 + i) % 2 == 1 {
    ///         x.mark(0, 1);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut x = device.upload(&[0_u32, 4, 5, 7])?;
    /// // SAFETY: all indices are within the buffer.
    /// unsafe { any_odd(&device, Shape::new(1, 3), &mut x)? };
    /// assert_eq!(device.to_vec(&x)?, [1, 4, 5, 7]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn peek(self, index: impl AnyIndex) -> T {
        let index = index.wide();
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check_access(index, 1, Action::Peek);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        let value = unsafe { *self.ptr.add(index) };
        target! {
            nvptx => value,
            emulated => emulated::current().peek(self.extent.elements(index, 1), Location::caller(), value),
        }
    }

    /// Writes the element at `index`, as other threads may do at the same time *with the same value*, for example to
    /// raise a flag. The access is a plain one. It orders nothing, and no thread may read the element by
    /// [`get`](Self::get) before the next barrier, or the next launch if threads of other blocks mark it.
    ///
    /// The emulator reports marks of different values, and plain accesses at the same time.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn any_odd(x: GlobalMut<u32>) {
    ///     let i = thread::index_1d();
    ///     if x.get(1 + i) % 2 == 1 {
    ///         x.mark(0, 1);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut x = device.upload(&[0_u32, 4, 5, 7])?;
    /// // SAFETY: all indices are within the buffer.
    /// unsafe { any_odd(&device, Shape::new(1, 3), &mut x)? };
    /// assert_eq!(device.to_vec(&x)?, [1, 4, 5, 7]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn mark(self, index: impl AnyIndex, value: T) {
        let index = index.wide();
        #[cfg(not(target_arch = "nvptx64"))]
        {
            self.extent.check(index, 1);
            let changes = || {
                // SAFETY: in bounds.
                let before = unsafe { *self.ptr.add(index) };
                bytemuck::bytes_of(&before) != bytemuck::bytes_of(&value)
            };
            emulated::current().mark(self.extent.elements(index, 1), changes, Location::caller());
        }
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe { *self.ptr.add(index) = value }
    }

    /// Writes elements `4·index … 4·index + 3`, in accesses of 16 bytes, or one of their size if it is less.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn fill(x: GlobalMut<u32>) {
    ///     let i = thread::index_1d();
    ///     x.set4(i, [1, 2, 3, i as u32]);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut x = device.upload(&[0_u32; 8])?;
    /// // SAFETY: all indices are within the buffer.
    /// unsafe { fill(&device, Shape::new(1, 2), &mut x)? };
    /// assert_eq!(device.to_vec(&x)?, [1, 2, 3, 0, 1, 2, 3, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set4(self, index: impl AnyIndex, values: [T; 4]) {
        self.set_array(index.wide(), values);
    }

    /// Writes elements `2·index` and `2·index + 1`, in one access.
    ///
    /// ```
    /// # use warpkov_device::device::{half::F16, prelude::*};
    /// # use warpkov_device::{emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn pairs(x: GlobalMut<F16>) {
    ///     let i = thread::index_1d();
    ///     x.set2(i, [i as f32, 0.5].map(F16::from_f32));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut x = device.zeros(4)?;
    /// // SAFETY: all indices are within the buffer.
    /// unsafe { pairs(&device, Shape::new(1, 2), &mut x)? };
    /// assert_eq!(device.to_vec(&x)?, [0.0, 0.5, 1.0, 0.5].map(F16::from_f32));
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set2(self, index: impl AnyIndex, values: [T; 2]) {
        self.set_array(index.wide(), values);
    }

    /// Elements K·`index` … K·`index` + K − 1, in accesses as wide as their size is a multiple of, 16 bytes at most.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) fn get_array<const K: usize>(self, index: usize) -> [T; K] {
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let step = per_access(K, size_of::<T>());
            self.extent.check(K * index, K);
            for first in (K * index..K * index + K).step_by(step) {
                self.extent.check_aligned(first, step * size_of::<T>());
                self.extent.check_access(first, step, Action::Read);
            }
        }
        target! {
            // SAFETY: in bounds as the launcher's caller promises; cuMemAlloc aligns buffers to 256 bytes, and arrays have this size.
            nvptx => unsafe { read(self.ptr, index) },
            // SAFETY: checked above.
            emulated => unsafe { self.ptr.add(K * index).cast::<[T; K]>().read_unaligned() },
        }
    }

    /// Writes the elements that [`get_array`](Self::get_array) reads.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) fn set_array<const K: usize>(self, index: usize, values: [T; K]) {
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let step = per_access(K, size_of::<T>());
            self.extent.check(K * index, K);
            for first in (K * index..K * index + K).step_by(step) {
                self.extent.check_aligned(first, step * size_of::<T>());
                self.extent.check_access(first, step, Action::Write);
            }
        }
        target! {
            // SAFETY: in bounds as the launcher's caller promises; cuMemAlloc aligns buffers to 256 bytes, and arrays have this size.
            nvptx => unsafe { write(self.ptr, index, values) },
            // SAFETY: checked above.
            emulated => unsafe { self.ptr.add(K * index).cast::<[T; K]>().write_unaligned(values) },
        }
    }

    /// The address of the element at `index`, for an atomic operation or an asynchronous copy.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(super) fn address(self, index: usize) -> *mut T {
        // SAFETY: `index` is in bounds, as the launcher's caller promises.
        unsafe { self.ptr.add(index) }
    }

    /// The `count` elements from `index` on, which an asynchronous copy reads until it is waited for.
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    pub(super) fn copied(self, index: usize, count: usize) -> impl Iterator<Item = T> {
        self.extent.check(index, count);
        self.extent.check_aligned(index, count * size_of::<T>());
        let site = Location::caller();
        (index..index + count).map(move |index| {
            emulated::current().copy_from(self.extent.elements(index, 1), site);
            // SAFETY: `index` is in bounds: checked above.
            unsafe { *self.ptr.add(index) }
        })
    }

    /// Performs an atomic operation on the element at `index`: replaces its value v by `update(v)` and returns v.
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    pub(super) fn update(self, index: usize, atomic: emulated::Atomic, update: impl FnOnce(T) -> T) -> T
    where
        T: super::Word,
    {
        self.extent.check(index, 1);
        // SAFETY: in bounds, and the emulator runs one thread at a time.
        let cell = unsafe { self.ptr.add(index) };
        let mut old = T::zeroed();
        // SAFETY: as above.
        let value = || unsafe { *cell }.to_raw();
        emulated::current().global_atomic(self.extent.elements(index, 1), atomic, Location::caller(), value, |older| {
            // SAFETY: as above.
            let current = unsafe { *cell };
            old = older.map_or(current, T::from_raw);
            // A load writes nothing, whichever value it reads.
            let new = if older.is_some() { current } else { update(old) };
            // SAFETY: as above.
            unsafe { *cell = new };
            new != current
        });
        old
    }
}

#[cfg(target_arch = "nvptx64")]
impl<T: DeviceCopy> Global<T> {
    /// The view of the buffer that begins at `first`.
    #[inline(always)]
    pub(super) fn new(first: &'static T) -> Self {
        Self { ptr: first }
    }
}

#[cfg(target_arch = "nvptx64")]
impl<T: DeviceCopy> GlobalMut<T> {
    /// The view of the buffer that begins at `first`.
    #[inline(always)]
    pub(super) fn new(first: *mut T) -> Self {
        Self { ptr: first }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! emulated_views {
    ($($view:ident, $pointer:ty;)*) => {$(
        impl<T: DeviceCopy> $view<T> {
            /// The view of an emulated buffer that is the parameter `name`.
            ///
            /// # Safety
            /// The argument is a buffer of `T` in host memory that outlives the launch.
            #[inline]
            pub(super) unsafe fn of_argument(argument: Arg, name: &'static str) -> Self {
                let (record, len) = match argument {
                    Arg::Buffer { address, len } => {
                        (core::ptr::with_exposed_provenance::<Record>(address as usize), len)
                    }
                    Arg::Scalar { .. } | Arg::Tensor(_) | Arg::Grid => unreachable!("the argument of a view is a buffer"),
                };
                // SAFETY: the address of an emulated buffer's argument is that of its record, which outlives the launch.
                let first = unsafe { (*record).address };
                let extent = Extent { record, first: 0, len, size: size_of::<T>(), name };
                Self { ptr: core::ptr::with_exposed_provenance_mut::<T>(first) as $pointer, extent }
            }

            /// The `count` elements from `index` on, for a bulk copy.
            #[track_caller]
            pub(super) fn chunk(self, index: usize, count: usize) -> Piece {
                let Extent { record, first, size, name, .. } = self.extent;
                self.extent.check(index, count);
                Piece { record, name, first: first + index, count, size }
            }

            /// The place of the view's first element.
            pub(super) fn first_place(self) -> fault::Place {
                self.extent.place(0)
            }
        }
    )*};
}
#[cfg(not(target_arch = "nvptx64"))]
emulated_views! {
    Global, *const T;
    GlobalMut, *mut T;
}
