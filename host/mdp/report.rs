//! Reports of a solve, as text and as JSON.
//!
//! The text follows Aydin, *Policy Iteration on the GPU* (2025), Appendix D.1, and adds rounds, the certificate and
//! times.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::analysis::guards::Warning;
use super::certificate::Certificate;
use super::io::{write_csv_rows, write_npy_pieces};
use super::model::{Grid, Mdp, NO_ACTION, Named, Objective};
use super::options::{Limits, Method, Precision, Target};
use super::solution::{Phases, RankShare, Round, Size, Solution, Status, exchange};
use warpkov_common::choice::file_format;
pub(super) use warpkov_common::numbers::{Number, Numbers};
use warpkov_common::ranks::summary;
use warpkov_common::terminal::escaped;
use warpkov_runtime::comm::Column;

/// States shown in a shortened line.
const SHOWN_STATES: usize = 10;

/// Rows shown in the table of rounds.
const SHOWN_ROUNDS: usize = 20;

/// One line about the ranks, if there are several.
pub(super) fn write_ranks(out: &mut dyn Write, ranks: &[RankShare]) -> io::Result<()> {
    let Some(summary) = summary(ranks) else { return Ok(()) };
    let ghosts = ranks.iter().map(|rank| rank.work.ghosts).max().unwrap_or_default();
    let exchange = exchange(ranks).unwrap_or_default();
    writeln!(out, "Ranks: {summary}, up to {ghosts} ghosts (exchange: {exchange})")
}

/// A solve: facts about the model, the limits, and the solution.
#[derive(Clone)]
pub struct Report<'a> {
    /// Facts about the model.
    pub model: Facts<'a>,
    /// The limits of the solve.
    pub limits: &'a Limits,
    /// The solution; its values and policy may be those of one rank.
    pub solution: &'a Solution,
    /// V, one entry per state.
    pub values: Column<'a, f64>,
    /// π, one action per state.
    pub policy: Column<'a, u32>,
    /// Time spent to write files.
    pub written: Duration,
    /// What looks wrong in the model.
    pub warnings: &'a [Warning],
}

/// Facts about a model that a report needs, besides its [size](super::solution::Size).
#[derive(Clone)]
pub struct Facts<'a> {
    /// γ.
    pub gamma: f64,
    /// Optimisation sense.
    pub objective: Objective,
    /// The initial states, ascending; empty if the model names none.
    pub init: Vec<u64>,
    /// Geometry to draw, if the states are the cells of a grid.
    pub grid: Option<&'a Grid>,
    /// Names of states and actions, if there are any.
    pub names: Option<&'a dyn Named>,
    /// The model, if it is here as a whole.
    pub mdp: Option<&'a Mdp>,
}

impl<'a> Report<'a> {
    /// The report of a model and its solution, which holds the values of all states.
    #[must_use]
    pub fn new(mdp: &'a Mdp, limits: &'a Limits, solution: &'a Solution) -> Self {
        let init = starts(mdp).map(u64::from).collect();
        let model = Facts {
            gamma: mdp.gamma(),
            objective: mdp.objective(),
            init,
            grid: mdp.grid(),
            names: mdp.names(),
            mdp: Some(mdp),
        };
        let (values, policy) = (Column::Here(&solution.values[..]), Column::Here(&solution.policy[..]));
        Self { model, limits, solution, values, policy, written: Duration::ZERO, warnings: &[] }
    }
}

/// Number of policy and value entries to print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent<'a> {
    /// One entry per state.
    All,
    /// The first few states, with a reference to the rest.
    Shortened {
        /// Text after the number of states, for example "--out writes all".
        rest: &'a str,
    },
}

/// Report of a solve under any criterion.
pub trait Summary {
    /// V, one entry per state.
    fn values(&self) -> Column<'_, f64>;

    /// π, one action per state; [`NO_ACTION`] for states without actions.
    fn policy(&self) -> Column<'_, u32>;

    /// Names of states and actions, if the model has any.
    fn names(&self) -> Option<&dyn Named>;

    /// Writes the report as a JSON object and a line feed, with or without policy and values. Infinite numbers, which
    /// JSON lacks, become the strings `"inf"` and `"-inf"`.
    ///
    /// # Errors
    /// I/O errors of `out`.
    fn write_json(&self, out: &mut dyn Write, with_solution: bool) -> io::Result<()>;

