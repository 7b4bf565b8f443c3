//! Criteria without a discount: the probability of reaching goal states, and the expected sum of rewards until then.
//!
//! Both have values that are linear in the belief for a fixed plan, and a goal state has the same value for all plans. So a belief is
//! needed only over the states outside the goal, given that it was not reached; states from which nothing leads to the goal are left out
//! likewise. These beliefs are the states of a *belief MDP*. Its part near b₀ is made, and cut off at beliefs in two ways:
//!
//! - *attained*: from there, or from any other belief, the best of some plans goes on: of [blind policies](super::solve::bounds::blind), and
//!   of [backups](super::backend) at the beliefs that both policies visit;
//! - *ideal*: from there, the state is known after one more step (QMDP).
//!
//! Both are small MDPs, which the solvers of [`warpkov_mdp::criterion`] solve with proved bounds. The value of the first is attained by a
//! finite-state controller, and that of the second is at least V\*(b₀) when maximising (Norman, Parker and Zou, *Verification and control of
//! partially observable probabilistic systems*, Real-Time Systems 53, 2017; Bork, Katoen and Quatmann, *Under-approximating expected total
//! rewards in POMDPs*, TACAS, 2022). Then beliefs at which the policy of the ideal one is cut off are expanded, those first that it reaches
//! most probably and where the two cuts differ most (Hansen and Zilberstein, *LAO\**, Artificial Intelligence 129, 2001).
//!
//! V\* is not computable in general (Madani, Hanks and Condon, Artificial Intelligence 147, 2003): if waiting for ever always promises to know
//! more, the bounds stay apart. Beliefs are in `f64`, and those that agree to 2⁻⁴⁰ are one; the bounds are proved for these.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::time::Instant;

use rayon::prelude::*;

use super::alpha::AlphaVectors;
use super::backends::cpu::{Assembler, Vectors};
use super::belief::Belief;
use super::io::PolicyGraph;
use super::model::{Pomdp, PomdpParts};
use super::options::{Limits, MEMORY, earned};
use super::projection::Projection;
use super::solution::{Round, Status};
use super::solve::Observer;
use super::solve::interval::terms;
use warpkov_mdp::SolveError;
use warpkov_mdp::criterion::{self, Bounded, Criterion, SolvedOn};
use warpkov_mdp::model::validate::Invalid;
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts, Objective};
use warpkov_mdp::solution as mdp;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;

/// Least number of beliefs that a round expands.
const LEAST_EXPANDED: usize = 64;

/// Number of beliefs that a round expands, relative to those before.
const GROWTH: f64 = 0.5;

/// Accuracy of the MDPs, relative to the limit of the gap.
const ACCURACY: f64 = 0.1;

/// Accuracy of the values at which the belief MDP is cut off.
const ROUGH: f64 = 1e-6;

/// Largest number of steps of a policy that are followed to the beliefs where it is cut off.
const STEPS: u32 = 1000;

/// Probability that is followed no further.
const LEAST_PROBABILITY: f64 = 1e-9;

/// A backup that raises the value of its belief by at most this fraction of the gap is left out.
const LEAST_RISE: f64 = 1e-3;

/// Most backups of a round at the beliefs that a policy visits.
const BACKUPS: usize = 1000;

/// Width of the cells in which beliefs are one.
const CELL: f64 = 1.0 / (1_u64 << 40) as f64;

