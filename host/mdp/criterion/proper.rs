//! Proven bounds of V* in models in which every policy ends almost surely or loses without bound.
//!
//! # Mathematics
//! Let w be weights, one per state, (TV)(s) = maxₐ Q(s, a) and Q(s, a) = r(s, a) + Σ P(s'|s, a) V(s').
//!
//! - U = V + κw is an upper bound if TU ≤ U, that is, if every row satisfies Q(s, a) − V(s) ≤ κ·(w(s) − Σ P w). A row
//!   along which the weights fall demands a large κ. A row along which they rise must lose, and demands a small κ.
//! - L = V − κw is a lower bound if every state has a row along which the weights fall and Q(s, a) − V(s) ≥ −κ·(w(s) −
//!   Σ P w). These rows form a policy that ends almost surely and has a value of at least L.
//!
//! Expected numbers of steps are such weights: w = 1 + maxₐ Σ P w over the rows whose Q-factor is within η of the best.
//! Then κ is about ‖TV − V‖∞, and the bounds are within ε of V as soon as ‖TV − V‖∞ · ‖w‖∞ ≤ ε ≤ η. Sweeps from 0
//! compute them: after each sweep w − max Σ P w = 1 − Δw, and the weights suffice once Δw < ½.
//!
//! This is optimistic value iteration (Hartmanns & Kaminski, *Optimistic Value Iteration*, 2020): guess, then prove.
//! The guess has the shape of the weights in whose norm T contracts (Bertsekas & Tsitsiklis, *An Analysis of Stochastic
//! Shortest Path Problems*, 1991), so the proof needs no sweeps of its own.
//!
//! A process that lasts long has large weights and takes many sweeps, and then a proof in `f64` proves little. `direct`
//! then evaluates policies by elimination and proves the same conditions with more bits.
//!
//! # Rounding
//! Let u = 2⁻⁵³. For a row of n entries, the computed Q(s, a) − V(s) has an error of at most ku/(1 − ku) times the sum
//! of the magnitudes of its terms. Here k = n + 3 + o, with o the number of operations behind an entry of the model. A
//! reward has about 2o operations behind it, so its magnitude counts twice. The factor 1.01·k·u covers the denominator
//! and the rounding of the magnitudes. V* refers to the model whose rows are divided by their sums.

use rayon::prelude::*;

use super::direct::model::{Model, Reward};
use super::direct::{self, Big, Deepened, Numbers, Solution, Work};
use super::keeper::{NOWHERE, Stage};
use super::{Allowance, Ended, Error, OPERATIONS, Session, accelerate, widest};
use crate::analysis::graph::Graph;
use crate::analysis::quotient::{Builder, Quotient, Rounding};
use crate::model::{CHUNK, Mdp};
use crate::solution::Status;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Bounds of a quotient's values.
pub(super) struct Proper {
    pub lower: Vec<f64>,
    pub upper: Vec<f64>,
    /// One row per state: a policy whose values are at least `lower`. Arbitrary where `lower` is −∞.
    pub rows: Vec<usize>,
    pub status: Status,
}

/// Which policies of a model are proper, that is, end almost surely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policies {
    /// Every policy.
    Proper,
    /// Some policies; all others lose without bound.
    SomeProper,
}

/// The exact data behind a quotient.
pub(super) struct ExactTerms<'a> {
    pub graph: &'a Graph<'a>,
    /// Reward of a row.
    pub reward: &'a Reward<'a>,
    /// Reward for staying in the component of a quotient state for ever.
    pub stay: &'a dyn Fn(usize, Numbers) -> Big,
}