    /// The number of backups of a state that were made; `None` if the method does not count them.
    fn backups(&self) -> Option<u64> {
        None
    }

    /// Writes the report without policy and values as text.
    ///
    /// # Errors
    /// I/O errors of `out`.
    fn write_summary(&self, out: &mut dyn Write) -> io::Result<()>;

    /// One sentence on the guarantee for the values.
    fn guarantee(&self) -> String;

    /// Writes the two lines `Optimal policy:` and `Optimal value:`, and if the model has names, `Actions by name:` with a line for each
    /// state.
    ///
    /// # Errors
    /// I/O errors of `out`.
    fn write_solution(&self, out: &mut dyn Write, extent: Extent) -> io::Result<()> {
        let count = self.values().len();
        write_line(out, "Optimal policy:", extent, count, self.policy().iter().map(Action))?;
        write_line(out, "Optimal value:", extent, count, self.values().iter().map(SixDecimals))?;
        self.names().map_or(Ok(()), |names| write_names(out, extent, count, names, self.policy()))
    }
}

file_format! {
    /// A format of solutions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SolutionFormat {
        /// One JSON object: the report, values and policy.
        Json = "json" in ["json"],
        /// A table with one row per state: its name or number, value, action; with names, the numbers as well.
        Csv = "csv" in ["csv"],
        /// NumPy's arrays: values as f64; the policy as u32 in a second file.
        Npy = "npy" in ["npy"],
        /// The lines `Optimal policy:` and `Optimal value:`.
        Text = "text" in ["txt"],
    }
}

impl SolutionFormat {
    /// A lower bound of the bytes per state.
    #[must_use]
    pub fn least_bytes(self) -> u64 {
        match self {
            // A value of one digit, an action, and the separators.
            Self::Json | Self::Text => 4,
            Self::Csv => 6,
            Self::Npy => 12,
        }
    }

    /// Writes a solution; of NumPy's arrays, the values.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(self, report: &dyn Summary, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Json => report.write_json(out, true),
            Self::Csv => write_csv_rows(out, report.values().iter().zip(report.policy().iter()), report.names()),
            Self::Npy => write_npy_pieces(out, report.values()),
            Self::Text => report.write_solution(out, Extent::All),
        }
    }
}

/// The report as one object.
#[derive(Serialize)]
struct Record<'a> {
    status: Status,
    converged: bool,
    criterion: &'static str,
    objective: Objective,
    method: Method,
    device: &'a str,
    precision: Precision,
    notes: &'a [String],
    states: u64,
    actions: u32,
    gamma: f64,
    nnz: u64,
    target: Target,
    max_sweeps: u32,
    max_policies: u32,
    tie: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<usize>,
    sweeps: u64,
    setup_seconds: f64,
    compute_seconds: f64,
    phases: Seconds,
    certificate: &'a Certificate,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ranks: &'a [RankShare],
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init: Vec<Start>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [Warning],
    rounds: &'a [Round],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<AllActions<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<AllNumbers<'a>>,
    #[serde(flatten)]
    names: Option<PolicyNames<'a>>,
}

/// Seconds per phase; `prepare` and `start` overlap.
#[derive(Serialize)]
struct Seconds {
    read: f64,
    prepare: f64,
    start: f64,
    upload: f64,
    solve: f64,
    certify: f64,
    write: f64,
}

impl Seconds {
    fn new(phases: &Phases, solve: Duration, write: Duration) -> Self {
        let Phases { read, prepare, start, upload, certify } = *phases;
        let [read, prepare, start, upload, solve, certify, write] =
            [read, prepare, start, upload, solve, certify, write].map(|phase| phase.as_secs_f64());
        Self { read, prepare, start, upload, solve, certify, write }
    }
}

/// The value of an initial state.
#[derive(Serialize)]
struct Start {
    state: u64,
    value: Number,
}

