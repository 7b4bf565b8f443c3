//! Greedy and evaluation sweeps on all cores, for value iteration and modified policy iteration.

use std::ops::Range;

use rayon::prelude::*;
use warpkov_common::parallel;

use super::layout::{self, BLOCK, Change, Storable, Storage};
use crate::backend::{
    Backups, Correct, Evaluate, Evaluation, GreedySweeps, InRound, Modify, SWEEPS_PER_ROUND, State, Stop,
};
use crate::model::{Mdp, NO_ACTION, Part};
use crate::team::{GhostsOnTheirWay, Team};
use warpkov_common::interrupt;
use warpkov_runtime::Precise;
use warpkov_runtime::comm::Error;

/// Order of the backups in a greedy sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupOrder {
    /// Every state sees the values before the sweep.
    #[default]
    Jacobi,
    /// States are backed up in place, in forward and backward order alternately. Within a block, later states see the
    /// new values of earlier ones. All blocks run in parallel and see each other's values before the sweep. One block
    /// of all states is the classic Gauss-Seidel method on one core.
    GaussSeidel {
        /// States per block, at least 1.
        block: usize,
    },
}

impl BackupOrder {
    /// Gauss-Seidel on all cores. The result does not depend on the number of cores.
    pub const BLOCKS: Self = Self::GaussSeidel { block: 16 * BLOCK };
}

/// Options of the engine; the default is the fastest for most models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Layout of the model.
    pub storage: Storage,
    /// Order of the backups in a greedy sweep.
    ///
    pub order: BackupOrder,
    /// Whether to skip blocks none of whose successors changed, in any bit, in the previous sweep; their values cannot
    /// change.
    pub skip: bool,
    /// Greedy Jacobi sweeps for each exchange of ghosts, at least 1.
    pub local_sweeps: u32,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { storage: Storage::Auto, order: BackupOrder::Jacobi, skip: true, local_sweeps: 1 }
    }
}

/// Sweeps on all cores over a compact copy of the model, or of the part of this rank.
pub struct Engine<'m, T: Precise> {
    model: &'m Mdp,
    team: Team<'m>,
    order: BackupOrder,
    /// Greedy Jacobi sweeps for each exchange of ghosts.
    local_sweeps: u32,
    layout: Box<dyn Storable<T> + 'm>,
    /// P^π and r^π of the current policy, built on demand.
    projected: Option<Box<dyn Storable<T>>>,
    values: Iterates<T>,
    policy: Vec<u32>,
    /// Whether `policy` is older than the last greedy sweep. The current policy is greedy with respect to the values
    /// before that sweep.
    stale: bool,
    /// The span of changes at the last shift of V.
    in_round: InRound,
}

/// V before and after the last sweep, with the data for skipping.
struct Iterates<T> {
    old: Vec<T>,
    new: Vec<T>,
    /// Per block, whether any bit of V changed in the last sweep.
    changed: Vec<bool>,
    /// Whether `changed` describes a sweep with the present operator.
    changed_valid: bool,
    /// Per block, whether any of its states has actions.
    has_actions: Vec<bool>,
    /// The blocks that each block depends on; `None` for all blocks. Empty if skipping is disabled.
    dependencies: Vec<Option<Box<[u32]>>>,
    /// Per block, whether it depends on ghosts. Empty if there are none.
    at_border: Vec<bool>,
}

impl<T: Precise> Iterates<T> {
    /// Replaces the ghosts of V.
    fn refresh(&mut self, team: &Team) -> Result<(), Error> {
        let ghosts = team.send(&self.old)?;
        take(ghosts, &mut self.old, &mut self.changed)
    }

