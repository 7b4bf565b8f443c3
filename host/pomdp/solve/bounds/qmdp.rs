//! QMDP: the state is observed after the next step (Littman, Cassandra and Kaelbling, *ICML*, 1995).

use rayon::prelude::*;

use super::ActionValues;
use crate::model::Pomdp;

/// Rows between two checks of the clock.
const ROWS_PER_CHECK: usize = 1 << 18;

/// Q(s, a) = r(s, a) + γ Σ T(s, a, s') V(s'), an upper bound if V is an upper bound for the underlying MDP. Once it is
/// `late`, max V replaces the sum.
#[must_use]
pub fn qmdp(model: &Pomdp, rewards: &[f64], values: &[f64], late: &mut dyn FnMut() -> bool) -> ActionValues {
    let actions = model.actions() as usize;
    let factor = |row: usize| {
        let (successors, probs) = model.successors((row / actions) as u32, (row % actions) as u32);
        let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * values[s as usize]).sum();
        rewards[row] + model.gamma() * next
    };
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut factors = ActionValues::with_capacity(rewards.len());
    while factors.len() < rewards.len() {
        if !factors.is_empty() && late() {
            let rest = rewards[factors.len()..].iter().map(|reward| reward + model.gamma() * largest);
            factors.extend(rest);
            break;
        }
        let own = factors.len()..rewards.len().min(factors.len() + ROWS_PER_CHECK);
        factors.par_extend(own.into_par_iter().with_min_len(4096).map(factor));
    }
    factors
}
