//! Walks on a device, with backups and upper bounds at their beliefs.

use std::collections::HashMap;
use std::ops::Range;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::pomdp::walk::{ANEW, GuideArgs, StartArgs, WALK_THREADS, WalksArgs, act, advance, compress};

use crate::alpha::AlphaVectors;
use crate::backend::{Improved, Plans, PointBackup, Trials, Walked, Walks};
use crate::backends::device::backup::{Backups, THREADS};
use crate::backends::device::beliefs::Beliefs;
use crate::backends::device::upper::Upper;
use crate::belief::Belief;
use crate::compact::{Compact, closure};
use crate::model::Pomdp;
use crate::support::Supports;
use warpkov_runtime::Precise;
use warpkov_runtime::scratch::scratch;

/// Maximum number of batches whose best vectors decide which vectors stay.
const SAMPLED_BATCHES: usize = 16;

/// Simultaneous walks, with their backups and upper bounds.
pub struct Walkers<'d, T: Precise> {
    backups: Backups<'d, T>,
    upper: Upper<T>,
    /// 1 for absorbing states.
    ends: AnyBuffer<u8>,
    /// Number of branches (a, s', o) out of each state.
    branches: AnyBuffer<u32>,
    /// b₀: its states, and the cumulative probabilities.
    start: (Belief, AnyBuffer<u32>, AnyBuffer<f64>),
    start_row: AnyBuffer<T>,
    place: WalkState<T>,
    /// Beliefs of the last walks; each batch precedes those of later steps.
    batches: Vec<Beliefs<T>>,
    /// Upper limits on the number of terms in a backup: of a row of T plus a row of O, and of a belief plus |Ω|.
    terms: [f64; 2],
    gamma: f64,
    /// Continuations of the vectors of Γ, and retired vectors.
    supports: Supports,
    /// Host copy of the first vectors of Γ, as of the last pruning.
    mirror: AlphaVectors,
}

scratch! {
    /// State of each walk.
    struct WalkState<T: Precise> {
        /// Hidden states.
        state: u32,
        /// Last actions.
        action: u32,
        /// Last observations.
        seen: u32,
        /// Identifiers of histories; equal histories have equal beliefs.
        history: u64,
        /// Nonzeros and branches of each belief.
        sizes: u32,
        /// Dense beliefs before the step.
        now: T,
        /// Dense beliefs after the step.
        next: T,
    }
}

impl<'d, T: Precise> Walkers<'d, T> {
    /// Prepares walks in the model of `backups`. `informed` is the fast informed bound Q(s, a) at index s·A + a.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// If `backups` or `informed` have other dimensions than the model.
    pub fn new(
        device: &'d AnyDevice,
        model: &Pomdp,
        backups: Backups<'d, T>,
        informed: &[f64],
    ) -> Result<Self, DeviceError> {
        let states = model.states();
        let sizes = |of: &Backups<'_, T>| (of.states, of.actions, of.observations);
        let own = (states, model.actions(), model.observation_count());
        assert_eq!(own, sizes(&backups), "backups have the dimensions of the model");
        let pairs = states as usize * model.actions() as usize;
        assert_eq!(informed.len(), pairs, "the informed bound has |S||A| elements");
        let ends: Vec<u8> = (0..states).map(|state| u8::from(model.is_absorbing(state))).collect();
        let start = model.start().clone();
        let mut row = vec![0.0; states as usize];
        start.iter().for_each(|(state, prob)| row[state as usize] = prob);
        let sums = start.probs().iter().scan(0.0, |sum, prob| {
            *sum += prob;
            Some(*sum)
        });
        let (start_states, start_sums) = (device.upload(start.states())?, device.upload(&sums.collect::<Vec<f64>>())?);
        let longest = [model.process().transitions(), model.observations()].map(|matrix| {
            let rows = matrix.row_ptr().windows(2).map(|ends| ends[1] - ends[0]);
            rows.max().unwrap_or_default() as f64
        });
        Ok(Self {
            upper: Upper::new(device, model.actions(), informed)?,
            ends: device.upload(&ends)?,
            branches: device.upload(backups.branches())?,
            start: (start, start_states, start_sums),
            start_row: device.upload(&T::rounded(&row))?,
            place: WalkState::new(device)?,
            batches: Vec::new(),
            terms: [longest.iter().sum(), f64::from(states) + f64::from(model.observation_count())],
            gamma: model.gamma(),
            supports: Supports::new(model.observation_count(), backups.vector_actions().len()),
            mirror: AlphaVectors::new(states),
            backups,
        })
    }

