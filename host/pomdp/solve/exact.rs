//! Exact solutions of small models: bounds on V\* that hold in every belief, not only at b₀.
//!
//! The state is a finite-state controller with values u ≤ Lu of its nodes (see [`compact`](crate::compact)), and V(b) = maxᵢ b·uᵢ.
//! One round of policy iteration (Hansen, *Solving POMDPs by searching in policy space*, UAI, 1998):
//!
//! 1. *Selection.* Γ is the nodes that are best in some belief; linear programs find them.
//! 2. *Backup.* The vectors of HV are found by incremental pruning (Cassandra, Littman and Zhang, UAI, 1997): the vectors of each
//!    action are those of its observations, added in all combinations, and pruned after each observation.
//! 3. *Certificate.* Let ρ ≥ maxᵦ (HV − V)(b), and let what pruning lost be at most λ. Then V ≤ V\* ≤ V + (ρ + λ)/(1 − γ), because
//!    V\* − V ≤ e implies V\* ≤ HV + γe ≤ V + ρ + λ + γe.
//! 4. *Improvement.* The vectors of HV become nodes; a node that is nowhere above another is replaced by it; and the controller is
//!    evaluated. Then come backups at the beliefs where the vectors of HV are best, which cost little (Zhang and Zhang, *Speeding up
//!    the convergence of value iteration in partially observable Markov decision processes*, JAIR 14, 2001).
//!
//! A vector is pruned if a mixture of others is within a margin of it in every state. The mixture is the proof, whatever the accuracy
//! of the linear program that found it.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::bounds::blind::blind;
use super::clock::{Clock, Standing};
use super::interval::{Interval, terms};
use crate::alpha::AlphaVectors;
use crate::backends::cpu::Vectors;
use crate::belief::Belief;
use crate::compact::{Compact, Controllers, Effort, reachable};
use crate::game::Game;
use crate::model::Pomdp;
use crate::projection::Projection;
use crate::solution::{Round, Stage, Status, Support};
use warpkov_common::interrupt;
use warpkov_common::numbers::max_norm;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Rounds without a smaller error that end a run.
const PATIENCE: u32 = 8;

/// Most rounds of backups at beliefs between two exact ones.
const POINT_ROUNDS: u32 = 50;

/// Least gain of a backup at a belief, relative to ρ.
const LEAST_GAIN: f64 = 0.1;

/// What a round may lose by pruning, relative to ρ of the round before, or to the ρ that the limit of the gap permits. Few vectors are
/// enough while V is far from V\*.
const LOST: f64 = 0.25;

/// Share of the inner point in a belief at which vectors are compared: at a corner or an edge, vectors that are best nowhere else tie.
const INNER: f64 = 0.02;

/// Interval between two checks of the clock.
const CHECK: Duration = Duration::from_millis(10);

/// A vector with what it decides, and a belief where it was best.
#[derive(Clone)]
struct Plan {
    action: u32,
    values: Vec<f64>,
    /// The node that follows each observation.
    next: Vec<u32>,
    witness: Vec<f64>,
}

/// Plans, and their values state by state: comparisons at a belief read these in order.
struct Listed {
    plans: Vec<Plan>,
    columns: Vec<Vec<f64>>,
}

/// Plans that are compared together.
const BLOCK: usize = 128;

impl Listed {
    fn new(states: usize, plans: Vec<Plan>) -> Self {
        let column = |state: usize| plans.iter().map(|plan| plan.values[state]).collect();
        Self { columns: (0..states).map(column).collect(), plans }
    }

    fn push(&mut self, plan: Plan) {
        self.columns.iter_mut().zip(&plan.values).for_each(|(column, value)| column.push(*value));
        self.plans.push(plan);
    }

    fn swap_remove(&mut self, i: usize) -> Plan {
        self.columns.iter_mut().for_each(|column| _ = column.swap_remove(i));
        self.plans.swap_remove(i)
    }

    fn pop(&mut self) -> Option<Plan> {
        self.columns.iter_mut().for_each(|column| _ = column.pop());
        self.plans.pop()
    }

