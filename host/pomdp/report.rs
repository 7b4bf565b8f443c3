//! Reports of a solve as text and JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::options::{Expansion, Scheme};
use super::solution::{Round, Solution, Status};
use crate::mdp::model::Objective;
use crate::pomdp::model::Pomdp;

/// The report as a JSON object.
#[derive(Serialize)]
struct Record<'a> {
    stopped_by: Status,
    lower: f64,
    upper: f64,
    gap: f64,
    seconds: f64,
    beliefs: usize,
    vectors: usize,
    iterations: u64,
    backups: u64,
    expansion: Expansion,
    scheme: Scheme,
    device: &'a str,
    notes: &'a [String],
    objective: Objective,
    states: u32,
    actions: u32,
    observations: u32,
    gamma: f64,
    rounds: &'a [Round],
}

/// Writes the report as a line of JSON.
///
/// # Errors
/// Errors of `out`.
pub fn write_json(out: &mut dyn Write, model: &Pomdp, solution: &Solution) -> io::Result<()> {
    let end = solution.end();
    let record = Record {
        stopped_by: solution.status,
        lower: end.lower,
        upper: end.upper,
        gap: end.gap(),
        seconds: end.seconds,
        beliefs: end.beliefs,
        vectors: end.vectors,
        iterations: end.iterations,
        backups: end.backups,
        expansion: solution.expansion,
        scheme: solution.scheme,
        device: &solution.device,
        notes: &solution.notes,
        objective: model.process().objective(),
        states: model.states(),
        actions: model.actions(),
        observations: model.observation_count(),
        gamma: model.gamma(),
        rounds: &solution.rounds,
    };
    serde_json::to_writer(&mut *out, &record)?;
    writeln!(out)
}

/// Writes the report as text.
///
/// # Errors
/// Errors of `out`.
pub fn write_text(out: &mut dyn Write, model: &Pomdp, solution: &Solution) -> io::Result<()> {
    let end = solution.end();
    for note in &solution.notes {
        writeln!(out, "Note: {note}")?;
    }
    let (states, actions, observations) = (model.states(), model.actions(), model.observation_count());
    writeln!(out, "Model: {states} states, {actions} actions, {observations} observations, gamma {}", model.gamma())?;
    writeln!(out, "Method: {} expansion, {} backups, on {}", solution.expansion, solution.scheme, solution.device)?;
    writeln!(out, "Stopped: {}, after {:.3} s", ended(solution.status), end.seconds)?;
    writeln!(out, "Work: {} expansions, {} backups", end.iterations, end.backups)?;
    writeln!(out, "Size: {} beliefs, {} vectors", end.beliefs, end.vectors)?;
    writeln!(out, "Value of the start: {:.6} to {:.6}, gap {:.1e}", end.lower, end.upper, end.gap())
}

/// A line of progress.
#[must_use]
pub fn progress(round: &Round) -> String {
    let Round { seconds, beliefs, vectors, lower, upper, .. } = *round;
    let gap = round.gap();
    format!("{seconds:8.1} s  |B| {beliefs:7}  |Γ| {vectors:6}  lower {lower:12.5}  upper {upper:12.5}  gap {gap:.2e}")
}

/// The reason why a run ended.
#[must_use]
pub fn ended(status: Status) -> &'static str {
    match status {
        Status::Gap => "the gap reached its limit",
        Status::Target => "the value reached its target",
        Status::Time => "the time limit was reached",
        Status::Memory => "the memory limit was reached",
        Status::Iterations => "the limit of expansions was reached",
        Status::Stalled => "no further progress",
        Status::Interrupted => "interrupted",
    }
}
