//! Number types of kernels.

use super::elementary;
use super::half::{Bf16, E4m3, E5m2, F16};
use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A type whose values device memory may hold: it has no padding, and every bit pattern is valid. Structs [derive](derive@super::DeviceCopy) it.
///
/// ```
/// use warpkov_device::device::safe::{In, Len, Out};
/// use warpkov_device::device::{DeviceCopy, kernel};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// #[derive(Clone, Copy, DeviceCopy)]
/// #[repr(C, align(16))]
/// struct Particle {
///     velocity: [f32; 3],
///     mass: f32,
/// }
///
/// /// ½·m·|v|² of each particle.
/// #[kernel(safe)]
/// fn energy<'n>(n: Len<'n>, particles: In<'n, Particle>, out: Out<'n, f32>) {
///     if let Some(i) = n.element() {
///         let Particle { velocity: [x, y, z], mass } = particles.get(&i);
///         out.set(&i, 0.5 * mass * (x * x + y * y + z * z));
///     }
/// }
///
/// let device = Emulator::default();
/// let particles = device.upload(&[Particle { velocity: [3.0, 0.0, 4.0], mass: 2.0 }; 5])?;
/// let mut out = device.zeros(5)?;
/// energy(&device, Shape::new(1, 32), 5, &particles, &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [25.0; 5]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[cfg(not(target_arch = "nvptx64"))]
pub trait DeviceCopy: bytemuck::Pod + Send + Sync {}
#[cfg(not(target_arch = "nvptx64"))]
impl<T: bytemuck::Pod + Send + Sync> DeviceCopy for T {}

/// A type whose values device memory may hold: it has no padding, and every bit pattern is valid. Structs [derive](derive@super::DeviceCopy) it.
#[cfg(target_arch = "nvptx64")]
pub trait DeviceCopy: Copy + 'static {}
#[cfg(target_arch = "nvptx64")]
impl<T: Copy + 'static> DeviceCopy for T {}

/// A number of 1, 2, 4 or 8 bytes: an element of shared memory.
///
/// ```
/// use warpkov_device::device::Element;
///
/// /// The same number by way of its bits.
/// fn copy<T: Element>(x: T) -> T {
///     T::from_raw(x.to_raw())
/// }
///
/// assert_eq!((copy(-1_i8), copy(0.5_f64)), (-1, 0.5));
/// ```
pub trait Element: DeviceCopy {
    /// The bits, zero-extended.
    ///
    /// ```
    /// use warpkov_device::device::Element;
    ///
    /// assert_eq!((-1_i16).to_raw(), 0xffff);
    /// assert_eq!(1.0_f32.to_raw(), 0x3f80_0000);
    /// ```
    fn to_raw(self) -> u64;
    /// The number with the low bits of `raw`.
    ///
    /// ```
    /// use warpkov_device::device::Element;
    ///
    /// assert_eq!(i16::from_raw(0x1_ffff), -1);
    /// assert_eq!(f32::from_raw(0x3f80_0000), 1.0);
    /// ```
    fn from_raw(raw: u64) -> Self;
}

/// A number of 4 or 8 bytes: the unit of shuffles and atomic operations.
///
/// ```
/// use warpkov_device::device::Word;
///
/// assert!(f64::WIDE && !u32::WIDE);
/// ```
pub trait Word: Element + PartialEq + super::Parameter {
    /// True for 8 bytes.
    const WIDE: bool;
}

/// A type for which a kernel may be instantiated. The entry point's name ends in the type's name.
///
/// ```
/// use warpkov_device::device::Named;
///
/// fn entry<T: Named>(kernel: &str) -> String {
///     format!("{kernel}_{}", T::NAME)
/// }
///
/// assert_eq!(entry::<f64>("axpy"), "axpy_f64");
/// ```
pub trait Named {
    /// The name in Rust, such as `"f32"`.
    const NAME: &'static str;
}

