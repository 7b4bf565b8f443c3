//! Iterative refinement: values as exact as `f64` from sweeps in a shorter type.
//!
//! For any V₀, V* = V₀ + d*, where d* is the value function of the same model with the rewards
//! r'(s, a) = Q₀(s, a) − V₀(s), Q₀(s, a) = r(s, a) + γ Σ P(s'|s, a)·V₀(s'): put V₀ + d for V in V = TV. With r' computed in
//! `f64` and d by sweeps in `f32`, of unit roundoff u = 2⁻²⁴, V₀ + d is about u / (1 − γ) times as far from V* as V₀ was;
//! so it becomes the next V₀ (Wilkinson's refinement of linear systems, for the Bellman equation).

use super::backend::{Backups, Correct, GreedySweeps, State, Stop};
use super::certificate::{advantages, greedy};
use super::model::Mdp;
use crate::common::interrupt;

/// What a correction leaves of the changes of a sweep, at least, times 1 − γ: a few roundings of `f32`.
const FINEST: f64 = 8.0 * f32::EPSILON as f64;

/// The same at most, where γ is so near 1 that corrections gain little.
const COARSEST: f64 = 0.25;

/// A backend in a shorter type, whose V is the correction d of a V₀ on the host.
pub struct Refined<'m, B> {
    backend: B,
    mdp: &'m Mdp,
    /// V₀
    base: Vec<f64>,
    /// Least and greatest TV₀ − V₀.
    range: [f64; 2],
    /// How far from the stop the last sweep was.
    last: f64,
    /// Whether the backend takes rewards.
    correctable: bool,
}

impl<'m, B: Correct> Refined<'m, B> {
    /// Refines what `backend` computes of `mdp`, a model that is to be maximised.
    pub fn new(backend: B, mdp: &'m Mdp) -> Self {
        Self { backend, mdp, base: Vec::new(), range: [0.0; 2], last: f64::INFINITY, correctable: true }
    }

    /// Goes on from V₀ = `base`. Where the process never ends, what all states lack alike is added at once: the shorter type
    /// could not tell their differences from r' beside it.
    fn rebase(&mut self, mut base: Vec<f64>) -> Result<(), B::Error> {
        let (mut rewards, mut range) = advantages(self.mdp, &base);
        let shift = (range[0] + range[1]) / 2.0 / (1.0 - self.mdp.gamma());
        let off_centre = (range[0] + range[1]).abs() / 2.0 > range[1] - range[0];
        if off_centre && shift.is_finite() && self.mdp.never_terminates() {
            base.iter_mut().for_each(|value| *value += shift);
            (rewards, range) = advantages(self.mdp, &base);
        }
        self.correctable = self.backend.set_rewards(&rewards)?;
        self.backend.reset(None)?;
        (self.base, self.range, self.last) = (base, range, f64::INFINITY);
        Ok(())
    }

    /// When this correction ends: where `stop` seems to be met, or the shorter type has no more to give.
    fn stop(&self, stop: Stop) -> Stop {
        let gain = (FINEST / (1.0 - self.mdp.gamma())).min(COARSEST);
        let bound = (stop.bound() / 2.0).max(gain * stop.size(self.range[0], self.range[1]));
        match stop {
            Stop::Change(_) => Stop::Change(bound),
            Stop::Span(_) => Stop::Span(bound),
        }
    }
}

impl<B: Correct> State for Refined<'_, B> {
    type Error = B::Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), B::Error> {
        self.rebase(initial.map_or_else(|| vec![0.0; self.mdp.states() as usize], <[f64]>::to_vec))
    }

    fn values(&mut self) -> Result<Vec<f64>, B::Error> {
        let mut values = self.backend.values()?;
        values.iter_mut().zip(&self.base).for_each(|(value, base)| *value += base);
        Ok(values)
    }

    fn policy(&mut self) -> Result<Vec<u32>, B::Error> {
        Ok(greedy(self.mdp, &self.values()?))
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    fn sweep_bytes(&mut self) -> Result<u64, B::Error> {
        self.backend.sweep_bytes()
    }
}

impl<B: Correct> GreedySweeps for Refined<'_, B> {
    /// The changes that it returns are those of a sweep in `f64` from V, where a correction has just ended.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, B::Error> {
        if self.base.is_empty() {
            self.reset(None)?;
        }
        let mut sweeps = 0;
        loop {
            let [least, greatest] = self.range;
            let ends = sweeps >= max_sweeps || !self.correctable || interrupt::requested();
            if sweeps > 0 && stop.is_met(least, greatest) || ends {
                return Ok(Backups { sweeps, least, greatest, fixed: !self.correctable });
            }
            let correction = self.stop(stop);
            let found = self.backend.backup(correction, max_sweeps - sweeps)?;
            sweeps += found.sweeps;
            // Without rounding, n sweeps make what is left γⁿ times as large at most. What comes nowhere near that is
            // rounding.
            let left = stop.size(found.least, found.greatest);
            let rounding = left >= self.last * (1.0 + self.mdp.gamma().powi(found.sweeps as i32)) / 2.0;
            self.last = left;
            let ended = correction.is_met(found.least, found.greatest) || found.fixed || rounding;
            if !ended || interrupt::requested() {
                return Ok(Backups { sweeps, fixed: false, ..found });
            }
            let values = self.values()?;
            self.rebase(values)?;
            if stop.size(self.range[0], self.range[1]) >= 0.9 * stop.size(least, greatest) {
                // As exact as f64 is, or the correction is lost in rounding.
                let [least, greatest] = self.range;
                return Ok(Backups { sweeps, least, greatest, fixed: true });
            }
        }
    }
}
