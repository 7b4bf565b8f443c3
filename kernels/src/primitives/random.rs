//! Counter-based random numbers: a pure function of seed and index, hence without state and equal on every device and
//! in every order of evaluation.
//!
//! Number k of a seed is output k of SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number
//! generators*, OOPSLA 2014), whose state before that output is seed + k·φ.

/// 2⁶⁴ divided by the golden ratio, rounded to an odd integer.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The 64 random bits with index `number` of `seed`.
///
/// ```
/// use warpkov_kernels::primitives::random::bits;
///
/// // The first outputs of the authors' reference implementation for the seed 1234567.
/// let numbers = [0, 1, 2].map(|number| bits(1_234_567, number));
/// assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
/// ```
#[inline(always)]
#[must_use]
pub fn bits(seed: u64, number: u64) -> u64 {
    let z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN));
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The random number with index `number` of `seed`: uniform in \[0, 1), 53 bits.
///
/// ```
/// use warpkov_kernels::primitives::random::unit;
///
/// let mean = (0..10_000).map(|number| unit(7, number)).sum::<f64>() / 10_000.0;
/// assert!((mean - 0.5).abs() < 0.01, "{mean}");
/// assert!((0..10_000).all(|number| (0.0..1.0).contains(&unit(7, number))));
/// ```
#[inline(always)]
#[must_use]
pub fn unit(seed: u64, number: u64) -> f64 {
    (bits(seed, number) >> 11) as f64 / (1u64 << 53) as f64
}
