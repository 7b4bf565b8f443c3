//! The fast path: beliefs projected forward, the best vector of each row, and the winners carried back.

use warpkov_kernels::launch::{Device, Shape};
use warpkov_kernels::pomdp::best_action::best_action;
use warpkov_kernels::pomdp::gather::{belief_values, gather};
use warpkov_kernels::pomdp::product::{
    DENSE_SHARED, DENSE_THREADS, SPARSE_THREADS, TILE, best_of_dense, best_of_sparse, rescore,
};
use warpkov_kernels::pomdp::project::{compact_rows, count_entries, densify, expand, fill_entries, flag_rows, predict};

use super::buffers::{Matrix, Scratch, Vectors};
use crate::backend::Precise;
use crate::backend::device::scan::{exclusive_scan, scratch_len};
use crate::pomdp::alpha::AlphaVectors;
use crate::pomdp::backup::Backup;
use crate::pomdp::belief::Belief;
use crate::pomdp::model::{Pomdp, by_columns};

/// Threads of a block, where a kernel does not say.
const THREADS: u32 = 256;

/// How the best vector of each row is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Entry by entry, in the precision of the vectors: for rows of few entries.
    Sparse,
    /// On tensor cores: rows of |S| elements; factors of 11 bits, or where `exact` of about 21.
    Dense {
        /// Three products for one.
        exact: bool,
    },
}

/// What a batch may take at one time; a single belief takes what it must.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Elements of a dense array: rows, or predictions.
    pub elements: usize,
    /// Entries of sparse rows.
    pub entries: usize,
}

impl Default for Limits {
    /// A few GiB in all.
    fn default() -> Self {
        Self { elements: 1 << 28, entries: 1 << 27 }
    }
}

/// Work per entry of a sparse row, against that of an element of a dense one on tensor cores.
const SPARSE_WORK: f64 = 64.0;

/// Point-based backups on a device, with vectors in precision T. The model and Γ stay there.
///
/// What is returned does not depend on the limits, and is the same at every run.
///
/// # Panics
/// Where a backup is asked for and Γ is empty, or a belief or vector is not of the model's states.
pub struct Backups<'d, T: Precise, D: Device> {
    device: &'d D,
    states: u32,
    actions: u32,
    observations: u32,
    gamma: f64,
    /// T, rows s·A + a; by columns, rows a·S + s'; and O.
    transitions: Matrix<T, D>,
    columns: Option<Matrix<T, D>>,
    seen: Matrix<T, D>,
    reward: D::Buffer<T>,
    vectors: Vectors<T, D>,
    vector_actions: Vec<u32>,
    /// Σ over a and s' of the observations that may follow each state.
    ways: Vec<u32>,
    product: Option<Product>,
    limits: Limits,
    work: Work<T, D>,
}

/// Memory that is used again from batch to batch.
struct Work<T: Precise, D: Device> {
    counts: Scratch<u32, D>,
    flags: Scratch<u32, D>,
    offsets: Scratch<u32, D>,
    ranks: Scratch<u32, D>,
    scan: Scratch<u32, D>,
    row_code: Scratch<u32, D>,
    row_ptr: Scratch<u32, D>,
    rows: Scratch<u32, D>,
    col: Scratch<u32, D>,
    weight: Scratch<T, D>,
    dense: Scratch<T, D>,
    predicted: Scratch<T, D>,
    expanded: Scratch<f32, D>,
    best: Scratch<u64, D>,
    winners: Scratch<u32, D>,
    scores: Scratch<f64, D>,
    values: Scratch<f64, D>,
    chosen: Scratch<u32, D>,
    out: Scratch<T, D>,
}

