//! What is guaranteed about a value function, whichever device computed it in whichever precision.
//!
//! The Bellman operator (TV)(s) = maxₐ r(s, a) + γ Σ P(s'|s, a)·V(s') contracts in the maximum norm with the modulus
//! γ' = γ · max Σ P(s'|s, a), where the sum is that of a row. So ‖V − V*‖∞ ≤ ‖TV − V‖∞ / (1 − γ') for every V.
//!
//! Where all states go on for ever, adding c to V moves TV − V by between c(γσ − 1) and c(γσ' − 1), σ and σ' the least and
//! the largest row sum: [`certify_centred`] chooses c so that the extremes of TV − V become opposite, which
//! makes the bound one of their difference, the span (MacQueen 1966; Puterman, *Markov Decision Processes*, 6.6.3).
//!
//! ‖TV − V‖∞ is computed in `f64`, of unit roundoff u = 2⁻⁵³. For a row of n entries, a dot product carries a relative
//! error of at most nu/(1 − nu) of Σ|pᵢxᵢ|, and one product and two sums follow. With N the length of the longest row
//! and M the largest Σ P·|R| + γ Σ P·|V| + |V(s)| of all rows, the computed norm is off by at most
//! k·u·M/(1 − k·u), k = N + 3. M as computed is off by the same factor again, and k·u < 1/4 for all rows of fewer than
//! 2³² entries, so that 2·(N + 4)·(u·M + m) covers both; m, the smallest normal number, covers underflow.
//!
//! A device that finds TV − V in `f64` itself adds γP·V to r(s, a), term by term: N fused operations, each rounded once,
//! whose sum is V_new as it is stored, and the difference V_new − V, rounded as well. Before that, r(s, a) took N + 1
//! operations and γP one. k = 2N + 2 covers that, and 2·(N + 4) covers k/(1 − k·u)² for all rows of fewer than 2²⁶ entries.

use rayon::prelude::*;
use serde::Serialize;

use super::model::{CHUNK, Mdp, NO_ACTION, View};

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// How far a value function is from the optimal one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// ρ = ‖TV − V‖∞, as computed; infinite if V is not finite.
    pub bellman_residual: f64,
    /// Least and greatest TV − V.
    pub range: [f64; 2],
    /// γ', the modulus of contraction: γ times the largest row sum of P.
    pub contraction: f64,
    /// A number that ‖V − V*‖∞ does not exceed, rounding errors included; `None` if γ' ≥ 1 or V is not finite.
    pub bound: Option<f64>,
}

impl Certificate {
    /// The bound with two digits, rounded up, so that what is printed holds as well.
    #[must_use]
    pub fn bound_text(&self) -> Option<String> {
        self.bound.map(rounded_up)
    }
}

/// A bound, 0 or above, with two digits.
pub(super) fn rounded_up(bound: f64) -> String {
    let text = format!("{bound:.1e}");
    match text.parse::<f64>() {
        Ok(printed) if printed < bound => {
            let unit = 10f64.powi(bound.log10().floor() as i32 - 1);
            format!("{:.1e}", printed + unit)
        }
        _ => text,
    }
}

/// Certifies `values`, one per state, on all cores.
pub fn certify(mdp: &Mdp, values: &[f64]) -> Certificate {
    measure(mdp, values).certificate(mdp.gamma(), 0.0)
}

/// Shifts `values` to where their certificate is best, and certifies them. In a model that can end they stay.
pub fn certify_centred(mdp: &Mdp, values: &mut [f64]) -> Certificate {
    let (certificate, shift) = measure(mdp, values).centred(mdp.gamma());
    shift_all(values, shift);
    certificate
}

fn shift_all(values: &mut [f64], shift: f64) {
    if shift != 0.0 {
        values.par_iter_mut().for_each(|value| *value += shift);
    }
}

