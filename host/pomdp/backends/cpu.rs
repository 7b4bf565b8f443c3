//! Point-based backups on the CPU: belief updates through sparse T and O, scores in `f32`, vectors in `f64`.

use std::convert::Infallible;
use std::ops::Range;

use rayon::prelude::*;

use crate::alpha::AlphaVectors;
use crate::backend::{Plans, PointBackup};
use crate::belief::Belief;
use crate::model::Pomdp;
use crate::projection::Projection;

/// Vectors per block: one cache line of `f32`.
const LANES: usize = 16;

/// States of a vector per parallel task.
const CHUNK: usize = 16_384;

/// Γ in two layouts: vector by vector in `f64` to build new vectors, and in blocks of 16 vectors, state by state, in
/// `f32` to compute scores.
pub struct Vectors {
    /// The vectors.
    alpha: AlphaVectors,
    /// `blocks[k][s][i]` is entry s of vector 16k + i.
    blocks: Vec<Vec<[f32; LANES]>>,
    /// max |α(s)| over all vectors.
    largest: f64,
}

impl Vectors {
    /// Copies Γ into both layouts.
    #[must_use]
    pub fn new(alpha: &AlphaVectors) -> Self {
        let mut own = Self { alpha: AlphaVectors::new(alpha.states()), blocks: Vec::new(), largest: 0.0 };
        own.extend(alpha);
        own
    }

    /// Appends vectors.
    fn extend(&mut self, alpha: &AlphaVectors) {
        for i in 0..alpha.len() {
            self.push(alpha.actions()[i], alpha.vector(i));
        }
    }

    /// Appends a vector with its first action.
    pub fn push(&mut self, action: u32, vector: &[f64]) {
        let lane = self.alpha.len() % LANES;
        if lane == 0 {
            // −∞ in unused lanes: they never win.
            self.blocks.push(vec![[f32::NEG_INFINITY; LANES]; vector.len()]);
        }
        let block = self.blocks.last_mut().expect("the branch above pushes the first block");
        for (entry, value) in block.iter_mut().zip(vector) {
            entry[lane] = *value as f32;
            self.largest = self.largest.max(value.abs());
        }
        if self.alpha.room() == 0 {
            // Growth by 1/16, not by a factor of 2: vectors may take most of the memory.
            self.alpha.reserve_exact((self.alpha.len() / 16).max(1));
        }
        self.alpha.push(action, vector);
    }

    /// The vectors.
    #[must_use]
    pub fn alpha(&self) -> &AlphaVectors {
        &self.alpha
    }

    /// Keeps the vectors that satisfy `keep`, in the same order.
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

    /// Keeps only the first `count` vectors.
    pub fn truncate(&mut self, count: usize) {
        self.alpha.truncate(count);
        self.blocks.truncate(count.div_ceil(LANES));
        if let Some(last) = self.blocks.last_mut().filter(|_| !count.is_multiple_of(LANES)) {
            last.iter_mut().for_each(|entry| entry[count % LANES..].fill(f32::NEG_INFINITY));
        }
    }

    /// The vectors without the `f32` layout.
    #[must_use]
    pub fn into_alpha(self) -> AlphaVectors {
        self.alpha
    }

    /// Releases unused capacity.
    pub fn shrink_to_fit(&mut self) {
        self.alpha.shrink_to_fit();
    }

    /// Bytes in use, without spare capacity.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.bytes() - (self.alpha.capacity() - self.alpha.values().len()) * size_of::<f64>()
    }

    /// Bytes allocated.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.alpha.capacity() * size_of::<f64>()
            + self.alpha.len() * size_of::<u32>()
            + self.blocks.len() * self.alpha.states() as usize * size_of::<[f32; LANES]>()
    }

    /// Index and `f64` value of a best vector at `belief` among the vectors from index `first` on; `None` if there are
    /// none. The comparison uses `f32` scores and takes the first of equal ones. `belief` need not sum to 1.
    #[must_use]
    pub fn best_from(&self, belief: &Belief, first: usize) -> Option<(u32, f64)> {
        let vector = self.scan(belief, first)?;
        Some((vector as u32, belief.dot(self.alpha.vector(vector))))
    }

    /// Index and value of the first best vector at `belief`, compared in `f64`. The vector that
    /// [`best_from`](Self::best_from) finds may be worse by the rounding error of `f32`, and a policy would lose that
    /// at every step.
    #[must_use]
    pub fn best(&self, belief: &Belief) -> Option<(u32, f64)> {
        let first = self.best_from(belief, 0)?;
        // Number of terms in the error bound of a score: a product, a sum of a fourth of the terms, and the sum of the
        // partial sums.
        let terms = (belief.states().len() / SUMS + 2 * SUMS) as f64;
        let least = first.1 - terms * f64::from(f32::EPSILON) * self.largest;
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the call needs AVX-512F, which the branch condition detects.
            return Some(unsafe { self.compare_avx512(belief, first, least) });
        } else if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the call needs AVX2, which the branch condition detects.
            return Some(unsafe { self.compare_avx2(belief, first, least) });
        }
        Some(self.compare_blocks(belief, first, least))
    }

    /// The first best vector by `f64` values, of `best` and the vectors whose score is at least `least`.
    #[inline(always)]
    fn compare_blocks(&self, belief: &Belief, mut best: (u32, f64), least: f64) -> (u32, f64) {
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
        best
    }

    /// [`compare_blocks`](Self::compare_blocks) compiled for AVX-512, with the same result.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn compare_avx512(&self, belief: &Belief, best: (u32, f64), least: f64) -> (u32, f64) {
        self.compare_blocks(belief, best, least)
    }

    /// [`compare_blocks`](Self::compare_blocks) compiled for AVX2, with the same result.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn compare_avx2(&self, belief: &Belief, best: (u32, f64), least: f64) -> (u32, f64) {
        self.compare_blocks(belief, best, least)
    }

    /// Index of the vector that [`best_from`](Self::best_from) returns.
    fn scan(&self, belief: &Belief, first: usize) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the call needs AVX-512F, which the branch condition detects.
            return unsafe { self.scan_avx512(belief, first) };
        } else if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the call needs AVX2, which the branch condition detects.
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

    /// [`scan_blocks`](Self::scan_blocks) compiled for AVX-512, with the same result.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn scan_avx512(&self, belief: &Belief, first: usize) -> Option<usize> {
        self.scan_blocks(belief, first)
    }

    /// [`scan_blocks`](Self::scan_blocks) compiled for AVX2, with the same result.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn scan_avx2(&self, belief: &Belief, first: usize) -> Option<usize> {
        self.scan_blocks(belief, first)
    }
}