impl Summary for Report<'_> {
    fn values(&self) -> Column<'_, f64> {
        self.values
    }

    fn policy(&self) -> Column<'_, u32> {
        self.policy
    }

    fn names(&self) -> Option<&dyn Named> {
        self.model.names
    }

    fn write_json(&self, out: &mut dyn Write, with_solution: bool) -> io::Result<()> {
        let Self { ref model, limits, solution, values, policy, written, warnings } = *self;
        let size = solution.size;
        let record = Record {
            status: solution.run.status,
            converged: solution.converged(limits),
            criterion: "discounted",
            objective: model.objective,
            method: solution.method,
            device: &solution.device,
            precision: solution.precision,
            notes: &solution.notes,
            states: size.states,
            actions: size.actions,
            gamma: model.gamma,
            nnz: size.transitions,
            target: limits.target,
            max_sweeps: limits.max_sweeps,
            max_policies: limits.max_policies,
            tie: limits.tie,
            policies: solution.method.has_policies().then_some(solution.run.rounds.len()),
            sweeps: solution.run.sweeps(),
            setup_seconds: solution.setup.as_secs_f64(),
            compute_seconds: solution.run.elapsed.as_secs_f64(),
            phases: Seconds::new(&solution.phases, solution.run.elapsed, written),
            certificate: &solution.certificate,
            ranks: &solution.ranks,
            exchange: exchange(&solution.ranks),
            init: self.starts(usize::MAX).map(|(state, value)| Start { state, value: Number(value) }).collect(),
            warnings,
            rounds: &solution.run.rounds,
            policy: with_solution.then_some(AllActions(policy)),
            values: with_solution.then_some(AllNumbers(values)),
            names: PolicyNames::new(model.names.filter(|_| with_solution), policy),
        };
        serde_json::to_writer(&mut *out, &record)?;
        writeln!(out)
    }

    fn backups(&self) -> Option<u64> {
        Some(self.solution.run.sweeps() * self.solution.size.states)
    }

    fn write_summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { ref model, solution, .. } = *self;
        let Size { states, actions, rows, transitions } = solution.size;
        let precision = match solution.precision {
            Precision::F32 => "FP32 (float)",
            Precision::F64 => "FP64 (double)",
            Precision::Mixed => "FP32, then FP64 (mixed)",
            Precision::Refined => "FP32, refined in FP64",
        };
        writeln!(out, "Precision: {precision}")?;
        writeln!(out, "Using {}, method {}", solution.device, solution.method)?;
        write_ranks(out, &solution.ranks)?;
        for note in &solution.notes {
            writeln!(out, "Note: {note}")?;
        }
        writeln!(out, "\n— Problem Summary —")?;
        writeln!(out, "S={states}, A={actions}, gamma={}", model.gamma)?;
        writeln!(out, "Rows (S*A)={rows}, nnz={transitions}")?;
        writeln!(out, "{}", self.outcome())?;
        writeln!(out, "\n— Rounds —")?;
        write_rounds(out, &solution.run.rounds)?;
        writeln!(out, "\n— Performance Metrics —")?;
        writeln!(out, "MDP dimensions: {states} states, {actions} actions")?;
        if solution.method.has_policies() {
            writeln!(out, "Policy iterations completed: {}", solution.run.rounds.len())?;
        }
        writeln!(out, "Sweeps completed: {}", solution.run.sweeps())?;
        writeln!(out, "Computation time: {:.2} ms", 1e3 * solution.run.elapsed.as_secs_f64())?;
        writeln!(out, "Setup time: {:.2} ms", 1e3 * solution.setup.as_secs_f64())?;
        writeln!(out, "{}", self.guarantee())?;
        let name = |state: u64| match model.names {
            Some(names) => names.name_of_state(state).into_owned(),
            None => state.to_string(),
        };
        let shown = self.starts(SHOWN_STATES).map(|(state, value)| (name(state), format!("{value:?}")));
        write_starts(out, model.init.len(), shown)
    }
    fn guarantee(&self) -> String {
        let certificate = &self.solution.certificate;
        let bellman_residual = certificate.bellman_residual;
        let known = format!("Bellman residual {bellman_residual:.1e}, γ {}", self.model.gamma);
        match certificate.bound_text() {
            Some(bound) => format!("Certified: |V − V*| ≤ {bound} ({known})"),
            None => format!("Not certified ({known})"),
        }
    }
}

