//! Iterative refinement: values with the accuracy of `f64` from sweeps in `f32`.
//!
//! For any V₀, V* = V₀ + d*, where d* is the optimal value function of the same model with rewards r'(s, a) = Q₀(s, a)
//! − V₀(s) and Q₀(s, a) = r(s, a) + γ Σ P(s'|s, a)·V₀(s'). This follows by substituting V = V₀ + d in V = TV. With r'
//! in `f64` and d from sweeps in `f32` of unit roundoff u = 2⁻²⁴, the error of V₀ + d is about u / (1 − γ) times the
//! error of V₀. V₀ + d becomes the next V₀. The method is Wilkinson's refinement of linear systems, applied to the
//! Bellman equation.

use crate::backend::{Backups, Correct, GreedySweeps, State, Stop};
use crate::certificate::{advantages, greedy};
use crate::model::Mdp;
use crate::team::Team;
use warpkov_common::interrupt;
use warpkov_runtime::comm;

/// A correction ends when the changes of a sweep fall to this fraction of the initial ones, divided by 1 − γ. A few
/// roundoffs of `f32`.
const FINEST: f64 = 8.0 * f32::EPSILON as f64;

/// Maximum of that quotient, for γ near 1.
const COARSEST: f64 = 0.25;

/// Changes of up to this many unit roundoffs of ‖d‖∞ may be rounding errors.
const NOISE: f64 = 64.0 * f32::EPSILON as f64 / 2.0;

/// A backend in `f32` whose V is the correction d, with V₀ on the host in `f64`.
pub struct Refined<'m, B> {
    backend: B,
    mdp: &'m Mdp,
    team: Team<'m>,
    /// V₀
    base: Vec<f64>,
    /// Least and greatest TV₀ − V₀.
    range: [f64; 2],
    /// Distance of the last sweep from the stop, as [`Stop::size`].
    last: f64,
    /// Sweeps of this correction.
    swept: u32,
    /// Whether the backend accepts rewards.
    correctable: bool,
}

impl<'m, B: Correct> Refined<'m, B>
where
    B::Error: From<comm::Error>,
{
    /// Refines the values of `backend` for `mdp`, a maximisation model, or for the part of a rank in `team`.
    pub fn new(backend: B, mdp: &'m Mdp, team: Team<'m>) -> Self {
        Self { backend, mdp, team, base: Vec::new(), range: [0.0; 2], last: f64::INFINITY, swept: 0, correctable: true }
    }

    /// Continues from V₀ = `base`. In a model that never ends, first adds the common offset of all values: beside it,
    /// `f32` could not resolve the differences between states in r'.
    fn rebase(&mut self, mut base: Vec<f64>) -> Result<(), B::Error> {
        let (mut rewards, mut range) = self.advantages(&mut base)?;
        let shift = (range[0] + range[1]) / 2.0 / (1.0 - self.mdp.gamma());
        let off_centre = (range[0] + range[1]).abs() / 2.0 > range[1] - range[0];
        if off_centre && shift.is_finite() && self.mdp.never_terminates() {
            base.iter_mut().for_each(|value| *value += shift);
            (rewards, range) = self.advantages(&mut base)?;
        }
        self.correctable = self.backend.set_rewards(&rewards)?;
        self.backend.reset(None)?;
        (self.base, self.range, self.last, self.swept) = (base, range, f64::INFINITY, 0);
        Ok(())
    }

    /// [`advantages`] of the own states, with the extremes over all ranks.
    fn advantages(&self, base: &mut [f64]) -> Result<(Vec<f64>, [f64; 2]), B::Error> {
        self.team.refresh(base)?;
        let (rewards, [least, greatest]) = advantages(self.mdp, base);
        let mut extremes = if self.team.works() { [-least, greatest] } else { [f64::NEG_INFINITY; 2] };
        self.team.max(&mut extremes)?;
        Ok((rewards, [-extremes[0], extremes[1]]))
    }

    /// Whether changes of `left` are rounding errors after `sweeps` sweeps. Without them, n sweeps multiply the changes by at most
    /// γⁿ. For γ near 1 that is so little that rounding errors hide it long before they matter; they do when the changes
    /// have their size.
    fn is_rounding(&mut self, left: f64, sweeps: u32) -> Result<bool, B::Error> {
        if left < self.last * self.halfway(sweeps) {
            return Ok(false);
        }
        let mut largest = [self.backend.magnitude()?];
        self.team.max(&mut largest)?;
        Ok(left <= NOISE * largest[0])
    }

    /// The mean of 1 and γⁿ.
    fn halfway(&self, sweeps: u32) -> f64 {
        f64::midpoint(1.0, self.mdp.gamma().powi(sweeps as i32))
    }

    /// Stopping rule of a correction: `stop` is likely to be met, or `f32` is exhausted.
    fn stop(&self, stop: Stop) -> Stop {
        let gain = (FINEST / (1.0 - self.mdp.gamma())).min(COARSEST);
        let bound = (stop.bound() / 2.0).max(gain * stop.size(self.range[0], self.range[1]));
        match stop {
            Stop::Change(_) => Stop::Change(bound),
            Stop::Span(_) => Stop::Span(bound),
        }
    }
}

impl<B: Correct> State for Refined<'_, B>
where
    B::Error: From<comm::Error>,
{
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

impl<B: Correct> GreedySweeps for Refined<'_, B>
where
    B::Error: From<comm::Error>,
{
    /// Returns the changes of an `f64` sweep from V if a correction has just ended.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, B::Error> {
        if self.base.is_empty() {
            self.reset(None)?;
        }
        let mut sweeps = 0;
        loop {
            let [least, greatest] = self.range;
            let stopped = self.team.any(interrupt::requested())?;
            let ends = sweeps >= max_sweeps || !self.correctable || stopped;
            if sweeps > 0 && stop.is_met(least, greatest) || ends {
                return Ok(Backups { sweeps, least, greatest, fixed: !self.correctable });
            }
            let correction = self.stop(stop);
            let found = self.backend.backup(correction, max_sweeps - sweeps)?;
            sweeps += found.sweeps;
            self.swept += found.sweeps;
            let left = stop.size(found.least, found.greatest);
            let met = correction.is_met(found.least, found.greatest) || found.fixed;
            let ended = met || self.is_rounding(left, found.sweeps)?;
            self.last = left;
            if !ended || self.team.any(interrupt::requested())? {
                return Ok(Backups { sweeps, fixed: false, ..found });
            }
            let most = if met { 0.9 } else { self.halfway(self.swept) };
            let values = self.values()?;
            self.rebase(values)?;
            if stop.size(self.range[0], self.range[1]) >= most * stop.size(least, greatest) {
                // V is as accurate as f64 permits, or rounding errors hide the correction.
                let [least, greatest] = self.range;
                return Ok(Backups { sweeps, least, greatest, fixed: true });
            }
        }
    }

    /// Changes of a correction do not fall while `f32` rounds them all to the same.
    fn non_monotone_unit(&self) -> Option<f64> {
        Some(f64::EPSILON / 2.0)
    }
}
