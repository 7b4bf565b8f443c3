//! Floating-point numbers of 2 bytes and of 1 byte, and pairs of the former, which the GPU computes by one instruction.
//!
//! | type | bits: sign, exponent, fraction | largest number | beyond it |
//! | --- | --- | --- | --- |
//! | [`F16`] | 1, 5, 10 (IEEE 754 binary16) | 65504 | ±∞ |
//! | [`Bf16`] | 1, 8, 7 | 3.39·10³⁸ | ±∞ |
//! | [`E5m2`] | 1, 5, 2 | 57344 | the largest number |
//! | [`E4m3`] | 1, 4, 3; no ∞ | 448 | the largest number |
//!
//! Their conversions from f32 round to the nearest number, ties to even. The other direction is exact. The functions
//! [`from_f32`] and [`to_f32`] are for f16 as a `u16` of its bits, without ∞ and NaN.
//!
//! ```
//! use warpkov_device::device::half::{Bf16, E4m3, F16x2};
//! use warpkov_device::device::prelude::*;
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Device, Shape};
//!
//! /// z = x·y + z in pairs of f16, and x in 8 bits.
//! #[kernel]
//! fn multiply(x: Global<F16x2>, y: Global<F16x2>, z: GlobalMut<F16x2>, small: GlobalMut<E4m3>) {
//!     let tile = shared_array!(tile: E4m3; 64);
//!     let t = thread::thread_idx_x();
//!     let i = t as usize;
//!     z.set(i, x.get(i).fma(y.get(i), z.get(i)));
//!     tile.set(2 * t, E4m3::from_f32(x.get(i).low().to_f32()));
//!     tile.set(2 * t + 1, E4m3::from_f32(x.get(i).high().to_f32()));
//!     thread::sync_threads();
//!     small.set(2 * i, tile.get(2 * t));
//!     small.set(2 * i + 1, tile.get(2 * t + 1));
//! }
//!
//! let device = Emulator::default();
//! let pairs = |low, high| device.upload(&[F16x2::from_f32(low, high); 32]);
//! let (x, y, mut z) = (pairs(3.0, 500.0)?, pairs(0.5, 2.0)?, pairs(0.25, 1.0)?);
//! let mut small = device.zeros::<E4m3>(64)?;
//! // SAFETY: the pairs have one element per thread, and `small` two.
//! unsafe { multiply(&device, Shape::new(1, 32), &x, &y, &mut z, &mut small)? };
//! assert_eq!(device.to_vec(&z)?[31], F16x2::from_f32(1.75, 1001.0));
//! assert_eq!(device.to_vec(&small)?[..2].iter().map(|x| x.to_f32()).collect::<Vec<_>>(), [3.0, 448.0]);
//! assert_eq!(Bf16::from_f32(1.0 / 3.0).to_f32(), 0.333984375);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

use core::ops::{Add, Mul};

/// The largest finite f16.
pub const LARGEST: f32 = 65_504.0;

/// The f16 nearest to x, ties to even. Beyond ±[`LARGEST`] the result is ±`LARGEST`, never infinite.
///
/// ```
/// use warpkov_device::device::half;
///
/// assert_eq!(half::from_f32(1.0), 0x3c00);
/// assert_eq!(half::from_f32(-1e6), 0xfbff);
/// ```
#[inline(always)]
#[must_use]
pub fn from_f32(x: f32) -> u16 {
    let x = x.clamp(-LARGEST, LARGEST);
    target! {
        nvptx => {
            let bits: u16;
            // SAFETY: only registers are read and written.
            unsafe {
                core::arch::asm!("cvt.rn.f16.f32 {}, {};", out(reg16) bits, in(reg32) x,
                                 options(pure, nomem, nostack, preserves_flags));
            }
            bits
        },
        emulated => {
            let (sign, size) = ((x.to_bits() >> 16) as u16 & 0x8000, x.abs());
            // |x| in units of the spacing of f16 numbers at x, which is 2⁻²⁴ below 2⁻¹⁴.
            let exponent = ((size.to_bits() >> 23) as i32 - 127).max(-14);
            let count = (f64::from(size) * 2f64.powi(10 - exponent)).round_ties_even() as u32;
            sign | (((exponent + 14) as u32) * 1024 + count) as u16
        },
    }
}

