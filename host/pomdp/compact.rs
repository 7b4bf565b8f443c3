//! Compact policies: a small finite-state controller that is worth at least as much at the start as the vectors of a search.
//!
//! The vectors of a search are a controller: vector i takes action aᵢ, and after observation o vector gᵢ(o) follows. It has many
//! nodes, because every backup adds one, and its links lead to older vectors only. The compaction keeps the nodes that are used
//! most, lets them follow each other, and improves them by policy iteration. Let
//!
//! > xᵢ(s) = Σₜ γᵗ P(node i and state s at time t)
//!
//! be the *discounted occupancy* of node i from the start, and let yᵢₒ(s') = γ Σₛ xᵢ(s) T(s, aᵢ, s') O(aᵢ, s', o) be that of its link
//! after observation o. Let Vᵢ be the value of node i, the solution of
//!
//! > Vᵢ(s) = r(s, aᵢ) + γ Σ_{s'} T(s, aᵢ, s') Σₒ O(aᵢ, s', o) V_{gᵢ(o)}(s').
//!
//! 1. *Selection.* The nodes with the largest Σₛ xᵢ(s) stay. A link to another node leads to the best remaining one, argmaxⱼ yᵢₒ·Vⱼ.
//! 2. *Improvement.* Each node gets the action and the links of the backup of its occupancy xᵢ: they have the largest rate at which
//!    the value of the start grows with the share of visits in which node i decides so. The controller with all these decisions is
//!    evaluated; if it is not better, only the quarter with the largest gains is changed, and so on. Nodes that the start does not
//!    reach are dropped. This is point-based policy iteration (Ji, Parr, Li, Liao and Carin, AAAI, 2007) with occupancies as points.
//! 3. *Removal.* The nodes with the least loss xᵢ·Vᵢ − maxⱼ xᵢ·Vⱼ, j ≠ i, are removed, and the others improved, as long as the start
//!    keeps its value.
//!
//! *Certificate.* If u ≤ L u for the operator L on the right-hand side, u is at most V in every entry. With m ≤ (L u − u) in every
//! entry, L u + m γ/(1 − γ) is such a u. The written vectors are one: each is at most its own backup, so that a policy that
//! acts by the best vector earns at least max u·b in every belief b, and the value at the start is u's.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::alpha::{AlphaVectors, VectorSet};
use crate::backends::cpu::{Assembler, Vectors};
use crate::belief::Belief;
use crate::model::Pomdp;
use crate::projection::Projection;
use crate::solution::Support;
use warpkov_common::numbers::max_norm;

/// Number of nodes of the first selection. If they are worth less than the vectors of the search, the next has twice as many.
/// Then a quarter and a half of them are improved, and all if these are worth less.
const FIRST_NODES: usize = 250;

/// Number of improvements after a selection, and after a removal.
const IMPROVEMENTS: [u32; 2] = [20, 5];

/// An improvement that raises the value at the start by at most this fraction of it is the last.
const LEAST_RISE: f64 = 1e-3;

/// Fraction of the nodes that a removal takes. After a failure it is halved.
const REMOVED: f64 = 0.1;

/// Fraction of the value above the vectors of the search that removals may give up.
const GIVEN_UP: f64 = 0.25;

/// Occupancy of a node that is followed no further, relative to that of all nodes.
const LEAST_OCCUPANCY: f64 = 1e-5;

/// Width of the bounds of a controller to keep, relative to the largest value.
const TOLERANCE: f64 = 1e-12;

/// Number of multiplications that justifies parallel work.
const PARALLEL_WORK: u64 = 1 << 18;

/// Width of the bounds of an improvement.
const ROUGH: f64 = 1e-5;

/// A policy to write.
#[derive(Clone, Debug)]
pub struct Compact {
    /// Vector i is the value of node i.
    pub vectors: AlphaVectors,
    /// The controller.
    pub support: Support,
}

/// The limits of a compaction.
pub struct Effort<'a> {
    /// Number of multiplications left, approximately.
    pub work: u64,
    /// Number of vectors of the smallest policy so far.
    pub vectors: usize,
    /// Whether time is over; called with the number of vectors.
    pub late: &'a mut dyn FnMut(usize) -> bool,
}

impl Effort<'_> {
    /// Takes multiplications off the limit; `None` if it is reached, or time is over.
    fn spend(&mut self, work: u64) -> Option<()> {
        self.work = self.work.checked_sub(work)?;
        (!(self.late)(self.vectors)).then_some(())
    }
}