impl<T: Precise, D: Device> Work<T, D> {
    fn new(device: &D) -> Result<Self, D::Error> {
        Ok(Self {
            counts: Scratch::new(device)?,
            flags: Scratch::new(device)?,
            offsets: Scratch::new(device)?,
            ranks: Scratch::new(device)?,
            scan: Scratch::new(device)?,
            row_code: Scratch::new(device)?,
            row_ptr: Scratch::new(device)?,
            rows: Scratch::new(device)?,
            col: Scratch::new(device)?,
            weight: Scratch::new(device)?,
            dense: Scratch::new(device)?,
            predicted: Scratch::new(device)?,
            expanded: Scratch::new(device)?,
            best: Scratch::new(device)?,
            winners: Scratch::new(device)?,
            scores: Scratch::new(device)?,
            values: Scratch::new(device)?,
            chosen: Scratch::new(device)?,
            out: Scratch::new(device)?,
        })
    }
}

/// Beliefs on a device, as compressed rows.
struct Beliefs<T: Precise, D: Device> {
    count: u32,
    row_ptr: D::Buffer<u32>,
    state: D::Buffer<u32>,
    prob: D::Buffer<T>,
}

impl<T: Precise, D: Device> Beliefs<T, D> {
    fn upload(device: &D, beliefs: &[Belief]) -> Result<Self, D::Error> {
        let ends = beliefs.iter().scan(0, |end, belief| {
            *end += belief.states.len() as u32;
            Some(*end)
        });
        let row_ptr: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let states: Vec<u32> = beliefs.iter().flat_map(|belief| &belief.states).copied().collect();
        let probs: Vec<f64> = beliefs.iter().flat_map(|belief| &belief.probs).copied().collect();
        Ok(Self {
            count: beliefs.len() as u32,
            row_ptr: device.upload(&row_ptr)?,
            state: device.upload(&states)?,
            prob: device.upload(&T::of(&probs))?,
        })
    }
}

