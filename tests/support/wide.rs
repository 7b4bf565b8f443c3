//! Reference results for hidden Markov models, computed from the definitions in numbers with a wide exponent; and
//! random models with numbers of all magnitudes.

use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::sequences::{Observations, Sequences, offsets};

/// m · 2ᵉ, where m is 0 or has its highest bit set.
#[derive(Clone, Copy, Debug)]
pub struct Big {
    m: u64,
    e: i64,
}

impl Big {
    pub const ZERO: Self = Self { m: 0, e: 0 };

    fn normal(m: u128, e: i64) -> Self {
        let shift = 64 - i64::from(m.leading_zeros());
        match m {
            0 => Self::ZERO,
            m if shift > 0 => Self { m: (m >> shift) as u64, e: e + shift },
            m => Self { m: (m << -shift) as u64, e: e + shift },
        }
    }

    pub fn new(x: f64) -> Self {
        assert!(x >= 0.0 && x.is_finite(), "{x}");
        let (bits, exponent) = (x.to_bits() & ((1 << 52) - 1), (x.to_bits() >> 52) as i64);
        match exponent {
            0 => Self::normal(bits.into(), -1074),
            exponent => Self::normal((bits | 1 << 52).into(), exponent - 1075),
        }
    }

    /// eˣ.
    pub fn exp(x: f64) -> Self {
        let whole = (x / std::f64::consts::LN_2).floor();
        // ln 2 in two parts; the first has 32 bits.
        let rest = (x - whole * 0.693_147_180_369_123_8) - whole * 1.908_214_929_270_587_7e-10;
        let Self { m, e } = Self::new(rest.exp());
        Self { m, e: e + whole as i64 }
    }

    pub fn ln(self) -> f64 {
        match self.m {
            0 => f64::NEG_INFINITY,
            m => (m as f64 / 2f64.powi(63)).ln() + (self.e + 63) as f64 * std::f64::consts::LN_2,
        }
    }

    pub fn times(self, other: Self) -> Self {
        Self::normal(u128::from(self.m) * u128::from(other.m), self.e + other.e)
    }

    pub fn plus(self, other: Self) -> Self {
        let (high, low) =
            if (self.m > 0, self.e) >= (other.m > 0, other.e) || other.m == 0 { (self, other) } else { (other, self) };
        let shift = high.e - low.e;
        if low.m == 0 || shift > 63 {
            return high;
        }
        Self::normal((u128::from(high.m) << 63) + (u128::from(low.m) << (63 - shift)), high.e - 63)
    }

    /// self / other in `f64`.
    pub fn over(self, other: Self) -> f64 {
        let k = (self.e - other.e).clamp(-3000, 900) as i32;
        let ratio = self.m as f64 / other.m as f64;
        ratio * 2f64.powi(k / 2) * 2f64.powi(k - k / 2)
    }

    fn sum(terms: impl Iterator<Item = Self>) -> Self {
        terms.fold(Self::ZERO, Self::plus)
    }
}

/// Reference results for one sequence.
pub struct Truth {
    /// ln P(O).
    pub log: f64,
    /// γ, T × N.
    pub gamma: Vec<f64>,
    /// Σ ξ, N × N.
    pub pairs: Vec<f64>,
    /// The largest |ln bⱼ(o)|. Its ulp is an unavoidable error of γ.
    pub steepest: f64,
}

