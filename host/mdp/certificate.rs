//! Error bounds for value functions, independent of the device and precision that computed them.
//!
//! The Bellman operator (TV)(s) = maxₐ r(s, a) + γ Σ P(s'|s, a)·V(s') is a contraction in the maximum norm with modulus
//! γ' = γ · max Σ P(s'|s, a), the maximum over all rows. So ‖V − V*‖∞ ≤ ‖TV − V‖∞ / (1 − γ') for every V.
//!
//! If the process never ends, adding c to V moves TV − V by an amount between c(γσ − 1) and c(γσ' − 1), with σ and σ'
//! the least and the largest row sum. [`certify_centred`] chooses c so that the extremes of TV − V become opposite. The
//! bound then depends on their difference, the span (MacQueen 1966; Puterman, *Markov Decision Processes*, 6.6.3).
//!
//! Rounding errors on the host: ‖TV − V‖∞ is computed in `f64`, of unit roundoff u = 2⁻⁵³. For a row of n entries, a
//! dot product has an error of at most nu/(1 − nu) times Σ|pᵢxᵢ|; one product and two sums follow. Let N be the length
//! of the longest row and M the largest Σ P·|R| + γ Σ P·|V| + |V(s)| of all rows. The computed norm has an error of at
//! most k·u·M/(1 − k·u), k = N + 3. The computed M has a relative error of the same size. Since k·u < 1/4 for all rows
//! of fewer than 2³² entries, 2·(N + 4)·(u·M + m) covers both errors; m, the smallest normal number, covers underflow.
//!
//! That is more than needed where an action with large numbers is not the best one. With an error of at most E of each computed Q-factor q,
//! the largest true Q-factor lies between max (q − E) and max (q + E) over the actions, so a state may count with the M that gives this
//! distance from max q in place of its own. 5/4 of E covers the rounding of q ± E, of at most u(|q| + 5/4 E) ≤ E/4.
//!
//! Rounding errors on a device: a device that computes TV − V in `f64` adds γP·V to r(s, a) term by term, in N fused
//! multiply-adds with one rounding each. The stored sum is V_new; the difference V_new − V adds one rounding.
//! Beforehand, r(s, a) took N + 1 operations and γP one. k = 2N + 2 covers all of these, and 2·(N + 4) covers k/(1 −
//! k·u)² for all rows of fewer than 2²⁶ entries.

use rayon::prelude::*;
use serde::Serialize;

use super::model::{CHUNK, Mdp, NO_ACTION, View};
use super::options::Target;
use super::team::Team;
use warpkov_runtime::comm;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Error bound of a value function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// ρ = ‖TV − V‖∞ as computed; infinite if V is not finite.
    pub bellman_residual: f64,
    /// Least and greatest (TV)(s) − V(s) over the states, in units of reward.
    pub range: [f64; 2],
    /// γ', the contraction modulus: γ times the largest row sum of P.
    pub contraction: f64,
    /// Upper bound on ‖V − V*‖∞, including rounding errors; `None` if γ' ≥ 1 or V is not finite.
    pub bound: Option<f64>,
}

impl Certificate {
    /// Whether ‖V − V*‖∞ ≤ ε is proved.
    #[must_use]
    pub fn proves(&self, epsilon: f64) -> bool {
        self.bound.is_some_and(|bound| bound <= epsilon)
    }

    /// The bound with two digits, rounded up so that the printed number is also a bound.
    #[must_use]
    pub fn bound_text(&self) -> Option<String> {
        self.bound.map(rounded_up)
    }
}

/// Formats a nonnegative bound with two digits, rounded up.
#[must_use]
pub fn rounded_up(bound: f64) -> String {
    let text = format!("{bound:.1e}");
    match text.parse::<f64>() {
        Ok(printed) if printed < bound => {
            let unit = 10f64.powi(bound.log10().floor() as i32 - 1);
            format!("{:.1e}", printed + unit)
        }
        _ => text,
    }
}

/// Certifies `values`, one per state: ‖V − V*‖∞ ≤ ‖TV − V‖∞ / (1 − γ') plus rounding errors. Runs on all cores.
pub fn certify(mdp: &Mdp, values: &[f64]) -> Certificate {
    measure(mdp, values).certificate(mdp.gamma(), 0.0)
}

/// Shifts `values` by the constant with the best certificate and certifies them. No shift if the model can end.
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

