//! The finite-state controller that alpha vectors make: `.pg`, and DOT to be drawn.
//!
//! Node i is vector i, and takes its action. Which vector comes after an observation depends on the belief, so that each node
//! has a witness, at which its vector is best: the node that follows an observation is that of the vector which is best at the
//! belief to which the action and the observation take the witness. Witnesses are the beliefs at which vectors are first found
//! to be best, breadth first from b₀. Vectors that are not reached so have for a witness the state at which they exceed all
//! others by most, or fall short of them by least. A graph made so is a policy in its own right, which need not be worth what
//! the vectors say; it is where the vectors are those of a policy that is closed (Kaelbling, Littman and Cassandra, *Planning
//! and acting in partially observable stochastic domains*, 1998, 4.4).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, Write};

use crate::common::io::lines::Put;
use crate::common::names;
use crate::pomdp::alpha::AlphaVectors;
use crate::pomdp::belief::Belief;
use crate::pomdp::model::Pomdp;
use crate::pomdp::projection::Projection;
use crate::pomdp::solution::Stage;

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyGraph {
    /// The nodes of what may be known at the [start](Pomdp::starts): one, that of b₀, where no part of the state is seen.
    pub starts: Vec<u32>,
    /// Those that can be reached from there.
    pub reached: Vec<bool>,
    /// What each node does.
    pub actions: Vec<u32>,
    /// The node that follows node i on observation o, at i·|Ω| + o; `None` for what its witness cannot observe.
    pub next: Vec<Option<u32>>,
}

impl PolicyGraph {
    /// That of `vectors`, which are those of `model` and in its sign: costs, where it has costs. `None` where there are none.
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
        Some(Self { starts, reached, actions: vectors.actions().to_vec(), next })
    }

    /// That of the plans for a horizon: a node for each plan with a number of steps to go that may follow from the start, in the
    /// order in which they are first met. Nothing follows the last step.
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

    /// Writes `.pg`: a line `N A Z1 … ZΩ` for each node; `-` where nothing follows.
    pub(super) fn write_pg(&self, out: &mut impl Write) -> io::Result<()> {
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

    /// Writes the nodes that can be reached as a graph in DOT, with the names of `model`.
    pub(super) fn write_dot(&self, out: &mut impl Write, model: &Pomdp) -> io::Result<()> {
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

/// The state at which vector `node` is furthest above all others, or the least below the best of them.
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