/// Why a criterion has no value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another criterion.
    #[error("criterion {0}: expected reach, or total with a goal")]
    Other(&'static str),
    /// The model is not one without its discount.
    #[error(transparent)]
    Model(#[from] super::model::Invalid),
    /// The criterion is undefined, or the device failed.
    #[error(transparent)]
    Process(#[from] criterion::Error<SolveError>),
}

/// The result of a solve.
#[derive(Clone, Debug)]
pub struct Undiscounted {
    /// A lower bound on V\*(b₀), in the sign of the model.
    pub lower: f64,
    /// An upper bound on V\*(b₀).
    pub upper: f64,
    /// A controller that attains `lower` when maximising, and `upper` when minimising.
    pub policy: PolicyGraph,
    /// Why the run ended.
    pub status: Status,
    /// Its rounds; `vectors` is the number of expanded beliefs, and `backups` that of rows of the belief MDP.
    pub rounds: Vec<Round>,
    /// The largest gap that ends the run.
    pub gap_limit: f64,
    /// Name of the device that solved the MDPs.
    pub device: String,
    /// Automatic choices and their reasons.
    pub notes: Vec<String>,
}

/// An action in a belief.
struct Act {
    reward: f64,
    /// Probability of reaching the goal now.
    goal: f64,
    /// Probability of never reaching it from now on.
    lost: f64,
    /// Observation, its probability outside of both, and the number of the next belief.
    next: Vec<(u32, f64, u32)>,
}

/// Where the belief MDP may be cut off.
struct Cut {
    /// The value of the best plan, and its number.
    attained: (f64, u32),
    /// The value of QMDP.
    ideal: f64,
}

/// The part of the belief MDP so far.
struct BeliefMdp<'m> {
    model: &'m Pomdp,
    /// Whether rewards count, and not the probability alone.
    total: bool,
    /// r(s, a) at s·A + a; 0 for a probability.
    rewards: Vec<f64>,
    goal: Vec<bool>,
    lost: Vec<bool>,
    /// Lower bounds of plans of the maximisation problem, of which the first repeat one action, and the plan that follows plan i after
    /// observation o, at i·|Ω| + o.
    plans: Vectors,
    follow: Vec<u32>,
    assembler: Assembler<'m>,
    /// Bound on the rounding errors of a plan, relative to its largest value.
    rounding: f64,
    /// 1 for rewards that are at least 0, and −1 for others.
    sign_of_rewards: f64,
    /// Q-factors at s·A + a.
    informed: Vec<f64>,
    beliefs: Vec<Belief>,
    cuts: Vec<Cut>,
    /// Empty for beliefs that are not expanded.
    rows: Vec<Vec<Act>>,
    numbers: HashMap<Vec<(u32, u64)>, u32>,
    projection: Projection,
    expanded: usize,
    bytes: usize,
}

/// One of the two MDPs.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Attained,
    Ideal,
}

/// The model with the objective of a criterion: the one asked for, or else to maximise a probability, of which rewards or costs say
/// nothing.
#[must_use]
pub fn directed(model: &Pomdp, criterion: &Criterion, minimize: Option<bool>) -> Pomdp {
    let minimize = minimize.or(matches!(criterion, Criterion::Reach { .. }).then_some(false));
    minimize.map_or_else(|| model.clone(), |minimize| model.with_objective(minimize))
}

/// Bounds V\*(b₀) until they are within the limit of the gap, or a limit of time, memory or iterations is reached. γ is ignored.
///
/// # Errors
/// If the criterion is not [`Criterion::Reach`] or [`Criterion::TotalReward`] with a goal, if its value is undefined, and errors of the
/// device.
pub fn solve(
    model: &Pomdp,
    criterion: &Criterion,
    device: DeviceChoice,
    limits: &Limits,
    observe: Observer,
) -> Result<Undiscounted, Error> {
    let (goal, total) = match criterion {
        Criterion::Reach { goal } => (goal, false),
        Criterion::TotalReward { goal: Some(goal) } => (goal, true),
        other => return Err(Error::Other(other.name())),
    };
    let start = Instant::now();
    let parts = model.clone().into_parts();
    let process = MdpParts { gamma: 1.0, ..parts.process };
    let model = &PomdpParts { process, ..parts }.validated()?;
    let mut run = Budget { device, limits, start, observe, stopped: None, name: String::new(), notes: Vec::new() };
    let solved = run.solve(model.process(), criterion, ROUGH)?;
    let mut blind = AlphaVectors::new(model.states());
    for action in 0..model.actions() {
        let one = only(model, action).map_err(criterion::Error::Invalid)?;
        blind.push(action, pessimistic(model, &run.solve(&one, criterion, ROUGH)?));
    }
    let mut is_goal = vec![false; model.states() as usize];
    goal.iter().for_each(|&state| is_goal[state as usize] = true);
    let mut beliefs = BeliefMdp::new(model, is_goal, total, &blind, &solved);
    let starts: Vec<Fate> = model.starts().iter().map(|(prob, belief)| beliefs.divide(*prob, belief)).collect();
    beliefs.search(&starts, &mut run)
}

