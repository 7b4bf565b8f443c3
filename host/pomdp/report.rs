//! Reports of solving, evaluating, simulating, acting, bounding and tracing, for people and for programs.
//!
//! Values of costs are printed as costs: each report multiplies by the sign of the model's objective.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;

use super::belief::Belief;
use super::constrained::{Constrained, Constraint, Part};
use super::controller::{Controller, Values};
use super::criterion::Undiscounted;
use super::io::{Format, Policy, write_policy_to};
use super::lookahead::Outlook;
use super::model::Pomdp;
use super::options::{Expansion, Scheme};
use super::simulate::{Evaluation, Step};
use super::solution::{RankShare, Round, Solution, Status};
use super::trace::{Element, Trace};
use super::verify::Certificate;
use warpkov_common::names::name;
use warpkov_common::ranks;
use warpkov_common::report::{Report, Results, write_object};
use warpkov_common::terminal::escaped;
use warpkov_mdp::criterion::Criterion;
use warpkov_mdp::model::Objective;

/// The JSON object of a solve.
#[derive(Serialize)]
struct Record<'a> {
    stopped_by: Status,
    lower: f64,
    upper: f64,
    gap: f64,
    relative_gap: f64,
    gap_limit: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    seconds: f64,
    beliefs: usize,
    vectors: usize,
    /// Before the compaction.
    vectors_found: usize,
    iterations: u64,
    backups: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expansion: Option<Expansion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<Scheme>,
    device: &'a str,
    notes: &'a [String],
    objective: Objective,
    states: u32,
    actions: u32,
    observations: u32,
    gamma: f64,
    #[serde(skip_serializing_if = "<[RankShare]>::is_empty")]
    ranks: &'a [RankShare],
    rounds: &'a [Round],
}

/// A solve: the model and the result.
#[derive(Clone, Copy)]
pub struct Solved<'a> {
    /// The model.
    pub model: &'a Pomdp,
    /// The name of the model in files of policies.
    pub name: &'a str,
    /// The result.
    pub solution: &'a Solution,
}

impl Results for Solved<'_> {
    type Format = Format;

    fn write_as(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, name, solution: Solution { vectors, stages, support, .. } } = *self;
        let policy = Policy { vectors, model: Some(model), name, stages, support: support.as_ref() };
        write_policy_to(out, format, policy)
    }
}

impl Report for Solved<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, solution, .. } = *self;
        let end = solution.end();
        let sampled = solution.error.is_none();
        let record = Record {
            stopped_by: solution.status,
            lower: end.lower,
            upper: end.upper,
            gap: end.gap(),
            relative_gap: solution.relative_gap,
            gap_limit: solution.gap_limit,
            error: solution.error,
            seconds: end.seconds,
            beliefs: end.beliefs,
            vectors: end.vectors,
            vectors_found: solution.found,
            iterations: end.iterations,
            backups: end.backups,
            expansion: sampled.then_some(solution.expansion),
            scheme: sampled.then_some(solution.scheme),
            device: &solution.device,
            notes: &solution.notes,
            objective: model.process().objective(),
            states: model.states(),
            actions: model.actions(),
            observations: model.observation_count(),
            gamma: model.gamma(),
            ranks: &solution.ranks,
            rounds: &solution.rounds,
        };
        write_object(out, &record)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, solution, .. } = *self;
        let end = solution.end();
        for note in &solution.notes {
            writeln!(out, "Note: {note}")?;
        }
        let (states, actions, observations) = (model.states(), model.actions(), model.observation_count());
        let gamma = model.gamma();
        writeln!(out, "Model: {states} states, {actions} actions, {observations} observations, gamma {gamma}")?;
        match solution.error {
            Some(_) => write!(out, "Method: exact backups")?,
            None => write!(out, "Method: {} expansion, {} backups", solution.expansion, solution.scheme)?,
        }
        writeln!(out, ", on {}", solution.device)?;
        writeln!(out, "Stopped: {}, after {:.3} s", solution.status, end.seconds)?;
        writeln!(out, "Work: {} expansions, {} backups", end.iterations, end.backups)?;
        if let Some(ranks) = ranks::summary(&solution.ranks) {
            writeln!(out, "Ranks: {ranks}")?;
        }
        write!(out, "Size: {} beliefs, {} vectors", end.beliefs, end.vectors)?;
        if solution.found > end.vectors {
            write!(out, " of {}", solution.found)?;
        }
        writeln!(out)?;
        if let Some(error) = solution.error {
            writeln!(out, "Error in any belief: at most {error:.1e}")?;
        }
        writeln!(out, "{}", self.bounds())
    }

    fn guarantee(&self) -> Option<String> {
        Some(self.bounds())
    }
}

