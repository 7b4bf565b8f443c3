//! Random models, and which of them a test takes.

use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts, Objective};

/// Splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Rewards of a random model.
#[derive(Clone, Copy, PartialEq)]
pub enum Rewards {
    Both,
    Gains,
    Costs,
}

/// A model of few states: some without actions, some rows that may end, some absorbing, rewards of many magnitudes.
pub fn model(random: &mut Random, rewards: Rewards) -> Mdp {
    let states = 1 + random.below(5) as u32;
    let (mut offsets, mut ptr, mut col, mut val) = (vec![0_u64], vec![0_u64], Vec::new(), Vec::new());
    let (mut action_rewards, mut ends) = (Vec::new(), Vec::new());
    let scale = [1.0, 1.0, 1e-3, 1e6, 1e150, 1e-150][random.below(6) as usize];
    let may_end = random.below(2) == 0;
    for state in 0..states {
        let actions = if state > 0 && random.below(8) == 0 { 0 } else { 1 + random.below(3) };
        for _ in 0..actions {
            let mut next: Vec<u32> = (0..states).filter(|_| random.below(2) == 0).collect();
            if next.is_empty() {
                next.push(if random.below(3) == 0 { state } else { random.below(u64::from(states)) as u32 });
            }
            let weights: Vec<f64> =
                next.iter().map(|_| random.unit() * 10f64.powi(-(random.below(5) as i32)) + 1e-9).collect();
            let end = if may_end && random.below(3) == 0 { random.unit() + 0.01 } else { 0.0 };
            let sum = weights.iter().sum::<f64>() + end;
            let sum = sum * if random.below(6) == 0 { 1.0 + 2e-7 * (random.unit() - 0.5) } else { 1.0 };
            for (next, weight) in next.iter().zip(&weights) {
                col.push(*next);
                val.push(weight / sum);
            }
            ends.push(end / sum);
            ptr.push(col.len() as u64);
            let size = if random.below(3) == 0 { 0.0 } else { scale * random.unit() };
            action_rewards.push(match rewards {
                Rewards::Both => size * if random.below(2) == 0 { 1.0 } else { -1.0 },
                Rewards::Gains => size,
                Rewards::Costs => -size,
            });
        }
        offsets.push(action_rewards.len() as u64);
    }
    let gamma = [0.0, 0.5, 0.9, 0.99, 0.999_9][random.below(5) as usize];
    let objective = if random.below(2) == 0 { Objective::Maximize } else { Objective::Minimize };
    let transitions = Csr::new(ptr, col, val).unwrap();
    MdpParts {
        states,
        choices: Choices::Ragged(offsets.into()),
        gamma,
        objective,
        transitions,
        ends: if may_end { ends.into() } else { Vec::new().into() },
        action_rewards: action_rewards.into(),
        ..MdpParts::default()
    }
    .validated()
    .unwrap()
}

/// The seeds of a run: WARPKOV_MODELS from WARPKOV_SEED, or `count` from 0.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = std::env::var("WARPKOV_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let count = std::env::var("WARPKOV_MODELS").ok().and_then(|text| text.parse().ok()).unwrap_or(count);
    first..first + count
}
