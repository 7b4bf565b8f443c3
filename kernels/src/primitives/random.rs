//! Random numbers that are a function of where they are used: no state, the same on every device and in every order.
//!
//! The k-th number of a seed is that of SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*,
//! OOPSLA 2014), whose state before it is seed + k·φ.

/// 2⁶⁴ divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `number`-th 64 random bits of `seed`.
#[inline(always)]
#[must_use]
pub fn bits(seed: u64, number: u64) -> u64 {
    let z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN));
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The `number`-th random number of `seed`, in [0, 1), of 53 bits.
#[inline(always)]
#[must_use]
pub fn unit(seed: u64, number: u64) -> f64 {
    (bits(seed, number) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the seed 1234567 as the authors' reference implementation prints them.
    #[test]
    fn numbers_of_the_reference() {
        let numbers: Vec<_> = (0..3).map(|number| bits(1_234_567, number)).collect();
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn units_are_even() {
        let mean = (0..10_000).map(|number| unit(7, number)).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!((0..10_000).all(|number| (0.0..1.0).contains(&unit(7, number))));
    }
}
