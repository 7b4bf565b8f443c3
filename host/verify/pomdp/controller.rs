//! The values of controllers, by intervals.

use std::collections::HashMap;

use rayon::prelude::*;
use warpkov_common::interrupt;

use super::error::Unverifiable;
use super::instance::{Instance, middle, row};
use crate::interval::Interval;

/// A finite-state controller: node i takes action aᵢ, and moves to node gᵢ(o) after observation o.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The number of each node in its file.
    pub numbers: Vec<u32>,
    /// aᵢ.
    pub actions: Vec<u32>,
    /// gᵢ(o) at i·|Ω| + o; `None` if o cannot follow, or, in all places of a node, if the node ends the process.
    pub next: Vec<Option<u32>>,
    /// Nodes to begin in; the best one counts.
    pub starts: Vec<u32>,
}

impl Nodes {
    /// Checks that all actions and nodes exist.
    pub(super) fn check(&self, instance: &Instance<'_>) -> Result<(), Unverifiable> {
        let (count, model) = (self.actions.len(), instance.model);
        let expected = count * model.observation_count() as usize;
        if count == 0 || self.starts.is_empty() {
            return Err(Unverifiable::NoNodes);
        }
        for (what, found, expected) in
            [("successors", self.next.len(), expected), ("numbers of nodes", self.numbers.len(), count)]
        {
            if found != expected {
                return Err(Unverifiable::Count { what, found, expected });
            }
        }
        let nodes = self.next.iter().flatten().chain(&self.starts).map(|&node| ("node", node, count as u32));
        let actions = self.actions.iter().map(|&action| ("action", action, model.actions()));
        match nodes.chain(actions).find(|(_, found, below)| found >= below) {
            Some((what, found, below)) => Err(Unverifiable::Unknown { what, found, below }),
            None => Ok(()),
        }
    }

    fn len(&self) -> u32 {
        self.actions.len() as u32
    }

    /// The successors of a node, one for each observation; `None` if the node ends. Observations that cannot follow have any.
    fn followers(&self, node: u32) -> Option<Vec<u32>> {
        let count = self.next.len() / self.actions.len();
        let all = &self.next[node as usize * count..][..count];
        let any = *all.iter().flatten().next()?;
        Some(all.iter().map(|next| next.unwrap_or(any)).collect())
    }
}

/// What a controller earns.
pub(super) struct Worth {
    /// V(b₀), with the best of the nodes to begin in.
    pub value: Interval,
    /// Vᵢ, near enough to guide a search; empty for a plan.
    pub vectors: Vec<f64>,
}

/// V(b₀) of the best of some nodes, one for each value of the observed component.
fn at_start(instance: &Instance<'_>, lower: &[f64], upper: &[f64], starts: &[u32]) -> Interval {
    let states = instance.model.states();
    let pick = |values: &[f64]| -> Vec<f64> {
        starts.iter().flat_map(|&node| row(values, states, node as usize).iter().copied()).collect()
    };
    Interval::new(instance.value(&pick(lower)).lo, instance.value(&pick(upper)).hi)
}