    /// Puts a plan in the place of another.
    fn replace(&mut self, i: usize, plan: Plan) -> Plan {
        self.columns.iter_mut().zip(&plan.values).for_each(|(column, value)| column[i] = *value);
        std::mem::replace(&mut self.plans[i], plan)
    }

    /// The first best plan at a belief, and its value.
    fn best(&self, belief: &[f64]) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for first in (0..self.plans.len()).step_by(BLOCK) {
            let block = first..self.plans.len().min(first + BLOCK);
            let mut scores = [0.0; BLOCK];
            for (column, prob) in self.columns.iter().zip(belief).filter(|(_, prob)| **prob > 0.0) {
                let values = &column[block.clone()];
                scores.iter_mut().zip(values).for_each(|(score, value)| *score += value * prob);
            }
            for (i, &score) in block.zip(&scores) {
                if best.is_none_or(|best| score > best.1) {
                    best = Some((i, score));
                }
            }
        }
        best
    }
}

/// How far a vector is above the best of others.
struct Excess {
    /// A belief.
    belief: Vec<f64>,
    /// The excess there.
    least: f64,
    /// An upper limit of the excess in any belief.
    most: f64,
}

/// Plans, and how much lower their largest value is in any belief than that of what was pruned, at most.
type Pruned = (Vec<Plan>, f64);

/// An exact solution of the maximisation problem.
pub struct Optimum {
    /// The controller; for a horizon, the vectors of the first step.
    pub policy: Compact,
    /// For a horizon, the plans for T, T − 1 … 1 steps to go.
    pub stages: Vec<Stage>,
    /// Why the run ended, and its recorded rounds.
    pub ended: (Option<Status>, Vec<Round>),
    /// V\* − V is at most this in every belief.
    pub error: f64,
}

/// Solves a model with γ < 1 until the bounds at b₀ are within the limit of the gap, or only rounding errors are left. More than
/// `most` combinations of vectors end the run, too.
pub fn search(model: &Pomdp, most: usize, mut clock: Clock) -> Optimum {
    let rest = 1.0 - model.gamma();
    let mut exact = Exact::new(model, most, 1.0 / rest);
    let slack = 4.0 * exact.margin / rest;
    exact.limit_memory(clock.memory());
    let mut policy = exact.blind(&mut clock);
    exact.loosen(max_norm(&exact.controllers.rewards));
    let (mut witnesses, mut error, mut last, mut stalled) = (Vec::new(), f64::INFINITY, f64::INFINITY, 0);
    loop {
        let backed_up = exact.watched(&mut clock, |exact, stop| exact.back_up_all(&policy, &witnesses, stop));
        let round = match backed_up {
            Ok(round) => round,
            Err(status) => {
                clock.status.get_or_insert(status);
                break;
            }
        };
        clock.iterations += 1;
        let found = (round.risen + round.lost) / rest + slack;
        stalled = if found < error { 0 } else { stalled + 1 };
        // The bound of an earlier round holds for its own V, which is lower but for what was left out since.
        error = error.min(found);
        witnesses = self::witnesses(&round.backed_up);
        let over = clock.over(exact.standing(&policy, slack, error));
        let is_rounding = round.risen + round.lost <= exact.floor;
        if is_rounding {
            clock.status.get_or_insert(Status::Gap);
        } else if stalled >= PATIENCE {
            clock.status.get_or_insert(Status::Stalled);
        }
        let ended = over || clock.status.is_some();
        // A round that raised the error is followed by one that cannot.
        let closed = (ended || found < last).then(|| exact.closed(&policy, &round, &mut clock)).flatten();
        let left_out = round.left_out;
        let may_lose = |lost: f64| match clock.status {
            // The limit of the gap stays met.
            Some(Status::Gap) if !is_rounding => error + lost + slack <= clock.gap_limit(),
            Some(_) => lost <= error,
            None => true,
        };
        let beliefs = if ended { &[][..] } else { &witnesses[..] };
        let closed = closed.filter(|(closed, lost)| may_lose(lost + left_out) && exact.keeps(&policy, closed, beliefs));
        let may_leave_out = may_lose(left_out);
        last = found;
        exact.loosen(round.risen.max(rest * clock.gap_limit()));
        match closed {
            Some((closed, lost)) => {
                policy = closed;
                error += lost + left_out;
            }
            None if ended => {
                if may_leave_out {
                    policy = exact.reachable(&policy, &round.selected);
                    error += left_out;
                }
            }
            None => {
                error += left_out;
                let least = (LEAST_GAIN * round.risen).max(2.0 * exact.margin);
                policy = exact.improved(policy, round, least, &mut clock);
            }
        }
        if ended {
            break;
        }
    }
    exact.controllers.begin(&mut policy);
    // The policy attains the lower bound, to the last bit.
    exact.value = f64::NEG_INFINITY;
    let standing = exact.standing(&policy, slack, error);
    Optimum { policy, stages: Vec::new(), ended: clock.end(standing), error }
}

