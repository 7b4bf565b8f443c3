//! Enclosures of optimal values, from any proposal.
//!
//! Quantities are maximised. Sweeps in plain `f64` improve a proposal V; what they do proves nothing. Then inequalities
//! between V and the model, in [intervals](crate::interval), prove bounds on both sides. Each follows from monotone
//! operators: U ≥ TU implies U ≥ V\*, and L ≤ T_π L implies L ≤ V^π ≤ V\*, under the conditions below.
//!
//! - *Discounted.* TV − V lies in [d, D] in all states, and rows sum to [σ, Σ]. U = V + c has U ≥ TU if c (1 − γs) ≥ D for
//!   all row sums s: c = D/(1 − γΣ) if D ≥ 0, else c = D/(1 − γσ), with σ = 0 if the process can end. Likewise for L
//!   (MacQueen 1966; Puterman, *Markov Decision Processes*, 1994, 6.6.3).
//! - *Sums until the end*, in the [reduced model](crate::reduce). U = V + κw, weights w > 0, has U ≥ TU if each row satisfies
//!   Q − V(s) ≤ κ (w(s) − Σ P w); then U ≥ V\*, since policies that do not end lose without bound. L = V − κw has L ≤ T_π L
//!   if the rows of π satisfy Q − V(s) ≥ −κ (w(s) − Σ P w); then L ≤ V^π if π ends almost surely, which the graph decides
//!   (Bertsekas and Tsitsiklis, *An Analysis of Stochastic Shortest Path Problems*, 1991; Hartmanns and Kaminski,
//!   *Optimistic Value Iteration*, 2020).
//! - *Average.* In an end component, min max (r + Ph − h) ≤ g ≤ max max (r + Ph − h) for every h (Odoni 1969). The gain of the
//!   model is the best expected gain of the component where the process stays: a sum until the end.
//! - *Finite horizon.* V_t = T V_{t+1}, from both ends of an interval.

use rayon::prelude::*;
use warpkov_common::interrupt;

use crate::graph::{Components, NONE, Restricted};
use crate::interval::{Interval, Sum};
use crate::rational::proper;
use crate::reduce::{Place, Reduced, STAY, onward_sum, row_sum, scaled_reward};

/// What may be spent: visits of entries by sweeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort(pub u64);

impl Effort {
    /// Spends `entries`. Returns whether that much was left, and nobody asks to stop.
    fn spend(&mut self, entries: usize) -> bool {
        let entries = entries.max(1) as u64;
        if self.0 < entries || interrupt::requested() {
            return false;
        }
        self.0 -= entries;
        true
    }
}

/// States for one task.
const CHUNK: usize = 1024;

/// c + Σ P R + γ Σ P V − `less` of a row, with the sign of the objective on rewards.
fn advantage(model: Restricted<'_>, row: usize, values: &[f64], gamma: f64, less: f64) -> Interval {
    let mdp = model.mdp;
    let sign = mdp.objective().sign();
    let (columns, probs) = mdp.transitions().row(row);
    let mut sum = Sum::default();
    sum.add(sign * mdp.action_reward(row));
    mdp.rewards_of(row).zip(probs).filter(|(r, _)| *r != 0.0).for_each(|(r, &p)| sum.add_product(p, sign * r));
    columns.iter().zip(probs).for_each(|(&to, &p)| sum.add_product3(gamma, p, values[to as usize]));
    sum.add(-less);
    sum.interval()
}

/// V ← max (r + γ P V), state by state in place, `sweeps` times. Returns the largest change of the last sweep.
fn sweep(model: Restricted<'_>, values: &mut [f64], sweeps: u32, effort: &mut Effort) -> f64 {
    let mdp = model.mdp;
    let (sign, gamma) = (mdp.objective().sign(), mdp.gamma());
    let mut change = 0.0_f64;
    for _ in 0..sweeps {
        if !effort.spend(mdp.transitions().nnz()) {
            break;
        }
        change = 0.0;
        for state in 0..model.states() {
            let q = |row: usize| {
                let (columns, probs) = mdp.transitions().row(row);
                let reward: f64 = mdp.rewards_of(row).zip(probs).map(|(r, p)| p * r).sum();
                let (mut next, mut own) = (0.0, 1.0);
                for (&to, &p) in columns.iter().zip(probs) {
                    if to as usize == state {
                        own -= gamma * p;
                    } else {
                        next += p * values[to as usize];
                    }
                }
                (sign * (mdp.action_reward(row) + reward) + gamma * next) / own
            };
            let new = model.rows(state).map(q).reduce(f64::max).unwrap_or(0.0);
            if new.is_finite() {
                change = change.max((new - values[state]).abs());
                values[state] = new;
            }
        }
        if change == 0.0 {
            break;
        }
    }
    change
}