/// The vectors that plans of the start continue with, in breadth-first order. `next` is g(o) of vector i at i·|Ω| + o. The model is a
/// maximisation problem.
#[must_use]
pub fn closure(model: &Pomdp, all: &impl VectorSet, next: &[u32]) -> Compact {
    let mut roots: Vec<u32> = Vec::new();
    let mut numbers: HashMap<usize, u32> = HashMap::new();
    let (mut starts, mut value) = (Vec::new(), 0.0);
    for (prob, start) in model.starts() {
        if let Some((best, of_best)) = all.first_best(&start) {
            starts.push(*numbers.entry(best).or_insert_with(|| {
                roots.push(best as u32);
                roots.len() as u32 - 1
            }));
            value += prob * of_best;
        }
    }
    let found = reachable(model.states(), all, next, model.observation_count() as usize, &roots);
    Compact { support: Support { starts, value, ..found.support }, ..found }
}

/// The vectors that the distinct `roots` continue with, in breadth-first order, the roots first. `next` is g(o) of vector i at i·`width` + o.
#[must_use]
pub(crate) fn reachable(states: u32, all: &impl VectorSet, next: &[u32], width: usize, roots: &[u32]) -> Compact {
    let mut support = Support::default();
    let mut vectors = AlphaVectors::new(states);
    let mut numbers = vec![u32::MAX; all.count()];
    let mut order = roots.to_vec();
    (0..).zip(roots).for_each(|(number, &root)| numbers[root as usize] = number);
    while let Some(&vector) = order.get(support.actions.len()) {
        support.actions.push(all.action(vector as usize));
        for &follower in &next[vector as usize * width..][..width] {
            let number = &mut numbers[follower as usize];
            if *number == u32::MAX {
                *number = order.len() as u32;
                order.push(follower);
            }
            support.next.push(*number);
        }
    }
    vectors.reserve_exact(order.len());
    order.iter().for_each(|&vector| vectors.push(all.action(vector as usize), &all.row(vector as usize)));
    Compact { vectors, support }
}

/// A smaller controller that is worth at least as much at the start as `found`, a [closure]; `None` if the limits permit none. The
/// model is a maximisation problem with γ < 1.
#[must_use]
pub fn compact(model: &Pomdp, found: &Compact, effort: &mut Effort) -> Option<Compact> {
    Controllers::new(model).smallest(found, effort)
}

/// A decision of a node: what it gains at the occupancy, the action, and the links.
type Decision = (f64, u32, Vec<u32>);

/// Controllers of a model.
pub(crate) struct Controllers<'a> {
    model: &'a Pomdp,
    pub assembler: Assembler<'a>,
    /// r(s, a) at s·A + a.
    pub rewards: Vec<f64>,
    starts: Vec<(f64, Belief)>,
    /// |Ω|.
    width: usize,
    /// Multiplications of the backup of a node.
    of_backup: u64,
}

impl<'a> Controllers<'a> {
    pub fn new(model: &'a Pomdp) -> Self {
        let rewards = model.expected_rewards();
        let entries = model.process().transitions().val().len() + model.observations().val().len();
        Self {
            model,
            assembler: Assembler::new(model, &rewards),
            rewards,
            starts: model.starts(),
            width: model.observation_count() as usize,
            of_backup: (entries / model.actions().max(1) as usize).max(1) as u64,
        }
    }