impl Solved<'_> {
    /// One line on both bounds.
    fn bounds(&self) -> String {
        let Self { solution, .. } = *self;
        let end = solution.end();
        let (lower, upper, gap, limit) = (end.lower, end.upper, end.gap(), solution.gap_limit);
        let [lower_text, upper_text] = [lower, upper].map(|bound| decimal(bound, gap));
        let mut line = format!("Value of the start: {lower_text} to {upper_text}, gap {gap:.1e}");
        // Near 0, the gap is not relative to the value.
        let of_value = gap / lower.max(-upper).max(0.0);
        let is_relative = of_value <= solution.relative_gap * (1.0 + 1e-9);
        if is_relative && (lower > 0.0 || upper < 0.0) {
            line += &format!(", {:.2} % of the value", 100.0 * of_value);
        }
        if gap > limit || !is_relative {
            line += &format!("; the limit is {limit:.1e}");
        }
        line
    }
}

/// A bound with six decimals, or in scientific notation if these do not show a `gap` of the bounds.
fn decimal(bound: f64, gap: f64) -> String {
    if gap > 0.0 && gap < 1e-5 && bound.abs() < 1e-2 { format!("{bound:.9e}") } else { format!("{bound:.6}") }
}

/// A line of the bounds of something, with the limit of their gap where it was missed.
fn between(what: &str, [lower, upper]: [f64; 2], gap_limit: f64) -> String {
    // Equal infinities have no gap.
    let gap = if lower == upper { 0.0 } else { upper - lower };
    let [lower, upper] = [lower, upper].map(|bound| decimal(bound, gap));
    let mut line = format!("{what}: {lower} to {upper}, gap {gap:.1e}");
    if gap > gap_limit {
        line += &format!("; the limit is {gap_limit:.1e}");
    }
    line
}

/// Bounds on a criterion without a discount.
#[derive(Clone, Copy)]
pub struct Reached<'a> {
    /// The model.
    pub model: &'a Pomdp,
    /// The criterion.
    pub criterion: &'a Criterion,
    /// The result.
    pub found: &'a Undiscounted,
}

impl Reached<'_> {
    /// What the bounds are of.
    #[must_use]
    pub fn quantity(&self) -> &'static str {
        match (self.criterion, self.model.process().objective()) {
            (Criterion::Reach { .. }, Objective::Maximize) => "largest probability of the goal",
            (Criterion::Reach { .. }, Objective::Minimize) => "least probability of the goal",
            (_, Objective::Maximize) => "largest sum of rewards",
            (_, Objective::Minimize) => "least sum of costs",
        }
    }

    fn bounds(&self) -> String {
        let Undiscounted { lower, upper, gap_limit, .. } = *self.found;
        let mut quantity = self.quantity().chars();
        let first = quantity.next().map(|first| first.to_ascii_uppercase());
        between(&format!("{}{}", first.unwrap_or_default(), quantity.as_str()), [lower, upper], gap_limit)
    }
}

impl Results for Reached<'_> {
    type Format = Format;

    fn write_as(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        self.found.policy.write(out, format, self.model)
    }
}

impl Report for Reached<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, criterion, found } = *self;
        let end = found.rounds.last();
        let finite = |bound: f64| Some(bound).filter(|bound| bound.is_finite());
        let record = json!({
            "criterion": criterion.name(),
            "stopped_by": found.status,
            // A bound that is infinite is null.
            "lower": finite(found.lower),
            "upper": finite(found.upper),
            "gap_limit": found.gap_limit,
            "seconds": end.map(|end| end.seconds),
            "iterations": end.map(|end| end.iterations),
            "beliefs": end.map(|end| end.beliefs),
            "expanded": end.map(|end| end.vectors),
            "nodes": found.policy.actions.len(),
            "start": found.policy.starts,
            "device": found.device,
            "notes": found.notes,
            "objective": model.process().objective(),
            "states": model.states(),
            "actions": model.actions(),
            "observations": model.observation_count(),
            "rounds": found.rounds,
        });
        write_object(out, &record)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, found, .. } = *self;
        for note in &found.notes {
            writeln!(out, "Note: {note}")?;
        }
        let (states, actions, observations) = (model.states(), model.actions(), model.observation_count());
        writeln!(out, "Model: {states} states, {actions} actions, {observations} observations")?;
        writeln!(out, "Method: MDPs of beliefs, on {}", found.device)?;
        if let Some(end) = found.rounds.last() {
            writeln!(out, "Stopped: {}, after {:.3} s", found.status, end.seconds)?;
            writeln!(
                out,
                "Size: {} beliefs, {} of them expanded, in {} rounds",
                end.beliefs, end.vectors, end.iterations
            )?;
        }
        let starts: Vec<String> = found.policy.starts.iter().map(u32::to_string).collect();
        writeln!(out, "Controller: {} nodes, begins in {}", found.policy.actions.len(), starts.join(", "))?;
        writeln!(out, "{}", self.bounds())
    }

    fn guarantee(&self) -> Option<String> {
        Some(self.bounds())
    }
}

