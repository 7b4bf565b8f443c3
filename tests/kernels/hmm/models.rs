//! Random models and sequences, and models whose probabilities underflow.

use warpkov::hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov::hmm::sequences::{Observations, Sequences, offsets};

use crate::random::Random;

impl Random {
    /// A random distribution over `n` elements; about a quarter of them are 0, but not the element `keep`.
    pub fn distribution(&mut self, n: usize, total: f64, keep: usize) -> Vec<f64> {
        let weights: Vec<f64> =
            (0..n).map(|i| if i != keep && self.below(4) == 0 { 0.0 } else { 0.01 + self.unit() }).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| total * weight / sum).collect()
    }

    /// A random model of symbols, with end probabilities if `ends`.
    pub fn hmm(&mut self, n: usize, symbols: usize, ends: bool) -> Hmm {
        let end: Option<Vec<f64>> = ends.then(|| (0..n).map(|_| 0.5 * self.unit()).collect());
        let left = |i: usize| end.as_ref().map_or(1.0, |end| 1.0 - end[i]);
        HmmParts {
            start: self.distribution(n, 1.0, 0),
            transitions: (0..n).flat_map(|i| self.distribution(n, left(i), i)).collect(),
            emissions: Emissions::Categorical {
                symbols: symbols as u32,
                probs: (0..n).flat_map(|i| self.distribution(symbols, 1.0, i % symbols)).collect(),
            },
            end: end.clone(),
            names: Names::default(),
        }
        .validated()
        .unwrap()
    }

    /// Random sequences of these lengths.
    pub fn observed(&mut self, lengths: &[usize], symbols: usize) -> Sequences {
        let symbols = (0..lengths.iter().sum()).map(|_| self.below(symbols as u64) as u32).collect();
        Sequences::new(offsets(lengths.iter().copied()), Observations::Symbols(symbols)).unwrap()
    }
}

impl Random {
    /// 10^−x with x uniform in [0, `orders`), or 0 with a small probability.
    pub fn magnitude(&mut self, orders: f64) -> f64 {
        if self.below(6) == 0 { 0.0 } else { 10_f64.powf(-orders * self.unit()) }
    }

    /// A distribution with such elements that sums to `total`. The element `keep` is not small.
    pub fn uneven(&mut self, n: usize, orders: f64, keep: usize, total: f64) -> Vec<f64> {
        let weights: Vec<f64> = (0..n).map(|i| if i == keep { 1.0 } else { self.magnitude(orders) }).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| total * weight / sum).collect()
    }

    /// A random model with parameters of all magnitudes: left-right or with all transitions.
    pub fn wild(&mut self, n: usize, symbols: usize, ends: bool, vectors: bool) -> Hmm {
        let orders = [2.0, 40.0, 320.0];
        let order = |random: &mut Self| orders[random.below(3) as usize];
        let left_right = self.below(2) == 0;
        let end: Option<Vec<f64>> = ends.then(|| (0..n).map(|_| 0.5 * self.magnitude(310.0)).collect());
        let mut transitions = Vec::new();
        for i in 0..n {
            let total = 1.0 - end.as_ref().map_or(0.0, |end| end[i]);
            let mut row = vec![0.0; n];
            if left_right {
                let on = if i + 1 < n { 0.1 + 0.8 * self.unit() } else { 0.0 };
                row[i] = (1.0 - on) * total;
                if i + 1 < n {
                    row[i + 1] = on * total;
                }
            } else {
                let (orders, keep) = (order(self), self.below(n as u64) as usize);
                row = self.uneven(n, orders, keep, total);
            }
            transitions.extend(row);
        }
        let emissions = if vectors {
            let spread = 10_f64.powf(2.0 * self.unit());
            Emissions::Gaussian {
                dimensions: 2,
                means: self.signed(2 * n).into_iter().map(|x| spread * x).collect(),
                covariances: Covariances::Diagonal((0..2 * n).map(|_| 10_f64.powf(4.0 * self.unit() - 1.0)).collect()),
            }
        } else {
            let orders = order(self);
            let probs = (0..n).flat_map(|i| self.uneven(symbols, orders, i % symbols, 1.0)).collect();
            Emissions::Categorical { symbols: symbols as u32, probs }
        };
        let start = if left_right { [vec![1.0], vec![0.0; n - 1]].concat() } else { self.uneven(n, 200.0, 0, 1.0) };
        HmmParts { start, transitions, end, emissions, names: Names::default() }.validated().unwrap()
    }
}

