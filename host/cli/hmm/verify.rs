//! `--verify` of `hmm score` and `hmm decode`.

use warpkov_common::numbers::Number;
use warpkov_hmm::model::Hmm;
use warpkov_hmm::report::Proven;
use warpkov_hmm::sequences::Sequences;
use warpkov_mdp::certificate::rounded_up;
use warpkov_verify::hmm::{Unproved, likelihoods, shortfalls};
use warpkov_verify::interval::Interval;

use crate::error::{Error, Outcome};

/// Encloses the error of `scores` as ln P(O), relative to each or absolute below 1, and compares it with `limit`.
/// `sets` are the symbols that V, V + 1 … stand for.
pub fn scores(
    model: &Hmm,
    (sequences, sets): (&Sequences, &[Vec<u32>]),
    scores: &[f64],
    limit: f64,
) -> Result<Proven, Error> {
    let exact = likelihoods(model, sequences, sets).map_err(refused)?;
    if exact.len() != scores.len() {
        return Err(Error::Usage("--verify: sequences are split, expected one score for each".to_owned()));
    }
    let error = |(&score, x): (&f64, &Interval)| match score.is_finite() {
        true => (score - x.lo).abs().max((x.hi - score).abs()).next_up() / score.abs().max(1.0),
        false if x.lo == score && x.hi == score => 0.0,
        false => f64::INFINITY,
    };
    Ok(proven(scores.iter().zip(&exact).map(error), limit))
}

/// Encloses by how much ln P(O, q) of the paths in `states` is below that of a best path, and compares it with `limit`.
/// `sets` are those of [`scores`].
pub fn paths(
    model: &Hmm,
    (sequences, sets): (&Sequences, &[Vec<u32>]),
    states: &[u32],
    limit: f64,
) -> Result<Proven, Error> {
    let gaps = shortfalls(model, sequences, sets, states).map_err(refused)?;
    Ok(proven(gaps.iter().map(|gap| gap.hi), limit))
}

fn proven(errors: impl Iterator<Item = f64>, limit: f64) -> Proven {
    let upper = errors.fold(0.0, f64::max);
    Proven { proved: upper <= limit, limit, upper: Number(upper) }
}

/// Says on stderr what is proved, if a proof was asked for.
pub fn say(what: &str, found: Option<Proven>) -> Outcome {
    let Some(Proven { proved, limit, upper: Number(upper) }) = found else { return Outcome::Success };
    let verdict = if proved { "proved" } else { "not proved" };
    eprintln!("{verdict}: {what} at most {}, at most {limit:e} asked", rounded_up(upper));
    if proved { Outcome::Success } else { Outcome::Negative }
}

fn refused(error: Unproved) -> Error {
    Error::Usage(format!("--verify: {error}"))
}