    /// Runs one sweep. Afterwards `old` holds the new values and `new` the previous ones. Blocks at the border wait for
    /// the ghosts, which arrive while the others are swept.
    fn sweep(&mut self, layout: &dyn Storable<T>, team: &Team) -> Result<Change, Error> {
        let ghosts = team.send(&self.old)?;
        let waits = |block: usize| self.at_border.get(block).is_some_and(|&waits| waits);
        let (inside, border): (Vec<_>, Vec<_>) =
            (0..self.changed.len()).zip(self.new.chunks_mut(BLOCK)).partition(|(block, _)| !waits(*block));
        let Self { old, changed, changed_valid, has_actions, dependencies, .. } = self;
        let of_blocks = |blocks: Vec<(usize, &mut [T])>, old: &[T], changed: &[bool]| {
            let some_changed = changed.iter().any(|&changed| changed);
            let skippable = |block: usize| {
                *changed_valid
                    && match dependencies.get(block) {
                        Some(Some(blocks)) => !blocks.iter().any(|&block| changed[block as usize]),
                        Some(None) => !some_changed,
                        None => false,
                    }
            };
            let of_block = |(block, target): (usize, &mut [T])| {
                if !skippable(block) {
                    return (block, layout.backup(block * BLOCK, old, target));
                }
                // `target` holds the values before the previous sweep.
                if changed[block] {
                    target.copy_from_slice(&old[block * BLOCK..][..target.len()]);
                }
                (block, if has_actions[block] { Change::ZERO } else { Change::NONE })
            };
            parallel::map(blocks, of_block)
        };
        let mut changes = of_blocks(inside, old, changed);
        take(ghosts, old, changed)?;
        changes.extend(of_blocks(border, old, changed));
        for (block, change) in &changes {
            changed[*block] = change.any;
        }
        *changed_valid = true;
        for peer in team.part().into_iter().flat_map(Part::receives) {
            self.new[peer.ghosts.clone()].copy_from_slice(&old[peer.ghosts.clone()]);
        }
        std::mem::swap(old, &mut self.new);
        Ok(changes.into_iter().map(|(_, change)| change).fold(Change::NONE, Change::and))
    }

    /// Takes the last sweep back: `old` holds the values before it, and so does `new`.
    fn undo(&mut self) {
        std::mem::swap(&mut self.old, &mut self.new);
        self.new.copy_from_slice(&self.old);
        self.changed_valid = false;
    }

    /// Runs one Gauss-Seidel sweep in blocks of `size` states.
    fn sweep_in_place(
        &mut self,
        layout: &dyn Storable<T>,
        team: &Team,
        size: usize,
        backward: bool,
    ) -> Result<Change, Error> {
        let Self { old, new, changed_valid, .. } = self;
        team.refresh(old)?;
        new.par_chunks_mut(BLOCK).zip(old.par_chunks(BLOCK)).for_each(|(new, old)| new.copy_from_slice(old));
        let blocks = new.par_chunks_mut(size).enumerate();
        let change = blocks.map(|(block, target)| layout.backup_in_place(block * size, old, target, backward));
        let change = change.reduce(|| Change::NONE, Change::and);
        *changed_valid = false;
        std::mem::swap(old, new);
        Ok(change)
    }
}

/// Puts received values in place of the ghosts, and marks the blocks of those that changed.
fn take<T: Precise>(ghosts: GhostsOnTheirWay, values: &mut [T], changed: &mut [bool]) -> Result<(), Error> {
    ghosts.receive(|first, ghosts: &[T]| {
        for (state, &ghost) in (first..).zip(ghosts) {
            changed[state / BLOCK] |= ghost.to_f64().to_bits() != values[state].to_f64().to_bits();
            values[state] = ghost;
        }
    })
}

/// The change over all ranks, and whether a stop was requested on any of them.
fn reduced(team: &Team, change: Change) -> Result<(Change, bool), Error> {
    let change = if team.works() { change } else { Change::NONE };
    let mut numbers = [-change.least, change.greatest, f64::from(change.any), f64::from(interrupt::requested())];
    team.max(&mut numbers)?;
    let [least, greatest, any, stopped] = numbers;
    Ok((Change { least: -least, greatest, any: any > 0.0 }, stopped > 0.0))
}