    /// The [closure] of Γ and the retired vectors. Every entry is lowered by `slack`, the bound c on rounding errors, so that the
    /// result is supported: if α ≤ L α + (1 − γ) c, then L (α − c) = L α − γ c ≥ α − c.
    ///
    /// After a failed operation, Γ is the one before it: the host knows the continuations of these vectors, and the
    /// device still holds the vectors that the host lacks.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn into_vectors(mut self, model: &Pomdp, slack: f64) -> Result<Compact, DeviceError> {
        self.backups.download_into(&mut self.mirror, self.supports.active())?;
        let (all, next) = self.supports.join(self.mirror);
        drop(self.supports);
        let Compact { mut vectors, mut support } = closure(model, &all, &next);
        vectors.values_mut().iter_mut().for_each(|value| *value -= slack);
        support.value -= slack;
        Ok(Compact { vectors, support })
    }

    /// Γ, without retired vectors.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn vectors(&self) -> Result<AlphaVectors, DeviceError> {
        let mut vectors = AlphaVectors::new(self.backups.states);
        self.backups.download_into(&mut vectors, self.count())?;
        Ok(vectors)
    }

    /// Number of retired vectors.
    #[must_use]
    pub fn retired(&self) -> usize {
        self.supports.retired().len()
    }

    /// The beliefs of a batch of the last walks.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn beliefs(&self, batch: usize) -> Result<Vec<Belief>, DeviceError> {
        self.batches[batch].download(self.backups.device)
    }

    /// Advances all walks by one step. `best_of` are the actions of the unguided walks.
    fn step(
        &mut self,
        walks: &Walks,
        best_in: &AnyBuffer<u32>,
        best_of: &[u32],
        seed: u64,
        step: u32,
    ) -> Result<(), DeviceError> {
        let Backups { device, states, model, .. } = &self.backups;
        let (device, states, model, count) = (*device, *states, model.args(), walks.count as usize);
        let WalkState { state, action, seen, history, sizes, now, next } = &mut self.place;
        std::mem::swap(now, next);
        let cells = count * states as usize;
        let (action, seen) = (action.at_least(device, count)?, seen.at_least(device, count)?);
        // SAFETY: `Pomdp` guarantees columns of T below |S| and of O below |Ω|. `walk` and `add_vectors` have checked
        // that actions are below |A|. `best_in` has |S| elements, and all other buffers have an element or a row per
        // walk.
        unsafe {
            act(
                device,
                Shape::cover(count as u64, THREADS),
                model,
                &self.ends,
                StartArgs { count: self.start.0.states().len() as u32, state: &self.start.1, sum: &self.start.2 },
                GuideArgs {
                    first: walks.optimistic,
                    guided: walks.guided,
                    explored: walks.explored,
                    best_in,
                    best_of: &device.upload(best_of)?,
                },
                seed,
                step,
                WalksArgs {
                    count: walks.count,
                    state: state.get_mut(),
                    action: &mut *action,
                    seen: &mut *seen,
                    history: history.at_least(device, count)?,
                },
            )?;
            advance(
                device,
                Shape::new(walks.count, WALK_THREADS),
                model,
                action,
                seen,
                &self.start_row,
                &self.branches,
                now.at_least(device, cells)?,
                next.at_least(device, cells)?,
                sizes.at_least(device, 2 * count)?,
            )
        }
    }

    /// Stores the distinct beliefs of all walks in batches within the limits. Returns the batch and position of each
    /// walk's belief.
    fn keep(&mut self, count: usize) -> Result<Vec<(usize, u32)>, DeviceError> {
        let (device, states) = (self.backups.device, self.backups.states);
        let WalkState { history, sizes, next, .. } = &self.place;
        let (mut histories, mut found) = (vec![0; count], vec![0; 2 * count]);
        device.download(history.get(), &mut histories)?;
        device.download(sizes.get(), &mut found)?;
        let mut numbers = HashMap::new();
        let mut picked: Vec<u32> = Vec::new();
        let number = histories.iter().zip(0..).map(|(history, walk)| {
            *numbers.entry(*history).or_insert_with(|| {
                picked.push(walk);
                picked.len() - 1
            })
        });
        let number: Vec<usize> = number.collect();
        let first = self.batches.len();
        let mut places = Vec::with_capacity(picked.len());
        let mut rest = &picked[..];
        while !rest.is_empty() {
            let branches: Vec<usize> = rest.iter().map(|&walk| found[2 * walk as usize + 1] as usize).collect();
            let (batch, later) = rest.split_at(self.backups.fitting(&branches));
            let ends = batch.iter().scan(0, |end, &walk| {
                *end += found[2 * walk as usize];
                Some(*end)
            });
            let row_ptr: Vec<u32> = std::iter::once(0).chain(ends).collect();
            let entries = row_ptr[batch.len()] as usize;
            let mut beliefs = Beliefs {
                count: batch.len() as u32,
                branches: branches[..batch.len()].iter().sum(),
                row_ptr: device.upload(&row_ptr)?,
                state: device.zeros(entries)?,
                prob: device.zeros(entries)?,
            };
            let Beliefs { row_ptr, state, prob, .. } = &mut beliefs;
            let shape = Shape::new(batch.len() as u32, WALK_THREADS);
            // SAFETY: `batch` holds indices of walks, and `state` and `prob` have room for the nonzeros that `advance`
            // counted.
            unsafe { compress(device, shape, states, &device.upload(batch)?, row_ptr, next.get(), state, prob)? };
            places.extend((0..batch.len() as u32).map(|place| (self.batches.len(), place)));
            self.batches.push(beliefs);
            rest = later;
        }
        debug_assert!(first < self.batches.len());
        Ok(number.into_iter().map(|number| places[number]).collect())
    }

    /// Actions of the unguided walks, whose beliefs are in the batches from `first` on: the best by the upper bound for
    /// the first `optimistic` walks, as far as time permits, and the action of the best vector for the others.
    fn actions_at(
        &mut self,
        places: &[(usize, u32)],
        first: usize,
        optimistic: usize,
    ) -> Result<Vec<u32>, DeviceError> {
        let mut best = Vec::new();
        for batch in &self.batches[first..] {
            best.push(self.backups.best_vectors(batch)?);
        }
        let actions = self.backups.vector_actions();
        let action = |&(batch, j): &(usize, u32)| actions[best[batch - first][j as usize] as usize];
        let mut actions: Vec<u32> = places.iter().map(action).collect();
        // Beliefs are in the order of walks, so those of optimistic walks come first.
        let bounded = places[..optimistic].iter().filter(|place| place.0 == first).map(|place| place.1 + 1).max();
        if let Some(bounded) = bounded.filter(|_| first.is_multiple_of(self.upper.every())) {
            let batch = &self.batches[first];
            let bounded = bounded.min(self.upper.fitting(&self.backups, batch));
            let best = self.upper.actions(&mut self.backups, batch, bounded)?;
            for (action, &(batch, j)) in actions.iter_mut().zip(&places[..optimistic]) {
                if batch == first
                    && let Some(&best) = best.get(j as usize)
                {
                    *action = best;
                }
            }
        }
        Ok(actions)
    }

    fn belief_bytes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.bytes() as u64).sum()
    }
}

