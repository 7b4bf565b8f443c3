//! What is guaranteed about a value function, whichever device computed it in whichever precision.
//!
//! The Bellman operator (TV)(s) = maxₐ r(s, a) + γ Σ P(s'|s, a)·V(s') contracts in the maximum norm with the modulus
//! γ' = γ · max Σ P(s'|s, a), where the sum is that of a row. So ‖V − V*‖∞ ≤ ‖TV − V‖∞ / (1 − γ') for every V.
//!
//! ‖TV − V‖∞ is computed in `f64`, of unit roundoff u = 2⁻⁵³. For a row of n entries, a dot product carries a relative
//! error of at most nu/(1 − nu) of Σ|pᵢxᵢ|, and one product and two sums follow. With N the length of the longest row
//! and M the largest Σ P·|R| + γ Σ P·|V| + |V(s)| of all rows, the computed norm is off by at most
//! k·u·M/(1 − k·u), k = N + 3. M as computed is off by the same factor again, and k·u < 1/4 for all rows of fewer than
//! 2³² entries, so that 2·(N + 4)·(u·M + m) covers both; m, the smallest normal number, covers underflow.

use rayon::prelude::*;
use serde::Serialize;

use super::model::{CHUNK, Mdp};

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// How far a value function is from the optimal one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// ρ = ‖TV − V‖∞, as computed; infinite if V is not finite.
    pub bellman_residual: f64,
    /// γ', the modulus of contraction: γ times the largest row sum of P.
    pub contraction: f64,
    /// A number that ‖V − V*‖∞ does not exceed, rounding errors included; `None` if γ' ≥ 1 or V is not finite.
    pub bound: Option<f64>,
}

impl Certificate {
    /// The bound with two digits, rounded up, so that what is printed holds as well.
    #[must_use]
    pub fn bound_text(&self) -> Option<String> {
        let bound = self.bound?;
        let text = format!("{bound:.1e}");
        match text.parse::<f64>() {
            Ok(printed) if printed < bound => {
                let unit = 10f64.powi(bound.log10().floor() as i32 - 1);
                Some(format!("{:.1e}", printed + unit))
            }
            _ => Some(text),
        }
    }
}

/// Certifies `values`, one per state, on all cores.
pub fn certify(mdp: &Mdp, values: &[f64]) -> Certificate {
    let states = (0..mdp.states as usize).into_par_iter().with_min_len(CHUNK / 4);
    let extremes = states.map(|s| of_state(mdp, values, s)).reduce(Extremes::default, Extremes::max);
    let Extremes { residual, magnitude, row_sum, length } = extremes;

    let terms = (length + 4) as f64;
    let slack = 2.0 * terms * (UNIT * magnitude + f64::MIN_POSITIVE);
    let contraction = mdp.gamma * row_sum;
    // A row sum is off by (n − 1)u at most; the factor of the whole covers the last few operations.
    let margin = 1.0 - contraction * (1.0 + 2.0 * terms * UNIT);
    let bound = (residual + slack) / margin * (1.0 + 4.0 * f64::EPSILON);
    Certificate { bellman_residual: residual, contraction, bound: (margin > 0.0 && bound.is_finite()).then_some(bound) }
}

/// Maxima over states.
#[derive(Default)]
struct Extremes {
    /// |(TV)(s) − V(s)|
    residual: f64,
    /// Σ P·|R| + γ Σ P·|V| + |V(s)|
    magnitude: f64,
    /// Σ P
    row_sum: f64,
    /// Number of successors.
    length: usize,
}

impl Extremes {
    fn max(self, other: Self) -> Self {
        Self {
            residual: self.residual.max(other.residual),
            magnitude: self.magnitude.max(other.magnitude),
            row_sum: self.row_sum.max(other.row_sum),
            length: self.length.max(other.length),
        }
    }
}

fn of_state(mdp: &Mdp, values: &[f64], state: usize) -> Extremes {
    let (gamma, value, actions) = (mdp.gamma, values[state], mdp.actions as usize);
    let mut best = f64::NEG_INFINITY;
    let mut found = Extremes::default();
    for row in state * actions..(state + 1) * actions {
        let (successors, probs) = mdp.transitions.row(row);
        let [mut reward, mut reward_size, mut next, mut next_size, mut sum] = [0.0; 5];
        for ((&successor, &p), r) in successors.iter().zip(probs).zip(mdp.rewards_of(row)) {
            let v = values[successor as usize];
            reward += p * r;
            reward_size += p * r.abs();
            next += p * v;
            next_size += p * v.abs();
            sum += p;
        }
        best = or_infinite(reward + gamma * next).max(best);
        found.magnitude = found.magnitude.max(or_infinite(reward_size + gamma * next_size + value.abs()));
        found.row_sum = found.row_sum.max(sum);
        found.length = found.length.max(probs.len());
    }
    found.residual = or_infinite((best - value).abs());
    found
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
            let certificate = Certificate { bellman_residual: 0.0, contraction: 0.5, bound: Some(bound) };
            let printed: f64 = certificate.bound_text().unwrap().parse().unwrap();
            assert!(printed >= bound && printed <= 1.11 * bound, "{bound} is printed as {printed}");
        }
    }
    use crate::mdp::model::Csr;

    /// One state that earns 1 in every step: V* = 1 / (1 − γ).
    fn loop_of(gamma: f64, probability: f64) -> Mdp {
        let csr = |value| Csr { row_ptr: vec![0, 1].into(), col: vec![0].into(), val: vec![value].into() };
        Mdp::new(1, 1, gamma, csr(probability), csr(1.0), None).unwrap()
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
        let wide = Mdp { gamma: 1.0, ..loop_of(0.5, 1.0) };
        assert_eq!(certify(&wide, &[0.0]).bound, None);
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let found = certify(&loop_of(0.5, 1.0), &[value]);
            assert_eq!((found.bellman_residual, found.bound), (f64::INFINITY, None), "{value}");
        }
    }
}
