//! Finite-state controllers: policies that remember a node instead of a belief.
//!
//! Node i takes action aᵢ, and after observation o the controller moves to node gᵢ(o). A node without any successor
//! ends the episode after its action. The value of a node in each state is the solution of the linear system of the
//! pairs of a node and a state,
//!
//! > Vᵢ(s) = r(s, aᵢ) + γ Σ_{s'} T(s, aᵢ, s') Σₒ O(aᵢ, s', o) V_{gᵢ(o)}(s'),
//!
//! without the sum over s' if node i ends the episode. Let L be the operator on the right-hand side, and let m ≤ (L u −
//! u) ≤ M in every entry. Then V lies between L u + m γ/(1 − γ) and L u + M γ/(1 − γ), if m ≤ 0 ≤ M or no node ends the
//! episode (MacQueen, *Journal of Mathematical Analysis and Applications* 14, 1966). In a plan, which has no cycle of
//! nodes, one backup of each node gives V exactly, up to rounding.

use std::collections::HashSet;

use rayon::prelude::*;

use super::alpha::AlphaVectors;
use super::backends::cpu::Assembler;
use super::model::Pomdp;
use warpkov_common::names::name;
use warpkov_common::numbers::max_norm;
use warpkov_mdp::model::Csr;

/// Width of the bounds at which the iteration ends, relative to the largest value.
const TOLERANCE: f64 = 1e-10;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// A finite-state controller for a model. Every node is reachable from the nodes to begin in, every action and
/// successor exists, and a node that has a successor has one for every observation that can follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The number of each node in its file.
    numbers: Vec<u32>,
    actions: Vec<u32>,
    /// gᵢ(o), at i·|Ω| + o.
    next: Vec<Option<u32>>,
    /// Nodes to begin in; the best one counts.
    starts: Vec<u32>,
    /// D, the most steps from a start to the end; `None` if the nodes have a cycle.
    depth: Option<u32>,
}

/// A controller before its check. Nodes count in the order of these lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The number of each node in its file.
    pub numbers: Vec<u32>,
    /// The action of each node.
    pub actions: Vec<u32>,
    /// The successor of node i after observation o, at i·|Ω| + o.
    pub next: Vec<Option<u32>>,
    /// Nodes to begin in. If empty, any node, or in a plan any node with the most steps.
    pub starts: Vec<u32>,
}

/// Why nodes are not a controller of a model. Fields `node` are indices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Invalid {
    #[error("the controller has no nodes")]
    Empty,
    #[error(
        "the controller has {actions} actions and {next} successors of {nodes} nodes and {observations} observations"
    )]
    Lengths { nodes: usize, actions: usize, next: usize, observations: u32 },
    #[error("action {found}, expected one below {actions}")]
    Action { node: usize, found: u32, actions: u32 },
    #[error("successor {found}, expected one below {nodes}")]
    Successor { node: usize, found: u32, nodes: usize },
    #[error("start {found}, expected one below {nodes}")]
    Start { found: u32, nodes: usize },
    #[error("no successor after observation {observation}, which can follow in state {state}")]
    Missing { node: usize, observation: String, state: String },
}

impl Invalid {
    /// The node with the error.
    #[must_use]
    pub fn node(&self) -> Option<usize> {
        match self {
            Self::Empty | Self::Lengths { .. } | Self::Start { .. } => None,
            Self::Action { node, .. } | Self::Successor { node, .. } | Self::Missing { node, .. } => Some(*node),
        }
    }
}

/// Why a controller has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// γ = 1, and the nodes have a cycle.
    #[error("γ is 1, and the controller may never end: expected γ below 1, or a plan, whose nodes have no cycle")]
    Endless,
    /// The values need more memory than there is.
    #[error("the values of {nodes} nodes in {states} states do not fit into memory")]
    Memory {
        /// Number of nodes.
        nodes: usize,
        /// |S|.
        states: u32,
    },
}

