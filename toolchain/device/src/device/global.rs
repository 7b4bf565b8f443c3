//! Views of global memory.
//!
//! A view is a kernel's parameter for a buffer. No thread writes to a [`Global`] during the launch, so the GPU reads it
//! through its non-coherent cache. A [`GlobalMut`] is read and written. The emulator checks every access against the
//! length of the buffer. The GPU checks none: the caller of the launcher promises that all are in bounds.
//!
//! The 32 lanes of a warp issue one access together. It is fastest if they access consecutive elements: the warp then
//! transfers only as many 32-byte sectors as its data fill ("coalesced").

#[cfg(not(target_arch = "nvptx64"))]
use crate::{emulator::fault, launch::Arg};

use super::DeviceCopy;

/// A buffer that no thread writes during the launch.
#[derive(Clone, Copy)]
pub struct Global<T> {
    ptr: *const T,
    #[cfg(not(target_arch = "nvptx64"))]
    extent: Extent,
}

/// A buffer that the kernel reads and writes.
#[derive(Clone, Copy)]
pub struct GlobalMut<T> {
    ptr: *mut T,
    #[cfg(not(target_arch = "nvptx64"))]
    extent: Extent,
}

/// Length and parameter name of a buffer, for the emulator.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
struct Extent {
    len: usize,
    name: &'static str,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Extent {
    #[track_caller]
    #[inline]
    fn check(&self, start: usize, count: usize) {
        if start.checked_add(count).is_none_or(|end| end > self.len) {
            fault::raise(fault::Kind::GlobalOutOfBounds { buffer: self.name, index: start + count - 1, len: self.len });
        }
    }
}

/// Four consecutive elements, aligned for 16-byte accesses.
#[cfg(target_arch = "nvptx64")]
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Quad<T>([T; 4]);

impl<T: DeviceCopy> Global<T> {
    /// The view of the elements from `first` on. A kernel that adds `first` to every index of a loop adds it once
    /// instead. Before [`get4`](Self::get4), `first` must be a multiple of 4.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn skip(self, first: usize) -> Self {
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(first, 0);
        Self {
            // SAFETY: `first` is in bounds: checked above, or on a GPU promised by the launcher's caller.
            ptr: unsafe { self.ptr.add(first) },
            #[cfg(not(target_arch = "nvptx64"))]
            extent: Extent { len: self.extent.len - first, ..self.extent },
        }
    }

    /// The element at `index`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: usize) -> T {
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(index, 1);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe { *self.ptr.add(index) }
    }

    /// Elements `4·index … 4·index + 3`, in 16-byte accesses.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get4(self, index: usize) -> [T; 4] {
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(4 * index, 4);
        target! {
            // SAFETY: in bounds as the launcher's caller promises; cuMemAlloc aligns buffers to 256 bytes.
            nvptx => unsafe { (*self.ptr.cast::<Quad<T>>().add(index)).0 },
            // SAFETY: checked above.
            emulated => unsafe { self.ptr.add(4 * index).cast::<[T; 4]>().read_unaligned() },
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

    /// The element at `index`, read once: its cache line is the first to be evicted (`ld.global.cs`), so that it does
    /// not displace data that are read again.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get_streaming(self, index: usize) -> T
    where
        T: super::Word,
    {
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(index, 1);
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
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: usize) -> T {
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(index, 1);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe { *self.ptr.add(index) }
    }

    /// Writes the element at `index`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(self, index: usize, value: T) {
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(index, 1);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe { *self.ptr.add(index) = value }
    }

    /// Writes elements `4·index … 4·index + 3`, in 16-byte accesses.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set4(self, index: usize, values: [T; 4]) {
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(4 * index, 4);
        target! {
            // SAFETY: in bounds as the launcher's caller promises; cuMemAlloc aligns buffers to 256 bytes.
            nvptx => unsafe { *self.ptr.cast::<Quad<T>>().add(index) = Quad(values) },
            // SAFETY: checked above.
            emulated => unsafe { self.ptr.add(4 * index).cast::<[T; 4]>().write_unaligned(values) },
        }
    }

    /// The address of the element at `index`, for an atomic operation.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) fn address(self, index: usize) -> *mut T {
        #[cfg(not(target_arch = "nvptx64"))]
        self.extent.check(index, 1);
        // SAFETY: `index` is in bounds: checked above, or on a GPU promised by the launcher's caller.
        unsafe { self.ptr.add(index) }
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
                let (address, len) = match argument {
                    Arg::Buffer { address, len } => (address, len),
                    Arg::Scalar { .. } => (0, 0),
                };
                Self { ptr: address as usize as $pointer, extent: Extent { len, name } }
            }
        }
    )*};
}
#[cfg(not(target_arch = "nvptx64"))]
emulated_views! {
    Global, *const T;
    GlobalMut, *mut T;
}