/// Independent partial sums, to hide the latency of additions.
const SUMS: usize = 4;

/// Σ b(s) α(s) for each vector of a block.
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

/// The largest score, by pairwise maxima. NaN, which 0 · −∞ yields in unused lanes, never replaces a number.
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

/// Fills a vector in chunks, in parallel if there are several. `part` gets the index of the first entry and the chunk.
fn fill(vector: &mut [f64], part: impl Fn(usize, &mut [f64]) + Sync) {
    if vector.len() <= CHUNK {
        return part(0, vector);
    }
    vector.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, target)| part(chunk * CHUNK, target));
}

/// Builds alpha vectors. It stores r and T action by action, in the order in which a vector reads them.
pub struct Assembler<'m> {
    model: &'m Pomdp,
    actions: Vec<Rows>,
}

/// r(s, a) and T(s, a, ·) of one action.
struct Rows {
    rewards: Vec<f64>,
    /// Row s ends at `ends[s]`.
    ends: Vec<usize>,
    successors: Vec<u32>,
    probs: Vec<f64>,
}

impl<'m> Assembler<'m> {
    /// Copies r and T of a model; `rewards` are r(s, a) at index s·A + a.
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

    /// The vector that begins with `action` and continues with vector `next[o]` of Γ after observation o:
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

    /// The entries of [`vector`](Self::vector) at some states alone, where `value` has α_{next(o)}(s') of o and s'.
    #[must_use]
    pub fn part(&self, states: &[u32], action: u32, value: impl Fn(u32, u32) -> f64 + Sync) -> Vec<f64> {
        let gamma = self.model.gamma();
        let Rows { rewards, ends, successors, probs } = &self.actions[action as usize];
        let after = |state: u32| {
            let (observations, probs) = self.model.observed(action, state);
            observations.iter().zip(probs).fold(0.0, |sum, (&o, p)| sum + p * value(o, state))
        };
        let mut vector = vec![0.0; states.len()];
        fill(&mut vector, |begin, vector| {
            for (target, &state) in vector.iter_mut().zip(&states[begin..]) {
                let state = state as usize;
                let entries = state.checked_sub(1).map_or(0, |before| ends[before])..ends[state];
                let pairs = successors[entries.clone()].iter().zip(&probs[entries]);
                *target = rewards[state] + gamma * pairs.fold(0.0, |sum, (&s, p)| sum + p * after(s));
            }
        });
        vector
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

/// Point-based backups on all cores, one belief per task.
pub struct PointBased<'m> {
    model: &'m Pomdp,
    /// r(s, a) at s·A + a.
    rewards: Vec<f64>,
    /// Built before the first parallel batch, because its construction is itself parallel.
    assembler: Option<Assembler<'m>>,
    vectors: Vectors,
}

impl<'m> PointBased<'m> {
    /// Backups for a maximisation problem, with empty Γ.
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
            // Observations of probability 0 continue like the most probable one.
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

/// First action, entries, and the continuation after each observation.
type Candidate = (u32, Vec<f64>, Vec<u32>);

impl PointBackup for PointBased<'_> {
    type Error = Infallible;

    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Infallible> {
        assert!(vectors.fit(self.model.states(), self.model.actions()), "alpha vectors fit the model");
        self.vectors = Vectors::new(vectors);
        Ok(())
    }

    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Infallible> {
        assert!(vectors.fit(self.model.states(), self.model.actions()), "alpha vectors fit the model");
        self.vectors.extend(vectors);
        Ok(())
    }

    fn backup_part(&mut self, beliefs: &[Belief], part: Range<usize>) -> Result<Plans, Infallible> {
        let assembler = self.assembler.take().unwrap_or_else(|| Assembler::new(self.model, &self.rewards));
        let backup = |scratch: &mut _, belief| self.backup_of(&assembler, scratch, belief);
        let backups: Vec<_> = beliefs[part].par_iter().map_init(Projection::default, backup).collect();
        self.assembler = Some(assembler);
        let mut all = Plans { vectors: AlphaVectors::new(self.model.states()), next: Vec::new() };
        for (action, vector, next) in backups {
            all.vectors.push(action, &vector);
            all.next.extend(next);
        }
        Ok(all)
    }

    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, Infallible> {
        assert!(!self.vectors.alpha().is_empty(), "Γ has at least one vector");
        let best = |belief: &Belief| self.vectors.best_from(belief, 0).unwrap_or((u32::MAX, f64::NEG_INFINITY));
        Ok(beliefs.par_iter().map(best).collect())
    }
}
