//! The certified value of a given policy.
//!
//! A stationary policy π makes a model a Markov chain: the model with the row (s, π(s)) of each state and no other. Its
//! optimal values are V^π, so the solvers, their devices, precisions and certificates serve for policies as well.
//!
//! A *plan* π₀ … π_{T−1} is a policy for a horizon of T steps, which may act differently at each. It is an array of T·|S| actions, step by
//! step. An array of |S| actions is a stationary policy.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::table::{NamedColumns, TableFormat, action, write_line};
use crate::certificate::rounded_up;
use crate::criterion::{self, Criterion, Persistence, SolvedOn, Steps, backward_on, solve_kept_on};
use crate::error::SolveError;
use crate::model::{ActionNames, Array, Choices, Csr, Mdp, MdpParts, NO_ACTION, Objective};
use crate::options::{Limits, Precision, SolveOptions, Target};
use crate::report::{Number, Numbers, starts};
use crate::solution::{Round, Status};
use crate::solve::Solve;
use warpkov_common::report::{Report, Results, write_object};
use warpkov_common::terminal::escaped;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;

/// A policy that does not fit a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidPolicy {
    /// Wrong number of actions.
    #[error("the policy has {found} actions, expected one per state, {expected}")]
    Length {
        /// Actions of the policy.
        found: usize,
        /// States of the model.
        expected: u32,
    },
    /// A plan for another number of steps, or for a criterion without steps.
    #[error("the policy is a plan of {found} steps, expected {expected}")]
    Steps {
        /// Steps of the plan.
        found: usize,
        /// A horizon of as many steps as the criterion has, or a stationary policy.
        expected: String,
    },
    /// The chain of a plan has too many states.
    #[error("the chain of a plan of {steps} steps for {states} states has more than {} states", u32::MAX)]
    Large {
        /// Steps of the plan.
        steps: usize,
        /// States of the model.
        states: u32,
    },
    /// An action is out of range, or missing.
    #[error("the policy has action {found} in state {state}, expected a number below {actions}")]
    Action {
        /// Name of the state.
        state: String,
        /// The action.
        found: String,
        /// Actions of the state.
        actions: usize,
    },
}

/// The Markov chain of a policy: the model with the rows of its actions and no other. A state has one action, or none if
/// it has none in the model. Labels, names and the grid are those of the model.
///
/// # Errors
/// If the policy does not fit the model. [`NO_ACTION`] stands for the action of a state without actions.
pub fn chain(mdp: &Mdp, policy: &[u32]) -> Result<Mdp, InvalidPolicy> {
    let states = mdp.states();
    if policy.len() != states as usize {
        return Err(InvalidPolicy::Length { found: policy.len(), expected: states });
    }
    let mut rows = Vec::with_capacity(policy.len());
    let mut offsets = Vec::with_capacity(policy.len() + 1);
    offsets.push(0);
    for (state, &action) in policy.iter().enumerate() {
        let own = mdp.choices().rows(state);
        match own.len() {
            0 if action == NO_ACTION => {}
            actions if action as usize >= actions => {
                let found = if action == NO_ACTION { "none".to_owned() } else { action.to_string() };
                return Err(InvalidPolicy::Action { state: mdp.state_name(state as u32), found, actions });
            }
            _ => rows.push(own.start + action as usize),
        }
        offsets.push(rows.len() as u64);
    }
    let of_rows = |numbers: &[f64]| -> Array<f64> {
        if numbers.is_empty() {
            Array::default()
        } else {
            rows.iter().map(|&row| numbers[row]).collect::<Vec<_>>().into()
        }
    };
    let names = |names: &ActionNames| {
        let of_row = rows.iter().map(|&row| names.of_row[row]).collect();
        ActionNames { names: names.names.clone(), of_row }
    };
    Ok(Mdp::built(MdpParts {
        states,
        choices: if rows.len() == policy.len() { Choices::Uniform(1) } else { Choices::Ragged(offsets.into()) },
        gamma: mdp.gamma(),
        objective: mdp.objective(),
        transitions: gathered(mdp.transitions(), &rows),
        ends: of_rows(mdp.ends()),
        rewards: gathered(mdp.rewards(), &rows),
        action_rewards: of_rows(mdp.action_rewards()),
        labels: mdp.labels().clone(),
        action_names: mdp.action_names().map(names),
        state_names: mdp.state_names().map(|names| Arc::new(names.to_vec())),
        grid: mdp.grid().cloned(),
    }))
}

