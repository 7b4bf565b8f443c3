//! Identities that every result satisfies. [`place`](super::place) checks the results of every backend against them.
//!
//! | result | check | scope |
//! | --- | --- | --- |
//! | ln P(O) | less than ∞; at most 0 for symbols | all sequences |
//! | γ | each row sums to 1, or is all 0 | all observations |
//! | expected counts | with M⁺ possible sequences of T⁺ steps in total, by weight: Σ γ₁ = Σ γ_T = M⁺, Σ ξ = T⁺ − M⁺, Σ γ = T⁺ | all counts |
//! | best path q | ln P(O, q) less than ∞; −∞ where there is no path | all sequences |
//! | ln P(O) | equals that of the [exact recursions](crate::backends::cpu::Exact) | [samples](sample) |
//! | best path q | ln P(O, q) ≤ ln P(O) ≤ ln P(O, q) + T ln N, with ln P(O) from the exact recursions | [samples](sample) |
//!
//! In addition, the CPU backend checks Σᵢ αₜ(i) βₜ(i) = P(O) at every step of every sequence, and
//! [training](super::train) checks that the objective does not decrease. All checks together cost a few per cent of the
//! run time.

use super::backend::{Decoded, Expected, NO_STATE, Statistics};
use super::model::{Emissions, Hmm};
use super::sequences::Sequences;
use crate::backends::cpu::Exact;

/// Samples together have at most 1 / `PART` of all steps, or `LEAST` steps where that is more.
const PART: usize = 64;
const LEAST: usize = 64;

/// Maximum number of samples.
const SAMPLES: usize = 4;

/// A model of more states is sampled only where 1 / [`PART`] of its steps is at least [`LEAST`].
const MANY: u32 = 64;

/// A violated identity: a defect of this program, not of its input.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("internal error: {what} of sequence {sequence} is {found}, expected {expected}; please report this")]
pub struct Violated {
    /// The quantity.
    pub what: &'static str,
    /// The sequence, from 1; the last one for sums over all sequences.
    pub sequence: usize,
    /// The computed value.
    pub found: f64,
    /// The value or range that the identity requires.
    pub expected: String,
}

fn hold(
    holds: bool,
    what: &'static str,
    at: usize,
    found: f64,
    expected: impl FnOnce() -> String,
) -> Result<(), Violated> {
    if holds { Ok(()) } else { Err(Violated { what, sequence: at + 1, found, expected: expected() }) }
}

/// Checks ln P(O) of each sequence. `slack` bounds the relative rounding error.
///
/// # Errors
/// The first violation.
pub fn of_log_likelihoods(model: &Hmm, logs: &[f64], slack: f64) -> Result<(), Violated> {
    let most = if matches!(model.emissions(), Emissions::Categorical { .. }) { slack } else { f64::MAX };
    let wrong = logs.iter().position(|log| log.is_nan() || *log > most);
    wrong.map_or(Ok(()), |at| hold(false, "ln P(O)", at, logs[at], || "the logarithm of a likelihood".to_owned()))
}

/// Checks γ of each observation.
///
/// # Errors
/// The first violation.
pub fn of_posteriors(model: &Hmm, sequences: &Sequences, posteriors: &[f64], slack: f64) -> Result<(), Violated> {
    let n = model.start().len();
    for (at, row) in posteriors.chunks_exact(n).enumerate() {
        let sum: f64 = row.iter().sum();
        if !((sum - 1.0).abs() <= slack || row.iter().all(|p| *p == 0.0)) {
            return hold(false, "the sum of posteriors", sequences.place(at).0 - 1, sum, || "1".to_owned());
        }
    }
    Ok(())
}

