//! The finite-state controller of a set of alpha vectors, as `.pg` and DOT.
//!
//! Node i is vector i and takes its action. The vector that should follow an observation depends on the belief, so each
//! node has a witness: a belief at which its vector is the best. The action and the observation update the witness, and
//! the next node is the best vector at the updated belief. Witnesses are the beliefs at which a breadth-first search
//! from b₀ first finds each vector to be the best. A vector that the search does not reach has as its witness the state
//! in which its margin over all others is largest. Observations that the witness excludes, but other beliefs do not,
//! continue like the first observation that it allows. The controller is a policy in its own right. Its value may differ
//! from the claims of the vectors, but agrees with them if these are closed under continuation (Kaelbling, Littman and
//! Cassandra, *Planning and acting in partially observable stochastic domains*, 1998, 4.4). A solver knows more: the
//! [support](Support) of its vectors is a controller that attains their value.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::Format;
use crate::alpha::AlphaVectors;
use crate::belief::Belief;
use crate::controller::{Controller, Nodes, Values};
use crate::model::Pomdp;
use crate::projection::Projection;
use crate::solution::{Stage, Support};
use warpkov_common::io::lines::Put;
use warpkov_common::names;
use warpkov_common::numbers::max_norm;

/// Work limit of an evaluation, in multiplications: a few seconds on one core.
const MAX_PRODUCTS: usize = 1 << 32;

/// Rounding errors of values, relative to the largest.
const ROUNDING: f64 = 1e-9;

/// A finite-state controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyGraph {
    /// The initial nodes, one per [initial belief](Pomdp::starts); a single one without a fully observed component.
    pub starts: Vec<u32>,
    /// Whether each node is reachable from these.
    pub reached: Vec<bool>,
    /// The action of each node.
    pub actions: Vec<u32>,
    /// The successor of node i after observation o, at i·|Ω| + o; `None` if o is impossible after its action, or if the
    /// plan ends.
    pub next: Vec<Option<u32>>,
}

impl PolicyGraph {
    /// The controller of `vectors`, which have the sign of `model`. `None` if there are none.
    #[must_use]
    pub fn new(model: &Pomdp, vectors: &AlphaVectors) -> Option<Self> {
        let sign = model.process().objective().sign();
        let vectors = &vectors.clone().times(sign);
        let starts = model.starts().into_iter().map(|(_, start)| Some((vectors.best(&start)?.0, start)));
        let mut queue: VecDeque<(usize, Belief)> = starts.collect::<Option<_>>()?;
        let starts: Vec<u32> = queue.iter().map(|(node, _)| *node as u32).collect();
        let count = model.observation_count() as usize;
        let mut projection = Projection::default();
        let mut reached = vec![false; vectors.len()];
        let mut next = vec![None; vectors.len() * count];
        queue.retain(|(node, _)| !std::mem::replace(&mut reached[*node], true));
        let best = |belief: &Belief| vectors.best(belief).map_or(0, |best| best.0);
        while let Some((node, witness)) = queue.pop_front() {
            projection.each(model, &witness, vectors.actions()[node], |observation, _, belief| {
                let follower = best(&belief);
                next[node * count + observation as usize] = Some(follower as u32);
                if !std::mem::replace(&mut reached[follower], true) {
                    queue.push_back((follower, belief));
                }
            });
        }
        for node in (0..vectors.len()).filter(|&node| !reached[node]) {
            let witness = Belief::at(corner(vectors, node));
            projection.each(model, &witness, vectors.actions()[node], |observation, _, belief| {
                next[node * count + observation as usize] = Some(best(&belief) as u32);
            });
        }
        let possible = possible(model);
        for (node, next) in next.chunks_mut(count).enumerate() {
            let other = next.iter().flatten().next().copied().unwrap_or(node as u32);
            let possible = &possible[vectors.actions()[node] as usize * count..];
            next.iter_mut().zip(possible).filter(|(_, possible)| **possible).for_each(|(next, _)| {
                next.get_or_insert(other);
            });
        }
        Some(Self { starts, reached, actions: vectors.actions().to_vec(), next })
    }

