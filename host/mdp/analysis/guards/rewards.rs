//! Rewards that are missing, or that ε or f32 cannot see.

use rayon::prelude::*;

use super::{Kind, Warning, census, listed, row_name};
use crate::model::{CHUNK, Mdp};
use warpkov_common::choice::Choice;
use warpkov_common::numbers::max_norm;

/// ‖r‖∞ or more: the largest stored reward of an action plus that of a transition.
fn largest(mdp: &Mdp) -> f64 {
    let largest = |rewards: &[f64]| rewards.par_chunks(CHUNK).map(max_norm).reduce(|| 0.0, f64::max);
    largest(mdp.action_rewards()) + largest(mdp.rewards().val())
}

/// The sum of the weights 1 + γ + γ² + …; 1 without a discount.
fn weight(mdp: &Mdp) -> f64 {
    if mdp.gamma() < 1.0 { 1.0 / (1.0 - mdp.gamma()) } else { 1.0 }
}

/// All rewards are 0, or none belongs to a transition of P.
pub(super) fn none(mdp: &Mdp) -> Option<Warning> {
    let rows = (0..mdp.rows()).into_par_iter().with_min_len(CHUNK);
    let view = mdp.view();
    let earns = |row: usize| {
        view.action_reward(row) != 0.0
            || view.rewards_transitions(row) && view.rewards_of(row).any(|reward| reward != 0.0)
    };
    // A reward is found at once in most models.
    if largest(mdp) > 0.0 && rows.clone().any(earns) {
        return None;
    }
    let stored = mdp.rewards().val().iter().filter(|&&reward| reward != 0.0).count();
    let message = match stored {
        0 => "the model has no rewards: all values are 0. Check the keys of the rewards, or choose criterion reach"
            .to_owned(),
        stored => format!(
            "all rewards of possible transitions are 0, and {stored} rewards belong to transitions of probability 0: check \
             the order of the indices of R"
        ),
    };
    Some(Warning { kind: Kind::NoReward.name(), count: mdp.rows(), examples: Vec::new(), message })
}

/// ‖r‖∞ / (1 − γ) ≤ ε: V = 0 is a certified answer.
pub(super) fn below_epsilon(mdp: &Mdp, epsilon: Option<f64>) -> Option<Warning> {
    let epsilon = epsilon.filter(|_| mdp.gamma() < 1.0)?;
    let (largest, weight) = (largest(mdp), weight(mdp));
    (largest * weight <= epsilon).then(|| Warning {
        kind: Kind::LargeEpsilon.name(),
        count: mdp.rows(),
        examples: Vec::new(),
        message: format!(
            "ε = {epsilon:e} is as large as the values: no reward exceeds {largest:e}, so no value exceeds {:e}, and V = 0 \
             would be certified. Choose a smaller ε or another unit of the rewards",
            largest * weight,
        ),
    })
}

/// The rows that have a nonzero reward no larger than `most`.
fn rows_below(mdp: &Mdp, most: f64) -> (usize, Vec<String>, f64) {
    let small = |reward: f64| reward != 0.0 && reward.abs() <= most;
    let view = mdp.view();
    let of_row = |row: usize| {
        let own = Some(view.action_reward(row)).filter(|&reward| small(reward));
        let stored = mdp.rewards().row(row).1.iter().copied().find(|&reward| small(reward));
        own.or(stored)
    };
    let (count, first) = census(mdp.rows(), |row| of_row(row).is_some());
    let example = first.first().and_then(|&row| of_row(row)).unwrap_or_default();
    (count, first.iter().map(|&row| row_name(mdp, row)).collect(), example)
}

/// Rewards r with |r| / (1 − γ) ≤ ε.
pub(super) fn small(mdp: &Mdp, epsilon: Option<f64>) -> Option<Warning> {
    let epsilon = epsilon.filter(|_| mdp.gamma() < 1.0)?;
    let (count, examples, example) = rows_below(mdp, epsilon / weight(mdp));
    (count > 0).then(|| {
        let message = format!(
            "ε = {epsilon:e} cannot see the rewards of {count} rows, such as {example:e} ({}): even earned for ever they \
             change no value by ε. Choose a smaller ε, or check their unit",
            listed(&examples, count),
        );
        Warning { kind: Kind::SmallRewards.name(), count, examples, message }
    })
}

/// Rewards below the rounding error in f32 of the largest possible value.
pub(super) fn wide(mdp: &Mdp) -> Option<Warning> {
    let unit = f64::from(f32::EPSILON) / 2.0;
    let (count, examples, example) = rows_below(mdp, unit * largest(mdp));
    (count > 0).then(|| {
        let message = format!(
            "{count} rows have rewards such as {example:e} ({}) beside others of {:e}: in precision f32 they vanish. Solve in \
             f64 or mixed, and check their unit",
            listed(&examples, count),
            largest(mdp),
        );
        Warning { kind: Kind::WideRewards.name(), count, examples, message }
    })
}
