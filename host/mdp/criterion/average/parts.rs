//! The parts of a model that have one gain each: its end components, or the whole model; and the bounds on their gains.

use rayon::prelude::*;

use super::super::keeper::{NOWHERE, Stage};
use super::super::total::reward_size;
use super::super::{Allowance, Ended, Error, Session};
use super::{Average, TAU, UNIT};
use crate::analysis::graph::NO_ROW;
use crate::analysis::quotient::Builder;
use crate::backend::Stop;
use crate::model::{CHUNK, Mdp};

/// Disjoint parts of a model that no row leaves, each with one gain, transformed to be aperiodic.
pub(super) struct Parts {
    pub(super) mdp: Option<Mdp>,
    /// The original row of each row.
    pub(super) origin: Vec<usize>,
    /// The original state of each state.
    pub(super) state: Vec<usize>,
    /// The part of each state of the transformed model.
    pub(super) part: Vec<u32>,
    /// Number of parts.
    pub(super) count: usize,
    /// Number of original states.
    pub(super) states: usize,
    /// h of each state, after the first sweeps.
    pub(super) values: Option<Vec<f64>>,
    /// The reward that all rows of a part share, which is then the gain; `None` if they differ.
    pub(super) constant: Vec<Option<f64>>,
    /// Maximum number of operations behind a Q-factor.
    pub(super) terms: f64,
    /// Maximum sum of the magnitudes of the terms of a reward.
    pub(super) reward_size: f64,
}

/// Bounds of the gains of parts, and how the sweeps ended.
pub(super) struct Gains {
    /// Lower bound of the gain of each part.
    pub(super) lower: Vec<f64>,
    /// Upper bound of the gain of each part.
    pub(super) upper: Vec<f64>,
    /// h of each original state; 0 outside all parts.
    pub(super) bias: Vec<f64>,
    /// Greedy row of each original state; [`NO_ROW`] outside all parts.
    pub(super) rows: Vec<usize>,
    pub(super) ended: Ended,
}

impl Parts {
    pub(super) fn new<E: std::error::Error>(run: &Average) -> Result<Self, Error<E>> {
        let (graph, mdp) = (run.graph, run.graph.mdp());
        let states = mdp.states() as usize;
        let sign = mdp.objective().sign();
        let rewards: Vec<f64> = mdp.expected_rewards().iter().map(|r| sign * r).collect();
        let count = if run.single { 1 } else { run.components.count as usize };
        let (state, part): (Vec<usize>, Vec<u32>) =
            (0..states).filter_map(|state| Some((state, run.part(state)?))).unzip();
        let mut constant = vec![None; count];
        for (&state, &part) in state.iter().zip(&part) {
            for row in graph.rows(state).filter(|&row| run.stays(row)) {
                // Only action rewards are exact; sums of products are rounded.
                let exact = mdp.rewards_of(row).all(|r| r == 0.0);
                let reward = if exact { rewards[row] } else { f64::NAN };
                let constant: &mut Option<f64> = &mut constant[part as usize];
                *constant = Some(constant.map_or(reward, |other| if other == reward { other } else { f64::NAN }));
            }
        }
        let constant = constant.into_iter().map(|reward| reward.filter(|reward| reward.is_finite())).collect();
        let mut number = vec![0; states];
        (0..).zip(&state).for_each(|(own, &state)| number[state] = own);
        let (mut builder, mut entries) = (Builder::default(), Vec::new());
        let (mut origin, mut longest) = (Vec::new(), 0);
        for (own, &state) in (0..).zip(&state) {
            for row in graph.rows(state).filter(|&row| run.stays(row)) {
                let (cols, probs) = mdp.transitions().row(row);
                let sum: f64 = probs.iter().sum();
                let moves = cols.iter().zip(probs).filter(|(_, p)| **p > 0.0);
                entries.extend(moves.map(|(&col, p)| (number[col as usize], TAU * (p / sum))));
                entries.push((own, 1.0 - TAU));
                longest = longest.max(entries.len());
                builder.row(&mut entries, TAU * rewards[row]);
                origin.push(row);
            }
            builder.end_state();
        }
        let mdp = if origin.is_empty() { None } else { Some(builder.finish()?) };
        let terms = (3 * longest + 8) as f64;
        let (values, reward_size) = (None, reward_size(graph));
        Ok(Self { mdp, origin, state, part, count, states, values, constant, terms, reward_size })
    }