impl<'m, T: Precise> Engine<'m, T> {
    /// Converts the model to its layout; V = 0 and the first action of every state.
    #[must_use]
    pub fn new(model: &'m Mdp, options: EngineOptions) -> Self {
        Self::in_team(model, options, Team::alone())
    }

    /// [`new`](Self::new) for the part of one rank. All ranks call the methods in the same order.
    #[must_use]
    pub fn in_team(model: &'m Mdp, options: EngineOptions, team: Team<'m>) -> Self {
        let (states, team_of_one) = (model.states() as usize, team.part().is_none());
        let layout = layout::store::<T>(model, options.storage);
        let mut dependencies = Vec::new();
        if options.skip || team.part().is_some() {
            dependencies = layout.dependencies(states);
        }
        let at_border = team.part().map_or_else(Vec::new, |part| {
            let with_ghosts = |block: &u32| {
                let block = *block as usize * BLOCK..states.min((*block as usize + 1) * BLOCK);
                block.start < part.own.start || part.own.end < block.end
            };
            let depends =
                |blocks: &Option<Box<[u32]>>| blocks.as_ref().is_none_or(|blocks| blocks.iter().any(with_ghosts));
            dependencies.iter().map(depends).collect()
        });
        if !options.skip {
            dependencies.clear();
        }
        let has_actions =
            (0..states).step_by(BLOCK).map(|first| layout.has_actions(first..states.min(first + BLOCK))).collect();
        let values = Iterates {
            old: vec![T::ZERO; states],
            new: vec![T::ZERO; states],
            changed: vec![true; states.div_ceil(BLOCK)],
            changed_valid: false,
            has_actions,
            dependencies,
            at_border,
        };
        Self {
            model,
            team,
            order: options.order,
            local_sweeps: if team_of_one { 1 } else { options.local_sweeps },
            layout,
            projected: None,
            values,
            policy: model.first_policy(),
            stale: false,
            in_round: InRound::START,
        }
    }

    /// Shifts V by its estimated common error, from the changes of the last Jacobi sweep, if that error is large
    /// compared to their span. Gauss-Seidel sweeps reduce a common error only by about γ each.
    ///
    /// Each component of V* − V is γ/(1 − γ) times a number within the range of the changes. After the shift it is at
    /// most γ/(1 − γ) times half their span. Each shift requires a span of at most half the previous one, so shifts
    /// cannot prevent convergence.
    fn shift(&mut self, least: f64, greatest: f64) {
        let (middle, span, gamma) = ((least + greatest) / 2.0, greatest - least, self.model.gamma());
        let shift = middle * gamma / (1.0 - gamma);
        if middle.abs() > span / 8.0 && span <= self.in_round.shift_span / 2.0 && shift.is_finite() {
            self.in_round.shift_span = span;
            self.values.old.par_iter_mut().for_each(|value| *value = T::from_f64(value.to_f64() + shift));
            self.values.changed_valid = false;
        }
    }

    /// Improves `policy` greedily with respect to `v`; returns the number of changed actions.
    fn improve_for(layout: &dyn Storable<T>, v: &[T], policy: &mut [u32], tie: f64) -> u64 {
        let blocks = policy.par_chunks_mut(BLOCK).enumerate();
        blocks.map(|(block, policy)| layout.improve(block * BLOCK, v, policy, tie)).sum()
    }

