//! The belief graph: visited beliefs, each stored once, linked by actions and observations.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use crate::belief::Belief;

/// Beliefs whose probabilities all differ by less than this share a node.
pub const MERGED: f64 = 1.0 / (1_u64 << 40) as f64;

/// Marks a missing vector, point or node.
pub const NONE: u32 = u32::MAX;

/// A belief with its bounds and its neighbours.
pub struct Node {
    /// b.
    pub belief: Belief,
    /// Index of the best of the first `scanned` vectors of Γ.
    pub vector: u32,
    /// b·α of `vector`; −∞ if there is none.
    pub lower: f64,
    /// Number of vectors of Γ compared so far.
    pub scanned: u32,
    /// Upper bound on V\*(b).
    pub upper: f64,
    /// Value of [`Sawtooth::time`](super::bounds::sawtooth::Sawtooth::time) at which `upper` was current.
    pub read: u32,
    /// Index of its sawtooth point, or [`NONE`].
    pub point: u32,
    /// Whether the belief is in B.
    pub is_point: bool,
    /// The expansion that last visited it.
    pub touched: u64,
    /// Next node in the same hash bucket, or [`NONE`].
    next_in_bucket: u32,
    /// Nodes with an edge to this one.
    pub parents: Vec<u32>,
    /// One edge per action; empty before expansion.
    pub edges: Vec<Edge>,
}

/// An action at a belief.
pub struct Edge {
    /// a.
    pub action: u32,
    /// r(b, a).
    pub reward: f64,
    /// Possible observations, ascending.
    pub children: Vec<Child>,
}

/// A possible observation and its successor.
#[derive(Clone, Copy)]
pub struct Child {
    /// o.
    pub observation: u32,
    /// Node of b^{a,o}.
    pub node: u32,
    /// p(o|b, a).
    pub prob: f64,
}

/// Nodes per slab. Slabs never move when the graph grows.
const SLAB: usize = 1 << 10;

/// All nodes by index.
#[derive(Default)]
pub struct Nodes(Vec<Vec<Node>>);

impl Nodes {
    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * SLAB + last.len())
    }

    /// Whether there are no nodes.
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

    /// All nodes in ascending order of index.
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

/// Assumed overhead of an allocation, in bytes.
const OVERHEAD: usize = 16;

/// The belief graph.
#[derive(Default)]
pub struct Graph {
    /// All nodes.
    pub nodes: Nodes,
    /// First node of each hash bucket.
    numbers: HashMap<u64, u32>,
    /// Bytes that nodes own on the heap.
    owned: usize,
}

impl Graph {
    /// The index of a belief's node; adds a node for a new belief.
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
            number = node.next_in_bucket;
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
            next_in_bucket: first,
            parents: Vec::new(),
            edges: Vec::new(),
        })
    }

    /// The index of the node of exactly this belief, if there is one.
    #[must_use]
    pub fn find(&self, belief: &Belief) -> Option<u32> {
        let mut number = self.numbers.get(&hash(belief)).copied().unwrap_or(NONE);
        while number != NONE {
            let node = &self.nodes[number as usize];
            if node.belief == *belief {
                return Some(number);
            }
            number = node.next_in_bucket;
        }
        None
    }

    /// Adds a node; the caller has checked that it is new.
    fn add(&mut self, mut node: Node) -> u32 {
        let number = self.nodes.len() as u32;
        node.next_in_bucket = self.numbers.insert(hash(&node.belief), number).unwrap_or(NONE);
        node.belief.shrink_to_fit();
        self.owned += belief_bytes(&node.belief);
        self.nodes.push(node);
        number
    }

    /// Stores the edges of a node, and registers it as a parent of its successors.
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

    /// Bytes allocated.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.owned + self.nodes.0.len() * SLAB * size_of::<Node>() + self.numbers.capacity() * 20
    }

    /// Keeps the first `kept` nodes, and the most recently visited of `points` that fit into `bytes`. Drops all edges.
    /// Returns the remaining points with their new indices.
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

/// Bytes of a belief on the heap.
fn belief_bytes(belief: &Belief) -> usize {
    belief.states().len() * 12 + 2 * OVERHEAD
}

/// A hash that is usually equal for beliefs within [`MERGED`] of each other.
fn hash(belief: &Belief) -> u64 {
    let step =
        |hash, (state, prob): (u32, f64)| mixed(mixed(hash, u64::from(state)), (prob / MERGED).round() as u64 >> 10);
    belief.iter().fold(0, step)
}

/// Adds a word to a hash.
fn mixed(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95)
}
