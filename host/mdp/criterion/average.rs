//! The expected reward per step in the long run: the gain g.
//!
//! # Mathematics
//! For every h, min (Th − h) ≤ g ≤ max (Th − h) where g is the same for all states, and the left-hand side holds for the
//! greedy policy, too. Sweeps bring the two together, if no policy is periodic: so they are done on a model that stays
//! where it is with probability 1 − τ, whose gain is τg (Puterman, *Markov Decision Processes*, 1994, 8.5.3 and 8.5.4; the
//! bounds are Odoni's, 1969). h is shifted from time to time so that it does not grow, and becomes the bias.
//!
//! Within an end component the gain is the same for all states, because every one can be reached from every other. So a
//! model of one component, and of states that every policy leaves for it, is solved as it stands. In others each component
//! is solved for its gain, all at once, and the gain of the model is a total reward: who stays in a component is paid its
//! gain (de Alfaro 1997; Ashok et al., *Value Iteration for Long-Run Average Reward in MDPs*, 2017).

use rayon::prelude::*;

use super::proper::{self, Policies};
use super::total::reward_size;
use super::{Bounded, Ended, Error, Session, middle, radius, signed};
use crate::mdp::graph::{Graph, NO_COMPONENT, NO_ROW};
use crate::mdp::model::{CHUNK, Mdp};
use crate::mdp::quotient::{Builder, Plan, actions};
use crate::mdp::solve::{Status, Stop};

/// τ: a step is one of the model with this probability. A power of two less 1 − τ, another, is exact.
const TAU: f64 = 0.875;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

pub(super) fn solve<E: std::error::Error>(graph: &Graph, session: &mut Session<E>) -> Result<Bounded, Error<E>> {
    let mdp = graph.mdp();
    let states = mdp.states as usize;
    let sign = mdp.objective.sign();
    let rewards: Vec<f64> = mdp.expected_rewards().iter().map(|r| sign * r).collect();
    let components = graph.end_components(|_| true);
    let may_end = graph.can_reach(&(0..=states).map(|v| graph.rows(v).is_empty()).collect::<Vec<_>>(), |_| true);

    if components.count == 1 && !may_end.contains[..states].contains(&true) {
        let parts = Parts::new(graph, &rewards, 1, |_| Some(0), |_| true)?;
        let found = parts.solve(session)?;
        let (lower, upper) = signed(mdp.objective, vec![found.lower[0]; states], vec![found.upper[0]; states]);
        let policy = actions(graph, found.rows.into_iter());
        let bias = Some(found.bias.iter().map(|h| sign * h).collect());
        return Ok(Bounded { bias, ..session.bounded(lower, upper, policy, found.status) });
    }

    // Half of ε is for the gains of components, half for the way there.
    let asked = session.options;
    session.options.epsilon /= 2.0;
    let part = |state: usize| Some(components.of_state[state]).filter(|&part| part != NO_COMPONENT);
    let parts = Parts::new(graph, &rewards, components.count as usize, part, |row| components.inside[row])?;
    let gains = parts.solve(session)?;
    let bounds = || gains.lower.iter().zip(&gains.upper);
    let pay: Vec<f64> = bounds().map(|(&lower, &upper)| middle(lower, upper)).collect();
    if asked.relative {
        let smallest = pay.iter().map(|g| g.abs()).filter(|&g| g > 0.0).fold(f64::INFINITY, f64::min);
        session.options.relative = false;
        session.options.epsilon *= if smallest.is_finite() { smallest } else { 1.0 };
    }
    let open: Vec<bool> = (0..states).map(|state| !graph.rows(state).is_empty()).collect();
    let plan = Plan {
        graph,
        open: &open,
        allowed: &vec![true; mdp.rows()],
        components: &components,
        stay: Some(&pay),
        reward: |_| 0.0,
        reward_size: pay.iter().map(|g| g.abs()).fold(0.0, f64::max),
    };
    let quotient = plan.quotient()?;
    let found = proper::solve(&quotient, Policies::Proper, session)?;
    session.options = asked;

    // Who is paid, is paid once.
    let off = bounds().map(|(&lower, &upper)| radius(lower, upper)).fold(0.0, f64::max);
    let mut lower = quotient.values(&found.lower, |_| 0.0);
    let mut upper = quotient.values(&found.upper, |_| 0.0);
    for state in (0..states).filter(|&state| open[state]) {
        lower[state] = (lower[state] - off).next_down();
        upper[state] = (upper[state] + off).next_up();
    }
    let (lower, upper) = signed(mdp.objective, lower, upper);
    let policy = quotient.policy(graph, &components, &found.rows, |state| gains.rows[state], |_| NO_ROW);
    let status = if gains.status == Status::Solved { found.status } else { gains.status };
    Ok(session.bounded(lower, upper, policy, status))
}

/// Disjoint parts of a model that no row leaves, each of one gain, made aperiodic.
struct Parts {
    mdp: Option<Mdp>,
    /// The row of the model of each row.
    origin: Vec<usize>,
    /// The state of the model of each state.
    state: Vec<usize>,
    /// The part of each state.
    part: Vec<u32>,
    count: usize,
    /// The states of the model.
    states: usize,
    /// Operations behind a Q-factor, at most, and magnitudes behind a reward.
    terms: f64,
    reward_size: f64,
}

/// What is known of parts.
struct Gains {
    /// Per part.
    lower: Vec<f64>,
    upper: Vec<f64>,
    /// Per state of the model, 0 where it is in no part.
    bias: Vec<f64>,
    /// Per state of the model.
    rows: Vec<usize>,
    status: Status,
}

