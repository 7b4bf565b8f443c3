//! Point-based backups on the CPU: projections through sparse T and O, scores in `f32`, vectors in `f64`.

use std::convert::Infallible;

use rayon::prelude::*;

use super::backend::{Plans, PointBackup};
use crate::pomdp::alpha::AlphaVectors;
use crate::pomdp::belief::Belief;
use crate::pomdp::model::Pomdp;
use crate::pomdp::projection::Projection;

/// Vectors side by side in a block: as many `f32` as a cache line holds.
const LANES: usize = 16;

/// States of a vector that one task builds.
const CHUNK: usize = 16_384;

/// Γ in two forms: vector by vector in `f64` to build from, and state by state in blocks of 16 vectors in `f32` to
/// score with.
pub struct Vectors {
    /// α, as they are.
    alpha: AlphaVectors,
    /// Block k holds at `[s][i]` what vector 16k + i has for s.
    blocks: Vec<Vec<[f32; LANES]>>,
    /// No entry is larger in amount.
    largest: f64,
}

impl Vectors {
    /// These.
    #[must_use]
    pub fn new(alpha: &AlphaVectors) -> Self {
        let mut own = Self { alpha: AlphaVectors::new(alpha.states()), blocks: Vec::new(), largest: 0.0 };
        own.extend(alpha);
        own
    }

    /// Adds these behind those that are there.
    fn extend(&mut self, alpha: &AlphaVectors) {
        for i in 0..alpha.len() {
            self.push(alpha.actions()[i], alpha.vector(i));
        }
    }

    /// Adds one.
    pub fn push(&mut self, action: u32, vector: &[f64]) {
        let lane = self.alpha.len() % LANES;
        if lane == 0 {
            // What no vector has is never the best.
            self.blocks.push(vec![[f32::NEG_INFINITY; LANES]; vector.len()]);
        }
        let block = self.blocks.last_mut().expect("pushed above where there was none");
        for (entry, value) in block.iter_mut().zip(vector) {
            entry[lane] = *value as f32;
            self.largest = self.largest.max(value.abs());
        }
        if self.alpha.room() == 0 {
            // Not twice as much: vectors may take most of the memory.
            self.alpha.reserve_exact((self.alpha.len() / 16).max(1));
        }
        self.alpha.push(action, vector);
    }

    /// The vectors.
    #[must_use]
    pub fn alpha(&self) -> &AlphaVectors {
        &self.alpha
    }

    /// Leaves those that `keep` says yes to, in the same order.
    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let (states, count) = (self.alpha.states() as usize, self.alpha.len());
        self.alpha.keep(&keep);
        let kept: Vec<usize> = (0..count).filter(|&i| keep(i)).collect();
        for (block, sources) in kept.chunks(LANES).enumerate() {
            for state in 0..states {
                let mut entry = [f32::NEG_INFINITY; LANES];
                for (target, &source) in entry.iter_mut().zip(sources) {
                    *target = self.blocks[source / LANES][state][source % LANES];
                }
                self.blocks[block][state] = entry;
            }
        }
        self.blocks.truncate(kept.len().div_ceil(LANES));
    }

    /// The vectors, without all else.
    #[must_use]
    pub fn into_alpha(self) -> AlphaVectors {
        self.alpha
    }

    /// Gives memory back that no vector is in.
    pub fn shrink_to_fit(&mut self) {
        self.alpha.shrink_to_fit();
    }

    /// Bytes that they need.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.bytes() - (self.alpha.capacity() - self.alpha.values().len()) * size_of::<f64>()
    }

    /// Bytes that they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.alpha.capacity() * size_of::<f64>()
            + self.blocks.len() * self.alpha.states() as usize * size_of::<[f32; LANES]>()
    }

    /// Of the vectors from the number `first` on, one that is best at `belief`: the first of those, up to rounding in `f32`,
    /// and its value in `f64`. `None` where there is none. The belief may be one of another sum than 1.
    #[must_use]
    pub fn best_from(&self, belief: &Belief, first: usize) -> Option<(u32, f64)> {
        let vector = self.scan(belief, first)?;
        Some((vector as u32, belief.dot(self.alpha.vector(vector))))
    }

    /// The vector that is best at `belief` in `f64`, the first of those, and its value: what [`best_from`](Self::best_from) finds
    /// may be less by as much as `f32` rounds, at every step of a policy.
    #[must_use]
    pub fn best(&self, belief: &Belief) -> Option<(u32, f64)> {
        let mut best = self.best_from(belief, 0)?;
        // Two products and a sum of a fourth of the terms each, and the sum of those.
        let terms = (belief.states().len() / SUMS + 2 * SUMS) as f64;
        let least = best.1 - terms * f64::from(f32::EPSILON) * self.largest;
        for (block, entries) in self.blocks.iter().enumerate() {
            for (lane, score) in scores(belief, entries).into_iter().enumerate() {
                let vector = block * LANES + lane;
                if f64::from(score) >= least && vector < self.alpha.len() {
                    let value = belief.dot(self.alpha.vector(vector));
                    if value > best.1 || (value == best.1 && (vector as u32) < best.0) {
                        best = (vector as u32, value);
                    }
                }
            }
        }
        Some(best)
    }

    /// The number of the vector that [`best_from`](Self::best_from) finds.
    fn scan(&self, belief: &Belief, first: usize) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has just been found to have what the function is compiled for.
            return unsafe { self.scan_avx512(belief, first) };
        } else if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: likewise.
            return unsafe { self.scan_avx2(belief, first) };
        }
        self.scan_blocks(belief, first)
    }

    #[inline(always)]
    fn scan_blocks(&self, belief: &Belief, first: usize) -> Option<usize> {
        let mut best = (first, f32::NEG_INFINITY);
        for (block, entries) in self.blocks.iter().enumerate().skip(first / LANES) {
            let mut scores = scores(belief, entries);
            let known = first.saturating_sub(block * LANES);
            scores[..known].fill(f32::NEG_INFINITY);
            let most = largest(scores);
            if most > best.1 {
                let lane = scores.iter().position(|&score| score == most)?;
                best = (block * LANES + lane, most);
            }
        }
        Some(best.0).filter(|&best| best < self.alpha.len())
    }

    /// [`scan_blocks`](Self::scan_blocks) compiled for processors with AVX-512, with the same result.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn scan_avx512(&self, belief: &Belief, first: usize) -> Option<usize> {
        self.scan_blocks(belief, first)
    }

    /// [`scan_blocks`](Self::scan_blocks) compiled for processors with AVX2, with the same result.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn scan_avx2(&self, belief: &Belief, first: usize) -> Option<usize> {
        self.scan_blocks(belief, first)
    }
}

