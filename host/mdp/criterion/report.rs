//! Reports of a solve for a criterion, as text and as JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::{Criterion, Options, SolvedOn};
use crate::analysis::guards::Warning;
use crate::certificate::rounded_up;
use crate::model::{Mdp, Named, Objective};
use crate::report::{Actions, Number, Numbers, PolicyNames, Summary, starts, write_init, write_ranks, write_rounds};
use crate::solution::{RankShare, Round, Status, exchange};
use warpkov_runtime::comm::Column;

/// A finished solve: the model, the request and the result.
pub struct Report<'a> {
    pub(crate) mdp: &'a Mdp,
    pub(crate) criterion: &'a Criterion,
    pub(crate) options: &'a Options,
    pub(crate) solved: &'a SolvedOn,
    pub(crate) elapsed: Duration,
    /// Midpoints of the bounds.
    pub(crate) values: Vec<f64>,
    pub(crate) warnings: &'a [Warning],
}

/// The report as a JSON object.
#[derive(Serialize)]
struct Record<'a> {
    status: Status,
    converged: bool,
    criterion: &'static str,
    objective: Objective,
    device: &'a str,
    notes: &'a [String],
    states: u32,
    actions: u32,
    nnz: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    gamma: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    horizon: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal_states: Option<usize>,
    epsilon: f64,
    relative: bool,
    max_sweeps: u64,
    sweeps: u64,
    compute_seconds: f64,
    /// Upper bound of the distance of a value from the optimal value.
    error: Number,
    /// Precision, in bits, of policy evaluation by elimination, if it was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    bits: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init: Vec<Start>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [Warning],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ranks: &'a [RankShare],
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<&'static str>,
    rounds: &'a [Round],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Actions<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Numbers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower: Option<Numbers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper: Option<Numbers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bias: Option<Numbers<'a>>,
    #[serde(flatten)]
    names: Option<PolicyNames<'a>>,
}

/// The value of an initial state.
#[derive(Serialize)]
struct Start {
    state: u32,
    value: Number,
    lower: Number,
    upper: Number,
}

impl<'a> Report<'a> {
    /// The report of a solve that took `elapsed`.
    #[must_use]
    pub fn new(
        mdp: &'a Mdp,
        criterion: &'a Criterion,
        options: &'a Options,
        solved: &'a SolvedOn,
        elapsed: Duration,
    ) -> Self {
        Self { mdp, criterion, options, solved, elapsed, values: solved.bounded.values(), warnings: &[] }
    }

    /// The report with what looks wrong in the model.
    #[must_use]
    pub fn with_warnings(self, warnings: &'a [Warning]) -> Self {
        Self { warnings, ..self }
    }

    /// Whether the bounds meet the options. For a finite horizon, rounding errors alone determine the distance of the
    /// bounds.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.status() == Status::Solved
    }

    /// How the run ended.
    #[must_use]
    pub fn status(&self) -> Status {
        let bounded = &self.solved.bounded;
        match bounded.status {
            Status::Solved if bounded.unsettled(self.options).next().is_some() => Status::Stalled,
            status => status,
        }
    }

    /// One sentence on how the run ended.
    fn outcome(&self) -> String {
        let bounded = &self.solved.bounded;
        let sweeps = bounded.sweeps();
        let after = match bounded.bits {
            Some(bits) => format!("{sweeps} sweeps, and policies evaluated by elimination in {bits} bits"),
            None => format!("{sweeps} sweeps"),
        };
        match self.status() {
            Status::Interrupted => format!("Interrupted after {after}."),
            Status::Solved => format!("Values converged after {after}."),
            Status::SweepLimit | Status::PolicyLimit => {
                format!("Not converged: the bounds were still too far apart after {after}.")
            }
            Status::Stalled | Status::Overflow => self.unsolved(),
        }
    }

    /// One sentence on why the run did not converge.
    fn unsolved(&self) -> String {
        let Options { epsilon, relative, .. } = *self.options;
        let bounded = &self.solved.bounded;
        let bounds = |state: usize| (bounded.lower[state], bounded.upper[state]);
        let mut around =
            bounded.unsettled(self.options).filter(|&state| bounds(state).0 <= 0.0 && bounds(state).1 >= 0.0);
        match around.next().filter(|_| relative) {
            Some(state) => {
                let ((lower, upper), others) = (bounds(state), around.count());
                let others = match others {
                    0 => String::new(),
                    1 => " (and 1 more such state)".to_owned(),
                    others => format!(" (and {others} more such states)"),
                };
                format!(
                    "Not solved to ε = {epsilon:e} |V*|: the value of state {state} is between {lower:e} and {upper:e}{others}; \
                     a value that may be 0 has no relative error."
                )
            }
            None => format!("Not solved to ε = {epsilon:e}: rounding errors of f64 are larger."),
        }
    }

    fn goal_states(&self) -> Option<usize> {
        match self.criterion {
            Criterion::Reach { goal } | Criterion::TotalReward { goal: Some(goal) } => Some(goal.len()),
            _ => None,
        }
    }
}

