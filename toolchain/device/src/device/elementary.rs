//! The elementary functions of [`Real`], one implementation for both precisions and all targets. It consists of integer
//! operations, and of operations that every target rounds the same (+, −, ·, /, √, fused multiply-add), so the emulator and
//! a GPU give the same bits. f32 is computed in f32.
//!
//! Pairs (high, low) are sums of two numbers, the second far below the first.

use super::Real;

/// A floating-point format, and constants of the functions in it.
pub(super) trait Format: Real {
    /// Explicit bits of the significand.
    const FRACTION: u32;
    /// The exponent of 1.
    const BIAS: i32;
    /// 3·2^(`FRACTION` − 1): adding and then subtracting it rounds to the nearest integer.
    const ROUND: Self;
    const INFINITY: Self;
    const NAN: Self;
    const HALF: Self;
    const LOG2_E: [Self; 2];
    /// The first part, times an exponent, is exact.
    const LN_2: [Self; 2];
    /// The same, to the precision of two numbers.
    const LN_2_PAIR: [Self; 2];
    const HALF_PI: [Self; 2];
    const QUARTER_PI: Self;
    const TWO_THIRDS: [Self; 2];
    /// eˣ is 0 below its negative, and ∞ above it.
    const EXP_END: Self;
    /// tanh x and erf x are 1 from here on.
    const TANH_END: Self;
    const ERF_END: Self;
    /// 1/2!, 1/3!, …
    const EXP: &'static [Self];
    /// −1/3!, 1/5!, …
    const SIN: &'static [Self];
    /// 1/4!, −1/6!, …
    const COS: &'static [Self];
    /// 2/5, 2/7, …
    const LOG: &'static [Self];
    /// erf x = x + x·p(x²) for x ≤ 1.
    const ERF: &'static [Self];
    /// −ln (1 − erf (1 + x)) for x ≥ 0.
    const ERF_TAIL: &'static [Self];

    fn from_i32(x: i32) -> Self;
    fn from_u64(x: u64) -> Self;
    /// Rounded towards 0, to the nearest number of this type.
    fn to_i64(self) -> i64;
}

macro_rules! formats {
    ($($ty:ident { $($name:ident: $kind:ty = $value:expr;)* })*) => {$(
        impl Format for $ty {
            $(const $name: $kind = $value;)*
            const INFINITY: Self = $ty::INFINITY;
            const NAN: Self = $ty::NAN;
            const HALF: Self = 0.5;
            const QUARTER_PI: Self = core::$ty::consts::FRAC_PI_4;
            #[inline(always)]
            fn from_i32(x: i32) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn from_u64(x: u64) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
        }
    )*};
}
formats! {
    f32 {
        FRACTION: u32 = 23;
        BIAS: i32 = 127;
        ROUND: Self = 12_582_912.0;
        LOG2_E: [Self; 2] = [core::f32::consts::LOG2_E, 1.925_963e-8];
        LN_2: [Self; 2] = [0.693_145_75, 1.428_606_8e-6];
        LN_2_PAIR: [Self; 2] = [core::f32::consts::LN_2, -1.904_654_3e-9];
        HALF_PI: [Self; 2] = [core::f32::consts::FRAC_PI_2, -4.371_139e-8];
        TWO_THIRDS: [Self; 2] = [2.0 / 3.0, -1.986_821_5e-8];
        EXP_END: Self = 110.0;
        TANH_END: Self = 10.0;
        ERF_END: Self = 4.0;
        EXP: &'static [Self] = &[1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];
        SIN: &'static [Self] = &[-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0];
        COS: &'static [Self] = &[1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0];
        LOG: &'static [Self] = &[2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0];
        ERF: &'static [Self] = &[
            0.128_379_17, -0.376_126_26, 0.112_835_86, -0.026_853_835, 0.005_188_364_5, -0.000_801_047_9,
            7.854_712e-5,
        ];
        ERF_TAIL: &'static [Self] = &[
            1.849_605_6, 2.638_966_8, 0.843_117_6, 0.041_503_52, -0.009_895_539, 0.001_829_471_8, -0.000_186_409_18,
        ];
    }
    f64 {
        FRACTION: u32 = 52;
        BIAS: i32 = 1023;
        ROUND: Self = 6_755_399_441_055_744.0;
        LOG2_E: [Self; 2] = [core::f64::consts::LOG2_E, 2.035_527_374_093_103_3e-17];
        LN_2: [Self; 2] = [f64::from_bits(0x3fe6_2e42_fee0_0000), f64::from_bits(0x3dea_39ef_3579_3c76)];
        LN_2_PAIR: [Self; 2] = [core::f64::consts::LN_2, 2.319_046_813_846_299_6e-17];
        HALF_PI: [Self; 2] = [core::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17];
        TWO_THIRDS: [Self; 2] = [2.0 / 3.0, 3.700_743_415_417_188e-17];
        EXP_END: Self = 750.0;
        TANH_END: Self = 20.0;
        ERF_END: Self = 6.0;
        EXP: &'static [Self] = &[
            1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40_320.0,
            1.0 / 362_880.0, 1.0 / 3_628_800.0, 1.0 / 39_916_800.0, 1.0 / 479_001_600.0, 1.0 / 6_227_020_800.0,
        ];
        SIN: &'static [Self] = &[
            -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0, 1.0 / 6_227_020_800.0,
            -1.0 / 1_307_674_368_000.0, 1.0 / 355_687_428_096_000.0,
        ];
        COS: &'static [Self] = &[
            1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0,
            -1.0 / 87_178_291_200.0, 1.0 / 20_922_789_888_000.0, -1.0 / 6_402_373_705_728_000.0,
        ];
        LOG: &'static [Self] = &[
            2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0, 2.0 / 15.0, 2.0 / 17.0, 2.0 / 19.0, 2.0 / 21.0,
            2.0 / 23.0, 2.0 / 25.0,
        ];
        ERF: &'static [Self] = &[
            0.1283791670955126, -0.3761263890318375, 0.1128379167095486, -0.02686617064507312, 0.005223977624782746,
            -0.0008548326978837546, 0.00012055331040050754, -1.4925593576752644e-05, 1.6460973864349604e-06,
            -1.635003569707907e-07, 1.46579467757224e-08, -1.1365913084362324e-09, 5.945662703356026e-11,
        ];
        ERF_TAIL: &'static [Self] = &[
            1.8496055099332482, 2.6389675142347886, 0.8431072563586594, 0.04156109804218024, -0.010033825378447901,
            0.0019779025939731447, -0.00023732259036375215, -2.627756361030358e-05, 2.715847973607918e-05,
            -9.607965837950212e-06, 2.058751574721863e-06, -1.4204510477805588e-07, -9.805118395588717e-08,
            5.226432999932907e-08, -1.4985616235876004e-08, 2.8812016557485525e-09, -3.709012659560752e-10,
            2.9061014948203257e-11, -1.0493583167424209e-12,
        ];
    }
}