/// An enclosure of the discounted V\* of each state; `None` if γ times a row sum may be 1 or more. It is as narrow as `tight` if the
/// effort and the precision suffice. `enough` ends the search for a narrower one.
pub(crate) fn discounted(
    model: Restricted<'_>,
    guess: &[f64],
    tight: f64,
    mut effort: Effort,
    enough: &dyn Fn(&[Interval]) -> bool,
) -> Option<Vec<Interval>> {
    let (mdp, states, gamma) = (model.mdp, model.states(), model.mdp.gamma());
    let point = Interval::point;
    let sums = (0..states).into_par_iter().with_min_len(CHUNK).map(|state| {
        let rows = model.rows(state);
        let ends = rows.is_empty() || rows.clone().any(|row| mdp.end(row) > 0.0);
        let least = if ends { Interval::ZERO } else { point(f64::INFINITY) };
        rows.map(|row| onward_sum(mdp, row)).fold((least.lo, 0.0_f64), |(lo, hi), sum| (lo.min(sum.lo), hi.max(sum.hi)))
    });
    let (least, most) = sums.reduce(|| (f64::INFINITY, 0.0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    // 1 − γΣ and 1 − γσ
    let short = point(1.0) - point(gamma) * point(most);
    let long = point(1.0) - point(gamma) * point(least.min(most).max(0.0));
    if short.lo <= 0.0 {
        return None;
    }
    let mut values: Vec<f64> = guess.iter().map(|&x| if x.is_finite() { x } else { 0.0 }).collect();
    let mut found: Option<Vec<Interval>> = None;
    let (mut sweeps, mut before) = (1, f64::INFINITY);
    loop {
        let of_state = |state: usize| {
            let best = model.rows(state).map(|row| advantage(model, row, &values, gamma, values[state]));
            best.reduce(Interval::max).unwrap_or_else(|| point(-values[state]))
        };
        let all = (0..states).into_par_iter().with_min_len(CHUNK).map(of_state);
        let Interval { lo, hi } = all.reduce_with(Interval::hull).unwrap_or(Interval::ZERO);
        let low = point(lo).over(if lo < 0.0 { short } else { long });
        let high = point(hi).over(if hi < 0.0 { long } else { short });
        let shift = Interval::new(low.lo, high.hi);
        let bound = |state: usize| match model.rows(state).is_empty() {
            true => Interval::ZERO,
            false => point(values[state]) + shift,
        };
        let new: Vec<Interval> = (0..states).into_par_iter().with_min_len(CHUNK).map(bound).collect();
        found = Some(match found {
            Some(found) => found.into_par_iter().zip(new).map(|(a, b)| a.meet(b)).collect(),
            None => new,
        });
        let width = shift.hi - shift.lo;
        let stalled = sweeps > 64 && width >= 0.9 * before;
        if width <= tight || stalled || found.as_deref().is_some_and(enough) {
            return found;
        }
        before = width;
        if width.is_finite() {
            let middle = shift.lo / 2.0 + shift.hi / 2.0;
            values.par_iter_mut().for_each(|value| *value += middle);
        }
        sweep(model, &mut values, sweeps, &mut effort);
        sweeps = sweeps.saturating_mul(2);
        if effort.0 < mdp.transitions().nnz() as u64 || interrupt::requested() {
            return found;
        }
    }
}

/// Enclosures of V₀ for each state, and of each step if `each` wants them, last step first: it is called with t, V_t and the interval of
/// V_{t+1}.
pub(crate) fn horizon(
    model: Restricted<'_>,
    steps: u32,
    plan: Option<&[u32]>,
    mut each: impl FnMut(usize, &[Interval], &[Interval]),
) -> Option<Vec<Interval>> {
    let (states, gamma) = (model.states(), model.mdp.gamma());
    let mut values = vec![Interval::ZERO; states];
    for step in (0..steps as usize).rev() {
        if interrupt::requested() {
            return None;
        }
        let policy = plan.map(|plan| &plan[step * states..(step + 1) * states]).or(model.policy);
        let new = step_back(Restricted { mdp: model.mdp, policy }, &values, gamma);
        each(step, &new, &values);
        values = new;
    }
    Some(values)
}

/// T V, for V within these intervals.
pub(crate) fn step_back(model: Restricted<'_>, values: &[Interval], gamma: f64) -> Vec<Interval> {
    let (low, high): (Vec<f64>, Vec<f64>) = values.iter().map(|x| (x.lo, x.hi)).unzip();
    let of_state = |state: usize| {
        let q = |row: usize| Interval {
            lo: advantage(model, row, &low, gamma, 0.0).lo,
            hi: advantage(model, row, &high, gamma, 0.0).hi,
        };
        model.rows(state).map(q).reduce(Interval::max).unwrap_or(Interval::ZERO)
    };
    (0..model.states()).into_par_iter().with_min_len(CHUNK).map(of_state).collect()
}

/// The numbers of a reduced model's rows in `f64`, for sweeps.
struct Rounded {
    /// Row r has the entries `first[r]..first[r + 1]`.
    first: Vec<usize>,
    to: Vec<u32>,
    /// Probabilities, divided by that of leaving the vertex.
    prob: Vec<f64>,
    /// Reward and fixed values, divided likewise.
    constant: Vec<f64>,
}

impl Rounded {
    fn new(model: &Reduced<'_>, payoffs: &[Interval]) -> Self {
        let mut rounded = Self { first: vec![0], to: Vec::new(), prob: Vec::new(), constant: Vec::new() };
        for vertex in 0..model.vertices() {
            for row in model.first[vertex]..model.first[vertex + 1] {
                let origin = model.origin[row];
                let start = rounded.to.len();
                let (mut constant, mut leaves) = (0.0, 1.0);
                if origin == STAY {
                    constant = middle(payoff(model, payoffs, vertex));
                } else {
                    let mdp = model.model.mdp;
                    let (columns, probs) = mdp.transitions().row(origin);
                    leaves = mdp.end(origin);
                    constant += middle(model.reward(origin));
                    for (&to, &p) in columns.iter().zip(probs).filter(|(_, p)| **p > 0.0) {
                        match model.place[to as usize] {
                            Place::Open(to) if to as usize == vertex => continue,
                            Place::Open(to) => {
                                rounded.to.push(to);
                                rounded.prob.push(p);
                            }
                            Place::Fixed(value) => constant += p * value,
                        }
                        leaves += p;
                    }
                }
                rounded.prob[start..].iter_mut().for_each(|p| *p /= leaves);
                rounded.constant.push(if leaves > 0.0 { constant / leaves } else { f64::NEG_INFINITY });
                rounded.first.push(rounded.to.len());
            }
        }
        rounded
    }

    /// Σ P x of a row.
    fn next(&self, row: usize, x: &[f64]) -> f64 {
        let entries = self.first[row]..self.first[row + 1];
        self.to[entries.clone()].iter().zip(&self.prob[entries]).map(|(&to, p)| p * x[to as usize]).sum()
    }
}

fn middle(x: Interval) -> f64 {
    if x.lo == x.hi { x.lo } else { x.lo / 2.0 + x.hi / 2.0 }
}

/// What staying in the component of a vertex pays.
fn payoff(model: &Reduced<'_>, payoffs: &[Interval], vertex: usize) -> Interval {
    payoffs.get(model.component[vertex] as usize).copied().unwrap_or(Interval::ZERO)
}

/// σ (Q − V(v)) of a row.
fn excess(model: &Reduced<'_>, payoffs: &[Interval], vertex: usize, row: usize, values: &[f64]) -> Interval {
    let origin = model.origin[row];
    let mut sum = Sum::default();
    if origin == STAY {
        sum.add_interval(payoff(model, payoffs, vertex));
        sum.add(-values[vertex]);
        return sum.interval();
    }
    let mdp = model.model.mdp;
    let (columns, probs) = mdp.transitions().row(origin);
    for (&to, &p) in columns.iter().zip(probs) {
        match model.place[to as usize] {
            Place::Open(to) if to as usize == vertex => continue,
            Place::Open(to) => sum.add_product(p, values[to as usize]),
            Place::Fixed(value) => sum.add_product(p, value),
        }
        sum.add_product(-p, values[vertex]);
    }
    sum.add_product(-mdp.end(origin), values[vertex]);
    sum.add_interval(model.reward(origin));
    sum.interval()
}

/// σ (w(v) − Σ P w) of a row.
fn fall(model: &Reduced<'_>, vertex: usize, row: usize, weights: &[f64]) -> Interval {
    let origin = model.origin[row];
    let mut sum = Sum::default();
    if origin == STAY {
        return Interval::point(weights[vertex]);
    }
    let mdp = model.model.mdp;
    let (columns, probs) = mdp.transitions().row(origin);
    for (&to, &p) in columns.iter().zip(probs) {
        match model.place[to as usize] {
            Place::Open(to) if to as usize == vertex => continue,
            Place::Open(to) => sum.add_product(-p, weights[to as usize]),
            Place::Fixed(_) => {}
        }
        sum.add_product(p, weights[vertex]);
    }
    sum.add_product(mdp.end(origin), weights[vertex]);
    sum.interval()
}

/// Enclosures of the values of the vertices, from a proposal. `payoffs` are those of staying in each component (0 without).
pub(crate) fn sums(
    model: &Reduced<'_>,
    payoffs: &[Interval],
    guess: &[f64],
    tight: f64,
    mut effort: Effort,
    enough: &dyn Fn(&[Interval]) -> bool,
) -> Vec<Interval> {
    let vertices = model.vertices();
    let rounded = Rounded::new(model, payoffs);
    let entries = rounded.to.len() + vertices;
    let mut values = vec![0.0; vertices];
    for (place, &value) in model.place.iter().zip(guess) {
        if let Place::Open(vertex) = *place {
            values[vertex as usize] = if value.is_finite() { value } else { 0.0 };
        }
    }
    let mut found = vec![Interval::ALL; vertices];
    let (mut lower_weights, mut upper_weights) = (vec![1.0; vertices], vec![1.0; vertices]);
    let mut sweeps = 1_u32;
    let mut before = f64::INFINITY;
    if vertices == 0 {
        return found;
    }
    loop {
        let mut change = 0.0_f64;
        for _ in 0..sweeps {
            if !effort.spend(entries) {
                return found;
            }
            change = 0.0;
            for vertex in 0..vertices {
                let q = |row: usize| rounded.constant[row] + rounded.next(row, &values);
                let new = (model.first[vertex]..model.first[vertex + 1]).map(q).fold(f64::NEG_INFINITY, f64::max);
                if new.is_finite() {
                    change = change.max((new - values[vertex]).abs());
                    values[vertex] = new;
                }
            }
            if change == 0.0 {
                break;
            }
        }
        let all = excess_of_all(model, payoffs, &values);
        let proof = Proof { model, rounded: &rounded, excess: &all, margin: tight.max(f64::MIN_POSITIVE) };
        let shifts = proof.bounds(&mut lower_weights, &mut upper_weights, &mut effort);
        let new = values.iter().zip(&shifts).map(|(&value, &shift)| Interval::point(value) + shift);
        found.iter_mut().zip(new).for_each(|(found, new)| *found = found.meet(new));
        let width = found.iter().map(|x| x.hi - x.lo).fold(0.0, f64::max);
        if width <= tight
            || enough(&found)
            || (change == 0.0 && width >= before)
            || (sweeps > 1 << 12 && width >= 0.9 * before)
        {
            return found;
        }
        before = width;
        sweeps = sweeps.saturating_mul(2);
    }
}

fn excess_of_all(model: &Reduced<'_>, payoffs: &[Interval], values: &[f64]) -> Vec<Interval> {
    let of_vertex = |vertex: usize| {
        let rows = model.first[vertex]..model.first[vertex + 1];
        rows.map(|row| excess(model, payoffs, vertex, row, values)).collect::<Vec<_>>()
    };
    (0..model.vertices()).into_par_iter().flat_map_iter(of_vertex).collect()
}

/// The search for weights.
struct Proof<'p, 'm> {
    model: &'p Reduced<'m>,
    rounded: &'p Rounded,
    /// σ (Q − V) of each row.
    excess: &'p [Interval],
    /// Rows that lose less count as good.
    margin: f64,
}

impl Proof<'_, '_> {
    fn rows(&self, vertex: usize) -> std::ops::Range<usize> {
        self.model.first[vertex]..self.model.first[vertex + 1]
    }

    /// Bounds of V\* − V of each vertex; infinite where none is proved.
    fn bounds(&self, lower: &mut [f64], upper: &mut [f64], effort: &mut Effort) -> Vec<Interval> {
        let unknown = |vertex: usize| (vertex, f64::NEG_INFINITY);
        let best: Vec<f64> = (0..lower.len())
            .map(|vertex| self.rows(vertex).map(|row| self.excess[row].hi).fold(unknown(vertex).1, f64::max))
            .collect();
        let good = |vertex: usize, row: usize| self.excess[row].lo >= best[vertex] - self.margin;
        let below = proper(self.model, good).and_then(|policy| {
            let counted = |vertex: usize, row: usize| policy[vertex] == row;
            self.weights(lower, &counted, effort).then_some(())?;
            let mut factor = 0.0_f64;
            for (vertex, &row) in policy.iter().enumerate() {
                let (needed, fall) = (-self.excess[row].lo, fall(self.model, vertex, row, lower).lo);
                if needed > 0.0 {
                    factor = factor.max(quotient_up(needed, fall)?);
                } else if fall.is_nan() || fall < 0.0 {
                    return None;
                }
            }
            Some(factor)
        });
        let above = self.upper_factor(upper, &good, effort);
        let bound = |vertex: usize| {
            let product = |factor: Option<f64>, weight: f64| match factor {
                Some(0.0) => 0.0,
                Some(factor) => (factor * weight).next_up(),
                None => f64::INFINITY,
            };
            Interval::new(-product(below, lower[vertex]), product(above, upper[vertex]))
        };
        (0..lower.len()).map(bound).collect()
    }

    /// κ of U = V + κw, with w = 1 + max Σ P w over good rows, and over those that it turns out to need.
    fn upper_factor(
        &self,
        weights: &mut [f64],
        good: &dyn Fn(usize, usize) -> bool,
        effort: &mut Effort,
    ) -> Option<f64> {
        /// Rounds of adding rows.
        const ROUNDS: usize = 24;
        let mut counted: Vec<bool> =
            (0..weights.len()).flat_map(|v| self.rows(v).map(move |row| good(v, row))).collect();
        for _ in 0..ROUNDS {
            if !self.weights(weights, &|_, row| counted[row], effort) {
                return None;
            }
            let mut factor = 0.0_f64;
            let mut open = Vec::new();
            for vertex in 0..weights.len() {
                for row in self.rows(vertex) {
                    let (needed, fall) = (self.excess[row].hi, fall(self.model, vertex, row, weights));
                    if fall.lo > 0.0 {
                        if needed > 0.0 {
                            factor = factor.max(quotient_up(needed, fall.lo)?);
                        }
                    } else {
                        open.push((row, needed, -fall.lo));
                    }
                }
            }
            // A row along which weights rise by x must lose κx.
            let mut added = false;
            for (row, needed, rise) in open {
                let lost = if factor == 0.0 || rise == 0.0 { 0.0 } else { (factor * rise).next_up() };
                if needed > -lost {
                    if counted[row] {
                        return None;
                    }
                    (counted[row], added) = (true, true);
                }
            }
            if !added {
                return Some(factor);
            }
        }
        None
    }

    /// Sweeps until w is nearly 1 + max Σ P w over the rows that count. Returns whether it is.
    fn weights(&self, weights: &mut [f64], counted: &dyn Fn(usize, usize) -> bool, effort: &mut Effort) -> bool {
        /// Weights of processes that last too long.
        const MOST: f64 = 1e15;
        loop {
            if !effort.spend(self.rounded.to.len() + weights.len()) {
                return false;
            }
            let (mut change, mut most) = (0.0_f64, 0.0_f64);
            for vertex in 0..weights.len() {
                let next =
                    self.rows(vertex).filter(|&row| counted(vertex, row)).map(|row| self.rounded.next(row, weights));
                let new = 1.0 + next.fold(0.0, f64::max);
                change = change.max((new - weights[vertex]).abs());
                most = most.max(new);
                weights[vertex] = new;
            }
            if change < 0.25 {
                return true;
            }
            if most.is_nan() || most > MOST {
                weights.fill(1.0);
                return false;
            }
        }
    }
}

/// x / y rounded up; `None` unless y > 0.
fn quotient_up(x: f64, y: f64) -> Option<f64> {
    (y > 0.0).then(|| (x / y).next_up())
}

/// Enclosures of the optimal gain of each end component, in `f64` sweeps of r + P h with a damped step.
pub(crate) fn gains(model: Restricted<'_>, components: &Components, tight: f64, mut effort: Effort) -> Vec<Interval> {
    let mut members = vec![Vec::new(); components.count];
    for (state, &component) in components.of_state.iter().enumerate() {
        if component != NONE {
            members[component as usize].push(state);
        }
    }
    let mut bias = vec![0.0; model.states()];
    members.iter().map(|members| gain(model, components, members, &mut bias, tight, &mut effort)).collect()
}

fn gain(
    model: Restricted<'_>,
    components: &Components,
    members: &[usize],
    bias: &mut [f64],
    tight: f64,
    effort: &mut Effort,
) -> Interval {
    /// The share of a step that is taken, which makes every policy aperiodic.
    const STEP: f64 = 0.875;
    let mdp = model.mdp;
    let inside = |state: usize| model.rows(state).filter(|&row| components.inside[row]);
    let entries: usize =
        members.iter().map(|&s| inside(s).map(|row| mdp.transitions().row(row).1.len()).sum::<usize>()).sum();
    let rewards: Vec<Vec<f64>> =
        members.iter().map(|&s| inside(s).map(|row| middle(scaled_reward(mdp, row))).collect()).collect();
    let mut found = Interval::ALL;
    let (mut sweeps, mut before) = (1_u32, f64::INFINITY);
    loop {
        // σ (r + P h − h), divided by σ.
        let drift = |state: usize| {
            let of_row = |row: usize| {
                let mut sum = Sum::default();
                let (columns, probs) = mdp.transitions().row(row);
                for (&to, &p) in columns.iter().zip(probs) {
                    sum.add_product(p, bias[to as usize]);
                    sum.add_product(-p, bias[state]);
                }
                sum.add_interval(scaled_reward(mdp, row));
                sum.interval().over(row_sum(mdp, row))
            };
            inside(state).map(of_row).reduce(Interval::max).unwrap_or(Interval::ALL)
        };
        let range = members.par_iter().map(|&state| drift(state)).reduce_with(Interval::hull).unwrap_or(Interval::ALL);
        found = found.meet(range);
        let width = found.hi - found.lo;
        if width <= tight || (sweeps > 1 << 12 && width >= 0.9 * before) {
            return found;
        }
        before = width;
        for _ in 0..sweeps {
            if !effort.spend(entries + members.len()) {
                return found;
            }
            let new: Vec<f64> = members
                .iter()
                .zip(&rewards)
                .map(|(&state, rewards)| {
                    let q = |(row, r): (usize, &f64)| {
                        let (columns, probs) = mdp.transitions().row(row);
                        let next = columns.iter().zip(probs).map(|(&to, p)| p * (bias[to as usize] - bias[state]));
                        r + next.sum::<f64>()
                    };
                    bias[state] + STEP * inside(state).zip(rewards).map(q).fold(f64::NEG_INFINITY, f64::max)
                })
                .collect();
            let shift = new.first().copied().unwrap_or(0.0);
            members.iter().zip(new).for_each(|(&state, new)| bias[state] = new - shift);
        }
        sweeps = sweeps.saturating_mul(2);
    }
}

/// Which rows of a reduced model are best, by a proposal of the values of its states.
pub(crate) fn greedy(model: &Reduced<'_>, guess: &[f64]) -> Vec<bool> {
    let mut values = vec![0.0; model.vertices()];
    for (place, &value) in model.place.iter().zip(guess) {
        if let Place::Open(vertex) = *place {
            values[vertex as usize] = if value.is_finite() { value } else { 0.0 };
        }
    }
    let all = excess_of_all(model, &[], &values);
    let of_vertex = |vertex: usize| {
        let rows = model.first[vertex]..model.first[vertex + 1];
        let best = rows.clone().map(|row| all[row].hi).fold(f64::NEG_INFINITY, f64::max);
        rows.map(move |row| (row, best)).collect::<Vec<_>>()
    };
    (0..model.vertices()).flat_map(of_vertex).map(|(row, best)| all[row].hi >= best).collect()
}
