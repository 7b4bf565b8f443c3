//! Fused multiply-add, the exponential, and the approximate functions of the special function unit.
//!
//! [`Real`](super::Real) has the exponential for all arguments, logarithms, powers, trigonometric functions, tanh, erf and
//! roots, in both precisions.
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel(safe)]
//! fn bell(out: PerThread<f32>) {
//!     let x = thread::thread_idx_x() as f32;
//!     out.set(math::exp2_approx(math::fma_f32(x, -x, 1.0)));
//! }
//!
//! # let device = Emulator::default();
//! # let mut out = device.zeros(32)?;
//! bell(&device, Shape::new(1, 32), &mut out)?;
//! assert_eq!(device.to_vec(&out)?[..3], [2.0, 1.0, 0.125]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// x·y + z, rounded once, in f32. One instruction on the GPU.
///
/// ```
/// use warpkov_device::device::math;
///
/// // 0.1 in f32 is more than 1/10.
/// assert_eq!(math::fma_f32(0.1, 10.0, -1.0), 2_f32.powi(-26));
/// ```
#[inline(always)]
#[must_use]
pub fn fma_f32(x: f32, y: f32, z: f32) -> f32 {
    target! { nvptx => core::intrinsics::fmaf32(x, y, z), emulated => x.mul_add(y, z) }
}

/// x·y + z, rounded once, in f64. One instruction on the GPU.
///
/// ```
/// use warpkov_device::device::math;
///
/// // 0.1 in f64 is more than 1/10.
/// assert_eq!(math::fma(0.1, 10.0, -1.0), 2_f64.powi(-54));
/// ```
#[inline(always)]
#[must_use]
pub fn fma(x: f64, y: f64, z: f64) -> f64 {
    target! { nvptx => core::intrinsics::fmaf64(x, y, z), emulated => x.mul_add(y, z) }
}

/// x, computed at this point. Without this call, the compiler may move the computation into the one branch that needs
/// x, and then keeps all operands in registers until the branch.
///
/// ```
/// use warpkov_device::device::math;
///
/// assert_eq!(math::settled(7), 7);
/// ```
#[inline(always)]
#[must_use]
pub fn settled(x: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y: u32;
        // SAFETY: the instruction copies one register to another.
        unsafe { asm!("mov.u32 {}, {};", out(reg32) y, in(reg32) x, options(nomem, nostack, preserves_flags)) };
        y
    }
    #[cfg(not(target_arch = "nvptx64"))]
    x
}

/// eˣ for x ≤ 1, to within 2 ulp. 0 for x ≤ −708, near the smallest normal number, and for NaN.
/// [`Real::exp`](super::Real::exp) takes all arguments, and keeps NaN and subnormal results.
///
/// x = k ln 2 + r with |r| ≤ ½ ln 2, and eʳ by its Taylor polynomial of degree 13, with a remainder below 5·10⁻¹⁸.
///
/// ```
/// use warpkov_device::device::math;
///
/// assert!((math::exp(1.0) - std::f64::consts::E).abs() < 1e-15);
/// assert_eq!(math::exp(-1000.0), 0.0);
/// ```
#[inline(always)]
#[must_use]
pub fn exp(x: f64) -> f64 {
    const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN_2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
    /// 1.5·2⁵²: adding and then subtracting it rounds to the nearest integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;

    if x.is_nan() || x <= -708.0 {
        return 0.0;
    }
    let k = fma(x, core::f64::consts::LOG2_E, ROUND) - ROUND;
    let r = fma(-k, LN_2_LOW, fma(-k, LN_2_HIGH, x));
    let (mut sum, mut power) = (1.0, 13);
    while power > 0 {
        sum = fma(sum * r, 1.0 / f64::from(power), 1.0);
        power -= 1;
    }
    sum * f64::from_bits(((1023 + k as i64) as u64) << 52)
}

macro_rules! approximate {
    ($($(#[$doc:meta])* $name:ident = $instruction:literal, |$x:ident| $emulated:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name($x: f32) -> f32 {
            target! {
                nvptx => {
                    let y: f32;
                    // SAFETY: the instruction reads one register and writes another.
                    unsafe {
                        asm!(concat!($instruction, " {}, {};"), out(reg32) y, in(reg32) $x,
                             options(pure, nomem, nostack, preserves_flags));
                    }
                    y
                },
                emulated => $emulated,
            }
        }
    )*};
}

approximate! {
    /// 2ˣ to within 2 ulp (`ex2.approx.f32`). The emulator computes these functions with the host's `std`.
    ///
    /// ```
    /// use warpkov_device::device::math;
    ///
    /// assert!((math::exp2_approx(3.0) - 8.0).abs() < 1e-6);
    /// ```
    exp2_approx = "ex2.approx.f32", |x| x.exp2();
    /// log₂ x (`lg2.approx.f32`): absolute error at most 2⁻²² for x in (0.5, 2), otherwise relative error at most 2⁻²².
    ///
    /// ```
    /// use warpkov_device::device::math;
    ///
    /// assert!((math::log2_approx(8.0) - 3.0).abs() < 1e-6);
    /// ```
    log2_approx = "lg2.approx.f32", |x| x.log2();
    /// 1/x to within 1 ulp (`rcp.approx.f32`).
    ///
    /// ```
    /// use warpkov_device::device::math;
    ///
    /// assert!((math::reciprocal_approx(4.0) - 0.25).abs() < 1e-6);
    /// ```
    reciprocal_approx = "rcp.approx.f32", |x| 1.0 / x;
    /// 1/√x with relative error at most 2⁻²²·⁹ (`rsqrt.approx.f32`).
    ///
    /// ```
    /// use warpkov_device::device::math;
    ///
    /// assert!((math::rsqrt_approx(16.0) - 0.25).abs() < 1e-6);
    /// ```
    rsqrt_approx = "rsqrt.approx.f32", |x| 1.0 / x.sqrt();
    /// √x with relative error at most 2⁻²³ (`sqrt.approx.f32`).
    ///
    /// ```
    /// use warpkov_device::device::math;
    ///
    /// assert!((math::sqrt_approx(9.0) - 3.0).abs() < 1e-6);
    /// ```
    sqrt_approx = "sqrt.approx.f32", |x| x.sqrt();
}
