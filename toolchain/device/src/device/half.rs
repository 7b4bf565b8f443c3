//! Conversions between f32 and f16 (IEEE 754 binary16: 1 sign bit, 5 exponent bits, 10 fraction bits). An f16 is a
//! `u16` of its bits.

/// The largest finite f16.
pub const LARGEST: f32 = 65_504.0;

/// The f16 nearest to x, ties to even. Beyond ±[`LARGEST`] the result is ±`LARGEST`, never infinite.
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
}