/// The vectors of each of T steps. Without enough time or memory, those of the last steps to be found are not exact.
pub fn search_horizon(model: &Pomdp, horizon: u32, most: usize, mut clock: Clock) -> Optimum {
    let steps = f64::from(horizon);
    let mut exact = Exact::new(model, most, steps);
    let slack = 4.0 * exact.margin * steps;
    exact.limit_memory(clock.memory());
    exact.loosen(clock.gap_limit() / steps);
    let nothing = vec![0.0; model.states() as usize];
    let mut below = vec![Plan { action: 0, values: nothing, next: vec![0], witness: exact.inner.clone() }];
    let mut stages: Vec<Stage> = Vec::new();
    let mut error = 0.0;
    for _ in 0..horizon {
        let backed_up = match clock.status {
            None => exact.watched(&mut clock, |exact, stop| exact.backup(&below, stop)),
            Some(status) => Err(status),
        };
        let plans = match backed_up {
            Ok((plans, lost)) => {
                error = lost + model.gamma() * error;
                clock.iterations += 1;
                plans
            }
            Err(status) => {
                error = f64::INFINITY;
                clock.status.get_or_insert(status);
                exact.at_beliefs(&vectors(model, &below), &witnesses(&below))
            }
        };
        stages.push(Stage {
            vectors: vectors(model, &plans),
            next: plans.iter().flat_map(|plan| plan.next.iter().copied()).collect(),
        });
        below = plans;
        (0..).zip(&mut below).for_each(|(i, plan)| plan.next = vec![i]);
    }
    stages.reverse();
    let policy = Compact { vectors: vectors(model, &below), support: Support::default() };
    let (error, vectors) = (error + slack, stages.iter().map(|stage| stage.vectors.len()).sum());
    let standing = Standing { vectors, ..exact.standing(&policy, slack, error) };
    clock.status.get_or_insert(Status::Gap);
    Optimum { policy, stages, ended: clock.end(standing), error }
}

/// One exact backup of a controller.
struct Backup {
    /// The nodes that are best somewhere.
    selected: Vec<u32>,
    /// The vectors of HV.
    backed_up: Vec<Plan>,
    /// ρ: HV exceeds V by at most this.
    risen: f64,
    /// λ: pruning lost at most this.
    lost: f64,
    /// V exceeds the best of `selected` by at most this.
    left_out: f64,
}

/// Whether work should end.
struct Stop {
    asked: AtomicBool,
    end: Option<Instant>,
}

impl Stop {
    fn is_set(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
            || self.end.is_some_and(|end| Instant::now() >= end)
            || interrupt::requested()
    }
}

struct Exact<'m> {
    model: &'m Pomdp,
    controllers: Controllers<'m>,
    /// A fourth of the rounding error of a backup.
    margin: f64,
    /// A vector that exceeds others by no more is pruned.
    loose: f64,
    /// A ρ + λ that rounding explains.
    floor: f64,
    /// Most combinations of vectors.
    most: usize,
    /// A belief inside the simplex without symmetries.
    inner: Vec<f64>,
    backups: u64,
    /// The largest value of the start so far: evaluations may lower it by their rounding errors.
    value: f64,
}

