//! Backup schemes: which beliefs a [backend](PointBackup) backs up after an expansion.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rand_chacha::rand_core::Rng;

use super::interval::Interval;
use super::search::Search;
use crate::backend::{Plans, PointBackup};
use crate::belief::Belief;
use warpkov_common::random::below;

/// Beliefs per batch of backups.
const BATCH: usize = 1024;

/// Nodes per batch of upper-bound updates.
const TIGHTEN_BATCH: usize = 32;

/// Number of further backups per node of a walk.
const FURTHER_BACKUPS: usize = 3;

/// Maximum number of sweeps per expansion.
const MAX_SWEEPS: u32 = 50;

/// Backs up the nodes of a walk in reverse order. Then backs up parents of nodes whose lower bound rose, in order of
/// decreasing rise (prioritised sweeping: Shani, Brafman and Shimony, *Prioritizing point-based POMDP solvers*, IEEE
/// Transactions on Systems, Man and Cybernetics B 38, 2008); at most `FURTHER_BACKUPS` per node of the walk. Returns the
/// total movement of both bounds.
pub fn path(search: &mut Search, walk: &[u32], min_improvement: f64) -> f64 {
    let mut progress = 0.0;
    let mut risen = BinaryHeap::new();
    let mut step = |search: &mut Search, risen: &mut BinaryHeap<Risen>, node: u32| {
        let Interval { lower, upper } = search.backup(node, min_improvement);
        progress += lower + upper;
        if lower > 0.0 {
            risen.push(Risen { rise: lower, node });
        }
        search.over()
    };
    for &node in walk.iter().rev() {
        if step(search, &mut risen, node) {
            return progress;
        }
    }
    let mut left = FURTHER_BACKUPS * walk.len();
    while let Some(Risen { node, .. }) = risen.pop()
        && left > 0
    {
        for parent in search.graph.nodes[node as usize].parents.clone() {
            if left == 0 || step(search, &mut risen, parent) {
                return progress;
            }
            left -= 1;
        }
    }
    progress
}

/// Backs up several walks together in reverse order, one batch per depth, and lowers the upper bound at their nodes.
/// Returns the total movement of both bounds.
///
/// # Errors
/// Errors of the backend.
pub fn layers<B: PointBackup>(
    search: &mut Search,
    backend: &mut B,
    walks: &[Vec<u32>],
    min_improvement: f64,
) -> Result<f64, B::Error> {
    let mut progress = 0.0;
    backend.set_vectors(&search.lower_bound.vectors.whole(0..search.lower_bound.count()))?;
    for depth in (0..walks.iter().map(Vec::len).max().unwrap_or_default()).rev() {
        let mut nodes: Vec<u32> = walks.iter().filter_map(|walk| walk.get(depth)).copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        let known = search.lower_bound.count();
        for batch in nodes.chunks(BATCH) {
            progress += batch_backup(search, backend, batch, min_improvement)?;
        }
        if search.lower_bound.count() > known {
            backend.add_vectors(&search.lower_bound.vectors.whole(known..search.lower_bound.count()))?;
        }
        progress += tighten(search, &nodes);
        if search.clock.status.is_some() || search.late() {
            break;
        }
    }
    Ok(progress)
}

/// A node whose lower bound rose, by how much.
struct Risen {
    rise: f64,
    node: u32,
}

impl Ord for Risen {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rise.total_cmp(&other.rise).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Risen {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Risen {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Risen {}

/// Backs up all of B in sweeps, until no value rises by more than `min_improvement` (PBVI: Pineau, Gordon and Thrun,
/// *IJCAI*, 2003). Returns the sum over sweeps of the largest rise.
///
/// # Errors
/// Errors of the backend.
pub fn full<B: PointBackup>(search: &mut Search, backend: &mut B, min_improvement: f64) -> Result<f64, B::Error> {
    let mut progress = 0.0;
    for _ in 0..MAX_SWEEPS {
        backend.set_vectors(&search.lower_bound.vectors.whole(0..search.lower_bound.count()))?;
        let nodes = search.points.clone();
        let mut risen = 0.0_f64;
        for batch in nodes.chunks(BATCH) {
            risen = risen.max(batch_backup(search, backend, batch, min_improvement)?);
            if search.over() {
                return Ok(progress + risen);
            }
        }
        search.prune();
        progress += risen;
        if risen <= min_improvement {
            break;
        }
    }
    Ok(progress)
}

/// Backs up random batches of B until the new vectors alone are at least as good as the old ones at every belief.
/// Repeats this until no value rises by more than `min_improvement` (Perseus: Spaan and Vlassis, *Journal of Artificial
/// Intelligence Research* 24, 2005). Returns the sum over sweeps of the largest rise.
///
/// # Errors
/// Errors of the backend.
pub fn randomized<B: PointBackup>(
    search: &mut Search,
    backend: &mut B,
    random: &mut impl Rng,
    min_improvement: f64,
) -> Result<f64, B::Error> {
    let mut progress = 0.0;
    for _ in 0..MAX_SWEEPS {
        backend.set_vectors(&search.lower_bound.vectors.whole(0..search.lower_bound.count()))?;
        let nodes = search.points.clone();
        let mut left: Vec<(u32, f64)> = nodes.into_iter().map(|node| (node, search.lower(node))).collect();
        let first = search.lower_bound.count();
        // A batch usually improves more beliefs than its own.
        let batch = (left.len() / 16).clamp(1, BATCH);
        let mut risen = 0.0_f64;
        while !left.is_empty() {
            let mut drawn = Vec::new();
            for _ in 0..batch.min(left.len()) {
                let i = below(random, left.len() as u64) as usize;
                drawn.push(left.swap_remove(i).0);
            }
            risen = risen.max(batch_backup(search, backend, &drawn, min_improvement)?);
            if search.over() {
                return Ok(progress + risen);
            }
            left.retain(|&(node, before)| {
                let belief = &search.graph.nodes[node as usize].belief;
                search.lower_bound.vectors.best_from(belief, first).is_none_or(|(_, value)| value < before)
            });
        }
        search.prune();
        progress += risen;
        if risen <= min_improvement {
            break;
        }
    }
    Ok(progress)
}

/// Lowers the upper bound at nodes in reverse order, batch by batch. Returns the total decrease.
pub fn tighten(search: &mut Search, nodes: &[u32]) -> f64 {
    let mut progress = 0.0;
    for nodes in nodes.rchunks(TIGHTEN_BATCH) {
        progress += search.tighten_all(nodes);
        if search.over() {
            break;
        }
    }
    progress
}

/// Backs up a batch of nodes with the Γ of the backend. Adds vectors that improve their node by more than
/// `min_improvement`. Returns the largest rise.
fn batch_backup<B: PointBackup>(
    search: &mut Search,
    backend: &mut B,
    nodes: &[u32],
    min_improvement: f64,
) -> Result<f64, B::Error> {
    let beliefs: Vec<Belief> = nodes.iter().map(|&node| search.graph.nodes[node as usize].belief.clone()).collect();
    let Plans { vectors, next } = backend.backup(&beliefs)?;
    search.backups += nodes.len() as u64;
    let mut risen = 0.0_f64;
    for (i, &node) in nodes.iter().enumerate() {
        let rise = beliefs[i].dot(vectors.vector(i)) - search.lower(node);
        if rise > min_improvement {
            let count = search.model.observation_count() as usize;
            let next = &next[i * count..(i + 1) * count];
            search.lower_bound.push_at(&beliefs[i], vectors.actions()[i], vectors.vector(i), next);
            risen = risen.max(rise);
        }
    }
    Ok(risen)
}