/// Certifies `values` and returns their greedy policy, in one pass. For ε, shifts `values` afterwards as
/// [`certify_centred`] does. The policy is that of [`greedy`] for the values before the shift. The ranks of `team`
/// certify their own states together.
///
/// # Errors
/// If a rank fails.
pub(super) fn certify_greedy(
    mdp: &Mdp,
    team: &Team,
    values: &mut [f64],
    target: Target,
) -> Result<(Certificate, Vec<u32>), comm::Error> {
    let mut policy = vec![NO_ACTION; values.len()];
    let (view, own) = (mdp.view(), mdp.own());
    let tasks = policy.par_chunks_mut(CHUNK / 4).enumerate().map(|(task, policy)| {
        let of_state = |(state, action): (usize, &mut u32)| {
            let (found, best) = of_state(mdp, view, values, state);
            *action = best;
            found
        };
        let states = (task * (CHUNK / 4)..).zip(policy).filter(|(state, _)| own.contains(state));
        states.map(of_state).fold(Extremes::default(), Extremes::max)
    });
    let found = tasks.reduce(Extremes::default, Extremes::max).of_all(team)?;
    let (certificate, shift) = found.certified(mdp.gamma(), target);
    shift_all(values, shift);
    Ok((certificate, policy))
}

/// The greedy policy of `values`, on all cores: the best action of each state, the lowest-numbered one of equals,
/// [`NO_ACTION`] for states without actions.
pub fn greedy(mdp: &Mdp, values: &[f64]) -> Vec<u32> {
    let sign = mdp.objective().sign();
    let of_state = |state: usize| first_best(mdp.choices().rows(state).map(|row| sign * q_factor(mdp, values, row)));
    (0..mdp.states() as usize).into_par_iter().with_min_len(CHUNK / 4).map(of_state).collect()
}

/// The index of the largest Q-factor, the lowest one of equals; [`NO_ACTION`] if there is none.
pub(super) fn first_best(factors: impl Iterator<Item = f64>) -> u32 {
    let best = factors.zip(0..).reduce(|best: (f64, u32), next| if next.0 > best.0 { next } else { best });
    best.map_or(NO_ACTION, |(_, action)| action)
}

/// Q(s, a) = r(s, a) + γ Σ P(s'|s, a)·V(s') for row `row`.
pub(super) fn q_factor(mdp: &Mdp, values: &[f64], row: usize) -> f64 {
    let (successors, probs) = mdp.transitions().row(row);
    let earned: f64 = mdp.rewards_of(row).zip(probs).map(|(reward, p)| p * reward).sum();
    let next: f64 = successors.iter().zip(probs).map(|(&successor, p)| p * values[successor as usize]).sum();
    mdp.action_reward(row) + earned + mdp.gamma() * next
}

/// Q(s, a) − V(s) for each row, and the extremes of TV − V over states with actions, on all cores. Requires a
/// maximisation model.
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

/// Cuts the `values` of a run that did not converge to an interval that contains all values of V*, and certifies them: a cut takes no
/// value further from V*, so that `certificate` stays valid. The ranks of `team` do so together.
///
/// # Errors
/// If a rank fails.
pub(super) fn confine(
    mdp: &Mdp,
    team: &Team,
    values: &mut [f64],
    certificate: Certificate,
) -> Result<Certificate, comm::Error> {
    let rewards = measure(mdp, &vec![0.0; values.len()]).of_all(team)?;
    let Some([low, high]) = rewards.interval(mdp.gamma()) else { return Ok(certificate) };
    values.par_iter_mut().for_each(|value| *value = value.clamp(low, high));
    let found = measure(mdp, values).of_all(team)?.certificate(mdp.gamma(), 0.0);
    let bounds = [certificate.bound, found.bound, Some(high - low)];
    Ok(Certificate { bound: bounds.into_iter().flatten().reduce(f64::min), ..found })
}

/// The extremes of the own states.
fn measure(mdp: &Mdp, values: &[f64]) -> Extremes {
    let (view, own) = (mdp.view(), mdp.own());
    let states = own.into_par_iter().with_min_len(CHUNK / 4);
    states.map(|s| of_state(mdp, view, values, s).0).reduce(Extremes::default, Extremes::max)
}

/// Extremes over all states from which a certificate follows, computed in `f64` by the host or a device.
#[derive(Clone, Copy, Debug)]
pub struct Extremes {
    /// Least (TV)(s) − V(s).
    pub least: f64,
    /// Greatest (TV)(s) − V(s).
    pub greatest: f64,
    /// Upper bound on Σ P·|R| + γ Σ P·|V| + |V(s)| over all rows, or less where a row with large numbers cannot be the best one.
    pub magnitude: f64,
    /// Least and greatest row sum of P.
    pub row_sum: [f64; 2],
    /// Length of the longest row.
    pub length: usize,
    /// Whether the process never ends: no row has an end probability and every state has a row.
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