impl<'m> Exact<'m> {
    /// Values are at most `steps` times the largest reward.
    fn new(model: &'m Pomdp, most: usize, steps: f64) -> Self {
        let controllers = Controllers::new(model);
        let margin = (terms(model) * UNIT * max_norm(&controllers.rewards) * steps).max(f64::MIN_POSITIVE);
        // The golden ratio spreads the weights evenly.
        let weights = (1..=model.states()).map(|s| 1.0 + (f64::from(s) * 0.618_033_988_749_894_9).fract());
        let sum: f64 = weights.clone().sum();
        Self {
            model,
            controllers,
            margin,
            loose: margin,
            floor: f64::from(2 * model.observation_count() + 4) * margin,
            most,
            inner: weights.map(|weight| weight / sum).collect(),
            backups: 0,
            value: f64::NEG_INFINITY,
        }
    }

    /// Fewer combinations, if they take more than half of so many bytes, for all actions at once.
    fn limit_memory(&mut self, bytes: u64) {
        let plan = size_of::<Plan>() as u64
            + 8 * u64::from(self.model.states())
            + 4 * u64::from(self.model.observation_count());
        let most = bytes / (2 * plan * u64::from(self.model.actions()));
        self.most = self.most.min(usize::try_from(most).unwrap_or(usize::MAX));
    }

    /// Prunes so that a round loses little, relative to ρ.
    fn loosen(&mut self, risen: f64) {
        let prunings = f64::from(2 * self.model.observation_count() + 2);
        self.loose = (LOST * risen / prunings).max(self.margin);
    }

    /// One node per action, which repeats it for ever.
    fn blind(&mut self, clock: &mut Clock) -> Compact {
        let vectors =
            blind(self.model, &self.controllers.rewards, &self.controllers.assembler, 0.0, &mut || clock.late());
        let actions = vectors.actions().to_vec();
        let width = self.model.observation_count() as usize;
        let next = actions.iter().flat_map(|&node| vec![node; width]).collect();
        let mut policy = Compact { vectors, support: Support { actions, next, ..Support::default() } };
        self.controllers.begin(&mut policy);
        policy
    }

    /// Does work, and stops it when the clock says so. A thread of a pool works itself, and looks at the time alone: if it waited, and all
    /// others did, nobody would be left to work.
    fn watched<T: Send>(
        &mut self,
        clock: &mut Clock,
        work: impl FnOnce(&mut Self, &Stop) -> Result<T, Status> + Send,
    ) -> Result<T, Status> {
        let stop = Stop { asked: AtomicBool::new(clock.late()), end: clock.end_of_search() };
        if rayon::current_thread_index().is_some() {
            let done = work(self, &stop);
            clock.late();
            return done;
        }
        let (working, done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _working = working;
                work(self, &stop)
            });
            while done.recv_timeout(CHECK) == Err(RecvTimeoutError::Timeout) {
                if clock.late() {
                    stop.asked.store(true, Ordering::Relaxed);
                }
            }
            worker.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Bounds of V\*(b₀).
    fn standing(&mut self, policy: &Compact, slack: f64, error: f64) -> Standing {
        let best = |(prob, start): &(f64, Belief)| prob * policy.vectors.best(start).map_or(0.0, |best| best.1);
        self.value = self.value.max(self.model.starts().iter().map(best).sum());
        let value = self.value;
        let vectors = policy.vectors.len();
        let bytes = size_of_val(policy.vectors.values()) + size_of_val(&policy.support.next[..]);
        Standing {
            bounds: Interval { lower: value - slack, upper: value + error },
            backups: self.backups,
            beliefs: vectors,
            vectors,
            bytes: bytes as u64,
        }
    }

