//! A Markov decision process built by hand: when to replace a machine that wears out, to maximise the expected
//! discounted profit.

use warpkov::mdp::Solve;
use warpkov::mdp::model::{Choices, Csr, MdpParts};
use warpkov::mdp::options::{Limits, SolveOptions, Target};

const STATES: [&str; 3] = ["new", "worn", "broken"];
const ACTIONS: [&str; 2] = ["run", "replace"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // P(s'|s, a), one row per pair (state, action): (new, run) leads to new with 0.7 and to worn with 0.3, and so on.
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
        // r(s, a): a new machine earns 10, a worn one 7, a broken one nothing; a replacement costs 20.
        action_rewards: vec![10.0, -20.0, 7.0, -20.0, 0.0, -20.0].into(),
        ..MdpParts::default()
    }
    .validated()?;
    // Chooses the CPU or a GPU by the size of the model. ‖V − V*‖∞ ≤ ε is guaranteed.
    let limits = Limits { target: Target::Epsilon(1e-9), ..Limits::default() };
    let options = SolveOptions { limits, ..SolveOptions::default() };
    let solution = Solve::new(&model, &options).run()?;
    for (state, (value, action)) in STATES.iter().zip(solution.values.iter().zip(&solution.policy)) {
        println!("{state:>6}: {:>7}, V = {value:.6}", ACTIONS[*action as usize]);
    }
    assert_eq!(solution.policy, [0, 0, 1]);
    assert!(solution.certificate.bound.is_some_and(|bound| bound <= 1e-9));
    Ok(())
}
