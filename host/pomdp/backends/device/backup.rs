//! Point-based backups on a device: projects beliefs forward, finds the best vector of each row, and builds new vectors
//! from the winners.
//!
//! A projected row belongs to a belief j, an action a and an observation o. Its *code* is o·(B·A) + j·A + a for B
//! beliefs.

use std::collections::HashSet;
use std::ops::Range;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::pomdp::best_action::best_action;
use warpkov_kernels::pomdp::gather::{PicksArgs, belief_values, evaluate_actions, expect, gather};
use warpkov_kernels::pomdp::product::{
    DENSE_SHARED, DENSE_THREADS, SPARSE_THREADS, STEP, TILE, best_of_dense, best_of_sparse, evaluate_winners,
    list_steps, note_winners,
};
use warpkov_kernels::pomdp::project::{
    DENSIFY_STATES, DenseRowsArgs, SIDE, SIDE_STATES, SIDE_THREADS, TOGETHER, compact_rows, count_entries, densify,
    expand, expand_beliefs, fill_entries, flag_rows, predict, side_by_side,
};
use warpkov_kernels::primitives::rows::RowsArgs;

use crate::alpha::AlphaVectors;
use crate::backend::{Plans, PointBackup};
use crate::backends::device::beliefs::Beliefs;
use crate::backends::device::buffers::{Factors, Kept, Model, Vectors};
use crate::belief::Belief;
use crate::model::Pomdp;
use warpkov_common::numbers::max_norm;
use warpkov_runtime::Precise;
use warpkov_runtime::prefix_sum::{exclusive_scan, scratch_len};
use warpkov_runtime::scratch::scratch;

/// Threads per block, unless the kernel specifies it.
pub(super) const THREADS: u32 = 256;

/// Threads per block: |S| rounded up to whole warps, at most [`THREADS`].
pub(super) fn threads(states: u32) -> u32 {
    states.next_multiple_of(32).min(THREADS)
}

/// A belief needs no vector of its own once the others give it this fraction of its own vector's improvement.
const ENOUGH_IMPROVEMENT: f64 = 0.25;

/// Vectors added to Γ before beliefs are evaluated again.
const ADDED_AT_ONCE: usize = 64;

/// Kernel variant that finds the best vector of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Sparse rows, in the precision of the vectors; for rows with few nonzeros.
    Sparse,
    /// Dense rows of |S| elements on tensor cores. Factors have 11 significant bits in f16, or about 21 in f32 if
    /// `exact`.
    Dense {
        /// Three products of 32-bit factors instead of one product of 16-bit factors.
        exact: bool,
    },
}

/// Memory limits of a batch. A single belief may exceed them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Elements of a dense array of rows or predictions.
    pub elements: usize,
    /// Nonzeros of sparse rows.
    pub entries: usize,
}

impl Default for Limits {
    /// A few GiB in total.
    fn default() -> Self {
        Self { elements: 1 << 28, entries: 1 << 27 }
    }
}

/// Cost of a nonzero of a sparse row relative to an element of a dense row on tensor cores.
const SPARSE_WORK: f64 = 64.0;

/// Point-based backups on a device, with vectors in precision T. The model and Γ stay in device memory.
///
/// Results are deterministic and independent of the limits.
///
/// # Panics
/// If a backup is requested while Γ is empty, or if a belief or a vector does not fit the model.
pub struct Backups<'d, T: Precise> {
    pub(super) device: &'d AnyDevice,
    pub(super) states: u32,
    pub(super) actions: u32,
    pub(super) observations: u32,
    pub(super) model: Model<T>,
    vectors: Vectors<T>,
    vector_actions: Vec<u32>,
    /// Number of branches (a, s', o) out of each state.
    branches: Vec<u32>,
    product: Option<Product>,
    /// Whether low-precision scores (11 bits) suffice.
    pub(super) rough: bool,
    /// Scale of the factors of Γ; scaled values of policies are at most 1 in magnitude.
    scale: f64,
    pub(super) limits: Limits,
    pub(super) work: Work<T>,
}