/// The steps of a policy that fits the criterion: one row of actions for each, or one for all.
fn stages<'p>(
    mdp: &Mdp,
    policy: &'p [u32],
    criterion: Option<&Criterion>,
) -> Result<std::slice::ChunksExact<'p, u32>, InvalidPolicy> {
    let states = mdp.states();
    if policy.is_empty() || !policy.len().is_multiple_of(states.max(1) as usize) {
        return Err(InvalidPolicy::Length { found: policy.len(), expected: states });
    }
    let stages = policy.chunks_exact(states as usize);
    let expected = match (stages.len(), criterion) {
        (1, _) => return Ok(stages),
        (found, Some(Criterion::Horizon(steps))) if found == *steps as usize => return Ok(stages),
        (_, Some(Criterion::Horizon(steps))) => format!("one of {steps} steps, as the horizon"),
        _ => "an action per state: the criterion has no steps".to_owned(),
    };
    Err(InvalidPolicy::Steps { found: stages.len(), expected })
}

/// The Markov chain of a policy by a criterion, for simulations. That of a plan has a copy of the states for each step, one behind the
/// other, and a last one in which nothing happens: a path that begins in a state of the model goes from copy to copy.
///
/// # Errors
/// If the policy does not fit the model or the criterion, or the chain has too many states.
pub fn unrolled(mdp: &Mdp, policy: &[u32], criterion: Option<&Criterion>) -> Result<Mdp, InvalidPolicy> {
    let stages = stages(mdp, policy, criterion)?;
    let (steps, states) = (stages.len(), mdp.states());
    if steps == 1 {
        return chain(mdp, policy);
    }
    let large = InvalidPolicy::Large { steps, states };
    let all = u32::try_from((steps as u64 + 1) * u64::from(states)).map_err(|_| large)?;
    let mut parts = MdpParts { states: all, gamma: mdp.gamma(), objective: mdp.objective(), ..MdpParts::default() };
    let mut matrices = [const { (Vec::new(), Vec::new(), Vec::new()) }; 2];
    let (mut offsets, mut ends, mut action_rewards) = (vec![0_u64], Vec::new(), Vec::new());
    for (step, actions) in (1..).zip(stages) {
        let chain = chain(mdp, actions)?;
        let rows = offsets[offsets.len() - 1];
        offsets.extend((1..=states as usize).map(|state| rows + chain.choices().first(state) as u64));
        for (matrix, (lengths, col, val)) in [chain.transitions(), chain.rewards()].into_iter().zip(&mut matrices) {
            lengths.extend(matrix.row_ptr().windows(2).map(|ends| ends[1] - ends[0]));
            col.extend(matrix.col().iter().map(|col| col + step * states));
            val.extend_from_slice(matrix.val());
        }
        ends.extend_from_slice(chain.ends());
        action_rewards.extend_from_slice(chain.action_rewards());
    }
    offsets.resize(all as usize + 1, offsets[offsets.len() - 1]);
    let [transitions, rewards] = matrices.map(|(lengths, col, val): (Vec<u64>, Vec<u32>, Vec<f64>)| {
        let sums = lengths.iter().scan(0, |sum, length| {
            *sum += length;
            Some(*sum)
        });
        let row_ptr: Vec<u64> = [0].into_iter().chain(sums).collect();
        if lengths.is_empty() { Csr::default() } else { Csr::built(row_ptr, col, val) }
    });
    parts.choices = Choices::Ragged(offsets.into());
    (parts.transitions, parts.rewards) = (transitions, rewards);
    (parts.ends, parts.action_rewards) = (ends.into(), action_rewards.into());
    Ok(Mdp::built(parts))
}

/// The matrix of these rows.
fn gathered(matrix: &Csr, rows: &[usize]) -> Csr {
    let entries = rows.iter().map(|&row| matrix.row(row).0.len()).sum();
    let (mut row_ptr, mut col, mut val) =
        (Vec::with_capacity(rows.len() + 1), Vec::with_capacity(entries), Vec::with_capacity(entries));
    row_ptr.push(0);
    for &row in rows {
        let (cols, vals) = matrix.row(row);
        col.extend_from_slice(cols);
        val.extend_from_slice(vals);
        row_ptr.push(col.len() as u64);
    }
    Csr::built(row_ptr, col, val)
}

/// Where and how accurately values are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Device.
    pub device: DeviceChoice,
    /// Precision of the sweeps of the discounted criterion; certificates are in f64.
    pub precision: Precision,
    /// ε, and what it is relative to; and the limit of sweeps.
    pub accuracy: criterion::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self { device: DeviceChoice::Auto, precision: Precision::Mixed, accuracy: criterion::Options::default() }
    }
}

