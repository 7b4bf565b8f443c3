//! Filtering: what the observations so far say about the hidden state, while they arrive.
//!
//! > αₜ(j) = P(qₜ = j | o₁ … oₜ) ∝ bⱼ(oₜ) · Σᵢ αₜ₋₁(i) Aᵢⱼ
//!
//! A [`Filter`] does one step of this recursion per observation, in N² operations, and keeps N numbers. With a lag of L it
//! also keeps the last L + 1 steps, and a backward recursion over them gives P(qₜ₋ₗ = j | o₁ … oₜ), in L · N² operations.
//! Sequences that are complete are better served by [`Recursions`](super::backend::Recursions), which has all steps at once.
//!
//! Probabilities have logarithms beside them. A sum below 10⁻²⁰⁰ is computed from the logarithms, so a state whose
//! probability leaves the range of numbers is not lost: a later observation may leave no other.

use std::collections::VecDeque;
use std::iter;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::backends::cpu::{ChannelDensities, Densities};
use super::channels::Unsupported;
use super::model::{Covariances, Emissions, Hmm};
use super::sequences::Observation;
use super::special::log_sum;

/// Sums of products of probabilities below this are computed from logarithms. Terms that underflow are below 10⁻¹⁰⁰ of
/// the others.
const LEAST: f64 = 1e-200;

/// Why an observation is refused. The filter is as before.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// No state that the chain can be in emits the observation.
    #[error("the model cannot emit this after the observations before it")]
    Impossible,
    /// No state that the chain can be in ends a sequence.
    #[error("the model cannot end a sequence here")]
    Endless,
    /// The model has no such symbol.
    #[error("found symbol {found}, expected one below {symbols}")]
    Symbol {
        /// The symbol.
        found: u32,
        /// V, or 0 if the model emits vectors.
        symbols: u32,
    },
    /// A channel of the model does not emit a component, whatever its parameters.
    #[error("column {column}: found {found}, expected {expected}")]
    Component {
        /// The column.
        column: u32,
        /// The component; NaN if it is missing.
        found: f64,
        /// What the channel emits.
        expected: &'static str,
    },
    /// The vector does not have the model's dimension, or has infinite components.
    #[error("found {found} finite or missing numbers, expected {expected}")]
    Vector {
        /// Number of finite and missing components.
        found: usize,
        /// D, or 0 if the model emits symbols.
        expected: usize,
    },
}

/// The hidden state of a model, given a stream of observations.
///
/// ```
/// use warpkov_hmm::filter::Filter;
/// use warpkov_hmm::generate::IceCream;
/// use warpkov_hmm::sequences::Observation;
///
/// let hmm = IceCream.generate()?;
/// let mut filter = Filter::new(&hmm, 0);
/// for ice_creams in [1, 2, 2] {
///     filter.push(Observation::Symbol(ice_creams))?;
///     assert!((filter.probs().iter().sum::<f64>() - 1.0).abs() < 1e-15);
/// }
/// assert_eq!(filter.steps(), 3);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Filter {
    tables: Arc<Precomputed>,
    now: Distribution,
    /// The step that is computed, which replaces `now` unless the observation is refused.
    next: Distribution,
    emission: Vec<f64>,
    /// The last vectors of the sequence, as many as densities of channels depend on.
    earlier: Vec<f64>,
    steps: u64,
    log_likelihood: Sum,
    lag: usize,
    /// ln α and ln b of the last L + 1 steps, the newest at the end.
    past: VecDeque<(Vec<f64>, Vec<f64>)>,
}

impl Filter {
    /// A filter before the first observation, which smooths over `lag` steps. It has a copy of the model.
    #[must_use]
    pub fn new(model: &Hmm, lag: usize) -> Self {
        let n = model.start().len();
        let tables = Precomputed {
            emit: Emit::new(model),
            onward: Products::new(n, |to, from| model.row(from)[to]),
            back: (lag > 0).then(|| Products::new(n, |from, to| model.row(from)[to])),
            model: model.clone(),
        };
        Self::with(Arc::new(tables), lag)
    }