    /// Steps 1 to 3 of a round. `witnesses` are beliefs at which to compare the nodes first.
    fn back_up_all(&mut self, policy: &Compact, witnesses: &[Vec<f64>], stop: &Stop) -> Result<Backup, Status> {
        let node = |node: usize| Plan {
            action: policy.vectors.actions()[node],
            values: policy.vectors.vector(node).to_vec(),
            next: vec![node as u32],
            witness: Vec::new(),
        };
        let nodes = (0..policy.vectors.len()).map(node).collect();
        let (mut selected, left_out) = self.pruned(nodes, witnesses, stop)?;
        // The start loses nothing.
        for (_, start) in self.model.starts() {
            let best = policy.vectors.best(&start).map_or(0, |best| best.0);
            if !selected.iter().any(|plan| plan.next[0] == best as u32) {
                selected.push(Plan { witness: start.to_dense(self.model.states()), ..node(best) });
            }
        }
        let (mut backed_up, lost) = self.backup(&selected, stop)?;
        let listed = Listed::new(self.model.states() as usize, selected.clone());
        let near = |least: f64, most: f64| most <= self.loose || least >= 0.9 * most;
        let risen = |plan: &Plan| match stop.is_set() {
            true => f64::NAN,
            false => self.excess(&plan.values, &listed, near).map_or(0.0, |excess| excess.most),
        };
        let risen: Vec<f64> = backed_up.par_iter().map(risen).collect();
        if risen.iter().any(|risen| risen.is_nan()) {
            return Err(Status::Interrupted);
        }
        for plan in &mut backed_up {
            plan.values = self.controllers.assembler.vector(&policy.vectors, plan.action, &plan.next);
        }
        Ok(Backup {
            selected: selected.iter().map(|plan| plan.next[0]).collect(),
            risen: risen.into_iter().fold(0.0, f64::max),
            lost: lost + self.model.gamma() * left_out,
            left_out,
            backed_up,
        })
    }

    /// The vectors of HV, for V(b) = max b·v over the `selected`, each of which has its number as `next`.
    fn backup(&mut self, selected: &[Plan], stop: &Stop) -> Result<Pruned, Status> {
        let of_actions: Result<Vec<Pruned>, Status> =
            (0..self.model.actions()).into_par_iter().map(|action| self.of_action(selected, action, stop)).collect();
        let of_actions = of_actions?;
        let lost = of_actions.iter().map(|of_action| of_action.1).fold(0.0, f64::max);
        let all: Vec<Plan> = of_actions.into_iter().flat_map(|of_action| of_action.0).collect();
        let witnesses = witnesses(&all);
        let (plans, last) = self.pruned(all, &witnesses, stop)?;
        self.backups += plans.len() as u64;
        Ok((plans, lost + last))
    }

    /// The vectors of the best continuations of one action.
    fn of_action(&self, selected: &[Plan], action: u32, stop: &Stop) -> Result<Pruned, Status> {
        let (states, count) = (self.model.states(), self.model.observation_count());
        let beliefs = witnesses(selected);
        let mut lost = 0.0;
        let mut parts: Vec<Vec<Plan>> = Vec::new();
        for observation in 0..count {
            let plans = selected.iter().map(|plan| self.part(plan, action, observation)).collect();
            let (part, loss) = self.pruned(plans, &beliefs, stop)?;
            lost += loss;
            parts.push(part);
        }
        parts.sort_by_key(Vec::len);
        let reward = |state: u32| self.controllers.rewards[(state * self.model.actions() + action) as usize];
        let mut sums = vec![Plan {
            action,
            values: (0..states).map(reward).collect(),
            next: vec![0; count as usize],
            witness: self.inner.clone(),
        }];
        for part in parts {
            if sums.len().saturating_mul(part.len()) > self.most {
                return Err(Status::Memory);
            }
            let plus = |sum: &Plan, plan: &Plan| Plan {
                action,
                values: sum.values.iter().zip(&plan.values).map(|(a, b)| a + b).collect(),
                // One of both is 0.
                next: sum.next.iter().zip(&plan.next).map(|(a, b)| a + b).collect(),
                witness: Vec::new(),
            };
            let beliefs = [witnesses(&sums), witnesses(&part)].concat();
            let all = sums.iter().flat_map(|sum| part.iter().map(move |plan| plus(sum, plan))).collect();
            let (pruned, loss) = self.pruned(all, &beliefs, stop)?;
            (sums, lost) = (pruned, lost + loss);
        }
        Ok((sums, lost))
    }