/// Computes the results from the definitions.
pub fn truth(model: &Hmm, sequences: &Sequences, sequence: usize) -> Truth {
    let (n, range) = (model.start().len(), sequences.range(sequence));
    let steps = range.len();
    let logs = densities(model, sequences, sequence);
    let emitted: Vec<Big> = match &logs {
        Some(logs) => logs.iter().map(|&log| Big::exp(log)).collect(),
        None => probs(model, sequences, sequence).into_iter().map(Big::new).collect(),
    };
    let steepest = logs.iter().flatten().fold(0.0, |most: f64, log| most.max(log.abs()));
    let a: Vec<Big> = model.transitions().iter().copied().map(Big::new).collect();
    let end: Vec<Big> = match model.end() {
        Some(end) => end.iter().copied().map(Big::new).collect(),
        None => vec![Big::new(1.0); n],
    };
    let (mut alpha, mut beta) = (vec![Big::ZERO; steps * n], vec![Big::ZERO; steps * n]);
    for t in 0..steps {
        for j in 0..n {
            let sum = match t {
                0 => Big::new(model.start()[j]),
                t => Big::sum((0..n).map(|i| alpha[(t - 1) * n + i].times(a[i * n + j]))),
            };
            alpha[t * n + j] = sum.times(emitted[t * n + j]);
        }
    }
    for t in (0..steps).rev() {
        for i in 0..n {
            beta[t * n + i] = match t + 1 {
                next if next == steps => end[i],
                next => Big::sum((0..n).map(|j| a[i * n + j].times(emitted[next * n + j]).times(beta[next * n + j]))),
            };
        }
    }
    let total = Big::sum((0..n).map(|i| alpha[(steps - 1) * n + i].times(end[i])));
    let (mut gamma, mut pairs) = (vec![0.0; steps * n], vec![0.0; n * n]);
    if total.m > 0 {
        for at in 0..steps * n {
            gamma[at] = alpha[at].times(beta[at]).over(total);
        }
        for t in 1..steps {
            for (i, j) in (0..n * n).map(|at| (at / n, at % n)) {
                let right = emitted[t * n + j].times(beta[t * n + j]);
                pairs[i * n + j] += alpha[(t - 1) * n + i].times(a[i * n + j]).times(right).over(total);
            }
        }
    }
    Truth { log: total.ln(), gamma, pairs, steepest }
}

/// bⱼ(o) of symbols, T × N.
fn probs(model: &Hmm, sequences: &Sequences, sequence: usize) -> Vec<f64> {
    let (Emissions::Categorical { symbols, probs }, Observations::Symbols(seen)) =
        (model.emissions(), sequences.observations())
    else {
        panic!("symbols")
    };
    let of = |at: usize| (0..model.start().len()).map(move |j| probs[j * *symbols as usize + seen[at] as usize]);
    sequences.range(sequence).flat_map(of).collect()
}

/// ln bⱼ(x) of vectors of one or two dimensions, T × N.
fn densities(model: &Hmm, sequences: &Sequences, sequence: usize) -> Option<Vec<f64>> {
    let (Emissions::Gaussian { dimensions, means, covariances }, Observations::Vectors { values, .. }) =
        (model.emissions(), sequences.observations())
    else {
        return None;
    };
    let d = *dimensions as usize;
    let tau = std::f64::consts::TAU;
    let log = |at: usize, j: usize| {
        let y: Vec<f64> = (0..d).map(|k| values[at * d + k] - means[j * d + k]).collect();
        match covariances {
            Covariances::Diagonal(variances) => {
                let variances = &variances[j * d..][..d];
                y.iter().zip(variances).map(|(y, v)| -0.5 * (y * y / v + (tau * v).ln())).sum()
            }
            Covariances::Full(matrices) => {
                let m = &matrices[j * d * d..][..d * d];
                assert_eq!(d, 2);
                let det = m[0] * m[3] - m[1] * m[1];
                let square = (m[3] * y[0] * y[0] - 2.0 * m[1] * y[0] * y[1] + m[0] * y[1] * y[1]) / det;
                -0.5 * (square + det.ln()) - tau.ln()
            }
        }
    };
    let rows = sequences.range(sequence).flat_map(|at| (0..model.start().len()).map(move |j| (at, j)));
    Some(rows.map(|(at, j)| log(at, j)).collect())
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / 2f64.powi(53)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// 10ˣ with x uniform in [`low`, `high`).
    fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        10f64.powf(low + (high - low) * self.unit())
    }

    /// A random distribution over `orders` orders of magnitude, zero where `may` is false.
    fn distribution(&mut self, may: &[bool], orders: f64) -> Vec<f64> {
        let mut x: Vec<f64> = may.iter().map(|&may| if may { self.magnitude(-orders, 0.0) } else { 0.0 }).collect();
        let places: Vec<usize> = (0..x.len()).filter(|&at| may[at]).collect();
        x[places[self.below(places.len())]] = 1.0;
        let sum: f64 = x.iter().sum();
        x.iter_mut().for_each(|x| *x /= sum);
        x
    }
}

