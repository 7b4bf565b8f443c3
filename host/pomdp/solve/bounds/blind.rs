//! Blind policies: repeat one action for ever, whatever the observations (Hauskrecht, *Journal of Artificial
//! Intelligence Research* 13, 2000, 4.1).

use crate::alpha::AlphaVectors;
use crate::backends::cpu::Assembler;
use crate::model::Pomdp;

/// Maximum number of sweeps.
const MAX_SWEEPS: u32 = 10_000;

/// For each action a, a lower bound on the solution of α(s) = r(s, a) + γ Σ T(s, a, s') α(s').
///
/// The iteration starts at min r / (1 − γ), so every iterate is a lower bound. It ends when a sweep changes no entry by
/// more than `tolerance` (1 − γ), or when it is `late`. `rewards` are r(s, a) at index s·A + a, the same as in
/// `assembler`.
#[must_use]
pub fn blind(
    model: &Pomdp,
    rewards: &[f64],
    assembler: &Assembler,
    tolerance: f64,
    late: &mut dyn FnMut() -> bool,
) -> AlphaVectors {
    let (actions, gamma) = (model.actions(), model.gamma());
    let mut vectors = AlphaVectors::new(model.states());
    for action in 0..actions {
        let own = rewards.iter().skip(action as usize).step_by(actions as usize);
        let least = own.copied().fold(f64::INFINITY, f64::min);
        let mut values = vec![least / (1.0 - gamma); model.states() as usize];
        for _ in 0..MAX_SWEEPS {
            let next = assembler.ahead(action, &values);
            let change = next.iter().zip(&values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            values = next;
            if change <= tolerance * (1.0 - gamma) || late() {
                break;
            }
        }
        vectors.push(action, &values);
    }
    vectors
}
