//! Explicit durations of states: hidden semi-Markov models, as hidden Markov models with more states.
//!
//! State i of a semi-Markov model is entered, lasts d steps with probability Pᵢ(d), and then moves to state j with probability Aᵢⱼ, or
//! ends the sequence with probability endᵢ. Its expansion has the states (i, 1) … (i, Dᵢ), where (i, k) is the k-th step of a visit. With
//! the hazard hᵢ(k) = Pᵢ(k) / Σ Pᵢ(d) over d ≥ k, it moves
//!
//! > (i, k) → (i, k + 1) with 1 − hᵢ(k),  (i, k) → (j, 1) with hᵢ(k) Aᵢⱼ,  and ends with hᵢ(k) endᵢ
//!
//! and emits what i emits. Each path of the one model is a path of the other, of the same probability, so likelihoods, paths and
//! posteriors are exact. A sequence begins with a visit. Without end probabilities the last visit may go on behind the sequence; its
//! probability is that of its length or more.
//!
//! Training sums the expected counts of the expansion. With eₖ the count of exits from (i, k) and sₖ of its stays, hᵢ(k) = eₖ / (eₖ + sₖ)
//! for a categorical distribution, and the parameters of the other families maximise Σ eₖ ln h(k) + sₖ ln (1 − h(k)), which counts visits
//! that the end of a sequence has cut off.

use serde::{Deserialize, Serialize};

use super::special::log_sum;
use super::ties::Moves;
use warpkov_common::names::name;
use warpkov_common::parameters::SUM_TOLERANCE;

/// Maximum number of transition and emission parameters of an expansion, which take 64 MiB: 2896 states without emissions.
pub const MOST: usize = 1 << 23;

/// Deviation of a sum from 1 that rounding explains.
const ROUNDING: f64 = 1e-12;

/// A parameter of a duration that is out of range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidDuration {
    /// A number is out of range.
    #[error("{place} is {found}, expected {expected}")]
    Value {
        /// The number's keys.
        place: String,
        /// The number.
        found: f64,
        /// The range.
        expected: &'static str,
    },
    /// Probabilities do not sum to 1.
    #[error("{place} sums to {sum}, expected 1")]
    Sum {
        /// Their key.
        place: String,
        /// Their sum.
        sum: f64,
    },
}

/// The distribution of the number of steps of a visit, d ≥ 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Duration {
    /// P(d) for d = 1 … D.
    Categorical(Vec<f64>),
    /// P(d) = p (1 − p)^(d − 1). The expansion has one state.
    Geometric {
        /// p, in [0, 1]; with 0 the visit never ends.
        probability: f64,
    },
    /// d − 1 has a Poisson distribution, given that d ≤ D.
    Poisson {
        /// The mean λ of the distribution without the limit, at least 0.
        rate: f64,
        /// D.
        max: u32,
    },
    /// d − 1 has a negative binomial distribution, given that d ≤ D: P(d) ∝ C(d − 2 + r, d − 1) (1 − p)^(d − 1).
    NegativeBinomial {
        /// r > 0.
        size: f64,
        /// p, in (0, 1].
        probability: f64,
        /// D.
        max: u32,
    },
}

impl Duration {
    /// D, the number of states of the expansion.
    fn steps(&self) -> usize {
        match self {
            Self::Categorical(probs) => probs.len(),
            Self::Geometric { .. } => 1,
            Self::Poisson { max, .. } | Self::NegativeBinomial { max, .. } => *max as usize,
        }
    }

