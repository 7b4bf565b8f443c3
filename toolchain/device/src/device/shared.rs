//! Shared memory: fast memory on the multiprocessor, separate for each block.
//!
//! The threads of a block exchange data through it, with a [barrier](super::thread::sync_threads) between writes and
//! reads. Its contents are undefined when a block starts. The emulator reports accesses out of bounds or misaligned,
//! reads of uninitialised memory, and [races](crate::emulator#races).
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel]
//! fn read(out: GlobalMut<u32>) {
//!     let tile = shared_array!(tile: u32; 64);
//!     let t = thread::thread_idx_x();
//!     tile.set(t, t);
//!     tile.set(t + 32, 100 + t);
//!     thread::sync_threads();
//!     out.set(t, tile.get(63 - t));
//! }
//!
//! # let device = Emulator::default();
//! # let mut out = device.zeros(32)?;
//! // SAFETY: `out` has one element per thread.
//! unsafe { read(&device, Shape::new(1, 32), &mut out)? };
//! assert_eq!(device.to_vec(&out)?[..3], [131, 130, 129]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

#[cfg(target_arch = "nvptx64")]
use core::arch::{asm, global_asm};
use core::marker::PhantomData;

use super::{AnyIndex, Element, Word};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::{profile::Operation, thread as emulated};

#[cfg(target_arch = "nvptx64")]
// `warpkov-build` links this declaration, and the shared arrays of `block`, into the PTX of other crates' kernels.
global_asm!(".extern .shared .align 16 .b8 dynamic_shared[];");

/// An array of `T` in shared memory.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn read(out: GlobalMut<u32>) {
///     let tile = shared_array!(tile: u32; 64);
///     let t = thread::thread_idx_x();
///     tile.set(t, t);
///     tile.set(t + 32, 100 + t);
///     thread::sync_threads();
///     out.set(t, tile.get(63 - t));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// // SAFETY: `out` has one element per thread.
/// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
/// assert_eq!(device.to_vec(&out)?[..3], [131, 130, 129]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Shared<T> {
    /// Byte address in the block's shared memory.
    address: u32,
    len: u32,
    element: PhantomData<T>,
}

impl Shared<u32> {
    /// Loads four matrices of 8 × 4 words (`ldmatrix.x4`), in the distribution over lanes that [`mma`](super::mma)
    /// needs.
    ///
    /// Lane 8m + r passes in `row` the index of the first word of row r of matrix m. Lane 4g + t gets word t of row g
    /// of each matrix.
    ///
    /// *Takes part*: all 32 lanes. *Safety*: `row` is a multiple of 4, in an array that begins at a multiple of 16
    /// bytes.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 128);
    ///     let t = thread::thread_idx_x();
    ///     for k in 0..4 {
    ///         tile.set(32 * k + t, 32 * k + t);
    ///     }
    ///     thread::sync_threads();
    ///     // The rows of the four matrices follow each other.
    ///     let words = tile.load_matrices(4 * t);
    ///     out.set(t, words[3]);
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?[..2], [96, 97]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load_matrices(self, row: impl AnyIndex) -> [u32; 4] {
        let row = row.narrow();
        target! {
            nvptx => {
                let (a, b, c, d): (u32, u32, u32, u32);
                // SAFETY: this method's *Safety* section and the launcher's: rows are in bounds and aligned to 16
                // bytes.
                unsafe {
                    asm!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}, {}, {}, {}}}, [{}];",
                         out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) self.address(row),
                         options(readonly, nostack, preserves_flags));
                }
                [a, b, c, d]
            },
            emulated => {
                self.check_aligned(row, 16);
                let lane = super::warp::lane_id();
                [0, 1, 2, 3].map(|matrix| {
                    let row = super::warp::shuffle(super::warp::FULL, row, 8 * matrix + lane / 4);
                    self.get(row + lane % 4)
                })
            },
        }
    }
}

impl<T: Element> Shared<T> {
    pub(super) const BYTES: u32 = size_of::<T>() as u32;