/// A part of the initial belief: what is in the goal and lost, and the rest with its number.
struct Fate {
    goal: f64,
    lost: f64,
    rest: Option<(f64, u32)>,
}

/// The limits of a run, and what is known of it.
struct Budget<'a, 'o> {
    device: DeviceChoice,
    limits: &'a Limits,
    start: Instant,
    observe: Observer<'o>,
    stopped: Option<Status>,
    name: String,
    notes: Vec<String>,
}

impl Budget<'_, '_> {
    fn solve(
        &mut self,
        mdp: &Mdp,
        criterion: &Criterion,
        epsilon: f64,
    ) -> Result<Bounded, criterion::Error<SolveError>> {
        let options = criterion::Options { epsilon, ..criterion::Options::default() };
        let (limits, start, stopped) = (self.limits, self.start, &mut self.stopped);
        let mut watch = |_: &mdp::Round| match limits.time {
            Some(time) if start.elapsed() >= time => {
                *stopped = Some(Status::Time);
                ControlFlow::Break(())
            }
            _ if warpkov_common::interrupt::requested() => {
                *stopped = Some(Status::Interrupted);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        };
        let found = criterion::solve_on(&Local::alone(), self.device, mdp, criterion, &options, &mut watch)?;
        let SolvedOn { bounded, device, notes, .. } = found;
        (self.name, self.notes) = (device, notes);
        Ok(bounded)
    }
}

/// The bounds of the values that a policy attains.
fn pessimistic<'b>(model: &Pomdp, bounded: &'b Bounded) -> &'b [f64] {
    match model.process().objective() {
        Objective::Maximize => &bounded.lower,
        Objective::Minimize => &bounded.upper,
    }
}

/// The bounds of values that no policy exceeds.
fn optimistic<'b>(model: &Pomdp, bounded: &'b Bounded) -> &'b [f64] {
    match model.process().objective() {
        Objective::Maximize => &bounded.upper,
        Objective::Minimize => &bounded.lower,
    }
}

/// The process in which an action is the only one.
fn only(model: &Pomdp, action: u32) -> Result<Mdp, Invalid> {
    let (states, actions) = (model.states(), model.actions() as usize);
    let rewards = model.expected_rewards();
    let rows = (0..states as usize).map(|state| state * actions + action as usize);
    let mut table = MdpRows::default();
    for row in rows {
        let (next, probs) = model.process().transitions().row(row);
        table.push(next.iter().copied().zip(probs.iter().copied()), rewards[row]);
    }
    table.mdp(states, Choices::Uniform(1), model.process().objective())
}

/// Rows of an MDP.
#[derive(Default)]
struct MdpRows {
    ends: Vec<u64>,
    col: Vec<u32>,
    val: Vec<f64>,
    rewards: Vec<f64>,
}

impl MdpRows {
    /// Appends a row with these successors, in any order. The probabilities of equal ones are added.
    fn push(&mut self, next: impl IntoIterator<Item = (u32, f64)>, reward: f64) {
        let mut next: Vec<(u32, f64)> = next.into_iter().filter(|(_, prob)| *prob > 0.0).collect();
        next.sort_by_key(|(state, _)| *state);
        let first = self.col.len();
        for (state, prob) in next {
            match self.val.last_mut().filter(|_| self.col.len() > first && self.col.last() == Some(&state)) {
                Some(last) => *last += prob,
                None => {
                    self.col.push(state);
                    self.val.push(prob);
                }
            }
        }
        self.ends.push(self.col.len() as u64);
        self.rewards.push(reward);
    }