/// Solves a quotient.
pub(super) fn solve<E: std::error::Error>(
    quotient: &Quotient,
    source: &ExactTerms,
    policies: Policies,
    session: &mut Session<E>,
) -> Result<Proper, Error<E>> {
    let Some(mdp) = &quotient.mdp else {
        return Ok(Proper { lower: Vec::new(), upper: Vec::new(), rows: Vec::new(), status: Status::Solved });
    };
    let options = session.options;
    let part = session.part(mdp)?;
    let mut backend = session.make(&part)?;
    let place = (0..source.graph.mdp().states()).map(|state| quotient.target(state).unwrap_or(NOWHERE));
    if let Some(values) = session.keeper.enter(Stage::Values, place.collect(), mdp.states() as usize) {
        backend.reset(Some(&values)).map_err(Error::Backend)?;
    }
    let (mut allowance, mut theta) = (session.allowance(), options.epsilon);
    let mut weights: Option<Vec<f64>> = None;
    let mut attempt = Attempt { numbers: Numbers::FIRST, rows: Vec::new() };
    loop {
        let mut ended = accelerate::sweep(&mut *backend, theta, &mut allowance, session)?;
        let values = backend.values().map_err(Error::Backend)?;
        session.keeper.note(&values);
        // A relative ε becomes absolute by the smallest nonzero value.
        let sizes = || values.par_iter().map(|v| v.abs());
        let scale =
            if options.relative { sizes().filter(|&v| v > 0.0).reduce(|| f64::INFINITY, f64::min) } else { 1.0 };
        let epsilon = options.epsilon * if scale.is_finite() { scale } else { 1.0 };

        // The weights of the previous round often suffice.
        let mut found = weights.as_deref().map(|weights| prove(mdp, quotient.rounding, &values, weights));
        if !found.as_ref().is_some_and(|found| found.bounds.is_within(session)) {
            let stage = session.keeper.switch(Stage::Weights);
            let (fresh, last) = find_weights(mdp, &values, epsilon, policies, &mut allowance, session)?;
            session.keeper.switch(stage);
            ended = if ended == Ended::Met { last } else { ended };
            found = fresh.as_deref().map(|weights| prove(mdp, quotient.rounding, &values, weights)).or(found);
            weights = fresh.or(weights);
        }
        let unknown = || Proof { bounds: Proper::unknown(mdp), slack: f64::MIN_POSITIVE };
        let Proof { bounds: mut found, slack } = found.unwrap_or_else(unknown);
        session.record_bounds(&found.lower, &found.upper);
        if found.is_within(session) {
            return Ok(found);
        }
        // Changes below the rounding slack prove nothing more.
        let floor = slack;
        if ended == Ended::Met && (theta <= floor || !floor.is_finite()) {
            ended = Ended::Stalled;
        }
        if matches!(ended, Ended::Slow | Ended::Stalled) {
            let operations =
                if ended == Ended::Slow { allowance.operations(mdp.transitions().nnz()) } else { OPERATIONS };
            if attempt.rows.is_empty() {
                attempt.rows = greedy(mdp, &values);
            }
            let direct = eliminate(quotient, source, &mut attempt, operations, session);
            // If sweeps may still come closer, they continue.
            let better = |direct: &Proper| ended == Ended::Stalled && direct.error() <= found.error();
            if let Some(direct) = direct.filter(|direct| direct.status != Status::Stalled || better(direct)) {
                session.record_elimination(attempt.numbers, &direct.lower, &direct.upper);
                return Ok(direct);
            }
        }
        match ended {
            Ended::Slow => allowance.double(),
            Ended::Met => {
                let longest = weights.as_deref().map_or(8.0, |weights| weights.iter().copied().fold(1.0, f64::max));
                theta = (theta / 8.0).min(epsilon / (2.0 * longest)).max(floor);
            }
            _ => {
                found.status = ended.status();
                return Ok(found);
            }
        }
    }
}

/// Where the last elimination stopped.
struct Attempt {
    numbers: Numbers,
    /// One row per state.
    rows: Vec<usize>,
}

/// The greedy rows: the largest Q-factor of each state.
fn greedy(mdp: &Mdp, values: &[f64]) -> Vec<usize> {
    let factors = factors(mdp, values);
    let best = |state: usize| {
        let rows = mdp.choices().rows(state).map(|row| (factors[row], row));
        rows.reduce(|best, next| if next.0 > best.0 { next } else { best }).map_or(0, |(_, row)| row)
    };
    (0..mdp.states() as usize).map(best).collect()
}

/// Solves a quotient by elimination within a budget of `operations`.
fn eliminate<E: std::error::Error>(
    quotient: &Quotient,
    source: &ExactTerms,
    attempt: &mut Attempt,
    operations: f64,
    session: &mut Session<E>,
) -> Option<Proper> {
    let mdp = quotient.mdp.as_ref().filter(|mdp| mdp.transitions().nnz() <= direct::ENTRIES)?;
    let Attempt { numbers, rows } = attempt;
    let options = session.options;
    let mut stop = || session.stop_requested();
    let mut work = Work::new(operations, &mut stop);
    let Deepened { found, interrupted } =
        direct::deepen(source.graph.mdp(), &options, numbers, &mut work, |numbers, work| {
            work.spend(4 * mdp.transitions().nnz(), numbers)?;
            let model = Model::of_quotient(quotient, source.graph, numbers, source.reward, source.stay);
            let bounds = direct::proper::solve(&model, rows, work)?;
            rows.clone_from(&bounds.rows);
            Ok(Solution { lower: bounds.lower, upper: bounds.upper, rest: bounds.rows })
        });
    let found = found.map(|(settled, rows)| {
        let status = settled.status();
        Proper { lower: settled.lower, upper: settled.upper, rows, status }
    });
    match interrupted {
        false => found,
        true => Some(Proper { status: Status::Interrupted, ..found.unwrap_or_else(|| Proper::unknown(mdp)) }),
    }
}

