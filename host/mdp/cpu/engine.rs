//! Greedy sweeps on all cores: value iteration, and modified policy iteration.

use std::convert::Infallible;

use rayon::prelude::*;

use super::layout::{self, BLOCK, Change, Layout, Storage};
use crate::common::interrupt;
use crate::mdp::backend::{Backups, Correct, Evaluate, Evaluation, GreedySweeps, Modify, State, Stop};
use crate::mdp::model::{Mdp, NO_ACTION};
use crate::runtime::Precise;

/// Blocks that one task of a parallel loop sweeps, at least.
const BLOCKS_PER_TASK: usize = 4;

/// In which order the states of a greedy sweep are backed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// All at once: every state sees the values before the sweep.
    #[default]
    Jacobi,
    /// One after the other, forth and back in turns: the states of a block see the new values of those before them. Blocks
    /// of this many states are swept at once, and see each other as they were: one block of all states is the classic
    /// method, on one core.
    GaussSeidel {
        /// States of a block, at least 1.
        block: usize,
    },
}

impl Order {
    /// Gauss-Seidel on all cores. The result does not depend on how many there are.
    pub const BLOCKS: Self = Self::GaussSeidel { block: 16 * BLOCK };
}

/// How the engine works; the default is the fastest for most models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// How the model is stored.
    pub storage: Storage,
    /// The order of backups in a greedy sweep.
    pub order: Order,
    /// Whether blocks are left out of which no successor changed, in any bit, in the sweep before: they cannot change.
    pub skip: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { storage: Storage::Auto, order: Order::Jacobi, skip: true }
    }
}

/// All cores, on a compact copy of the model.
pub struct Engine<'m, T: Precise> {
    model: &'m Mdp,
    order: Order,
    layout: Box<dyn Layout<T> + 'm>,
    /// The model with the actions of the policy only, once asked for.
    projected: Option<Box<dyn Layout<T>>>,
    values: Iterates<T>,
    policy: Vec<u32>,
    /// Whether greedy sweeps have been done since `policy` was; it is that of the values before the last of them.
    stale: bool,
    /// Whether the next Gauss-Seidel sweep goes back.
    backward: bool,
    /// The span of changes at which V was last shifted.
    shifted: f64,
}

/// V before and after the last sweep, and what has changed in between.
struct Iterates<T> {
    old: Vec<T>,
    new: Vec<T>,
    /// Whether any bit of a block changed in the last sweep, for each block.
    changed: Vec<bool>,
    /// Whether `changed` says so of a sweep with the same operator.
    known: bool,
    /// Whether some state of a block has actions.
    acts: Vec<bool>,
    /// The blocks that each depends on; `None` where it is all, and empty where nothing is to be skipped.
    dependencies: Vec<Option<Box<[u32]>>>,
}

impl<T: Precise> Iterates<T> {
    /// One sweep, after which the values are in `old`, and those before in `new`.
    fn sweep(&mut self, layout: &dyn Layout<T>) -> Change {
        let Self { old, new, changed, known, acts, dependencies } = self;
        let some_changed = changed.iter().any(|&changed| changed);
        let idle = |block: usize| {
            *known
                && match dependencies.get(block) {
                    Some(Some(blocks)) => !blocks.iter().any(|&block| changed[block as usize]),
                    Some(None) => !some_changed,
                    None => false,
                }
        };
        let of_block = |(block, target): (usize, &mut [T])| {
            if !idle(block) {
                return layout.backup(block * BLOCK, old, target);
            }
            // `target` is one sweep behind.
            if changed[block] {
                target.copy_from_slice(&old[block * BLOCK..][..target.len()]);
            }
            if acts[block] { Change::ZERO } else { Change::NONE }
        };
        let blocks = new.par_chunks_mut(BLOCK).enumerate().with_min_len(BLOCKS_PER_TASK).map(of_block);
        let changes: Vec<Change> = blocks.collect();
        *changed = changes.iter().map(|change| change.any).collect();
        *known = true;
        std::mem::swap(old, new);
        changes.into_iter().fold(Change::NONE, Change::and)
    }