impl Options {
    /// The options of a discounted solve.
    #[must_use]
    pub fn discounted(&self, gamma: f64) -> SolveOptions {
        let target = Target::Epsilon(self.accuracy.epsilon);
        let max_sweeps = u32::try_from(self.accuracy.max_sweeps).unwrap_or(u32::MAX);
        let tie = self.precision.tie_for(target, gamma);
        let limits = Limits { target, max_sweeps, tie, ..Limits::default() };
        SolveOptions { device: self.device, precision: self.precision, limits, ..SolveOptions::default() }
    }
}

/// Values between certified bounds, and a policy.
#[derive(Clone, Debug)]
pub struct CertifiedValue {
    /// One value per state.
    pub values: Vec<f64>,
    /// Lower bound of the exact value of each state.
    pub lower: Vec<f64>,
    /// Upper bound of the exact value of each state.
    pub upper: Vec<f64>,
    /// An action of each state; of an optimal [`plan`], for each of its steps.
    pub policy: Vec<u32>,
    /// Bound of |V − exact V| over all states; infinite if some value has no bounds.
    pub error: f64,
    /// How the run ended.
    pub status: Status,
    /// Whether the bounds meet ε.
    pub converged: bool,
    /// Name of the device.
    pub device: String,
    /// Automatic choices.
    pub notes: Vec<String>,
    /// Number of sweeps.
    pub sweeps: u64,
}

/// Optimal values of a model with certified bounds, by a criterion; `None` is the discounted sum. For the
/// [`chain`] of a policy, the values of the policy.
///
/// # Errors
/// Those of [`Solve::run`] and of [`criterion::solve`].
pub fn bounds(
    mdp: &Mdp,
    criterion: Option<&Criterion>,
    options: &Options,
    observe: &mut criterion::Observe,
) -> Result<CertifiedValue, criterion::Error<SolveError>> {
    let Some(criterion) = criterion else {
        let solve = options.discounted(mdp.gamma());
        let mut observe = |round: &Round| observe(round);
        let found = Solve::new(mdp, &solve).observed(&mut observe).run().map_err(criterion::Error::Backend)?;
        let error = found.certificate.bound.unwrap_or(f64::INFINITY);
        return Ok(CertifiedValue {
            lower: found.values.iter().map(|value| (value - error).next_down()).collect(),
            upper: found.values.iter().map(|value| (value + error).next_up()).collect(),
            error,
            status: found.run.status,
            converged: found.converged(&solve.limits),
            sweeps: found.run.sweeps(),
            values: found.values,
            policy: found.policy,
            device: found.device,
            notes: found.notes,
        });
    };
    let accuracy = &options.accuracy;
    let solved =
        solve_kept_on(&Local::alone(), options.device, mdp, criterion, accuracy, Persistence::default(), observe)?;
    Ok(CertifiedValue::from_solved(solved, accuracy))
}

impl CertifiedValue {
    fn from_solved(solved: SolvedOn, accuracy: &criterion::Options) -> Self {
        let bounded = solved.bounded;
        Self {
            values: bounded.values(),
            error: bounded.error(),
            status: bounded.status,
            converged: bounded.status == Status::Solved && bounded.unsettled(accuracy).next().is_none(),
            sweeps: bounded.sweeps(),
            lower: bounded.lower,
            upper: bounded.upper,
            policy: bounded.policy,
            device: solved.device,
            notes: solved.notes,
        }
    }
}