scratch! {
    /// Scratch memory, reused from batch to batch.
    pub(super) struct Work<T: Precise> {
        /// By code: nonzeros of the row.
        counts: u32,
        /// By code: 1 if the row exists, otherwise 0.
        pub(super) flags: u32,
        /// By code: prefix sums of `counts`.
        offsets: u32,
        /// By code: prefix sums of `flags`, the row numbers.
        ranks: u32,
        /// Scratch memory of the prefix sums.
        scan: u32,
        /// By row: its code.
        row_code: u32,
        /// 0, 1, 2 …: the codes where beliefs themselves are the rows.
        numbers: u32,
        /// Row pointer of sparse rows.
        row_ptr: u32,
        /// Number of rows, one element.
        rows: u32,
        /// States of the nonzeros of sparse rows.
        col: u32,
        /// Values of the nonzeros of sparse rows.
        weight: T,
        /// Dense beliefs, side by side in groups of [`SIDE`].
        dense: T,
        /// By belief, action and successor: Σₛ T(s, a, s') b(s).
        pub(super) predicted: T,
        /// By tile of dense rows and step of the product: whether it has nonzeros.
        used: u8,
        /// By tile of dense rows: the steps with nonzeros.
        steps: u32,
        /// By dense row: best score and vector, as a key.
        best: u64,
        /// By code: the best vector.
        winners: u32,
        /// By code for sparse rows, by belief and action for dense rows: the score.
        pub(super) scores: f64,
        /// By belief: its best vector.
        best_vector: u32,
        /// By belief: the value of its best vector.
        best_value: f64,
        /// By belief and action: Q(b, a).
        pub(super) values: f64,
        /// By belief: its best action.
        chosen: u32,
        /// By belief, side by side, and successor: Σₒ O(a, s', o) α(s') of the winners.
        expected: T,
        /// New vectors.
        out: T,
    }
}