    fn mdp(self, states: u32, choices: Choices, objective: Objective) -> Result<Mdp, Invalid> {
        let row_ptr: Vec<u64> = std::iter::once(0).chain(self.ends).collect();
        let transitions = Csr::built(row_ptr, self.col, self.val);
        let action_rewards = self.rewards.into();
        MdpParts { states, choices, gamma: 1.0, objective, transitions, action_rewards, ..MdpParts::default() }
            .validated()
    }
}

impl<'m> BeliefMdp<'m> {
    /// No beliefs yet. `solved` are the bounds of the observed process, `blind` those of each blind policy.
    fn new(model: &'m Pomdp, goal: Vec<bool>, total: bool, blind: &AlphaVectors, solved: &Bounded) -> Self {
        let actions = model.actions() as usize;
        let mut rewards = model.expected_rewards();
        let counts = |row: usize| total && !goal[row / actions];
        rewards.iter_mut().enumerate().filter(|(row, _)| !counts(*row)).for_each(|(_, reward)| *reward = 0.0);
        let values = optimistic(model, solved);
        let informed = |(row, reward): (usize, &f64)| {
            let (next, probs) = model.process().transitions().row(row);
            let ahead = next.iter().zip(probs).filter(|(_, p)| **p > 0.0).map(|(&s, p)| p * values[s as usize]);
            reward + ahead.sum::<f64>()
        };
        let informed = rewards.iter().enumerate().map(informed).collect();
        let lost = hopeless(model, &goal);
        let sign = model.process().objective().sign();
        let signed: Vec<f64> = rewards.iter().map(|reward| sign * reward).collect();
        let follow = (0..model.actions()).flat_map(|plan| vec![plan; model.observation_count() as usize]).collect();
        Self {
            model,
            total,
            goal,
            lost,
            plans: Vectors::new(&blind.clone().times(sign)),
            follow,
            assembler: Assembler::new(model, &signed),
            rounding: 4.0 * terms(model) * f64::EPSILON,
            sign_of_rewards: if rewards.iter().any(|&reward| reward < 0.0) { -1.0 } else { 1.0 },
            rewards,
            informed,
            beliefs: Vec::new(),
            cuts: Vec::new(),
            rows: Vec::new(),
            numbers: HashMap::new(),
            projection: Projection::default(),
            expanded: 0,
            bytes: 0,
        }
    }

    /// Whether a value is better than another.
    fn is_better(&self, a: f64, b: f64) -> bool {
        let sign = self.model.process().objective().sign();
        sign * a > sign * b
    }

    /// The best of some values, the first of equal ones.
    fn best(&self, values: impl Iterator<Item = (u32, f64)>) -> (u32, f64) {
        let best = values.reduce(|best, next| if self.is_better(next.1, best.1) { next } else { best });
        best.unwrap_or_default()
    }

    /// Divides `prob` times a belief into what is in the goal, what is lost, and the rest.
    fn divide(&mut self, prob: f64, belief: &Belief) -> Fate {
        let mut divided = Fate { goal: 0.0, lost: 0.0, rest: None };
        let mut rest = Belief::default();
        for (state, p) in belief.iter() {
            match (self.goal[state as usize], self.lost[state as usize]) {
                (true, _) => divided.goal += prob * p,
                (_, true) => divided.lost += prob * p,
                _ => rest.push(state, p),
            }
        }
        if !rest.states().is_empty() {
            let sum = rest.sum();
            divided.rest = Some((prob * sum, self.number(rest.divided(sum))));
        }
        divided
    }

    /// The number of a belief outside of the goal.
    fn number(&mut self, belief: Belief) -> u32 {
        let cells = belief.iter().map(|(state, p)| (state, (p / CELL).round() as u64)).filter(|(_, cell)| *cell > 0);
        let key: Vec<(u32, u64)> = cells.collect();
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = self.beliefs.len() as u32;
        let actions = self.model.actions();
        let (plan, value) = self.plans.best(&belief).unwrap_or_default();
        let attained = self.model.process().objective().sign() * value;
        let informed = |action: u32| {
            let factor = |state: u32| self.informed[(state * actions + action) as usize];
            belief.iter().map(|(state, p)| p * factor(state)).sum::<f64>()
        };
        let (_, ideal) = self.best((0..actions).map(|action| (action, informed(action))));
        // The key and the belief, with their allocations.
        self.bytes += 28 * belief.states().len() + 160;
        self.numbers.insert(key, number);
        self.beliefs.push(belief);
        self.cuts.push(Cut { attained: (attained, plan), ideal });
        self.rows.push(Vec::new());
        number
    }

