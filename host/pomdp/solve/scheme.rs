//! Which beliefs are backed up after an expansion, over what a [backend](Backup) does.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rand_chacha::rand_core::Rng;

use super::search::{Interval, Search};
use crate::common::random::below;
use crate::pomdp::backend::{Plans, PointBackup};
use crate::pomdp::belief::Belief;

/// Beliefs that are backed up at a time.
const BATCH: usize = 1024;

/// Nodes at which the upper bound is lowered at a time.
const TIGHTENED: usize = 32;

/// Backups after a walk, for each of its nodes.
const FURTHER: usize = 3;

/// Full sweeps after an expansion at most.
const SWEEPS: u32 = 50;

/// Backs up the nodes of a walk, the last first, and then about as many of those that lead to where the lower bound rose,
/// the largest rise first: as prioritised sweeping does (Shani, Brafman and Shimony, *Prioritizing point-based POMDP
/// solvers*, IEEE Transactions on Systems, Man and Cybernetics B 38, 2008). Returns how much the bounds came closer.
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
    let mut left = FURTHER * walk.len();
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

/// Backs up the nodes of several walks together, the last of each first, and lowers the upper bound at them. Returns how much
/// the bounds came closer.
///
/// # Errors
/// Those of the backend.
pub fn layers<B: PointBackup>(
    search: &mut Search,
    backend: &mut B,
    walks: &[Vec<u32>],
    min_improvement: f64,
) -> Result<f64, B::Error> {
    let mut progress = 0.0;
    backend.set_vectors(search.alpha())?;
    for depth in (0..walks.iter().map(Vec::len).max().unwrap_or_default()).rev() {
        let mut nodes: Vec<u32> = walks.iter().filter_map(|walk| walk.get(depth)).copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        let known = search.alpha().len();
        for batch in nodes.chunks(BATCH) {
            progress += batch_backup(search, backend, batch, min_improvement)?;
        }
        if search.alpha().len() > known {
            backend.add_vectors(&search.alpha().from(known))?;
        }
        progress += tighten(search, &nodes);
        if search.clock.status.is_some() || search.late() {
            break;
        }
    }
    Ok(progress)
}

/// A node whose lower bound rose.
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

/// Backs up every belief of B, until no value rises by more than `min_improvement` (PBVI: Pineau, Gordon and Thrun, *IJCAI*, 2003).
/// Returns how much the values rose.
///
/// # Errors
/// Those of the backend.
pub fn full<B: PointBackup>(search: &mut Search, backend: &mut B, min_improvement: f64) -> Result<f64, B::Error> {
    let mut progress = 0.0;
    for _ in 0..SWEEPS {
        backend.set_vectors(search.alpha())?;
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

/// Backs up random beliefs of B, a batch at a time, until new vectors alone are as good everywhere as the old ones were;
/// and again, until that lifts no value by more than `min_improvement` (Spaan and Vlassis, *Journal of Artificial Intelligence Research* 24, 2005). Returns how much the values rose.
///
/// # Errors
/// Those of the backend.
pub fn randomized<B: PointBackup>(
    search: &mut Search,
    backend: &mut B,
    random: &mut impl Rng,
    min_improvement: f64,
) -> Result<f64, B::Error> {
    let mut progress = 0.0;
    for _ in 0..SWEEPS {
        backend.set_vectors(search.alpha())?;
        let nodes = search.points.clone();
        let mut left: Vec<(u32, f64)> = nodes.into_iter().map(|node| (node, search.lower(node))).collect();
        let first = search.alpha().len();
        // A batch tends to lift more beliefs than it has.
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
                search.vectors.best_from(belief, first).is_none_or(|(_, value)| value < before)
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

/// Lowers the upper bound at nodes, the last first, some at a time. Returns how much.
pub fn tighten(search: &mut Search, nodes: &[u32]) -> f64 {
    let mut progress = 0.0;
    for nodes in nodes.rchunks(TIGHTENED) {
        progress += search.tighten_all(nodes);
        if search.over() {
            break;
        }
    }
    progress
}

/// Backs up a batch of nodes by the Γ that the backend has, and adds what is better by more than `min_improvement`. Returns by how
/// much at most.
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
            search.push(vectors.actions()[i], vectors.vector(i), &next[i * count..(i + 1) * count]);
            risen = risen.max(rise);
        }
    }
    Ok(risen)
}
