//! Criteria other than the discounted sum, in `warpkov mdp solve`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::Serialize;
use warpkov_common::checkpoint::Checkpoints;
use warpkov_mdp::analysis::guards::Warning;
use warpkov_mdp::ask::select;
use warpkov_mdp::checkpoint::Proposal;
use warpkov_mdp::criterion::{self, Criterion, Persistence, Report, SolvedOn, Steps, backward_kept_on, solve_kept_on};
use warpkov_mdp::model::{Mdp, NO_ACTION, Objective};
use warpkov_mdp::plot::draw_bounds;
use warpkov_mdp::solution::Status;
use warpkov_mdp::{self};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Communicator;

use super::solve::{self, Common};
use super::{Error, Outcome};
use crate::common::ranks::Ranks;
use crate::common::{checkpoint, file};

const HEADING: &str = "Criterion";

/// The criterion and its options.
#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = HEADING)]
pub struct Arguments {
    /// Criterion: the quantity to optimise from each state.
    #[arg(long, value_enum, value_name = "CRITERION", default_value = "discounted")]
    criterion: Kind,
    /// Goal states: labels, names or numbers of states, with ! (not), & (and), and | or a comma (or): finished, 'finished & !agree', 3,17. If a
    /// label is a number, label:9 is the label and state:9 the state.
    #[arg(long, value_name = "LABEL|STATES")]
    goal: Option<String>,
    /// Optimise the sum of the first T rewards, discounted by γ, which may be 1.
    #[arg(long, value_name = "T", conflicts_with = "criterion")]
    horizon: Option<u32>,
    /// Values of the states after T steps [default: 0]: .json, .csv, .npy or .txt. States without actions have value 0.
    #[arg(long, value_name = "FILE", requires = "horizon")]
    terminal_values: Option<PathBuf>,
    /// Write the values and the policy of each step to this file, T × S of each: .csv by names, .json, or .npy (values; the policies to
    /// .policy.npy). All are plans, which mdp simulate and mdp policy evaluate read.
    #[arg(long, value_name = "FILE", requires = "horizon")]
    all_steps: Option<PathBuf>,
    /// Minimise, whatever the objective of the model: rewards are costs.
    #[arg(long, conflicts_with = "maximize")]
    minimize: bool,
    /// Maximise, whatever the objective of the model.
    #[arg(long)]
    maximize: bool,
    /// Make ε relative to each value (reach, total, average).
    #[arg(long, conflicts_with = "horizon")]
    relative: bool,
}

/// Criteria by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The expected sum of rewards, discounted by γ < 1.
    Discounted,
    /// The probability of reaching --goal.
    Reach,
    /// The expected sum of rewards, undiscounted: until --goal, or for ever. It is infinite if the goal may be missed.
    Total,
    /// The expected reward per step in the long run.
    Average,
}

impl Arguments {
    /// The objective that replaces that of the model.
    pub fn objective(&self) -> Option<Objective> {
        match (self.minimize, self.maximize) {
            (true, _) => Some(Objective::Minimize),
            (_, true) => Some(Objective::Maximize),
            _ => None,
        }
    }

    /// Whether the criterion discounts by γ.
    pub fn discounts(&self) -> bool {
        self.criterion == Kind::Discounted
    }

    /// The validated criterion; none for the discounted sum.
    pub fn options(self, epsilon: f64, max_sweeps: Option<u32>) -> Result<Option<Options>, Error> {
        let Self { criterion, goal, horizon, terminal_values, all_steps, relative, .. } = self;
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        let kind = match (criterion, goal, horizon) {
            (Kind::Reach, Some(goal), _) => Asked::Reach(goal),
            (Kind::Reach, None, _) => return usage("--criterion reach needs --goal, the states to reach"),
            (Kind::Total, goal, _) => Asked::Total(goal),
            (_, Some(_), _) => return usage("--goal needs --criterion reach or --criterion total"),
            (Kind::Average, ..) => Asked::Average,
            (Kind::Discounted, None, Some(steps)) => Asked::Horizon { steps, terminal_values, all_steps },
            (Kind::Discounted, ..) if relative => {
                return usage("--relative needs --criterion reach, total or average");
            }
            (Kind::Discounted, None, None) => return Ok(None),
        };
        if let Asked::Horizon { all_steps: Some(path), .. } = &kind {
            match file::extension(path, &STEPS)? {
                "npy" => file::writes_arrays(path)?,
                _ => file::writes(path)?,
            }
        }
        let default = criterion::Options::default();
        let max_sweeps = max_sweeps.map_or(default.max_sweeps, u64::from);
        Ok(Some(Options { kind, solve: criterion::Options { epsilon, relative, max_sweeps } }))
    }
}