/// c₀ + c₁x + c₂x² + …
#[inline(always)]
fn polynomial<T: Format>(coefficients: &[T], x: T) -> T {
    coefficients.iter().rev().fold(T::ZERO, |sum, &coefficient| sum.fma(x, coefficient))
}

/// 2ᵏ, in the range of normal numbers.
#[inline(always)]
fn power_of_two<T: Format>(k: i32) -> T {
    T::from_raw(((T::BIAS + k) as u64) << T::FRACTION)
}

/// x·2ᵏ, rounded once.
#[inline(always)]
fn scale<T: Format>(x: T, k: i32) -> T {
    x * power_of_two(k / 2) * power_of_two(k - k / 2)
}

/// |x| with the sign of `sign`.
#[inline(always)]
fn with_sign<T: Format>(x: T, sign: T) -> T {
    let mask = 1 << (if T::WIDE { 63 } else { 31 });
    T::from_raw(x.to_raw() & !mask | sign.to_raw() & mask)
}

/// x + y, and its rounding error. |x| ≥ |y|, or x = 0.
#[inline(always)]
fn sum<T: Format>(x: T, y: T) -> (T, T) {
    let high = x + y;
    (high, (x - high) + y)
}

/// x·y as a pair.
#[inline(always)]
fn product<T: Format>(x: (T, T), y: [T; 2]) -> (T, T) {
    let high = x.0 * y[0];
    (high, x.0.fma(y[0], -high) + x.0.fma(y[1], x.1 * y[0]))
}

/// x/y rounded to the nearest integer, as a number and as an integer, given 1/y.
#[inline(always)]
fn nearest<T: Format>(x: T, reciprocal: T) -> (T, i32) {
    let sum = x.fma(reciprocal, T::ROUND);
    (sum - T::ROUND, (sum.to_raw() as u32).wrapping_sub(T::ROUND.to_raw() as u32) as i32)
}

/// e^(r + low) − 1 − r for |r| ≤ ½ ln 2.
#[inline(always)]
fn exp_rest<T: Format>(r: T, low: T) -> T {
    let rest = r * r * polynomial(T::EXP, r);
    rest + (r + rest).fma(low, low)
}