/// Certifies `values`, shifted as by [`certify_centred`] if `centre` says so, and finds on the way a policy that is greedy
/// with respect to what they were, as [`greedy`] does.
pub(super) fn certify_greedy(mdp: &Mdp, values: &mut [f64], centre: bool) -> (Certificate, Vec<u32>) {
    let mut policy = vec![NO_ACTION; values.len()];
    let view = mdp.view();
    let tasks = policy.par_chunks_mut(CHUNK / 4).enumerate().map(|(task, policy)| {
        let of_state = |(state, action): (usize, &mut u32)| {
            let (found, best) = of_state(mdp, view, values, state);
            *action = best;
            found
        };
        (task * (CHUNK / 4)..).zip(policy).map(of_state).fold(Extremes::default(), Extremes::max)
    });
    let found = tasks.reduce(Extremes::default, Extremes::max);
    let (certificate, shift) =
        if centre { found.centred(mdp.gamma()) } else { (found.certificate(mdp.gamma(), 0.0), 0.0) };
    shift_all(values, shift);
    (certificate, policy)
}

/// A policy that is greedy with respect to `values`, on all cores: the best action of each state, the lowest-numbered of
/// equal ones, and [`NO_ACTION`] where there is none.
pub fn greedy(mdp: &Mdp, values: &[f64]) -> Vec<u32> {
    let sign = mdp.objective().sign();
    let of_state = |state: usize| first_best(mdp.choices().rows(state).map(|row| sign * q_factor(mdp, values, row)));
    (0..mdp.states() as usize).into_par_iter().with_min_len(CHUNK / 4).map(of_state).collect()
}

/// The action with the largest of these Q-factors, the lowest-numbered of equal ones; [`NO_ACTION`] where there is none.
pub(super) fn first_best(factors: impl Iterator<Item = f64>) -> u32 {
    let best = factors.zip(0..).reduce(|best: (f64, u32), next| if next.0 > best.0 { next } else { best });
    best.map_or(NO_ACTION, |(_, action)| action)
}

/// Q(s, a) = r(s, a) + γ Σ P(s'|s, a)·V(s') of a row.
fn q_factor(mdp: &Mdp, values: &[f64], row: usize) -> f64 {
    let (successors, probs) = mdp.transitions().row(row);
    let earned: f64 = mdp.rewards_of(row).zip(probs).map(|(reward, p)| p * reward).sum();
    let next: f64 = successors.iter().zip(probs).map(|(&successor, p)| p * values[successor as usize]).sum();
    mdp.action_reward(row) + earned + mdp.gamma() * next
}

/// Q(s, a) − V(s) for each row, and the least and the greatest TV − V of states with actions, on all cores; for a model that
/// is to be maximised.
pub(super) fn advantages(mdp: &Mdp, values: &[f64]) -> (Vec<f64>, [f64; 2]) {
    let states = mdp.states() as usize;
    let of_chunk = |first: usize| {
        let mut found = Vec::new();
        let mut range = [f64::INFINITY, f64::NEG_INFINITY];
        for state in first..states.min(first + CHUNK) {
            let rows = mdp.choices().rows(state);
            if !rows.is_empty() {
                let start = found.len();
                found.extend(rows.map(|row| q_factor(mdp, values, row) - values[state]));
                let best = found[start..].iter().fold(f64::NEG_INFINITY, |best, &x| or_infinite(x).max(best));
                range = [range[0].min(best), range[1].max(best)];
            }
        }
        (found, range)
    };
    let chunks: Vec<_> = (0..states.div_ceil(CHUNK)).into_par_iter().map(|chunk| of_chunk(chunk * CHUNK)).collect();
    let mut range = [f64::INFINITY, f64::NEG_INFINITY];
    let mut all = Vec::with_capacity(mdp.rows());
    for (found, [least, greatest]) in chunks {
        all.extend(found);
        range = [range[0].min(least), range[1].max(greatest)];
    }
    (all, if range[0] > range[1] { [0.0; 2] } else { range })
}

fn measure(mdp: &Mdp, values: &[f64]) -> Extremes {
    let view = mdp.view();
    let states = (0..mdp.states() as usize).into_par_iter().with_min_len(CHUNK / 4);
    states.map(|s| of_state(mdp, view, values, s).0).reduce(Extremes::default, Extremes::max)
}