impl Parts {
    fn new<E: std::error::Error>(
        graph: &Graph,
        rewards: &[f64],
        count: usize,
        part_of: impl Fn(usize) -> Option<u32>,
        within: impl Fn(usize) -> bool,
    ) -> Result<Self, Error<E>> {
        let mdp = graph.mdp();
        let states = mdp.states as usize;
        let (state, part): (Vec<usize>, Vec<u32>) =
            (0..states).filter_map(|state| Some((state, part_of(state)?))).unzip();
        let mut number = vec![0; states];
        (0..).zip(&state).for_each(|(own, &state)| number[state] = own);
        let (mut builder, mut entries) = (Builder::default(), Vec::new());
        let (mut origin, mut longest) = (Vec::new(), 0);
        for (own, &state) in (0..).zip(&state) {
            for row in graph.rows(state).filter(|&row| within(row)) {
                let (cols, probs) = mdp.transitions.row(row);
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
        Ok(Self { mdp, origin, state, part, count, states, terms, reward_size: reward_size(graph) })
    }

    fn solve<E: std::error::Error>(&self, session: &mut Session<E>) -> Result<Gains, Error<E>> {
        /// Sweeps between two looks at the bounds.
        const SWEEPS: std::ops::Range<u32> = 16..1024;
        let mut gains = Gains {
            lower: vec![f64::NEG_INFINITY; self.count],
            upper: vec![f64::INFINITY; self.count],
            bias: vec![0.0; self.states],
            rows: vec![NO_ROW; self.states],
            status: Status::Solved,
        };
        let Some(mdp) = &self.mdp else { return Ok(gains) };
        let options = session.options;
        let mut backend = session.make(mdp)?;
        let (mut budget, mut at_most) = (options.max_sweeps, SWEEPS.start);
        let stop =
            if self.count == 1 && !options.relative { Stop::Span(TAU * options.epsilon) } else { Stop::Change(0.0) };
        loop {
            let at_most_now = u32::try_from(budget).unwrap_or(u32::MAX).min(at_most).max(1);
            let done = backend.backup(stop, at_most_now).map_err(Error::Backend)?;
            budget = budget.saturating_sub(u64::from(done.sweeps));
            at_most = (2 * at_most).min(SWEEPS.end);
            let mut values = backend.values().map_err(Error::Backend)?;

            let seen = self.look(mdp, &values);
            (gains.lower, gains.upper) = (seen.lower, seen.upper);
            self.shift(&mut values);
            for (own, &state) in self.state.iter().enumerate() {
                gains.bias[state] = values[own];
                gains.rows[state] = self.origin[seen.rows[own]];
            }
            let interrupted = session.push(done.sweeps, done.residual()).is_break();
            session.look(&gains.lower, &gains.upper);
            let bounds = || gains.lower.iter().zip(&gains.upper);
            let within = |(&lower, &upper): (&f64, &f64)| {
                let scale = if options.relative { lower.abs().min(upper.abs()) } else { 1.0 };
                radius(lower, upper) <= options.epsilon * scale
            };
            let widest = bounds().map(|(lower, upper)| upper - lower).fold(0.0, f64::max);
            let ended = if bounds().all(within) {
                Some(Status::Solved)
            } else if interrupted {
                Some(Ended::Interrupted.status())
            } else if budget == 0 {
                Some(Ended::Limit.status())
            } else {
                // Half of the width, or more, are rounding errors.
                (widest <= 4.0 * seen.error).then_some(Status::Stalled)
            };
            if let Some(status) = ended {
                return Ok(Gains { status, ..gains });
            }
            backend.reset(Some(&values)).map_err(Error::Backend)?;
        }
    }

    /// Bounds of the gains, and the rows of the best Q-factors.
    fn look(&self, mdp: &Mdp, values: &[f64]) -> Seen {
        let of_state = |state: usize| {
            let (v, mut best) =
                (values[state], Best { low: f64::NEG_INFINITY, high: f64::NEG_INFINITY, row: 0, error: 0.0 });
            for row in mdp.choices.rows(state) {
                let (cols, probs) = mdp.transitions.row(row);
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
        let best: Vec<Best> = states.map(of_state).collect();
        let mut seen = Seen {
            lower: vec![f64::INFINITY; self.count],
            upper: vec![f64::NEG_INFINITY; self.count],
            rows: best.iter().map(|best| best.row).collect(),
            error: best.iter().map(|best| best.error).fold(0.0, f64::max) / TAU,
        };
        for (best, &part) in best.iter().zip(&self.part) {
            let (lower, upper) = (&mut seen.lower[part as usize], &mut seen.upper[part as usize]);
            *lower = if best.low.is_nan() { f64::NEG_INFINITY } else { lower.min(best.low) };
            *upper = upper.max(best.high);
        }
        seen.lower.iter_mut().for_each(|bound| *bound = (*bound / TAU).next_down());
        seen.upper.iter_mut().for_each(|bound| *bound = (*bound / TAU).next_up());
        seen
    }

    /// Makes h 0 in the first state of each part.
    fn shift(&self, values: &mut [f64]) {
        let mut first = vec![None; self.count];
        for (value, &part) in values.iter_mut().zip(&self.part) {
            *value -= *first[part as usize].get_or_insert(*value);
        }
    }
}

/// Th − h of a state, between bounds, and the row that attains the lower one.
struct Best {
    low: f64,
    high: f64,
    row: usize,
    error: f64,
}

/// Bounds of the gains of parts.
struct Seen {
    lower: Vec<f64>,
    upper: Vec<f64>,
    /// A row per state of the parts.
    rows: Vec<usize>,
    /// The largest rounding error.
    error: f64,
}