    /// Computes the policy of the last greedy sweep.
    fn update_policy(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.policy.fill(NO_ACTION);
            Self::improve_for(&*self.layout, &self.values.new, &mut self.policy, 0.0);
            self.projected = None;
        }
    }

    /// The ranks that share the model.
    pub(super) fn team(&self) -> &Team<'m> {
        &self.team
    }

    /// The states that are no ghosts.
    pub(super) fn own(&self) -> Range<usize> {
        self.model.own()
    }

    /// The number of states, with ghosts.
    pub(super) fn states(&self) -> usize {
        self.values.old.len()
    }

    /// Whether each state has actions.
    pub(super) fn has_actions(&self) -> Vec<bool> {
        let model = self.model;
        (0..self.states()).into_par_iter().map(|state| model.choices().count(state) > 0).collect()
    }

    /// γP^π as a layout without rewards, and r^π.
    pub(super) fn system(&mut self) -> (Box<dyn Storable<T>>, Vec<T>) {
        self.update_policy();
        let nothing = vec![T::ZERO; self.states()];
        let mut reward = nothing.clone();
        let projected = self.layout.project(&self.policy, true);
        reward.par_chunks_mut(BLOCK).enumerate().for_each(|(block, reward)| {
            projected.backup(block * BLOCK, &nothing, reward);
        });
        (self.layout.project(&self.policy, false), reward)
    }

    /// The current V.
    pub(super) fn current_values(&self) -> &[T] {
        &self.values.old
    }

    /// Replaces V.
    pub(super) fn set_values(&mut self, values: &[T]) {
        self.update_policy();
        self.values.old.copy_from_slice(values);
        self.values.changed_valid = false;
    }
}

impl<T: Precise> State for Engine<'_, T> {
    type Error = Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Error> {
        self.policy = self.model.first_policy();
        (self.stale, self.projected, self.values.changed_valid) = (false, None, false);
        self.in_round = InRound::START;
        match initial {
            Some(initial) => self.values.old.copy_from_slice(&T::rounded(initial)),
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

    fn values(&mut self) -> Result<Vec<f64>, Error> {
        self.values.refresh(&self.team)?;
        let v = &self.values.old;
        Ok(parallel::array(v.len(), |state| v[state].to_f64()))
    }

    fn magnitude(&mut self) -> Result<f64, Error> {
        let largest = self.values.old.par_iter().with_min_len(BLOCK).map(|v| v.to_f64().abs()).reduce(|| 0.0, f64::max);
        let mut all = [largest];
        self.team.max(&mut all)?;
        Ok(all[0])
    }

    fn policy(&mut self) -> Result<Vec<u32>, Error> {
        self.update_policy();
        Ok(self.policy.clone())
    }

    /// After greedy sweeps, the pass of the certificate computes the policy as well.
    fn policy_is_implicit(&self) -> bool {
        self.stale
    }

    fn in_round(&self) -> InRound {
        self.in_round
    }

    fn set_in_round(&mut self, state: InRound) {
        self.in_round = state;
    }

    /// The stored model, or P^π after an evaluation; and V, read and written.
    fn sweep_bytes(&mut self) -> Result<u64, Error> {
        let layout = if self.stale { None } else { self.projected.as_deref() };
        let model = layout.map_or_else(|| self.layout.bytes(), |layout| layout.bytes());
        Ok(model + 2 * size_of_val(&self.values.old[..]) as u64)
    }
}

impl<T: Precise> GreedySweeps for Engine<'_, T> {
    /// Gauss-Seidel sweeps end with a Jacobi sweep: its changes bound the distance to V*, those of Gauss-Seidel sweeps
    /// do not. Likewise, local sweeps follow a sweep after an exchange, whose changes alone count, and the last sweep is
    /// such a one. If ‖V − V*‖∞ ≤ e at the exchange, every sweep until the next one leaves ≤ γe; the span of the changes
    /// may fall more slowly than in sweeps of all ranks.
    ///
    /// A round of Gauss-Seidel sweeps that `max_sweeps` or a request to stop cuts short leaves V as its last sweep in place did: the Jacobi
    /// sweep, the only one of a call for one sweep, then only measures. The next call goes on with the round, so that a resumed run has the bits of one that was not cut.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, Error> {
        let mut sweeps = 0;
        if !self.stale {
            // `changed` describes an evaluation sweep.
            self.values.changed_valid = false;
        }
        self.stale = true;
        let InRound { sweeps: before, mut backward, trial, .. } = self.in_round;
        // Of each Gauss-Seidel sweep; a Jacobi sweep tests the stop below it.
        let mut trial = trial.min(stop.bound());
        let is_cut = max_sweeps < self.sweeps_per_round();
        loop {
            let mut only_measures = false;
            if let BackupOrder::GaussSeidel { block } = self.order {
                only_measures = is_cut;
                while sweeps + 1 < max_sweeps {
                    let Self { layout, values, team, .. } = self;
                    let change = values.sweep_in_place(&**layout, team, block.max(1), backward)?;
                    let (change, stopped) = reduced(&self.team, change)?;
                    backward = !backward;
                    sweeps += 1;
                    if change.norm() < trial || !change.any || stopped {
                        only_measures = stopped && change.norm() >= trial && change.any;
                        break;
                    }
                }
            }
            let change = self.values.sweep(&*self.layout, &self.team)?;
            let (change, stopped) = reduced(&self.team, change)?;
            // No state has actions.
            let Change { least, greatest, any } = if change.least > change.greatest { Change::ZERO } else { change };
            let met = stop.is_met(least, greatest);
            if let (BackupOrder::GaussSeidel { .. }, true, false) = (self.order, only_measures, met) {
                self.values.undo();
                self.in_round = InRound { sweeps: before + sweeps, backward, trial, ..self.in_round };
                return Ok(Backups { sweeps: sweeps + 1, least, greatest, fixed: !any });
            }
            sweeps += 1;
            trial /= 4.0;
            if sweeps >= max_sweeps || !any || met || stopped {
                if let BackupOrder::GaussSeidel { .. } = self.order {
                    if any && !met && (is_cut || sweeps < max_sweeps) {
                        self.in_round = InRound { sweeps: before + sweeps, backward, trial, ..self.in_round };
                    } else {
                        self.in_round = InRound { shift_span: self.in_round.shift_span, ..InRound::START };
                        if let (Stop::Span(_), false) = (stop, met) {
                            self.shift(least, greatest);
                        }
                    }
                }
                return Ok(Backups { sweeps, least, greatest, fixed: !any });
            }
            for _ in 1..self.local_sweeps.min(max_sweeps - sweeps) {
                self.values.sweep(&*self.layout, &Team::alone())?;
                sweeps += 1;
            }
        }
    }

    /// What is left of a round.
    fn sweeps_per_round(&self) -> u32 {
        SWEEPS_PER_ROUND - self.in_round.sweeps.min(SWEEPS_PER_ROUND - 1)
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        (self.order != BackupOrder::Jacobi || self.local_sweeps > 1).then_some(T::UNIT)
    }
}