/// The index of an element of a view, of shared memory or of an atomic cell: any of Rust's unsigned integers up to 64 bits, whichever the kernel
/// has.
///
/// Rust takes a literal whose type is open, as in `x.get(0)`, for an `i32`. So `i32` is one of these types, too; a negative index is out of
/// bounds.
///
/// ```
/// use warpkov_device::device::prelude::*;
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// /// x₀ + 2·xᵢ, where i is in 64 bits for `x` and in 32 for `out`.
/// #[kernel]
/// fn sums(x: Global<u32>, out: GlobalMut<u32>) {
///     out.set(thread::thread_idx_x(), x.get(0) + twice(x, thread::index_1d()));
/// }
///
/// fn twice(x: Global<u32>, i: impl AnyIndex) -> u32 {
///     2 * x.get(i)
/// }
///
/// let device = Emulator::default();
/// let (x, mut out) = (device.upload(&[1, 2, 3])?, device.zeros(3)?);
/// // SAFETY: all indices are within the buffers.
/// unsafe { sums(&device, Shape::new(1, 3), &x, &mut out)? };
/// assert_eq!(device.to_vec(&out)?, [3, 5, 7]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait AnyIndex: index::Convert {}

mod index {
    /// The conversions of an index. Safe kernels rely on them, so no type outside this crate has them.
    pub trait Convert: Copy {
        /// As an index of global memory. A negative number is beyond every buffer.
        fn wide(self) -> usize;
        /// As an index of shared memory, which has fewer than 2³² elements. On a GPU, the low bits; the emulator takes larger numbers for the
        /// largest, which is out of bounds.
        fn narrow(self) -> u32;
        /// Whether it is an index of an array of so many elements.
        fn is_below(self, len: u32) -> bool;
    }
}

macro_rules! indices {
    ($($($ty:ty),+: |$i:ident| $wide:expr, $narrow:expr, |$len:ident| $below:expr;)*) => {$($(
        impl AnyIndex for $ty {}

        impl index::Convert for $ty {
            #[inline(always)]
            fn wide(self) -> usize {
                let $i = self;
                $wide
            }
            #[inline(always)]
            fn narrow(self) -> u32 {
                let $i = self;
                $narrow
            }
            #[inline(always)]
            fn is_below(self, $len: u32) -> bool {
                let $i = self;
                $below
            }
        }
    )+)*};
}
// The types of the hardware are not converted: every conversion counts when the compiler decides what to inline.
indices! {
    u32: |i| i as usize, i, |len| i < len;
    usize: |i| i, low(i), |len| i < len as usize;
    u8, u16: |i| usize::from(i), i.into(), |len| u32::from(i) < len;
    u64: |i| i as usize, low(i as usize), |len| i < u64::from(len);
    i32: |i| i as usize, low(i as usize), |len| (i as u32) < len;
}

/// [`index::Convert::narrow`].
#[inline(always)]
fn low(i: usize) -> u32 {
    target! {
        nvptx => i as u32,
        emulated => u32::try_from(i).unwrap_or(u32::MAX),
    }
}

/// The integer type of row pointers of a sparse matrix: `u32`, or `u64` from 2³² nonzeros on.
///
/// ```
/// use warpkov_device::device::Offset;
///
/// /// Row pointers of rows of these lengths.
/// fn pointers<O: Offset>(lengths: &[usize]) -> Vec<O> {
///     let mut end = O::ZERO;
///     let ends = lengths.iter().map(|&length| {
///         end += O::from_usize(length);
///         end
///     });
///     [O::ZERO].into_iter().chain(ends).collect()
/// }
///
/// assert_eq!(pointers::<u64>(&[2, 0, 1]), [0, 2, 2, 3]);
/// ```
pub trait Offset: AnyIndex + Word + Named + PartialOrd + Add<Output = Self> + AddAssign {
    /// 0.
    const ZERO: Self;
    /// The value as an index.
    ///
    /// ```
    /// use warpkov_device::device::Offset;
    ///
    /// assert_eq!(7_u64.to_usize(), 7);
    /// ```
    fn to_usize(self) -> usize;
    /// The value of an index. The index must fit.
    ///
    /// ```
    /// use warpkov_device::device::Offset;
    ///
    /// assert_eq!(u64::from_usize(1 << 40), 1 << 40);
    /// ```
    fn from_usize(index: usize) -> Self;
}