impl Options {
    /// The criterion for the states of `mdp`, and its accuracy, where neither values at a horizon nor all steps have a place.
    pub fn plain(&self, mdp: &Mdp) -> Result<(Criterion, criterion::Options), Error> {
        match &self.kind {
            Asked::Horizon { terminal_values: Some(_), .. } => {
                Err(Error::Usage("--terminal-values is for mdp solve only".to_owned()))
            }
            Asked::Horizon { all_steps: Some(_), .. } => {
                Err(Error::Usage("--all-steps is for mdp solve only".to_owned()))
            }
            kind => Ok((kind.criterion(mdp)?, self.solve)),
        }
    }

    /// Whether the criterion depends on rewards. A horizon may have values at its end in their place.
    pub fn has_rewards(&self) -> bool {
        matches!(self.kind, Asked::Total(_) | Asked::Average | Asked::Horizon { terminal_values: None, .. })
    }

    /// Whether ε is relative to each value.
    pub fn is_relative(&self) -> bool {
        self.solve.relative
    }

    /// Whether the values of all steps are written, which no checkpoint holds.
    pub fn keeps_all_steps(&self) -> bool {
        matches!(self.kind, Asked::Horizon { all_steps: Some(_), .. })
    }
}

/// A criterion and its accuracy.
pub struct Options {
    kind: Asked,
    solve: criterion::Options,
}

/// A criterion before the model is read: goals are still text.
enum Asked {
    Reach(String),
    Total(Option<String>),
    Average,
    Horizon { steps: u32, terminal_values: Option<PathBuf>, all_steps: Option<PathBuf> },
}

/// Solves, writes the files, prints the report.
pub fn run(
    mdp: &Mdp,
    warnings: &[Warning],
    ranks: &Ranks,
    devices: &[DeviceChoice],
    options: &Options,
    common: &Common,
    out: impl Write,
) -> Result<Outcome, Error> {
    let criterion = ranks.agree(options.kind.criterion(mdp))?;
    if let Asked::Horizon { steps, all_steps: Some(path), .. } = &options.kind {
        // At least one value and one action.
        let least = if file::extension(path, &STEPS)? == "npy" { 12 } else { 4 };
        file::room(path, u64::from(*steps) * u64::from(mdp.states()) * least)?;
    }
    let (mut solved, elapsed, checkpoints) = {
        let start = Instant::now();
        let (solved, checkpoints) = solve(mdp, ranks, devices, &criterion, options, common)?;
        (solved, start.elapsed(), checkpoints)
    };
    if let Criterion::Reach { goal } | Criterion::TotalReward { goal: Some(goal) } = &criterion
        && goal.is_empty()
    {
        solved.notes.push("no state is a goal".to_owned());
    }
    match solved.bounded.lower.iter().filter(|value| value.is_infinite()).count() {
        0 => {}
        1 => solved.notes.push("the value of one state is infinite".to_owned()),
        count => solved.notes.push(format!("the values of {count} states are infinite")),
    }
    let report = Report::new(mdp, &criterion, &options.solve, &solved, elapsed).with_warnings(warnings);
    if ranks.is_first() {
        let (written, printed) = (
            common.write_files(&report, &solved.ranks, false, |format| draw_bounds(&report, format)),
            common.print(&report, out),
        );
        written?;
        printed?;
    }
    checkpoint::finish(checkpoints)?;
    Ok(match report.status() {
        Status::Interrupted => Outcome::Interrupted,
        _ if report.converged() => Outcome::Success,
        _ => Outcome::Negative,
    })
}

impl Asked {
    /// The criterion for the states of `mdp`.
    fn criterion(&self, mdp: &Mdp) -> Result<Criterion, Error> {
        Ok(match self {
            Self::Reach(goal) => Criterion::Reach { goal: goal_states(goal, mdp)? },
            Self::Total(goal) => {
                Criterion::TotalReward { goal: goal.as_deref().map(|goal| goal_states(goal, mdp)).transpose()? }
            }
            Self::Average => Criterion::Average,
            Self::Horizon { steps, .. } => Criterion::Horizon(*steps),
        })
    }
}