    /// γ Σ_{s'} T(s, a, s') O(a, s', o) v(s'), the part of one observation.
    fn part(&self, plan: &Plan, action: u32, observation: u32) -> Plan {
        let states = self.model.states();
        let chance = |(state, value): (u32, &f64)| {
            let (observed, probs) = self.model.observed(action, state);
            observed.binary_search(&observation).map_or(0.0, |place| probs[place] * value)
        };
        let after: Vec<f64> = (0..states).zip(&plan.values).map(chance).collect();
        let before = |state: u32| {
            let (successors, probs) = self.model.successors(state, action);
            self.model.gamma() * successors.iter().zip(probs).map(|(&next, p)| p * after[next as usize]).sum::<f64>()
        };
        let mut next = vec![0; self.model.observation_count() as usize];
        next[observation as usize] = plan.next[0];
        Plan { action, values: (0..states).map(before).collect(), next, witness: Vec::new() }
    }

    /// Leaves out plans that exceed the others by no more than the margin in any belief. Compares all plans at `beliefs` first.
    fn pruned(&self, plans: Vec<Plan>, beliefs: &[Vec<f64>], stop: &Stop) -> Result<Pruned, Status> {
        let states = self.model.states() as usize;
        let (mut plans, mut kept) = (Listed::new(states, plans), Listed::new(states, Vec::new()));
        let corners = (0..states).map(|state| (0..states).map(|s| f64::from(s == state)).collect::<Vec<f64>>());
        for belief in corners.chain(beliefs.iter().cloned()) {
            if stop.is_set() {
                return Err(Status::Interrupted);
            }
            let inside: Vec<f64> =
                belief.iter().zip(&self.inner).map(|(b, inner)| (1.0 - INNER) * b + INNER * inner).collect();
            let of_kept = kept.best(&inside).map_or(f64::NEG_INFINITY, |best| best.1);
            if let Some((i, value)) = plans.best(&inside)
                && value > of_kept + self.loose
            {
                kept.push(Plan { witness: inside, ..plans.swap_remove(i) });
            }
        }
        let mut lost = 0.0_f64;
        while let Some(mut plan) = plans.pop() {
            if stop.is_set() {
                return Err(Status::Interrupted);
            }
            let decided = |least: f64, most: f64| least > self.loose || most <= self.loose;
            match self.excess(&plan.values, &kept, decided) {
                Some(excess) if excess.most <= self.loose => lost = lost.max(excess.most),
                excess => {
                    let belief = excess.map_or_else(|| self.inner.clone(), |excess| excess.belief);
                    // Another one may be better there: then this one is examined again.
                    let value = dot(&plan.values, &belief);
                    if let Some((i, _)) = plans.best(&belief).filter(|best| best.1 > value) {
                        plan = plans.replace(i, plan);
                    }
                    kept.push(Plan { witness: belief, ..plan });
                }
            }
        }
        Ok((kept.plans, lost))
    }

    /// By how much a vector exceeds all `others`, as exactly as is `enough`; `None` without others. It is the value of the
    /// [game](crate::game) in which the strategies are the others, and a strategy loses what it is below the vector. Few strategies
    /// matter, which best replies find.
    fn excess(&self, vector: &[f64], others: &Listed, enough: impl Fn(f64, f64) -> bool) -> Option<Excess> {
        let largest = |losses: &[f64]| losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut found = Excess { belief: self.inner.clone(), least: f64::NEG_INFINITY, most: f64::INFINITY };
        let (mut game, mut used) = (Game::default(), Vec::new());
        if others.plans.iter().any(|other| vector.iter().zip(&other.values).all(|(own, other)| own <= other)) {
            return Some(Excess { most: 0.0, ..found });
        }
        let mut belief = self.inner.clone();
        loop {
            let (reply, value) = others.best(&belief)?;
            let excess = dot(vector, &belief) - value;
            if excess > found.least {
                (found.least, found.belief) = (excess, belief);
            }
            if enough(found.least, found.most) || used.contains(&reply) {
                return Some(found);
            }
            used.push(reply);
            game.push(vector.iter().zip(&others.plans[reply].values).map(|(own, other)| own - other).collect());
            game.solve();
            found.most = found.most.min(largest(&game.losses()));
            belief = vec![0.0; vector.len()];
            game.belief().into_iter().for_each(|(state, prob)| belief[state] = prob);
            if enough(found.least, found.most) {
                return Some(found);
            }
        }
    }

