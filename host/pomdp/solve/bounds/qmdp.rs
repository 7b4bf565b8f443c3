//! QMDP: the state is seen after the next step (Littman, Cassandra and Kaelbling, *ICML*, 1995).

use rayon::prelude::*;

use super::ActionValues;
use crate::pomdp::model::Pomdp;

/// Q(s, a) = r(s, a) + γ Σ T(s, a, s') V(s'), an upper bound where V is one on the process whose state is seen.
#[must_use]
pub fn qmdp(model: &Pomdp, rewards: &[f64], values: &[f64]) -> ActionValues {
    let actions = model.actions() as usize;
    let factor = |row: usize| {
        let (successors, probs) = model.successors((row / actions) as u32, (row % actions) as u32);
        let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * values[s as usize]).sum();
        rewards[row] + model.gamma() * next
    };
    (0..rewards.len()).into_par_iter().with_min_len(4096).map(factor).collect()
}
