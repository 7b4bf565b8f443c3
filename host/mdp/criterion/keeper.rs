//! What a solve has proposed so far, in the states of the model, and its checkpoints.

use super::Persistence;
use crate::checkpoint::{Proposal, hash};
use crate::model::Mdp;
use crate::solution::Run;
use warpkov_common::checkpoint::{Checkpoints, Hash};

/// What the sweeps of a stage compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Values of the model that a criterion is reduced to.
    Values,
    /// The bias.
    Bias,
    /// Weights, which are found again from the values.
    #[default]
    Weights,
}

/// The place of no state in the model of a stage.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Keeps the checkpoints of a solve.
#[derive(Default)]
pub(super) struct Keeper<'a> {
    checkpoints: Option<&'a mut Checkpoints>,
    resume: Option<&'a Proposal>,
    problem: String,
    model: Hash,
    stage: Stage,
    /// The place of each state of the model in the model of the stage.
    place: Vec<u32>,
    /// Sweeps over values, in all.
    sweeps: u64,
    proposal: Proposal,
}

impl<'a> Keeper<'a> {
    /// The keeper of a problem in words.
    pub(super) fn new(mdp: &Mdp, persistence: Persistence<'a>, problem: impl FnOnce() -> String) -> Self {
        let Persistence { resume, checkpoints } = persistence;
        let (problem, model) = match &checkpoints {
            Some(checkpoints) if checkpoints.writes() => (problem(), hash(mdp)),
            _ => Default::default(),
        };
        let proposal = resume.cloned().unwrap_or_default();
        Self { checkpoints, resume, problem, model, sweeps: proposal.sweeps, proposal, ..Self::default() }
    }

    /// Whether checkpoints are written, on this rank or another.
    pub(super) fn keeps(&self) -> bool {
        self.checkpoints.is_some()
    }

    /// Whether the next one is due, by the clock of this rank.
    pub(super) fn is_due(&self) -> bool {
        self.checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.is_due())
    }

    /// The record before a checkpoint.
    pub(super) fn earlier(&self) -> Option<&'a Run> {
        self.resume.map(|resume| &resume.run)
    }

    /// Sweeps over values before a checkpoint.
    pub(super) fn earlier_sweeps(&self) -> u64 {
        self.resume.map_or(0, |resume| resume.sweeps)
    }

    /// Seconds before a checkpoint.
    pub(super) fn earlier_seconds(&self) -> f64 {
        self.earlier().map_or(0.0, |run| run.elapsed.as_secs_f64())
    }

    /// Begins a stage whose model has a place for some states of the whole model, and returns the stage before. A
    /// checkpoint may have values to begin with: those of the `places` places.
    pub(super) fn enter(&mut self, stage: Stage, place: Vec<u32>, places: usize) -> Option<Vec<f64>> {
        (self.stage, self.place) = (stage, place);
        let proposal = self.resume?;
        let found = if stage == Stage::Bias { &proposal.bias } else { &proposal.values };
        let found = found.as_ref().filter(|found| found.len() == self.place.len())?;
        let mut values = vec![0.0; places];
        for (&place, &value) in self.place.iter().zip(found).filter(|(place, _)| **place != NOWHERE) {
            *values.get_mut(place as usize)? = value;
        }
        Some(values)
    }

    /// Changes the stage, and keeps the places. Returns the stage before.
    pub(super) fn switch(&mut self, stage: Stage) -> Stage {
        std::mem::replace(&mut self.stage, stage)
    }

    /// Whether sweeps compute values of the proposal.
    pub(super) fn reads(&self) -> bool {
        self.stage != Stage::Weights
    }

    /// Counts sweeps of this stage.
    pub(super) fn count(&mut self, sweeps: u32) {
        if self.reads() {
            self.sweeps += u64::from(sweeps);
        }
    }

    /// Notes the values of this stage.
    pub(super) fn note(&mut self, values: &[f64]) {
        if !self.keeps() || values.iter().any(|value| !value.is_finite()) {
            return;
        }
        let value = |&place: &u32| values.get(place as usize).copied().unwrap_or(0.0);
        let of_states = Some(self.place.iter().map(value).collect());
        self.proposal.sweeps = self.sweeps;
        match self.stage {
            Stage::Values => self.proposal.values = of_states,
            Stage::Bias => self.proposal.bias = of_states,
            Stage::Weights => {}
        }
    }

    /// Writes a checkpoint of the noted values, with the record of the rounds.
    pub(super) fn save(&mut self, run: Run) {
        self.proposal.run = run;
        if let Some(checkpoints) = &mut self.checkpoints
            && checkpoints.writes()
        {
            checkpoints.save(&self.proposal.contents(&self.problem, self.model));
        }
    }
}
