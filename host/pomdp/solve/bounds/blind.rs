//! Blind policies: the same action for ever, whatever is seen (Hauskrecht, *Journal of Artificial Intelligence Research* 13,
//! 2000, 4.1).

use rayon::prelude::*;

use crate::pomdp::alpha::AlphaVectors;
use crate::pomdp::model::Pomdp;

/// Sweeps at most.
const SWEEPS: u32 = 10_000;

/// For each action a vector that is not above α(s) = r(s, a) + γ Σ T(s, a, s') α(s').
///
/// It is iterated from min r / (1 − γ), and every iterate is a lower bound; iteration ends where a sweep changes nothing by
/// more than `tolerance` (1 − γ). `rewards` are r(s, a) at s·A + a.
#[must_use]
pub fn blind(model: &Pomdp, rewards: &[f64], tolerance: f64) -> AlphaVectors {
    let (states, actions, gamma) = (model.states(), model.actions(), model.gamma());
    let mut vectors = AlphaVectors::new(states);
    for action in 0..actions {
        let reward = |state: u32| rewards[state as usize * actions as usize + action as usize];
        let least = (0..states).map(reward).fold(f64::INFINITY, f64::min);
        let mut values = vec![least / (1.0 - gamma); states as usize];
        for _ in 0..SWEEPS {
            let next: Vec<f64> = (0..states)
                .into_par_iter()
                .with_min_len(4096)
                .map(|state| {
                    let (successors, probs) = model.successors(state, action);
                    let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * values[s as usize]).sum();
                    reward(state) + gamma * next
                })
                .collect();
            let change = next.iter().zip(&values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            values = next;
            if change <= tolerance * (1.0 - gamma) {
                break;
            }
        }
        vectors.push(action, &values);
    }
    vectors
}
