//! A Markov decision process by hand: a machine wears out, and is to be run or replaced so that the discounted profit is largest.

use std::ops::ControlFlow;

use warpkov::mdp::model::{Choices, Csr, MdpParts};
use warpkov::mdp::options::{Limits, SolveOptions, Target};
use warpkov::mdp::solve_with;

const STATES: [&str; 3] = ["new", "worn", "broken"];
const ACTIONS: [&str; 2] = ["run", "replace"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // P(s'|s, a), a row for each pair of state and action: what follows "new, run" is "new" or "worn", and so on.
    let transitions = Csr::new(
        vec![0, 2, 3, 5, 6, 7, 8],
        vec![0, 1, 0, 1, 2, 0, 2, 0],
        vec![0.7, 0.3, 1.0, 0.6, 0.4, 1.0, 1.0, 1.0],
    )?;
    let model = MdpParts {
        states: 3,
        choices: Choices::Uniform(2),
        gamma: 0.95,
        transitions,
        // r(s, a): a worn machine earns less, a broken one nothing, and a new one costs 20.
        action_rewards: vec![10.0, -20.0, 7.0, -20.0, 0.0, -20.0].into(),
        ..MdpParts::default()
    }
    .validated()?;
    // On a GPU where that is worth its start; V is certain to be within ε of V*.
    let limits = Limits { target: Target::Epsilon(1e-9), ..Limits::default() };
    let options = SolveOptions { limits, ..SolveOptions::default() };
    let solution = solve_with(&model, &options, &mut |_round| ControlFlow::Continue(()))?;
    for (state, (value, action)) in STATES.iter().zip(solution.values.iter().zip(&solution.policy)) {
        println!("{state:>6}: {:>7}, V = {value:.6}", ACTIONS[*action as usize]);
    }
    assert_eq!(solution.policy, [0, 0, 1]);
    assert!(solution.certificate.bound.is_some_and(|bound| bound <= 1e-9));
    Ok(())
}