/// The value of a finite f16; f32 represents it exactly.
///
/// ```
/// use warpkov_device::device::half;
///
/// assert_eq!(half::to_f32(0x3c00), 1.0);
/// assert_eq!(half::to_f32(0x7bff), half::LARGEST);
/// ```
#[inline(always)]
#[must_use]
pub fn to_f32(bits: u16) -> f32 {
    let (exponent, fraction) = (u32::from(bits) >> 10 & 31, u32::from(bits) & 1023);
    let sign = u32::from(bits & 0x8000) << 16;
    if exponent == 0 {
        return f32::from_bits(sign | (fraction as f32 / 16_777_216.0).to_bits());
    }
    f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13)
}

/// The bits of |x|, rounded to the nearest number with an exponent of `exponent` bits and a fraction of `fraction` bits, ties
/// to even, as if the exponent were not limited. x is not NaN.
#[inline(always)]
const fn rounded(x: f32, exponent: u32, fraction: u32) -> u32 {
    let bits = x.to_bits() & 0x7fff_ffff;
    let bias = (1 << (exponent - 1)) - 1;
    let (of_x, least) = (bits >> 23, 128 - bias);
    // Below the normal numbers the spacing is that of the least one.
    let (bits, shift, offset) = if of_x < least {
        let (significand, of_x) = if of_x == 0 { (bits, 1) } else { (bits & 0x7f_ffff | 0x80_0000, of_x) };
        let shift = 23 - fraction + (least - of_x);
        (significand, if shift > 31 { 31 } else { shift }, 0)
    } else {
        (bits, 23 - fraction, (127 - bias) << fraction)
    };
    ((bits + ((1 << shift) / 2 - 1 + (bits >> shift & 1))) >> shift) - offset
}

/// The number of these bits, if its exponent does not stand for ∞ and NaN.
#[inline(always)]
fn value(bits: u32, exponent: u32, fraction: u32) -> f32 {
    let bias = (1 << (exponent - 1)) - 1;
    let sign = bits >> (exponent + fraction) << 31;
    let size = bits & ((1 << (exponent + fraction)) - 1);
    let size = if size >> fraction == 0 {
        // 2^(1 − bias − fraction), the least positive number.
        let exponent = 128 - bias - fraction as i32;
        let least = if exponent > 0 { (exponent as u32) << 23 } else { 1 << (22 + exponent) };
        (size as f32 * f32::from_bits(least)).to_bits()
    } else {
        (size << (23 - fraction)) + (((127 - bias) as u32) << 23)
    };
    f32::from_bits(sign | size)
}