/// What a certificate is made of: extremes over states, found in `f64`, here or on a device.
#[derive(Clone, Copy, Debug)]
pub struct Extremes {
    /// Least (TV)(s) − V(s)
    pub least: f64,
    /// Greatest (TV)(s) − V(s)
    pub greatest: f64,
    /// Greatest Σ P·|R| + γ Σ P·|V| + |V(s)|, or more.
    pub magnitude: f64,
    /// Least and greatest Σ P
    pub row_sum: [f64; 2],
    /// Greatest number of successors.
    pub length: usize,
    /// No row ends, and every state has one.
    pub never_terminates: bool,
}

impl Default for Extremes {
    fn default() -> Self {
        Self {
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
            magnitude: 0.0,
            row_sum: [f64::INFINITY, 0.0],
            length: 0,
            never_terminates: true,
        }
    }
}

impl Extremes {
    fn max(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            magnitude: self.magnitude.max(other.magnitude),
            row_sum: [self.row_sum[0].min(other.row_sum[0]), self.row_sum[1].max(other.row_sum[1])],
            length: self.length.max(other.length),
            never_terminates: self.never_terminates && other.never_terminates,
        }
    }

    /// The best certificate that V + a shift has, and the shift; 0 in a model that can end.
    #[must_use]
    pub fn centred(&self, gamma: f64) -> (Certificate, f64) {
        let plain = self.certificate(gamma, 0.0);
        let [least, greatest] = plain.range;
        let shift = (least + greatest) / 2.0 / (1.0 - gamma);
        if self.never_terminates && gamma < 1.0 && shift.is_finite() {
            let centred = self.certificate(gamma, shift);
            if centred.bound.is_some_and(|bound| plain.bound.is_none_or(|plain| bound < plain)) {
                return (centred, shift);
            }
        }
        (plain, 0.0)
    }

    /// The certificate of V + `shift`.
    #[must_use]
    pub fn certificate(&self, gamma: f64, shift: f64) -> Certificate {
        let [low, high] = self.row_sum.map(|sum| shift * gamma * sum);
        let range = [self.least + low.min(high) - shift, self.greatest + low.max(high) - shift];
        let residual = or_infinite(range[0].abs()).max(or_infinite(range[1].abs()));
        let terms = (self.length + 4) as f64;
        // The shift adds to V on both sides of the residual; a few more operations find the range.
        let magnitude = self.magnitude + 4.0 * shift.abs() + residual;
        let slack = 2.0 * terms * (UNIT * magnitude + f64::MIN_POSITIVE);
        let contraction = gamma * self.row_sum[1];
        // A row sum is off by (n − 1)u at most; the factor of the whole covers the last few operations.
        let margin = 1.0 - contraction * (1.0 + 2.0 * terms * UNIT);
        let bound = (residual + slack) / margin * (1.0 + 4.0 * f64::EPSILON);
        let bound = (margin > 0.0 && bound.is_finite()).then_some(bound);
        Certificate { bellman_residual: residual, range, contraction, bound }
    }
}

/// What one state has part in, and its best action as [`first_best`] has it.
fn of_state(mdp: &Mdp, view: View, values: &[f64], state: usize) -> (Extremes, u32) {
    let (gamma, value, sign) = (mdp.gamma(), values[state], mdp.objective().sign());
    let rows = mdp.choices().rows(state);
    // The best Q-factor, as a maximum; that of a state where the process has ended is 0.
    let mut best = if rows.is_empty() { 0.0 } else { f64::NEG_INFINITY };
    let mut action = (f64::NEG_INFINITY, NO_ACTION);
    let mut found = Extremes { never_terminates: !rows.is_empty() && mdp.ends().is_empty(), ..Extremes::default() };
    found.magnitude = or_infinite(value.abs());
    for (number, row) in (0..).zip(rows) {
        let (successors, probs) = view.transitions.row(row);
        let [mut earned, mut next, mut next_size, mut sum] = [0.0; 4];
        let mut reward_size = view.action_reward(row).abs();
        for (&successor, &p) in successors.iter().zip(probs) {
            let v = values[successor as usize];
            next += p * v;
            next_size += p * v.abs();
            sum += p;
        }
        if view.rewards_transitions(row) {
            for (&p, r) in probs.iter().zip(view.rewards_of(row)) {
                earned += p * r;
                reward_size += p * r.abs();
            }
        }
        let q = sign * (view.action_reward(row) + earned + gamma * next);
        if number == 0 || q > action.0 {
            action = (q, number);
        }
        best = or_infinite(q).max(best);
        found.magnitude = found.magnitude.max(or_infinite(reward_size + gamma * next_size + value.abs()));
        found.row_sum = [found.row_sum[0].min(sum), found.row_sum[1].max(sum)];
        found.length = found.length.max(probs.len());
    }
    let residual = sign * best - value;
    found.least = if residual.is_nan() { f64::NEG_INFINITY } else { residual };
    found.greatest = or_infinite(residual);
    (found, action.1)
}