impl<'d, T: Precise> Backups<'d, T> {
    /// Uploads a model, which must be a maximisation problem. Without a `product`, each batch uses the cheaper one.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(
        device: &'d AnyDevice,
        model: &Pomdp,
        product: Option<Product>,
        limits: Limits,
    ) -> Result<Self, DeviceError> {
        let (states, actions) = (model.states(), model.actions());
        let branches = |state: u32| -> u32 {
            let follow = |action| model.successors(state, action).0.iter().map(move |&next| (action, next));
            (0..actions).flat_map(follow).map(|(action, next)| model.observed(action, next).0.len() as u32).sum()
        };
        Ok(Self {
            device,
            states,
            actions,
            observations: model.observation_count(),
            model: Model::upload(device, model)?,
            vectors: Vectors::new(device, states)?,
            vector_actions: Vec::new(),
            branches: (0..states).map(branches).collect(),
            product,
            rough: false,
            scale: scale(model),
            limits,
            work: Work::new(device)?,
        })
    }

    /// Panics if Γ is empty: kernels take vector 0 for granted.
    fn check_vectors(&self) {
        assert!(!self.vector_actions.is_empty(), "Γ has at least one vector");
    }

    /// Uploads beliefs after checking that Γ is not empty and that their states fit the model.
    fn upload(&self, beliefs: &[Belief]) -> Result<Beliefs<T>, DeviceError> {
        self.check_vectors();
        let known = |belief: &Belief| belief.is_below(self.states);
        assert!(beliefs.iter().all(known), "states of beliefs are below |S|");
        Beliefs::upload(self.device, beliefs, beliefs.iter().map(|belief| self.entries(belief)).sum())
    }

    /// Number of nonzeros of the sparse rows of a belief.
    fn entries(&self, belief: &Belief) -> usize {
        belief.states().iter().map(|&state| self.branches[state as usize] as usize).sum()
    }

    /// The cheaper product for a batch: sparse if rows have few nonzeros.
    fn choose(&self, beliefs: usize, entries: usize) -> Product {
        let pairs = beliefs as f64 * f64::from(self.actions);
        let rows = pairs * f64::from(self.observations).min(entries as f64 / pairs.max(1.0));
        self.cheaper(rows, entries)
    }

    /// The cheaper product for this number of rows.
    fn cheaper(&self, rows: f64, entries: usize) -> Product {
        let sparse = SPARSE_WORK * entries as f64 <= rows * f64::from(self.states);
        self.product.unwrap_or(if sparse { Product::Sparse } else { Product::Dense { exact: !self.rough } })
    }

    /// Length of the longest prefix of beliefs, given by their branches, that fits into one batch.
    fn batch(&self, branches: &[usize], product: Product) -> usize {
        let fits = match product {
            Product::Dense { .. } => self.limits.elements / (self.actions as usize * self.states as usize),
            Product::Sparse => {
                let within = branches.iter().scan(self.limits.entries, |left, branches| {
                    *left = left.checked_sub(*branches)?;
                    Some(())
                });
                within.count()
            }
        };
        // Codes have 32 bits, and a launch has at most 2³¹ blocks, with a warp per belief and action.
        let codes = self.limits.elements / (self.actions as usize * self.observations as usize);
        let vectors = self.limits.elements / self.states as usize;
        fits.min(codes).min(vectors).clamp(1, branches.len())
    }

    /// [`batch`](Self::batch) for the cheaper product.
    pub(super) fn fitting(&self, branches: &[usize]) -> usize {
        self.batch(branches, self.choose(branches.len(), branches.iter().sum()))
    }

    /// Number of branches (a, s', o) out of each state.
    pub(super) fn branches(&self) -> &[u32] {
        &self.branches
    }

    /// First action of each vector.
    pub(super) fn vector_actions(&self) -> &[u32] {
        &self.vector_actions
    }

    /// Bytes of Γ.
    pub(super) fn vector_bytes(&self) -> usize {
        self.vectors.bytes()
    }

    /// Extends `known`, the first vectors of Γ, to the first `count` vectors.
    pub(super) fn download_into(&self, known: &mut AlphaVectors, count: usize) -> Result<(), DeviceError> {
        let range = known.len()..count.max(known.len());
        let values = self.vectors.download(self.device, range.start as u32..range.end as u32)?;
        known.append(values, &self.vector_actions[range]);
        Ok(())
    }

    /// Keeps only the vectors with these indices.
    pub(super) fn pick(&mut self, picked: &[u32]) -> Result<(), DeviceError> {
        self.vectors.pick(self.device, picked)?;
        self.vector_actions = picked.iter().map(|&vector| self.vector_actions[vector as usize]).collect();
        Ok(())
    }

    /// The vectors from index `first` on.
    pub(super) fn vectors_from(&self, first: usize) -> Result<AlphaVectors, DeviceError> {
        let count = self.vector_actions.len();
        let mut vectors = AlphaVectors::new(self.states);
        let values = self.vectors.download(self.device, first as u32..count as u32)?;
        vectors.append(values, &self.vector_actions[first..]);
        Ok(vectors)
    }

    /// Keeps only the first `count` vectors.
    pub(super) fn truncate(&mut self, count: usize) {
        self.vectors.truncate(count as u32);
        self.vector_actions.truncate(count);
    }

    /// Uploads beliefs in batches within the limits.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn batches(&self, beliefs: &[Belief]) -> Result<Vec<Beliefs<T>>, DeviceError> {
        let branches: Vec<usize> = beliefs.iter().map(|belief| self.entries(belief)).collect();
        let mut batches = Vec::new();
        let mut first = 0;
        while first < beliefs.len() {
            let count = self.fitting(&branches[first..]);
            batches.push(self.upload(&beliefs[first..first + count])?);
            first += count;
        }
        Ok(batches)
    }

    /// The product that a batch uses.
    pub fn chosen_product(&self, beliefs: &Beliefs<T>) -> Product {
        self.choose(beliefs.count as usize, beliefs.branches)
    }

    /// Backs up every belief. The vectors stay in scratch memory until the next backup. Returns the number of projected
    /// rows.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn back_up_here(&mut self, beliefs: &Beliefs<T>) -> Result<u32, DeviceError> {
        let rows = self.decide(beliefs, self.chosen_product(beliefs))?;
        self.build(beliefs.count, &(0..beliefs.count).collect::<Vec<_>>())?;
        Ok(rows)
    }

    /// Backs up beliefs, and adds vectors that improve their belief by more than `min_improvement`, in order of
    /// decreasing improvement. Stops as soon as every belief has at least a quarter of the improvement by its own
    /// vector, similar to Perseus, which accepts any improvement. Returns the largest improvement and the continuations
    /// of the new vectors.
    pub(super) fn improve(
        &mut self,
        beliefs: &Beliefs<T>,
        min_improvement: f64,
    ) -> Result<(f64, Vec<u32>), DeviceError> {
        let known = self.best_of(beliefs)?;
        self.decide(beliefs, self.chosen_product(beliefs))?;
        let (device, actions) = (self.device, self.actions as usize);
        let Work { chosen, values, winners, .. } = &self.work;
        let (mut actions_of, mut values_of) = (vec![0; known.len()], vec![0.0; known.len() * actions]);
        device.download(chosen.get(), &mut actions_of)?;
        device.download(values.get(), &mut values_of)?;
        let own = |j: u32| values_of[j as usize * actions + actions_of[j as usize] as usize];
        let rise = |j: u32| own(j) - known[j as usize].1;
        let mut left: Vec<u32> = (0..known.len() as u32).filter(|&j| rise(j) > min_improvement).collect();
        left.sort_by(|&a, &b| rise(b).total_cmp(&rise(a)).then(a.cmp(&b)));
        let Some(risen) = left.first().map(|&j| rise(j)) else { return Ok((0.0, Vec::new())) };
        let mut winners_of = vec![0; self.codes(beliefs.count)];
        device.download(winners.get(), &mut winners_of)?;
        let pairs = known.len() * actions;
        let row = |j: u32| {
            let (action, first) = (actions_of[j as usize], j as usize * actions);
            (action, winners_of.iter().skip(first + action as usize).step_by(pairs).copied().collect::<Vec<_>>())
        };
        // Equal actions and winners yield equal vectors.
        let (mut met, mut next) = (HashSet::new(), Vec::new());
        while !left.is_empty() {
            let new: Vec<u32> = left.iter().copied().filter(|&j| met.insert(row(j))).take(ADDED_AT_ONCE).collect();
            if new.is_empty() {
                break;
            }
            self.build(beliefs.count, &new)?;
            new.iter().for_each(|&j| next.extend(row(j).1));
            self.vectors.append(device, new.len() as u32, self.work.out.get())?;
            self.vector_actions.extend(new.iter().map(|&j| actions_of[j as usize]));
            if new.len() < ADDED_AT_ONCE {
                break;
            }
            let found = self.best_of(beliefs)?;
            left.retain(|&j| found[j as usize].1 < known[j as usize].1 + ENOUGH_IMPROVEMENT * rise(j));
        }
        Ok((risen, next))
    }

    pub(super) fn codes(&self, beliefs: u32) -> usize {
        beliefs as usize * self.actions as usize * self.observations as usize
    }

    /// Computes row numbers and offsets by code. Returns the number of rows.
    fn compact(&mut self, codes: usize, entries: usize) -> Result<u32, DeviceError> {
        let Work { counts, flags, offsets, ranks, scan, row_code, row_ptr, rows, .. } = &mut self.work;
        let device = self.device;
        let scan = scan.at_least(device, scratch_len(codes))?;
        let most = codes.min(entries);
        let (ranks, offsets) = (ranks.at_least(device, codes + 1)?, offsets.at_least(device, codes + 1)?);
        exclusive_scan(device, codes, flags.get(), ranks, scan)?;
        exclusive_scan(device, codes, counts.get(), offsets, scan)?;
        let (row_code, row_ptr) = (row_code.at_least(device, most)?, row_ptr.at_least(device, most + 1)?);
        let (rows, shape) = (rows.at_least(device, 1)?, Shape::cover(codes as u64, THREADS));
        // SAFETY: `row_code` and `row_ptr` have room for min(codes, entries) rows, and every row has a code and an
        // entry of its own.
        unsafe { compact_rows(device, shape, codes as u32, ranks, offsets, row_code, row_ptr, rows)? };
        let mut found = [0];
        device.download(rows, &mut found)?;
        Ok(found[0])
    }

    /// Finds winners and scores by code with sparse rows. Returns the number of rows.
    fn sparse(&mut self, beliefs: &Beliefs<T>) -> Result<u32, DeviceError> {
        let entries = beliefs.branches;
        let Self { device, actions, .. } = *self;
        let codes = self.codes(beliefs.count);
        let warps = Shape::cover(u64::from(beliefs.count) * u64::from(actions) * 32, THREADS);
        let counts = self.work.counts.cleared(device, codes)?;
        let flags = self.work.flags.at_least(device, codes)?;
        // SAFETY: `Pomdp` guarantees columns of T below |S| and of O below |Ω|; `upload` and `compress` yield states
        // below |S|; buffers have an element per code.
        unsafe {
            count_entries(device, warps, self.model.args(), beliefs.count, beliefs.args(), counts)?;
        }
        flag_rows(device, Shape::cover(codes as u64, THREADS), codes as u32, counts, flags)?;
        let rows = self.compact(codes, entries)?;
        self.work.scores.cleared(device, codes)?;
        let Work { offsets, row_code, row_ptr, col, weight, winners, scores, .. } = &mut self.work;
        let (col, weight) = (col.at_least(device, entries)?, weight.at_least(device, entries)?);
        let alpha = self.vectors.columns(device)?;
        // SAFETY: as above; rows have `entries` nonzeros in total, and Γ is not empty.
        unsafe {
            let (model, places) = (self.model.args(), offsets.get_mut());
            fill_entries(device, warps, model, beliefs.count, beliefs.args(), places, col, weight)?;
            best_of_sparse(
                device,
                Shape::new(rows.max(1), SPARSE_THREADS),
                rows,
                RowsArgs { ptr: row_ptr.get(), col, prob: weight },
                row_code.get(),
                alpha,
                winners.get_mut(),
                scores.get_mut(),
            )?;
        }
        Ok(rows)
    }

    /// Predicts the first `count` beliefs for each action into `work.predicted`, and flags possible observations by
    /// code in `work.flags`.
    pub(super) fn predict(&mut self, beliefs: &Beliefs<T>, count: u32) -> Result<(), DeviceError> {
        let Self { device, states, actions, .. } = *self;
        let (codes, groups) = (self.codes(count), count.div_ceil(SIDE));
        let Work { flags, dense, predicted, .. } = &mut self.work;
        let flags = flags.cleared(device, codes)?;
        let dense = dense.at_least(device, (groups * side_by_side(count)) as usize * states as usize)?;
        // SAFETY: `Pomdp` guarantees columns of T below |S| and of O below |Ω|; `upload` and `compress` yield states
        // below |S|; buffers have an element per code, and `dense` holds whole groups.
        unsafe {
            let shape = Shape::new(groups * states.div_ceil(DENSIFY_STATES), SIDE_THREADS);
            densify(device, shape, states, count, beliefs.args(), dense)?;
            predict(
                device,
                Shape::new(groups * actions * states.div_ceil(SIDE_STATES), SIDE_THREADS),
                self.model.args(),
                count,
                dense,
                predicted.at_least(device, (count * actions) as usize * states as usize)?,
                flags,
            )
        }
    }

    /// Finds winners by code, and scores by belief and action, with dense rows in chunks that fit into memory. Returns
    /// the number of rows.
    fn dense<E: Kept>(&mut self, beliefs: &Beliefs<T>) -> Result<u32, DeviceError> {
        let Self { device, states, actions, .. } = *self;
        let codes = self.codes(beliefs.count);
        let pairs = beliefs.count as usize * actions as usize;
        let groups = beliefs.count.div_ceil(TOGETHER);
        let elements = Shape::new(groups * actions * states.div_ceil(threads(states)), threads(states));
        self.work.counts.cleared(device, codes)?;
        self.predict(beliefs, beliefs.count)?;
        let rows = self.compact(codes, codes)?;
        let at_a_time = self.rows_at_a_time::<E>();
        let mut first = 0;
        while first < rows {
            let count = (rows - first).min(at_a_time);
            let (stride, steps) = self.clear_rows::<E>(count)?;
            let Work { ranks, predicted, used, .. } = &mut self.work;
            let x = E::kept_mut(&mut self.vectors).0.x.get_mut();
            // SAFETY: as in `predict`; `clear_rows` has zeroed `count` rows, and `ranks` has an element per code and
            // one more.
            unsafe {
                expand(
                    device,
                    elements,
                    self.model.args(),
                    beliefs.count,
                    predicted.get(),
                    ranks.get(),
                    first,
                    count,
                    DenseRowsArgs { stride, rows: x, steps, used: used.get_mut() },
                )?;
            }
            self.best_of_rows::<E>(first, count, false)?;
            first += count;
        }
        let Work { predicted, winners, scores, .. } = &mut self.work;
        // SAFETY: as in `predict`; winners are indices of Γ, because `note_winners` writes only those, over zeros.
        unsafe {
            evaluate_actions(
                device,
                Shape::new(groups * actions, THREADS),
                self.model.args(),
                beliefs.count,
                predicted.get(),
                winners.get(),
                self.vectors.rows(),
                scores.at_least(device, pairs)?,
            )?;
        }
        Ok(rows)
    }

    /// Number of dense rows per chunk, in whole tiles.
    fn rows_at_a_time<E: Kept>(&self) -> u32 {
        let words = Factors::<E>::words(self.states) as usize;
        ((self.limits.elements / words).clamp(TILE, 1 << 24) / TILE * TILE) as u32
    }

    /// Zeroes this number of dense rows. Returns elements and steps per row.
    fn clear_rows<E: Kept>(&mut self, count: u32) -> Result<(u32, u32), DeviceError> {
        let (stride, steps) = (Factors::<E>::stride(self.states), Factors::<E>::words(self.states) / STEP as u32);
        let tiles = count.div_ceil(TILE as u32) as usize;
        E::kept_mut(&mut self.vectors).0.x.cleared(self.device, tiles * TILE * stride as usize)?;
        self.work.used.cleared(self.device, tiles * steps as usize)?;
        Ok((stride, steps))
    }

    /// Finds the winners of the dense rows `first..first + count`. Writes them to `work.winners` at the codes in
    /// `work.row_code`, or, if `of_beliefs`, to `work.best_vector` at the row numbers.
    fn best_of_rows<E: Kept>(&mut self, first: u32, count: u32, of_beliefs: bool) -> Result<(), DeviceError> {
        let Self { device, states, scale, .. } = *self;
        let (words, vectors) = (Factors::<E>::words(states), self.vectors.count());
        self.vectors.update::<E>(device, scale)?;
        let Work { row_code, numbers, used, steps, best, winners, best_vector, .. } = &mut self.work;
        let (codes, winners) = if of_beliefs {
            (numbers.numbers(device, (first + count) as usize)?, best_vector)
        } else {
            (row_code.get(), winners)
        };
        let keys = best.cleared(device, count as usize)?;
        let (tiles, each) = (count.div_ceil(TILE as u32), words / STEP as u32);
        let steps = steps.at_least(device, tiles as usize * (each as usize + 1))?;
        let product = Shape::new(tiles * vectors.div_ceil(TILE as u32), DENSE_THREADS).with_shared(DENSE_SHARED);
        let factors = E::kept(&self.vectors);
        // SAFETY: `clear_rows` and `Vectors` pad rows and vectors with zeros to whole tiles and steps; codes are below
        // the length of `winners`.
        unsafe {
            list_steps(device, Shape::new(tiles, 32), each, used.get(), steps)?;
            best_of_dense(device, product, count, vectors, words, factors.x.get(), steps, factors.vectors(), keys)?;
            let threads = Shape::cover(u64::from(count), THREADS);
            note_winners(device, threads, first, count, keys, codes, winners.get_mut())
        }
    }

    /// Computes the value of each belief and action, and the best action, into `work.winners` (by code), `work.values`
    /// and `work.chosen`. Returns the number of rows.
    fn decide(&mut self, beliefs: &Beliefs<T>, product: Product) -> Result<u32, DeviceError> {
        self.check_vectors();
        let Self { device, actions, observations, .. } = *self;
        self.work.winners.cleared(device, self.codes(beliefs.count))?;
        let (rows, terms) = match product {
            Product::Dense { exact: true } => (self.dense::<f32>(beliefs)?, 1),
            Product::Dense { exact: false } => (self.dense::<u16>(beliefs)?, 1),
            Product::Sparse => (self.sparse(beliefs)?, observations),
        };
        let Work { scores, values, chosen, .. } = &mut self.work;
        let (count, pairs) = (beliefs.count as usize, beliefs.count * actions);
        let (values, chosen) = (values.at_least(device, pairs as usize)?, chosen.at_least(device, count)?);
        // SAFETY: `upload` and `compress` yield states below |S|, and `scores` has `terms` elements per belief and
        // action.
        unsafe {
            belief_values(
                device,
                Shape::new(pairs, 128),
                self.model.args(),
                beliefs.args(),
                terms,
                scores.get(),
                values,
            )?;
        }
        best_action(device, Shape::cover(count as u64, THREADS), actions, beliefs.count, values, chosen)?;
        Ok(rows)
    }

    /// Builds the vectors of the beliefs `picked` into `work.out`. The last call of [`decide`](Self::decide) was for a
    /// batch of `beliefs` beliefs.
    fn build(&mut self, beliefs: u32, picked: &[u32]) -> Result<(), DeviceError> {
        let Self { device, states, .. } = *self;
        let Work { winners, chosen, expected, out, .. } = &mut self.work;
        let (count, groups) = (picked.len() as u32, (picked.len() as u32).div_ceil(SIDE));
        let (picked, shape) = (device.upload(picked)?, Shape::new(groups * states.div_ceil(SIDE_STATES), SIDE_THREADS));
        let expected = expected.at_least(device, (groups * side_by_side(count)) as usize * states as usize)?;
        let out = out.at_least(device, (count as usize) * states as usize)?;
        // SAFETY: winners are indices of Γ, chosen actions are below |A|, and callers pass `picked` below `beliefs`.
        unsafe {
            let (model, picks) = (self.model.args(), PicksArgs { count, picked: &picked, chosen: chosen.get() });
            expect(device, shape, model, beliefs, picks, winners.get(), self.vectors.rows(), expected)?;
            gather(device, shape, model, picks, expected, out)
        }
    }

    /// Appends the new vectors of a batch to `out`.
    fn back_up(&mut self, batch: &[Belief], product: Product, out: &mut Plans) -> Result<(), DeviceError> {
        let beliefs = self.upload(batch)?;
        self.decide(&beliefs, product)?;
        self.build(beliefs.count, &(0..beliefs.count).collect::<Vec<_>>())?;
        let mut found = vec![0; batch.len()];
        self.device.download(self.work.chosen.get(), &mut found)?;
        let mut winners = vec![0; self.codes(beliefs.count)];
        self.device.download(self.work.winners.get(), &mut winners)?;
        let actions = self.actions as usize;
        for (j, &action) in found.iter().enumerate() {
            let first = j * actions + action as usize;
            out.next.extend(winners.iter().skip(first).step_by(batch.len() * actions));
        }
        let mut values = vec![T::ZERO; batch.len() * self.states as usize];
        self.device.download(self.work.out.get(), &mut values)?;
        out.vectors.append(values.into_iter().map(T::to_f64), &found);
        Ok(())
    }

    /// The best vector of each belief, and its value.
    pub(super) fn best_of(&mut self, beliefs: &Beliefs<T>) -> Result<Vec<(u32, f64)>, DeviceError> {
        let best = self.best_vectors(beliefs)?;
        let Self { device, states, .. } = *self;
        let Work { best_vector, best_value, .. } = &mut self.work;
        let (shape, alpha) = (Shape::new(beliefs.count, THREADS), self.vectors.rows());
        // SAFETY: `best_vectors` has written an index of Γ for each belief.
        unsafe {
            evaluate_winners(device, shape, states, beliefs.args(), best_vector.get(), alpha, best_value.get_mut())?
        };
        let mut values = vec![0.0; best.len()];
        device.download(best_value.get(), &mut values)?;
        Ok(best.into_iter().zip(values).collect())
    }

    /// The best vector of each belief.
    pub(super) fn best_vectors(&mut self, beliefs: &Beliefs<T>) -> Result<Vec<u32>, DeviceError> {
        self.check_vectors();
        let count = beliefs.count as usize;
        let product = self.cheaper(count as f64, beliefs.entries());
        let Self { device, .. } = *self;
        let Work { numbers, best_vector, best_value, .. } = &mut self.work;
        best_vector.at_least(device, count)?;
        best_value.at_least(device, count)?;
        let numbers = numbers.numbers(device, count)?;
        match product {
            Product::Sparse => {
                let alpha = self.vectors.columns(device)?;
                let shape = Shape::new(beliefs.count.max(1), SPARSE_THREADS);
                // SAFETY: `upload` and `compress` yield states below |S|. The beliefs are the rows, their codes are 0
                // to `count` − 1, and the outputs have `count` elements.
                unsafe {
                    best_of_sparse(
                        device,
                        shape,
                        beliefs.count,
                        beliefs.args(),
                        numbers,
                        alpha,
                        best_vector.get_mut(),
                        best_value.get_mut(),
                    )?;
                }
            }
            Product::Dense { exact: true } => self.best_of_dense_beliefs::<f32>(beliefs)?,
            Product::Dense { exact: false } => self.best_of_dense_beliefs::<u16>(beliefs)?,
        }
        let mut best = vec![0; count];
        device.download(self.work.best_vector.get(), &mut best)?;
        Ok(best)
    }

    /// Finds the best vectors of beliefs with dense rows.
    fn best_of_dense_beliefs<E: Kept>(&mut self, beliefs: &Beliefs<T>) -> Result<(), DeviceError> {
        let at_a_time = self.rows_at_a_time::<E>();
        for first in (0..beliefs.count).step_by(at_a_time as usize) {
            let count = (beliefs.count - first).min(at_a_time);
            let (stride, steps) = self.clear_rows::<E>(count)?;
            let x = E::kept_mut(&mut self.vectors).0.x.get_mut();
            let used = self.work.used.get_mut();
            // SAFETY: `upload` and `compress` yield states below |S|, and `clear_rows` has zeroed a row for each belief
            // of the chunk.
            unsafe {
                let shape = Shape::new(count, THREADS);
                let dense = DenseRowsArgs { stride, rows: x, steps, used };
                expand_beliefs(self.device, shape, first, beliefs.args(), dense)?;
            }
            self.best_of_rows::<E>(first, count, true)?;
        }
        Ok(())
    }
}