    /// Checks the parameters of state `i`, and rescales probabilities to sum to 1.
    fn validate(&mut self, i: usize) -> Result<(), InvalidDuration> {
        let wrong = |of: &str, found, expected| Err(InvalidDuration::Value { place: place(i, of), found, expected });
        if self.steps() == 0 {
            return wrong("", 0.0, "at least one step");
        }
        match self {
            Self::Categorical(probs) => {
                if let Some(at) = probs.iter().position(|p| !(0.0..=1.0 + SUM_TOLERANCE).contains(p)) {
                    return wrong(&format!(".categorical[{at}]"), probs[at], "a probability");
                }
                let sum: f64 = probs.iter().sum();
                if (sum - 1.0).abs() > SUM_TOLERANCE {
                    return Err(InvalidDuration::Sum { place: place(i, ".categorical"), sum });
                }
                if (sum - 1.0).abs() > ROUNDING {
                    probs.iter_mut().for_each(|p| *p /= sum);
                }
            }
            Self::Geometric { probability } if !(0.0..=1.0).contains(probability) => {
                return wrong(".geometric.probability", *probability, "a probability");
            }
            Self::Poisson { rate, .. } if !(rate.is_finite() && *rate >= 0.0) => {
                return wrong(".poisson.rate", *rate, "a number of at least 0");
            }
            Self::NegativeBinomial { size, .. } if !(size.is_finite() && *size > 0.0) => {
                return wrong(".negative-binomial.size", *size, "a positive number");
            }
            Self::NegativeBinomial { probability: p, .. } if !(*p > 0.0 && *p <= 1.0) => {
                return wrong(".negative-binomial.probability", *p, "a probability above 0");
            }
            _ => {}
        }
        Ok(())
    }

    /// ln P(d) for d = 1 … D, up to a constant.
    fn logs(&self) -> Vec<f64> {
        let series = |max: u32, ratio: &dyn Fn(f64) -> f64| {
            let next = |log: &mut f64, k: u32| {
                *log += if k == 0 { 0.0 } else { ratio(f64::from(k)) };
                Some(*log)
            };
            (0..max).scan(0.0, next).collect()
        };
        match self {
            Self::Categorical(probs) => probs.iter().map(|p| p.ln()).collect(),
            Self::Geometric { probability } => vec![probability.ln()],
            Self::Poisson { rate, max } => series(*max, &|k| rate.ln() - k.ln()),
            Self::NegativeBinomial { size, probability, max } => {
                series(*max, &|k| (-probability).ln_1p() + (k - 1.0 + size).ln() - k.ln())
            }
        }
    }

    /// The probabilities of exit and of stay in each of the D states, which sum to 1. No visit reaches a state that no duration does; it
    /// is left at once.
    fn hazards(&self) -> Vec<[f64; 2]> {
        match self {
            Self::Geometric { probability } => vec![[*probability, 1.0 - probability]],
            Self::Categorical(probs) => {
                let (mut rest, mut hazards) = (0.0, vec![[1.0, 0.0]; probs.len()]);
                for (hazard, p) in hazards.iter_mut().zip(probs).rev() {
                    let sum = rest + p;
                    if sum > 0.0 {
                        *hazard = [p / sum, rest / sum];
                    }
                    rest = sum;
                }
                hazards
            }
            _ => log_hazards(&self.logs()).into_iter().map(|logs| logs.map(f64::exp)).collect(),
        }
    }