    /// One sweep in which the states of each block of `size` see each other's new values.
    fn sweep_in_place(&mut self, layout: &dyn Layout<T>, size: usize, backward: bool) -> Change {
        let Self { old, new, known, .. } = self;
        new.par_chunks_mut(BLOCK).zip(old.par_chunks(BLOCK)).for_each(|(new, old)| new.copy_from_slice(old));
        let blocks = new.par_chunks_mut(size).enumerate();
        let change = blocks.map(|(block, target)| layout.backup_in_place(block * size, old, target, backward));
        let change = change.reduce(|| Change::NONE, Change::and);
        *known = false;
        std::mem::swap(old, new);
        change
    }
}

impl<'m, T: Precise> Engine<'m, T> {
    /// Stores the model, and starts at V = 0 and the first action of every state.
    #[must_use]
    pub fn new(model: &'m Mdp, options: EngineOptions) -> Self {
        let states = model.states() as usize;
        let layout = layout::store::<T>(model, options.storage);
        let acts = (0..states).step_by(BLOCK).map(|first| layout.acts(first..states.min(first + BLOCK))).collect();
        let values = Iterates {
            old: vec![T::ZERO; states],
            new: vec![T::ZERO; states],
            changed: vec![true; states.div_ceil(BLOCK)],
            known: false,
            acts,
            dependencies: if options.skip { layout.dependencies(states) } else { Vec::new() },
        };
        Self {
            model,
            order: options.order,
            layout,
            projected: None,
            values,
            policy: model.first_policy(),
            stale: false,
            backward: false,
            shifted: f64::INFINITY,
        }
    }

    /// Adds what all values lack alike, where the changes of the last sweep, a Jacobi sweep, tell that it is a good part of
    /// what they lack: Gauss-Seidel sweeps make that smaller by a factor of γ or so only. V* − V is γ/(1 − γ) times something
    /// between these changes, and after that γ/(1 − γ) times half their span at most. It is done at spans that are each at
    /// most half of the one before, so that sweeps converge whatever it does.
    fn shift(&mut self, least: f64, greatest: f64) {
        let (middle, span, gamma) = ((least + greatest) / 2.0, greatest - least, self.model.gamma());
        let shift = middle * gamma / (1.0 - gamma);
        if middle.abs() > span / 8.0 && span <= self.shifted / 2.0 && shift.is_finite() {
            self.shifted = span;
            self.values.old.par_iter_mut().for_each(|value| *value = T::from_f64(value.to_f64() + shift));
            self.values.known = false;
        }
    }

    /// Improves `policy` with respect to `v`.
    fn improve_for(layout: &dyn Layout<T>, v: &[T], policy: &mut [u32], tie: f64) -> u64 {
        let blocks = policy.par_chunks_mut(BLOCK).enumerate();
        blocks.map(|(block, policy)| layout.improve(block * BLOCK, v, policy, tie)).sum()
    }

    /// Brings the policy up to date after greedy sweeps.
    fn refresh(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.policy.fill(NO_ACTION);
            Self::improve_for(&*self.layout, &self.values.new, &mut self.policy, 0.0);
            self.projected = None;
        }
    }

    /// The number of states.
    pub(super) fn states(&self) -> usize {
        self.values.old.len()
    }

    /// Which states act.
    pub(super) fn acting(&self) -> Vec<bool> {
        (0..self.states()).into_par_iter().map(|state| self.model.choices().count(state) > 0).collect()
    }

    /// P^π without its rewards, and r^π.
    pub(super) fn system(&mut self) -> (Box<dyn Layout<T>>, Vec<T>) {
        self.refresh();
        let nothing = vec![T::ZERO; self.states()];
        let mut reward = nothing.clone();
        let projected = self.layout.project(&self.policy, true);
        reward.par_chunks_mut(BLOCK).enumerate().for_each(|(block, reward)| {
            projected.backup(block * BLOCK, &nothing, reward);
        });
        (self.layout.project(&self.policy, false), reward)
    }

    /// V.
    pub(super) fn present(&self) -> &[T] {
        &self.values.old
    }

    /// Puts `values` in the place of V.
    pub(super) fn replace(&mut self, values: &[T]) {
        self.refresh();
        self.values.old.copy_from_slice(values);
        self.values.known = false;
    }
}

