//! The list Viterbi algorithm: the K most probable paths (Seshadri and Sundberg, *List Viterbi Decoding Algorithms with
//! Applications*, 1994).
//!
//! δₜ(j, k) is the k-th greatest ln P(o₁ … oₜ, q₁ … qₜ) over the paths that end in qₜ = j. The K best of them go on from the
//! K best of each state before, so a step merges N descending lists into each of N others: N² + N K ln N operations.
//! Rows are shifted as those of [`paths`](super::paths), so the first path is the one that it finds.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::backends::cpu::chain::Chain;
use crate::backends::cpu::emissions::Row;
use crate::model::Hmm;
use crate::sequences::Sequences;
use warpkov_common::interrupt;

/// A path up to a step: the state before, and its number among the paths that end there.
type Origin = [u32; 2];

/// Bytes of all origins of a sequence of `steps` steps, T · N · K times 8.
pub fn bytes(states: usize, steps: usize, count: u32) -> u64 {
    let stored = (steps as u64).saturating_mul(states as u64).saturating_mul(stored(states, steps, count) as u64);
    stored.saturating_mul(size_of::<Origin>() as u64)
}

/// The most paths that are stored of each state: K, or the number of all paths.
fn stored(states: usize, steps: usize, count: u32) -> usize {
    let all = (states as u64).saturating_pow(u32::try_from(steps - 1).unwrap_or(u32::MAX));
    all.min(u64::from(count)) as usize
}

/// A model, prepared for best paths and their scores.
pub struct ListViterbi {
    chain: Chain<f64>,
}

impl ListViterbi {
    pub fn new(model: &Hmm) -> Self {
        Self { chain: Chain::new(model) }
    }

    /// ln P(O, q) of a sequence's path q.
    pub fn score(&self, seen: &Sequences, sequence: usize, path: &[u32]) -> f64 {
        self.chain.score(seen, sequence, path)
    }

    /// The `count` most probable paths of a sequence, the best one first, or all of positive probability if they are fewer.
    /// Of equal scores, the path with the lowest last state comes first, then the one with the lowest state before it, and
    /// so on. None if a stop is requested.
    pub fn best_paths(&self, seen: &Sequences, sequence: usize, count: u32) -> Vec<Vec<u32>> {
        best_paths(&self.chain, seen, sequence, count)
    }
}

fn best_paths(chain: &Chain<f64>, seen: &Sequences, sequence: usize, count: u32) -> Vec<Vec<u32>> {
    let (n, logs, range) = (chain.n, chain.logs(), seen.range(sequence));
    let most = stored(n, range.len(), count);
    let mut origins: Vec<Origin> = vec![[0; 2]; range.len() * n * most];
    let mut scratch = Row::new(chain.stride);
    let mut now: Vec<Vec<f64>> = logs.start[..n].iter().map(|&log| vec![log]).collect();
    let mut before = vec![Vec::new(); n];
    for (t, at) in range.clone().enumerate() {
        if interrupt::requested() {
            return Vec::new();
        }
        if t > 0 {
            std::mem::swap(&mut before, &mut now);
            for (j, (list, origins)) in now.iter_mut().zip(origins[t * n * most..].chunks_exact_mut(most)).enumerate() {
                list.clear();
                merge(&before, &logs.columns[j * chain.stride..][..n], most, |score, origin| {
                    origins[list.len()] = origin;
                    list.push(score);
                });
            }
        }
        let emitted = chain.emitter.log_row(&logs.emitted, seen, at, &mut scratch);
        for (list, emitted) in now.iter_mut().zip(emitted) {
            list.iter_mut().for_each(|score| *score += emitted);
        }
        lower(&mut now);
    }
    let mut paths = Vec::new();
    merge(&now, &logs.ending[..n], count as usize, |_, origin| {
        let mut path = vec![0; range.len()];
        let mut next = origin;
        for (t, state) in path.iter_mut().enumerate().rev() {
            *state = next[0];
            next = origins[(t * n + next[0] as usize) * most + next[1] as usize];
        }
        paths.push(path);
    });
    paths
}

/// Subtracts the greatest score from all, and drops those of impossible paths.
fn lower(lists: &mut [Vec<f64>]) {
    let most = lists.iter().filter_map(|list| list.first().copied()).fold(f64::NEG_INFINITY, f64::max);
    for list in lists {
        list.retain(|score| *score > f64::NEG_INFINITY);
        list.iter_mut().for_each(|score| *score -= most);
    }
}

/// Passes the `count` greatest xᵢₖ + yᵢ of descending lists xᵢ to `take`, in descending order, with their [`Origin`]. Of equal
/// ones, that of the lowest i comes first. Sums of −∞ are left out.
fn merge(x: &[Vec<f64>], y: &[f64], count: usize, mut take: impl FnMut(f64, Origin)) {
    let head = |[i, k]: Origin| {
        let score = x[i as usize].get(k as usize)? + y[i as usize];
        (score > f64::NEG_INFINITY).then_some(Head { score, origin: [i, k] })
    };
    let mut heads: BinaryHeap<Head> = (0..x.len() as u32).filter_map(|i| head([i, 0])).collect();
    for _ in 0..count {
        let Some(Head { score, origin: [i, k] }) = heads.pop() else { break };
        take(score, [i, k]);
        heads.extend(head([i, k + 1]));
    }
}

/// The greatest score of a list that has not been taken.
struct Head {
    score: f64,
    origin: Origin,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        // Zeros of both signs are equal.
        let scores = (self.score + 0.0).total_cmp(&(other.score + 0.0));
        scores.then(other.origin[0].cmp(&self.origin[0]))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}
