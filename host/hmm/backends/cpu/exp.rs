//! Vectorised eˣ.

use crate::backends::cpu::product::{Registers, SumProduct, sum};

/// Taylor coefficients 1 / k!. For |r| ≤ ½ ln 2 the remainder is below 2⁻⁵⁷ of the sum.
const TERMS: [f64; 14] = [
    1.0,
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

/// ln 2 = `HIGH` + `LOW`. `HIGH` has 33 significant bits, so that n · `HIGH` is exact.
const HIGH: f64 = 0.693_147_180_369_123_8;
const LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Adding this to |x| < 2⁵¹ rounds x to the nearest integer, which the lowest bits of the sum hold.
const WHOLE: f64 = 1.5 / f64::EPSILON;

/// Below this, eˣ · 2⁵⁰⁰ is 0.
const LEAST: f64 = -1400.0;

/// x · y + z.
#[inline(always)]
fn fma<S: Registers>(x: f64, y: f64, z: f64) -> f64 {
    sum::<S, SumProduct, f64>(z, x, y)
}

/// 2ᵏ eˣ for x ≤ 0, −∞ or NaN (0 for the last two), and 0 ≤ k ≤ 500. The error of a normal result is below two units in
/// the last place.
///
/// eˣ = 2ⁿ eʳ with n the integer nearest to x / ln 2, and eʳ by its Taylor series. The code has no branches, so that
/// the compiler vectorises it.
#[inline(always)]
pub fn exp<S: Registers>(x: f64, k: i32) -> f64 {
    let x = if x > LEAST { x } else { LEAST };
    let whole = x * std::f64::consts::LOG2_E + WHOLE;
    let n = whole - WHOLE;
    let r = fma::<S>(n, -LOW, fma::<S>(n, -HIGH, x));
    // 1 + (r + r² q), with q by Estrin's scheme: five operations wait for each other, where Horner's has thirteen.
    let (r2, pair) = (r * r, |k: usize| fma::<S>(TERMS[k + 1], r, TERMS[k]));
    let (r4, four) = (r2 * r2, |k: usize| fma::<S>(pair(k + 2), r2, pair(k)));
    let q = fma::<S>(four(10), r4 * r4, fma::<S>(four(6), r4, four(2)));
    let series = 1.0 + fma::<S>(q, r2, r);
    // 2ⁿ⁺ᵏ as a product of two normal numbers: their biased exponents.
    let exponent = whole.to_bits().wrapping_sub(WHOLE.to_bits()).wrapping_add(k as u64 + 2 * 1023);
    let half = exponent >> 1;
    series * f64::from_bits(half << 52) * f64::from_bits((exponent - half) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::cpu::product::{Work, widest};

    struct All<'a>(&'a [f64], i32);

    impl Work for All<'_> {
        const WIDE: bool = true;
        type Output = Vec<f64>;

        #[inline(always)]
        fn run<S: Registers>(self) -> Vec<f64> {
            self.0.iter().map(|&x| exp::<S>(x, self.1)).collect()
        }
    }

    #[test]
    fn powers_are_off_by_less_than_two_units() {
        let x: Vec<f64> = (0..200_000).map(|i| -f64::from(i) * 0.003_5).chain([-0.0, -1e-300, -708.3]).collect();
        for (x, found) in x.iter().zip(widest(All(&x, 0))) {
            // The library's result is within one unit.
            assert!(x.exp().to_bits().abs_diff(found.to_bits()) <= 1, "{x}: {found}, expected {}", x.exp());
        }
    }

    #[test]
    fn what_is_below_all_numbers_is_0() {
        assert_eq!(widest(All(&[f64::NEG_INFINITY, f64::NAN, -1e300, -1400.0, -1200.0], 500)), [0.0; 5]);
        let (lifted, power) = (widest(All(&[-1000.0], 500))[0], 2.0_f64.powi(500));
        assert!((lifted / ((-500.0_f64).exp() * power * (-500.0_f64).exp()) - 1.0).abs() < 1e-15);
        // Subnormal.
        assert_eq!(widest(All(&[-740.0], 0))[0], (-740.0_f64).exp());
    }
}