/// Why a policy has no value.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The policy does not fit.
    #[error(transparent)]
    Invalid(#[from] InvalidPolicy),
    /// The solver failed.
    #[error(transparent)]
    Solve(#[from] criterion::Error<SolveError>),
}

/// The value of a policy with certified bounds, by a criterion; `None` is the discounted sum.
///
/// The bounds of a plan go from its last step to its first: those of step t + 1 are the values after step t. Equal steps in a row are
/// taken at once.
///
/// # Errors
/// If the policy does not fit the model or the criterion; and those of [`bounds`].
pub fn value(
    mdp: &Mdp,
    policy: &[u32],
    criterion: Option<&Criterion>,
    options: &Options,
    observe: &mut criterion::Observe,
) -> Result<CertifiedValue, PolicyError> {
    let stages: Vec<&[u32]> = stages(mdp, policy, criterion)?.collect();
    if let [_] = stages[..] {
        let chain = chain(mdp, policy)?;
        let mut found = bounds(&chain, criterion, options, observe)?;
        if let Some(Criterion::TotalReward { goal: Some(goal) }) = criterion
            && signs(mdp, goal) == [true, false]
            && signs(&chain, goal) == [false, false]
        {
            // Missing the goal is worth what the model's rewards say, also where the policy earns nothing.
            let all = found.values.iter_mut().chain(&mut found.lower).chain(&mut found.upper);
            all.filter(|value| **value == f64::INFINITY).for_each(|value| *value = f64::NEG_INFINITY);
        }
        return Ok(found);
    }
    let mut found: Option<CertifiedValue> = None;
    for run in stages.chunk_by(|a, b| a == b).rev() {
        let (chain, steps) = (chain(mdp, run[0])?, run.len() as u32);
        let mut solve = |after: Option<&[f64]>| {
            backward_on(&Local::alone(), options.device, &chain, steps, after, false, observe).map(|(solved, _)| solved)
        };
        let before = found.take();
        let mut solved = solve(before.as_ref().map(|bounds| &bounds.lower[..]))?;
        if let Some(CertifiedValue { upper, .. }) = &before {
            let from_above = solve(Some(upper))?;
            solved.bounded.upper = from_above.bounded.upper;
            if from_above.bounded.status != Status::Solved {
                solved.bounded.status = from_above.bounded.status;
            }
        }
        let mut bounds = CertifiedValue::from_solved(solved, &options.accuracy);
        bounds.sweeps += before.map_or(0, |bounds| bounds.sweeps);
        let interrupted = bounds.status == Status::Interrupted;
        found = Some(bounds);
        if interrupted {
            break;
        }
    }
    // A model has a state.
    found.ok_or(PolicyError::Invalid(InvalidPolicy::Length { found: 0, expected: mdp.states() }))
}

/// Whether an expected reward before the goal is negative, and whether one is positive.
fn signs(mdp: &Mdp, goal: &[u32]) -> [bool; 2] {
    let mut is_goal = vec![false; mdp.states() as usize];
    goal.iter().for_each(|&state| is_goal[state as usize] = true);
    let rewards = mdp.expected_rewards();
    let before = (0..is_goal.len()).filter(|&state| !is_goal[state]);
    let rewards = before.flat_map(|state| &rewards[mdp.choices().rows(state)]);
    rewards.fold([false; 2], |[negative, positive], r| [negative || *r < 0.0, positive || *r > 0.0])
}

/// Optimal values for a horizon of `steps` steps with certified bounds, and an optimal plan.
///
/// # Errors
/// Those of [`criterion::solve`].
pub fn plan(
    mdp: &Mdp,
    steps: u32,
    options: &Options,
    observe: &mut criterion::Observe,
) -> Result<CertifiedValue, criterion::Error<SolveError>> {
    let (solved, stages) = backward_on(&Local::alone(), options.device, mdp, steps, None, true, observe)?;
    let mut bounds = CertifiedValue::from_solved(solved, &options.accuracy);
    if let Some(Steps { policies, .. }) = stages.filter(|stages| !stages.policies.is_empty()) {
        bounds.policy = policies;
    }
    Ok(bounds)
}

/// The evaluation of a policy.
pub struct PolicyReport<'a> {
    /// The model.
    pub mdp: &'a Mdp,
    /// π, one action per state; of a plan, the actions of the first step.
    pub policy: &'a [u32],
    /// The criterion; `None` for the discounted sum.
    pub criterion: Option<&'a Criterion>,
    /// Accuracy.
    pub options: &'a Options,
    /// V^π.
    pub value: &'a CertifiedValue,
    /// V*, if the loss is asked for.
    pub optimal: Option<&'a CertifiedValue>,
    /// Time of the solves.
    pub elapsed: Duration,
}

/// The loss V* − V^π of a policy over all states, or V^π − V* of costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// The largest loss.
    max: Number,
    /// Bounds of the largest loss.
    lower: Number,
    upper: Number,
    /// The state with the largest loss; none if it is 0.
    state: Option<String>,
    /// The action of the policy there, and an optimal one.
    action: Option<String>,
    optimal_action: Option<String>,
    /// The mean over the states.
    mean: Number,
    /// States that certainly lose something.
    states: usize,
}

