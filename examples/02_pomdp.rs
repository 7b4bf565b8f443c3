//! A partially observable process by hand: Kaelbling, Littman and Cassandra's tiger is behind one of two doors, and is heard
//! through the right one with probability 0.85.

use std::ops::ControlFlow;

use warpkov::mdp::model::{Choices, Csr, MdpParts};
use warpkov::pomdp::belief::Belief;
use warpkov::pomdp::model::PomdpParts;
use warpkov::pomdp::options::SolveOptions;
use warpkov::pomdp::solve::solve_with;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // T(s, a, s'), rows by state, then action: listening changes nothing, behind an opened door the tiger is put anew.
    let transitions = Csr::new(
        vec![0, 1, 3, 5, 6, 8, 10],
        vec![0, 0, 1, 0, 1, 1, 0, 1, 0, 1],
        vec![1.0, 0.5, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 0.5],
    )?;
    // O(a, s', o), rows by action, then the state that is entered.
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
        // Listen, open the left door, open the right one.
        action_rewards: vec![-1.0, -100.0, 10.0, -1.0, 10.0, -100.0].into(),
        ..MdpParts::default()
    };
    let start = Belief::dense(&[0.5, 0.5])?;
    let model =
        PomdpParts { process, observation_count: 2, observations, start, ..PomdpParts::default() }.validated()?;
    let solution = solve_with(&model, &SolveOptions::default(), &mut |_round| ControlFlow::Continue(()))?;
    let end = solution.end();
    println!("V*(b₀) is between {:.4} and {:.4}, by {} alpha vectors", end.lower, end.upper, solution.vectors.len());
    assert!((19.37..19.38).contains(&end.lower) && end.lower <= end.upper);
    // Nobody opens a door without having listened.
    let (best, _) = solution.vectors.best(model.start()).ok_or("there is no vector")?;
    assert_eq!(solution.vectors.actions()[best], 0);
    Ok(())
}