    /// The mean number of steps.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if let Self::Geometric { probability } = self {
            return 1.0 / probability;
        }
        // E d = Σ P(d ≥ k)
        let survive = |alive: &mut f64, [_, stay]: [f64; 2]| {
            let now = *alive;
            *alive *= stay;
            Some(now)
        };
        self.hazards().into_iter().scan(1.0, survive).sum()
    }

    /// Number of free parameters.
    fn parameters(&self) -> usize {
        match self {
            Self::Categorical(probs) => free(probs, 0.0),
            Self::Geometric { probability } => usize::from(*probability > 0.0 && *probability < 1.0),
            Self::Poisson { rate, max } => usize::from(*rate > 0.0 && *max > 1),
            Self::NegativeBinomial { probability, max, .. } => 2 * usize::from(*probability < 1.0 && *max > 1),
        }
    }

    fn numbers(&self) -> Vec<f64> {
        match self {
            Self::Categorical(probs) => probs.clone(),
            Self::Geometric { probability } => vec![*probability],
            Self::Poisson { rate, .. } => vec![*rate],
            Self::NegativeBinomial { size, probability, .. } => vec![*size, *probability],
        }
    }

    fn numbers_mut(&mut self) -> Vec<&mut f64> {
        match self {
            Self::Categorical(probs) => probs.iter_mut().collect(),
            Self::Geometric { probability } => vec![probability],
            Self::Poisson { rate, .. } => vec![rate],
            Self::NegativeBinomial { size, probability, .. } => vec![size, probability],
        }
    }

    /// Σ eₖ ln h(k) + sₖ ln (1 − h(k)) of the counts [eₖ, sₖ].
    fn objective(&self, counts: &[[f64; 2]]) -> f64 {
        let term = |count: f64, log: f64| if count > 0.0 { count * log } else { 0.0 };
        let hazards = log_hazards(&self.logs());
        counts.iter().zip(hazards).map(|(count, log)| term(count[0], log[0]) + term(count[1], log[1])).sum()
    }

    /// The M step, in place, for the counts [eₖ, sₖ]. It never lowers the [objective](Self::objective).
    pub(super) fn maximise(&mut self, counts: &[[f64; 2]]) {
        if counts.iter().flatten().sum::<f64>() < f64::MIN_POSITIVE {
            return;
        }
        let found = match self {
            Self::Geometric { probability } => {
                *probability = counts[0][0] / (counts[0][0] + counts[0][1]);
                return;
            }
            Self::Categorical(probs) => {
                let (mut hazards, mut alive) = (Self::Categorical(probs.clone()).hazards(), 1.0);
                for ((p, hazard), [exit, stay]) in probs.iter_mut().zip(&mut hazards).zip(counts) {
                    if exit + stay >= f64::MIN_POSITIVE {
                        *hazard = [exit / (exit + stay), stay / (exit + stay)];
                    }
                    *p = alive * hazard[0];
                    alive *= hazard[1];
                }
                return;
            }
            // What is always 1 stays so: zeros stay zeros.
            Self::Poisson { rate, .. } if *rate <= 0.0 => return,
            Self::NegativeBinomial { probability, .. } if *probability >= 1.0 => return,
            &mut Self::Poisson { max, .. } => {
                let of = |log: f64| Self::Poisson { rate: log.exp(), max };
                of(highest(LEAST.ln(), (100.0 * f64::from(max)).ln(), &|log| of(log).objective(counts)))
            }
            &mut Self::NegativeBinomial { max, .. } => {
                let of = |size: f64, odds: f64| {
                    // 1 / (1 + e^-odds), at least the least positive number.
                    let probability = (1.0 / (1.0 + (-odds).exp())).max(f64::MIN_POSITIVE);
                    Self::NegativeBinomial { size: size.exp(), probability, max }
                };
                let odds = |size: f64| highest(-40.0, 35.0, &|odds| of(size, odds).objective(counts));
                let size = highest(1e-3_f64.ln(), 1e6_f64.ln(), &|size| of(size, odds(size)).objective(counts));
                of(size, odds(size))
            }
        };
        if found.objective(counts) > self.objective(counts) {
            *self = found;
        }
    }
}

/// Number of free parameters of a distribution and of an end probability that belongs to it.
pub(super) fn free(distribution: &[f64], end: f64) -> usize {
    let positive = distribution.iter().filter(|p| **p > 0.0).count() + usize::from(end > 0.0);
    positive.saturating_sub(1)
}

/// The least rate that training finds.
const LEAST: f64 = 1e-9;

/// `durations[i]`, and a part of it.
fn place(i: usize, of: &str) -> String {
    format!("durations[{i}]{of}")
}

/// ln h(k) and ln (1 − h(k)) from ln P(k) up to a constant; NaN where all of P(k), P(k + 1) … are 0.
fn log_hazards(logs: &[f64]) -> Vec<[f64; 2]> {
    let (mut rest, mut found) = (f64::NEG_INFINITY, vec![[0.0; 2]; logs.len()]);
    for (hazard, &log) in found.iter_mut().zip(logs).rev() {
        let sum = log_sum([rest, log].into_iter());
        *hazard = [log - sum, rest - sum];
        rest = sum;
    }
    found
}

