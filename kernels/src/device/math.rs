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