impl<'d, T: Precise, D: Device> Backups<'d, T, D> {
    /// Uploads a valid model, of which rewards are to be maximised. Without a `product`, each batch has the one with less work.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(device: &'d D, model: &Pomdp, product: Option<Product>, limits: Limits) -> Result<Self, D::Error> {
        let (states, actions) = (model.states(), model.actions());
        let ways = |state: u32| -> u32 {
            let follow = |action| model.successors(state, action).0.iter().map(move |&next| (action, next));
            (0..actions).flat_map(follow).map(|(action, next)| model.observed(action, next).0.len() as u32).sum()
        };
        Ok(Self {
            device,
            states,
            actions,
            observations: model.observation_count,
            gamma: model.gamma(),
            transitions: Matrix::upload(device, &model.process.transitions)?,
            columns: match product {
                Some(Product::Sparse) => None,
                _ => Some(Matrix::upload(device, &by_columns(&model.process.transitions, states, actions))?),
            },
            seen: Matrix::upload(device, &model.observations)?,
            reward: device.upload(&T::of(&model.expected_rewards()))?,
            vectors: Vectors::new(device, states)?,
            vector_actions: Vec::new(),
            ways: (0..states).map(ways).collect(),
            product,
            limits,
            work: Work::new(device)?,
        })
    }

    /// Beliefs, uploaded once it is certain that kernels may read what they name.
    fn upload(&self, beliefs: &[Belief]) -> Result<Beliefs<T, D>, D::Error> {
        assert!(!self.vector_actions.is_empty(), "there is no vector to back up");
        let mut states = beliefs.iter().flat_map(|belief| &belief.states);
        assert!(states.all(|&state| state < self.states), "a belief in a state that the model does not have");
        Beliefs::upload(self.device, beliefs)
    }

    /// Entries of the sparse rows of a belief.
    fn entries(&self, belief: &Belief) -> usize {
        belief.states.iter().map(|&state| self.ways[state as usize] as usize).sum()
    }

    /// The product with less work: rows of few entries are sparse.
    fn choose(&self, beliefs: &[Belief]) -> Product {
        let entries: usize = beliefs.iter().map(|belief| self.entries(belief)).sum();
        let pairs = beliefs.len() as f64 * f64::from(self.actions);
        let rows = pairs * f64::from(self.observations).min(entries as f64 / pairs.max(1.0));
        let sparse = SPARSE_WORK * entries as f64 <= rows * f64::from(self.states);
        self.product.unwrap_or(if sparse { Product::Sparse } else { Product::Dense { exact: true } })
    }

    /// How many of `beliefs` make a batch.
    fn batch(&self, beliefs: &[Belief], product: Product) -> usize {
        let fits = match product {
            Product::Dense { .. } => self.limits.elements / (self.actions as usize * self.states as usize),
            Product::Sparse => {
                let mut left = self.limits.entries;
                beliefs
                    .iter()
                    .take_while(|belief| {
                        let entries = self.entries(belief);
                        let fits = entries <= left;
                        left = left.saturating_sub(entries);
                        fits
                    })
                    .count()
            }
        };
        // Codes are counted in 32 bits, and a warp for each pair of belief and action in a launch of 2³¹ blocks at most.
        let codes = self.limits.elements / (self.actions as usize * self.observations as usize);
        let vectors = self.limits.elements / self.states as usize;
        fits.min(codes).min(vectors).clamp(1, beliefs.len())
    }

    fn codes(&self, beliefs: u32) -> usize {
        beliefs as usize * self.actions as usize * self.observations as usize
    }

    /// Row numbers by code, and what follows from them; the number of rows.
    fn compact(&mut self, codes: usize, entries: usize) -> Result<u32, D::Error> {
        let Work { counts, flags, offsets, ranks, scan, row_code, row_ptr, rows, .. } = &mut self.work;
        let device = self.device;
        let scan = scan.of(device, scratch_len(codes))?;
        let most = codes.min(entries);
        let (ranks, offsets) = (ranks.of(device, codes + 1)?, offsets.of(device, codes + 1)?);
        exclusive_scan(device, codes, flags.get(), ranks, scan)?;
        exclusive_scan(device, codes, counts.get(), offsets, scan)?;
        let (row_code, row_ptr) = (row_code.of(device, most)?, row_ptr.of(device, most + 1)?);
        let (rows, shape) = (rows.of(device, 1)?, Shape::cover(codes as u64, THREADS));
        // SAFETY: there are no more rows than codes and than entries.
        unsafe { compact_rows(device, shape, codes as u32, ranks, offsets, row_code, row_ptr, rows)? };
        let mut found = [0];
        device.download(rows, &mut found)?;
        Ok(found[0])
    }

    /// Winners and scores by code, through sparse rows of `entries` entries in all.
    fn sparse(&mut self, beliefs: &Beliefs<T, D>, entries: usize) -> Result<(), D::Error> {
        let Self { device, states, actions, observations, .. } = *self;
        let codes = self.codes(beliefs.count);
        let warps = Shape::cover(u64::from(beliefs.count) * u64::from(actions) * 32, THREADS);
        let (t, o) = (&self.transitions, &self.seen);
        let counts = self.work.counts.cleared(device, codes)?;
        let flags = self.work.flags.of(device, codes)?;
        // SAFETY: the model is valid, beliefs are of its states, and buffers have room for every code.
        unsafe {
            count_entries(
                device,
                warps,
                states,
                actions,
                observations,
                beliefs.count,
                &beliefs.row_ptr,
                &beliefs.state,
                &t.row_ptr,
                &t.col,
                &o.row_ptr,
                &o.col,
                counts,
            )?;
            flag_rows(device, Shape::cover(codes as u64, THREADS), codes as u32, counts, flags)?;
        }
        let rows = self.compact(codes, entries)?;
        let (t, o) = (&self.transitions, &self.seen);
        let Work { offsets, row_code, row_ptr, col, weight, winners, scores, .. } = &mut self.work;
        let (col, weight) = (col.of(device, entries)?, weight.of(device, entries)?);
        let (alpha, stride) = self.vectors.columns(device)?;
        // SAFETY: as above; rows have `entries` entries in all, and there is a vector.
        unsafe {
            fill_entries(
                device,
                warps,
                states,
                actions,
                observations,
                beliefs.count,
                &beliefs.row_ptr,
                &beliefs.state,
                &beliefs.prob,
                &t.row_ptr,
                &t.col,
                &t.val,
                &o.row_ptr,
                &o.col,
                &o.val,
                offsets.get_mut(),
                col,
                weight,
            )?;
            best_of_sparse(
                device,
                Shape::new(rows.max(1), SPARSE_THREADS),
                rows,
                self.vector_actions.len() as u32,
                stride,
                row_ptr.get(),
                row_code.get(),
                col,
                weight,
                alpha,
                winners.get_mut(),
                scores.get_mut(),
            )
        }
    }

    /// The same through dense rows, as many at a time as there is room for.
    fn dense(&mut self, beliefs: &Beliefs<T, D>, columns: &Matrix<T, D>, exact: bool) -> Result<(), D::Error> {
        let Self { device, states, actions, observations, .. } = *self;
        let codes = self.codes(beliefs.count);
        let pairs = beliefs.count as usize * actions as usize;
        let elements = Shape::cover((pairs * states as usize) as u64, THREADS);
        let flags = self.work.flags.cleared(device, codes)?;
        self.work.counts.cleared(device, codes)?;
        let dense = self.work.dense.cleared(device, beliefs.count as usize * states as usize)?;
        let q = self.work.predicted.of(device, pairs * states as usize)?;
        // SAFETY: the model is valid, beliefs are of its states, and buffers have room for every code.
        unsafe {
            densify(
                device,
                Shape::cover(u64::from(beliefs.count) * 32, THREADS),
                states,
                beliefs.count,
                &beliefs.row_ptr,
                &beliefs.state,
                &beliefs.prob,
                dense,
            )?;
            predict(
                device,
                elements,
                states,
                actions,
                observations,
                beliefs.count,
                dense,
                &columns.row_ptr,
                &columns.col,
                &columns.val,
                &self.seen.row_ptr,
                &self.seen.col,
                q,
                flags,
            )?;
        }
        let rows = self.compact(codes, codes)?;
        let (stride, vectors) = (self.vectors.padded_stride(), self.vectors.count());
        let at_a_time = (self.limits.elements / stride as usize).clamp(TILE, 1 << 24) / TILE * TILE;
        let Work { ranks, row_code, predicted, expanded, best, winners, scores, .. } = &mut self.work;
        self.vectors.pad(device)?;
        let (alpha, padded) = (self.vectors.rows(), self.vectors.padded());
        let mut first = 0;
        while first < rows {
            let count = (rows - first).min(at_a_time as u32);
            let whole = count.next_multiple_of(TILE as u32);
            let x = expanded.cleared(device, whole as usize * stride as usize)?;
            let keys = best.cleared(device, count as usize)?;
            let tiles = (whole / TILE as u32) * vectors.div_ceil(TILE as u32);
            let product = Shape::new(tiles, DENSE_THREADS).with_shared(DENSE_SHARED);
            let o = &self.seen;
            // SAFETY: as above; rows and vectors are whole tiles, padded with zeros to whole steps.
            unsafe {
                expand(
                    device,
                    elements,
                    states,
                    actions,
                    observations,
                    beliefs.count,
                    predicted.get(),
                    &o.row_ptr,
                    &o.col,
                    &o.val,
                    ranks.get(),
                    first,
                    count,
                    stride,
                    x,
                )?;
                if exact {
                    best_of_dense::<3, D>(device, product, count, vectors, stride, x, padded, keys)?;
                } else {
                    best_of_dense::<1, D>(device, product, count, vectors, stride, x, padded, keys)?;
                }
                rescore(
                    device,
                    Shape::cover(u64::from(count) * 32, THREADS),
                    states,
                    first,
                    count,
                    stride,
                    x,
                    keys,
                    row_code.get(),
                    alpha,
                    winners.get_mut(),
                    scores.get_mut(),
                )?;
            }
            first += count;
        }
        Ok(())
    }

    /// The new vectors of a batch.
    fn back_up(&mut self, batch: &[Belief], product: Product, out: &mut AlphaVectors) -> Result<(), D::Error> {
        let Self { device, states, actions, observations, gamma, .. } = *self;
        let beliefs = self.upload(batch)?;
        let codes = self.codes(beliefs.count);
        self.work.winners.cleared(device, codes)?;
        self.work.scores.cleared(device, codes)?;
        match (product, self.columns.take()) {
            (Product::Dense { exact }, Some(columns)) => {
                let done = self.dense(&beliefs, &columns, exact);
                self.columns = Some(columns);
                done?;
            }
            (_, columns) => {
                self.columns = columns;
                self.sparse(&beliefs, batch.iter().map(|belief| self.entries(belief)).sum())?;
            }
        }
        let Work { winners, scores, values, chosen, out: built, .. } = &mut self.work;
        let pairs = beliefs.count as usize * actions as usize;
        let (values, chosen) = (values.of(device, pairs)?, chosen.of(device, batch.len())?);
        let built = built.of(device, batch.len() * states as usize)?;
        let (t, o) = (&self.transitions, &self.seen);
        // SAFETY: as above; every winner is a vector, every chosen action one of the model's.
        unsafe {
            belief_values(
                device,
                Shape::cover(pairs as u64 * 32, THREADS),
                actions,
                observations,
                beliefs.count,
                gamma,
                &beliefs.row_ptr,
                &beliefs.state,
                &beliefs.prob,
                &self.reward,
                scores.get(),
                values,
            )?;
            best_action(device, Shape::cover(batch.len() as u64, THREADS), actions, beliefs.count, values, chosen)?;
            gather(
                device,
                Shape::cover(batch.len() as u64 * u64::from(states), THREADS),
                states,
                actions,
                observations,
                beliefs.count,
                gamma,
                chosen,
                winners.get(),
                &t.row_ptr,
                &t.col,
                &t.val,
                &o.row_ptr,
                &o.col,
                &o.val,
                &self.reward,
                self.vectors.rows(),
                built,
            )?;
        }
        let mut found = vec![0; batch.len()];
        device.download(chosen, &mut found)?;
        out.actions.extend(found);
        let mut found = vec![T::ZERO; batch.len() * states as usize];
        device.download(built, &mut found)?;
        out.values.extend(found.into_iter().map(T::to_f64));
        Ok(())
    }
}