    /// The extremes over the states of all ranks.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn of_all(self, team: &Team) -> Result<Self, comm::Error> {
        let Self { least, greatest, magnitude, row_sum, length, never_terminates } = self;
        let ends = f64::from(u8::from(!never_terminates));
        let mut numbers = [-least, greatest, magnitude, -row_sum[0], row_sum[1], length as f64, ends];
        team.max(&mut numbers)?;
        let [least, greatest, magnitude, low, high, length, ends] = numbers;
        Ok(Self {
            least: -least,
            greatest,
            magnitude,
            row_sum: [-low, high],
            length: length as usize,
            never_terminates: ends == 0.0,
        })
    }

    /// An interval that contains V*(s) of all states, from the extremes of V = 0, whose TV is the largest reward of each state. `None` if
    /// γ' ≥ 1 or a reward is not finite.
    ///
    /// If V* has the largest value M and the greatest (T0)(s) is r, then M ≤ r + γσM for a row sum σ, so M ≤ r / (1 − γσ), with the largest σ
    /// if r ≥ 0 and the least one otherwise. The least value has a bound of the same form.
    pub(super) fn interval(&self, gamma: f64) -> Option<[f64; 2]> {
        let terms = 2.0 * (self.length + 4) as f64 * UNIT;
        let slack = terms * (self.magnitude + f64::MIN_POSITIVE / UNIT);
        let margin = |sum: f64, error: f64| 1.0 - gamma * sum * (1.0 + error);
        let [short, long] = [margin(self.row_sum[1], terms), margin(self.row_sum[0], -terms)];
        let [low, high] = [self.least - slack, self.greatest + slack];
        // Terminal states have the value 0.
        let [low, high] = if self.never_terminates { [low, high] } else { [low.min(0.0), high.max(0.0)] };
        let low = low / if low < 0.0 { short } else { long };
        let high = high / if high > 0.0 { short } else { long };
        let rounding = 4.0 * f64::EPSILON;
        let interval = [low - rounding * low.abs(), high + rounding * high.abs()];
        (short > 0.0 && interval.iter().all(|end| end.is_finite()) && low <= high).then_some(interval)
    }

    /// The certificate for this target, and the constant that V takes for it: the one of the best certificate for ε, 0 for θ.
    pub(super) fn certified(&self, gamma: f64, target: Target) -> (Certificate, f64) {
        match target {
            Target::Epsilon(_) => self.centred(gamma),
            Target::Theta(_) => (self.certificate(gamma, 0.0), 0.0),
        }
    }

    /// The best certificate of V plus a constant, and the constant; 0 if the model can end.
    #[must_use]
    pub fn centred(&self, gamma: f64) -> (Certificate, f64) {
        let plain = self.certificate(gamma, 0.0);
        let [least, greatest] = plain.range;
        // Makes the extremes of the shifted residual opposite.
        let shift = (least + greatest) / (2.0 - gamma * (self.row_sum[0] + self.row_sum[1]));
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
        // The shift adds to V on both sides of the residual; the factor 4 covers the operations on `range`.
        let magnitude = self.magnitude + 4.0 * shift.abs() + residual;
        let slack = 2.0 * terms * (UNIT * magnitude + f64::MIN_POSITIVE);
        let contraction = gamma * self.row_sum[1];
        // A row sum has a relative error of at most (n − 1)u; the factor on `bound` covers the last few operations.
        let margin = 1.0 - contraction * (1.0 + 2.0 * terms * UNIT);
        let bound = (residual + slack) / margin * (1.0 + 4.0 * f64::EPSILON);
        let bound = (margin > 0.0 && bound.is_finite()).then_some(bound);
        Certificate { bellman_residual: residual, range, contraction, bound }
    }
}