/// Bounds on the best value under a constraint.
#[derive(Clone, Copy)]
pub struct Limited<'a> {
    /// The model.
    pub model: &'a Pomdp,
    /// The constraint.
    pub constraint: Constraint,
    /// The result.
    pub found: &'a Constrained,
}

impl Limited<'_> {
    fn bounds(&self) -> String {
        let Constrained { lower, upper, gap_limit, .. } = *self.found;
        between(&format!("Value at the start, cost {}", self.constraint), [lower, upper], gap_limit)
    }
}

impl Results for Limited<'_> {
    type Format = Format;

    fn write_as(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        self.found.controller().0.write(out, format, self.model)
    }
}

impl Report for Limited<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, constraint, found } = *self;
        let end = found.rounds.last();
        let (_, begins) = found.controller();
        let part = |(part, start): (&Part, Vec<u32>)| {
            json!({
                "probability": part.probability,
                "price": part.multiplier,
                "value": part.value,
                "cost": part.cost,
                "nodes": part.policy.actions.len(),
                "start": start,
            })
        };
        let parts: Vec<_> = found.parts.iter().zip(begins).map(part).collect();
        let (bound, limit) = match constraint {
            Constraint::AtMost(limit) => ("at-most", limit),
            Constraint::AtLeast(limit) => ("at-least", limit),
        };
        let record = json!({
            "constraint": bound,
            "limit": limit,
            "stopped_by": found.status,
            "lower": found.lower,
            "upper": found.upper,
            "gap": found.upper - found.lower,
            "gap_limit": found.gap_limit,
            "price": found.multiplier,
            "cost": found.cost,
            "controllers": parts,
            "solves": found.solves,
            "seconds": end.map(|end| end.seconds),
            "iterations": end.map(|end| end.iterations),
            "backups": end.map(|end| end.backups),
            "device": found.device,
            "notes": found.notes,
            "objective": model.process().objective(),
            "states": model.states(),
            "actions": model.actions(),
            "observations": model.observation_count(),
            "gamma": model.gamma(),
            "rounds": found.rounds,
        });
        write_object(out, &record)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { model, found, .. } = *self;
        for note in &found.notes {
            writeln!(out, "Note: {note}")?;
        }
        let (states, actions, observations) = (model.states(), model.actions(), model.observation_count());
        writeln!(out, "Model: {states} states, {actions} actions, {observations} observations, γ {}", model.gamma())?;
        writeln!(out, "Method: {} solves with prices of the cost, on {}", found.solves, found.device)?;
        if let Some(end) = found.rounds.last() {
            writeln!(out, "Stopped: {}, after {:.3} s", found.status, end.seconds)?;
        }
        let (_, begins) = found.controller();
        for (part, start) in found.parts.iter().zip(begins) {
            let start: Vec<String> = start.iter().map(u32::to_string).collect();
            let [value, cost] =
                [part.value, part.cost].map(|[lower, upper]| decimal((lower + upper) / 2.0, upper - lower));
            writeln!(
                out,
                "Controller: with probability {:.6}, {} nodes, begins in {}, value {value}, cost {cost}",
                part.probability,
                part.policy.actions.len(),
                start.join(", ")
            )?;
        }
        let [lower, upper] = found.cost;
        writeln!(out, "Cost: {}, price {:.6}", decimal((lower + upper) / 2.0, upper - lower), found.multiplier)?;
        writeln!(out, "{}", self.bounds())
    }

    fn guarantee(&self) -> Option<String> {
        Some(self.bounds())
    }
}