    /// Continues the sweeps until the gains are close enough or the allowance ends.
    pub(super) fn solve<E: std::error::Error>(
        &mut self,
        allowance: &mut Allowance,
        session: &mut Session<E>,
    ) -> Result<Gains, Error<E>> {
        /// Number of sweeps between two evaluations of the bounds, at first and at most.
        const SWEEPS: std::ops::Range<u32> = 16..1024;
        let mut gains = Gains {
            lower: vec![f64::NEG_INFINITY; self.count],
            upper: vec![f64::INFINITY; self.count],
            bias: vec![0.0; self.states],
            rows: vec![NO_ROW; self.states],
            ended: Ended::Met,
        };
        let mut place = vec![NOWHERE; self.states];
        (0..).zip(&self.state).for_each(|(own, &state)| place[state] = own);
        let kept = session.keeper.enter(Stage::Bias, place, self.state.len());
        let mut last = self.values.take().or(kept);
        let Some(mdp) = &self.mdp else { return Ok(gains) };
        let options = session.options;
        let part = session.part(mdp)?;
        let mut backend = session.make(&part)?;
        if last.is_some() {
            backend.reset(last.as_deref()).map_err(Error::Backend)?;
        }
        let mut at_most = SWEEPS.start;
        let stop =
            if self.count == 1 && !options.relative { Stop::Span(TAU * options.epsilon) } else { Stop::Change(0.0) };
        loop {
            let now = u32::try_from(allowance.now(u64::from(at_most))).unwrap_or(u32::MAX).max(1);
            let done = backend.backup(stop, now).map_err(Error::Backend)?;
            allowance.spend(u64::from(done.sweeps));
            session.keeper.count(done.sweeps);
            at_most = (2 * at_most).min(SWEEPS.end);
            let mut values = backend.values().map_err(Error::Backend)?;

            let found = self.bounds(mdp, &values);
            (gains.lower, gains.upper) = (found.lower, found.upper);
            self.shift(&mut values);
            for (own, &state) in self.state.iter().enumerate() {
                gains.bias[state] = values[own];
                gains.rows[state] = self.origin[found.rows[own]];
            }
            let interrupted = session.record_round(done.sweeps, done.residual()).is_break();
            session.record_bounds(&gains.lower, &gains.upper);
            session.keeper.note(&values);
            if session.keeper.keeps() && (interrupted || session.is_due()?) {
                session.save();
            }
            let bounds = || gains.lower.iter().zip(&gains.upper);
            let widest = bounds().map(|(lower, upper)| upper - lower).fold(0.0, f64::max);
            let ended = if bounds().all(|(&lower, &upper)| options.is_met(lower, upper)) {
                Some(Ended::Met)
            } else if interrupted {
                Some(Ended::Interrupted)
            } else if widest <= 4.0 * found.error {
                // Rounding errors make up half of the width or more.
                Some(Ended::Stalled)
            } else {
                allowance.ended()
            };
            backend.reset(Some(&values)).map_err(Error::Backend)?;
            last = Some(values);
            if let Some(ended) = ended {
                gains.ended = ended;
                break;
            }
        }
        self.values = last;
        Ok(gains)
    }

    /// Bounds of the gains, and rows that attain the lower bounds.
    pub(super) fn bounds(&self, mdp: &Mdp, values: &[f64]) -> GainBounds {
        let of_state = |state: usize| {
            let (v, mut best) =
                (values[state], StateBounds { low: f64::NEG_INFINITY, high: f64::NEG_INFINITY, row: 0, error: 0.0 });
            for row in mdp.choices().rows(state) {
                let (cols, probs) = mdp.transitions().row(row);
                let reward = mdp.action_reward(row);
                let (mut next, mut size) = (0.0, 0.0);
                for (&col, &p) in cols.iter().zip(probs) {
                    next += p * values[col as usize];
                    size += p * values[col as usize].abs();
                }
                let gain = reward + next - v;
                let size = self.reward_size + size + v.abs();
                let error = 2.0 * self.terms * (UNIT * size + f64::MIN_POSITIVE);
                if gain - error > best.low || best.low == f64::NEG_INFINITY {
                    (best.low, best.row) = (gain - error, row);
                }
                let high = gain + error;
                best.high = if high.is_nan() { f64::INFINITY } else { best.high.max(high) };
                best.error = best.error.max(error);
            }
            best
        };
        let states = (0..values.len()).into_par_iter().with_min_len(CHUNK / 4);
        let best: Vec<StateBounds> = states.map(of_state).collect();
        let mut found = GainBounds {
            lower: vec![f64::INFINITY; self.count],
            upper: vec![f64::NEG_INFINITY; self.count],
            rows: best.iter().map(|best| best.row).collect(),
            error: best.iter().map(|best| best.error).fold(0.0, f64::max) / TAU,
        };
        for (best, &part) in best.iter().zip(&self.part) {
            let (lower, upper) = (&mut found.lower[part as usize], &mut found.upper[part as usize]);
            *lower = if best.low.is_nan() { f64::NEG_INFINITY } else { lower.min(best.low) };
            *upper = upper.max(best.high);
        }
        found.lower.iter_mut().for_each(|bound| *bound = (*bound / TAU).next_down());
        found.upper.iter_mut().for_each(|bound| *bound = (*bound / TAU).next_up());
        for (part, &reward) in self.constant.iter().enumerate() {
            if let Some(reward) = reward {
                (found.lower[part], found.upper[part]) = (reward, reward);
            }
        }
        found
    }

    /// Shifts h so that it is 0 in the first state of each part.
    pub(super) fn shift(&self, values: &mut [f64]) {
        let mut first = vec![None; self.count];
        for (value, &part) in values.iter_mut().zip(&self.part) {
            *value -= *first[part as usize].get_or_insert(*value);
        }
    }
}

/// Bounds of Th − h in a state, and the row that attains the lower bound.
pub(super) struct StateBounds {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) row: usize,
    pub(super) error: f64,
}

/// Bounds of the gains of all parts.
pub(super) struct GainBounds {
    pub(super) lower: Vec<f64>,
    pub(super) upper: Vec<f64>,
    /// The row of each state of the transformed model.
    pub(super) rows: Vec<usize>,
    /// The largest rounding error.
    pub(super) error: f64,
}