impl PolicyReport<'_> {
    /// Whether the bounds meet ε: of V^π, and of V* if it is asked for.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.value.converged && self.optimal.is_none_or(|optimal| optimal.converged)
    }

    /// The loss of each state, 0 for equal infinities, and at least 0.
    #[must_use]
    pub fn losses(&self) -> Option<Vec<f64>> {
        let sign = self.mdp.objective().sign();
        let loss = |(optimal, own): (&f64, &f64)| if optimal == own { 0.0 } else { (sign * (optimal - own)).max(0.0) };
        Some(self.optimal?.values.iter().zip(&self.value.values).map(loss).collect())
    }

    /// The loss over all states.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        let (optimal, own, losses) = (self.optimal?, self.value, self.losses()?);
        // A loss is between those of the bounds that are nearest and farthest.
        let between = |state: usize| match self.mdp.objective() {
            Objective::Maximize => (optimal.lower[state] - own.upper[state], optimal.upper[state] - own.lower[state]),
            Objective::Minimize => (own.lower[state] - optimal.upper[state], own.upper[state] - optimal.lower[state]),
        };
        // Of two equal infinities, the difference is NaN, and the loss 0.
        let bound = |x: f64| if x.is_nan() { 0.0 } else { x.max(0.0) };
        let worst = (0..losses.len()).reduce(|a, b| if losses[b] > losses[a] { b } else { a })?;
        let at = (losses[worst] > 0.0).then_some(worst);
        let of = |policy: &[u32]| action(self.mdp, at?, policy[at?]);
        let largest = |of: fn((f64, f64)) -> f64| (0..losses.len()).map(|s| bound(of(between(s)))).fold(0.0, f64::max);
        Some(Loss {
            max: Number(losses[worst]),
            lower: Number(largest(|(lower, _)| lower)),
            upper: Number(largest(|(_, upper)| upper)),
            state: at.map(|state| self.mdp.state_name(state as u32)),
            action: of(self.policy),
            optimal_action: of(&optimal.policy),
            mean: Number(losses.iter().sum::<f64>() / losses.len() as f64),
            states: (0..losses.len()).filter(|&state| bound(between(state).0) > 0.0).count(),
        })
    }

    fn table(&self) -> NamedColumns<'_> {
        let (value, names) = (self.value, |policy: &'_ [u32]| -> Vec<Option<String>> {
            policy.iter().enumerate().map(|(state, &of)| action(self.mdp, state, of)).collect()
        });
        let states = (0..self.mdp.states()).map(|state| Some(self.mdp.state_name(state))).collect();
        let mut table = NamedColumns::default();
        table.texts("state", states);
        table.texts("action", names(self.policy));
        table.numbers("value", &value.values);
        table.numbers("lower", &value.lower);
        table.numbers("upper", &value.upper);
        if let (Some(optimal), Some(losses)) = (self.optimal, self.losses()) {
            table.texts("optimal_action", names(&optimal.policy));
            table.numbers("optimal", &optimal.values);
            table.owned("loss", losses);
        }
        table
    }
}

/// What a criterion is called in a report: with γ or the number of steps.
pub(super) fn criterion_in_words(mdp: &Mdp, criterion: Option<&Criterion>) -> String {
    let states = |goal: &[u32]| format!("{} goal {}", goal.len(), if goal.len() == 1 { "state" } else { "states" });
    match criterion {
        None => format!("discounted, gamma {}", mdp.gamma()),
        Some(Criterion::Horizon(steps)) => format!("horizon of {steps} steps, gamma {}", mdp.gamma()),
        Some(Criterion::Reach { goal }) => format!("reach, {}", states(goal)),
        Some(Criterion::TotalReward { goal: Some(goal) }) => format!("total until {}", states(goal)),
        Some(other) => other.name().to_owned(),
    }
}

