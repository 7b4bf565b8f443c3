//! Fused multiply-add, and the approximate functions of the special function unit.
//!
//! There is no device `libm`: what is not here is not available in a kernel.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// x·y + z, rounded once, in f32. One instruction on the GPU.
#[inline(always)]
#[must_use]
pub fn fma_f32(x: f32, y: f32, z: f32) -> f32 {
    target! { nvptx => core::intrinsics::fmaf32(x, y, z), emulated => x.mul_add(y, z) }
}

/// x·y + z, rounded once, in f64. One instruction on the GPU.
#[inline(always)]
#[must_use]
pub fn fma(x: f64, y: f64, z: f64) -> f64 {
    target! { nvptx => core::intrinsics::fmaf64(x, y, z), emulated => x.mul_add(y, z) }
}

/// x, computed here. A compiler may put off what only one branch needs, and has to keep all that it is made of until then.
#[inline(always)]
#[must_use]
pub fn settled(x: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y: u32;
        // SAFETY: nothing is executed: a register is called by another name.
        unsafe { asm!("mov.u32 {}, {};", out(reg32) y, in(reg32) x, options(nomem, nostack, preserves_flags)) };
        y
    }
    #[cfg(not(target_arch = "nvptx64"))]
    x
}

/// eˣ for x ≤ 1 to within 2 ulp, and 0 where that is below the least normal number.
///
/// x = k ln 2 + r with |r| ≤ ½ ln 2, and the series of eʳ to its 13th power, whose rest is below 5·10⁻¹⁸.
#[inline(always)]
#[must_use]
pub fn exp(x: f64) -> f64 {
    const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN_2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
    /// Adding and subtracting it rounds to an integer.
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
    /// 2ˣ to within 2 ulp (`ex2.approx.f32`). The emulator rounds correctly instead.
    exp2_approx = "ex2.approx.f32", |x| x.exp2();
    /// log₂ x (`lg2.approx.f32`): absolute error at most 2⁻²² for x in (0.5, 2), else relative error at most 2⁻²².
    log2_approx = "lg2.approx.f32", |x| x.log2();
    /// 1/x to within 1 ulp (`rcp.approx.f32`).
    reciprocal_approx = "rcp.approx.f32", |x| 1.0 / x;
    /// 1/√x with relative error at most 2⁻²²·⁹ (`rsqrt.approx.f32`).
    rsqrt_approx = "rsqrt.approx.f32", |x| 1.0 / x.sqrt();
    /// √x with relative error at most 2⁻²³ (`sqrt.approx.f32`).
    sqrt_approx = "sqrt.approx.f32", |x| x.sqrt();
}
