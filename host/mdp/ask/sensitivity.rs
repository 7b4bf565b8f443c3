//! The value of a start state as a function of γ, and where the optimal action there changes.

use std::io::{self, Write};

use serde::Serialize;

use super::q::q_factors;
use super::table::{action, write_line};
use crate::certificate::rounded_up;
use crate::error::SolveError;
use crate::model::{Mdp, NO_ACTION};
use crate::options::{Limits, SolveOptions};
use crate::report::Number;
use crate::solution::Round;
use crate::solve::{Session, Solve};
use warpkov_common::report::{Report, write_object};
use warpkov_common::terminal::escaped;

/// The width of a bracket of a change, relative to the range of γ.
const BRACKET: f64 = 1e-4;

/// Changes between two points that are searched for.
const CHANGES: usize = 16;

/// A range of discount factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Least γ.
    pub from: f64,
    /// Largest γ, below 1.
    pub to: f64,
    /// Number of points, evenly spaced, at least 2.
    pub points: u32,
}

/// The solution for one γ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// γ.
    pub gamma: f64,
    /// V*(start).
    pub value: Number,
    /// Upper bound of the error of the value; infinite if nothing is certified.
    pub error: Number,
    /// The optimal action at the start; none in a state without actions.
    pub action: Option<String>,
    /// Whether ε is met.
    pub converged: bool,
}

/// A change of the optimal action at the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// A γ at which the action before is optimal within the error, and a larger one at which it is not.
    pub between: [f64; 2],
    /// The action for smaller γ.
    pub before: Option<String>,
    /// The action for larger γ.
    pub after: Option<String>,
    /// V*(start) at the larger γ, within ε if that solve converged.
    pub value: Number,
}

/// V*(start) over γ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Name of the start state.
    pub start: String,
    /// By ascending γ.
    pub points: Vec<Point>,
    /// By ascending γ.
    pub changes: Vec<Change>,
    /// Whether all points meet ε.
    pub converged: bool,
    /// Whether the run was stopped before the last point.
    pub interrupted: bool,
    /// ε.
    pub epsilon: Option<f64>,
    /// Sweeps of all solves together.
    pub sweeps: u64,
}

/// What is known at one γ.
struct AtGamma {
    gamma: f64,
    /// Q(start, ·) times the sign of the objective, and the bound of its error.
    q: Vec<f64>,
    error: f64,
    point: Point,
}

impl AtGamma {
    /// Whether an action may be optimal: its Q-factor is within the errors of the best one.
    fn allows(&self, action: u32) -> bool {
        let best = self.q.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.q.get(action as usize).is_none_or(|q| best - q <= 2.0 * self.error)
    }

    fn best(&self) -> u32 {
        let best = self.q.iter().zip(0..).reduce(|best: (&f64, u32), next| if next.0 > best.0 { next } else { best });
        best.map_or(NO_ACTION, |(_, action)| action)
    }
}

struct Search<'a, 'o> {
    mdp: &'a Mdp,
    start: u32,
    options: &'a SolveOptions,
    observe: crate::Observer<'o>,
    values: Option<Vec<f64>>,
    sweeps: u64,
    stopped: bool,
}

impl Search<'_, '_> {
    /// Solves for one γ, from the values of the γ before.
    fn solve(&mut self, gamma: f64) -> Result<AtGamma, SolveError> {
        let mdp = self.mdp.clone().with_gamma(gamma)?;
        let Limits { target, .. } = self.options.limits;
        let limits = Limits { tie: self.options.precision.tie_for(target, gamma), ..self.options.limits };
        let options = SolveOptions { limits, ..*self.options };
        let stopped = &mut self.stopped;
        let observe = &mut *self.observe;
        let mut observe = |round: &Round| {
            let flow = observe(round);
            *stopped |= flow.is_break();
            flow
        };
        let initial = self.values.as_deref().into();
        let session = Session { initial, observe: Some(&mut observe), ..Session::default() };
        let solution = Solve::new(&mdp, &options).session(session).run()?;
        self.sweeps += solution.run.sweeps();
        let factors = q_factors(&mdp, &solution.values, solution.certificate.bound);
        let sign = mdp.objective().sign();
        let state = self.start as usize;
        let error = solution.certificate.bound.unwrap_or(f64::INFINITY);
        let value = solution.values[state];
        let converged = solution.converged(&limits);
        self.values = solution.values.iter().all(|value| value.is_finite()).then_some(solution.values);
        let point = Point { gamma, value: Number(value), error: Number(error), action: None, converged };
        let q = factors.q[mdp.choices().rows(state)].iter().map(|q| sign * q).collect();
        Ok(AtGamma { gamma, q, error: factors.bound.unwrap_or(f64::INFINITY), point })
    }
}