/// The values of a controller that goes on for ever, between bounds whose distance is `tight` if that is possible.
pub(super) fn of_nodes(instance: &Instance<'_>, nodes: &Nodes, tight: f64, visits: u64) -> Result<Worth, Unverifiable> {
    let model = instance.model;
    let short = instance.rest().ok_or(Unverifiable::Discount(model.gamma()))?;
    let long = Interval::point(1.0) - Interval::point(instance.onward.lo);
    let count = nodes.len();
    let next = |node: u32| nodes.followers(node).ok_or(Unverifiable::Ending(nodes.numbers[node as usize]));
    let next: Vec<Vec<u32>> = (0..count).map(next).collect::<Result<_, _>>()?;
    let states: Vec<u32> = (0..model.states()).collect();
    let mut values = vec![0.0; count as usize * states.len()];
    let work = 8 * (model.process().transitions().nnz() + model.observations().nnz()) / model.actions() as usize;
    let mut left = visits / (work as u64 * u64::from(count)).max(1);
    let (mut best, mut stalled) = (f64::INFINITY, 0);
    loop {
        let backups: Vec<Interval> = (0..count)
            .into_par_iter()
            .flat_map_iter(|node| instance.backup(&values, nodes.actions[node as usize], &next[node as usize], &states))
            .collect();
        // Lu − u.
        let rises = backups.iter().zip(&values).map(|(&new, &old)| new - Interval::point(old));
        let rise = rises.reduce(Interval::hull).unwrap_or(Interval::ZERO);
        let low = Interval::point(rise.lo).over(if rise.lo < 0.0 { short } else { long });
        let high = Interval::point(rise.hi).over(if rise.hi < 0.0 { long } else { short });
        let shift = Interval::new(low.lo, high.hi);
        let width = shift.hi - shift.lo;
        left = left.saturating_sub(1);
        stalled = if width < best { 0 } else { stalled + 1 };
        best = best.min(width);
        if width <= tight || width.is_nan() || stalled > 16 || left == 0 || interrupt::requested() {
            let moved = |end: fn(Interval) -> f64| -> Vec<f64> {
                values.iter().map(|&x| end(Interval::point(x) + shift)).collect()
            };
            let (lower, upper) = (moved(|x| x.lo), moved(|x| x.hi));
            let value = at_start(instance, &lower, &upper, &nodes.starts);
            return Ok(Worth { value, vectors: lower });
        }
        let center = middle(shift) * model.gamma();
        values = backups.iter().map(|&x| middle(x) + center).collect();
    }
}

/// What the first `horizon` steps of a controller earn.
pub(super) fn of_plan(instance: &Instance<'_>, nodes: &Nodes, horizon: u32) -> Result<Worth, Unverifiable> {
    let states: Vec<u32> = (0..instance.model.states()).collect();
    // The nodes that can be in use in each step, and their places.
    let mut layers: Vec<Vec<u32>> = vec![distinct(nodes.starts.iter().copied())];
    for step in 1..horizon {
        let mut next = Vec::new();
        for &node in &layers[step as usize - 1] {
            let ends = Unverifiable::Ends { node: nodes.numbers[node as usize], steps: step, horizon };
            next.extend(nodes.followers(node).ok_or(ends)?);
        }
        layers.push(distinct(next));
    }
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    let mut places: HashMap<u32, u32> = HashMap::new();
    for (step, layer) in layers.iter().enumerate().rev() {
        if interrupt::requested() {
            return Err(Unverifiable::Interrupted);
        }
        let is_last = step + 1 == layers.len();
        if is_last {
            (lower, upper) = (vec![0.0; states.len()], vec![0.0; states.len()]);
        }
        let of_node = |&node: &u32| -> Result<Vec<Interval>, Unverifiable> {
            let next = match is_last {
                true => vec![0; instance.model.observation_count() as usize],
                false => {
                    let next = nodes.followers(node).unwrap_or_default();
                    next.iter().map(|next| places[next]).collect()
                }
            };
            let backup = |values: &[f64]| instance.backup(values, nodes.actions[node as usize], &next, &states);
            let ends = backup(&lower).into_iter().zip(backup(&upper));
            Ok(ends.map(|(low, high)| Interval::new(low.lo, high.hi)).collect())
        };
        let values: Vec<Interval> =
            layer.par_iter().map(of_node).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        (lower, upper) = values.iter().map(|x| (x.lo, x.hi)).unzip();
        places = layer.iter().copied().zip(0..).collect();
    }
    let starts: Vec<u32> = (0..layers[0].len() as u32).collect();
    let value = if horizon == 0 { Interval::ZERO } else { at_start(instance, &lower, &upper, &starts) };
    Ok(Worth { value, vectors: Vec::new() })
}

fn distinct(nodes: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut nodes: Vec<u32> = nodes.into_iter().collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