/// The power of 2 that scales the largest value of any policy to at most 1.
fn scale(model: &Pomdp) -> f64 {
    let largest = max_norm(&model.expected_rewards());
    let magnitude = largest / (1.0 - model.gamma());
    if magnitude > 0.0 && magnitude.is_finite() { (-magnitude.log2().ceil()).exp2() } else { 1.0 }
}

impl<T: Precise> PointBackup for Backups<'_, T> {
    type Error = DeviceError;

    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), DeviceError> {
        self.vectors.clear();
        self.vector_actions.clear();
        self.add_vectors(vectors)
    }

    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), DeviceError> {
        assert!(vectors.fit(self.states, self.actions), "alpha vectors fit the model");
        self.vectors.add(self.device, vectors.values())?;
        self.vector_actions.extend(vectors.actions());
        Ok(())
    }

    fn backup_part(&mut self, beliefs: &[Belief], part: Range<usize>) -> Result<Plans, DeviceError> {
        let mut out = Plans { vectors: AlphaVectors::new(self.states), next: Vec::new() };
        let branches: Vec<usize> = beliefs.iter().map(|belief| self.entries(belief)).collect();
        let product = self.choose(beliefs.len(), branches.iter().sum());
        let (mut rest, mut branches) = (&beliefs[part.clone()], branches[part].to_vec());
        while !rest.is_empty() {
            let count = self.batch(&branches, product);
            let (batch, later) = rest.split_at(count);
            self.back_up(batch, product, &mut out)?;
            branches.drain(..count);
            rest = later;
        }
        Ok(out)
    }

    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, DeviceError> {
        let beliefs = self.upload(beliefs)?;
        self.best_of(&beliefs)
    }
}
