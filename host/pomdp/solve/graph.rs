//! The beliefs that were met, each once, and how actions and observations lead from one to another.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

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
    /// Whether it is of B.
    pub is_point: bool,
    /// In which expansion it last became so.
    pub touched: u64,
    /// The next node of the same hash, or [`NONE`].
    same: u32,
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

/// Nodes that lie side by side, so that none moves when there are more.
const SLAB: usize = 1 << 10;

/// Nodes by number.
#[derive(Default)]
pub struct Nodes(Vec<Vec<Node>>);

impl Nodes {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * SLAB + last.len())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, node: Node) {
        if self.len().is_multiple_of(SLAB) {
            self.0.push(Vec::with_capacity(SLAB));
        }
        if let Some(slab) = self.0.last_mut() {
            slab.push(node);
        }
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.0.iter_mut().flatten()
    }
}

impl Index<usize> for Nodes {
    type Output = Node;

    fn index(&self, node: usize) -> &Node {
        &self.0[node / SLAB][node % SLAB]
    }
}

impl IndexMut<usize> for Nodes {
    fn index_mut(&mut self, node: usize) -> &mut Node {
        &mut self.0[node / SLAB][node % SLAB]
    }
}

/// What an allocation takes beside what is asked for.
const OVERHEAD: usize = 16;

/// The beliefs that were met.
#[derive(Default)]
pub struct Graph {
    /// All of them.
    pub nodes: Nodes,
    /// The first node of each hash.
    numbers: HashMap<u64, u32>,
    /// Bytes of what nodes point to.
    owned: usize,
}

impl Graph {
    /// The number of a belief; it becomes a node unless it is one.
    pub fn intern(&mut self, belief: Belief) -> u32 {
        let hash = hash(&belief);
        let first = self.numbers.get(&hash).copied().unwrap_or(NONE);
        let equal = |other: &Belief| {
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < MERGED;
            other.states() == belief.states() && other.probs().iter().zip(belief.probs()).all(near)
        };
        let mut number = first;
        while number != NONE {
            let node = &self.nodes[number as usize];
            if equal(&node.belief) {
                return number;
            }
            number = node.same;
        }
        self.add(Node {
            belief,
            vector: NONE,
            lower: f64::NEG_INFINITY,
            scanned: 0,
            upper: f64::INFINITY,
            read: 0,
            point: NONE,
            is_point: false,
            touched: 0,
            same: first,
            parents: Vec::new(),
            edges: Vec::new(),
        })
    }

    /// Adds a node that there is not.
    fn add(&mut self, mut node: Node) -> u32 {
        let number = self.nodes.len() as u32;
        node.same = self.numbers.insert(hash(&node.belief), number).unwrap_or(NONE);
        node.belief.shrink_to_fit();
        self.owned += belief_bytes(&node.belief);
        self.nodes.push(node);
        number
    }

    /// Notes what follows a node.
    pub fn connect(&mut self, node: u32, edges: Vec<Edge>) {
        let children: usize = edges.iter().map(|edge| edge.children.len()).sum();
        self.owned += edges.len() * (size_of::<Edge>() + OVERHEAD) + children * size_of::<Child>() + OVERHEAD;
        for child in edges.iter().flat_map(|edge| &edge.children) {
            let parents = &mut self.nodes[child.node as usize].parents;
            if parents.last() != Some(&node) {
                let before = parents.capacity();
                parents.push(node);
                self.owned += 4 * (parents.capacity() - before) + if before == 0 { OVERHEAD } else { 0 };
            }
        }
        self.nodes[node as usize].edges = edges;
    }

    /// Bytes of all this.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.owned + self.nodes.0.len() * SLAB * size_of::<Node>() + self.numbers.capacity() * 20
    }

    /// Leaves the first `kept` nodes and of `points` those that were met last, as many as take so many bytes; what follows them is to be found
    /// anew. Returns the points with their new numbers.
    #[must_use]
    pub fn shrink(&mut self, kept: usize, points: &[u32], bytes: usize) -> Vec<u32> {
        let mut order: Vec<u32> = points.to_vec();
        order.sort_by_key(|&point| std::cmp::Reverse(self.nodes[point as usize].touched));
        let mut keep = vec![false; self.nodes.len()];
        let mut left = bytes;
        for point in order {
            let taken = belief_bytes(&self.nodes[point as usize].belief) + size_of::<Node>() + 40;
            if taken > left {
                break;
            }
            left -= taken;
            keep[point as usize] = true;
        }
        let old = std::mem::take(self);
        let mut points = Vec::new();
        for (number, node) in
            old.nodes.0.into_iter().flatten().enumerate().filter(|(number, _)| *number < kept || keep[*number])
        {
            let is_point = node.is_point;
            let new = self.add(Node { parents: Vec::new(), edges: Vec::new(), ..node });
            debug_assert!(number >= kept || new as usize == number);
            points.extend(is_point.then_some(new));
        }
        points
    }
}

/// Bytes of a belief.
fn belief_bytes(belief: &Belief) -> usize {
    belief.states().len() * 12 + 2 * OVERHEAD
}

/// The same for beliefs that are equal up to [`MERGED`], as a rule.
fn hash(belief: &Belief) -> u64 {
    let step =
        |hash, (state, prob): (u32, f64)| mixed(mixed(hash, u64::from(state)), (prob / MERGED).round() as u64 >> 10);
    belief.iter().fold(0, step)
}

/// A hash with one word more.
fn mixed(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95)
}