/// The value of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Vᵢ(s) in the sign of the model, up to the width of the bounds.
    pub nodes: AlphaVectors,
    /// The node to begin in, one per [initial belief](Pomdp::starts).
    pub starts: Vec<u32>,
    /// Lower bound on the value at the start, rounding included.
    pub lower: f64,
    /// Upper bound on it.
    pub upper: f64,
}

impl Controller {
    /// Checks nodes, and keeps those that are reachable from the nodes to begin in.
    ///
    /// # Errors
    /// If an action, a successor or a start does not exist, or an observation without a successor can follow.
    pub fn new(model: &Pomdp, nodes: Nodes) -> Result<Self, Invalid> {
        let Nodes { numbers, actions, next, starts } = nodes;
        let (count, observations) = (numbers.len(), model.observation_count());
        if count == 0 {
            return Err(Invalid::Empty);
        }
        if actions.len() != count || Some(next.len()) != count.checked_mul(observations as usize) {
            return Err(Invalid::Lengths { nodes: count, actions: actions.len(), next: next.len(), observations });
        }
        if let Some(node) = actions.iter().position(|&action| action >= model.actions()) {
            return Err(Invalid::Action { node, found: actions[node], actions: model.actions() });
        }
        let outside = |follower: &Option<u32>| follower.is_some_and(|follower| follower as usize >= count);
        if let Some(at) = next.iter().position(outside) {
            let (node, found) = (at / observations as usize, next[at].unwrap_or_default());
            return Err(Invalid::Successor { node, found, nodes: count });
        }
        if let Some(&found) = starts.iter().find(|&&start| start as usize >= count) {
            return Err(Invalid::Start { found, nodes: count });
        }
        let whole = Self { numbers, actions, next, starts, depth: None };
        let steps = whole.steps();
        let starts = match (&whole.starts[..], &steps) {
            ([], None) => (0..count as u32).collect(),
            ([], Some(steps)) => {
                let most = steps.iter().max().copied().unwrap_or_default();
                (0..count as u32).filter(|&node| steps[node as usize] == most).collect()
            }
            (given, _) => given.to_vec(),
        };
        let reached = whole.reachable(&starts);
        let controller = Self { starts, ..whole };
        controller.check_observations(model)?;
        let mut kept = controller.retain(&reached);
        kept.depth = kept.steps().and_then(|steps| kept.starts.iter().map(|&node| steps[node as usize]).max());
        Ok(kept)
    }

    /// The number of steps to the end from each node; `None` if the nodes have a cycle.
    fn steps(&self) -> Option<Vec<u32>> {
        let count = self.actions.len();
        let mut waiting = vec![0_usize; count];
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (node, waiting) in waiting.iter_mut().enumerate() {
            for &follower in self.followers(node).iter().flatten() {
                *waiting += 1;
                before[follower as usize].push(node as u32);
            }
        }
        let mut steps = vec![1; count];
        let mut ready: Vec<usize> = (0..count).filter(|&node| waiting[node] == 0).collect();
        let mut done = 0;
        while let Some(node) = ready.pop() {
            done += 1;
            for &earlier in &before[node] {
                let earlier = earlier as usize;
                steps[earlier] = steps[earlier].max(steps[node] + 1);
                waiting[earlier] -= 1;
                if waiting[earlier] == 0 {
                    ready.push(earlier);
                }
            }
        }
        (done == count).then_some(steps)
    }

