//! Reproducible random numbers: equal seeds give bit-identical numbers on every machine and with any number of cores.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The ChaCha8 generator of a seed and a stream. Streams of one seed are independent.
pub fn random(seed: u64, stream: u64) -> ChaCha8Rng {
    // `seed_from_u64` may change between versions of the library, so the key is filled here.
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut random = ChaCha8Rng::from_seed(key);
    random.set_stream(stream);
    random
}

/// A uniform integer in 0..n, n > 0. Rejection of the last 2⁶⁴ mod n of the 2⁶⁴ draws makes it exactly uniform.
pub fn below(random: &mut impl Rng, n: u64) -> u64 {
    let last = u64::MAX - n.wrapping_neg() % n;
    loop {
        let draw = random.next_u64();
        if draw <= last {
            return draw % n;
        }
    }
}

/// A uniform multiple of 2⁻⁵³ in [0, 1).
pub fn unit(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws one of the outcomes by their probabilities, which sum to 1 up to rounding. `None` if there are no outcomes.
pub fn draw<T: Copy>(random: &mut impl Rng, outcomes: impl Iterator<Item = (T, f64)>) -> Option<T> {
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

/// Indices with positive probability, and their probabilities: outcomes to [`draw`].
pub fn numbered(probs: &[f64]) -> impl Iterator<Item = (u32, f64)> {
    (0..).zip(probs.iter().copied()).filter(|(_, prob)| *prob > 0.0)
}