/// The contribution of one state to the extremes, and its best action as by [`first_best`].
fn of_state(mdp: &Mdp, view: View, values: &[f64], state: usize) -> (Extremes, u32) {
    let (gamma, value, sign) = (mdp.gamma(), values[state], mdp.objective().sign());
    let rows = mdp.choices().rows(state);
    // The best Q-factor of the maximisation form; 0 for terminal states.
    let mut best = if rows.is_empty() { 0.0 } else { f64::NEG_INFINITY };
    let mut action = (f64::NEG_INFINITY, NO_ACTION);
    let mut found = Extremes { never_terminates: !rows.is_empty() && mdp.ends().is_empty(), ..Extremes::default() };
    // Bounds on the largest Q-factor without rounding errors, and the largest M of the rows.
    let (mut low, mut high, mut largest) = (best, best, 0.0_f64);
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
        let size = reward_size + gamma * next_size + value.abs();
        let error = 2.5 * (probs.len() + 4) as f64 * (UNIT * size + f64::MIN_POSITIVE);
        (low, high) = (low.max(q - error), or_infinite(q + error).max(high));
        largest = or_infinite(size).max(largest);
        found.row_sum = [found.row_sum[0].min(sum), found.row_sum[1].max(sum)];
        found.length = found.length.max(probs.len());
    }
    let off = or_infinite((high - best).max(best - low)) / (2.0 * (found.length + 4) as f64 * UNIT);
    found.magnitude = or_infinite(value.abs()).max(largest.min(off));
    let residual = sign * best - value;
    found.least = if residual.is_nan() { f64::NEG_INFINITY } else { residual };
    found.greatest = or_infinite(residual);
    (found, action.1)
}

/// `f64::max` ignores NaN, so a NaN must count as infinite.
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
    use crate::generate::{Garnet, SlipGrid};
    use crate::model::{Csr, Objective};

    /// One state with reward 1 per step: V* = 1 / (1 − γ).
    ///
    fn loop_of(gamma: f64, probability: f64) -> Mdp {
        let csr = |value| Csr::built(vec![0, 1], vec![0], vec![value]);
        Mdp::new(1, 1, gamma, csr(probability), csr(1.0), None).unwrap()
    }

    #[test]
    fn certified_policy_is_greedy() {
        let garnet = Garnet { states: 500, ragged: true, terminals: 0.1, ..Garnet::default() };
        let grid = SlipGrid { width: 40, height: 30, ..SlipGrid::default() };
        for mdp in [garnet.generate().unwrap(), grid.generate().unwrap()] {
            for mdp in [mdp.to_maximize().into_owned(), mdp.with_objective(Objective::Minimize)] {
                let values: Vec<f64> = (0..mdp.states()).map(|state| f64::from(state * 7 % 5)).collect();
                for target in [Target::Theta(1e-9), Target::Epsilon(1e-9)] {
                    let (mut plain, mut certified) = (values.clone(), values.clone());
                    let certificate = match target {
                        Target::Epsilon(_) => certify_centred(&mdp, &mut plain),
                        Target::Theta(_) => certify(&mdp, &plain),
                    };
                    let found = certify_greedy(&mdp, &Team::alone(), &mut certified, target).unwrap();
                    assert_eq!((found, certified), ((certificate, greedy(&mdp, &values)), plain));
                }
            }
        }
    }

    /// Rewards that the policy avoids do not count, on whichever side the other actions are; those that it may take do.
    #[test]
    fn large_numbers_of_avoided_actions_do_not_count() {
        let model = |rewards: [f64; 3]| {
            let csr = |val: Vec<f64>| crate::model::Csr::built(vec![0, 1, 2, 3], vec![0; 3], val);
            Mdp::new(1, 3, 0.5, csr(vec![1.0; 3]), csr(rewards.to_vec()), None).unwrap()
        };
        let bound = |rewards: [f64; 3], value: f64| certify(&model(rewards), &[value]).bound.unwrap();
        let plain = bound([1.0, 0.5, 0.25], 2.0);
        assert!(plain > 0.0 && plain < 1e-14, "{plain}");
        for avoided in [-1e3, -1e10, -1e300] {
            for rewards in [[1.0, 0.5, avoided], [avoided, 1.0, 0.5], [0.5, avoided, 1.0]] {
                let bound = bound(rewards, 2.0);
                assert!(bound <= 1.26 * plain, "{rewards:?}: {bound} {plain}");
            }
        }
        // Within its rounding error, an action may be the best one.
        let near = bound([1e10, 1e10 - 1e-6, 0.0], 2e10);
        assert!(near > 1e-6 && near < 1e-3, "{near}");
    }

    #[test]
    fn bounds_are_tight_for_a_uniform_error() {
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
    fn no_bound_without_contraction_or_finite_values() {
        assert_eq!(certify(&loop_of(1.0 - 1e-7, 1.0), &[0.0]).bound.map(|bound| bound > 1e6), Some(true));
        let wide = loop_of(0.5, 1.0).with_gamma(1.0).unwrap();
        assert_eq!(certify(&wide, &[0.0]).bound, None);
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let found = certify(&loop_of(0.5, 1.0), &[value]);
            assert_eq!((found.bellman_residual, found.bound), (f64::INFINITY, None), "{value}");
        }
    }
}