macro_rules! small_floats {
    ($($(#[$doc:meta])* $ty:ident: $bits:ident, $exponent:literal, $fraction:literal, $largest:literal, $beyond:literal,
       $nan:literal, |$x:ident| $convert:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub struct $ty($bits);

        // SAFETY: it is a number that any bits stand for.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl bytemuck::Zeroable for $ty {}
        // SAFETY: as above.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl bytemuck::Pod for $ty {}

        impl $ty {
            /// The largest finite number.
            pub const MAX: Self = Self($largest);

            /// The number of these bits.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::", stringify!($ty), ";")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_bits(", stringify!($largest), "), ", stringify!($ty), "::MAX);")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub const fn from_bits(bits: $bits) -> Self {
                Self(bits)
            }

            /// Its bits.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::", stringify!($ty), ";")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::MAX.to_bits(), ", stringify!($largest), ");")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub const fn to_bits(self) -> $bits {
                self.0
            }

            /// The number nearest to x, ties to even; numbers beyond the largest one as the module says.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::", stringify!($ty), ";")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(1.500001).to_f32(), 1.5);")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub fn from_f32($x: f32) -> Self {
                target! { nvptx => Self($convert), emulated => Self::rounded($x) }
            }

            /// [`from_f32`](Self::from_f32) by integer operations.
            #[inline(always)]
            #[allow(dead_code)]
            fn rounded(x: f32) -> Self {
                if x.is_nan() {
                    return Self($nan);
                }
                let size = rounded(x, $exponent, $fraction);
                let size = if size > $largest { $beyond } else { size as $bits };
                Self(size | ((x.to_bits() >> 31) as $bits) << ($bits::BITS - 1))
            }

            /// The same number, exactly.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::", stringify!($ty), ";")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(-0.75).to_f32(), -0.75);")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub fn to_f32(self) -> f32 {
                let size = self.0 & ($bits::MAX >> 1);
                if size <= $largest {
                    value(self.0.into(), $exponent, $fraction)
                } else if size == $largest + 1 && size != $nan {
                    if size == self.0 { f32::INFINITY } else { f32::NEG_INFINITY }
                } else {
                    f32::NAN
                }
            }
        }

        impl From<$ty> for f32 {
            #[inline(always)]
            fn from(x: $ty) -> f32 {
                x.to_f32()
            }
        }

        impl PartialEq for $ty {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $ty {
            #[inline(always)]
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl core::fmt::Debug for $ty {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(&self.to_f32(), f)
            }
        }
    )*};
}

/// The bits of x by one conversion instruction.
#[cfg(target_arch = "nvptx64")]
macro_rules! converted {
    ($instruction:literal, $x:expr) => {{
        let bits: u16;
        // SAFETY: only registers are read and written.
        unsafe {
            core::arch::asm!(concat!($instruction, " {}, {};"), out(reg16) bits, in(reg32) $x,
                             options(pure, nomem, nostack, preserves_flags));
        }
        bits
    }};
}

small_floats! {
    /// A number of 16 bits with an exponent of 5 bits, of the size of [`E5m2`] and more precise (IEEE 754 binary16).
    ///
    /// ```
    /// use warpkov_device::device::half::F16;
    ///
    /// assert_eq!(F16::from_f32(0.1).to_f32(), 0.099975586);
    /// assert_eq!(F16::from_f32(1e6).to_f32(), f32::INFINITY);
    /// ```
    F16: u16, 5, 10, 0x7bff, 0x7c00, 0x7fff, |x| converted!("cvt.rn.f16.f32", x);
    /// A number of 16 bits with the exponent of f32 (bfloat16).
    ///
    /// ```
    /// use warpkov_device::device::half::Bf16;
    ///
    /// assert_eq!(Bf16::from_f32(0.1).to_f32(), 0.10009765625);
    /// assert!(Bf16::from_f32(1e30).to_f32().is_finite());
    /// ```
    Bf16: u16, 8, 7, 0x7f7f, 0x7f80, 0x7fff, |x| converted!("cvt.rn.bf16.f32", x);
    /// A number of 8 bits with an exponent of 4 bits.
    ///
    /// ```
    /// use warpkov_device::device::half::E4m3;
    ///
    /// assert_eq!(E4m3::from_f32(0.1).to_f32(), 0.1015625);
    /// assert_eq!(E4m3::from_f32(1e6), E4m3::MAX);
    /// ```
    E4m3: u8, 4, 3, 0x7e, 0x7e, 0x7f, |x| Self::rounded(x).0;
    /// A number of 8 bits with an exponent of 5 bits.
    ///
    /// ```
    /// use warpkov_device::device::half::E5m2;
    ///
    /// assert_eq!(E5m2::from_f32(0.1).to_f32(), 0.09375);
    /// assert_eq!(E5m2::from_f32(1e6), E5m2::MAX);
    /// ```
    E5m2: u8, 5, 2, 0x7b, 0x7b, 0x7f, |x| Self::rounded(x).0;
}

