//! Reproducible random inputs.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts};

pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Uniform in 0 … `bound` − 1, with a negligible bias.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `n` numbers, uniform in [−1, 1).
    pub fn signed(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| 2.0 * self.unit() - 1.0).collect()
    }

    /// A random model: rows of 1 to `longest` successors, with rewards in [−1, 1) on about half of the transitions.
    pub fn mdp(&mut self, states: u32, actions: u32, longest: u32, gamma: f64) -> Mdp {
        let (p, r) = self.rows((states * actions) as usize, states, longest, |_| 1.0);
        Mdp::new(states, actions, gamma, p.csr(), r.csr(), None).expect("a valid model")
    }

    /// A matrix whose rows are distributions over 1 to `longest` columns.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn distributions(&mut self, count: usize, columns: u32, longest: u32) -> Csr {
        self.rows(count, columns, longest, |_| 1.0).0.csr()
    }

    /// A random model: states have 0 to `actions` actions, some rows end the process with positive probability, and
    /// some actions have rewards.
    pub fn ragged(&mut self, states: u32, actions: u32, longest: u32, gamma: f64) -> Mdp {
        let mut offsets = vec![0];
        for state in 0..u64::from(states) {
            let count = self.below(u64::from(actions) + 1);
            offsets.push(offsets[state as usize] + if state == 0 { count.max(1) } else { count });
        }
        let rows = offsets[states as usize] as usize;
        let ends: Vec<f64> =
            (0..rows).map(|_| if self.below(4) == 0 { 0.25 * self.below(5) as f64 } else { 0.0 }).collect();
        let (p, r) = self.rows(rows, states, longest, |row| 1.0 - ends[row]);
        let mdp = MdpParts {
            states,
            choices: Choices::Ragged(offsets.into()),
            gamma,
            transitions: p.csr(),
            rewards: r.csr(),
            ends: ends.into(),
            action_rewards: self.signed(rows).into(),
            ..MdpParts::default()
        };
        mdp.validated().expect("a valid model")
    }

    /// Rows of 1 to `longest` successors with sum `sum(row)`, empty if that is 0; and rewards on about half of the
    /// transitions.
    fn rows(&mut self, count: usize, states: u32, longest: u32, sum: impl Fn(usize) -> f64) -> (Rows, Rows) {
        let (mut p, mut r) = (Rows::default(), Rows::default());
        for row in 0..count {
            let length = if sum(row) > 0.0 { 1 + self.below(u64::from(longest.min(states))) as usize } else { 0 };
            let mut successors = std::collections::BTreeSet::new();
            while successors.len() < length {
                successors.insert(self.below(u64::from(states)) as u32);
            }
            let weights: Vec<f64> = successors.iter().map(|_| 0.05 + self.unit()).collect();
            let total: f64 = weights.iter().sum();
            for (&successor, weight) in successors.iter().zip(weights) {
                p.push(successor, sum(row) * weight / total);
                if self.below(2) == 0 {
                    r.push(successor, 2.0 * self.unit() - 1.0);
                }
            }
            p.end_row();
            r.end_row();
        }
        (p, r)
    }
}

struct Rows {
    row_ptr: Vec<u64>,
    col: Vec<u32>,
    val: Vec<f64>,
}

impl Default for Rows {
    fn default() -> Self {
        Self { row_ptr: vec![0], col: Vec::new(), val: Vec::new() }
    }
}

impl Rows {
    fn push(&mut self, col: u32, val: f64) {
        self.col.push(col);
        self.val.push(val);
    }

    fn end_row(&mut self) {
        self.row_ptr.push(self.col.len() as u64);
    }

    fn csr(self) -> Csr {
        Csr::new(self.row_ptr, self.col, self.val).unwrap()
    }
}