/// The floating-point type of a kernel's instance: `f32` or `f64`.
///
/// The emulator and a GPU compute the same bits of every function here (of NaN, the payload may differ). An error of 1 ulp is
/// the distance of two neighbouring numbers of the type at the result.
///
/// In a kernel that is generic over the type, `x.ln()` is the function of this trait. If the type is known, write
/// `Real::ln(x)`: on the host, `x.ln()` is the function of `std`, whose last bit may differ.
///
/// Methods of `std` that this trait lacks, such as `powi`, `floor`, `mul_add`, `sin_cos` and `tan`, do not compile for the GPU, though they do
/// for the host. Write `Real::fma(x, y, z)` for `x.mul_add(y, z)`, `Real::pow(x, y)` for `x.powf(y)`, products for `x.powi(3)`, and
/// `(Real::sin(x), Real::cos(x))` for `x.sin_cos()`. Those of `core` work on both: `abs`, `max`, `min`, `clamp`, `copysign`, `signum`, `recip`.
///
/// ```
/// use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// /// y = erf (ln x + cos x): all threads.
/// #[kernel(T = [f32, f64])]
/// fn compute<T: Real>(x: Global<T>, y: GlobalMut<T>) {
///     let i = thread::index_1d();
///     let x = x.get(i);
///     y.set(i, (x.ln() + x.cos()).erf());
/// }
///
/// let device = Emulator::default();
/// let (x, mut y) = (device.upload(&[1.0, 2.0])?, device.zeros(2)?);
/// // SAFETY: both vectors have an element per thread.
/// unsafe { compute(&device, Shape::new(1, 2), &x, &mut y)? };
/// let y = device.to_vec(&y)?;
/// assert_eq!(y[0], Real::erf(1_f64.cos()));
/// assert!((y[1] - 0.304748).abs() < 1e-6);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Real:
    super::safe::Safe
    + Word
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
    /// x rounded to the nearest number of this type.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert_eq!(<f32 as Real>::from_f64(0.1), 0.1_f32);
    /// ```
    fn from_f64(x: f64) -> Self;
    /// The same number as f64, exactly.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert_eq!(0.5_f32.to_f64(), 0.5_f64);
    /// ```
    fn to_f64(self) -> f64;
    /// `self`·`y` + `z`, rounded once.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// // 0.1 in f64 is more than 1/10.
    /// assert_eq!(0.1_f64.fma(10.0, -1.0), 2_f64.powi(-54));
    /// ```
    fn fma(self, y: Self, z: Self) -> Self;
    /// |x|.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert_eq!(Real::abs(-2.5_f32), 2.5);
    /// ```
    fn abs(self) -> Self;
    /// The larger of the two; if one is NaN, the other.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert_eq!(Real::max(1.5_f64, f64::NAN), 1.5);
    /// ```
    fn max(self, other: Self) -> Self;
    /// √x, rounded to the nearest number.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert_eq!(Real::sqrt(2.25_f64), 1.5);
    /// ```
    fn sqrt(self) -> Self;
    /// 1/√x to within 2 ulp: √x and the quotient are rounded.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert_eq!(4.0_f32.rsqrt(), 0.5);
    /// ```
    fn rsqrt(self) -> Self;
    /// eˣ to within 1 ulp, for all x.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert!((Real::exp(1.0_f64) - std::f64::consts::E).abs() < 1e-15);
    /// ```
    fn exp(self) -> Self;
    /// 2ˣ to within 1 ulp, for all x; exact for integers.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert_eq!(Real::exp2(-3.0_f64), 0.125);
    /// ```
    fn exp2(self) -> Self;
    /// ln x to within 1 ulp; −∞ for ±0 and NaN for x < 0.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert!((Real::ln(10.0_f64) - std::f64::consts::LN_10).abs() < 1e-15);
    /// assert!(Real::ln(-1.0_f64).is_nan());
    /// ```
    fn ln(self) -> Self;
    /// log₂ x to within 1 ulp; exact for powers of 2, −∞ for ±0 and NaN for x < 0.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert_eq!(Real::log2(0.125_f32), -3.0);
    /// ```
    fn log2(self) -> Self;
    /// sin x to within 1 ulp, for all x; NaN for ±∞. Beyond π/4, x is reduced by an integer product with 2/π.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert!((Real::sin(1e22_f64) + 0.8522008497671888).abs() < 1e-15);
    /// ```
    fn sin(self) -> Self;
    /// cos x to within 1 ulp, as [`sin`](Self::sin).
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert!((Real::cos(std::f64::consts::FRAC_PI_3) - 0.5).abs() < 1e-15);
    /// ```
    fn cos(self) -> Self;
    /// tanh x to within 1 ulp.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert!((Real::tanh(0.5_f64) - 0.46211715726000975).abs() < 1e-15);
    /// ```
    fn tanh(self) -> Self;
    /// xʸ to within 1 ulp in f32 and 2 ulp in f64. Special cases are those of `pow` in C and of `powf` in Rust: 1 for y = 0 and for x = 1, NaN for
    /// x < 0 unless y is an integer.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert!((Real::pow(2.0_f64, 0.5) - std::f64::consts::SQRT_2).abs() < 1e-15);
    /// assert_eq!(Real::pow(-2.0_f64, 3.0), -8.0);
    /// ```
    fn pow(self, y: Self) -> Self;
    /// erf x = 2/√π ∫₀ˣ exp(−t²) dt to within 1 ulp in f32 and 2 ulp in f64.
    ///
    /// ```
    /// use warpkov_device::device::Real;
    ///
    /// assert!((Real::erf(0.5_f64) - 0.5204998778130465).abs() < 1e-15);
    /// ```
    fn erf(self) -> Self;
}