/// k, r and c with e^(x + low) = 2ᵏ(1 + r + c).
#[inline(always)]
fn reduced_exp<T: Format>(x: T, low: T) -> (i32, T, T) {
    let (k, integer) = nearest(x, T::LOG2_E[0]);
    let high = (-k).fma(T::LN_2[0], x);
    let r = (-k).fma(T::LN_2[1], high);
    let low = (-k).fma(T::LN_2[1], high - r) + low;
    (integer, r, exp_rest(r, low))
}

/// 2ᵏ(1 + r + c).
#[inline(always)]
fn assembled<T: Format>(k: i32, r: T, c: T) -> T {
    let (high, low) = sum(T::ONE, r);
    scale(high + (low + c), k)
}

/// e^(x + low).
#[inline(always)]
pub(super) fn exp<T: Format>(x: T, low: T) -> T {
    if x.abs() < T::EXP_END {
        let (k, r, c) = reduced_exp(x, low);
        assembled(k, r, c)
    } else if x < T::ZERO {
        T::ZERO
    } else {
        x * T::INFINITY
    }
}

#[inline(always)]
pub(super) fn exp2<T: Format>(x: T) -> T {
    if x.abs() < T::EXP_END + T::EXP_END {
        let (k, integer) = nearest(x, T::ONE);
        let (r, low) = product((x - k, T::ZERO), T::LN_2_PAIR);
        assembled(integer, r, exp_rest(r, low))
    } else if x < T::ZERO {
        T::ZERO
    } else {
        x * T::INFINITY
    }
}

/// e, h and l with ln x = e ln 2 + h + l, for finite x > 0: √½ ≤ x/2ᵉ < √2.
#[inline(always)]
fn reduced_log<T: Format>(x: T) -> (T, T, T) {
    // Subnormal numbers become normal.
    let tiny = x.to_raw() >> T::FRACTION == 0;
    let x = if tiny { x * power_of_two(T::FRACTION as i32 + 1) } else { x };
    let root = T::from_f64(core::f64::consts::FRAC_1_SQRT_2).to_raw();
    let exponent = (x.to_raw() as i64 - root as i64) >> T::FRACTION;
    let fraction = T::from_raw(x.to_raw().wrapping_sub((exponent << T::FRACTION) as u64));
    let exponent = exponent as i32 - if tiny { T::FRACTION as i32 + 1 } else { 0 };
    // ln (1 + f) = 2s + ⅔s³ + ⅖s⁵ + … with s = f/(2 + f).
    let two = T::ONE + T::ONE;
    let f = fraction - T::ONE;
    let (d, d_low) = sum(two, f);
    let reciprocal = T::ONE / d;
    let s = f * reciprocal;
    let s_low = ((-s).fma(d, f) - s * d_low) * reciprocal;
    let z = s * s;
    let z_low = s.fma(s, -z) + two * s * s_low;
    let third = product((z, z_low), T::TWO_THIRDS);
    let cubic = product(third, [s, s_low]);
    let rest = (z * z) * (s * polynomial(T::LOG, z));
    let (high, low) = sum(two * s, cubic.0);
    let (high, low) = sum(high, low + (cubic.1 + two.fma(s_low, rest)));
    (T::from_i32(exponent), high, low)
}

/// ln x as a pair, for finite x > 0.
#[inline(always)]
fn log_pair<T: Format>(x: T) -> (T, T) {
    let (e, h, l) = reduced_log(x);
    let (high, low) = sum(e * T::LN_2[0], h);
    sum(high, low + e.fma(T::LN_2[1], l))
}

/// ln x or log₂ x for x that is 0, negative, infinite or NaN.
#[inline(always)]
fn log_of_others<T: Format>(x: T) -> T {
    if x == T::ZERO {
        -T::INFINITY
    } else if x > T::ZERO {
        x
    } else {
        T::NAN
    }
}

#[inline(always)]
pub(super) fn ln<T: Format>(x: T) -> T {
    if x > T::ZERO && x < T::INFINITY { log_pair(x).0 } else { log_of_others(x) }
}

#[inline(always)]
pub(super) fn log2<T: Format>(x: T) -> T {
    if !(x > T::ZERO && x < T::INFINITY) {
        return log_of_others(x);
    }
    let (e, h, l) = reduced_log(x);
    let (p, p_low) = product((h, l), T::LOG2_E);
    let (high, low) = sum(e, p);
    high + (low + p_low)
}

