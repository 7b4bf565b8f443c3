//! The recursions in logarithms, by their definitions: a reference for what may underflow.

use warpkov_hmm::model::Hmm;

/// ln Σ eˣ.
pub fn log_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY { most } else { most + logs.map(|log| (log - most).exp()).sum::<f64>().ln() }
}

/// ln Aᵢⱼ.
pub fn step(model: &Hmm, i: usize, j: usize) -> f64 {
    model.row(i)[j].ln()
}

/// All steps of a sequence.
pub struct Trellis {
    /// ln αₜ(j) and ln βₜ(j).
    pub alpha: Vec<Vec<f64>>,
    pub beta: Vec<Vec<f64>>,
    /// ln P(O).
    pub log: f64,
    /// ln P(O, q) of a best path.
    pub score: f64,
}

impl Trellis {
    /// Of a sequence of T steps, whose step t state j emits with ln bⱼ(oₜ) = `emitted(t, j)`.
    pub fn new(model: &Hmm, steps: usize, emitted: impl Fn(usize, usize) -> f64) -> Self {
        let n = model.start().len();
        let step = |i, j| step(model, i, j);
        let end = |i: usize| model.end().map_or(0.0, |end| end[i].ln());
        let first: Vec<f64> = (0..n).map(|j| model.start()[j].ln() + emitted(0, j)).collect();
        let (mut alpha, mut delta) = (vec![first.clone()], first);
        for t in 1..steps {
            let before = &alpha[t - 1];
            let next = (0..n).map(|j| log_sum((0..n).map(|i| before[i] + step(i, j))) + emitted(t, j)).collect();
            alpha.push(next);
            let best = |j: usize| (0..n).map(|i| delta[i] + step(i, j)).fold(f64::NEG_INFINITY, f64::max);
            delta = (0..n).map(|j| best(j) + emitted(t, j)).collect();
        }
        let log = log_sum((0..n).map(|j| alpha[steps - 1][j] + end(j)));
        let score = (0..n).map(|j| delta[j] + end(j)).fold(f64::NEG_INFINITY, f64::max);
        let mut beta: Vec<Vec<f64>> = vec![(0..n).map(end).collect()];
        for t in (1..steps).rev() {
            let after = &beta[beta.len() - 1];
            let of = |i: usize| log_sum((0..n).map(|j| step(i, j) + emitted(t, j) + after[j]));
            beta.push((0..n).map(of).collect());
        }
        beta.reverse();
        Self { alpha, beta, log, score }
    }

    /// The share e^x / P(O) of ln P(O, …) = x; 0 of an impossible sequence.
    pub fn share(&self, x: f64) -> f64 {
        if self.log > f64::NEG_INFINITY { (x - self.log).exp() } else { 0.0 }
    }

    /// γₜ(j).
    pub fn gamma(&self, t: usize) -> Vec<f64> {
        self.alpha[t].iter().zip(&self.beta[t]).map(|(alpha, beta)| self.share(alpha + beta)).collect()
    }
}
