//! The beliefs that were met, each once, and how actions and observations lead from one to another.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::backend::cpu::Projection;
use crate::pomdp::belief::Belief;
use crate::pomdp::model::Pomdp;

/// Beliefs whose probabilities differ by less than this are one.
pub const MERGED: f64 = 1.0 / (1_u64 << 40) as f64;

/// No vector, or no point.
pub const NONE: u32 = u32::MAX;

/// A belief and what is known of its value.
pub struct Node {
    /// b.
    pub belief: Belief,
    /// The best of the first `scanned` vectors of Γ, and its value.
    pub vector: u32,
    /// b·α of it; −∞ where there is none.
    pub lower: f64,
    /// How many vectors it was the best of.
    pub scanned: u32,
    /// V\*(b) is not above this.
    pub upper: f64,
    /// Which changes of the sawtooth bound that is by.
    pub read: u32,
    /// Its point of the sawtooth bound, or [`NONE`].
    pub point: u32,
    /// What each action leads to; empty before it is expanded.
    pub edges: Vec<Edge>,
}

/// An action in a belief.
pub struct Edge {
    /// Its number.
    pub action: u32,
    /// r(b, a).
    pub reward: f64,
    /// What can be observed, ascending.
    pub children: Vec<Child>,
}

/// An observation that can follow.
#[derive(Clone, Copy)]
pub struct Child {
    /// o.
    pub observation: u32,
    /// The number of b^{a,o}.
    pub node: u32,
    /// p(o|b, a).
    pub prob: f64,
}

/// Nodes by number.
#[derive(Default)]
pub struct Graph {
    /// All that were met.
    pub nodes: Vec<Node>,
    numbers: HashMap<u64, Vec<u32>>,
    projection: Projection,
    /// Bytes of all beliefs and edges.
    pub bytes: usize,
}

impl Graph {
    /// The number of a belief; it becomes a node unless it is one.
    pub fn intern(&mut self, belief: Belief) -> u32 {
        let mut hasher = DefaultHasher::new();
        belief.states.hash(&mut hasher);
        for prob in &belief.probs {
            ((prob / MERGED).round() as u64 >> 10).hash(&mut hasher);
        }
        let same = self.numbers.entry(hasher.finish()).or_default();
        let equal = |other: &Belief| {
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < MERGED;
            other.states == belief.states && other.probs.iter().zip(&belief.probs).all(near)
        };
        if let Some(&number) = same.iter().find(|&&number| equal(&self.nodes[number as usize].belief)) {
            return number;
        }
        let number = self.nodes.len() as u32;
        same.push(number);
        self.bytes += belief.states.len() * 12 + size_of::<Node>() + 32;
        self.nodes.push(Node {
            belief,
            vector: NONE,
            lower: f64::NEG_INFINITY,
            scanned: 0,
            upper: f64::INFINITY,
            read: 0,
            point: NONE,
            edges: Vec::new(),
        });
        number
    }

    /// Finds what follows node `number`, unless that is known. `rewards` are r(s, a) at s·A + a.
    pub fn expand(&mut self, model: &Pomdp, rewards: &[f64], number: u32) {
        if !self.nodes[number as usize].edges.is_empty() {
            return;
        }
        let belief = self.nodes[number as usize].belief.clone();
        let mut projection = std::mem::take(&mut self.projection);
        let actions = model.actions();
        let mut edges = Vec::with_capacity(actions as usize);
        for action in 0..actions {
            let reward = belief.iter().map(|(s, p)| p * rewards[s as usize * actions as usize + action as usize]).sum();
            let mut children = Vec::new();
            projection.each(model, &belief, action, |observation, prob, after| {
                children.push(Child { observation, node: self.intern(after), prob });
            });
            self.bytes += size_of::<Edge>() + children.len() * size_of::<Child>();
            edges.push(Edge { action, reward, children });
        }
        self.projection = projection;
        self.nodes[number as usize].edges = edges;
    }
}
