//! Pruning of Γ and of sawtooth points, and the limit of memory.

use super::graph::NONE;
use super::search::Search;
use super::upper::UpperBound;
use warpkov_common::memory;

/// Fraction of the memory limit at which [`Search::shrink`] releases memory.
const MEMORY_FULL: f64 = 0.98;

/// Fraction of the memory limit in use after that.
const MEMORY_AFTER: f64 = 0.6;

/// Fraction of the memory limit above which sawtooth points are dropped.
const POINTS_SHARE: f64 = 0.25;

/// Fraction of the memory limit above which vectors are dropped.
const VECTORS_SHARE: f64 = 0.4;

/// Sawtooth points examined by pruning, per new point.
const EXAMINED: usize = 4;

impl Search<'_, '_> {
    /// Prunes Γ between expansions, unless ranks are [apart](Self::part) and prune it together at the end of a round.
    pub fn prune_after_expansion(&mut self) {
        if self.apart.is_none() {
            self.prune_if_grown();
        }
    }

    /// Prunes Γ if it has grown by a quarter, and examines sawtooth points in proportion to the new ones.
    pub(super) fn prune_if_grown(&mut self) {
        let pruned = self.lower_bound.pruned;
        if self.lower_bound.count() > pruned + pruned / 4 + 32 {
            self.prune();
        }
        let (UpperBound { sawtooth, pruned, .. }, clock) = (&mut self.upper_bound, &mut self.clock);
        let new = sawtooth.len().saturating_sub(std::mem::replace(pruned, sawtooth.len()));
        sawtooth.prune(EXAMINED * new, &mut || clock.late());
    }

    /// Reduces Γ to blind policies and the vectors that are best at a belief of B. If these exceed the limit, the best
    /// vectors at the initial beliefs and those that are best most often stay. Beliefs that were not compared with all
    /// vectors in time count for their best so far.
    pub fn prune(&mut self) {
        self.prune_to(self.lower_bound.max_vectors);
    }

    fn prune_to(&mut self, max_vectors: usize) {
        let count = self.lower_bound.count();
        let mut uses = vec![0_u64; count];
        uses[..self.lower_bound.permanent.min(count)].fill(u64::MAX / 2);
        for start in 0..self.starts.len() as u32 {
            self.lower(start);
            uses[self.graph.nodes[start as usize].vector as usize] = u64::MAX / 2;
        }
        if !self.clock.late() {
            let points = std::mem::take(&mut self.points);
            self.update_lower_bounds(&points);
            self.points = points;
        }
        for &node in &self.points {
            let vector = self.graph.nodes[node as usize].vector;
            if vector != NONE {
                uses[vector as usize] += 1;
            }
        }
        if self.apart.is_some() {
            let all = self.clock.team().all(&uses);
            uses = (0..count).map(|i| all.iter().fold(0, |sum: u64, uses| sum.saturating_add(uses[i]))).collect();
        }
        let mut least = 1;
        if uses.iter().filter(|&&uses| uses > 0).count() > max_vectors {
            let mut sorted = uses.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            least = sorted[max_vectors] + 1;
        }
        let stays: Vec<bool> = uses.iter().map(|&uses| uses >= least).collect();
        // `before[i]` is the number of remaining vectors with an index below i.
        let mut before = vec![0; count + 1];
        for i in 0..count {
            before[i + 1] = before[i] + u32::from(stays[i]);
        }
        self.lower_bound.pruned = before[count] as usize;
        // Ranks that are apart drop the same retired vectors.
        let late = self.apart.is_some().then(|| self.clock.late()).map(|late| self.any(late));
        let clock = &mut self.clock;
        self.lower_bound
            .supports
            .retain(&self.lower_bound.vectors, &stays, &mut || late.unwrap_or_else(|| clock.late()));
        if let Some(apart) = &mut self.apart {
            apart.shared = self.lower_bound.pruned;
            apart.moved.clear();
        }
        if self.lower_bound.pruned == count {
            return;
        }
        self.lower_bound.vectors.retain(&before);
        for node in self.graph.nodes.iter_mut().filter(|node| node.vector != NONE) {
            if stays[node.vector as usize] {
                node.vector = before[node.vector as usize];
                node.scanned = before[node.scanned as usize];
            } else {
                (node.vector, node.lower, node.scanned) = (NONE, f64::NEG_INFINITY, 0);
            }
        }
    }

    /// Releases memory: vectors, sawtooth points, and beliefs not visited for longest.
    pub(super) fn shrink(&mut self) {
        let memory = self.clock.memory() as f64;
        let limit = |part: f64| (part * memory) as usize;
        self.prune();
        if self.upper_bound.sawtooth.bytes() > limit(POINTS_SHARE) {
            self.upper_bound.sawtooth.shrink(limit(POINTS_SHARE / 2.0));
        }
        // Halves Γ repeatedly, because retired vectors may keep memory in use.
        while self.any(self.lower_bound.vectors.needed() + self.lower_bound.supports.bytes() > limit(VECTORS_SHARE)) {
            let count = self.lower_bound.count();
            self.prune_to((count / 2).max(self.lower_bound.permanent + self.starts.len()));
            if self.lower_bound.count() == count {
                break;
            }
        }
        let taken =
            self.upper_bound.sawtooth.bytes() + self.lower_bound.vectors.needed() + self.lower_bound.supports.bytes();
        self.points = self.graph.shrink(self.starts.len(), &self.points, limit(MEMORY_AFTER).saturating_sub(taken));
        self.lower_bound.vectors.shrink_to_fit();
        memory::release();
    }

    /// Whether the clock is [late](super::clock::Clock::late) or memory is full.
    pub fn late(&mut self) -> bool {
        self.is_full() || self.clock.late()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes() as f64 >= MEMORY_FULL * self.clock.memory() as f64
    }

    /// Bytes of beliefs, vectors and sawtooth points.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.graph.bytes()
            + self.lower_bound.vectors.bytes()
            + self.lower_bound.supports.bytes()
            + self.upper_bound.sawtooth.bytes()
            + 4 * self.points.capacity()
    }
}