macro_rules! elements {
    ($($ty:ty, |$x:ident| $to:expr, |$raw:ident| $from:expr;)*) => {$(
        impl Element for $ty {
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
elements! {
    u8, |x| u64::from(x), |raw| raw as u8;
    i8, |x| u64::from(x as u8), |raw| raw as i8;
    u16, |x| u64::from(x), |raw| raw as u16;
    i16, |x| u64::from(x as u16), |raw| raw as i16;
    u32, |x| u64::from(x), |raw| raw as u32;
    i32, |x| u64::from(x as u32), |raw| raw as i32;
    f32, |x| u64::from(x.to_bits()), |raw| f32::from_bits(raw as u32);
    u64, |x| x, |raw| raw;
    i64, |x| x as u64, |raw| raw as i64;
    f64, |x| x.to_bits(), |raw| f64::from_bits(raw);
    F16, |x| u64::from(x.to_bits()), |raw| F16::from_bits(raw as u16);
    Bf16, |x| u64::from(x.to_bits()), |raw| Bf16::from_bits(raw as u16);
    E4m3, |x| u64::from(x.to_bits()), |raw| E4m3::from_bits(raw as u8);
    E5m2, |x| u64::from(x.to_bits()), |raw| E5m2::from_bits(raw as u8);
}

macro_rules! words {
    ($($ty:ty)*) => {$(
        impl Word for $ty {
            const WIDE: bool = size_of::<$ty>() == 8;
        }
    )*};
}
words!(u32 i32 f32 u64 i64 f64);

macro_rules! reals {
    ($($ty:ident $fma:ident $sqrt:ident; [$($function:ident)*])*) => {$(
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
            #[inline(always)]
            fn sqrt(self) -> Self {
                target! { nvptx => core::intrinsics::$sqrt(self), emulated => $ty::sqrt(self) }
            }
            #[inline(always)]
            fn rsqrt(self) -> Self {
                1.0 / Real::sqrt(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                elementary::exp(self, 0.0)
            }
            #[inline(always)]
            fn pow(self, y: Self) -> Self {
                elementary::pow(self, y)
            }
            $(
                #[inline(always)]
                fn $function(self) -> Self {
                    elementary::$function(self)
                }
            )*
        }
    )*};
}
reals! {
    f32 fma_f32 sqrtf32; [exp2 ln log2 sin cos tanh erf]
    f64 fma sqrtf64; [exp2 ln log2 sin cos tanh erf]
}

macro_rules! named {
    ($($ty:ident)*) => {$(
        impl Named for $ty {
            const NAME: &'static str = stringify!($ty);
        }
    )*};
}
named!(f32 f64 u8 u16 u32 u64 i8 i16 i32 i64 F16 Bf16 E4m3 E5m2);

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