impl<T: Precise> State for Engine<'_, T> {
    type Error = Infallible;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Infallible> {
        self.policy = self.model.first_policy();
        (self.stale, self.projected, self.values.known, self.backward) = (false, None, false, false);
        self.shifted = f64::INFINITY;
        match initial {
            Some(initial) => self.values.old.copy_from_slice(&T::of(initial)),
            None => self.values.old.fill(T::ZERO),
        }
        let Iterates { old, new, .. } = &mut self.values;
        new.par_iter_mut().zip(old).zip(&self.policy).with_min_len(BLOCK).for_each(|((new, old), &action)| {
            if action == NO_ACTION {
                *old = T::ZERO;
            }
            *new = *old;
        });
        Ok(())
    }

    fn values(&mut self) -> Result<Vec<f64>, Infallible> {
        Ok(self.values.old.par_iter().with_min_len(BLOCK).map(|v| v.to_f64()).collect())
    }

    fn policy(&mut self) -> Result<Vec<u32>, Infallible> {
        self.refresh();
        Ok(self.policy.clone())
    }

    /// After greedy sweeps the certificate's pass finds it on the way.
    fn policy_is_implicit(&self) -> bool {
        self.stale
    }

    /// What is stored of the model, or of the policy where it was evaluated last; and V, read and written.
    fn sweep_bytes(&mut self) -> Result<u64, Infallible> {
        let layout = if self.stale { None } else { self.projected.as_deref() };
        let model = layout.map_or_else(|| self.layout.bytes(), |layout| layout.bytes());
        Ok(model + 2 * size_of_val(&self.values.old[..]) as u64)
    }
}

impl<T: Precise> GreedySweeps for Engine<'_, T> {
    /// Gauss-Seidel ends with a Jacobi sweep, whose changes tell how far V is from V*; those of its own do not.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, Infallible> {
        let mut sweeps = 0;
        if !self.stale {
            // What was evaluated last was another operator.
            self.values.known = false;
        }
        self.stale = true;
        let bound = match stop {
            Stop::Change(bound) | Stop::Span(bound) => bound,
        };
        // How small a Gauss-Seidel sweep's ‖ΔV‖∞ must be before the sweep that counts is tried.
        let mut worth_trying = bound;
        loop {
            if let Order::GaussSeidel { block } = self.order {
                while sweeps + 1 < max_sweeps {
                    let Self { layout, values, .. } = self;
                    let change = values.sweep_in_place(&**layout, block.max(1), self.backward);
                    self.backward = !self.backward;
                    sweeps += 1;
                    if change.norm() < worth_trying || !change.any || interrupt::requested() {
                        break;
                    }
                }
                worth_trying /= 4.0;
            }
            let change = self.values.sweep(&*self.layout);
            sweeps += 1;
            // Where no state has actions nothing changes.
            let Change { least, greatest, any } = if change.least > change.greatest { Change::ZERO } else { change };
            if sweeps >= max_sweeps || !any || stop.is_met(least, greatest) || interrupt::requested() {
                if matches!((self.order, stop), (Order::GaussSeidel { .. }, Stop::Span(_)))
                    && !stop.is_met(least, greatest)
                {
                    self.shift(least, greatest);
                }
                return Ok(Backups { sweeps, least, greatest, fixed: !any });
            }
        }
    }

    fn uneven(&self) -> Option<f64> {
        (self.order != Order::Jacobi).then_some(T::UNIT)
    }
}

impl<T: Precise> Modify for Engine<'_, T> {
    fn unit(&self) -> f64 {
        T::UNIT
    }
}

impl<T: Precise> Correct for Engine<'_, T> {
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, Infallible> {
        self.refresh();
        (self.projected, self.values.known) = (None, false);
        Ok(self.layout.set_rewards(rewards))
    }
}

impl<T: Precise> Evaluate for Engine<'_, T> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Infallible> {
        self.refresh();
        let mut evaluation = Evaluation { sweeps: 0, residual: f64::INFINITY };
        self.values.known = false;
        let projected = self.projected.get_or_insert_with(|| self.layout.project(&self.policy, true));
        while evaluation.sweeps < max_sweeps && evaluation.residual >= theta {
            let residual = self.values.sweep(&**projected).norm();
            evaluation = Evaluation { sweeps: evaluation.sweeps + 1, residual };
            if interrupt::requested() {
                break;
            }
        }
        self.values.known = false;
        Ok(evaluation)
    }

    fn improve(&mut self, tie: f64) -> Result<u64, Infallible> {
        self.refresh();
        let changed = Self::improve_for(&*self.layout, &self.values.old, &mut self.policy, tie);
        if changed > 0 {
            self.projected = None;
        }
        Ok(changed)
    }
}