impl Proper {
    /// Infinite bounds.
    fn unknown(mdp: &Mdp) -> Self {
        let states = mdp.states() as usize;
        Self {
            lower: vec![f64::NEG_INFINITY; states],
            upper: vec![f64::INFINITY; states],
            rows: (0..states).map(|state| mdp.choices().first(state)).collect(),
            status: Status::Solved,
        }
    }

    fn is_within<E>(&self, session: &Session<E>) -> bool {
        let options = session.options;
        self.lower.par_iter().zip(&self.upper).all(|(&lower, &upper)| options.is_met(lower, upper))
    }

    fn error(&self) -> f64 {
        widest(&self.lower, &self.upper)
    }
}

/// Weights: the maximum expected number of steps to the end over rows within `eta` of the best, with w − max Σ P w > ½
/// on these rows. `None` if such rows need not end. Also returns how the sweeps ended.
fn find_weights<E: std::error::Error>(
    mdp: &Mdp,
    values: &[f64],
    mut eta: f64,
    policies: Policies,
    allowance: &mut Allowance,
    session: &mut Session<E>,
) -> Result<(Option<Vec<f64>>, Ended), Error<E>> {
    /// Maximum number of values of η; each is a quarter of the one before.
    const ATTEMPTS: usize = 16;
    for _ in 0..ATTEMPTS {
        let near = near_optimal(mdp, values, eta)?;
        if policies == Policies::SomeProper && Graph::new(&near).end_components(|_| true).count > 0 {
            eta /= 4.0;
            continue;
        }
        let part = session.part(&near)?;
        let mut backend = session.make(&part)?;
        // The weights have their own sweep budget, as large as the budget of the values.
        let left = session.options.max_sweeps;
        let mut own = Allowance { left, patience: allowance.period, done: 0, ..*allowance };
        let ended = accelerate::sweep(&mut *backend, 0.5, &mut own, session)?;
        allowance.done += own.done;
        let weights = backend.values().map_err(Error::Backend)?;
        return Ok((Some(weights), ended));
    }
    Ok((None, Ended::Met))
}

/// Q-factors of all rows.
fn factors(mdp: &Mdp, values: &[f64]) -> Vec<f64> {
    let factor = |row: usize| {
        let (cols, probs) = mdp.transitions().row(row);
        cols.iter().zip(probs).fold(mdp.action_reward(row), |sum, (&col, p)| sum + p * values[col as usize])
    };
    (0..mdp.rows()).into_par_iter().with_min_len(CHUNK).map(factor).collect()
}

/// The model of the rows whose Q-factors are within `eta` of the best of their state, with reward 1 for each row.
fn near_optimal<E: std::error::Error>(mdp: &Mdp, values: &[f64], eta: f64) -> Result<Mdp, Error<E>> {
    let factors = factors(mdp, values);
    let (mut builder, mut entries) = (Builder::default(), Vec::new());
    for state in 0..mdp.states() as usize {
        let rows = mdp.choices().rows(state);
        let best = factors[rows.clone()].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for row in rows.filter(|&row| factors[row] >= best - eta) {
            let (cols, probs) = mdp.transitions().row(row);
            entries.extend(cols.iter().copied().zip(probs.iter().copied()));
            builder.row(&mut entries, 1.0);
        }
        builder.end_state();
    }
    Ok(builder.finish()?)
}

/// Proven bounds, and the rounding slack in them.
struct Proof {
    bounds: Proper,
    slack: f64,
}

/// Conditions of a state's rows on κ.
#[derive(Clone, Copy)]
struct Demand {
    /// U is an upper bound if κ is at least this …
    up: f64,
    /// … and at most that.
    cap: f64,
    /// L is a lower bound if κ is at least this.
    down: f64,
    /// The largest rounding slack of a row.
    slack: f64,
}

