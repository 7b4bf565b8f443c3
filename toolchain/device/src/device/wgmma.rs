//! Products of warp groups: D = D + A·Bᵀ by 128 threads, from tiles in shared memory (`wgmma`, compute capability 9.0 alone).
//!
//! A *warp group* is four warps, of which the first has an index that is a multiple of four. Its threads hold a matrix of 64 rows, an
//! [`Accumulator`], and start products that read both factors from shared memory. The products run on while the threads go on:
//!
//! 1. [`Accumulator::fence`], behind all that sets the accumulator;
//! 2. [`Accumulator::multiply`], once or more;
//! 3. [`commit`], which ends a group of products;
//! 4. [`Accumulator::wait`], before the accumulator is read, and before the tiles are overwritten.
//!
//! The kernel says `#[kernel(sm = "90a")]`: its code is for compute capability 9.0 and for no other. The factors are f16 or bf16,
//! products are exact, sums are f32.
//!
//! A tile has rows of 64 elements in the order of [`Swizzle::B128`](crate::launch::Swizzle), and begins at a multiple of 1024 bytes:
//! [`TensorMap::load`](super::TensorMap::load) writes it so. Ordinary stores to a tile need a [`bulk::fence`](super::bulk::fence).
//!
//! The emulator reports an accumulator that is read before the wait, tiles that are overwritten before it, and missing fences.
//!
#![doc = include_str!("examples/wgmma.md")]

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

use super::half::{Bf16, F16};
use super::{Element, Shared};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::{thread as emulated, wgmma::Flight};

/// Rows of an accumulator.
pub const ROWS: u32 = 64;

/// Elements of a tile's row.
pub const DEPTH: u32 = 64;

/// A type of the factors.
///
#[doc = include_str!("examples/wgmma.md")]
pub trait Factor: Element {
    /// Whether it is bf16.
    #[doc(hidden)]
    const BF16: bool;
    /// Its value.
    #[doc(hidden)]
    fn value(self) -> f32;
    /// The number of this type nearest to `x`, ties to even.
    ///
    #[doc = include_str!("examples/multicast.md")]
    fn nearest(x: f32) -> Self;
}

impl Factor for F16 {
    const BF16: bool = false;
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn nearest(x: f32) -> Self {
        Self::from_f32(x)
    }
}

impl Factor for Bf16 {
    const BF16: bool = true;
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn nearest(x: f32) -> Self {
        Self::from_f32(x)
    }
}

/// A matrix of 64 × 2·`R` elements, of which each thread of a warp group holds `R`: 16, 32, 64 or 128.
///
/// Register i of thread t of the group holds the element in row 16·(t / 32) + (t mod 32) / 4 + 8·(i / 2 mod 2) and column
/// 8·(i / 4) + 2·(t mod 4) + i mod 2.
///
#[doc = include_str!("examples/wgmma.md")]
pub struct Accumulator<const R: usize> {
    registers: [f32; R],
    #[cfg(not(target_arch = "nvptx64"))]
    flight: Flight,
}

impl<const R: usize> Accumulator<R> {
    /// Columns.
    pub const COLUMNS: u32 = 2 * R as u32;

    /// The matrix of zeros.
    ///
    #[doc = include_str!("examples/wgmma.md")]
    #[inline(always)]
    #[must_use]
    pub fn zeros() -> Self {
        Self {
            registers: [0.0; R],
            #[cfg(not(target_arch = "nvptx64"))]
            flight: Flight::default(),
        }
    }
}

/// Ends a group of products of this thread (`wgmma.commit_group`).
///
/// *Takes part*: all threads of the warp group.
///
#[doc = include_str!("examples/wgmma.md")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit() {
    target! {
        // SAFETY: the function's contract: all lanes execute this call.
        nvptx => unsafe { asm!("wgmma.commit_group.sync.aligned;", options(nostack, preserves_flags)) },
        emulated => emulated::current().commit_products(),
    }
}

/// The descriptor of a tile in shared memory: rows of 128 bytes in the order of 128-byte swizzling, groups of eight rows 1024 bytes apart.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn descriptor(address: u32) -> u64 {
    const SWIZZLED_128: u64 = 1 << 62;
    const NEXT_GROUP: u64 = (1024 >> 4) << 32;
    SWIZZLED_128 | NEXT_GROUP | 1 << 16 | u64::from((address & 0x3_ffff) >> 4)
}

/// The row and the column of register `i` of this thread.
#[inline(always)]
fn place(i: u32) -> (u32, u32) {
    let t = super::thread::index_in_block() % 128;
    (16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (t % 4) + i % 2)
}

