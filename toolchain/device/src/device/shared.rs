//! Shared memory: the fast memory on the multiprocessor, one copy per block.
//!
//! Threads of a block exchange data through it, with a [barrier](super::thread::sync_threads) between the writes of some
//! and the reads of others. It holds nothing defined when a block starts. The emulator reports an access out of bounds, a
//! read of what nobody wrote, and two threads that touch one cell, one of them writing, with no barrier between.

#[cfg(target_arch = "nvptx64")]
use core::arch::{asm, global_asm};
use core::marker::PhantomData;

use super::Word;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread as emulated;

#[cfg(target_arch = "nvptx64")]
// A kernel of another crate has this declaration, and the arrays of `block`, from this crate's PTX: the builder links them.
global_asm!(".extern .shared .align 16 .b8 dynamic_shared[];");

/// An array of `T` in shared memory.
#[derive(Clone, Copy)]
pub struct Shared<T> {
    /// Byte address in the block's shared memory.
    address: u32,
    len: u32,
    element: PhantomData<T>,
}

impl Shared<u32> {
    /// Four matrices of 8 × 4 words from rows of this array: lane 8m + r names where row r of matrix m begins, and lane 4g + t
    /// gets the word t of row g of each (`ldmatrix.x4`). As factors of a tensor core they lie where it wants them.
    ///
    /// *Takes part*: all 32 lanes. *Safety*: places are multiples of 4.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load_matrices(self, row: u32) -> [u32; 4] {
        target! {
            nvptx => {
                let (a, b, c, d): (u32, u32, u32, u32);
                // SAFETY: rows are in bounds and aligned to 16 bytes, as the launch promises.
                unsafe {
                    asm!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}, {}, {}, {}}}, [{}];",
                         out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) self.address(row),
                         options(readonly, nostack, preserves_flags));
                }
                [a, b, c, d]
            },
            emulated => {
                let lane = super::warp::lane_id();
                [0, 1, 2, 3].map(|matrix| {
                    let row = super::warp::shuffle(super::warp::FULL, row, 8 * matrix + lane / 4);
                    self.get(row + lane % 4)
                })
            },
        }
    }
}

impl<T: Word> Shared<T> {
    const BYTES: u32 = if T::WIDE { 8 } else { 4 };

    /// The view of `len` elements from byte `address` of the block's shared memory.
    ///
    /// # Safety
    /// The range must lie in the block's shared memory, and be aligned for `T`.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub unsafe fn from_raw(address: u32, len: u32) -> Self {
        Self { address, len, element: PhantomData }
    }

    /// The first `count` elements, and the rest.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn split(self, count: u32) -> (Self, Self) {
        #[cfg(not(target_arch = "nvptx64"))]
        if count > 0 {
            self.check(count - 1);
        }
        let (address, len) = (self.address + count * Self::BYTES, self.len - count);
        (Self { len: count, ..self }, Self { address, len, ..self })
    }

    /// The same memory as elements of another type, which are no wider.
    #[inline(always)]
    #[must_use]
    pub fn cast<U: Word>(self) -> Shared<U> {
        const { assert!(T::WIDE || !U::WIDE, "wider elements might be misaligned") };
        Shared { address: self.address, len: self.len * (Self::BYTES / Shared::<U>::BYTES), element: PhantomData }
    }

    /// Number of elements.
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> u32 {
        self.len
    }

    /// Whether there is no element.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The element at `index`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: u32) -> T {
        target! {
            nvptx => {
                let address = self.address + index * Self::BYTES;
                // SAFETY: `index` is in bounds, as the launch promises and the emulator checks.
                unsafe {
                    if T::WIDE {
                        let raw: u64;
                        asm!("ld.shared.b64 {}, [{}];", out(reg64) raw, in(reg32) address,
                             options(readonly, nostack, preserves_flags));
                        T::from_raw(raw)
                    } else {
                        let raw: u32;
                        asm!("ld.shared.b32 {}, [{}];", out(reg32) raw, in(reg32) address,
                             options(readonly, nostack, preserves_flags));
                        T::from_raw(raw as u64)
                    }
                }
            },
            emulated => {
                self.check(index);
                T::from_raw(emulated::current().load_shared(self.address + index * Self::BYTES, Self::BYTES))
            },
        }
    }

    /// Elements `index` and `index + 1`, in one access.
    ///
    /// *Safety*: `index` is even, in an array that begins at a multiple of 16 bytes.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get2(self, index: u32) -> [T; 2] {
        target! {
            nvptx => {
                let address = self.address + index * Self::BYTES;
                // SAFETY: both are in bounds, as the launch promises and the emulator checks.
                unsafe {
                    if T::WIDE {
                        let (a, b): (u64, u64);
                        asm!("ld.shared.v2.b64 {{{}, {}}}, [{}];", out(reg64) a, out(reg64) b, in(reg32) address,
                             options(readonly, nostack, preserves_flags));
                        [T::from_raw(a), T::from_raw(b)]
                    } else {
                        let (a, b): (u32, u32);
                        asm!("ld.shared.v2.b32 {{{}, {}}}, [{}];", out(reg32) a, out(reg32) b, in(reg32) address,
                             options(readonly, nostack, preserves_flags));
                        [T::from_raw(a as u64), T::from_raw(b as u64)]
                    }
                }
            },
            emulated => [self.get(index), self.get(index + 1)],
        }
    }

    /// Elements `index … index + 3`, in 16-byte accesses.
    ///
    /// *Safety*: `index` is a multiple of 4, in an array that begins at a multiple of 16 bytes.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get4(self, index: u32) -> [T; 4] {
        target! {
            nvptx => {
                if T::WIDE {
                    let ([a, b], [c, d]) = (self.get2(index), self.get2(index + 2));
                    return [a, b, c, d];
                }
                let address = self.address + index * Self::BYTES;
                let (a, b, c, d): (u32, u32, u32, u32);
                // SAFETY: all are in bounds, as the launch promises and the emulator checks.
                unsafe {
                    asm!("ld.shared.v4.b32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b, out(reg32) c,
                         out(reg32) d, in(reg32) address, options(readonly, nostack, preserves_flags));
                }
                [a, b, c, d].map(|raw| T::from_raw(raw as u64))
            },
            emulated => [self.get(index), self.get(index + 1), self.get(index + 2), self.get(index + 3)],
        }
    }

    /// Writes the element at `index`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(self, index: u32, value: T) {
        target! {
            nvptx => {
                let address = self.address + index * Self::BYTES;
                // SAFETY: `index` is in bounds, as the launch promises and the emulator checks.
                unsafe {
                    if T::WIDE {
                        asm!("st.shared.b64 [{}], {};", in(reg32) address, in(reg64) value.to_raw(),
                             options(nostack, preserves_flags));
                    } else {
                        asm!("st.shared.b32 [{}], {};", in(reg32) address, in(reg32) value.to_raw() as u32,
                             options(nostack, preserves_flags));
                    }
                }
            },
            emulated => {
                self.check(index);
                emulated::current().store_shared(self.address + index * Self::BYTES, Self::BYTES, value.to_raw());
            },
        }
    }

    /// The byte address of the element at `index`, for an atomic operation.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) fn address(self, index: u32) -> u32 {
        #[cfg(not(target_arch = "nvptx64"))]
        self.check(index);
        self.address + index * Self::BYTES
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn check(self, index: u32) {
        if index >= self.len {
            use crate::emulator::fault;
            fault::raise(fault::Kind::SharedOutOfBounds { index, len: self.len });
        }
    }
}