/// The model extended to `n` states by unreachable ones, which emit all symbols, or vectors around 25.
pub fn with_unreachable(model: &Hmm, n: usize) -> Hmm {
    let old = model.states() as usize;
    let more = |row: &[f64], by: f64| row.iter().copied().chain(vec![by; n - old]).collect::<Vec<f64>>();
    let mut transitions: Vec<f64> = model.transitions().chunks_exact(old).flat_map(|row| more(row, 0.0)).collect();
    for i in old..n {
        transitions.extend((0..n).map(|j| f64::from(u8::from(j == i))));
    }
    let emissions = match model.emissions() {
        Emissions::Categorical { symbols, probs } => {
            let v = *symbols as usize;
            let probs = probs.iter().copied().chain(vec![1.0 / v as f64; (n - old) * v]).collect();
            Emissions::Categorical { symbols: *symbols, probs }
        }
        Emissions::Gaussian { dimensions, means, covariances: Covariances::Diagonal(variances) } => {
            let wide = |x: &[f64], by: f64| {
                x.iter().copied().chain(vec![by; (n - old) * *dimensions as usize]).collect::<Vec<f64>>()
            };
            let covariances = Covariances::Diagonal(wide(variances, 1.0));
            Emissions::Gaussian { dimensions: *dimensions, means: wide(means, 25.0), covariances }
        }
        full => full.clone(),
    };
    let end = model.end().map(|end| more(end, 0.0));
    HmmParts { start: more(model.start(), 0.0), transitions, end, emissions, names: Names::default() }
        .validated()
        .unwrap()
}

/// A model of two states and two symbols.
pub fn of_two(start: [f64; 2], transitions: [f64; 4], probs: [f64; 4], end: Option<[f64; 2]>) -> Hmm {
    HmmParts {
        start: start.to_vec(),
        transitions: transitions.to_vec(),
        end: end.map(|end| end.to_vec()),
        emissions: Emissions::Categorical { symbols: 2, probs: probs.to_vec() },
        names: Names::default(),
    }
    .validated()
    .unwrap()
}

/// The model with an additional state, which every other state enters with probability 1e-300 and which has the
/// emissions of state 0: every sequence of two or more steps may underflow and is in doubt.
pub fn with_doubt(model: &Hmm) -> Hmm {
    let n = model.start().len();
    let mut transitions: Vec<f64> =
        model.transitions().chunks_exact(n).flat_map(|row| row.iter().copied().chain([1e-300])).collect();
    // The additional state may go to every state.
    transitions.extend(vec![1.0 / (n + 1) as f64; n + 1]);
    let again = |x: &[f64]| [x, &x[..x.len() / n]].concat();
    let emissions = match model.emissions() {
        Emissions::Categorical { symbols, probs } => Emissions::Categorical { symbols: *symbols, probs: again(probs) },
        Emissions::Gaussian { dimensions, means, covariances } => Emissions::Gaussian {
            dimensions: *dimensions,
            means: again(means),
            covariances: match covariances {
                Covariances::Diagonal(x) => Covariances::Diagonal(again(x)),
                Covariances::Full(x) => Covariances::Full(again(x)),
            },
        },
        Emissions::Channels(_) => panic!("channels"),
    };
    let end = model.end().map(|end| [end, &[0.0]].concat());
    HmmParts { start: [model.start(), &[0.0]].concat(), transitions, end, emissions, names: Names::default() }
        .validated()
        .unwrap()
}