    /// The controller of the vectors of HV alone: links to a node lead to the vector that comes closest to it from above. V may exceed
    /// its value by the second number. `None` if time is over.
    fn closed(&self, policy: &Compact, round: &Backup, clock: &mut Clock) -> Option<(Compact, f64)> {
        let vector = |node: u32| policy.vectors.vector(node as usize);
        let lost =
            |own: &[f64], other: &[f64]| own.iter().zip(other).map(|(a, b)| a - b).fold(f64::NEG_INFINITY, f64::max);
        let nearest = |&node: &u32| {
            let distances = round.backed_up.iter().map(|plan| lost(vector(node), &plan.values));
            (0..)
                .zip(distances)
                .reduce(|best: (u32, f64), next| if next.1 < best.1 { next } else { best })
                .map(|best| best.0)
        };
        let by: Vec<u32> = round.selected.iter().map(nearest).collect::<Option<_>>()?;
        let mut number = vec![0; policy.vectors.len()];
        round.selected.iter().zip(&by).for_each(|(&node, &plan)| number[node as usize] = plan);
        let mut vectors = AlphaVectors::new(policy.vectors.states());
        let mut support = Support::default();
        for plan in &round.backed_up {
            vectors.push(plan.action, &plan.values);
            support.actions.push(plan.action);
            support.next.extend(plan.next.iter().map(|&node| number[node as usize]));
        }
        let mut closed = Compact { vectors, support };
        let effort = &mut Effort { work: u64::MAX, vectors: closed.vectors.len(), late: &mut |_| clock.late() };
        self.controllers.evaluate(&mut closed, 0.0, effort)?;
        let losses = round
            .selected
            .iter()
            .zip(&by)
            .map(|(&node, &plan)| lost(vector(node), closed.vectors.vector(plan as usize)));
        let lost = losses.fold(0.0, f64::max);
        Some((closed, lost))
    }

    /// Whether another controller is worth at least as much, up to the margin, at the start and at these beliefs.
    fn keeps(&self, policy: &Compact, other: &Compact, beliefs: &[Vec<f64>]) -> bool {
        let starts = self.model.starts().into_iter().map(|(_, start)| start);
        let value = |policy: &Compact, belief: &Belief| policy.vectors.best(belief).map(|best| best.1);
        let mut all = starts.chain(beliefs.iter().map(|belief| sparse(belief)));
        all.all(|belief| value(other, &belief) >= value(policy, &belief).map(|value| value - self.margin))
    }

    /// Step 4 of a round. Backups at beliefs go on while one gains more than `least`.
    fn improved(&mut self, mut policy: Compact, round: Backup, least: f64, clock: &mut Clock) -> Compact {
        let beliefs = witnesses(&round.backed_up);
        let mut roots = round.selected;
        let most = 4 * (policy.vectors.len() + round.backed_up.len());
        let mut plans = round.backed_up;
        // The last controller whose values are lower bounds.
        let mut evaluated = policy.clone();
        for _ in 0..=POINT_ROUNDS {
            for plan in plans {
                roots.push(policy.vectors.len() as u32);
                policy.vectors.push(plan.action, &plan.values);
                policy.support.actions.push(plan.action);
                policy.support.next.extend(plan.next);
            }
            (policy, roots) = self.merged(&policy, &roots);
            let effort = &mut Effort { work: u64::MAX, vectors: policy.vectors.len(), late: &mut |_| clock.late() };
            if self.controllers.evaluate(&mut policy, 0.0, effort).is_none() {
                break;
            }
            evaluated.clone_from(&policy);
            if policy.vectors.len() > most {
                break;
            }
            plans = self.at_beliefs(&policy.vectors, &beliefs);
            let gain = |plan: &Plan| {
                let known = (0..policy.vectors.len()).map(|node| dot(policy.vectors.vector(node), &plan.witness));
                dot(&plan.values, &plan.witness) - known.fold(f64::NEG_INFINITY, f64::max)
            };
            plans.retain(|plan| gain(plan) > least);
            if plans.is_empty() {
                break;
            }
        }
        evaluated
    }