/// Checks expected counts.
///
/// # Errors
/// The first violation.
pub fn of_expected(sequences: &Sequences, expected: &Expected, slack: f64) -> Result<(), Violated> {
    let possible = (0..sequences.len()).filter(|&sequence| expected.log_likelihoods[sequence] > f64::NEG_INFINITY);
    let (mut count, mut steps) = (0.0, 0.0);
    for sequence in possible {
        let (weight, length) = (sequences.weight(sequence), sequences.range(sequence).len() as f64);
        (count, steps) = (count + weight, steps + weight * length);
    }
    let emitted: f64 = match &expected.emissions {
        Statistics::Categorical(counts) => counts.iter().sum(),
        Statistics::Gaussian { weights, .. } => weights.iter().sum(),
        Statistics::Channels(sums) => sums.iter().step_by(sums.len() / expected.start.len()).sum(),
    };
    let [start, transitions, end] =
        [&expected.start, &expected.transitions, &expected.end].map(|counts| counts.iter().sum::<f64>());
    for (what, found, whole) in [
        ("the count of starts", start, count),
        ("the count of transitions", transitions, steps - count),
        ("the count of ends", end, count),
        ("the count of emissions", emitted, steps),
    ] {
        let holds = (found - whole).abs() <= slack * whole;
        hold(holds, what, sequences.len() - 1, found, || whole.to_string())?;
    }
    Ok(())
}

/// Checks the scores of the best paths.
///
/// # Errors
/// The first violation.
pub fn of_decoded(sequences: &Sequences, decoded: &Decoded) -> Result<(), Violated> {
    for (sequence, &score) in decoded.scores.iter().enumerate() {
        let none = decoded.states[sequences.range(sequence).start] == NO_STATE;
        let holds = score < f64::INFINITY && (!none || score == f64::NEG_INFINITY);
        hold(holds, "ln P(O, q)", sequence, score, || "the logarithm of a likelihood".to_owned())?;
    }
    Ok(())
}

/// Indices of the sequences to recompute exactly: at most four, with at most 1/64 of all steps or 64 steps together.
/// None for a model of more than 64 states with fewer than 4096 steps, where recomputation would be expensive.
#[must_use]
pub fn sample(model: &Hmm, sequences: &Sequences) -> Vec<u32> {
    let most = sequences.steps() / PART;
    if model.states() > MANY && most < LEAST {
        return Vec::new();
    }
    let mut left = most.max(LEAST);
    let every = sequences.len().div_ceil(SAMPLES);
    let mut samples = Vec::new();
    for sequence in (0..sequences.len()).step_by(every) {
        if let Some(rest) = left.checked_sub(sequences.range(sequence).len()) {
            left = rest;
            samples.push(sequence as u32);
        }
    }
    samples
}

/// Checks ln P(O) of the samples against the exact recursions.
///
/// # Errors
/// The first violation.
pub fn of_samples(model: &Hmm, sequences: &Sequences, logs: &[f64], slack: f64) -> Result<(), Violated> {
    let samples = sample(model, sequences);
    for (&sample, exact) in samples.iter().zip(Exact::new(model).log_likelihoods(sequences, &samples)) {
        let (found, steps) = (logs[sample as usize], sequences.range(sample as usize).len() as f64);
        let holds = found == exact || (found - exact).abs() <= slack * exact.abs().max(steps);
        hold(holds, "ln P(O)", sample as usize, found, || exact.to_string())?;
    }
    Ok(())
}

/// Checks ln P(O, q) of the samples against the bounds that follow from the exact ln P(O).
///
/// # Errors
/// The first violation.
pub fn of_sample_paths(model: &Hmm, sequences: &Sequences, scores: &[f64], slack: f64) -> Result<(), Violated> {
    let samples = sample(model, sequences);
    for (&sample, exact) in samples.iter().zip(Exact::new(model).log_likelihoods(sequences, &samples)) {
        let (score, steps) = (scores[sample as usize], sequences.range(sample as usize).len() as f64);
        let slack = slack * exact.abs().max(steps);
        let least = exact - steps * f64::from(model.states()).ln();
        let holds = score == exact || score <= exact + slack && score >= least - slack;
        hold(holds, "ln P(O, q)", sample as usize, score, || format!("{least} to {exact}"))?;
    }
    Ok(())
}