    /// Another filter of the same model and lag, before its first observation. Both share their tables.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::with(Arc::clone(&self.tables), self.lag)
    }

    fn with(tables: Arc<Precomputed>, lag: usize) -> Self {
        let n = tables.model.start().len();
        Self {
            tables,
            now: Distribution::new(n),
            next: Distribution::new(n),
            emission: Vec::new(),
            earlier: Vec::new(),
            steps: 0,
            log_likelihood: Sum::default(),
            lag,
            past: VecDeque::new(),
        }
    }

    /// Takes the next observation.
    ///
    /// # Errors
    /// If the model does not emit it, at all or here. The filter is as before.
    pub fn push(&mut self, observation: Observation<'_>) -> Result<(), Refused> {
        let rows = self.rows(observation);
        match &self.tables.emit {
            Emit::Channels(densities) if !rows.is_empty() => {
                if let Some(Unsupported { column, found, expected }) = densities.unsupported(&rows) {
                    return Err(Refused::Component { column, found, expected });
                }
                self.emission.resize(self.tables.model.start().len(), 0.0);
                densities.logs(&rows, &mut self.emission);
            }
            emit => emit.logs(&self.tables.model, observation, &mut self.emission)?,
        }
        if self.steps == 0 {
            self.next.logs.iter_mut().zip(self.tables.model.start()).for_each(|(log, p)| *log = p.ln());
        } else {
            self.tables.onward.weigh(&self.now, &mut self.next.logs);
        }
        self.next.logs.iter_mut().zip(&self.emission).for_each(|(log, emission)| *log += emission);
        let log = self.next.normalise().ok_or(Refused::Impossible)?;
        std::mem::swap(&mut self.now, &mut self.next);
        let kept = self.tables.emit.lags() * self.dimensions() as usize;
        self.earlier = rows[rows.len().saturating_sub(kept)..].to_vec();
        self.log_likelihood.add(log);
        self.steps += 1;
        if self.lag > 0 {
            let (mut logs, mut emission) =
                if self.past.len() > self.lag { self.past.pop_front().unwrap_or_default() } else { Default::default() };
            logs.clone_from(&self.now.logs);
            emission.clone_from(&self.emission);
            self.past.push_back((logs, emission));
        }
        Ok(())
    }

    /// The vectors that densities of channels depend on, the observation as the last; empty for other models, and for vectors that are
    /// none of the model.
    fn rows(&self, observation: Observation<'_>) -> Vec<f64> {
        let (Emit::Channels(_), Some(d)) = (&self.tables.emit, self.tables.model.emissions().dimensions()) else {
            return Vec::new();
        };
        let mut rows = self.earlier.clone();
        match observation {
            Observation::Vector(x) if x.len() == d as usize && !x.iter().any(|x| x.is_infinite()) => rows.extend(x),
            Observation::Missing => rows.resize(rows.len() + d as usize, f64::NAN),
            _ => rows.clear(),
        }
        rows
    }

    /// D; 0 for symbols.
    fn dimensions(&self) -> u32 {
        self.tables.model.emissions().dimensions().unwrap_or_default()
    }

    /// t, the number of observations of this sequence.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// ln P(o₁ … oₜ).
    #[must_use]
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihood.value()
    }

    /// P(qₜ = j | o₁ … oₜ) of all states j; 0 before the first observation.
    #[must_use]
    pub fn probs(&self) -> &[f64] {
        &self.now.probs
    }

    /// P(qₜ₋ₗ = j | o₁ … oₜ) of all states j for the lag L; `None` before step L + 1. With a lag of 0 these are
    /// [`probs`](Self::probs).
    #[must_use]
    pub fn smoothed(&self) -> Option<Vec<f64>> {
        if self.lag == 0 {
            return (self.steps > 0).then(|| self.now.probs.clone());
        }
        (self.past.len() > self.lag).then(|| self.smooth(self.lag..=self.lag, |_| 0.0).pop()).flatten()
    }

    /// P(qₜ₊ₕ = j | o₁ … oₜ) of all states j, given that the sequence has not ended before; 0 if it must have ended. Before
    /// the first observation, π is the distribution one step ahead.
    #[must_use]
    pub fn predicted(&self, ahead: u32) -> Vec<f64> {
        let mut state = self.now.clone();
        let mut logs = vec![0.0; state.logs.len()];
        let begins = self.steps == 0 && ahead > 0;
        if begins {
            state.logs.iter_mut().zip(self.tables.model.start()).for_each(|(log, p)| *log = p.ln());
            state.normalise();
        }
        for _ in u32::from(begins)..ahead {
            self.tables.onward.weigh(&state, &mut logs);
            std::mem::swap(&mut state.logs, &mut logs);
            if state.normalise().is_none() {
                break;
            }
        }
        state.probs
    }

    /// The distribution of an observation for these probabilities of the states: of V symbols; or D means, and D standard
    /// deviations after them. Empty for channels.
    #[must_use]
    pub fn observation(&self, states: &[f64]) -> Vec<f64> {
        let mixed = |of: &dyn Fn(usize) -> f64| states.iter().enumerate().map(|(state, p)| p * of(state)).sum::<f64>();
        match self.tables.model.emissions() {
            Emissions::Categorical { symbols, probs } => {
                let symbols = *symbols as usize;
                (0..symbols).map(|symbol| mixed(&|state| probs[state * symbols + symbol])).collect()
            }
            Emissions::Gaussian { dimensions, means, covariances } => {
                let d = *dimensions as usize;
                let mean: Vec<f64> = (0..d).map(|k| mixed(&|state| means[state * d + k])).collect();
                let variance = |state: usize, k: usize| match covariances {
                    Covariances::Diagonal(variances) => variances[state * d + k],
                    Covariances::Full(matrices) => matrices[(state * d + k) * d + k],
                };
                let deviation =
                    |k: usize| mixed(&|state| variance(state, k) + (means[state * d + k] - mean[k]).powi(2)).sqrt();
                let deviations: Vec<f64> = (0..d).map(deviation).collect();
                mean.into_iter().chain(deviations).collect()
            }
            Emissions::Channels(_) => Vec::new(),
        }
    }

    /// Ends the sequence: returns P(qₛ = j | o₁ … oₜ) of all states j for the last steps s that a lag has kept back, in
    /// order, and ln P(O), which includes the probability of the end in a model that has one. The next observation begins
    /// another sequence.
    ///
    /// # Errors
    /// If no state that the chain can be in ends a sequence. The filter is as before.
    pub fn finish(&mut self) -> Result<(Vec<Vec<f64>>, f64), Refused> {
        self.close(true)
    }

    /// Breaks the sequence off, as a stream that stops before the sequence ends: as [`finish`](Self::finish), without the
    /// probability of an end.
    pub fn break_off(&mut self) -> (Vec<Vec<f64>>, f64) {
        // Only an end is refused.
        self.close(false).unwrap_or_default()
    }

    fn close(&mut self, ends: bool) -> Result<(Vec<Vec<f64>>, f64), Refused> {
        let last = self.tables.model.end().filter(|_| ends);
        let end = |state: usize| last.map_or(0.0, |end| end[state].ln());
        self.next.logs.iter_mut().enumerate().for_each(|(state, log)| *log = self.now.logs[state] + end(state));
        if self.steps > 0 {
            let log = self.next.normalise().ok_or(Refused::Endless)?;
            if last.is_some() {
                self.log_likelihood.add(log);
            }
        }
        let mut smoothed = match self.lag.min(self.past.len()) {
            0 => Vec::new(),
            kept => self.smooth(0..=kept - 1, end),
        };
        smoothed.reverse();
        let log_likelihood = self.log_likelihood();
        self.past.clear();
        self.earlier.clear();
        self.steps = 0;
        self.log_likelihood = Sum::default();
        self.now = Distribution::new(self.now.logs.len());
        Ok((smoothed, log_likelihood))
    }

    /// What the filter knows, as numbers for [`restore`](Self::restore).
    #[must_use]
    pub fn save(&self) -> Vec<f64> {
        let Sum { sum, error } = self.log_likelihood;
        let past = self.past.iter().flat_map(|(alpha, emission)| [alpha, emission]);
        let all = iter::once(&self.now.logs).chain(past).chain([&self.earlier]);
        all.flatten().copied().chain([self.steps as f64, sum, error]).collect()
    }

    /// Takes what a filter of the same model and lag has [saved](Self::save). Returns false, without a change, if the
    /// numbers are not of such a filter.
    #[must_use]
    pub fn restore(&mut self, saved: &[f64]) -> bool {
        let n = self.now.logs.len();
        let Some((rows, &[steps, sum, error])) = saved.split_last_chunk() else { return false };
        let kept = if self.lag > 0 { steps.min(self.lag as f64 + 1.0) } else { 0.0 };
        let earlier = steps.min(self.tables.emit.lags() as f64) * f64::from(self.dimensions());
        if !(steps >= 0.0 && rows.len() as f64 == (1.0 + 2.0 * kept) * n as f64 + earlier) {
            return false;
        }
        let (logs, past) = rows.split_at(n);
        let (past, earlier) = past.split_at(past.len() - earlier as usize);
        self.earlier = earlier.to_vec();
        self.now = Distribution { logs: logs.to_vec(), probs: logs.iter().map(|log| log.exp()).collect() };
        self.past = past.chunks_exact(2 * n).map(|step| (step[..n].to_vec(), step[n..].to_vec())).collect();
        self.steps = steps as u64;
        self.log_likelihood = Sum { sum, error };
        true
    }

    /// The probabilities so many steps before the newest one, from the latest on, where `last` is ln β of the newest.
    fn smooth(&self, before: RangeInclusive<usize>, last: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
        let n = self.now.logs.len();
        let mut beta: Vec<f64> = (0..n).map(last).collect();
        let mut behind = Distribution::new(n);
        let mut all = Vec::new();
        for (step, (alpha, emission)) in self.past.iter().rev().enumerate().take(before.end() + 1) {
            if before.contains(&step) {
                let mut smoothed = Distribution::new(n);
                let logs = smoothed.logs.iter_mut().zip(alpha.iter().zip(&beta));
                logs.for_each(|(log, (alpha, beta))| *log = alpha + beta);
                smoothed.normalise();
                all.push(smoothed.probs);
            }
            behind.logs.iter_mut().zip(emission.iter().zip(&beta)).for_each(|(log, (b, beta))| *log = b + beta);
            behind.normalise();
            if let Some(back) = &self.tables.back {
                back.weigh(&behind, &mut beta);
            }
        }
        all
    }
}