/// One line of progress of a solve.
#[must_use]
pub fn progress(round: &Round) -> String {
    let Round { seconds, beliefs, vectors, lower, upper, .. } = *round;
    let gap = round.gap();
    // Five decimals show nothing of small values.
    let short = |x: f64| if x != 0.0 && x.abs() < 1e-2 { format!("{x:.4e}") } else { format!("{x:.5}") };
    let [lower, upper] = [lower, upper].map(short);
    format!("{seconds:8.1} s  |B| {beliefs:7}  |Γ| {vectors:6}  lower {lower:>12}  upper {upper:>12}  gap {gap:.2e}")
}

/// The mean return of many episodes.
#[derive(Clone, Copy)]
pub struct Evaluated<'a> {
    /// The model.
    pub model: &'a Pomdp,
    /// The result.
    pub evaluation: Evaluation,
    /// The controller and its values; `None` for alpha vectors.
    pub controller: Option<(&'a Controller, &'a Values)>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Time of the simulation.
    pub seconds: f64,
}

impl Evaluated<'_> {
    /// What the model sums up.
    fn what(&self) -> &'static str {
        match self.model.process().objective() {
            Objective::Maximize => "reward",
            Objective::Minimize => "cost",
        }
    }

    /// One line on the value of the controller.
    fn exact(&self, Values { lower, upper, .. }: &Values) -> String {
        let [lower, upper] = [lower, upper].map(|bound| decimal(*bound, upper - lower));
        format!("Exact {:<11} {lower} to {upper}", self.what())
    }

    /// One line on the mean return.
    fn mean(&self) -> String {
        let (what, Evaluation { mean, half_width, .. }) = (self.what(), self.evaluation);
        if !half_width.is_finite() {
            return format!("Mean {what:<12} {mean:.6}, of one episode: there is no interval");
        }
        let [mean, half] = [mean, half_width].map(|number| decimal(number, half_width));
        format!("Mean {what:<12} {mean} ± {half} (95 %)")
    }
}

impl Report for Evaluated<'_> {
    fn guarantee(&self) -> Option<String> {
        Some(self.controller.map_or_else(|| self.mean(), |(_, values)| self.exact(values)))
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { evaluation: found, controller, seed, seconds, .. } = self;
        if let Some((controller, values)) = controller {
            let starts: Vec<String> = begins(controller, values).iter().map(u32::to_string).collect();
            writeln!(out, "{}", self.exact(values))?;
            writeln!(out, "Controller        {} nodes, begins in {}", controller.len(), starts.join(", "))?;
        }
        writeln!(out, "{}", self.mean())?;
        writeln!(out, "Episodes          {}, {} steps, {seconds:.3} s, seed {seed}", found.episodes, found.steps)?;
        writeln!(
            out,
            "Cut               {} after {} steps; the rest of the return is at most {:.1e}",
            found.cut, found.horizon, found.tail
        )
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields {
            #[serde(flatten)]
            evaluation: Evaluation,
            interval: Option<[f64; 2]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            exact: Option<Exact>,
            seed: u64,
            seconds: f64,
        }
        #[derive(Serialize)]
        struct Exact {
            lower: f64,
            upper: f64,
            nodes: usize,
            starts: Vec<u32>,
        }
        let Self { evaluation, controller, seed, seconds, .. } = *self;
        let exact = controller.map(|(controller, values)| {
            let Values { lower, upper, .. } = *values;
            Exact { lower, upper, nodes: controller.len(), starts: begins(controller, values) }
        });
        let Evaluation { mean, half_width, .. } = evaluation;
        let interval = half_width.is_finite().then_some([mean - half_width, mean + half_width]);
        write_object(out, &Fields { evaluation, interval, exact, seed, seconds })
    }
}