/// Maxima pass over what is not a number; it must not pass for small.
fn or_infinite(x: f64) -> f64 {
    if x.is_nan() { f64::INFINITY } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_bound_is_never_below_the_bound() {
        for bound in [0.0, 1e-300, 9.94e-6, 9.96e-6, 1.04e-5, 1.0e-8, 0.123, 5.0, 99.9] {
            let certificate =
                Certificate { bellman_residual: 0.0, range: [0.0; 2], contraction: 0.5, bound: Some(bound) };
            let printed: f64 = certificate.bound_text().unwrap().parse().unwrap();
            assert!(printed >= bound && printed <= 1.11 * bound, "{bound} is printed as {printed}");
        }
    }
    use crate::mdp::generate::{Garnet, SlipGrid};
    use crate::mdp::model::{Csr, Objective};

    /// One state that earns 1 in every step: V* = 1 / (1 − γ).
    fn loop_of(gamma: f64, probability: f64) -> Mdp {
        let csr = |value| Csr::built(vec![0, 1], vec![0], vec![value]);
        Mdp::new(1, 1, gamma, csr(probability), csr(1.0), None).unwrap()
    }

    #[test]
    fn what_certifies_is_greedy_too() {
        let garnet = Garnet { states: 500, ragged: true, terminal_fraction: 0.1, ..Garnet::default() };
        let grid = SlipGrid { width: 40, height: 30, ..SlipGrid::default() };
        for mdp in [garnet.generate().unwrap(), grid.generate().unwrap()] {
            for mdp in [mdp.to_maximize().into_owned(), mdp.with_objective(Objective::Minimize)] {
                let values: Vec<f64> = (0..mdp.states()).map(|state| f64::from(state * 7 % 5)).collect();
                for centre in [false, true] {
                    let (mut plain, mut certified) = (values.clone(), values.clone());
                    let certificate = if centre { certify_centred(&mdp, &mut plain) } else { certify(&mdp, &plain) };
                    let found = certify_greedy(&mdp, &mut certified, centre);
                    assert_eq!((found, certified), ((certificate, greedy(&mdp, &values)), plain));
                }
            }
        }
    }

    #[test]
    fn bounds_are_tight_where_every_value_is_off_alike() {
        let found = certify(&loop_of(0.75, 1.0), &[3.5]);
        assert_eq!((found.bellman_residual, found.contraction), (0.125, 0.75));
        let bound = found.bound.unwrap();
        assert!((0.5..0.5 + 1e-13).contains(&bound), "{bound}");
    }

    #[test]
    fn an_exact_solution_is_certified_up_to_rounding() {
        let bound = certify(&loop_of(0.9, 1.0), &[10.0]).bound.unwrap();
        assert!(bound > 0.0 && bound < 1e-12, "{bound}");
    }

    #[test]
    fn nothing_is_certified_where_nothing_can_be() {
        assert_eq!(certify(&loop_of(1.0 - 1e-7, 1.0), &[0.0]).bound.map(|bound| bound > 1e6), Some(true));
        let wide = loop_of(0.5, 1.0).with_gamma(1.0).unwrap();
        assert_eq!(certify(&wide, &[0.0]).bound, None);
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let found = certify(&loop_of(0.5, 1.0), &[value]);
            assert_eq!((found.bellman_residual, found.bound), (f64::INFINITY, None), "{value}");
        }
    }
}