/// Sums that run side by side, since one addition has to wait for the one before.
const SUMS: usize = 4;

/// Σ b(s) α(s) of the vectors of a block.
#[inline(always)]
fn scores(belief: &Belief, block: &[[f32; LANES]]) -> [f32; LANES] {
    let mut sums = [[0.0; LANES]; SUMS];
    let mut last = [0.0; LANES];
    let (states, probs) = (belief.states().chunks_exact(SUMS), belief.probs().chunks_exact(SUMS));
    for (&state, &prob) in states.remainder().iter().zip(probs.remainder()) {
        last = plus(last, prob, &block[state as usize]);
    }
    for (states, probs) in states.zip(probs) {
        for i in 0..SUMS {
            sums[i] = plus(sums[i], probs[i], &block[states[i] as usize]);
        }
    }
    for sum in sums {
        last = plus(last, 1.0, &sum);
    }
    last
}

/// sum + prob · row.
#[inline(always)]
fn plus(mut sum: [f32; LANES], prob: f64, row: &[f32; LANES]) -> [f32; LANES] {
    let prob = prob as f32;
    for (sum, value) in sum.iter_mut().zip(row) {
        *sum += prob * value;
    }
    sum
}

/// The largest, by halves. What is no number, as 0 · −∞ where there is no vector, may only be behind all others.
#[inline(always)]
fn largest(mut scores: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            scores[lane] = if scores[lane + width] > scores[lane] { scores[lane + width] } else { scores[lane] };
        }
        width /= 2;
    }
    scores[0]
}

/// Fills a vector, part by part, each with where it begins; on all cores where there are several.
fn fill(vector: &mut [f64], part: impl Fn(usize, &mut [f64]) + Sync) {
    if vector.len() <= CHUNK {
        return part(0, vector);
    }
    vector.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, target)| part(chunk * CHUNK, target));
}

/// What builds vectors: r and T action by action, as a vector meets them state after state.
pub struct Assembler<'m> {
    model: &'m Pomdp,
    actions: Vec<Rows>,
}

/// r(s, a) and T(s, a, ·) of one action.
struct Rows {
    rewards: Vec<f64>,
    /// The row of state s ends here, at s.
    ends: Vec<usize>,
    successors: Vec<u32>,
    probs: Vec<f64>,
}

impl<'m> Assembler<'m> {
    /// Of a model; `rewards` are r(s, a) at s·A + a.
    #[must_use]
    pub fn new(model: &'m Pomdp, rewards: &[f64]) -> Self {
        let (states, count) = (model.states(), model.actions());
        let rows = |action: u32| {
            let mut rows = Rows {
                rewards: rewards.iter().skip(action as usize).step_by(count as usize).copied().collect(),
                ends: Vec::with_capacity(states as usize),
                successors: Vec::new(),
                probs: Vec::new(),
            };
            for state in 0..states {
                let (successors, probs) = model.successors(state, action);
                rows.successors.extend_from_slice(successors);
                rows.probs.extend_from_slice(probs);
                rows.ends.push(rows.successors.len());
            }
            rows
        };
        Self { model, actions: (0..count).into_par_iter().map(rows).collect() }
    }