/// Solves `mdp` for each γ of `range`, each from the values of the one before, and finds the γ at which the optimal action
/// of `start` changes, to 10⁻⁴ of the range. Actions whose Q-factors differ by less than their error bounds count as
/// equal; changes that are undone between two points are not found.
///
/// # Errors
/// Those of [`Solve::run`].
pub fn sensitivity(
    mdp: &Mdp,
    start: u32,
    range: Range,
    options: &SolveOptions,
    observe: crate::Observer,
) -> Result<Sensitivity, SolveError> {
    let mut search = Search { mdp, start, options, observe, values: None, sweeps: 0, stopped: false };
    let Range { from, to, points } = range;
    let (mut found, mut changes) = (Vec::<Point>::new(), Vec::new());
    let name = |of: u32| action(mdp, start as usize, of);
    let mut current: Option<u32> = None;
    for index in 0..points {
        // The last point is exactly `to`.
        let share = f64::from(index) / f64::from(points.max(2) - 1);
        let gamma = if index + 1 == points { to } else { from + share * (to - from) };
        let solved = search.solve(gamma)?;
        if search.stopped {
            break;
        }
        let mut action = current.unwrap_or_else(|| solved.best());
        let mut low = found.last().map_or(gamma, |point| point.gamma);
        for _ in 0..CHANGES {
            if solved.allows(action) || search.stopped {
                break;
            }
            let (mut high, mut after, mut value) = (gamma, solved.best(), solved.point.value);
            while high - low > BRACKET * (to - from) && !search.stopped {
                let middle = search.solve(f64::midpoint(low, high))?;
                match middle.allows(action) {
                    true => low = middle.gamma,
                    false => (high, after, value) = (middle.gamma, middle.best(), middle.point.value),
                }
            }
            changes.push(Change { between: [low, high], before: name(action), after: name(after), value });
            (action, low) = (after, high);
        }
        current = Some(action);
        found.push(Point { action: name(action), ..solved.point });
    }
    let converged = found.len() == points as usize && found.iter().all(|point| point.converged);
    Ok(Sensitivity {
        start: mdp.state_name(start),
        points: found,
        changes,
        converged,
        interrupted: search.stopped,
        epsilon: options.limits.target.epsilon(),
        sweeps: search.sweeps,
    })
}

impl Report for Sensitivity {
    fn guarantee(&self) -> Option<String> {
        let error = self.points.iter().map(|point| point.error.0).fold(0.0, f64::max);
        let count = self.points.len();
        Some(match error.is_finite() {
            _ if count == 0 => "Not certified: stopped before the first value of gamma".to_owned(),
            true => format!("Certified: |V − V*| ≤ {} for {count} values of gamma", rounded_up(error)),
            false => format!("Not certified for all of {count} values of gamma"),
        })
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_object(out, self)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let shown = |action: &Option<String>| action.as_deref().map_or("-".to_owned(), escaped);
        write_line(out, "Start state", escaped(&self.start))?;
        write_line(out, "Solves", format_args!("{} values of gamma, {} sweeps", self.points.len(), self.sweeps))?;
        if !self.converged {
            write_line(out, "Note", "not converged: some values are not within ε")?;
        }
        for Change { between: [low, high], before, after, .. } in &self.changes {
            let actions = format!("{} before, {} after", shown(before), shown(after));
            write_line(out, "Change", format_args!("gamma {low:.6} to {high:.6}: {actions}"))?;
        }
        if self.changes.is_empty() {
            write_line(out, "Change", "none: one action is optimal at the start for all of them")?;
        }
        writeln!(out, "\n{:>9} {:>16} {:>9}  action", "gamma", "value", "error")?;
        for point in &self.points {
            let Point { gamma, value: Number(value), error: Number(error), action, .. } = point;
            writeln!(out, "{gamma:>9.6} {value:>16.6} {error:>9.1e}  {}", shown(action))?;
        }
        Ok(())
    }
}