    /// The controller of a finite-horizon policy. Each reachable plan at each number of steps to go is a node, numbered
    /// in breadth-first order. Nodes of the last step have no successors.
    #[must_use]
    pub fn of_stages(model: &Pomdp, stages: &[Stage]) -> Option<Self> {
        let count = model.observation_count() as usize;
        let first = stages.first()?;
        let best = model.starts().into_iter().map(|(_, start)| Some((0, first.vectors.best(&start)?.0)));
        let best: Vec<(usize, usize)> = best.collect::<Option<_>>()?;
        let mut numbers: HashMap<(usize, usize), u32> = HashMap::new();
        let mut order: Vec<(usize, usize)> = Vec::new();
        let mut number = |place: (usize, usize), order: &mut Vec<(usize, usize)>| {
            *numbers.entry(place).or_insert_with(|| {
                order.push(place);
                order.len() as u32 - 1
            })
        };
        let starts = best.into_iter().map(|place| number(place, &mut order)).collect();
        let (mut actions, mut next) = (Vec::new(), Vec::new());
        while let Some(&(stage, plan)) = order.get(actions.len()) {
            let Stage { vectors, next: followers } = &stages[stage];
            actions.push(vectors.actions()[plan]);
            for &follower in &followers[plan * count..(plan + 1) * count] {
                let has_next = stage + 1 < stages.len();
                next.push(has_next.then(|| number((stage + 1, follower as usize), &mut order)));
            }
        }
        Some(Self { starts, reached: vec![true; actions.len()], actions, next })
    }

    /// The controller of vectors with a known support: the one of the vectors if it attains their value, otherwise the
    /// support, which has more nodes.
    #[must_use]
    pub fn of_support(model: &Pomdp, vectors: &AlphaVectors, support: &Support) -> Option<Self> {
        let graph = Self::new(model, vectors)?;
        let attains = |values: Values| {
            let lower = if model.process().objective().sign() < 0.0 { -values.upper } else { values.lower };
            lower >= support.value - ROUNDING * max_norm(values.nodes.values())
        };
        if support.starts.is_empty() || graph.value(model).is_some_and(attains) {
            return Some(graph);
        }
        let (possible, count) = (possible(model), model.observation_count() as usize);
        let follows = |(at, &next): (usize, &u32)| {
            let (node, observation) = (at / count, at % count);
            possible[support.actions[node] as usize * count + observation].then_some(next)
        };
        Some(Self {
            starts: support.starts.clone(),
            reached: vec![true; support.actions.len()],
            actions: support.actions.clone(),
            next: support.next.iter().enumerate().map(follows).collect(),
        })
    }

    /// The value of the controller, in the sign of the model. Its bounds are wide where they take too long; `None` if there are
    /// none.
    #[must_use]
    pub fn value(&self, model: &Pomdp) -> Option<Values> {
        Some(self.evaluated(model)?.1)
    }

    /// Bounds on the value that the controller has from [its own nodes to begin in](Self::starts), whichever would be the best; `None` if
    /// they take too long.
    #[must_use]
    pub fn bounds(&self, model: &Pomdp) -> Option<[f64; 2]> {
        let (controller, values) = self.evaluated(model)?;
        // Nodes that are not reached are left out.
        let numbers: HashMap<u32, usize> = (0..controller.len()).map(|i| (controller.number(i as u32), i)).collect();
        let of_start = |((prob, start), node): ((f64, Belief), &u32)| {
            Some(prob * start.dot(values.nodes.vector(*numbers.get(node)?)))
        };
        let value = model.starts().into_iter().zip(&self.starts).map(of_start).sum::<Option<f64>>()?;
        let half = (values.upper - values.lower) / 2.0;
        Some([value - half, value + half])
    }

    fn evaluated(&self, model: &Pomdp) -> Option<(Controller, Values)> {
        let entries = model.process().transitions().val().len() + model.observations().val().len();
        let of_sweep = self.actions.len().saturating_mul(entries / model.actions().max(1) as usize).max(1);
        let sweeps = AtomicUsize::new(MAX_PRODUCTS / of_sweep);
        if of_sweep > MAX_PRODUCTS {
            return None;
        }
        let nodes = Nodes {
            numbers: (0..self.actions.len() as u32).collect(),
            actions: self.actions.clone(),
            next: self.next.clone(),
            starts: self.starts.clone(),
        };
        let last = || sweeps.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err();
        let controller = Controller::new(model, nodes).ok()?;
        let values = controller.evaluate(model, &last).ok()?;
        Some((controller, values))
    }

