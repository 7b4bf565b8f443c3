//! The state of a rank that samples its own beliefs.

use super::graph::{Graph, NONE};
use super::interval::Interval;

/// Backups of a rank per round. A round ends after an expansion.
pub const ROUND: u64 = 128;

/// The state of a search whose ranks sample their own beliefs. Γ is the same on all ranks after each round.
pub struct Apart {
    /// |Γ| at the begin of the round.
    pub shared: usize,
    /// Value of [`Sawtooth::time`](super::bounds::sawtooth::Sawtooth::time) at the begin of the round.
    pub sent: u32,
    /// Number of backups at which this rank ends the round.
    pub backups: u64,
    /// Number of expansions at which this rank ends the round.
    pub iterations: u64,
    /// Nodes whose best vector was added in the round, or that were compared with such vectors.
    pub moved: Vec<u32>,
    /// Bounds, backups and |B| of the other ranks at the begin of the round.
    pub others: (Interval, u64, usize),
}

impl Apart {
    /// The number of a vector of this rank's round becomes that among the vectors of all ranks, where its first one has number `first`.
    /// The nodes that moved are to be compared with all of them.
    pub fn renumber(&mut self, graph: &mut Graph, first: usize) {
        let shared = self.shared;
        self.moved.sort_unstable();
        self.moved.dedup();
        for node in self.moved.drain(..) {
            let node = &mut graph.nodes[node as usize];
            if node.vector != NONE && node.vector as usize >= shared {
                node.vector += (first - shared) as u32;
            }
            node.scanned = node.scanned.min(shared as u32);
        }
    }
}