/// Where a function with one maximum between `low` and `high` has it, by golden sections.
fn highest(mut low: f64, mut high: f64, f: &dyn Fn(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_8;

    let inner = |low: f64, high: f64| (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut left, mut right) = inner(low, high);
    let (mut at_left, mut at_right) = (f(left), f(right));
    while high - low > 1e-9 * low.abs().max(high.abs()).max(1.0) {
        if at_left >= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = inner(low, high).0;
            at_left = f(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = inner(low, high).1;
            at_right = f(right);
        }
    }
    f64::midpoint(low, high)
}

/// Expected counts of visits.
#[derive(Default)]
pub(super) struct Visited {
    /// Of the first visits, K.
    pub start: Vec<f64>,
    /// Of what visits lead to, K × K.
    pub led: Vec<f64>,
    /// Of ends behind visits, K.
    pub ended: Vec<f64>,
    /// The exits eₖ and the stays sₖ of each state.
    pub steps: Vec<Vec<[f64; 2]>>,
}

/// The chain of a semi-Markov model, over K states, of which an [`Hmm`](super::model::Hmm) is the expansion.
#[derive(Clone, Debug, PartialEq)]
pub struct Segments {
    /// π, K entries.
    pub(super) start: Vec<f64>,
    /// A, K × K: where visits lead. Aᵢᵢ is 0 where state i has a duration.
    pub(super) transitions: Vec<f64>,
    /// End probabilities behind visits, K entries.
    pub(super) end: Option<Vec<f64>>,
    /// Of each state; without one, its visits last one step, and Aᵢᵢ may be positive.
    pub(super) durations: Vec<Option<Duration>>,
    /// State names: none, or K.
    names: Vec<String>,
}

impl Segments {
    /// The chain of a valid model with these durations, one per state.
    pub(super) fn new(
        (start, transitions, end): (Vec<f64>, Vec<f64>, Option<Vec<f64>>),
        mut durations: Vec<Option<Duration>>,
        names: Vec<String>,
    ) -> Result<Self, InvalidDuration> {
        for (i, duration) in durations.iter_mut().enumerate() {
            let Some(duration) = duration else { continue };
            duration.validate(i)?;
            let stays = transitions[i * start.len() + i];
            if stays > 0.0 {
                let expected = "0, because the state has a duration";
                return Err(InvalidDuration::Value { place: format!("A[{i}][{i}]"), found: stays, expected });
            }
        }
        Ok(Self { start, transitions, end, durations, names })
    }

    /// Number of states of the expansion.
    pub(super) fn steps(&self) -> usize {
        self.durations.iter().fold(0_usize, |sum, duration| sum.saturating_add(steps(duration)))
    }

    /// π, K entries.
    #[must_use]
    pub fn start(&self) -> &[f64] {
        &self.start
    }

    /// A, K × K.
    #[must_use]
    pub fn transitions(&self) -> &[f64] {
        &self.transitions
    }

    /// End probabilities, K entries.
    #[must_use]
    pub fn end(&self) -> Option<&[f64]> {
        self.end.as_deref()
    }

    /// The durations of the K states.
    #[must_use]
    pub fn durations(&self) -> &[Option<Duration>] {
        &self.durations
    }

    /// State names: none, or K.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The state i of each state (i, k) of the expansion.
    #[must_use]
    pub fn of_state(&self) -> Vec<u32> {
        (0..).zip(&self.durations).flat_map(|(i, duration)| std::iter::repeat_n(i, steps(duration))).collect()
    }

    /// A and end probabilities.
    pub(super) fn chain(&mut self) -> Moves<'_> {
        Moves { transitions: &mut self.transitions, end: self.end.as_deref_mut() }
    }

    /// Number of free parameters of the chain.
    pub(super) fn parameters(&self) -> usize {
        let rows = self.transitions.chunks_exact(self.start.len()).enumerate();
        let rows = rows.map(|(i, row)| free(row, self.end.as_ref().map_or(0.0, |end| end[i])));
        let durations = self.durations.iter().flatten().map(Duration::parameters);
        free(&self.start, 0.0) + rows.sum::<usize>() + durations.sum::<usize>()
    }

    /// All parameters, for checkpoints.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let mut all = [&self.start[..], &self.transitions, self.end.as_deref().unwrap_or_default()].concat();
        all.extend(self.durations.iter().flatten().flat_map(Duration::numbers));
        all
    }

    /// Replaces all parameters.
    pub(super) fn set(&mut self, numbers: &[f64]) {
        let chain = self.start.iter_mut().chain(&mut self.transitions).chain(self.end.iter_mut().flatten());
        let durations = self.durations.iter_mut().flatten().flat_map(Duration::numbers_mut);
        chain.chain(durations).zip(numbers).for_each(|(target, number)| *target = *number);
    }

    /// Changes the distributions of the chain, each with its end probability, and those of categorical durations.
    pub(super) fn change(&mut self, mut change: impl FnMut(&mut [f64], Option<&mut f64>)) {
        change(&mut self.start, None);
        for (i, row) in self.transitions.chunks_exact_mut(self.start.len()).enumerate() {
            change(row, self.end.as_mut().map(|end| &mut end[i]));
        }
        for duration in self.durations.iter_mut().flatten() {
            if let Duration::Categorical(probs) = duration {
                change(probs, None);
            }
        }
    }

    /// Takes π, and A, end probabilities and durations, of another chain of this shape, if asked.
    pub(super) fn take(&mut self, other: &Self, start: bool, transitions: bool) {
        if start {
            self.start.clone_from(&other.start);
        }
        if transitions {
            let Self { transitions, end, durations, .. } = other.clone();
            (self.transitions, self.end, self.durations) = (transitions, end, durations);
        }
    }

    /// Expected counts of visits, from those of the expansion: of starts, transitions and ends.
    pub(super) fn visited(&self, [starts, moves, ends]: [&[f64]; 3]) -> Visited {
        let (k, n, first) = (self.start.len(), starts.len(), self.firsts());
        let mut found = Visited { led: vec![0.0; k * k], ended: vec![0.0; k], ..Visited::default() };
        for (i, duration) in self.durations.iter().enumerate() {
            let begin = first[i] as usize;
            let of_steps = begin..begin + steps(duration);
            found.start.push(starts[begin]);
            let step = |at: usize| {
                let (row, mut exits) = (&moves[at * n..][..n], 0.0);
                // Where a visit lasts one step, A may lead back to the same state; a geometric one stays there.
                for j in (0..k).filter(|&j| j != i || duration.is_none()) {
                    found.led[i * k + j] += row[first[j] as usize];
                    exits += row[first[j] as usize];
                }
                if self.end.is_some() {
                    found.ended[i] += ends[at];
                    exits += ends[at];
                }
                let next = if matches!(duration, Some(Duration::Geometric { .. })) { at } else { at + 1 };
                [exits, if of_steps.contains(&next) { row[next] } else { 0.0 }]
            };
            let counts = of_steps.clone().map(step).collect();
            found.steps.push(counts);
        }
        found
    }

    /// Writes π, A and end probabilities of the expansion, N, N × N and N numbers.
    pub(super) fn write(&self, start: &mut [f64], transitions: &mut [f64], mut end: Option<&mut [f64]>) {
        let (k, n, first) = (self.start.len(), start.len(), self.firsts());
        start.fill(0.0);
        transitions.fill(0.0);
        for i in 0..k {
            let begin = first[i] as usize;
            start[begin] = self.start[i];
            let hazards = self.durations[i].as_ref().map_or_else(|| vec![[1.0, 0.0]], Duration::hazards);
            let geometric = matches!(self.durations[i], Some(Duration::Geometric { .. }));
            for (at, [exit, stay]) in (begin..).zip(hazards) {
                let row = &mut transitions[at * n..][..n];
                for j in 0..k {
                    row[first[j] as usize] = exit * self.transitions[i * k + j];
                }
                if stay > 0.0 {
                    row[if geometric { at } else { at + 1 }] += stay;
                }
                if let (Some(all), Some(end)) = (end.as_deref_mut(), &self.end) {
                    all[at] = exit * end[i];
                }
            }
        }
    }

    /// The numbers of the states (i, 1).
    pub(super) fn firsts(&self) -> Vec<u32> {
        let next = |at: &mut u32, duration: &Option<Duration>| {
            let first = *at;
            *at += steps(duration) as u32;
            Some(first)
        };
        self.durations.iter().scan(0, next).collect()
    }

    pub(super) fn class_names(&self) -> Vec<String> {
        self.of_state().into_iter().map(|i| name(&self.names, i)).collect()
    }

    /// The names of the states of the expansion: that of the state, and behind a colon the step where there are several.
    pub(super) fn step_names(&self) -> Vec<String> {
        let each = |(i, duration): (u32, &Option<Duration>)| {
            let (name, steps) = (name(&self.names, i), steps(duration));
            (1..=steps).map(move |step| if steps == 1 { name.clone() } else { format!("{name}:{step}") })
        };
        (0..).zip(&self.durations).flat_map(each).collect()
    }
}

/// Number of states of the expansion of a state.
fn steps(duration: &Option<Duration>) -> usize {
    duration.as_ref().map_or(1, Duration::steps)
}