    /// The value of `vectors` at the start, and an upper bound on that of their controller, if it is worse by more than
    /// rounding. Both have the sign of the model.
    #[must_use]
    pub fn shortfall(model: &Pomdp, vectors: &AlphaVectors) -> Option<[f64; 2]> {
        let sign = model.process().objective().sign();
        let maximized = vectors.clone().times(sign);
        let best = |(prob, start): (f64, Belief)| Some(prob * maximized.best(&start)?.1);
        let claimed = model.starts().into_iter().map(best).sum::<Option<f64>>()?;
        let values = Self::new(model, vectors)?.value(model)?;
        let most = if sign < 0.0 { -values.lower } else { values.upper };
        let worse = most < claimed - ROUNDING * max_norm(values.nodes.values());
        worse.then_some([sign * claimed, sign * most])
    }

    /// Writes the controller as [`Format::Dot`], or else as [`Format::Pg`], which has no place for where it begins.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write, format: Format, model: &Pomdp) -> io::Result<()> {
        if format == Format::Dot { self.write_dot(out, model) } else { self.write_pg(out) }
    }

    /// Writes `.pg`: a line `N A Z1 … ZΩ` per node; `-` marks a missing successor.
    fn write_pg(&self, out: &mut dyn Write) -> io::Result<()> {
        let count = self.next.len() / self.actions.len().max(1);
        for (node, (action, next)) in self.actions.iter().zip(self.next.chunks(count.max(1))).enumerate() {
            write!(out, "{node} {action} ")?;
            for follower in next {
                match follower {
                    Some(follower) => write!(out, " {follower}")?,
                    None => out.text(" -")?,
                }
            }
            out.text("\n")?;
        }
        Ok(())
    }

    /// Writes the reachable nodes as a DOT graph with the names of `model`.
    fn write_dot(&self, out: &mut dyn Write, model: &Pomdp) -> io::Result<()> {
        let name = |names: &[String], i: u32| names::name(names, i).replace('\\', "\\\\").replace('"', "\\\"");
        out.text("digraph policy {\n  node [shape=box, style=rounded];\n  start [shape=point];\n")?;
        let starts: BTreeSet<u32> = self.starts.iter().copied().collect();
        for start in starts {
            writeln!(out, "  start -> {start};")?;
        }
        let count = model.observation_count() as usize;
        for (node, &action) in self.actions.iter().enumerate().filter(|(node, _)| self.reached[*node]) {
            writeln!(out, "  {node} [label=\"{}\"];", name(&model.names().actions, action))?;
            let mut labels: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            for (observation, follower) in self.next[node * count..(node + 1) * count].iter().enumerate() {
                if let Some(follower) = follower {
                    let label = name(&model.names().observations, observation as u32);
                    labels.entry(*follower).or_default().push(label);
                }
            }
            for (follower, labels) in labels {
                writeln!(out, "  {node} -> {follower} [label=\"{}\"];", labels.join("\\n"))?;
            }
        }
        out.text("}\n")
    }
}

/// Whether observation o can follow action a in some state, at a·|Ω| + o.
fn possible(model: &Pomdp) -> Vec<bool> {
    let count = model.observation_count() as usize;
    let mut possible = vec![false; model.actions() as usize * count];
    for action in 0..model.actions() {
        let mut follows = vec![false; model.states() as usize];
        for state in 0..model.states() {
            model.successors(state, action).0.iter().for_each(|&next| follows[next as usize] = true);
        }
        for state in (0..model.states()).filter(|&state| follows[state as usize]) {
            let (observations, probs) = model.observed(action, state);
            for (&observation, _) in observations.iter().zip(probs).filter(|(_, prob)| **prob > 0.0) {
                possible[action as usize * count + observation as usize] = true;
            }
        }
    }
    possible
}

/// The state with the largest margin of vector `node` over all others; the margin may be negative.
fn corner(vectors: &AlphaVectors, node: usize) -> u32 {
    let own = vectors.vector(node);
    let mut margin = vec![f64::INFINITY; own.len()];
    for other in (0..vectors.len()).filter(|&other| other != node) {
        for (margin, (own, its)) in margin.iter_mut().zip(own.iter().zip(vectors.vector(other))) {
            *margin = margin.min(own - its);
        }
    }
    (1..margin.len()).fold(0, |best, state| if margin[state] > margin[best] { state } else { best }) as u32
}
