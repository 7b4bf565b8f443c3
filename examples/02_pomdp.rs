//! A partially observable process built by hand: the tiger problem (Kaelbling, Littman and Cassandra 1998). A tiger is
//! behind one of two doors; listening reveals the correct door with probability 0.85.

use std::ops::ControlFlow;

use warpkov::mdp::model::{Choices, Csr, MdpParts};
use warpkov::pomdp::belief::Belief;
use warpkov::pomdp::model::PomdpParts;
use warpkov::pomdp::options::SolveOptions;
use warpkov::pomdp::solve::solve_with;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // T(s, a, s'), rows by state, then action. Listening does not move the tiger; opening a door places it at random.
    let transitions = Csr::new(
        vec![0, 1, 3, 5, 6, 8, 10],
        vec![0, 0, 1, 0, 1, 1, 0, 1, 0, 1],
        vec![1.0, 0.5, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 0.5],
    )?;
    // O(a, s', o), rows by action, then next state.
    let observations = Csr::new(
        vec![0, 2, 4, 6, 8, 10, 12],
        vec![0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
        vec![0.85, 0.15, 0.15, 0.85, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
    )?;
    let process = MdpParts {
        states: 2,
        choices: Choices::Uniform(3),
        gamma: 0.95,
        transitions,
        // r(s, a) for the actions listen, open left, open right.
        action_rewards: vec![-1.0, -100.0, 10.0, -1.0, 10.0, -100.0].into(),
        ..MdpParts::default()
    };
    let start = Belief::dense(&[0.5, 0.5])?;
    let model =
        PomdpParts { process, observation_count: 2, observations, start, ..PomdpParts::default() }.validated()?;
    let solution = solve_with(&model, &SolveOptions::default(), &mut |_round| ControlFlow::Continue(()))?;
    let end = solution.end();
    println!("{:.4} ≤ V*(b₀) ≤ {:.4}, with {} alpha vectors", end.lower, end.upper, solution.vectors.len());
    assert!(end.lower <= 19.3714 && 19.3713 <= end.upper, "the optimal value is 19.37136…");
    // At the initial belief, listening is optimal.
    let (best, _) = solution.vectors.best(model.start()).ok_or("there is no vector")?;
    assert_eq!(solution.vectors.actions()[best], 0);
    Ok(())
}
