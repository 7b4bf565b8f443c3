//! The types that kernels compute with.

use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A type that may lie in device memory: any bit pattern is a value, and there is no padding.
#[cfg(not(target_arch = "nvptx64"))]
pub trait DeviceCopy: bytemuck::Pod + Send + Sync {}
#[cfg(not(target_arch = "nvptx64"))]
impl<T: bytemuck::Pod + Send + Sync> DeviceCopy for T {}

/// A type that may lie in device memory: any bit pattern is a value, and there is no padding.
#[cfg(target_arch = "nvptx64")]
pub trait DeviceCopy: Copy + 'static {}
#[cfg(target_arch = "nvptx64")]
impl<T: Copy + 'static> DeviceCopy for T {}

/// A 4- or 8-byte number: what shuffles, atomics and shared memory move.
pub trait Word: DeviceCopy + PartialEq + super::Parameter {
    /// Whether it has 8 bytes.
    const WIDE: bool;
    /// Its bits, zero-extended.
    fn to_raw(self) -> u64;
    /// The number whose bits are the low bits of `raw`.
    fn from_raw(raw: u64) -> Self;
}

/// A type that a kernel may be instantiated for: its name ends the name of the entry point.
pub trait Named {
    /// As in Rust: `"f32"`.
    const NAME: &'static str;
}

/// An unsigned integer that points into the entries of a sparse matrix: `u32`, or `u64` beyond 2³² entries.
pub trait Offset: Word + Named + PartialOrd + Add<Output = Self> + AddAssign {
    /// 0.
    const ZERO: Self;
    /// As an index.
    fn to_usize(self) -> usize;
    /// From an index that fits.
    fn from_usize(index: usize) -> Self;
}

/// A floating-point type that kernels are instantiated for: `f32` or `f64`.
pub trait Real:
    Word
    + Named
    + PartialOrd
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// −∞, the identity of the maximum.
    const NEG_INFINITY: Self;
    /// The nearest number of this type.
    fn from_f64(x: f64) -> Self;
    /// The same number.
    fn to_f64(self) -> f64;
    /// `self`·`y` + `z`, rounded once.
    fn fma(self, y: Self, z: Self) -> Self;
    /// |x|.
    fn abs(self) -> Self;
    /// The larger of the two; the other, where one is not a number.
    fn max(self, other: Self) -> Self;
}

macro_rules! words {
    ($($ty:ty, $wide:literal, |$x:ident| $to:expr, |$raw:ident| $from:expr;)*) => {$(
        impl Word for $ty {
            const WIDE: bool = $wide;
            #[inline(always)]
            fn to_raw(self) -> u64 {
                let $x = self;
                $to
            }
            #[inline(always)]
            fn from_raw($raw: u64) -> Self {
                $from
            }
        }
    )*};
}
words! {
    u32, false, |x| u64::from(x), |raw| raw as u32;
    i32, false, |x| u64::from(x as u32), |raw| raw as i32;
    f32, false, |x| u64::from(x.to_bits()), |raw| f32::from_bits(raw as u32);
    u64, true, |x| x, |raw| raw;
    i64, true, |x| x as u64, |raw| raw as i64;
    f64, true, |x| x.to_bits(), |raw| f64::from_bits(raw);
}

macro_rules! reals {
    ($($ty:ident $fma:ident;)*) => {$(
        impl Real for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $ty::NEG_INFINITY;
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn fma(self, y: Self, z: Self) -> Self {
                super::math::$fma(self, y, z)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $ty::abs(self)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $ty::max(self, other)
            }
        }
    )*};
}
reals! {
    f32 fma_f32;
    f64 fma;
}

macro_rules! named {
    ($($ty:ident)*) => {$(
        impl Named for $ty {
            const NAME: &'static str = stringify!($ty);
        }
    )*};
}
named!(f32 f64 u16 u32 u64 i8 i16);

macro_rules! offsets {
    ($($ty:ident)*) => {$(
        impl Offset for $ty {
            const ZERO: Self = 0;
            #[inline(always)]
            fn to_usize(self) -> usize {
                self as usize
            }
            #[inline(always)]
            fn from_usize(index: usize) -> Self {
                index as $ty
            }
        }
    )*};
}
offsets!(u32 u64);
