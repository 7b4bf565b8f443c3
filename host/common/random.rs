//! Random numbers: equal seeds give equal numbers, bit for bit, on every machine and any number of cores.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The random numbers of one stream.
pub(crate) fn random(seed: u64, stream: u64) -> ChaCha8Rng {
    // Not `seed_from_u64`, which may change with the library.
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut random = ChaCha8Rng::from_seed(key);
    random.set_stream(stream);
    random
}

/// A number in 0..n, each as likely as another: of the 2⁶⁴ draws the last 2⁶⁴ mod n are rejected.
pub(crate) fn below(random: &mut impl Rng, n: u64) -> u64 {
    let last = u64::MAX - n.wrapping_neg() % n;
    loop {
        let draw = random.next_u64();
        if draw <= last {
            return draw % n;
        }
    }
}

/// A number in [0, 1): a multiple of 2⁻⁵³, each as likely as another.
pub(crate) fn unit(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// One of these, by their probabilities, which sum to 1 but for rounding; `None` of none.
pub(crate) fn draw<T: Copy>(random: &mut impl Rng, outcomes: impl Iterator<Item = (T, f64)>) -> Option<T> {
    let mut left = unit(random);
    let mut last = None;
    for (outcome, prob) in outcomes {
        last = Some(outcome);
        left -= prob;
        if left < 0.0 {
            break;
        }
    }
    last
}