/// The shared memory that the launch asked for (`Shape::with_shared`), as an array of `T`.
///
/// Every call gives the same memory: divide it by hand where two arrays are needed.
#[inline(always)]
#[must_use]
pub fn dynamic_shared_mem<T: Word>() -> Shared<T> {
    target! {
        nvptx => {
            let (address, bytes): (u32, u32);
            // SAFETY: the symbol is declared above, and the register holds the size that the launch asked for.
            unsafe {
                asm!("mov.u32 {}, dynamic_shared;", out(reg32) address, options(pure, nomem, nostack, preserves_flags));
                asm!("mov.u32 {}, %dynamic_smem_size;", out(reg32) bytes,
                     options(pure, nomem, nostack, preserves_flags));
                Shared::from_raw(address, bytes / Shared::<T>::BYTES)
            }
        },
        emulated => {
            let bytes = emulated::current().block().shape.shared_bytes;
            // SAFETY: dynamic shared memory starts at byte 0 and has the size that the launch asked for.
            unsafe { Shared::from_raw(0, bytes / Shared::<T>::BYTES) }
        },
    }
}

/// A static array in shared memory: `let partial = shared_array!(partial: f32; 32);`.
///
/// The name only serves to find the array in the PTX. The memory is 8 bytes per element whatever the type, so that one
/// array serves all instances of a generic kernel.
#[macro_export]
macro_rules! shared_array {
    ($name:ident: $ty:ty; $len:literal) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            // `global_asm!` is an item: it needs a module where a macro stands in a function.
            mod storage {
                ::core::arch::global_asm!(
                    concat!(".shared .align 16 .b8 ", stringify!($name), "_", line!(), "_", column!(), "[{bytes}];"),
                    bytes = const 8 * $len
                );
            }
            let address: u32;
            // SAFETY: the symbol is declared right above, with room for the elements.
            unsafe {
                ::core::arch::asm!(
                    concat!("mov.u32 {}, ", stringify!($name), "_", line!(), "_", column!(), ";"),
                    out(reg32) address,
                    options(pure, nomem, nostack, preserves_flags)
                );
                $crate::device::Shared::<$ty>::from_raw(address, $len)
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            static SITE: u8 = 0;
            let address = $crate::emulator::thread::current().static_shared(&raw const SITE as usize, 8 * $len);
            // SAFETY: the emulator has just reserved this memory for this site.
            unsafe { $crate::device::Shared::<$ty>::from_raw(address, $len) }
        }
    }};
}
