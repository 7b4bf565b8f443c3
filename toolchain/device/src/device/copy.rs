//! Asynchronous copies from global to shared memory (`cp.async`). The data bypass the registers, and the thread
//! continues.
//!
//! A thread starts copies, combines them into a group with [`commit`], and waits for its older groups with [`wait`].
//! Copies of other threads are visible after the next [barrier](super::thread::sync_threads). The emulator copies at
//! once. It reports an access to the target, and a write to the source, before the thread that has started the copy waits
//! for it.

use super::{DeviceCopy, Global, GlobalMut, Shared, Word};

/// A view from which an asynchronous copy reads.
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
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy<const COUNT: u32>(self, index: u32, from: impl Source<T>, source: usize) {
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
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy16(self, index: u32, from: impl Source<T>, source: usize) {
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
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy_bits<T: DeviceCopy>(self, index: u32, from: Global<T>, source: usize) {
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