    /// The smallest controller found that is worth enough; `None` if none is.
    fn smallest(&self, found: &Compact, effort: &mut Effort) -> Option<Compact> {
        let (target, count) = (found.support.value, found.vectors.len());
        let occupancy = self.occupancy(found, effort)?;
        let mass: Vec<f64> = occupancy.iter().map(Belief::sum).collect();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| mass[b].total_cmp(&mass[a]));
        let heaviest = |nodes: usize| {
            let mut keep = vec![false; count];
            order.iter().take(nodes).for_each(|&node| keep[node] = mass[node] > 0.0);
            self.select(found, &occupancy, keep)
        };
        let mut nodes = FIRST_NODES;
        let mut best = loop {
            let mut selected = heaviest(nodes);
            self.evaluate(&mut selected, TOLERANCE, effort)?;
            if selected.support.value >= target {
                effort.vectors = selected.vectors.len();
                break Some(selected);
            }
            if nodes >= count {
                break None;
            }
            nodes *= 2;
        };
        // Improved, fewer nodes may be enough.
        let mut visits = None;
        for part in [4, 2, 1] {
            let mut smaller = heaviest(nodes / part);
            let improved = self
                .evaluate(&mut smaller, ROUGH, effort)
                .and_then(|()| self.improve(&mut smaller, IMPROVEMENTS[0], effort));
            let (ends, enough) = (improved.is_none(), smaller.support.value >= target);
            if enough {
                (best, visits) = (Some(smaller), improved);
            }
            if ends || enough {
                break;
            }
        }
        let Some(mut occupancy) = visits else { return best };
        let mut best = best?;
        let (mut most, mut part) = (best.support.value, REMOVED);
        loop {
            effort.vectors = best.vectors.len();
            let (count, starts) = (best.vectors.len(), best.support.starts.len());
            let removed = ((part * count as f64) as usize).min(count.saturating_sub(starts));
            if removed == 0 {
                return Some(best);
            }
            let mut smaller = self.remove(&best, &occupancy, removed);
            let Some(visits) = self
                .evaluate(&mut smaller, ROUGH, effort)
                .and_then(|()| self.improve(&mut smaller, IMPROVEMENTS[1], effort))
            else {
                return Some(best);
            };
            most = most.max(smaller.support.value);
            if smaller.support.value >= most - GIVEN_UP * (most - target) {
                (best, occupancy) = (smaller, visits);
            } else {
                part /= 2.0;
            }
        }
    }

    /// The links of a node.
    fn links<'n>(&self, nodes: &'n Compact, node: usize) -> &'n [u32] {
        &nodes.support.next[node * self.width..][..self.width]
    }

    /// Replaces the vectors by lower bounds on the values of their nodes, up to a tolerance relative to the largest.
    pub fn evaluate(&self, nodes: &mut Compact, tolerance: f64, effort: &mut Effort) -> Option<()> {
        let gamma = self.model.gamma();
        let (factor, mut width) = (gamma / (1.0 - gamma), f64::INFINITY);
        loop {
            effort.spend(nodes.vectors.len() as u64 * self.of_backup)?;
            let Compact { vectors, support } = &*nodes;
            let backup =
                |(): &mut (), node| self.assembler.vector(vectors, support.actions[node], self.links(nodes, node));
            let rows = each(vectors.len(), self.of_backup, backup);
            let changes = rows.iter().flatten().zip(vectors.values()).map(|(new, old)| new - old);
            let [least, most] = changes.fold([f64::INFINITY, f64::NEG_INFINITY], |[least, most], change| {
                [least.min(change), most.max(change)]
            });
            // Every sweep reduces the width to at most γ times itself, up to rounding.
            let last = std::mem::replace(&mut width, factor * (most - least));
            let done = width <= tolerance * max_norm(vectors.values()) || width >= last || width.is_nan();
            // In between, the middle of the bounds is closest.
            let shift = factor * if done { least.min(0.0) } else { (least + most) / 2.0 };
            nodes
                .vectors
                .values_mut()
                .iter_mut()
                .zip(rows.iter().flatten())
                .for_each(|(value, new)| *value = new + shift);
            if done {
                break;
            }
        }
        self.begin(nodes);
        Some(())
    }

    /// Chooses the nodes to begin in.
    pub fn begin(&self, nodes: &mut Compact) {
        let best =
            |(prob, start): &(f64, Belief)| nodes.vectors.best(start).map(|(node, value)| (node as u32, prob * value));
        let best: Vec<(u32, f64)> = self.starts.iter().filter_map(best).collect();
        nodes.support.starts = best.iter().map(|best| best.0).collect();
        nodes.support.value = best.iter().map(|best| best.1).sum();
    }

    /// xᵢ of every node, without what nodes of little occupancy lead to.
    fn occupancy(&self, nodes: &Compact, effort: &mut Effort) -> Option<Vec<Belief>> {
        let Compact { vectors, support } = nodes;
        let (count, states, gamma) = (vectors.len(), self.model.states() as usize, self.model.gamma());
        let least = LEAST_OCCUPANCY / (1.0 - gamma);
        // Rows of |S|, empty for nodes that have not been reached.
        let mut followed: Vec<Vec<f64>> = vec![Vec::new(); count];
        let mut pending: Vec<Vec<f64>> = vec![Vec::new(); count];
        for ((prob, start), &node) in self.starts.iter().zip(&support.starts) {
            let row = &mut pending[node as usize];
            row.resize(states, 0.0);
            start.iter().for_each(|(state, p)| row[state as usize] += prob * p);
        }
        let mut predicted = vec![0.0; states];
        loop {
            let heavy: Vec<usize> = (0..count).filter(|&n| pending[n].iter().sum::<f64>() >= least).collect();
            if heavy.is_empty() {
                break;
            }
            effort.spend(heavy.len() as u64 * self.of_backup)?;
            for node in heavy {
                let (row, action) = (std::mem::take(&mut pending[node]), support.actions[node]);
                followed[node].resize(states, 0.0);
                for (state, &p) in row.iter().enumerate().filter(|(_, p)| **p != 0.0) {
                    followed[node][state] += p;
                    let (successors, probs) = self.model.successors(state as u32, action);
                    successors.iter().zip(probs).for_each(|(&next, q)| predicted[next as usize] += gamma * p * q);
                }
                for (state, p) in predicted.iter_mut().enumerate().filter(|(_, p)| **p != 0.0) {
                    let p = std::mem::take(p);
                    let (observations, probs) = self.model.observed(action, state as u32);
                    for (&observation, q) in observations.iter().zip(probs) {
                        let row = &mut pending[self.links(nodes, node)[observation as usize] as usize];
                        row.resize(states, 0.0);
                        row[state] += p * q;
                    }
                }
            }
        }
        let sum = |(followed, pending): (Vec<f64>, Vec<f64>)| {
            let at = |row: &[f64], state: usize| row.get(state).copied().unwrap_or_default();
            let both = |state: usize| (state as u32, at(&followed, state) + at(&pending, state));
            let (states, probs) = (0..states).map(both).filter(|(_, p)| *p > 0.0).unzip();
            Belief::built(states, probs)
        };
        Some(followed.into_iter().zip(pending).map(sum).collect())
    }

    /// The nodes that satisfy `keep`, and those that the start begins in, before their evaluation. A link to another node leads to
    /// the best of them.
    fn select(&self, nodes: &Compact, occupancy: &[Belief], mut keep: Vec<bool>) -> Compact {
        nodes.support.starts.iter().for_each(|&start| keep[start as usize] = true);
        let kept: Vec<usize> = (0..keep.len()).filter(|&node| keep[node]).collect();
        let mut number = vec![None; keep.len()];
        (0..).zip(&kept).for_each(|(new, &node)| number[node] = Some(new));
        let vectors = nodes.vectors.retain(|node| keep[node]);
        let scored = Vectors::new(&vectors);
        let relinked = |projection: &mut Projection, place: usize| {
            let node = kept[place];
            let mut next: Vec<Option<u32>> =
                self.links(nodes, node).iter().map(|&link| number[link as usize]).collect();
            if next.contains(&None) {
                projection.each(self.model, &occupancy[node], nodes.support.actions[node], |observation, _, after| {
                    let link = &mut next[observation as usize];
                    *link = link.or_else(|| scored.best_from(&after, 0).map(|best| best.0));
                });
            }
            filled(&next)
        };
        let next = each(kept.len(), self.of_backup, relinked);
        let support = Support {
            starts: nodes.support.starts.iter().filter_map(|&start| number[start as usize]).collect(),
            actions: vectors.actions().to_vec(),
            next: next.concat(),
            value: f64::NEG_INFINITY,
        };
        Compact { vectors, support }
    }

    /// All nodes but the `removed` with the least loss.
    fn remove(&self, nodes: &Compact, occupancy: &[Belief], removed: usize) -> Compact {
        let count = nodes.vectors.len();
        let loss = |(): &mut (), node: usize| {
            if nodes.support.starts.contains(&(node as u32)) {
                return f64::INFINITY;
            }
            let value = |other: usize| occupancy[node].dot(nodes.vectors.vector(other));
            let others = (0..count).filter(|&other| other != node).map(value);
            value(node) - others.fold(f64::NEG_INFINITY, f64::max)
        };
        let losses = each(count, (count * nodes.vectors.states() as usize) as u64, loss);
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| losses[a].total_cmp(&losses[b]));
        let mut keep = vec![true; count];
        order.iter().take(removed).for_each(|&node| keep[node] = false);
        self.select(nodes, occupancy, keep)
    }

    /// Improves a controller at most `most` times. Returns the occupancies of its nodes; `None` if a limit is reached, and then the
    /// controller is the last that was evaluated.
    fn improve(&self, nodes: &mut Compact, most: u32, effort: &mut Effort) -> Option<Vec<Belief>> {
        let mut occupancy = self.occupancy(nodes, effort)?;
        for _ in 0..most {
            let before = nodes.support.value;
            let decisions = self.decisions(nodes, &occupancy, effort)?;
            let mut gains: Vec<f64> = decisions.iter().map(|decision| decision.0).filter(|gain| *gain > 0.0).collect();
            gains.sort_by(|a, b| b.total_cmp(a));
            let mut changed = gains.len();
            let better = loop {
                let Some(&least) = changed.checked_sub(1).and_then(|last| gains.get(last)) else { break None };
                let mut next = self.changed(nodes, &decisions, least);
                self.evaluate(&mut next, ROUGH, effort)?;
                if next.support.value > before {
                    break Some(next);
                }
                changed /= 4;
            };
            let Some(better) = better else { break };
            *nodes = closure(self.model, &better.vectors, &better.support.next);
            occupancy = self.occupancy(nodes, effort)?;
            if nodes.support.value - before <= LEAST_RISE * before.abs() {
                break;
            }
        }
        let mut certified = nodes.clone();
        self.evaluate(&mut certified, TOLERANCE, effort)?;
        *nodes = certified;
        Some(occupancy)
    }

    /// The best decision of each node at its occupancy.
    fn decisions(&self, nodes: &Compact, occupancy: &[Belief], effort: &mut Effort) -> Option<Vec<Decision>> {
        let states: usize = occupancy.iter().map(|visits| visits.states().len()).sum();
        let links = (self.width * self.model.actions() as usize) as u64;
        effort.spend(links * states as u64 * nodes.vectors.len() as u64 / 4)?;
        let scored = Vectors::new(&nodes.vectors);
        let of_node = |projection: &mut Projection, node: usize| {
            let visits = &occupancy[node];
            let best = (0..self.model.actions())
                .map(|action| self.decision(nodes, &scored, projection, (node, action), visits));
            let (value, action, next) = best.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
            Some((value - visits.dot(nodes.vectors.vector(node)), action, next))
        };
        let work = links * self.of_backup.max(nodes.vectors.len() as u64);
        each(nodes.vectors.len(), work, of_node).into_iter().collect()
    }

    /// The value of an action with the best links at an occupancy. Links of the node's own action change only if that is better.
    fn decision(
        &self,
        nodes: &Compact,
        scored: &Vectors,
        projection: &mut Projection,
        (node, action): (usize, u32),
        visits: &Belief,
    ) -> Decision {
        let own = nodes.support.actions[node] == action;
        let mut next: Vec<Option<u32>> =
            self.links(nodes, node).iter().map(|&link| Some(link).filter(|_| own)).collect();
        let (mut value, gamma) = (self.model.reward(&self.rewards, visits, action), self.model.gamma());
        projection.each(self.model, visits, action, |observation, prob, after| {
            let link = &mut next[observation as usize];
            let known = link.map_or(f64::NEG_INFINITY, |link| after.dot(nodes.vectors.vector(link as usize)));
            let best = scored.best_from(&after, 0).filter(|best| best.1 > known);
            *link = best.map(|best| best.0).or(*link);
            value += gamma * prob * best.map_or(known, |best| best.1);
        });
        (value, action, filled(&next))
    }

    /// The controller with the decisions that gain at least `least`.
    fn changed(&self, nodes: &Compact, decisions: &[Decision], least: f64) -> Compact {
        let mut changed = nodes.clone();
        for (node, (gain, action, next)) in decisions.iter().enumerate().filter(|(_, decision)| decision.0 >= least) {
            debug_assert!(*gain > 0.0);
            changed.support.actions[node] = *action;
            changed.support.next[node * self.width..][..self.width].copy_from_slice(next);
        }
        changed.vectors = changed.vectors.with_actions(&changed.support.actions);
        changed
    }
}

/// The results for 0, 1, 2, …, in parallel if they take enough multiplications, `work` for each.
fn each<T: Default, R: Send>(count: usize, work: u64, result: impl Fn(&mut T, usize) -> R + Send + Sync) -> Vec<R> {
    if count as u64 * work < PARALLEL_WORK {
        let mut scratch = T::default();
        return (0..count).map(|i| result(&mut scratch, i)).collect();
    }
    (0..count).into_par_iter().map_init(T::default, result).collect()
}

/// Links, of which those after impossible observations are the first other one.
fn filled(next: &[Option<u32>]) -> Vec<u32> {
    let other = next.iter().flatten().next().copied().unwrap_or_default();
    next.iter().map(|link| link.unwrap_or(other)).collect()
}