impl Summary for Report<'_> {
    fn values(&self) -> Column<'_, f64> {
        Column::Here(&self.values)
    }

    fn policy(&self) -> Column<'_, u32> {
        Column::Here(&self.solved.bounded.policy)
    }

    fn names(&self) -> Option<&dyn Named> {
        self.mdp.names()
    }

    fn write_json(&self, out: &mut dyn Write, with_solution: bool) -> io::Result<()> {
        let Self { mdp, options, criterion, ref values, .. } = *self;
        let SolvedOn { bounded, device, notes, ranks } = self.solved;
        let horizon = if let Criterion::Horizon(steps) = criterion { Some(*steps) } else { None };
        let start = |state: u32| {
            let of = |values: &[f64]| Number(values[state as usize]);
            Start { state, value: of(values), lower: of(&bounded.lower), upper: of(&bounded.upper) }
        };
        let record = Record {
            status: self.status(),
            converged: self.converged(),
            criterion: criterion.name(),
            objective: mdp.objective(),
            device,
            notes,
            states: mdp.states(),
            actions: mdp.choices().max(),
            nnz: mdp.transitions().nnz(),
            gamma: horizon.map(|_| mdp.gamma()),
            horizon,
            goal_states: self.goal_states(),
            epsilon: options.epsilon,
            relative: options.relative,
            max_sweeps: options.max_sweeps,
            sweeps: bounded.sweeps(),
            compute_seconds: self.elapsed.as_secs_f64(),
            error: Number(bounded.error()),
            bits: bounded.bits,
            init: starts(mdp).map(start).collect(),
            warnings: self.warnings,
            ranks,
            exchange: exchange(ranks),
            rounds: &bounded.rounds,
            policy: with_solution.then_some(Actions(&bounded.policy)),
            values: with_solution.then_some(Numbers(values)),
            lower: with_solution.then_some(Numbers(&bounded.lower)),
            upper: with_solution.then_some(Numbers(&bounded.upper)),
            bias: bounded.bias.as_deref().filter(|_| with_solution).map(Numbers),
            names: PolicyNames::new(mdp.names().filter(|_| with_solution), self.policy()),
        };
        serde_json::to_writer(&mut *out, &record)?;
        writeln!(out)
    }

    fn guarantee(&self) -> String {
        let error = self.solved.bounded.error();
        let of_each = match self.options.relative && self.converged() {
            true => format!(", and ≤ {:e} |V*|", self.options.epsilon),
            false => String::new(),
        };
        match error.is_finite() {
            true => format!("Certified: |V − V*| ≤ {}{of_each} (bounds from both sides)", rounded_up(error)),
            false => "Not certified: some values are bounded from one side only".to_owned(),
        }
    }

    fn write_summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { mdp, criterion, ref values, .. } = *self;
        let SolvedOn { bounded, device, notes, ranks } = self.solved;
        let (states, actions) = (mdp.states(), mdp.choices().max());
        let objective = if mdp.objective() == Objective::Minimize { "minimize" } else { "maximize" };
        writeln!(out, "Using {device}, criterion {}, {objective}", criterion.name())?;
        write_ranks(out, ranks)?;
        for note in notes {
            writeln!(out, "Note: {note}")?;
        }
        writeln!(out, "\n— Problem Summary —")?;
        write!(out, "S={states}, A={actions}")?;
        if let Criterion::Horizon(steps) = criterion {
            write!(out, ", gamma={}, horizon={steps}", mdp.gamma())?;
        }
        if let Some(count) = self.goal_states() {
            write!(out, ", goal: {count} {}", if count == 1 { "state" } else { "states" })?;
        }
        writeln!(out, "\nRows (S*A)={}, nnz={}", mdp.rows(), mdp.transitions().nnz())?;
        writeln!(out, "{}", self.outcome())?;
        writeln!(out, "\n— Rounds —")?;
        write_rounds(out, &bounded.rounds)?;
        writeln!(out, "\n— Performance Metrics —")?;
        writeln!(out, "MDP dimensions: {states} states, {actions} actions")?;
        writeln!(out, "Sweeps completed: {}", bounded.sweeps())?;
        writeln!(out, "Computation time: {:.2} ms", 1e3 * self.elapsed.as_secs_f64())?;
        writeln!(out, "{}", self.guarantee())?;
        if bounded.bias.is_some() {
            writeln!(out, "Gain: {:?} for every state (the JSON report holds the bias)", values[0])?;
        }
        write_init(out, mdp, |state| {
            format!("{:?}, between {:?} and {:?}", values[state], bounded.lower[state], bounded.upper[state])
        })
    }
}
