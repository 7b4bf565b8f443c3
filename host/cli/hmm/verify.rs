//! `--verify` of `hmm score` and `hmm decode`.

use warpkov_hmm::model::Hmm;
use warpkov_hmm::sequences::Sequences;
use warpkov_mdp::certificate::rounded_up;
use warpkov_verify::hmm::{Unproved, likelihoods, shortfalls};
use warpkov_verify::interval::Interval;

use crate::error::{Error, Outcome};

/// Proves that `scores` are ln P(O) within `tolerance`, relative to each or absolute below 1, and says so on stderr.
pub fn scores(model: &Hmm, sequences: &Sequences, scores: &[f64], tolerance: f64) -> Result<Outcome, Error> {
    let exact = likelihoods(model, sequences).map_err(refused)?;
    if exact.len() != scores.len() {
        return Err(Error::Usage("--verify: sequences are split, expected one score for each".to_owned()));
    }
    let error = |(&score, x): (&f64, &Interval)| match score.is_finite() {
        true => (score - x.lo).abs().max((x.hi - score).abs()).next_up() / score.abs().max(1.0),
        false if x.lo == score && x.hi == score => 0.0,
        false => f64::INFINITY,
    };
    let worst = scores.iter().zip(&exact).map(error).fold(0.0, f64::max);
    Ok(said("ln P(O) of each sequence is off by", worst, tolerance))
}

/// Proves that no path has a ln P(O, q) above that of the path in `states` by more than `tolerance`, and says so on stderr.
pub fn paths(model: &Hmm, sequences: &Sequences, states: &[u32], tolerance: f64) -> Result<Outcome, Error> {
    let gaps = shortfalls(model, sequences, states).map_err(refused)?;
    let worst = gaps.iter().map(|gap| gap.hi).fold(0.0, f64::max);
    Ok(said("ln P(O, q) of each path is below the largest one by", worst, tolerance))
}

fn said(what: &str, worst: f64, tolerance: f64) -> Outcome {
    let proved = worst <= tolerance;
    let verdict = if proved { "proved" } else { "not proved" };
    eprintln!("{verdict}: {what} at most {}, at most {tolerance:e} asked", rounded_up(worst));
    if proved { Outcome::Success } else { Outcome::Negative }
}

fn refused(error: Unproved) -> Error {
    Error::Usage(format!("--verify: {error}"))
}