/// The nodes in which a controller begins, by their numbers in its file, ascending.
fn begins(controller: &Controller, values: &Values) -> Vec<u32> {
    let mut starts: Vec<u32> = values.starts.iter().map(|&node| controller.number(node)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// One episode, step by step.
pub struct Episode<'a> {
    model: &'a Pomdp,
    seed: u64,
    steps: Vec<Line>,
    /// Σₜ γᵗ R of the steps so far.
    discounted: f64,
    /// γᵗ of the next step.
    discount: f64,
    ended: bool,
}

/// A step with the names of states, actions and observations.
#[derive(Serialize)]
struct Line {
    step: usize,
    state: String,
    action: String,
    next: String,
    observation: String,
    reward: f64,
    value: f64,
    /// States of positive probability in the belief.
    possible: usize,
}

impl<'a> Episode<'a> {
    /// An episode without steps.
    #[must_use]
    pub fn new(model: &'a Pomdp, seed: u64) -> Self {
        Self { model, seed, steps: Vec::new(), discounted: 0.0, discount: 1.0, ended: false }
    }

    /// Adds a step.
    pub fn push(&mut self, step: &Step) {
        let names = self.model.names();
        self.discounted += self.discount * step.reward;
        self.discount *= self.model.gamma();
        self.steps.push(Line {
            step: self.steps.len(),
            state: name(&names.states, step.state),
            action: name(&names.actions, step.action),
            next: name(&names.states, step.next),
            observation: name(&names.observations, step.observation),
            reward: step.reward,
            value: self.model.process().objective().sign() * step.value,
            possible: step.belief.states().len(),
        });
    }

    /// One line on the return.
    #[must_use]
    pub fn summary(&self) -> String {
        let end = if self.ended { "ended" } else { "cut" };
        format!("{:.6} discounted, {end} after {} steps", self.discounted, self.steps.len())
    }

    /// Says whether the process ended, or was cut after the last step.
    pub fn finish(&mut self, ended: bool) {
        self.ended = ended;
    }
}

impl Report for Episode<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let head = ["state", "action", "next", "seen"];
        let cells =
            |line: &Line| [line.state.clone(), line.action.clone(), line.next.clone(), line.observation.clone()];
        let width = |column: usize| {
            let widest = self.steps.iter().map(|line| cells(line)[column].chars().count()).max().unwrap_or(0);
            widest.max(head[column].len())
        };
        let [state, action, next, seen] = [0, 1, 2, 3].map(width);
        let [a, b, c, d] = head;
        writeln!(out, "step  {a:<state$}  {b:<action$}  {c:<next$}  {d:<seen$}      reward        V(b)  possible")?;
        for line in &self.steps {
            let [a, b, c, d] = cells(line);
            let Line { step, reward, value, possible, .. } = line;
            write!(out, "{step:>4}  {a:<state$}  {b:<action$}  {c:<next$}  {d:<seen$}")?;
            writeln!(out, "  {reward:>10.4}  {value:>10.4}  {possible:>8}")?;
        }
        writeln!(out, "{}", self.summary())
    }

    fn guarantee(&self) -> Option<String> {
        Some(self.summary())
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { seed, steps, discounted, ended, .. } = self;
        write_object(out, &json!({ "discounted": discounted, "ended": ended, "seed": seed, "steps": steps }))
    }
}

/// States that the text of [`Advice`] names.
const SHOWN: usize = 8;

/// The Q-factors of all actions in a belief, and the best action.
pub struct Advice<'a> {
    belief: &'a Belief,
    /// The names of the states; empty if they have none.
    states: Vec<String>,
    best: String,
    /// V(b) by the vectors.
    value: f64,
    actions: Vec<QFactor>,
}

/// An action with its name.
#[derive(Serialize)]
struct QFactor {
    action: String,
    /// Q(b, a).
    value: f64,
    /// r(b, a).
    reward: f64,
}

impl<'a> Advice<'a> {
    /// Advice from a lookahead; `value` is V(b) by the vectors. Both are of the model to be maximised.
    #[must_use]
    pub fn new(model: &Pomdp, belief: &'a Belief, outlooks: &[Outlook], value: f64) -> Self {
        let sign = model.process().objective().sign();
        let named = |action| name(&model.names().actions, action);
        // The first of the best: `max_by` takes the last.
        let best = outlooks.iter().rev().max_by(|a, b| a.value.total_cmp(&b.value)).map_or(0, |best| best.action);
        let factor = |outlook: &Outlook| QFactor {
            action: named(outlook.action),
            value: sign * outlook.value,
            reward: sign * outlook.reward,
        };
        let (states, actions) = (model.names().states.clone(), outlooks.iter().map(factor).collect());
        Self { belief, states, best: named(best), value: sign * value, actions }
    }
}

impl Advice<'_> {
    /// The best action, by name.
    #[must_use]
    pub fn best(&self) -> &str {
        &self.best
    }
}

