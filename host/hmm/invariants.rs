//! What holds of all results, whatever computes them; checked wherever results are handed on by [`place`](super::place).
//!
//! | of | checked | for |
//! | --- | --- | --- |
//! | ln P(O) | a number below ∞; of symbols, at most 0 | all sequences |
//! | γ | each step's sum to 1, or are all 0 | all observations |
//! | expected counts | Σ γ₁ and Σ γ_T sum to the number M⁺ of possible sequences, Σ ξ to their steps − M⁺, Σ γ to their steps | all counts |
//! | the best path q | ln P(O, q) is a number below ∞, and −∞ where there is no path | all sequences |
//! | ln P(O) | that of the [exact recursions](crate::hmm::cpu::Exact) | [samples](sample) |
//! | the best path q | ln P(O, q) ≤ ln P(O) ≤ ln P(O, q) + T ln N by the exact recursions | [samples](sample) |
//!
//! The CPU, beside this, follows Σᵢ αₜ(i) βₜ(i) = P(O) at every step of every sequence, and [training](super::train) the objective. All of this takes some
//! hundredths of the time of the results.

use super::backend::{Decoded, Expected, NO_STATE, Statistics};
use super::model::{Emissions, Hmm};
use super::sequences::Sequences;
use crate::hmm::cpu::Exact;

/// Steps of all samples: a part of all, and at least these.
const PART: usize = 64;
const LEAST: usize = 64;

/// Samples at most.
const SAMPLES: usize = 4;

/// States from which samples are taken only where they are a small part of the work.
const MANY: u32 = 64;

/// Results that cannot be: an error of this program, not of its input. Sequences are numbered from 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("internal error: {what} of sequence {sequence} is {found}, expected {expected}; please report this")]
pub struct Violated {
    /// Of what.
    pub what: &'static str,
    /// The sequence, or the last of them for sums over all.
    pub sequence: usize,
    /// What was computed.
    pub found: f64,
    /// What holds.
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

/// Of ln P(O) of each sequence, where rounding makes up no more than a part `slack`.
///
/// # Errors
/// The first violation.
pub fn of_log_likelihoods(model: &Hmm, logs: &[f64], slack: f64) -> Result<(), Violated> {
    let most = if matches!(model.emissions(), Emissions::Categorical { .. }) { slack } else { f64::MAX };
    let wrong = logs.iter().position(|log| log.is_nan() || *log > most);
    wrong.map_or(Ok(()), |at| hold(false, "ln P(O)", at, logs[at], || "a logarithm of a likelihood".to_owned()))
}

/// Of γ of each observation.
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

/// Of expected counts.
///
/// # Errors
/// The first violation.
pub fn of_expected(sequences: &Sequences, expected: &Expected, slack: f64) -> Result<(), Violated> {
    let possible = (0..sequences.len()).filter(|&sequence| expected.log_likelihoods[sequence] > f64::NEG_INFINITY);
    let (mut count, mut steps) = (0, 0);
    possible.for_each(|sequence| (count, steps) = (count + 1, steps + sequences.range(sequence).len()));
    let emitted: f64 = match &expected.emissions {
        Statistics::Categorical(counts) => counts.iter().sum(),
        Statistics::Gaussian { weights, .. } => weights.iter().sum(),
    };
    let [start, transitions, end] =
        [&expected.start, &expected.transitions, &expected.end].map(|counts| counts.iter().sum::<f64>());
    for (what, found, whole) in [
        ("the count of starts", start, count),
        ("the count of transitions", transitions, steps - count),
        ("the count of ends", end, count),
        ("the count of emissions", emitted, steps),
    ] {
        let holds = (found - whole as f64).abs() <= slack * whole as f64;
        hold(holds, what, sequences.len() - 1, found, || whole.to_string())?;
    }
    Ok(())
}

/// Of the best paths.
///
/// # Errors
/// The first violation.
pub fn of_decoded(sequences: &Sequences, decoded: &Decoded) -> Result<(), Violated> {
    for (sequence, &score) in decoded.scores.iter().enumerate() {
        let none = decoded.states[sequences.range(sequence).start] == NO_STATE;
        let holds = score < f64::INFINITY && (!none || score == f64::NEG_INFINITY);
        hold(holds, "ln P(O, q)", sequence, score, || "a logarithm of a likelihood".to_owned())?;
    }
    Ok(())
}

/// Sequences that are looked at again, at most four: as many as have a sixty-fourth of all steps. None where this is much for a model.
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

/// That ln P(O) of samples is what exact recursions say.
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

/// That ln P(O, q) of samples is within the bounds that exact recursions say.
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