    /// The backups of vectors at beliefs.
    fn at_beliefs(&mut self, vectors: &AlphaVectors, beliefs: &[Vec<f64>]) -> Vec<Plan> {
        let scored = Vectors::new(vectors);
        let backup = |projection: &mut Projection, witness: &Vec<f64>| {
            let belief = sparse(witness);
            let decision = |action: u32| {
                let (mut value, mut likeliest) =
                    (self.model.reward(&self.controllers.rewards, &belief, action), (0.0, 0));
                let mut next = vec![None; self.model.observation_count() as usize];
                projection.each(self.model, &belief, action, |observation, prob, after| {
                    if let Some((vector, future)) = scored.best(&after) {
                        value += self.model.gamma() * prob * future;
                        next[observation as usize] = Some(vector);
                        likeliest = if prob > likeliest.0 { (prob, vector) } else { likeliest };
                    }
                });
                (value, action, next.into_iter().map(|next| next.unwrap_or(likeliest.1)).collect::<Vec<u32>>())
            };
            let best = (0..self.model.actions()).map(decision).reduce(|a, b| if b.0 > a.0 { b } else { a });
            let (_, action, next) = best.unwrap_or_default();
            let values = self.controllers.assembler.vector(vectors, action, &next);
            Plan { action, values, next, witness: witness.clone() }
        };
        let plans: Vec<Plan> = beliefs.par_iter().map_init(Projection::default, backup).collect();
        self.backups += plans.len() as u64;
        plans
    }

    /// The controller without nodes that are nowhere above another one by more than the margin, to which links lead instead; and the
    /// new numbers of the roots. Only what they lead to stays. The values are those before.
    fn merged(&self, policy: &Compact, roots: &[u32]) -> (Compact, Vec<u32>) {
        let vector = |node: u32| policy.vectors.vector(node as usize);
        let below = |a: u32, b: u32| vector(a).iter().zip(vector(b)).all(|(a, b)| *a <= b + self.margin);
        let count = policy.vectors.len() as u32;
        let mut by: Vec<u32> = (0..count).collect();
        let mut kept: Vec<u32> = Vec::new();
        for node in 0..count {
            if let Some(&other) = kept.iter().find(|&&other| below(node, other)) {
                by[node as usize] = other;
                continue;
            }
            kept.retain(|&other| {
                let stays = !below(other, node);
                by[other as usize] = if stays { other } else { node };
                stays
            });
            kept.push(node);
        }
        // Nodes lead to nodes that were kept longer.
        let last = |mut node: u32| {
            while by[node as usize] != node {
                node = by[node as usize];
            }
            node
        };
        let mut policy = policy.clone();
        policy.support.next.iter_mut().for_each(|next| *next = last(*next));
        let mut roots: Vec<u32> = roots.iter().map(|&root| last(root)).collect();
        roots.sort_unstable();
        roots.dedup();
        let policy = self.reachable(&policy, &roots);
        // They come first.
        (policy, (0..roots.len() as u32).collect())
    }

    /// The nodes that `roots` lead to, the roots first.
    fn reachable(&self, policy: &Compact, roots: &[u32]) -> Compact {
        reachable(
            self.model.states(),
            &policy.vectors,
            &policy.support.next,
            self.model.observation_count() as usize,
            roots,
        )
    }
}

/// The beliefs where plans were best.
fn witnesses(plans: &[Plan]) -> Vec<Vec<f64>> {
    plans.iter().map(|plan| plan.witness.clone()).collect()
}

/// The values of plans.
fn vectors(model: &Pomdp, plans: &[Plan]) -> AlphaVectors {
    let mut vectors = AlphaVectors::new(model.states());
    plans.iter().for_each(|plan| vectors.push(plan.action, &plan.values));
    vectors
}

fn dot(vector: &[f64], belief: &[f64]) -> f64 {
    vector.iter().zip(belief).map(|(value, prob)| value * prob).sum()
}

fn sparse(belief: &[f64]) -> Belief {
    let (states, probs) = (0..).zip(belief.iter().copied()).filter(|(_, prob)| *prob > 0.0).unzip();
    Belief::built(states, probs)
}