impl Report for PolicyReport<'_> {
    fn guarantee(&self) -> Option<String> {
        let error = self.value.error;
        Some(match error.is_finite() {
            true => format!("Certified: |V − V^π| ≤ {}", rounded_up(error)),
            false => "Not certified: some values are bounded from one side only".to_owned(),
        })
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Start {
            state: u32,
            name: String,
            value: Number,
            lower: Number,
            upper: Number,
        }
        #[derive(Serialize)]
        struct Record<'a> {
            status: Status,
            converged: bool,
            criterion: &'static str,
            objective: Objective,
            gamma: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            horizon: Option<u32>,
            epsilon: f64,
            relative: bool,
            error: Number,
            device: &'a str,
            notes: &'a [String],
            sweeps: u64,
            compute_seconds: f64,
            init: Vec<Start>,
            #[serde(skip_serializing_if = "Option::is_none")]
            loss: Option<Loss>,
            #[serde(skip_serializing_if = "Option::is_none")]
            states: Option<&'a [String]>,
            policy: Vec<Option<String>>,
            values: Numbers<'a>,
            lower: Numbers<'a>,
            upper: Numbers<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            optimal_values: Option<Numbers<'a>>,
        }
        let Self { mdp, policy, criterion, options, value, optimal, elapsed } = self;
        let start = |state: u32| {
            let of = |values: &[f64]| Number(values[state as usize]);
            let name = mdp.state_name(state);
            Start { state, name, value: of(&value.values), lower: of(&value.lower), upper: of(&value.upper) }
        };
        let record = Record {
            status: value.status,
            converged: self.converged(),
            criterion: criterion.map_or("discounted", Criterion::name),
            objective: mdp.objective(),
            gamma: mdp.gamma(),
            horizon: if let Some(Criterion::Horizon(steps)) = criterion { Some(*steps) } else { None },
            epsilon: options.accuracy.epsilon,
            relative: options.accuracy.relative,
            error: Number(value.error),
            device: &value.device,
            notes: &value.notes,
            sweeps: value.sweeps,
            compute_seconds: elapsed.as_secs_f64(),
            init: starts(mdp).map(start).collect(),
            loss: self.loss(),
            states: mdp.state_names(),
            policy: policy.iter().enumerate().map(|(state, &of)| action(mdp, state, of)).collect(),
            values: Numbers(&value.values),
            lower: Numbers(&value.lower),
            upper: Numbers(&value.upper),
            optimal_values: optimal.map(|optimal| Numbers(&optimal.values)),
        };
        write_object(out, &record)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { mdp, criterion, options, value, elapsed, .. } = self;
        let objective = mdp.objective();
        write_line(out, "Criterion", format_args!("{}, {objective}", criterion_in_words(mdp, *criterion)))?;
        write_line(out, "Device", &value.device)?;
        for note in &value.notes {
            write_line(out, "Note", note)?;
        }
        let seconds = elapsed.as_secs_f64();
        let outcome = match value.status {
            Status::Interrupted => "interrupted",
            _ if self.converged() => "converged",
            _ => "not converged",
        };
        write_line(out, "PolicyReport", format_args!("{outcome} after {} sweeps, {seconds:.3} s", value.sweeps))?;
        match value.error.is_finite() {
            true => write_line(out, "Certified", format_args!("|V − V^π| ≤ {}", rounded_up(value.error)))?,
            false => write_line(out, "Certified", "bounds from one side only for some states")?,
        }
        for state in starts(mdp).take(10) {
            let of = |values: &[f64]| values[state as usize];
            let (value, lower, upper) = (of(&value.values), of(&value.lower), of(&value.upper));
            let name = mdp.state_name(state);
            let what = format!("{value:?}, between {lower:?} and {upper:?} (state {})", escaped(&name));
            write_line(out, "Value at init", what)?;
        }
        if let Some(Loss { max, lower, upper, state, action, optimal_action, mean, states }) = self.loss() {
            let (max, lower, upper, mean) = (max.0, lower.0, upper.0, mean.0);
            match state.filter(|_| lower > 0.0) {
                Some(state) => {
                    let (own, other) = (action.unwrap_or_default(), optimal_action.unwrap_or_default());
                    let instead = match own == other {
                        true => " (the policy errs in later states)".to_owned(),
                        false => format!(", by action {} instead of {}", escaped(&own), escaped(&other)),
                    };
                    let bounds = format!("{max:.6}, between {lower:.6} and {upper:.6}");
                    write_line(out, "Largest loss", format_args!("{bounds}, in state {}{instead}", escaped(&state)))?;
                }
                None => write_line(out, "Largest loss", format_args!("none certain, at most {}", rounded_up(upper)))?,
            }
            write_line(out, "Mean loss", format_args!("{mean:.6}"))?;
            write_line(out, "Losing states", format_args!("{states} of {} certainly lose", mdp.states()))?;
        }
        if !self.converged() && options.accuracy.relative {
            write_line(out, "Note", "a value that may be 0 has no relative error")?;
        }
        writeln!(out)?;
        self.table().write_text(out)
    }
}

impl Results for PolicyReport<'_> {
    type Format = TableFormat;

    fn write_as(&self, format: TableFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            TableFormat::Csv => self.table().write_csv(out),
            TableFormat::Json => self.write_json(out),
            TableFormat::Npy => crate::io::write_npy(out, &self.value.values),
        }
    }
}