impl<T: Precise> Modify for Engine<'_, T> {
    fn unit(&self) -> f64 {
        T::UNIT
    }
}

impl<T: Precise> Correct for Engine<'_, T> {
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, Error> {
        self.update_policy();
        (self.projected, self.values.changed_valid) = (None, false);
        Ok(self.layout.set_rewards(rewards))
    }
}

impl<T: Precise> Evaluate for Engine<'_, T> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Error> {
        self.update_policy();
        let mut evaluation = Evaluation { sweeps: 0, residual: f64::INFINITY };
        self.values.changed_valid = false;
        let projected = self.projected.get_or_insert_with(|| self.layout.project(&self.policy, true));
        while evaluation.sweeps < max_sweeps && evaluation.residual >= theta {
            let change = self.values.sweep(&**projected, &self.team)?;
            let (change, stopped) = reduced(&self.team, change)?;
            evaluation = Evaluation { sweeps: evaluation.sweeps + 1, residual: change.norm() };
            if stopped {
                break;
            }
        }
        self.values.changed_valid = false;
        Ok(evaluation)
    }

    fn improve(&mut self, tie: f64) -> Result<u64, Error> {
        self.update_policy();
        self.values.refresh(&self.team)?;
        let changed = Self::improve_for(&*self.layout, &self.values.old, &mut self.policy, tie);
        if changed > 0 {
            self.projected = None;
        }
        self.team.count(changed)
    }
}