impl Report for Advice<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let widest = self.actions.iter().map(|factor| factor.action.chars().count()).max();
        let width = widest.unwrap_or(0).max("action".len());
        writeln!(out, "  {:<width$}        Q(b, a)        r(b, a)", "action")?;
        for QFactor { action, value, reward } in &self.actions {
            let mark = if *action == self.best { '*' } else { ' ' };
            writeln!(out, "{mark} {action:<width$}  {value:>13.6}  {reward:>13.6}")?;
        }
        let (value, possible) = (self.value, self.belief.states().len());
        writeln!(out, "V(b) by the vectors: {value:.6}; {possible} states are possible")?;
        let mut likely: Vec<(u32, f64)> = self.belief.iter().collect();
        likely.sort_by(|a, b| b.1.total_cmp(&a.1));
        let shown = likely.iter().take(SHOWN).map(|(s, p)| format!("{} {p:.6}", escaped(&name(&self.states, *s))));
        let (shown, more) = (shown.collect::<Vec<_>>().join(", "), if possible > SHOWN { ", …" } else { "" });
        writeln!(out, "Belief: {shown}{more}")
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { best, value, actions, .. } = self;
        let belief: Vec<(u32, f64)> = self.belief.iter().collect();
        let mut object = json!({ "action": best, "value": value, "actions": actions, "belief": belief });
        if !self.states.is_empty() {
            object["states"] = self.belief.states().iter().map(|s| name(&self.states, *s)).collect();
        }
        write_object(out, &object)
    }
}

/// Bounds on the value of a policy.
#[derive(Clone, Copy)]
pub struct Bounded {
    /// The certificate, of the model to be maximised.
    pub certificate: Certificate,
    /// Sign of the objective: 1 of rewards, −1 of costs.
    pub sign: f64,
}

impl Bounded {
    /// Whether every vector is supported within the tolerance.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.certificate.supported == self.certificate.vectors
    }
}

impl Report for Bounded {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { certificate: found, sign } = self;
        writeln!(out, "V(b0)             {:.9}, as the vectors have it", sign * found.value)?;
        writeln!(out, "Attained          {:.9}, by a controller of {} nodes", sign * found.attained, found.nodes)?;
        writeln!(out, "Certified         {:.9}, V(b0) less δ/(1 − γ)", sign * found.certified)?;
        writeln!(out, "Supported         {} of {} vectors", found.supported, found.vectors)?;
        if !self.is_supported() {
            writeln!(out, "Residual (δ)      {:.3e}, of vector {}", found.residual, found.worst)?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Certificate { value, certified, attained, .. } = self.certificate;
        let [value, certified, attained] = [value, certified, attained].map(|value| self.sign * value);
        write_object(out, &Certificate { value, certified, attained, ..self.certificate })
    }
}

/// The tensors of a full backup, or the derivation of some of their elements.
pub struct Traced<'a> {
    /// The tensors.
    pub trace: &'a Trace,
    /// The elements to derive, each with the text that names it.
    pub elements: &'a [(String, Element)],
    /// The device that computed the tensors, in words.
    pub device: &'a str,
}

impl Report for Traced<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.elements.is_empty() {
            let mut out = out;
            return self.trace.write(&mut out);
        }
        for (_, element) in self.elements {
            for line in self.trace.derivation(*element) {
                writeln!(out, "{line}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut object = self.trace.to_json();
        let derivation =
            |(text, element): &(String, Element)| json!({ "element": text, "steps": self.trace.derivation(*element) });
        object["elements"] = self.elements.iter().map(derivation).collect();
        object["device"] = self.device.into();
        write_object(out, &object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values below 10⁻⁶ keep their digits, and large ones are not longer for it.
    #[test]
    fn small_values_have_digits() {
        assert_eq!(decimal(2.5e-9, 1e-12), "2.500000000e-9");
        assert_eq!(decimal(-2.5e-9, 1e-12), "-2.500000000e-9");
        assert_eq!(decimal(19.3713, 1e-9), "19.371300");
        assert_eq!(decimal(0.0, 0.0), "0.000000");
        let round =
            Round { seconds: 1.0, iterations: 1, backups: 2, beliefs: 3, vectors: 4, lower: -3e-8, upper: 1.5e-7 };
        let line = progress(&round);
        assert!(line.contains("lower   -3.0000e-8  upper    1.5000e-7  gap 1.80e-7"), "{line}");
        let line = progress(&Round { lower: 0.0, upper: 12.5, ..round });
        assert!(line.contains("lower      0.00000  upper     12.50000  gap 1.25e1"), "{line}");
    }
}