    fn reachable(&self, starts: &[u32]) -> Vec<bool> {
        let mut reached = vec![false; self.actions.len()];
        let mut open: Vec<u32> = starts.to_vec();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node as usize], true) {
                open.extend(self.followers(node as usize).iter().flatten());
            }
        }
        reached
    }

    /// Checks that every observation that can follow a node has a successor, unless the node ends the episode.
    fn check_observations(&self, model: &Pomdp) -> Result<(), Invalid> {
        let incomplete = |node: usize| !self.ends(node) && self.followers(node).contains(&None);
        if !(0..self.actions.len()).any(incomplete) {
            return Ok(());
        }
        let states = model.start().states();
        let mut open: Vec<(u32, u32)> =
            self.starts.iter().flat_map(|&node| states.iter().map(move |&state| (node, state))).collect();
        let mut known: HashSet<(u32, u32)> = open.iter().copied().collect();
        while let Some((node, state)) = open.pop() {
            let (node, action) = (node as usize, self.actions[node as usize]);
            if self.ends(node) {
                continue;
            }
            for &state in positive(model.successors(state, action)) {
                for &observation in positive(model.observed(action, state)) {
                    let Some(follower) = self.followers(node)[observation as usize] else {
                        let observation = name(&model.names().observations, observation);
                        return Err(Invalid::Missing { node, observation, state: name(&model.names().states, state) });
                    };
                    if known.insert((follower, state)) {
                        open.push((follower, state));
                    }
                }
            }
        }
        Ok(())
    }

    /// The nodes that satisfy `keep`, in the same order; all successors of a kept node are kept.
    fn retain(self, keep: &[bool]) -> Self {
        let mut index = vec![0_u32; keep.len()];
        let kept: Vec<usize> = (0..keep.len()).filter(|&node| keep[node]).collect();
        kept.iter().enumerate().for_each(|(new, &node)| index[node] = new as u32);
        let renumbered = |node: &u32| index[*node as usize];
        let followers = |&node: &usize| self.followers(node).iter().map(|next| next.as_ref().map(renumbered));
        Self {
            numbers: kept.iter().map(|&node| self.numbers[node]).collect(),
            actions: kept.iter().map(|&node| self.actions[node]).collect(),
            next: kept.iter().flat_map(followers).collect(),
            starts: self.starts.iter().map(renumbered).collect(),
            depth: None,
        }
    }

    /// The successors of a node, one per observation.
    fn followers(&self, node: usize) -> &[Option<u32>] {
        let count = self.next.len() / self.actions.len().max(1);
        &self.next[node * count..(node + 1) * count]
    }

    /// Whether a node ends the episode after its action.
    fn ends(&self, node: usize) -> bool {
        self.followers(node).iter().all(Option::is_none)
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there are no nodes; never true.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The number of a node in its file.
    #[must_use]
    pub fn number(&self, node: u32) -> u32 {
        self.numbers[node as usize]
    }

    /// The action of a node.
    #[must_use]
    pub fn action(&self, node: u32) -> u32 {
        self.actions[node as usize]
    }

    /// The node after an observation; `None` if the episode ends.
    #[must_use]
    pub fn next(&self, node: u32, observation: u32) -> Option<u32> {
        self.followers(node as usize)[observation as usize]
    }

    /// The nodes to begin in, of which the best counts.
    #[must_use]
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// D, the most steps of an episode; `None` if the nodes have a cycle.
    #[must_use]
    pub fn depth(&self) -> Option<u32> {
        self.depth
    }

    /// Computes the value of every node, and selects the best ones at the start. Once `stop` returns true, the bounds are
    /// as close as they are by then.
    ///
    /// # Errors
    /// [`Error::Endless`] or [`Error::Memory`].
    pub fn evaluate(&self, model: &Pomdp, stop: &(dyn Fn() -> bool + Sync)) -> Result<Values, Error> {
        let (gamma, states) = (model.gamma(), model.states());
        if gamma >= 1.0 && self.depth.is_none() {
            return Err(Error::Endless);
        }
        let memory = Error::Memory { nodes: self.len(), states };
        let entries = self.len().checked_mul(states as usize).ok_or_else(|| memory.clone())?;
        // Two copies.
        Vec::<f64>::new().try_reserve_exact(entries.saturating_mul(2)).map_err(|_| memory)?;
        let rewards = model.expected_rewards();
        let assembler = Assembler::new(model, &rewards);
        let zeros = vec![0.0; states as usize];
        // Impossible observations may continue with any node.
        let next: Vec<Vec<u32>> = (0..self.len())
            .map(|node| self.followers(node).iter().map(|next| next.unwrap_or_default()).collect())
            .collect();
        let backup = |values: &AlphaVectors, node: usize| match self.ends(node) {
            true => assembler.ahead(self.actions[node], &zeros),
            false => assembler.vector(values, self.actions[node], &next[node]),
        };
        let mut values = AlphaVectors::new(states);
        self.actions.iter().for_each(|&action| values.push(action, &zeros));
        let longest = |matrix: &Csr| (0..matrix.rows()).map(|row| matrix.row(row).0.len()).max().unwrap_or_default();
        let terms =
            longest(model.process().transitions()) + longest(model.observations()) + model.start().states().len();
        // Bound on the rounding error of a backup, and of a value at the start.
        let error = |values: &AlphaVectors| 2.0 * (terms + 4) as f64 * UNIT * max_norm(values.values());
        let half = match self.steps() {
            Some(steps) => {
                let depth = steps.iter().max().copied().unwrap_or_default();
                for step in 1..=depth {
                    let nodes: Vec<usize> = (0..self.len()).filter(|&node| steps[node] == step).collect();
                    let rows: Vec<Vec<f64>> = nodes.par_iter().map(|&node| backup(&values, node)).collect();
                    let mut targets: Vec<&mut [f64]> = values.values_mut().chunks_mut(states as usize).collect();
                    nodes.iter().zip(&rows).for_each(|(&node, row)| targets[node].copy_from_slice(row));
                }
                error(&values) * f64::from(depth)
            }
            None => {
                let factor = gamma / (1.0 - gamma);
                let some_end = (0..self.len()).any(|node| self.ends(node));
                loop {
                    let rows: Vec<Vec<f64>> =
                        (0..self.len()).into_par_iter().map(|node| backup(&values, node)).collect();
                    let changes = rows.iter().flatten().zip(values.values()).map(|(new, old)| new - old);
                    let first = if some_end { [0.0; 2] } else { [f64::INFINITY, f64::NEG_INFINITY] };
                    let [least, most] =
                        changes.fold(first, |[least, most], change| [least.min(change), most.max(change)]);
                    values.values_mut().iter_mut().zip(rows.iter().flatten()).for_each(|(value, new)| *value = *new);
                    let [below, above] = [factor * least, factor * most];
                    let slack = error(&values) / (1.0 - gamma);
                    let scale = max_norm(values.values());
                    if above - below <= TOLERANCE * scale + 2.0 * slack || stop() {
                        // The middle of the bounds is the best estimate.
                        let middle = (above + below) / 2.0;
                        let vectors = values.values_mut().chunks_mut(states as usize).enumerate();
                        for (_, vector) in vectors.filter(|(node, _)| !self.ends(*node)) {
                            vector.iter_mut().for_each(|value| *value += middle);
                        }
                        break (above - below) / 2.0 + error(&values) / (1.0 - gamma);
                    }
                }
            }
        };
        let sign = model.process().objective().sign();
        let (mut starts, mut value) = (Vec::new(), 0.0);
        for (prob, start) in model.starts() {
            let at = |node: u32| (node, start.dot(values.vector(node as usize)));
            let better = |best: (u32, f64), next: (u32, f64)| if sign * next.1 > sign * best.1 { next } else { best };
            let best = self.starts.iter().map(|&node| at(node)).reduce(better).unwrap_or_default();
            starts.push(best.0);
            value += prob * best.1;
        }
        Ok(Values { nodes: values, starts, lower: value - half, upper: value + half })
    }
}

/// The columns with a positive entry.
fn positive<'m>((columns, entries): (&'m [u32], &'m [f64])) -> impl Iterator<Item = &'m u32> {
    columns.iter().zip(entries).filter(|(_, entry)| **entry > 0.0).map(|(column, _)| column)
}