/// Bounds V ± κw with the smallest provable κ; infinite if no κ is.
fn prove(mdp: &Mdp, rounding: Rounding, values: &[f64], weights: &[f64]) -> Proof {
    let lengths = mdp.transitions().row_ptr().par_windows(2).map(|ends| ends[1] - ends[0]);
    let terms = (lengths.max().unwrap_or_default() as usize + rounding.operations + 3) as f64;
    let prover = Prover { mdp, values, weights, terms, reward_size: rounding.reward_size };
    let states = (0..mdp.states() as usize).into_par_iter().with_min_len(CHUNK / 4);
    let found: Vec<(Demand, usize)> = states.map(|state| prover.demand(state)).collect();

    // Covers the rounding of the quotients and of one comparison.
    let margin = 1.0 + 8.0 * f64::EPSILON;
    let most = |of: fn(&Demand) -> f64| found.iter().map(|(demand, _)| of(demand)).fold(0.0, f64::max);
    let up = most(|demand| demand.up) * margin;
    let down = most(|demand| demand.down) * margin;
    let cap = found.iter().map(|(demand, _)| demand.cap).fold(f64::INFINITY, f64::min);
    let up = if up * margin <= cap { up } else { f64::INFINITY };
    // ∞·0 would be NaN.
    let width = |kappa: f64, w: f64| if kappa.is_finite() { (kappa * w).next_up() } else { f64::INFINITY };
    let lower = values.iter().zip(weights).map(|(v, &w)| (v - width(down, w)).next_down()).map(lower_or_none).collect();
    let upper = values.iter().zip(weights).map(|(v, &w)| (v + width(up, w)).next_up()).map(upper_or_none).collect();
    let rows = found.iter().map(|(_, row)| *row).collect();
    Proof { bounds: Proper { lower, upper, rows, status: Status::Solved }, slack: most(|demand| demand.slack) }
}

/// Replaces NaN by −∞.
fn lower_or_none(bound: f64) -> f64 {
    if bound.is_nan() { f64::NEG_INFINITY } else { bound }
}

/// Replaces NaN by ∞.
fn upper_or_none(bound: f64) -> f64 {
    if bound.is_nan() { f64::INFINITY } else { bound }
}

struct Prover<'a> {
    mdp: &'a Mdp,
    values: &'a [f64],
    weights: &'a [f64],
    /// Maximum number of operations behind a Q-factor.
    terms: f64,
    reward_size: f64,
}

impl Prover<'_> {
    /// Upper bound of the rounding error of a sum whose terms have magnitudes that sum to `size`.
    fn slack(&self, size: f64) -> f64 {
        1.01 * self.terms * (UNIT * size + f64::MIN_POSITIVE)
    }

    /// The conditions of a state's rows, and the row with the weakest condition on the lower bound.
    fn demand(&self, state: usize) -> (Demand, usize) {
        let (v, w) = (self.values[state], self.weights[state]);
        let rows = self.mdp.choices().rows(state);
        // A state without rows has value 0. A quotient has no such state.
        let mut best = rows.start;
        let none = if rows.is_empty() { 0.0 } else { f64::INFINITY };
        let mut demand = Demand { up: 0.0, cap: f64::INFINITY, down: none, slack: 0.0 };
        for row in rows {
            let (cols, probs) = self.mdp.transitions().row(row);
            let reward = self.mdp.action_reward(row);
            let [mut next, mut size, mut weight, mut weight_size] = [0.0; 4];
            for (&col, &p) in cols.iter().zip(probs) {
                let v = self.values[col as usize];
                next += p * v;
                size += p * v.abs();
                weight += p * self.weights[col as usize];
                weight_size += p * self.weights[col as usize].abs();
            }
            let error = self.slack(2.0 * self.reward_size.max(reward.abs()) + size + v.abs());
            demand.slack = demand.slack.max(error);
            let gain = reward + next - v;
            let fall = w - weight - self.slack(w.abs() + weight_size);
            if !(gain.is_finite() && error.is_finite() && fall.is_finite()) {
                demand.up = f64::INFINITY;
                continue;
            }
            if fall > 0.0 {
                demand.up = demand.up.max((gain + error) / fall);
                let down = (error - gain) / fall;
                if down < demand.down {
                    (demand.down, best) = (down, row);
                }
            } else if gain + error > 0.0 {
                demand.up = f64::INFINITY;
            } else if fall < 0.0 {
                demand.cap = demand.cap.min((gain + error) / fall);
            }
        }
        (demand, best)
    }
}