fn solve(
    mdp: &Mdp,
    ranks: &Ranks,
    devices: &[DeviceChoice],
    criterion: &Criterion,
    options: &Options,
    common: &Common,
) -> Result<(SolvedOn, Option<Checkpoints>), Error> {
    let observer = |comm: &dyn Communicator| solve::observer(mdp.states().into(), common.quiet || comm.rank() > 0);
    let kept = &common.checkpoints;
    let resume = |terminal: Option<&[f64]>| {
        let read = |path| Proposal::read(path, mdp, &criterion::problem(mdp, criterion, terminal));
        ranks.agree(kept.resume().map(read).transpose().map_err(Error::from))
    };
    let Asked::Horizon { steps, terminal_values, all_steps } = &options.kind else {
        let resume = resume(None)?;
        return ranks.run(devices, |comm, device| {
            let mut checkpoints = kept.of_rank(comm.rank());
            let persistence = Persistence { resume: resume.as_ref(), checkpoints: checkpoints.as_mut() };
            let (options, mut observe) = (&options.solve, observer(comm));
            Ok((solve_kept_on(comm, device, mdp, criterion, options, persistence, &mut observe)?, checkpoints))
        });
    };
    let last = ranks.agree(terminal_values.as_deref().map(|path| read_terminal_values(path, mdp)).transpose())?;
    let (last, keep) = (last.as_deref(), ranks.of_first(all_steps.is_some())?);
    let resume = resume(last)?;
    let ((solved, stages), checkpoints) = ranks.run(devices, |comm, device| {
        let mut checkpoints = kept.of_rank(comm.rank());
        let persistence = Persistence { resume: resume.as_ref(), checkpoints: checkpoints.as_mut() };
        let mut observe = observer(comm);
        Ok((backward_kept_on(comm, device, mdp, *steps, last, keep, persistence, &mut observe)?, checkpoints))
    })?;
    if let (Some(path), Some(stages), true) = (all_steps, stages, ranks.is_first()) {
        write_steps(path, &stages, mdp)?;
    }
    Ok((solved, checkpoints))
}

/// Reads V_T, one value per state.
fn read_terminal_values(path: &Path, mdp: &Mdp) -> Result<Vec<f64>, Error> {
    let values = solve::initial_values(path)?;
    if values.len() == mdp.states() as usize {
        return Ok(values);
    }
    let (path, found, states) = (path.display(), values.len(), mdp.states());
    Err(Error::Usage(format!("{path}: {found} terminal values, expected one per state, {states}")))
}

/// Extensions of files of all steps.
const STEPS: [&str; 3] = ["json", "npy", "csv"];

/// Writes V_t and π_t for t = 0 … T−1.
fn write_steps(path: &Path, steps: &Steps, mdp: &Mdp) -> Result<(), Error> {
    /// One row per step; `null` for states without actions.
    #[derive(Serialize)]
    struct Rows<'a> {
        values: Vec<&'a [f64]>,
        policy: Vec<Vec<Option<u32>>>,
    }
    let (Steps { values, policies }, states) = (steps, mdp.states() as usize);
    match file::extension(path, &STEPS)? {
        "npy" => {
            file::write_whole(path, |out| warpkov_mdp::io::write_npy_rows(out, values, states))?;
            let Some(policy) = file::policy_beside(path) else { return Ok(()) };
            return file::write_whole(&policy, |out| warpkov_mdp::io::write_npy_rows(out, policies, states));
        }
        "csv" => {
            return file::write_whole(path, |out| {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(["step", "state", "action", "value", "action_number"])?;
                for (index, (&action, value)) in policies.iter().zip(values).enumerate() {
                    let (step, state) = (index / states, (index % states) as u32);
                    let name = if action == NO_ACTION { String::new() } else { mdp.action_name(state, action) };
                    let number = if action == NO_ACTION { String::new() } else { action.to_string() };
                    let (step, value) = (step.to_string(), format!("{value:?}"));
                    writer.write_record([step, mdp.state_name(state), name, value, number])?;
                }
                writer.flush()
            });
        }
        _ => {}
    }
    let named = |row: &[u32]| row.iter().map(|&action| (action != NO_ACTION).then_some(action)).collect();
    let rows = Rows { values: values.chunks(states).collect(), policy: policies.chunks(states).map(named).collect() };
    file::write_whole(path, |out| {
        serde_json::to_writer(&mut *out, &rows).map_err(io::Error::from)?;
        writeln!(out)
    })
}

