//! Asynchronous copies from global to shared memory (`cp.async`): the data go there without a register in between, while
//! the thread does other things.
//!
//! A thread asks for copies, closes a group of them with [`commit`], and has [`wait`] tell that its older groups are there.
//! What other threads copied is there for it after the next [barrier](super::thread::sync_threads). Under emulation a copy
//! is done at once.

use super::{DeviceCopy, Global, GlobalMut, Shared, Word};

/// Where an asynchronous copy may come from.
pub trait Source<T>: Copy {
    /// The address of the element at `index`.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    fn from(self, index: usize) -> *const T;
    /// The element at `index`.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    #[track_caller]
    fn element(self, index: usize) -> T;
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
            fn element(self, index: usize) -> T {
                self.get(index)
            }
        }
    )*};
}
sources!(Global GlobalMut);

impl<T: Word> Shared<T> {
    /// Asks for a copy of `COUNT` elements of `from`, from `source` on, to `index` and the places behind it.
    ///
    /// *Safety*: the elements have 4, 8 or 16 bytes together, and `index` and `source` are multiples of `COUNT`. What `from` holds
    /// was written by this thread or before the launch.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy<const COUNT: u32>(self, index: u32, from: impl Source<T>, source: usize) {
        target! {
            nvptx => {
                let (to, from) = (self.address(index), from.from(source));
                // SAFETY: both ranges are in bounds and aligned to their size, as the launch promises.
                unsafe {
                    core::arch::asm!("cp.async.ca.shared.global [{}], [{}], {};", in(reg32) to, in(reg64) from,
                                     const COUNT * if T::WIDE { 8 } else { 4 }, options(nostack, preserves_flags));
                }
            },
            emulated => {
                for k in 0..COUNT {
                    self.set(index + k, from.element(source + k as usize));
                }
            },
        }
    }
}

impl<T: Word> Shared<T> {
    /// How many elements [`copy16`](Self::copy16) copies.
    pub const IN_16_BYTES: u32 = if T::WIDE { 2 } else { 4 };

    /// Asks for a copy of 16 bytes: the elements of `from` from `source` on, to `index` and the places behind it.
    ///
    /// *Safety*: as that of [`copy`](Self::copy).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy16(self, index: u32, from: impl Source<T>, source: usize) {
        if T::WIDE {
            self.copy::<2>(index, from, source);
        } else {
            self.copy::<4>(index, from, source);
        }
    }
}

impl Shared<u32> {
    /// Asks for a copy of 16 bytes, from byte 16·`source` of `from` on, to the words `index … index + 3` here.
    ///
    /// *Safety*: `index` is a multiple of 4.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy_bits<T: DeviceCopy>(self, index: u32, from: Global<T>, source: usize) {
        target! {
            nvptx => {
                let (to, from) = (self.address(index), from.address16(source));
                // SAFETY: both ranges are in bounds and aligned to 16 bytes, as the launch promises.
                unsafe {
                    core::arch::asm!("cp.async.cg.shared.global [{}], [{}], 16;", in(reg32) to, in(reg64) from,
                                     options(nostack, preserves_flags));
                }
            },
            emulated => {
                let each = 16 / size_of::<T>();
                let mut bytes = Vec::with_capacity(16);
                for k in 0..each {
                    bytes.extend_from_slice(bytemuck::bytes_of(&from.get(each * source + k)));
                }
                for (k, word) in bytes.chunks(4).enumerate() {
                    self.set(index + k as u32, u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                }
            },
        }
    }
}

/// Closes the group of the copies that this thread has asked for since the last group.
#[inline(always)]
pub fn commit() {
    target! {
        // SAFETY: this only counts the thread's own copies.
        nvptx => unsafe { core::arch::asm!("cp.async.commit_group;", options(nostack, preserves_flags)) },
        emulated => {},
    }
}

/// Waits until no more than `PENDING` of this thread's groups, the last ones, are under way.
#[inline(always)]
pub fn wait<const PENDING: u32>() {
    target! {
        nvptx => {
            // SAFETY: this only waits.
            unsafe {
                core::arch::asm!("cp.async.wait_group {};", const PENDING, options(nostack, preserves_flags));
            }
        },
        emulated => {},
    }
}