    /// The view of `len` elements that begins at byte `address` of the block's shared memory.
    ///
    /// # Safety
    /// The range is within the block's shared memory and aligned for `T`.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub unsafe fn from_raw(address: u32, len: u32) -> Self {
        Self { address, len, element: PhantomData }
    }

    /// The views of the first `count` elements and of the rest.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     let (low, high) = tile.split(32);
    ///     out.set(t, low.get(31 - t) + high.get(t));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?, [131; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn split(self, count: impl AnyIndex) -> (Self, Self) {
        let count = count.narrow();
        #[cfg(not(target_arch = "nvptx64"))]
        if count > 0 {
            self.check(count - 1);
        }
        let (address, len) = (self.address + count * Self::BYTES, self.len - count);
        (Self { len: count, ..self }, Self { address, len, ..self })
    }

    /// The part of the array that begins at the next multiple of `BYTES` bytes, a power of two. Arrays begin at multiples of 16.
    ///
    #[doc = include_str!("examples/wgmma.md")]
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn aligned<const BYTES: u32>(self) -> Self {
        const {
            assert!(
                BYTES.is_power_of_two() && BYTES.is_multiple_of(Self::BYTES),
                "a power of two, and a multiple of the element"
            )
        };
        self.split((self.address.wrapping_neg() & (BYTES - 1)) / Self::BYTES).1
    }

    /// The same memory as an array of `U`, a type that is not wider than `T`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     out.set(t, tile.cast::<u8>().get(4 * t).into());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?[30..], [30, 31]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn cast<U: Element>(self) -> Shared<U> {
        const { assert!(size_of::<T>() >= size_of::<U>(), "wider elements might be misaligned") };
        Shared { address: self.address, len: self.len * (Self::BYTES / Shared::<U>::BYTES), element: PhantomData }
    }

    /// The byte address of the array in the block's shared memory.
    #[inline(always)]
    pub(super) fn start(self) -> u32 {
        self.address
    }

    /// Number of elements.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     out.set(t, tile.len());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?, [64; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> u32 {
        self.len
    }

    /// Whether the array has no elements.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     out.set(t, u32::from(tile.is_empty() || !tile.split(0).0.is_empty()));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?, [0; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The element at `index`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     out.set(t, tile.get(63 - t));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?[..3], [131, 130, 129]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: impl AnyIndex) -> T {
        let index = index.narrow();
        target! {
            nvptx => {
                let address = self.address + index * Self::BYTES;
                let (wide, narrow): (u64, u32);
                // SAFETY: `index` is in bounds, as the launcher's caller promises and the emulator checks.
                unsafe {
                    match Self::BYTES {
                        8 => {
                            asm!("ld.shared.b64 {}, [{}];", out(reg64) wide, in(reg32) address,
                                 options(readonly, nostack, preserves_flags));
                            return T::from_raw(wide);
                        }
                        4 => asm!("ld.shared.b32 {}, [{}];", out(reg32) narrow, in(reg32) address,
                                  options(readonly, nostack, preserves_flags)),
                        2 => asm!("ld.shared.u16 {}, [{}];", out(reg32) narrow, in(reg32) address,
                                  options(readonly, nostack, preserves_flags)),
                        _ => asm!("ld.shared.u8 {}, [{}];", out(reg32) narrow, in(reg32) address,
                                  options(readonly, nostack, preserves_flags)),
                    }
                }
                T::from_raw(narrow as u64)
            },
            emulated => {
                self.check(index);
                T::from_raw(emulated::current().load_shared(self.address + index * Self::BYTES, Self::BYTES))
            },
        }
    }

    /// Writes the element at `index`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 32);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t * t);
    ///     thread::sync_threads();
    ///     out.set(t, tile.get(31 - t));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?[..3], [961, 900, 841]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(self, index: impl AnyIndex, value: T) {
        let index = index.narrow();
        target! {
            nvptx => {
                let (address, raw) = (self.address + index * Self::BYTES, value.to_raw());
                // SAFETY: `index` is in bounds, as the launcher's caller promises and the emulator checks.
                unsafe {
                    match Self::BYTES {
                        8 => asm!("st.shared.b64 [{}], {};", in(reg32) address, in(reg64) raw,
                                  options(nostack, preserves_flags)),
                        4 => asm!("st.shared.b32 [{}], {};", in(reg32) address, in(reg32) raw as u32,
                                  options(nostack, preserves_flags)),
                        2 => asm!("st.shared.b16 [{}], {};", in(reg32) address, in(reg16) raw as u16,
                                  options(nostack, preserves_flags)),
                        _ => asm!("st.shared.b8 [{}], {};", in(reg32) address, in(reg16) raw as u16,
                                  options(nostack, preserves_flags)),
                    }
                }
            },
            emulated => {
                self.check(index);
                emulated::current().store_shared(self.address + index * Self::BYTES, Self::BYTES, value.to_raw());
            },
        }
    }

    /// Writes the element at `index` by an asynchronous copy.
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    pub(super) fn set_copied(self, index: u32, value: T) {
        self.check(index);
        emulated::current().copy_to_shared(self.address + index * Self::BYTES, Self::BYTES, value.to_raw());
    }

    /// The elements `index … index + count − 1`, for a copy.
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    pub(super) fn chunk(self, index: u32, count: u32) -> crate::emulator::bulk::Chunk {
        if count > 0 {
            self.check(index.saturating_add(count - 1));
        }
        crate::emulator::bulk::Chunk { address: self.address + index * Self::BYTES, bytes: count * Self::BYTES }
    }

    /// Checks that an access of `bytes` bytes is aligned.
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    pub(super) fn check_aligned(self, index: u32, bytes: u32) {
        let address = self.address + index * Self::BYTES;
        if !address.is_multiple_of(bytes) {
            use crate::emulator::fault;
            let place = emulated::current().shared_place(address, Self::BYTES);
            fault::raise(fault::Kind::Misaligned { place, bytes: bytes as usize });
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
    #[inline(always)]
    fn check(self, index: u32) {
        if index >= self.len {
            self.out_of_bounds(index);
        }
    }

    /// The place of the view's first element, even if the view is empty.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(super) fn first_place(self) -> crate::emulator::fault::Place {
        emulated::current().shared_place(self.address, Self::BYTES)
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    #[cold]
    fn out_of_bounds(self, index: u32) -> ! {
        use crate::emulator::fault;
        let (thread, first) = (emulated::current(), self.first_place());
        let place = fault::Place { index: first.index + index as usize, ..first };
        let len = first.index + self.len as usize;
        let hint = if thread.block().shape.shared_bytes == 0 && first.array == "dynamic_shared_mem" {
            "the launch has no dynamic shared memory: was `with_shared` forgotten?".to_owned()
        } else {
            format!("do the bounds of the loop, or the length of `{}`, fit?", first.array)
        };
        fault::raise_with(fault::Kind::OutOfBounds { place, len }, hint);
    }
}

impl<T: Word> Shared<T> {
    /// Elements `2·index` and `2·index + 1`, by one load.
    ///
    /// *Safety*: the array begins at a multiple of 16 bytes.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     let [a, b] = tile.get2(t);
    ///     out.set(t, a + b);
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?[..3], [1, 5, 9]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get2(self, index: impl AnyIndex) -> [T; 2] {
        let index = index.narrow();
        self.get2_at(2 * index)
    }

    /// Elements `4·index … 4·index + 3`, by 16-byte loads, as [`Global::get4`](super::Global::get4).
    ///
    /// *Safety*: the array begins at a multiple of 16 bytes.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     out.set(t, tile.get4(t / 2).iter().sum());
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?[..3], [6, 6, 22]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get4(self, index: impl AnyIndex) -> [T; 4] {
        let index = index.narrow();
        self.get4_at(4 * index)
    }

    /// Elements `index` and `index + 1`, by one load.
    ///
    /// *Safety*: `index` is even, in an array that begins at a multiple of 16 bytes.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     let [a, b] = tile.get2_at(62 - 2 * t);
    ///     out.set(t, b - a);
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?, [1; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get2_at(self, index: impl AnyIndex) -> [T; 2] {
        let index = index.narrow();
        target! {
            nvptx => {
                let address = self.address + index * Self::BYTES;
                // SAFETY: both elements are in bounds, as the launcher's caller promises, and aligned, as the *Safety*
                // section asks.
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
            emulated => {
                self.check_aligned(index, 2 * Self::BYTES);
                emulated::current().begin_vector(Operation::SharedLoad, self.address + index * Self::BYTES, 2 * Self::BYTES);
                let pair = [self.get(index), self.get(index + 1)];
                emulated::current().end_vector();
                pair
            },
        }
    }

    /// Elements `index … index + 3`, by 16-byte loads.
    ///
    /// *Safety*: `index` is a multiple of 4, in an array that begins at a multiple of 16 bytes.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel]
    /// fn read(out: GlobalMut<u32>) {
    ///     let tile = shared_array!(tile: u32; 64);
    ///     let t = thread::thread_idx_x();
    ///     tile.set(t, t);
    ///     tile.set(t + 32, 100 + t);
    ///     thread::sync_threads();
    ///     out.set(t, tile.get4_at(60 - t / 2 * 4)[3]);
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per thread.
    /// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
    /// assert_eq!(device.to_vec(&out)?[..3], [131, 131, 127]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get4_at(self, index: impl AnyIndex) -> [T; 4] {
        let index = index.narrow();
        target! {
            nvptx => {
                if T::WIDE {
                    let ([a, b], [c, d]) = (self.get2_at(index), self.get2_at(index + 2));
                    return [a, b, c, d];
                }
                let address = self.address + index * Self::BYTES;
                let (a, b, c, d): (u32, u32, u32, u32);
                // SAFETY: all elements are in bounds, as the launcher's caller promises, and aligned, as the *Safety*
                // section asks.
                unsafe {
                    asm!("ld.shared.v4.b32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b, out(reg32) c,
                         out(reg32) d, in(reg32) address, options(readonly, nostack, preserves_flags));
                }
                [a, b, c, d].map(|raw| T::from_raw(raw as u64))
            },
            emulated => {
                self.check_aligned(index, 16);
                if T::WIDE {
                    let ([a, b], [c, d]) = (self.get2_at(index), self.get2_at(index + 2));
                    return [a, b, c, d];
                }
                emulated::current().begin_vector(Operation::SharedLoad, self.address + index * Self::BYTES, 16);
                let four = [self.get(index), self.get(index + 1), self.get(index + 2), self.get(index + 3)];
                emulated::current().end_vector();
                four
            },
        }
    }

    /// Writes elements `4·index … 4·index + 3`, by 16-byte stores, as [`GlobalMut::set4`](super::GlobalMut::set4).
    ///
    /// *Safety*: the array begins at a multiple of 16 bytes.
    ///
    /// ```
    /// use warpkov_device::device::prelude::*;
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// Reverses groups of four.
    /// #[kernel]
    /// fn reverse(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let tile = shared_array!(tile: f32; 128);
    ///     let t = thread::thread_idx_x();
    ///     tile.set4(t, x.get4(t));
    ///     thread::sync_threads();
    ///     y.set4(t, tile.get4(31 - t));
    /// }
    ///
    /// let device = Emulator::default();
    /// let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
    /// let (x, mut y) = (device.upload(&x)?, device.zeros(128)?);
    /// // SAFETY: both vectors have four elements per thread.
    /// unsafe { reverse(&device, Shape::new(1, 32), &x, &mut y)? };
    /// assert_eq!(device.to_vec(&y)?[..5], [124.0, 125.0, 126.0, 127.0, 120.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set4(self, index: impl AnyIndex, values: [T; 4]) {
        let index = index.narrow();
        let first = 4 * index;
        target! {
            nvptx => {
                let address = self.address + first * Self::BYTES;
                let [a, b, c, d] = values.map(T::to_raw);
                // SAFETY: all elements are in bounds, as the launcher's caller promises, and aligned, as the *Safety*
                // section asks.
                unsafe {
                    if T::WIDE {
                        asm!("st.shared.v2.b64 [{}], {{{}, {}}};", in(reg32) address, in(reg64) a, in(reg64) b,
                             options(nostack, preserves_flags));
                        asm!("st.shared.v2.b64 [{} + 16], {{{}, {}}};", in(reg32) address, in(reg64) c, in(reg64) d,
                             options(nostack, preserves_flags));
                    } else {
                        asm!("st.shared.v4.b32 [{}], {{{}, {}, {}, {}}};", in(reg32) address, in(reg32) a as u32,
                             in(reg32) b as u32, in(reg32) c as u32, in(reg32) d as u32,
                             options(nostack, preserves_flags));
                    }
                }
            },
            emulated => {
                self.check_aligned(first, 16);
                let each = 16 / Self::BYTES;
                for (k, value) in (0..).zip(values) {
                    if k % each == 0 {
                        let address = self.address + (first + k) * Self::BYTES;
                        emulated::current().begin_vector(Operation::SharedStore, address, 16);
                    }
                    self.set(first + k, value);
                    if k % each == each - 1 {
                        emulated::current().end_vector();
                    }
                }
            },
        }
    }
}

/// The dynamic shared memory of the launch ([`Shape::with_shared`](crate::launch::Shape::with_shared)) as an array of
/// `T`.
///
/// Every call returns the same memory. For several arrays use [`Shared::split`].
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn read(out: GlobalMut<u32>) {
///     let tile = shared::dynamic_shared_mem::<u32>();
///     let t = thread::thread_idx_x();
///     tile.set(t, t);
///     thread::sync_threads();
///     out.set(t, tile.get(31 - t));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// // SAFETY: `out` has one element per thread.
/// unsafe { read(&device, Shape::new(1, 32).with_shared(32 * 4), &mut out)? };
/// assert_eq!(device.to_vec(&out)?[..3], [31, 30, 29]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn dynamic_shared_mem<T: Element>() -> Shared<T> {
    target! {
        nvptx => {
            let (address, bytes): (u32, u32);
            // SAFETY: `dynamic_shared` is declared above, and %dynamic_smem_size is its size in this launch.
            unsafe {
                asm!("mov.u32 {}, dynamic_shared;", out(reg32) address, options(pure, nomem, nostack, preserves_flags));
                asm!("mov.u32 {}, %dynamic_smem_size;", out(reg32) bytes,
                     options(pure, nomem, nostack, preserves_flags));
                Shared::from_raw(address, bytes / Shared::<T>::BYTES)
            }
        },
        emulated => {
            let bytes = emulated::current().block().shape.shared_bytes;
            // SAFETY: the emulator reserves dynamic shared memory first, from byte 0, with this size.
            unsafe { Shared::from_raw(0, bytes / Shared::<T>::BYTES) }
        },
    }
}

/// A static array in shared memory: `let partial = shared_array!(partial: f32; 32);`.
///
/// The name identifies the array in the PTX. It may have elements of any [`Element`](crate::device::Element) type; that of a
/// generic function, too. Its instances with elements of other sizes are other arrays.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn read(out: GlobalMut<u32>) {
///     let tile = shared_array!(tile: u32; 64);
///     let t = thread::thread_idx_x();
///     tile.set(t, t);
///     tile.set(t + 32, 100 + t);
///     thread::sync_threads();
///     out.set(t, tile.get(63 - t));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// // SAFETY: `out` has one element per thread.
/// unsafe { read(&device, Shape::new(1, 32), &mut out)? };
/// assert_eq!(device.to_vec(&out)?[..3], [131, 130, 129]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[macro_export]
macro_rules! shared_array {
    ($name:ident: $ty:ty; $len:literal) => { $crate::shared_array!(@named "", $name: $ty; $len) };
    (@named $prefix:literal, $name:ident: $ty:ty; $len:literal) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            // An array for each size of an element, of which a kernel's module keeps those that it uses: an item cannot
            // depend on generic parameters. `global_asm!` is an item, which inside an expression needs a module.
            mod storage {
                ::core::arch::global_asm!(
                    concat!(".shared .align 16 .b8 ", $prefix, stringify!($name), "_", line!(), "_", column!(), "_1[{one}];"),
                    concat!(".shared .align 16 .b8 ", $prefix, stringify!($name), "_", line!(), "_", column!(), "_2[{two}];"),
                    concat!(".shared .align 16 .b8 ", $prefix, stringify!($name), "_", line!(), "_", column!(), "_4[{four}];"),
                    concat!(".shared .align 16 .b8 ", $prefix, stringify!($name), "_", line!(), "_", column!(), "_8[{eight}];"),
                    one = const $len,
                    two = const 2 * $len,
                    four = const 4 * $len,
                    eight = const 8 * $len
                );
            }
            let address: u32;
            // SAFETY: the declarations above reserve the memory of the elements under these symbols.
            unsafe {
                match ::core::mem::size_of::<$ty>() {
                    1 => ::core::arch::asm!(
                        concat!("mov.u32 {}, ", $prefix, stringify!($name), "_", line!(), "_", column!(), "_1;"),
                        out(reg32) address,
                        options(pure, nomem, nostack, preserves_flags)
                    ),
                    2 => ::core::arch::asm!(
                        concat!("mov.u32 {}, ", $prefix, stringify!($name), "_", line!(), "_", column!(), "_2;"),
                        out(reg32) address,
                        options(pure, nomem, nostack, preserves_flags)
                    ),
                    4 => ::core::arch::asm!(
                        concat!("mov.u32 {}, ", $prefix, stringify!($name), "_", line!(), "_", column!(), "_4;"),
                        out(reg32) address,
                        options(pure, nomem, nostack, preserves_flags)
                    ),
                    _ => ::core::arch::asm!(
                        concat!("mov.u32 {}, ", $prefix, stringify!($name), "_", line!(), "_", column!(), "_8;"),
                        out(reg32) address,
                        options(pure, nomem, nostack, preserves_flags)
                    ),
                }
                $crate::device::Shared::<$ty>::from_raw(address, $len)
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            static SITE: u8 = 0;
            let bytes = ::core::mem::size_of::<$ty>() as u32 * $len;
            let address = $crate::emulator::thread::static_shared(&raw const SITE as usize, stringify!($name), bytes);
            // SAFETY: the emulator has reserved these bytes for this site.
            unsafe { $crate::device::Shared::<$ty>::from_raw(address, $len) }
        }
    }};
}