impl Report<'_> {
    /// The first initial states and their values.
    fn starts(&self, count: usize) -> impl Iterator<Item = (u64, f64)> {
        let states = || self.model.init.iter().take(count).copied();
        states().zip(self.values.at(states()))
    }

    /// One sentence on the outcome.
    fn outcome(&self) -> String {
        let Self { limits, solution, .. } = *self;
        let after = match solution.method.has_policies() {
            true => format!("{} iterations", solution.run.rounds.len()),
            false => format!("{} sweeps", solution.run.sweeps()),
        };
        let what = if solution.method.has_policies() { "Policy" } else { "Values" };
        match solution.run.status {
            Status::Interrupted => format!("Interrupted after {after}."),
            _ if solution.converged(limits) => format!("{what} converged after {after}."),
            Status::Overflow => format!("Not solved: the values overflow {}.", solution.precision),
            Status::PolicyLimit => format!("Not converged: the policy still changed after {after}."),
            Status::SweepLimit if solution.method.has_policies() => {
                format!("Not converged: the values of a policy still changed after {} sweeps.", limits.max_sweeps)
            }
            Status::SweepLimit => format!("Not converged: the values still changed after {after}."),
            Status::Solved | Status::Stalled => match limits.target {
                Target::Theta(theta) => {
                    format!("Not solved to θ = {theta:e}: rounding errors of {} are larger.", solution.precision)
                }
                Target::Epsilon(epsilon)
                    if solution.method.has_policies() && limits.tie > epsilon * (1.0 - self.model.gamma) =>
                {
                    format!(
                        "Not solved to ε = {epsilon:e}: actions within the tie margin {:e} pass for equal.",
                        limits.tie
                    )
                }
                Target::Epsilon(epsilon) => {
                    format!("Not solved to ε = {epsilon:e}: rounding errors of {} are larger.", solution.precision)
                }
            },
        }
    }
}

/// The initial states, if the model names any.
pub(super) fn starts(mdp: &Mdp) -> impl ExactSizeIterator<Item = u32> {
    mdp.labels().get("init").map_or(&[][..], Vec::as_slice).iter().copied()
}

/// Writes the lines `Value at init: …`.
pub(super) fn write_init(out: &mut dyn Write, mdp: &Mdp, value: impl Fn(usize) -> String) -> io::Result<()> {
    let shown = starts(mdp).take(SHOWN_STATES).map(|state| (mdp.state_name(state), value(state as usize)));
    write_starts(out, starts(mdp).len(), shown)
}

/// Writes these lines for the first of `count` initial states.
fn write_starts(out: &mut dyn Write, count: usize, shown: impl Iterator<Item = (String, String)>) -> io::Result<()> {
    for (state, value) in shown {
        match count {
            1 => writeln!(out, "Value at init: {value}")?,
            _ => writeln!(out, "Value at init, state {}: {value}", escaped(&state))?,
        }
    }
    if count > SHOWN_STATES { writeln!(out, "… ({count} initial states)") } else { Ok(()) }
}

/// Actions in JSON: `null` where there is none.
pub(super) struct Actions<'a>(pub &'a [u32]);

impl Serialize for Actions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AllActions(Column::Here(self.0)).serialize(serializer)
    }
}

/// [`Actions`] that may be divided among ranks.
struct AllActions<'a>(Column<'a, u32>);

impl Serialize for AllActions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|action| (action != NO_ACTION).then_some(action)))
    }
}

/// The names of the states, and of the action of each state; `null` where there is none.
#[derive(Serialize)]
pub(super) struct PolicyNames<'a> {
    state_names: StateNames<'a>,
    policy_names: ChosenNames<'a>,
}

impl<'a> PolicyNames<'a> {
    pub(super) fn new(names: Option<&'a dyn Named>, policy: Column<'a, u32>) -> Option<Self> {
        let names = names?;
        Some(Self { state_names: StateNames(names, policy.len()), policy_names: ChosenNames(names, policy) })
    }
}

/// The names of so many states.
struct StateNames<'a>(&'a dyn Named, u64);

impl Serialize for StateNames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.1).map(|state| self.0.name_of_state(state)))
    }
}