/// a·b + c such that rounding it to at most 20 bits rounds once: if it is inexact, its last bit is 1.
#[cfg(not(target_arch = "nvptx64"))]
fn fma_to_odd(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let (of_c, of_product) = (sum - product, sum - (sum - product));
    let error = (product - of_product) + (c - of_c);
    let sum = if error == 0.0 || error.is_nan() || sum.to_bits() & 1 == 1 {
        sum
    } else if error > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    };
    let narrow = sum as f32;
    match f64::from(narrow).partial_cmp(&sum) {
        Some(core::cmp::Ordering::Less) if narrow.to_bits() & 1 == 0 => narrow.next_up(),
        Some(core::cmp::Ordering::Greater) if narrow.to_bits() & 1 == 0 && narrow.is_finite() => narrow.next_down(),
        _ => narrow,
    }
}

macro_rules! pairs {
    ($($(#[$doc:meta])* $ty:ident of $half:ident, $fma:literal, $one:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq)]
        #[cfg_attr(not(target_arch = "nvptx64"), derive(Debug))]
        #[repr(C, align(4))]
        pub struct $ty([$half; 2]);

        // SAFETY: it consists of two numbers, without padding.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl bytemuck::Zeroable for $ty {}
        // SAFETY: as above.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl bytemuck::Pod for $ty {}

        impl $ty {
            /// The pair of two numbers.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::{", stringify!($half), ", ", stringify!($ty), "};")]
            #[doc = concat!("let pair = ", stringify!($ty), "::new(", stringify!($half), "::from_f32(1.5), ", stringify!($half), "::MAX);")]
            #[doc = concat!("assert_eq!(pair.high(), ", stringify!($half), "::MAX);")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub const fn new(low: $half, high: $half) -> Self {
                Self([low, high])
            }

            /// The pair of the numbers nearest to these.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::{", stringify!($half), ", ", stringify!($ty), "};")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(1.5, -2.0).high().to_f32(), -2.0);")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub fn from_f32(low: f32, high: f32) -> Self {
                Self([$half::from_f32(low), $half::from_f32(high)])
            }

            /// The pair of these bits: the first number is in the low half.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::{", stringify!($half), ", ", stringify!($ty), "};")]
            #[doc = concat!("let pair = ", stringify!($ty), "::from_bits(0x3f80_8000);")]
            /// assert_eq!(pair.high().to_bits(), 0x3f80);
            /// ```
            #[inline(always)]
            #[must_use]
            pub const fn from_bits(bits: u32) -> Self {
                Self([$half(bits as u16), $half((bits >> 16) as u16)])
            }

            /// Its bits.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::{", stringify!($half), ", ", stringify!($ty), "};")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_bits(0x3f80_8000).to_bits(), 0x3f80_8000);")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub const fn to_bits(self) -> u32 {
                self.0[0].0 as u32 | (self.0[1].0 as u32) << 16
            }

            /// The first number.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::{", stringify!($half), ", ", stringify!($ty), "};")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(1.5, -2.0).low(), ", stringify!($half), "::from_f32(1.5));")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub const fn low(self) -> $half {
                self.0[0]
            }

            /// The second number.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::{", stringify!($half), ", ", stringify!($ty), "};")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(1.5, -2.0).high(), ", stringify!($half), "::from_f32(-2.0));")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub const fn high(self) -> $half {
                self.0[1]
            }

            /// `self`·`y` + `z`, rounded once, number by number: one instruction.
            ///
            /// ```
            #[doc = concat!("# use warpkov_device::device::half::{", stringify!($half), ", ", stringify!($ty), "};")]
            #[doc = concat!("let [x, y, z] = [(1.5, 3.0), (2.0, 0.5), (0.25, 1.0)].map(|(low, high)| ", stringify!($ty), "::from_f32(low, high));")]
            #[doc = concat!("assert_eq!(x.fma(y, z), ", stringify!($ty), "::from_f32(3.25, 2.5));")]
            /// ```
            #[inline(always)]
            #[must_use]
            pub fn fma(self, y: Self, z: Self) -> Self {
                target! {
                    nvptx => {
                        let bits: u32;
                        // SAFETY: only registers are read and written.
                        unsafe {
                            core::arch::asm!(concat!($fma, " {}, {}, {}, {};"), out(reg32) bits, in(reg32) self.to_bits(),
                                             in(reg32) y.to_bits(), in(reg32) z.to_bits(),
                                             options(pure, nomem, nostack, preserves_flags));
                        }
                        Self::from_bits(bits)
                    },
                    emulated => Self([0, 1].map(|k| {
                        let [x, y, z] = [self, y, z].map(|pair| pair.0[k].to_f32());
                        $half::rounded(fma_to_odd(x, y, z))
                    })),
                }
            }
        }

        impl Add for $ty {
            type Output = Self;
            /// The sums, rounded once: one instruction.
            #[inline(always)]
            fn add(self, y: Self) -> Self {
                const ONES: $ty = $ty([$half($one); 2]);
                self.fma(ONES, y)
            }
        }

        impl Mul for $ty {
            type Output = Self;
            /// The products, rounded once: one instruction.
            #[inline(always)]
            fn mul(self, y: Self) -> Self {
                // −0 keeps the sign of a product that is 0.
                const ZEROS: $ty = $ty([$half(0x8000); 2]);
                self.fma(y, ZEROS)
            }
        }
    )*};
}
pairs! {
    /// Two [`F16`] in a word.
    ///
    /// ```
    /// use warpkov_device::device::half::{F16, F16x2};
    ///
    /// let pair = F16x2::from_f32(1.5, -2.0) + F16x2::from_f32(1.0, 1.0);
    /// assert_eq!((pair.low(), pair.high()), (F16::from_f32(2.5), F16::from_f32(-1.0)));
    /// ```
    F16x2 of F16, "fma.rn.f16x2", 0x3c00;
    /// Two [`Bf16`] in a word.
    ///
    /// ```
    /// use warpkov_device::device::half::{Bf16, Bf16x2};
    ///
    /// let pair = Bf16x2::from_f32(1.5, -2.0) * Bf16x2::from_f32(2.0, 0.5);
    /// assert_eq!((pair.low(), pair.high()), (Bf16::from_f32(3.0), Bf16::from_f32(-1.0)));
    /// ```
    Bf16x2 of Bf16, "fma.rn.bf16x2", 0x3f80;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known values, ties to even, and the round trip of every finite f16.
    #[test]
    fn conversions_agree_with_ieee_754() {
        for (x, bits) in [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65_504.0, 0x7bff),
            (6.103_515_6e-5, 0x0400),
            (5.960_464_5e-8, 0x0001),
            (0.333_251_95, 0x3555),
            (1.0 + 2f32.powi(-11), 0x3c00),
            (1.0 + 3.0 * 2f32.powi(-11), 0x3c02),
            (2f32.powi(-25), 0x0000),
            (1.0e6, 0x7bff),
            (0.0, 0x0000),
        ] {
            assert_eq!(from_f32(x), bits, "{x}");
        }
        for bits in (0..=0x7bffu16).chain(0x8000..=0xfbff) {
            assert_eq!(from_f32(to_f32(bits)), bits, "{bits:#x}");
        }
    }

    /// Every number of a format, against its definition; its conversion back; and the numbers half-way between neighbours, and
    /// on both sides of them.
    macro_rules! exhaustive {
        ($($name:ident: $ty:ident, $bits:ident, $exponent:literal, $fraction:literal, $saturates:literal;)*) => {$(
            #[test]
            fn $name() {
                let bias = (1 << ($exponent - 1)) - 1;
                let exact = |size: $bits| {
                    let (exponent, fraction) = ((size >> $fraction) as i32, f64::from(size & ((1 << $fraction) - 1)));
                    let (lead, exponent) = if exponent == 0 { (0.0, 1) } else { (1.0, exponent) };
                    (lead + fraction / 2f64.powi($fraction)) * 2f64.powi(exponent - bias)
                };
                let largest = $ty::MAX.to_bits();
                for size in 0..=largest {
                    for sign in [0, 1 << ($bits::BITS - 1)] {
                        let (x, signum) = ($ty::from_bits(size | sign), if sign == 0 { 1.0 } else { -1.0 });
                        let wide = x.to_f32();
                        assert_eq!(f64::from(wide), signum * exact(size));
                        assert_eq!(wide.is_sign_negative(), sign != 0);
                        assert_eq!($ty::from_f32(wide).to_bits(), size | sign);
                        let half = (signum * (exact(size) + exact(size + 1)) / 2.0) as f32;
                        let beyond = if size == largest && $saturates { size } else { size + 1 };
                        let even = if size % 2 == 0 { size } else { beyond };
                        let (inner, outer) = if sign == 0 { (half.next_down(), half.next_up()) } else { (half.next_up(), half.next_down()) };
                        for (x, expected) in [(inner, size), (half, even), (outer, beyond)] {
                            assert_eq!($ty::from_f32(x).to_bits(), expected | sign, "{x:e}");
                        }
                    }
                }
                assert!($ty::from_f32(f32::NAN).to_f32().is_nan());
                let infinite = $ty::from_f32(f32::NEG_INFINITY).to_f32();
                assert_eq!(infinite, if $saturates { -$ty::MAX.to_f32() } else { f32::NEG_INFINITY });
                for size in largest..=$bits::MAX >> 1 {
                    let x = $ty::from_bits(size).to_f32();
                    assert_eq!(x.is_nan(), size > largest && !(size == largest + 1 && $exponent != 4), "{size:x}");
                }
            }
        )*};
    }
    exhaustive! {
        all_f16: F16, u16, 5, 10, false;
        all_bf16: Bf16, u16, 8, 7, false;
        all_e4m3: E4m3, u8, 4, 3, true;
        all_e5m2: E5m2, u8, 5, 2, true;
    }

    /// Sums and products of any two numbers in f64 are exact, or nearly so; the conversion from there must round once.
    #[test]
    fn pairs_round_once() {
        let mut state = 7_u64;
        let mut bits = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        // The nearest number, by the distances of all candidates, in integers: units of 2⁻¹⁴⁰.
        for _ in 0..200_000 {
            let [a, b, c] = [0; 3].map(|_| F16x2::from_bits(bits() & 0xbfff_bfff));
            let [x, y, z] = [a, b, c].map(|pair| pair.low().to_f32());
            let unit = 2f64.powi(48);
            let fixed = |x: f64| (x * unit) as i128;
            let exact = fixed(f64::from(x) * f64::from(y)) + fixed(z.into());
            let found = a.fma(b, c).low();
            let distance = |x: F16| (fixed(x.to_f32().into()) - exact).unsigned_abs();
            for neighbour in [found.to_bits().wrapping_sub(1), found.to_bits() + 1].map(F16::from_bits) {
                let nearer = distance(found) < distance(neighbour);
                let tie = distance(found) == distance(neighbour) && found.to_bits() % 2 == 0;
                assert!(
                    nearer || tie || !found.to_f32().is_finite() || !neighbour.to_f32().is_finite(),
                    "{a:?} {b:?} {c:?}"
                );
            }
        }
        let pair = |x: f32| F16x2::from_f32(x, -x);
        assert_eq!(pair(3.0) * pair(0.5), F16x2::from_f32(1.5, 1.5));
        assert_eq!(pair(3.0) + pair(0.5), pair(3.5));
        assert_eq!((pair(0.0) * pair(-1.0)).to_bits(), 0x8000_8000);
        // 1 + 2⁻⁸ is half-way between neighbours; a term far below decides.
        let one = Bf16x2::from_f32(1.0, 1.0);
        let (half, little) = (Bf16x2::from_f32(2f32.powi(-8), 1.0), 2f32.powi(-100));
        assert_eq!((one + half).low().to_f32(), 1.0);
        let small = Bf16x2::from_f32(1.0 + 2f32.powi(-7), 0.0);
        let product = small.fma(half, Bf16x2::from_f32(1.0 - 2f32.powi(-8), 0.0));
        assert_eq!(product.low().to_f32(), 1.0);
        assert_eq!(Bf16x2::from_f32(little, 0.0).fma(Bf16x2::from_f32(little, 0.0), one).low().to_f32(), 1.0);
    }
}