impl<T: Precise> PointBackup for Walkers<'_, T> {
    type Error = DeviceError;

    /// Each vector continues with itself.
    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), DeviceError> {
        self.backups.set_vectors(vectors)?;
        self.supports = Supports::new(self.backups.observations, vectors.len());
        self.mirror = AlphaVectors::new(vectors.states());
        Ok(())
    }

    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), DeviceError> {
        let count = self.count();
        self.backups.add_vectors(vectors)?;
        for vector in count..count + vectors.len() {
            self.supports.push(&vec![vector as u32; self.backups.observations as usize]);
        }
        Ok(())
    }

    fn backup_part(&mut self, beliefs: &[Belief], part: Range<usize>) -> Result<Plans, DeviceError> {
        self.backups.backup_part(beliefs, part)
    }

    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, DeviceError> {
        self.backups.best(beliefs)
    }
}

impl<T: Precise> Trials for Walkers<'_, T> {
    fn walk(
        &mut self,
        walks: &Walks,
        steps: u32,
        bytes: u64,
        seed: u64,
        late: &mut dyn FnMut() -> bool,
    ) -> Result<Walked, DeviceError> {
        let (device, count) = (self.backups.device, walks.count as usize);
        let known = |&action: &u32| action < self.backups.actions;
        let one_each = walks.best_in.len() == self.backups.states as usize;
        assert!(one_each && walks.best_in.iter().all(known), "best actions are below |A|, one per state");
        let best_in = device.upload(&walks.best_in)?;
        self.batches.clear();
        let state = self.place.state.at_least(device, count)?;
        *state = device.upload(&vec![ANEW; state.len()])?;
        let mut best_of = vec![0; count];
        for step in 0..=steps {
            self.step(walks, &best_in, &best_of, seed, step)?;
            let first = self.batches.len();
            let places = self.keep(count)?;
            if self.belief_bytes() >= bytes || late() {
                break;
            }
            if walks.guided < walks.count && step < steps {
                best_of = self.actions_at(&places, first, walks.optimistic as usize)?;
            }
        }
        Ok(Walked { batches: self.batches.len(), beliefs: self.batches.iter().map(|batch| batch.count as usize).sum() })
    }

    fn set_rough(&mut self, rough: bool) {
        self.backups.rough = rough;
    }

    fn improve(&mut self, batch: usize, min_improvement: f64) -> Result<Improved, DeviceError> {
        let beliefs = &self.batches[batch];
        let (risen, next) = self.backups.improve(beliefs, min_improvement)?;
        next.chunks(self.backups.observations as usize).for_each(|next| self.supports.push(next));
        Ok(Improved { beliefs: beliefs.count as usize, risen })
    }

    fn tighten(&mut self, batch: usize, min_improvement: f64) -> Result<f64, DeviceError> {
        if !batch.is_multiple_of(self.upper.every()) {
            return Ok(0.0);
        }
        self.upper.tighten(&mut self.backups, &self.batches[batch], min_improvement)
    }

    fn upper(&mut self, beliefs: &[Belief]) -> Result<Vec<f64>, DeviceError> {
        let device = self.backups.device;
        self.upper.at(device, &Beliefs::upload(device, beliefs, 0)?)
    }

    fn uses(&mut self, batch: usize) -> Result<Vec<u64>, DeviceError> {
        let mut uses = vec![0_u64; self.count()];
        let last = self.batches.len().min(batch + 1);
        // An even sample of the batches, which contains b₀.
        for (number, batch) in self.batches[..last].iter().enumerate().step_by(last.div_ceil(SAMPLED_BATCHES).max(1)) {
            // Batch 0 holds b₀.
            let weight = if number == 0 { u64::MAX / 2 } else { 1 };
            for vector in self.backups.best_vectors(batch)? {
                uses[vector as usize] = uses[vector as usize].saturating_add(weight);
            }
        }
        Ok(uses)
    }

    fn retain(&mut self, stays: &[bool]) -> Result<(), DeviceError> {
        if stays.iter().all(|&stays| stays) {
            return Ok(());
        }
        self.backups.download_into(&mut self.mirror, stays.len())?;
        self.supports.retain(&self.mirror, stays, &mut || false);
        self.mirror = self.mirror.retain(|vector| stays[vector]);
        let picked: Vec<u32> = (0..stays.len() as u32).filter(|&vector| stays[vector as usize]).collect();
        self.backups.pick(&picked)
    }

    fn drop_points(&mut self, bytes: u64) -> Result<(), DeviceError> {
        self.upper.shrink(self.backups.device, bytes as usize)
    }

    fn plans_from(&mut self, first: usize) -> Result<Plans, DeviceError> {
        Ok(Plans { vectors: self.backups.vectors_from(first)?, next: self.supports.from(first).to_vec() })
    }

    fn plans(&mut self) -> Result<Plans, DeviceError> {
        // A stopped launch may have left vectors without continuations behind these.
        let mut active = AlphaVectors::new(self.backups.states);
        self.backups.download_into(&mut active, self.supports.active())?;
        let (vectors, next) = self.supports.join(active);
        Ok(Plans { vectors, next })
    }

    fn replace_from(&mut self, first: usize, plans: &Plans) -> Result<(), DeviceError> {
        self.backups.truncate(first);
        self.supports.truncate(first);
        self.mirror.truncate(first);
        self.backups.add_vectors(&plans.vectors)?;
        plans.next.chunks(self.backups.observations as usize).for_each(|next| self.supports.push(next));
        Ok(())
    }

    fn new_points(&mut self) -> Result<Vec<(Belief, f64)>, DeviceError> {
        self.upper.new_points(self.backups.device)
    }

    fn add_points(&mut self, points: &[(Belief, f64)], min_improvement: f64) -> Result<(), DeviceError> {
        self.upper.add_points(&self.backups, points, min_improvement)
    }

    fn count(&self) -> usize {
        self.backups.vector_actions().len()
    }

    fn bytes(&self) -> u64 {
        let mirror = self.mirror.capacity() * size_of::<f64>();
        (self.backups.vector_bytes() + self.upper.bytes() + self.supports.bytes() + mirror) as u64 + self.belief_bytes()
    }

    /// Backup: an element is r + γ Σ p Σ q α in f64. Its operands, the inner sum over o, and the result are rounded to
    /// T: six roundings in T, and one in f64 per term. Earlier errors are discounted.
    ///
    /// Upper bound: predictions are rounded to T, beliefs are exact, and the sums over beliefs and observations add
    /// further terms.
    fn slack(&self, largest: f64) -> [f64; 2] {
        let magnitude = largest / (1.0 - self.gamma);
        let [backup, belief] = self.terms;
        let slack = |terms: f64| (8.0 * T::UNIT + 4.0 * (terms + 16.0) * f64::UNIT) * magnitude / (1.0 - self.gamma);
        [slack(backup), slack(backup + belief)]
    }
}