/// The names of the actions of a policy.
struct ChosenNames<'a>(&'a dyn Named, Column<'a, u32>);

impl Serialize for ChosenNames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = |(state, action)| (action != NO_ACTION).then(|| self.0.name_of_action(state, action));
        serializer.collect_seq((0..).zip(self.1.iter()).map(name))
    }
}

/// [`Numbers`] that may be divided among ranks.
struct AllNumbers<'a>(Column<'a, f64>);

impl Serialize for AllNumbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Number))
    }
}

/// An action as text; `-` for states without actions.
struct Action(u32);

impl Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == NO_ACTION { f.write_str("-") } else { self.0.fmt(f) }
    }
}

/// A value with six decimals, as in the source.
struct SixDecimals(f64);

impl Display for SixDecimals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

fn write_line<T: Display>(
    out: &mut dyn Write,
    start: &str,
    extent: Extent,
    count: u64,
    entries: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    let entries = entries.into_iter();
    let (shown, rest) = shown(extent, count);
    write!(out, "{start}")?;
    for entry in entries.take(shown) {
        write!(out, " {entry}")?;
    }
    match rest {
        Some(rest) => writeln!(out, " … ({count} states; {rest})"),
        None => writeln!(out),
    }
}

/// Writes a line `state: action` for each state, by names.
fn write_names(
    out: &mut dyn Write,
    extent: Extent,
    count: u64,
    names: &dyn Named,
    policy: Column<'_, u32>,
) -> io::Result<()> {
    let (shown, rest) = shown(extent, count);
    writeln!(out, "Actions by name:")?;
    for (state, action) in (0..).zip(policy.iter()).take(shown) {
        let chosen = if action == NO_ACTION { "-".into() } else { names.name_of_action(state, action) };
        writeln!(out, "  {}: {}", escaped(&names.name_of_state(state)), escaped(&chosen))?;
    }
    rest.map_or(Ok(()), |rest| writeln!(out, "  … ({count} states; {rest})"))
}

/// How many of `count` entries are shown, and where the rest is.
fn shown(extent: Extent<'_>, count: u64) -> (usize, Option<&str>) {
    match extent {
        Extent::Shortened { rest } if count > SHOWN_STATES as u64 => (SHOWN_STATES, Some(rest)),
        _ => (usize::MAX, None),
    }
}

pub(super) fn write_rounds(out: &mut dyn Write, rounds: &[Round]) -> io::Result<()> {
    writeln!(out, "{:>7} {:>8} {:>11} {:>12} {:>10}", "round", "sweeps", "residual", "changed", "seconds")?;
    for index in thinned(rounds.len(), SHOWN_ROUNDS) {
        let Round { round, sweeps, residual, changed, seconds } = rounds[index];
        let changed = changed.map_or_else(|| "-".to_owned(), |changed| changed.to_string());
        writeln!(out, "{round:>7} {sweeps:>8} {residual:>11.3e} {changed:>12} {seconds:>10.3}")?;
    }
    Ok(())
}

/// At most `shown` evenly spaced indices of `0..count`, including the first and the last.
fn thinned(count: usize, shown: usize) -> impl Iterator<Item = usize> {
    let rows = count.min(shown);
    (0..rows).map(move |row| if rows == count { row } else { row * (count - 1) / (rows - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_tables_keep_the_first_and_last_round() {
        assert_eq!(thinned(0, 20).count(), 0);
        assert_eq!(thinned(1, 20).collect::<Vec<_>>(), [0]);
        assert_eq!(thinned(20, 20).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        let rows: Vec<_> = thinned(111, 20).collect();
        assert_eq!((rows.len(), rows[0], rows[19]), (20, 0, 110));
        assert!(rows.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn long_lines_say_where_the_rest_is() {
        let line = |extent| {
            let mut out = Vec::new();
            write_line(&mut out, "Optimal policy:", extent, 12, 0..12).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line(Extent::All), "Optimal policy: 0 1 2 3 4 5 6 7 8 9 10 11\n");
        let rest = "a file has all";
        assert_eq!(
            line(Extent::Shortened { rest }),
            "Optimal policy: 0 1 2 3 4 5 6 7 8 9 … (12 states; a file has all)\n"
        );
    }
}