#[inline(always)]
pub(super) fn pow<T: Format>(x: T, y: T) -> T {
    if y == T::ZERO || x == T::ONE {
        return T::ONE;
    }
    // NaN is equal to nothing.
    #[allow(clippy::eq_op)]
    if x != x || y != y {
        return T::NAN;
    }
    // From 2^(FRACTION + 1) on, all numbers are even.
    let small = y.abs() < power_of_two(T::FRACTION as i32 + 1);
    let integer = !small || T::from_u64(y.abs().to_i64() as u64) == y.abs();
    let odd = small && integer && y.abs().to_i64() % 2 == 1;
    let size = x.abs();
    let power = if size == T::ONE {
        T::ONE
    } else if size == T::ZERO || size == T::INFINITY || y.abs() == T::INFINITY {
        if (size > T::ONE) == (y > T::ZERO) { T::INFINITY } else { T::ZERO }
    } else {
        let (h, l) = log_pair(size);
        let high = h * y;
        exp(high, h.fma(y, -high) + l * y)
    };
    if x.to_raw() == size.to_raw() {
        power
    } else if odd {
        -power
    } else if integer || size == T::ZERO || size == T::INFINITY {
        power
    } else {
        T::NAN
    }
}

/// 64 zeros, then the bits of 2/π.
static TWO_OVER_PI: [u64; 21] = [
    0x0000_0000_0000_0000,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// q, r and low with x = q·π/2 + r + low (mod 2π) and |r| ≤ π/4, for finite x > π/4.
///
/// Of x·2/π, the product of an integer and the bits of 2/π, only two bits before the point count, and 126 after it: no
/// f64 is nearer to a multiple of π/2 than 2⁻⁶² (Payne, Hanek).
#[inline]
fn quarter_turns<T: Format>(x: T) -> (u32, T, T) {
    let exponent = (x.to_raw() >> T::FRACTION) as i32 - T::BIAS - T::FRACTION as i32;
    let integer = x.to_raw() & ((1 << T::FRACTION) - 1) | 1 << T::FRACTION;
    // Bits before this one stand for whole turns.
    let first = (exponent + 62) as u32;
    let word = |k: u32| {
        let (at, shift) = ((first / 64 + k) as usize, first % 64);
        TWO_OVER_PI[at] << shift | TWO_OVER_PI[at + 1] >> 1 >> (63 - shift)
    };
    let multiply = |word: u64, carry: u64| u128::from(integer) * u128::from(word) + u128::from(carry);
    let low = multiply(word(2), 0);
    let middle = multiply(word(1), (low >> 64) as u64);
    let high = multiply(word(0), (middle >> 64) as u64) as u64;
    let quarter = high.wrapping_add(1 << 61) >> 62;
    let bits = u128::from(high.wrapping_sub(quarter << 62)) << 64 | u128::from(middle as u64);
    let negative = bits >> 127 == 1;
    let bits = if negative { bits.wrapping_neg() } else { bits };
    let zeros = bits.leading_zeros();
    let (bits, digits) = (bits << zeros, T::FRACTION + 1);
    let exponent = 2 - (digits + zeros) as i32;
    let part = |bits: u64, exponent| T::from_u64(bits) * power_of_two(exponent);
    let turn = (part((bits >> (128 - digits)) as u64, exponent), part((bits << digits >> 64) as u64, exponent - 64));
    let (r, low) = product(turn, T::HALF_PI);
    (quarter as u32, if negative { -r } else { r }, if negative { -low } else { low })
}

/// sin (x + k·π/2) for x ≥ 0.
#[inline(always)]
fn sine<T: Format>(x: T, k: u32) -> T {
    let finite = x < T::INFINITY;
    if !finite {
        return T::NAN;
    }
    let (quarter, r, low) = if x > T::QUARTER_PI { quarter_turns(x) } else { (0, x, T::ZERO) };
    let quarter = quarter + k;
    let z = r * r;
    let half = T::HALF * z;
    let y = if quarter.is_multiple_of(2) {
        r + (r * z).fma(polynomial(T::SIN, z), low * (T::ONE - half))
    } else {
        let (high, error) = sum(T::ONE, -half);
        high + (error + (z * z).fma(polynomial(T::COS, z), -(r * low)))
    };
    if quarter & 2 == 0 { y } else { -y }
}

#[inline(always)]
pub(super) fn sin<T: Format>(x: T) -> T {
    let y = sine(x.abs(), 0);
    if x.to_raw() == x.abs().to_raw() { y } else { -y }
}

#[inline(always)]
pub(super) fn cos<T: Format>(x: T) -> T {
    sine(x.abs(), 1)
}

#[inline(always)]
pub(super) fn tanh<T: Format>(x: T) -> T {
    let size = x.abs();
    let y = if size < T::TANH_END {
        // t/(t + 2) with t = e²ˣ − 1.
        let (k, r, c) = reduced_exp(size + size, T::ZERO);
        let (scale, two) = (power_of_two::<T>(k), T::ONE + T::ONE);
        let (t, t_low) = sum(scale - T::ONE, scale * r);
        let (t, t_low) = sum(t, scale.fma(c, t_low));
        let (d, d_low) = if t < two { sum(two, t) } else { sum(t, two) };
        let reciprocal = T::ONE / d;
        let y = t * reciprocal;
        y + ((-y).fma(d, t) + (t_low - y * (d_low + t_low))) * reciprocal
    } else if size >= T::TANH_END {
        T::ONE
    } else {
        T::NAN
    };
    with_sign(y, x)
}

#[inline(always)]
pub(super) fn erf<T: Format>(x: T) -> T {
    let size = x.abs();
    let y = if size < T::ONE {
        size.fma(polynomial(T::ERF, size * size), size)
    } else if size < T::ERF_END {
        T::ONE - exp(-polynomial(T::ERF_TAIL, size - T::ONE), T::ZERO)
    } else if size >= T::ERF_END {
        T::ONE
    } else {
        T::NAN
    };
    with_sign(y, x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of 64 random bits.
    fn random(seed: u64) -> impl Iterator<Item = u64> {
        (1..).map(move |k: u64| {
            let mut bits = (seed << 32 | k).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^ bits >> 31
        })
    }

    const POINTS: usize = 1 << 20;

    /// Random points of all exponents, as many of [−32, 32], numbers near simple ones, and the ends of the format.
    macro_rules! points {
        ($ty:ident) => {{
            let simple = (-100..=100).flat_map(|k| {
                let x = k as $ty;
                [x, x / 64.0, x * core::$ty::consts::FRAC_PI_2, x * core::$ty::consts::LN_2, (x * 11.0).exp2()]
            });
            let near = simple.flat_map(|x| [x, x.next_up(), x.next_down(), -x]);
            let ends = [0.0, $ty::MIN_POSITIVE, $ty::MAX, $ty::INFINITY, $ty::NAN, $ty::from_bits(1)];
            let all = random(1).take(POINTS).map(|bits| $ty::from_bits(bits as _));
            let middle = random(2).take(POINTS).map(|bits| (bits as i64 as f64 / 2f64.powi(58)) as $ty);
            ends.into_iter().chain(ends.map(|x| -x)).chain(near).chain(all).chain(middle)
        }};
    }

    /// Error in units of the last place of f32, against a value in f64.
    fn ulps_f32(found: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        if found.is_nan() || nearest.is_nan() || found.is_infinite() || nearest.is_infinite() {
            return if found == nearest || found.is_nan() && nearest.is_nan() {
                0.0
            } else {
                // An overflow may be a rounding error.
                ulps_f32(found / 2.0, exact / 2.0).max(if found.is_infinite() && exact.abs() < 3.402_823e38 {
                    9e9
                } else {
                    0.0
                })
            };
        }
        let exponent = ((nearest.abs().to_bits() >> 23) as i32).max(1) - 150;
        (f64::from(found) - exact).abs() / 2f64.powi(exponent)
    }

    /// Distance of two f64 in units of the last place.
    fn ulps_f64(found: f64, expected: f64) -> f64 {
        if found.is_nan() || expected.is_nan() {
            return if found.is_nan() && expected.is_nan() { 0.0 } else { f64::INFINITY };
        }
        let order = |x: f64| if x < 0.0 { -((x.to_bits() << 1 >> 1) as i64) } else { x.to_bits() as i64 };
        order(found).abs_diff(order(expected)) as f64
    }

    macro_rules! bounds {
        ($($name:ident: $function:expr, $reference:expr, $f32:literal, $f64:literal;)*) => {$(
            #[test]
            fn $name() {
                fn function<T: Format>(x: T) -> T {
                    $function(x)
                }
                let reference: fn(f64) -> f64 = $reference;
                let mut worst = [(0.0, 0.0); 2];
                for x in points!(f32) {
                    let error = ulps_f32(function(x), reference(f64::from(x)));
                    worst[0] = if error <= worst[0].0 { worst[0] } else { (error, f64::from(x)) };
                }
                for x in points!(f64) {
                    let error = ulps_f64(function(x), reference(x));
                    worst[1] = if error <= worst[1].0 { worst[1] } else { (error, x) };
                }
                println!("{}: {worst:?}", stringify!($name));
                assert!(worst[0].0 <= $f32 && worst[1].0 <= $f64, "{worst:?}");
            }
        )*};
    }
    bounds! {
        exponential: Real::exp, libm::exp, 1.0, 1.0;
        exponential_2: Real::exp2, libm::exp2, 1.0, 1.0;
        logarithm: Real::ln, libm::log, 1.0, 1.0;
        logarithm_2: Real::log2, libm::log2, 1.0, 1.0;
        sine: Real::sin, libm::sin, 1.0, 1.0;
        cosine: Real::cos, libm::cos, 1.0, 1.0;
        // libm's own error exceeds 1 ulp: `errors_in_f64_are_below_those_stated` has a better reference.
        hyperbolic_tangent: Real::tanh, libm::tanh, 1.0, 2.0;
        error_function: Real::erf, libm::erf, 1.0, 1.0;
        reciprocal_root: Real::rsqrt, |x| 1.0 / x.sqrt(), 2.0, 0.0;
        root: Real::sqrt, f64::sqrt, 0.5, 0.0;
    }

    #[test]
    fn power() {
        let special = [0.0, 0.5, 1.0, 2.0, 3.0, 2.5, 1e300, 9_007_199_254_740_991.0, f64::INFINITY, f64::NAN];
        let special = || special.into_iter().flat_map(|x| [x, -x]);
        let pairs = special().flat_map(|x| special().map(move |y| (x, y)));
        let mut bits = random(3);
        // Powers within the range of the format, and of any two numbers.
        let random = (0..2 * POINTS).map(|k| {
            let [x, y] = [0; 2].map(|_| bits.next().unwrap_or(0));
            let (x, y) =
                (f64::from_bits(x), if k % 4 == 0 { f64::from_bits(y) } else { y as i64 as f64 / 2f64.powi(63) });
            let size =
                if k % 4 == 0 || !x.is_finite() || x == 0.0 { 1.0 } else { 800.0 / x.abs().ln().abs().max(1e-3) };
            (if k % 4 == 0 { x } else { x.abs() }, y * size)
        });
        let mut worst = [(0.0, 0.0, 0.0); 2];
        for (x, y) in pairs.chain(random) {
            let (narrow, small) = (x as f32, (y / 8.0) as f32);
            let exact = libm::pow(narrow.into(), small.into());
            for (at, error) in [ulps_f32(Real::pow(narrow, small), exact), ulps_f64(Real::pow(x, y), libm::pow(x, y))]
                .into_iter()
                .enumerate()
            {
                worst[at] = if error <= worst[at].0 { worst[at] } else { (error, x, y) };
            }
        }
        println!("power: {worst:?}");
        assert!(worst[0].0 <= 1.0 && worst[1].0 <= 1.0, "{worst:?}");
    }

    /// A number of about 106 bits: the sum of two f64, the second at most half a unit in the last place of the first.
    #[derive(Clone, Copy)]
    struct Exact(f64, f64);

    const LN_2: Exact = Exact(core::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);
    const ONE: Exact = Exact(1.0, 0.0);

    impl Exact {
        fn of_sum(x: f64, y: f64) -> Self {
            let high = x + y;
            let part = high - x;
            Self(high, (x - (high - part)) + (y - part))
        }

        fn plus(self, other: Self) -> Self {
            let (high, low) = (Self::of_sum(self.0, other.0), Self::of_sum(self.1, other.1));
            let first = Self::of_sum(high.0, high.1 + low.0);
            Self::of_sum(first.0, first.1 + low.1)
        }

        fn times(self, other: Self) -> Self {
            let high = self.0 * other.0;
            let low = self.0.mul_add(other.0, -high) + (self.0 * other.1 + self.1 * other.0);
            Self::of_sum(high, low)
        }

        fn minus(self, other: Self) -> Self {
            self.plus(Self(-other.0, -other.1))
        }

        fn over(self, other: Self) -> Self {
            let first = self.0 / other.0;
            let rest = self.minus(other.times(Self(first, 0.0)));
            let second = rest.0 / other.0;
            let rest = rest.minus(other.times(Self(second, 0.0)));
            Self::of_sum(first, second).plus(Self(rest.0 / other.0, 0.0))
        }

        /// Times 2ᵏ.
        fn scaled(self, k: i32) -> Self {
            let (half, rest) = (2f64.powi(k / 2), 2f64.powi(k - k / 2));
            Self(self.0 * half * rest, self.1 * half * rest)
        }

        /// The distance of `found`, in units of the last place.
        fn error(self, found: f64) -> f64 {
            let exponent = (self.0.to_bits() >> 52 & 0x7ff) as i32 - 1075;
            (((found - self.0) - self.1) * 2f64.powi(-exponent / 2) * 2f64.powi(-exponent + exponent / 2)).abs()
        }
    }

    fn exact_exp(x: Exact) -> Exact {
        let k = (x.0 / LN_2.0).round();
        let r = x.minus(LN_2.times(Exact(k, 0.0))).scaled(-8);
        let mut sum = (1..=13).rev().fold(ONE, |sum, n| ONE.plus(r.times(sum).over(Exact(n.into(), 0.0))));
        for _ in 0..8 {
            sum = sum.times(sum);
        }
        sum.scaled(k as i32)
    }

    /// For normal x: y = ln x in f64, and one step of Halley's method for eʸ = x.
    fn exact_ln(x: f64) -> Exact {
        let exponent = ((x / core::f64::consts::FRAC_1_SQRT_2).to_bits() >> 52) as i32 - 1023;
        let fraction = Exact(x, 0.0).scaled(-exponent);
        let y = fraction.0.ln();
        let ratio = fraction.times(exact_exp(Exact(-y, 0.0)));
        let step = ratio.minus(ONE).over(ratio.plus(ONE));
        LN_2.times(Exact(exponent.into(), 0.0)).plus(Exact(y, 0.0).plus(step).plus(step))
    }

    fn exact_tanh(x: f64) -> Exact {
        if x.abs() > 0.125 {
            let power = exact_exp(Exact(2.0 * x.abs(), 0.0));
            let y = ONE.minus(Exact(2.0, 0.0).over(power.plus(ONE)));
            return if x < 0.0 { Exact(-y.0, -y.1) } else { y };
        }
        // Lambert's fraction x/(1 + x²/(3 + x²/(5 + …))).
        let square = Exact(x, 0.0).times(Exact(x, 0.0));
        let below =
            (0..12).rev().fold(Exact(25.0, 0.0), |below, k| Exact(f64::from(2 * k + 1), 0.0).plus(square.over(below)));
        Exact(x, 0.0).over(below)
    }

    /// sin (x + k·π/2) for |x| ≤ 1000.
    fn exact_sine(x: f64, k: i64) -> Exact {
        let turns = (x * core::f64::consts::FRAC_2_PI).round();
        let parts = [core::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_183_3e-33];
        let r = parts.into_iter().fold(Exact(x, 0.0), |r, part| r.minus(Exact(part, 0.0).times(Exact(turns, 0.0))));
        let (square, quarter) = (r.times(r), turns as i64 + k);
        let odd = quarter & 1;
        let y = (1..=14).rev().fold(ONE, |sum, n: i64| {
            let factor = (2 * n - odd) * (2 * n + 1 - odd);
            ONE.minus(square.times(sum).over(Exact(factor as f64, 0.0)))
        });
        let y = if odd == 0 { y.times(r) } else { y };
        if quarter & 2 == 0 { y } else { Exact(-y.0, -y.1) }
    }

    /// 2/√π·exp(−x²)·Σ 2ⁿx²ⁿ⁺¹/(1·3·…·(2n + 1)): all terms have one sign.
    fn exact_erf(x: f64) -> Exact {
        let x = Exact(x, 0.0);
        let square = x.times(x);
        let terms = (4.0 * square.0) as i32 + 40;
        let sum = (1..=terms)
            .rev()
            .fold(ONE, |sum, n| ONE.plus(square.plus(square).times(sum).over(Exact(f64::from(2 * n + 1), 0.0))));
        let power = exact_exp(Exact(-square.0, -square.1));
        Exact(core::f64::consts::FRAC_2_SQRT_PI, 1.533_545_961_316_588e-17).times(power).times(x).times(sum)
    }

    /// The worst error of an f64 function against an exact value, over the points where there is one.
    fn worst(function: fn(f64) -> f64, exact: fn(f64) -> Exact, within: impl Fn(f64) -> bool) -> (f64, f64) {
        let points = points!(f64).step_by(11).filter(|&x| x.is_finite() && within(x));
        points
            .map(|x| (exact(x).error(function(x)), x))
            .fold((0.0, 0.0), |worst, found| if found.0 > worst.0 { found } else { worst })
    }

    /// The errors that [`Real`] and `math::exp` state, in f64, against twice its precision. With 2²² and more points of all magnitudes, the
    /// largest errors were: exp and exp2 0.63, ln 0.51, log2 0.82, sin 0.84, cos 0.83, tanh 0.72, erf 1.01, rsqrt 1.49, math::exp 1.12, pow 1.35.
    #[test]
    fn errors_in_f64_are_below_those_stated() {
        let normal = |x: f64| x >= f64::MIN_POSITIVE;
        let small = |end: f64| move |x: f64| x.abs() < end;
        let all: [(&str, f64, (f64, f64)); 11] = [
            ("exp", 1.0, worst(Real::exp, |x| exact_exp(Exact(x, 0.0)), small(640.0))),
            (
                "exp2",
                1.0,
                worst(
                    Real::exp2,
                    |x| exact_exp(LN_2.times(Exact(x - x.round(), 0.0))).scaled(x.round() as i32),
                    small(920.0),
                ),
            ),
            ("ln", 1.0, worst(Real::ln, exact_ln, |x| normal(x) && x != 1.0)),
            ("log2", 1.0, worst(Real::log2, |x| exact_ln(x).over(LN_2), |x| normal(x) && x != 1.0)),
            ("sin", 1.0, worst(Real::sin, |x| exact_sine(x, 0), |x| x.abs() < 1000.0 && x.abs() > 1e-280)),
            ("cos", 1.0, worst(Real::cos, |x| exact_sine(x, 1), small(1000.0))),
            ("tanh", 1.0, worst(Real::tanh, exact_tanh, |x| x.abs() < 300.0 && x.abs() > 1e-280)),
            ("erf", 2.0, worst(Real::erf, exact_erf, |x| x.abs() < 7.0 && x.abs() > 1e-280)),
            (
                "rsqrt",
                2.0,
                worst(
                    Real::rsqrt,
                    |x| {
                        let y = Exact(1.0 / x.sqrt(), 0.0);
                        y.plus(y.times(ONE.minus(Exact(x, 0.0).times(y).times(y))).scaled(-1))
                    },
                    |x| normal(x) && x < 1e300 && x > 1e-300,
                ),
            ),
            (
                "math::exp",
                2.0,
                worst(crate::device::math::exp, |x| exact_exp(Exact(x, 0.0)), |x| x <= 1.0 && x > -640.0),
            ),
            ("pow", 2.0, {
                let (mut bits, mut worst) = (random(4), (0.0, 0.0));
                for _ in 0..POINTS / 8 {
                    let [x, y] = [0; 2].map(|_| bits.next().unwrap_or(0));
                    let x = f64::from_bits(x).abs();
                    if !x.is_normal() || x == 1.0 {
                        continue;
                    }
                    let y = y as i64 as f64 / 2f64.powi(63) * 700.0 / x.ln().abs().max(1e-3);
                    let error = exact_exp(exact_ln(x).times(Exact(y, 0.0))).error(Real::pow(x, y));
                    worst = if error > worst.0 { (error, x) } else { worst };
                }
                worst
            }),
        ];
        for (name, _, (error, x)) in all {
            println!("{name}: {error:.4} at {x:e}");
        }
        for (name, stated, (error, x)) in all {
            assert!(error <= stated, "{name}: {error} at {x:e}");
        }
    }

    #[test]
    fn signs_of_zeros() {
        for x in [0.0_f64, -0.0] {
            for function in [Real::sin, Real::tanh, Real::erf, Real::sqrt] {
                assert_eq!(function(x).to_bits(), x.to_bits());
            }
            assert_eq!(Real::rsqrt(x), 1.0 / x);
            assert_eq!(Real::pow(x, 3.0).to_bits(), x.to_bits());
        }
        assert_eq!(Real::ln(1.0_f64).to_bits(), 0);
    }

    /// The worst cases of the reduction: the f64 and f32 nearest to a multiple of π/2 (Muller, Elementary Functions).
    #[test]
    fn arguments_near_multiples_of_half_pi() {
        let x = 6_381_956_970_095_103.0 * 2f64.powi(797);
        assert_eq!(Real::cos(x), libm::cos(x));
        assert!((Real::cos(x) / -4.687_165_924_254_624e-19 - 1.0).abs() < 1e-15, "{:e}", Real::cos(x));
        let x = 16_367_173.0 * 2f32.powi(72);
        assert_eq!(Real::cos(x), libm::cos(x.into()) as f32);
    }

    #[test]
    fn exp_agrees_with_the_function_for_small_arguments() {
        for x in (0..=100_000).map(|k| 1.0 - f64::from(k) / 142.0) {
            assert!(ulps_f64(Real::exp(x), crate::device::math::exp(x)) <= 2.0 || x <= -708.0, "{x}");
        }
    }
}