macro_rules! accumulators {
    ($($columns:literal: $registers:literal = $first:literal $($i:literal)*;)*) => {$(
        impl Accumulator<$registers> {
            /// Orders what has set the accumulator before the products that follow (`wgmma.fence`).
            ///
            /// *Takes part*: all threads of the warp group.
            ///
            #[doc = include_str!("examples/wgmma.md")]
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn fence(&mut self) {
                target! {
                    nvptx => {
                        let d = &mut self.registers;
                        // SAFETY: the function's contract: all lanes execute this call. The registers are named so that the compiler
                        // sets them before.
                        unsafe {
                            asm!(concat!("wgmma.fence.sync.aligned; // {", stringify!($first), "}" $(, "{", stringify!($i), "}")*),
                                 inout(reg32) d[$first], $(inout(reg32) d[$i],)* options(nostack, preserves_flags));
                        }
                    },
                    emulated => emulated::current().fence_products(&mut self.flight),
                }
            }

            /// Starts D = D + A·Bᵀ, where `a` is a tile of 64 rows and `b` one of as many rows as the accumulator has columns, both of
            /// 64 columns.
            ///
            /// *Takes part*: all threads of the warp group. *Safety*: both tiles begin at multiples of 1024 bytes.
            ///
            #[doc = include_str!("examples/wgmma.md")]
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn multiply<T: Factor>(&mut self, a: Shared<T>, b: Shared<T>) {
                const { assert!(size_of::<T>() == 2, "a factor has two bytes") };
                target! {
                    nvptx => {
                        let (a, b) = (descriptor(a.address(0)), descriptor(b.address(0)));
                        // Sixteen columns, 32 bytes, at a time.
                        let (a, b) = ([a, a + 2, a + 4, a + 6], [b, b + 2, b + 4, b + 6]);
                        for k in 0..4 {
                            let d = &mut self.registers;
                            // SAFETY: the function's contract: all lanes execute this call, and the tiles are in bounds and aligned.
                            unsafe {
                                if T::BF16 {
                                    accumulators!(@multiply "bf16", $columns, d, a[k], b[k], $first $($i)*);
                                } else {
                                    accumulators!(@multiply "f16", $columns, d, a[k], b[k], $first $($i)*);
                                }
                            }
                        }
                    },
                    emulated => {
                        let (a, b) = (a.chunk(0, ROWS * DEPTH), b.chunk(0, Self::COLUMNS * DEPTH));
                        let value = |raw| T::from_raw(raw).value();
                        emulated::current().multiply_tiles(&mut self.registers, &mut self.flight, [a, b], value, place);
                    },
                }
            }

            /// Waits until at most the last `PENDING` groups of products are incomplete (`wgmma.wait_group`): if the products of this
            /// accumulator are none of these, it can be read.
            ///
            /// *Takes part*: all threads of the warp group.
            ///
            #[doc = include_str!("examples/wgmma.md")]
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn wait<const PENDING: u32>(&mut self) {
                target! {
                    nvptx => {
                        let d = &mut self.registers;
                        // SAFETY: the function's contract: all lanes execute this call. The registers are named so that the compiler
                        // reads them behind it.
                        unsafe {
                            asm!(concat!("wgmma.wait_group.sync.aligned {pending}; // {", stringify!($first), "}"
                                         $(, "{", stringify!($i), "}")*),
                                 inout(reg32) d[$first], $(inout(reg32) d[$i],)* pending = const PENDING,
                                 options(nostack, preserves_flags));
                        }
                    },
                    emulated => emulated::current().wait_for_products(&mut self.flight, PENDING as usize),
                }
            }

            /// Calls `each` with the row, the column and the value of each element that this thread holds.
            ///
            #[doc = include_str!("examples/wgmma.md")]
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn for_elements(&self, mut each: impl FnMut(u32, u32, f32)) {
                #[cfg(not(target_arch = "nvptx64"))]
                emulated::current().check_landed(&self.flight);
                accumulators!(@element self, each, $first);
                $(accumulators!(@element self, each, $i);)*
            }

            /// Calls `each` with the row, the first column and the values of each two neighbours in a row that this thread holds. The column is
            /// even.
            ///
            #[doc = include_str!("examples/multicast.md")]
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn for_pairs(&self, mut each: impl FnMut(u32, u32, [f32; 2])) {
                let mut first = 0.0;
                self.for_elements(|row, column, value| {
                    if column % 2 == 0 {
                        first = value;
                    } else {
                        each(row, column - 1, [first, value]);
                    }
                });
            }
        }
    )*};
    (@element $self:ident, $each:ident, $i:literal) => {{
        let (row, column) = place($i);
        $each(row, column, $self.registers[$i]);
    }};
    (@multiply $type:literal, $columns:literal, $d:ident, $a:expr, $b:expr, $first:literal $($i:literal)*) => {
        asm!(
            concat!(
                "{{ .reg .pred add; setp.ne.b32 add, 1, 0; wgmma.mma_async.sync.aligned.m64n", $columns, "k16.f32.", $type, ".", $type,
                " {{{", stringify!($first), "}" $(, ", {", stringify!($i), "}")*, "}}, {a}, {b}, add, 1, 1, 0, 0; }}"
            ),
            inout(reg32) $d[$first], $(inout(reg32) $d[$i],)* a = in(reg64) $a, b = in(reg64) $b,
            options(nostack, preserves_flags)
        )
    };
}

accumulators! {
    "32": 16 =
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
    "64": 32 =
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31;
    "128": 64 =
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46
        47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63;
    "256": 128 =
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46
        47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89
        90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124
        125 126 127;
}