    fn expand(&mut self, number: u32) {
        let belief = self.beliefs[number as usize].clone();
        let mut projection = std::mem::take(&mut self.projection);
        for action in 0..self.model.actions() {
            let mut row = Act {
                reward: self.model.reward(&self.rewards, &belief, action),
                goal: 0.0,
                lost: 0.0,
                next: Vec::new(),
            };
            projection.each(self.model, &belief, action, |observation, prob, after| {
                let Fate { goal, lost, rest } = self.divide(prob, &after);
                row.goal += goal;
                row.lost += lost;
                row.next.extend(rest.map(|(prob, number)| (observation, prob, number)));
            });
            self.bytes += 24 * row.next.len() + 48;
            self.rows[number as usize].push(row);
        }
        self.projection = projection;
        self.expanded += 1;
    }

    /// The MDP of one side: beliefs, the goal, and, if something leads there, a state that never reaches it.
    fn mdp(&self, side: Side) -> Result<Mdp, Invalid> {
        let goal = self.beliefs.len() as u32;
        let (mut table, mut offsets) = (MdpRows::default(), vec![0]);
        let mut loses = false;
        for (rows, cut) in self.rows.iter().zip(&self.cuts) {
            for row in rows {
                loses |= row.lost > 0.0;
                let next = row.next.iter().map(|&(_, prob, number)| (number, prob));
                table.push(next.chain([(goal, row.goal), (goal + 1, row.lost)]), row.reward);
            }
            // The last action of an attained belief is to follow the best plan.
            if rows.is_empty() || side == Side::Attained {
                let value = if side == Side::Attained { cut.attained.0 } else { cut.ideal };
                let (reached, reward) = match (self.total, value.is_finite()) {
                    (true, true) => (1.0, value),
                    (true, false) => (0.0, 0.0),
                    (false, _) => (value.clamp(0.0, 1.0), 0.0),
                };
                loses |= reached < 1.0;
                table.push([(goal, reached), (goal + 1, 1.0 - reached)], reward);
            }
            offsets.push(table.rewards.len() as u64);
        }
        for state in [goal, goal + 1].into_iter().take(1 + usize::from(loses)) {
            // For ever in the sign of the others, so that a goal that is missed is worth what it should be.
            let endless = self.total && state > goal;
            table.push([(state, 1.0)], if endless { self.sign_of_rewards } else { 0.0 });
            offsets.push(table.rewards.len() as u64);
        }
        let states = offsets.len() as u32 - 1;
        table.mdp(states, Choices::Ragged(offsets.into()), self.model.process().objective())
    }

    /// The value at the start, by the values of beliefs.
    fn value(&self, starts: &[Fate], values: &[f64]) -> f64 {
        let sum = |start: &Fate| start.rest.map_or(0.0, |(prob, number)| prob * values[number as usize]);
        let value: f64 = starts.iter().map(sum).sum();
        match self.total {
            false => value + starts.iter().map(|start| start.goal).sum::<f64>(),
            true if starts.iter().any(|start| start.lost > 0.0) => f64::INFINITY * self.sign_of_rewards,
            true => value,
        }
    }

    /// Backs up beliefs, the last first, where a value rises by more than `least`.
    fn back_up(&mut self, beliefs: &[u32], least: f64) {
        let first = self.plans.alpha().len();
        for &number in beliefs.iter().rev() {
            if let Some((action, next)) = self.decision(number, least) {
                self.add(number, action, next);
            }
        }
        let (plans, sign) = (&self.plans, self.model.process().objective().sign());
        self.cuts.par_iter_mut().zip(&self.beliefs).for_each(|(cut, belief)| {
            if let Some((plan, value)) = plans.best_from(belief, first).filter(|best| best.1 > sign * cut.attained.0) {
                cut.attained = (sign * value, plan);
            }
        });
    }

