//! The beliefs that were met, each once, and how actions and observations lead from one to another.

use std::collections::HashMap;

use crate::pomdp::belief::Belief;

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
    /// Nodes that lead here.
    pub parents: Vec<u32>,
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
    /// Bytes of all beliefs and edges.
    pub bytes: usize,
}

impl Graph {
    /// The number of a belief; it becomes a node unless it is one.
    pub fn intern(&mut self, belief: Belief) -> u32 {
        let mut hash = 0;
        for (state, prob) in belief.iter() {
            hash = mixed(mixed(hash, u64::from(state)), (prob / MERGED).round() as u64 >> 10);
        }
        let same = self.numbers.entry(hash).or_default();
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
            parents: Vec::new(),
            edges: Vec::new(),
        });
        number
    }

    /// Notes what follows a node.
    pub fn connect(&mut self, node: u32, edges: Vec<Edge>) {
        let children: usize = edges.iter().map(|edge| edge.children.len()).sum();
        self.bytes += edges.len() * size_of::<Edge>() + children * size_of::<Child>();
        for child in edges.iter().flat_map(|edge| &edge.children) {
            let parents = &mut self.nodes[child.node as usize].parents;
            if parents.last() != Some(&node) {
                parents.push(node);
            }
        }
        self.nodes[node as usize].edges = edges;
    }
}

/// A hash with one word more.
fn mixed(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95)
}