impl<T: Precise, D: Device> Backup for Backups<'_, T, D> {
    type Error = D::Error;

    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), D::Error> {
        self.vectors.clear();
        self.vector_actions.clear();
        self.add_vectors(vectors)
    }

    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), D::Error> {
        assert_eq!(vectors.states, self.states, "vectors of another model");
        self.vectors.add(self.device, &vectors.values)?;
        self.vector_actions.extend(&vectors.actions);
        Ok(())
    }

    fn backup(&mut self, beliefs: &[Belief]) -> Result<AlphaVectors, D::Error> {
        let mut out = AlphaVectors::new(self.states);
        let mut rest = beliefs;
        let product = self.choose(beliefs);
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.batch(rest, product));
            self.back_up(batch, product, &mut out)?;
            rest = later;
        }
        Ok(out)
    }

    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, D::Error> {
        let device = self.device;
        let uploaded = self.upload(beliefs)?;
        let codes: Vec<u32> = (0..uploaded.count).collect();
        let codes = device.upload(&codes)?;
        let (alpha, stride) = self.vectors.columns(device)?;
        let Work { winners, scores, .. } = &mut self.work;
        let (winners, scores) = (winners.of(device, beliefs.len())?, scores.of(device, beliefs.len())?);
        // SAFETY: beliefs are of the model's states; they are the rows, and their numbers the codes.
        unsafe {
            best_of_sparse(
                device,
                Shape::new(uploaded.count.max(1), SPARSE_THREADS),
                uploaded.count,
                self.vector_actions.len() as u32,
                stride,
                &uploaded.row_ptr,
                &codes,
                &uploaded.state,
                &uploaded.prob,
                alpha,
                winners,
                scores,
            )?;
        }
        let (mut best, mut values) = (vec![0; beliefs.len()], vec![0.0; beliefs.len()]);
        device.download(winners, &mut best)?;
        device.download(scores, &mut values)?;
        Ok(best.into_iter().zip(values).collect())
    }
}