    /// The action and the plans that follow it which are best in an expanded belief, if they raise its value by more than `least`.
    fn decision(&self, number: u32, least: f64) -> Option<(u32, Vec<u32>)> {
        let sign = self.model.process().objective().sign();
        let value = |row: &Act| {
            let ahead = row.next.iter().map(|&(_, prob, after)| prob * self.cuts[after as usize].attained.0);
            let goal = if self.total { 0.0 } else { row.goal };
            let lost = if self.total && row.lost > 0.0 { f64::INFINITY * self.sign_of_rewards } else { 0.0 };
            sign * (row.reward + goal + lost + ahead.sum::<f64>())
        };
        let values = self.rows[number as usize].iter().map(value).enumerate();
        let (action, value) = values.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        if value.is_nan() || value <= sign * self.cuts[number as usize].attained.0 + least {
            return None;
        }
        let row = &self.rows[number as usize][action];
        let plan = |after: u32| self.cuts[after as usize].attained.1;
        // Observations of probability 0 continue like the most probable one.
        let likeliest = row.next.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |next| plan(next.2));
        let mut next = vec![likeliest; self.model.observation_count() as usize];
        row.next.iter().for_each(|&(observation, _, after)| next[observation as usize] = plan(after));
        Some((action as u32, next))
    }

    /// Adds a plan, and takes it at a belief if it is better there.
    fn add(&mut self, number: u32, action: u32, next: Vec<u32>) {
        let sign = self.model.process().objective().sign();
        let mut vector = self.assembler.vector(self.plans.alpha(), action, &next);
        // No plan changes these.
        let known = self.plans.alpha().vector(0);
        for state in (0..vector.len()).filter(|&state| self.goal[state] || self.lost[state]) {
            vector[state] = known[state];
        }
        let size = vector.iter().map(|value| value.abs()).filter(|size| size.is_finite()).fold(0.0, f64::max);
        let rounding = self.rounding * size;
        vector.iter_mut().for_each(|value| *value -= rounding);
        let (value, plan) = (self.beliefs[number as usize].dot(&vector), self.plans.alpha().len() as u32);
        let cut = &mut self.cuts[number as usize];
        if value > sign * cut.attained.0 {
            cut.attained = (sign * value, plan);
            self.bytes += 12 * vector.len() + 4 * next.len();
            self.plans.push(action, &vector);
            self.follow.extend(next);
        }
    }

    /// The beliefs that a policy visits, in the order of their first visit, and the probabilities of being cut off, by belief.
    fn visits(&self, starts: &[Fate], policy: &[u32]) -> (Vec<u32>, Vec<f64>) {
        let mut arrived = vec![0.0; self.beliefs.len()];
        let (mut seen, mut order) = (vec![false; self.beliefs.len()], Vec::new());
        let mut moving: BTreeMap<u32, f64> = BTreeMap::new();
        let begins = starts.iter().filter_map(|start| start.rest);
        begins.for_each(|(prob, number)| *moving.entry(number).or_default() += prob);
        for _ in 0..STEPS {
            let mut next: BTreeMap<u32, f64> = BTreeMap::new();
            for (number, mass) in moving {
                match self.rows[number as usize].get(policy[number as usize] as usize) {
                    None => arrived[number as usize] += mass,
                    Some(row) if mass > LEAST_PROBABILITY => {
                        if !std::mem::replace(&mut seen[number as usize], true) {
                            order.push(number);
                        }
                        row.next.iter().for_each(|(_, prob, after)| *next.entry(*after).or_default() += mass * prob);
                    }
                    Some(_) => {}
                }
            }
            moving = next;
            if moving.is_empty() {
                break;
            }
        }
        (order, arrived)
    }

    /// Beliefs to expand: by the probability of the ideal policy to be cut off there times the difference of the cuts, and if there are
    /// none, the oldest.
    fn frontier(&self, arrived: &[f64]) -> Vec<u32> {
        let open = |number: &u32| self.rows[*number as usize].is_empty();
        let weight = |number: u32| {
            let cut = &self.cuts[number as usize];
            let difference = (cut.ideal - cut.attained.0).abs();
            // Infinities differ without limit.
            let difference = if difference.is_nan() { 0.0 } else { difference.min(f64::MAX) };
            arrived[number as usize] * difference
        };
        let count = LEAST_EXPANDED.max((GROWTH * self.expanded as f64) as usize);
        let all = 0..self.beliefs.len() as u32;
        let mut chosen: Vec<(f64, u32)> = all
            .clone()
            .filter(open)
            .map(|number| (weight(number), number))
            .filter(|(weight, _)| *weight > 0.0)
            .collect();
        if chosen.is_empty() {
            return all.filter(open).take(count).collect();
        }
        chosen.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        chosen.into_iter().take(count).map(|(_, number)| number).collect()
    }

    fn search(&mut self, starts: &[Fate], run: &mut Budget) -> Result<Undiscounted, Error> {
        let earned = if self.total { earned(&self.rewards, self.model.actions() as usize) } else { 1.0 };
        let sign = self.model.process().objective().sign();
        let (mut bounds, mut policy) = ([f64::NEG_INFINITY, f64::INFINITY], None);
        let (mut rounds, mut iterations): (Vec<Round>, u64) = (Vec::new(), 0);
        let mut limit = run.limits.gap.limit(0.0, 0.0, earned);
        let status = loop {
            let goal = vec![self.beliefs.len() as u32];
            let criterion =
                if self.total { Criterion::TotalReward { goal: Some(goal) } } else { Criterion::Reach { goal } };
            let epsilon = (ACCURACY * limit).max(f64::MIN_POSITIVE);
            let attained =
                run.solve(&self.mdp(Side::Attained).map_err(criterion::Error::Invalid)?, &criterion, epsilon)?;
            let ideal = run.solve(&self.mdp(Side::Ideal).map_err(criterion::Error::Invalid)?, &criterion, epsilon)?;
            let value = self.value(starts, pessimistic(self.model, &attained));
            let limit_value = self.value(starts, optimistic(self.model, &ideal));
            let [lower, upper] = &mut bounds;
            let (own, other) = if sign > 0.0 { (lower, upper) } else { (upper, lower) };
            if policy.is_none() || self.is_better(value, *own) {
                (*own, policy) = (value, Some(self.controller(starts, &attained.policy)));
            }
            if self.is_better(*other, limit_value) {
                *other = limit_value;
            }
            let [lower, upper] = bounds;
            limit = run.limits.gap.limit(lower, upper, earned);
            let (beliefs, vectors) = (self.beliefs.len(), self.expanded);
            let backups = self.rows.iter().map(Vec::len).sum::<usize>() as u64;
            let seconds = run.start.elapsed().as_secs_f64();
            let round = Round { seconds, iterations, backups, beliefs, vectors, lower, upper };
            rounds.push(round);
            let limits = run.limits;
            // Equal infinities have no gap.
            if lower == upper || round.gap() <= limit {
                break Status::Gap;
            }
            if let Some(stopped) = run.stopped {
                break stopped;
            }
            let target = limits.target.is_some_and(|target| if sign > 0.0 { lower >= target } else { upper <= target });
            if target {
                break Status::Target;
            }
            if (run.observe)(&round).is_break() {
                break Status::Interrupted;
            }
            if limits.time.is_some_and(|time| run.start.elapsed() >= time) {
                break Status::Time;
            }
            if limits.iterations.is_some_and(|most| iterations >= most) {
                break Status::Iterations;
            }
            if self.bytes as u64 >= limits.memory.unwrap_or(MEMORY) {
                break Status::Memory;
            }
            let (mut path, arrived) = self.visits(starts, &ideal.policy);
            let (attained, _) = self.visits(starts, &attained.policy);
            let frontier = self.frontier(&arrived);
            if frontier.is_empty() {
                break Status::Stalled;
            }
            frontier.iter().for_each(|&number| self.expand(number));
            let gap = if round.gap().is_finite() { round.gap() } else { 0.0 };
            path.truncate(BACKUPS);
            for path in [frontier, path, attained.into_iter().take(BACKUPS).collect()] {
                self.back_up(&path, LEAST_RISE * gap);
            }
            iterations += 1;
        };
        let [lower, upper] = bounds;
        Ok(Undiscounted {
            lower,
            upper,
            policy: policy.unwrap_or_else(|| self.controller(starts, &[])),
            status,
            rounds,
            gap_limit: limit,
            device: std::mem::take(&mut run.name),
            notes: std::mem::take(&mut run.notes),
        })
    }

    /// The controller of a policy of the attained side: a node for each belief that it reaches, and for each plan that follows.
    fn controller(&self, starts: &[Fate], policy: &[u32]) -> PolicyGraph {
        let width = self.model.observation_count() as usize;
        let mut numbers: HashMap<Follow, u32> = HashMap::new();
        let mut order: Vec<Follow> = Vec::new();
        let mut number = |follow: Follow, order: &mut Vec<Follow>| {
            *numbers.entry(follow).or_insert_with(|| {
                order.push(follow);
                order.len() as u32 - 1
            })
        };
        let of_belief = |belief: u32| {
            let action = policy.get(belief as usize).copied().unwrap_or_default();
            match self.rows[belief as usize].get(action as usize) {
                Some(_) => Follow::Belief(belief, action),
                None => Follow::Plan(self.cuts[belief as usize].attained.1),
            }
        };
        let begin = |start: &Fate| start.rest.map(|(_, belief)| belief);
        let first = starts.iter().find_map(begin);
        // Where nothing is left to decide, any node does.
        let begins =
            starts.iter().map(|start| begin(start).or(first).map_or(0, |belief| number(of_belief(belief), &mut order)));
        let begins: Vec<u32> = begins.collect();
        if order.is_empty() {
            order.push(Follow::Plan(0));
        }
        let (mut actions, mut next) = (Vec::new(), Vec::new());
        while let Some(&follow) = order.get(actions.len()) {
            let own = actions.len() as u32;
            match follow {
                Follow::Plan(plan) => {
                    actions.push(self.plans.alpha().actions()[plan as usize]);
                    for &after in &self.follow[plan as usize * width..][..width] {
                        next.push(Some(number(Follow::Plan(after), &mut order)));
                    }
                }
                Follow::Belief(belief, action) => {
                    actions.push(action);
                    let mut followers = vec![Some(own); width];
                    for &(observation, _, after) in &self.rows[belief as usize][action as usize].next {
                        followers[observation as usize] = Some(number(of_belief(after), &mut order));
                    }
                    next.extend(followers);
                }
            }
        }
        PolicyGraph { starts: begins, reached: vec![true; actions.len()], actions, next }
    }
}

/// What a node of the controller stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Follow {
    /// A belief, and the action there.
    Belief(u32, u32),
    /// A plan.
    Plan(u32),
}

/// The states from which no action leads to the goal.
fn hopeless(model: &Pomdp, goal: &[bool]) -> Vec<bool> {
    let states = model.states() as usize;
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); states];
    for state in 0..model.states() {
        for action in 0..model.actions() {
            let (next, probs) = model.successors(state, action);
            let reached = next.iter().zip(probs).filter(|(_, prob)| **prob > 0.0);
            reached.for_each(|(&next, _)| before[next as usize].push(state));
        }
    }
    let mut lost: Vec<bool> = goal.iter().map(|goal| !goal).collect();
    let mut open: Vec<usize> = (0..states).filter(|&state| goal[state]).collect();
    while let Some(state) = open.pop() {
        for &other in &before[state] {
            if std::mem::replace(&mut lost[other as usize], false) {
                open.push(other as usize);
            }
        }
    }
    lost
}