    /// The vector of an action, and of the vector of Γ that follows each observation:
    ///
    /// > α(s) = r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{next(o)}(s')
    #[must_use]
    pub fn vector(&self, alpha: &AlphaVectors, action: u32, next: &[u32]) -> Vec<f64> {
        let states = self.model.states() as usize;
        let vectors: Vec<&[f64]> = next.iter().map(|&vector| alpha.vector(vector as usize)).collect();
        let observed = self.model.observations();
        let (ends, col, val) =
            (&observed.row_ptr()[action as usize * states..], &observed.col()[..], &observed.val()[..]);
        let mut after = vec![0.0; states];
        fill(&mut after, |begin, after| {
            let mut entry = ends[begin] as usize;
            for ((state, target), &end) in (begin..).zip(after).zip(&ends[begin + 1..]) {
                let entries = entry..end as usize;
                entry = end as usize;
                let pairs = col[entries.clone()].iter().zip(&val[entries]);
                *target = pairs.fold(0.0, |sum, (&o, p)| sum + p * vectors[o as usize][state]);
            }
        });
        self.ahead(action, &after)
    }

    /// r(s, a) + γ Σ_{s'} T(s, a, s') v(s').
    #[must_use]
    pub fn ahead(&self, action: u32, values: &[f64]) -> Vec<f64> {
        let gamma = self.model.gamma();
        let Rows { rewards, ends, successors, probs } = &self.actions[action as usize];
        let mut vector = vec![0.0; values.len()];
        fill(&mut vector, |begin, vector| {
            let mut entry = if begin == 0 { 0 } else { ends[begin - 1] };
            for ((target, reward), &end) in vector.iter_mut().zip(&rewards[begin..]).zip(&ends[begin..]) {
                let entries = entry..end;
                entry = end;
                let pairs = successors[entries.clone()].iter().zip(&probs[entries]);
                *target = reward + gamma * pairs.fold(0.0, |sum, (&s, p)| sum + p * values[s as usize]);
            }
        });
        vector
    }
}

/// Backups on all cores, a belief at a time on each.
pub struct PointBased<'m> {
    model: &'m Pomdp,
    /// r(s, a) at s·A + a.
    rewards: Vec<f64>,
    /// Made with the first backup, and not within it: it takes all cores itself.
    assembler: Option<Assembler<'m>>,
    vectors: Vectors,
}

impl<'m> PointBased<'m> {
    /// Backups of a model that is to be maximised; Γ is empty.
    #[must_use]
    pub fn new(model: &'m Pomdp) -> Self {
        let vectors = Vectors::new(&AlphaVectors::new(model.states()));
        Self { model, rewards: model.expected_rewards(), assembler: None, vectors }
    }

    fn backup_of(&self, assembler: &Assembler<'m>, projection: &mut Projection, belief: &Belief) -> Candidate {
        let (model, gamma) = (self.model, self.model.gamma());
        let actions = model.actions();
        let mut best: Option<(f64, u32, Vec<u32>)> = None;
        for action in 0..actions {
            let mut value = model.reward(&self.rewards, belief, action);
            let mut next = vec![u32::MAX; model.observation_count() as usize];
            // The vector of the likeliest observation follows those that cannot be seen.
            let mut likeliest = (0.0, 0);
            projection.each(model, belief, action, |observation, prob, after| {
                if let Some((vector, expected)) = self.vectors.best_from(&after, 0) {
                    value += gamma * prob * expected;
                    next[observation as usize] = vector;
                    likeliest = if prob > likeliest.0 { (prob, vector) } else { likeliest };
                }
            });
            if best.as_ref().is_none_or(|best| value > best.0) {
                next.iter_mut().filter(|next| **next == u32::MAX).for_each(|next| *next = likeliest.1);
                best = Some((value, action, next));
            }
        }
        let (_, action, next) = best.unwrap_or_default();
        (action, assembler.vector(self.vectors.alpha(), action, &next), next)
    }
}

/// An action, the values of what begins with it, and the vector that follows each observation.
type Candidate = (u32, Vec<f64>, Vec<u32>);

impl PointBackup for PointBased<'_> {
    type Error = Infallible;

    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Infallible> {
        self.vectors = Vectors::new(vectors);
        Ok(())
    }

    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Infallible> {
        assert!(vectors.fit(self.model.states(), self.model.actions()), "vectors of another model");
        self.vectors.extend(vectors);
        Ok(())
    }

    fn backup(&mut self, beliefs: &[Belief]) -> Result<Plans, Infallible> {
        let assembler = self.assembler.take().unwrap_or_else(|| Assembler::new(self.model, &self.rewards));
        let backup = |scratch: &mut _, belief| self.backup_of(&assembler, scratch, belief);
        let backups: Vec<_> = beliefs.par_iter().map_init(Projection::default, backup).collect();
        self.assembler = Some(assembler);
        let mut all = Plans { vectors: AlphaVectors::new(self.model.states()), next: Vec::new() };
        for (action, vector, next) in backups {
            all.vectors.push(action, &vector);
            all.next.extend(next);
        }
        Ok(all)
    }

    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, Infallible> {
        let best = |belief: &Belief| self.vectors.best_from(belief, 0).unwrap_or((u32::MAX, f64::NEG_INFINITY));
        Ok(beliefs.par_iter().map(best).collect())
    }
}