/// The possible transitions of a random structure.
fn structure(random: &mut Random, n: usize) -> Vec<bool> {
    let kind = random.below(6);
    let pairs = (0..n * n).map(|at| (at / n, at % n));
    match kind {
        0 | 1 => vec![true; n * n],
        // Left-right.
        2 => pairs.map(|(i, j)| j == i || j == i + 1).collect(),
        // A ring, with loops or without.
        3 => {
            let loops = random.below(2) == 0;
            pairs.map(|(i, j)| j == (i + 1) % n || loops && i == j).collect()
        }
        // The last state is absorbing.
        4 => pairs.map(|(i, j)| i + 1 < n || j == i).collect(),
        _ => pairs.map(|(i, j)| random.below(3) == 0 || j == (i + 1) % n).collect(),
    }
}

/// A random model, and sequences that may be very unlikely under it.
pub fn random_case(seed: u64) -> (Hmm, Sequences) {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let n = 1 + random.below(7);
    let may = structure(&mut random, n);
    let orders = [0.5, 3.0, 40.0, 323.0][random.below(4)];
    let mut transitions: Vec<f64> = Vec::new();
    let ends = random.below(3) == 0;
    let mut end = Vec::new();
    for row in may.chunks(n) {
        let mut row = random.distribution(row, orders);
        if ends {
            let last = if random.below(3) == 0 { 0.0 } else { random.magnitude(-320.0, -0.5) };
            row.iter_mut().for_each(|p| *p *= 1.0 - last);
            end.push(last);
        }
        transitions.extend(row);
    }
    let start = match random.below(3) {
        0 => (0..n).map(|i| f64::from(u8::from(i == 0))).collect(),
        1 => random.distribution(&vec![true; n], 2.0),
        _ => random.distribution(&vec![true; n], 323.0),
    };
    let lengths: Vec<usize> = {
        let longest = [3, 30, 120][random.below(3)];
        (0..1 + random.below(4)).map(|_| 1 + random.below(longest)).collect()
    };
    let steps: usize = lengths.iter().sum();
    let (emissions, observations) = if random.below(2) == 0 {
        let symbols = 1 + random.below(5);
        let orders = [0.5, 3.0, 100.0, 323.0][random.below(4)];
        let rows = (0..n).flat_map(|_| {
            let may: Vec<bool> = (0..symbols).map(|_| random.below(8) > 0).collect();
            let may = if may.contains(&true) { may } else { vec![true; symbols] };
            random.distribution(&may, orders)
        });
        let probs = rows.collect();
        // Runs of a symbol.
        let runs = 1 + random.below(40);
        let mut symbol = 0;
        let seen = (0..steps).map(|_| {
            symbol = if random.below(runs) == 0 { random.below(symbols) } else { symbol };
            symbol as u32
        });
        (Emissions::Categorical { symbols: symbols as u32, probs }, Observations::Symbols(seen.collect()))
    } else {
        let full = random.below(3) == 0;
        let d = if full { 2 } else { 1 + random.below(2) };
        let spread = random.magnitude(-2.0, 3.0);
        let means: Vec<f64> = (0..n * d).map(|_| spread * (2.0 * random.unit() - 1.0)).collect();
        let (low, high) = [(0.0, 0.0), (-2.0, 2.0), (-1.0, 5.0)][random.below(3)];
        let covariances = if full {
            let of_state = |random: &mut Random| {
                let (a, b) = (random.magnitude(low, high), random.magnitude(low, high));
                let c = (1.6 * random.unit() - 0.8) * (a * b).sqrt();
                [a, c, c, b]
            };
            Covariances::Full((0..n).flat_map(|_| of_state(&mut random)).collect())
        } else {
            Covariances::Diagonal((0..n * d).map(|_| random.magnitude(low, high)).collect())
        };
        let runs = 1 + random.below(30);
        let mut state = 0;
        let mut values = Vec::new();
        for _ in 0..steps {
            state = if random.below(runs) == 0 { random.below(n) } else { state };
            for k in 0..d {
                values.push(means[state * d + k] + 0.1 * spread * (random.unit() - 0.5));
            }
        }
        (
            Emissions::Gaussian { dimensions: d as u32, means, covariances },
            Observations::Vectors { dimensions: d as u32, values },
        )
    };
    let end = ends.then_some(end);
    let model = HmmParts { start, transitions, end, emissions, names: Names::default() }.validated().unwrap();
    (model, Sequences::new(offsets(lengths), observations).unwrap())
}