/// What all filters of a model share.
struct Precomputed {
    model: Hmm,
    emit: Emit,
    /// Σᵢ xᵢ Aᵢⱼ.
    onward: Products,
    /// Σⱼ Aᵢⱼ xⱼ, if there is a lag.
    back: Option<Products>,
}

/// N probabilities that sum to 1, and their logarithms.
#[derive(Clone)]
struct Distribution {
    logs: Vec<f64>,
    probs: Vec<f64>,
}

impl Distribution {
    fn new(n: usize) -> Self {
        Self { logs: vec![f64::NEG_INFINITY; n], probs: vec![0.0; n] }
    }

    /// Scales the probabilities of `logs` to the sum 1. Returns the logarithm of their sum, or `None` if all are 0.
    fn normalise(&mut self) -> Option<f64> {
        let log = log_sum(self.logs.iter().copied());
        for (p, entry) in self.probs.iter_mut().zip(&mut self.logs) {
            if log > f64::NEG_INFINITY {
                *entry -= log;
            }
            *p = entry.exp();
        }
        debug_assert!(log == f64::NEG_INFINITY || (self.probs.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        (log > f64::NEG_INFINITY).then_some(log)
    }
}

/// Products yⱼ = Σᵢ wⱼᵢ xᵢ of a matrix and a [`Distribution`].
struct Products {
    /// wⱼᵢ, row by row.
    weights: Vec<f64>,
    /// ln wⱼᵢ.
    logs: Vec<f64>,
}

impl Products {
    fn new(n: usize, weight: impl Fn(usize, usize) -> f64) -> Self {
        let weights: Vec<f64> = (0..n * n).map(|at| weight(at / n, at % n)).collect();
        let logs = weights.iter().map(|weight| weight.ln()).collect();
        Self { weights, logs }
    }

    /// Writes ln y.
    fn weigh(&self, x: &Distribution, log_y: &mut [f64]) {
        let n = x.probs.len();
        for (j, log) in log_y.iter_mut().enumerate() {
            let sum = dot(&self.weights[j * n..][..n], &x.probs);
            *log = if sum >= LEAST {
                sum.ln()
            } else {
                log_sum(self.logs[j * n..][..n].iter().zip(&x.logs).map(|(weight, x)| weight + x))
            };
        }
    }
}

/// Σᵢ xᵢ yᵢ.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    const LANES: usize = 8;
    let ((x, rest_x), (y, rest_y)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (x, y) in x.iter().zip(y) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f64>() + rest_x.iter().zip(rest_y).map(|(x, y)| x * y).sum::<f64>()
}

/// The logarithms ln bⱼ(o).
enum Emit {
    /// ln Bⱼₒ, N numbers for each symbol.
    Symbols(Vec<f64>),
    /// Normal densities.
    Vectors(Densities),
    /// Densities of channels.
    Channels(ChannelDensities),
}

impl Emit {
    fn new(model: &Hmm) -> Self {
        let n = model.start().len();
        match model.emissions() {
            Emissions::Categorical { symbols, probs } => {
                let symbols = *symbols as usize;
                Self::Symbols((0..n * symbols).map(|at| probs[at % n * symbols + at / n].ln()).collect())
            }
            Emissions::Gaussian { dimensions, means, covariances } => {
                Self::Vectors(Densities::new(n, *dimensions as usize, means, covariances))
            }
            Emissions::Channels(channels) => Self::Channels(ChannelDensities::new(n, channels)),
        }
    }

    /// Number of earlier observations that densities depend on.
    fn lags(&self) -> usize {
        match self {
            Self::Channels(densities) => densities.lags(),
            _ => 0,
        }
    }

    /// Writes ln bⱼ(o) of all states j; 0 without an observation.
    fn logs(&self, model: &Hmm, observation: Observation<'_>, logs: &mut Vec<f64>) -> Result<(), Refused> {
        let n = model.start().len();
        logs.clear();
        match (self, observation, model.emissions()) {
            (_, Observation::Missing, _) => logs.resize(n, 0.0),
            (Self::Symbols(table), Observation::Symbol(found), Emissions::Categorical { symbols, .. })
                if found < *symbols =>
            {
                logs.extend_from_slice(&table[found as usize * n..][..n]);
            }
            (Self::Vectors(densities), Observation::Vector(x), Emissions::Gaussian { dimensions, .. })
                if x.len() == *dimensions as usize && !x.iter().any(|x| x.is_infinite()) =>
            {
                logs.resize(densities.stride(), 0.0);
                densities.logs(x, logs);
                logs.truncate(n);
            }
            (_, Observation::Symbol(found), emissions) => {
                return Err(Refused::Symbol { found, symbols: emissions.symbols() });
            }
            (_, Observation::Vector(x), emissions) => {
                let expected = emissions.dimensions().unwrap_or_default();
                let found = x.iter().filter(|x| !x.is_infinite()).count();
                return Err(Refused::Vector { found, expected: expected as usize });
            }
        }
        Ok(())
    }
}

/// A sum of many terms, with the rounding errors of its additions (Neumaier).
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    error: f64,
}

impl Sum {
    fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        self.error += if self.sum.abs() >= x.abs() { (self.sum - sum) + x } else { (x - sum) + self.sum };
        self.sum = sum;
    }

    fn value(self) -> f64 {
        self.sum + self.error
    }
}