/// The states that `text` describes: a union (`|` or comma) of intersections (`&`) of labels and states, by name, number or range, each
/// possibly complemented (`!`).
/// A label whose name is the whole text takes precedence. `label:` and `state:` resolve a label that is also the number of a state.
///
/// # Errors
/// If a part is no label and no state of the model.
pub fn goal_states(text: &str, mdp: &Mdp) -> Result<Vec<u32>, Error> {
    let label = |name: &str| mdp.labels().get(name).cloned().ok_or_else(|| unknown(name, mdp));
    let state = |name: &str| select::states(mdp, name).map_err(|error| Error::Usage(format!("--goal: {error}")));
    let holds = |name: &str| match (mdp.labels().get(name), name.parse::<u32>()) {
        (Some(states), Ok(state)) if state < mdp.states() && states[..] != [state] => Err(Error::Usage(format!(
            "--goal: {name} is a label, of {} states, and a state, expected label:{name} or state:{name}",
            states.len()
        ))),
        (Some(states), _) => Ok(states.clone()),
        (None, Ok(_)) => state(name),
        (None, Err(_)) => match (name.strip_prefix("label:"), name.strip_prefix("state:")) {
            (Some(name), _) => label(name.trim()),
            (_, Some(name)) => state(name.trim()),
            _ => select::states(mdp, name).map_err(|_| unknown(name, mdp)),
        },
    };
    let whole = text.strip_prefix("label:").map_or(text, str::trim);
    if mdp.labels().contains_key(text) || mdp.labels().contains_key(whole) {
        return holds(text);
    }
    // Commas may belong to the name.
    if mdp.state_names().is_some_and(|names| names.iter().any(|name| name == text)) {
        return state(text);
    }
    let mut found = vec![false; mdp.states() as usize];
    for term in text.split([',', '|']) {
        let mut inside = vec![true; found.len()];
        for factor in term.split('&') {
            let (name, expected) = match factor.trim().strip_prefix('!') {
                Some(name) => (name.trim(), false),
                None => (factor.trim(), true),
            };
            let mut holding = vec![false; found.len()];
            holds(name)?.into_iter().for_each(|state| holding[state as usize] = true);
            inside.iter_mut().zip(holding).for_each(|(inside, holds)| *inside &= holds == expected);
        }
        found.iter_mut().zip(inside).for_each(|(found, inside)| *found |= inside);
    }
    Ok((0..mdp.states()).filter(|&state| found[state as usize]).collect())
}

fn unknown(name: &str, mdp: &Mdp) -> Error {
    let labels: Vec<_> = mdp.labels().keys().map(String::as_str).collect();
    Error::Usage(match &labels[..] {
        [] => format!("--goal: found '{name}', but the model has no labels, expected names or numbers of states"),
        labels => {
            let known: Vec<_> = labels.iter().map(|label| format!("'{label}'")).collect();
            format!("--goal: there is no label '{name}', the model has {}", known.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use warpkov_mdp::model::{Csr, MdpParts};

    use super::*;

    /// Four states with these labels.
    fn labelled(labels: BTreeMap<String, Vec<u32>>) -> Mdp {
        let transitions = Csr::new(vec![0, 1, 2, 3, 4], vec![0, 1, 2, 3], vec![1.0; 4]).unwrap();
        MdpParts { states: 4, transitions, labels, ..MdpParts::default() }.validated().unwrap()
    }

    #[test]
    fn goals_are_labels_states_and_what_is_made_of_them() {
        let labels = [("a", vec![0, 1]), ("b", vec![1, 2]), ("a & b", vec![3])];
        let labels = labels.map(|(name, states)| (name.to_owned(), states)).into();
        let mdp = labelled(labels);
        let found = |text: &str| goal_states(text, &mdp).map_err(|error| error.to_string());
        assert_eq!(found("a").unwrap(), [0, 1]);
        assert_eq!(found("a&b").unwrap(), [1]);
        assert_eq!(found("a & b").unwrap(), [3], "a label is called so");
        assert_eq!(found("a & !b | 3").unwrap(), [0, 3]);
        assert_eq!(found("3, 1,1").unwrap(), [1, 3]);
        assert_eq!(found("a & !a").unwrap(), Vec::<u32>::new());
        assert_eq!(found("c").unwrap_err(), "--goal: there is no label 'c', the model has 'a', 'a & b', 'b'");
        assert_eq!(found("4").unwrap_err(), "--goal: found '4', expected a state: a number below 4");
        assert!(found("").is_err() && found("a,").is_err() && found("!").is_err());
        assert_eq!(found("label:a & b").unwrap(), [3]);
        assert_eq!(found("label:a & !label:b, state:3").unwrap(), [0, 3]);
        assert!(found("label:3").is_err() && found("state:a").is_err() && found("state:4").is_err());

        let labels = [("2", vec![0, 1]), ("3", vec![3]), ("7", vec![1])];
        let labels = labels.map(|(name, states)| (name.to_owned(), states)).into();
        let mdp = labelled(labels);
        let found = |text: &str| goal_states(text, &mdp).map_err(|error| error.to_string());
        let message = "--goal: 2 is a label, of 2 states, and a state, expected label:2 or state:2";
        assert_eq!((found("2").unwrap_err(), found("3 | !2").unwrap_err()), (message.to_owned(), message.to_owned()));
        assert_eq!((found("label:2").unwrap(), found("state:2").unwrap()), (vec![0, 1], vec![2]));
        assert_eq!((found("3").unwrap(), found("7").unwrap()), (vec![3], vec![1]));
    }
}
