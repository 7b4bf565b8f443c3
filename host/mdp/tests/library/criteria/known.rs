//! Small models whose values are known.

use std::ops::ControlFlow;

use warpkov_mdp::analysis::graph::{Graph, NO_COMPONENT};
use warpkov_mdp::criterion::{Criterion, Error, Options, Stages, backward, backward_on, solve_on};
use warpkov_mdp::model::{Mdp, NO_ACTION, Objective};
use warpkov_mdp::solution::{Round, Status};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;

use super::common::{OneCore, assert_holds, gambler, model, run, solved};

/// States 0 and 1 form an end component, in which sweeps from above accept any value ≥ 1/2. The exits lead
/// from state 1 to the goal 2 or the sink 3.
fn tempting() -> Mdp {
    model(
        Objective::Maximize,
        &[
            vec![(vec![(1, 1.0)], 0.0)],
            vec![(vec![(0, 1.0)], 0.0), (vec![(2, 0.5), (3, 0.5)], 0.0)],
            vec![(vec![(2, 1.0)], 0.0)],
            vec![(vec![(3, 1.0)], 0.0)],
        ],
    )
}

#[test]
fn end_components_do_not_inflate_upper_bounds() {
    let mdp = tempting();
    let found = solved(&mdp, &Criterion::Reach { goal: vec![2] }, 1e-12);
    [0.5, 0.5, 1.0, 0.0].into_iter().enumerate().for_each(|(s, exact)| assert_holds(&found, s, exact));
    assert_eq!(found.policy, [0, 1, 0, 0], "the policy leaves");
    let least = solved(&mdp.with_objective(Objective::Minimize), &Criterion::Reach { goal: vec![2] }, 1e-12);
    assert_eq!((least.lower, least.upper), (vec![0.0, 0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0, 0.0]));
    assert_eq!(least.policy[..2], [0, 0], "the policy stays");
}

#[test]
fn maximal_end_components_are_found() {
    let mdp = tempting();
    let graph = Graph::new(&mdp);
    let components = graph.end_components(|_| true);
    assert_eq!(components.count, 3);
    assert_eq!(components.of_state[0], components.of_state[1]);
    assert_eq!(components.inside, [true, true, false, true, true]);
    assert_eq!(components.of_state[4], NO_COMPONENT, "the end");
    let goal = [false, false, true, false, false];
    assert_eq!(graph.can_reach(&goal, |_| true).contains, [true, true, true, false, false]);
    assert_eq!(graph.can_avoid(&goal).contains, [true, true, false, true, true]);
    assert_eq!(graph.can_ensure(&goal).contains, goal);
    assert_eq!(graph.must_reach(&goal), goal);
}

/// Waiting costs nothing and never arrives; going costs 3 in expectation. Sweeps from 0 would choose to wait.
#[test]
fn free_waiting_does_not_replace_arrival() {
    let mdp = model(
        Objective::Minimize,
        &[
            vec![(vec![(1, 1.0)], 0.0)],
            vec![(vec![(0, 1.0)], 0.0), (vec![(0, 0.5), (2, 0.5)], 1.5), (vec![(1, 1.0)], 1e-9)],
            vec![(vec![(2, 1.0)], 7.0)],
        ],
    );
    let goal = Criterion::TotalReward { goal: Some(vec![2]) };
    let found = solved(&mdp, &goal, 1e-9);
    [3.0, 3.0, 0.0].into_iter().enumerate().for_each(|(s, exact)| assert_holds(&found, s, exact));
    assert_eq!(found.policy, [0, 1, 0]);
    let most = solved(&mdp.with_objective(Objective::Maximize), &goal, 1e-9);
    assert_eq!(most.lower, [f64::INFINITY, f64::INFINITY, 0.0], "as PRISM has it: the goal may be missed");
}

/// FrozenLake 4×4 of Gymnasium, slippery: V(0) = 14/17 undiscounted.
#[test]
fn frozen_lake_undiscounted() {
    let map: Vec<u8> = b"SFFFFHFHFFFHHFFG".to_vec();
    let cell = |state: usize| {
        if matches!(map[state], b'H' | b'G') {
            return Vec::new();
        }
        let (y, x) = (state / 4, state % 4);
        let step = |action: usize| match action % 4 {
            0 => 4 * y + x.saturating_sub(1),
            1 => 4 * (y + 1).min(3) + x,
            2 => 4 * y + (x + 1).min(3),
            _ => 4 * y.saturating_sub(1) + x,
        };
        let action = |action: usize| {
            let (mut successors, mut reward) = (Vec::<(u32, f64)>::new(), 0.0);
            for next in [step(action + 3), step(action), step(action + 1)] {
                match map[next] {
                    b'G' => reward += 1.0 / 3.0,
                    b'H' => {}
                    _ => match successors.iter_mut().find(|(s, _)| *s == next as u32) {
                        Some((_, p)) => *p += 1.0 / 3.0,
                        None => successors.push((next as u32, 1.0 / 3.0)),
                    },
                }
            }
            (successors, reward)
        };
        (0..4).map(action).collect()
    };
    let mdp = model(Objective::Maximize, &(0..16).map(cell).collect::<Vec<_>>());
    let found = solved(&mdp, &Criterion::TotalReward { goal: None }, 1e-9);
    assert_holds(&found, 0, 14.0 / 17.0);
    assert_eq!(found.policy[5], NO_ACTION);
    // About fourteen steps are far too few.
    let short = solved(&mdp, &Criterion::Horizon(14), 1e-12);
    assert!(short.upper[0] < 0.1, "{}", short.upper[0]);
}

/// A periodic cycle of three states that earns 6 in one of them: the gain is 2.
#[test]
fn periodic_gains() {
    let mdp = model(
        Objective::Maximize,
        &[vec![(vec![(1, 1.0)], 0.0)], vec![(vec![(2, 1.0)], 6.0)], vec![(vec![(0, 1.0)], 0.0)]],
    );
    let found = solved(&mdp, &Criterion::Average, 1e-9);
    (0..3).for_each(|s| assert_holds(&found, s, 2.0));
    // h + g = r + Ph.
    let bias = found.bias.unwrap();
    [(0, 1, 0.0), (1, 2, 6.0), (2, 0, 0.0)].into_iter().for_each(|(s, next, r): (usize, usize, f64)| {
        assert!((bias[s] + 2.0 - r - bias[next]).abs() < 1e-8, "{bias:?}");
    });
}

/// Finite horizons: V₀ = (1 − γᵀ)/(1 − γ) for a reward of 1 per step, and a policy that changes with time.
#[test]
fn horizons() {
    let forever = model(Objective::Maximize, &[vec![(vec![(0, 1.0)], 1.0)]]).with_gamma(0.5).unwrap();
    assert_holds(&solved(&forever, &Criterion::Horizon(10), 1e-13), 0, 2.0 * (1.0 - 0.5_f64.powi(10)));
    // Wait one step for 3, or take 1 in every step: near the end waiting does not pay.
    let mdp =
        model(Objective::Maximize, &[vec![(vec![(0, 1.0)], 1.0), (vec![(1, 1.0)], 0.0)], vec![(vec![(0, 1.0)], 3.0)]]);
    let backward = |steps: u32, last: Option<&[f64]>, keep: bool| -> Stages {
        backward(&mdp, steps, last, keep, &OneCore, &mut |_| ControlFlow::Continue(())).unwrap()
    };
    let stages = backward(3, None, true);
    assert_eq!(stages.bounded.values(), [4.0, 6.0]);
    // States 0 and 1 at t = 0, 1, 2. At t = 0 both actions have the value 4.
    let steps = stages.steps.unwrap();
    assert_eq!((steps.policies, steps.values), (vec![0, 0, 1, 0, 0, 0], vec![4.0, 6.0, 3.0, 4.0, 1.0, 3.0]));
    let stages = backward(1, Some(&[10.0, 20.0]), true);
    assert_eq!((stages.bounded.values(), stages.steps.unwrap().policies), (vec![20.0, 13.0], vec![1, 0]));
    let stages = backward(0, Some(&[10.0, 20.0]), false);
    assert_eq!(stages.bounded.values(), [10.0, 20.0]);
    // The action of a step is greedy for the values of the next step, on every device: with one step left, 1
    // is better than nothing; with two steps left, the other action is better.
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        let mut go = |_: &Round| ControlFlow::Continue(());
        let (_, steps) = backward_on(&Local::alone(), device, &mdp, 3, None, true, &mut go).unwrap();
        assert_eq!(steps.unwrap().policies, [0, 0, 1, 0, 0, 0], "{device}");
        for (steps, expected) in [(1, [0, 0]), (2, [1, 0]), (3, [0, 0])] {
            let (found, _) = backward_on(&Local::alone(), device, &mdp, steps, None, false, &mut go).unwrap();
            assert_eq!(found.bounded.policy, expected, "{steps} steps on {device}");
        }
    }
}

#[test]
fn undefined_criteria_are_refused() {
    let both =
        model(Objective::Maximize, &[vec![(vec![(0, 1.0)], -1.0), (vec![(1, 1.0)], 1.0)], vec![(vec![(1, 1.0)], 0.0)]]);
    let error = run(&both, &Criterion::TotalReward { goal: Some(vec![1]) }, &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Missed { state: 0 }), "{error}");
    let error = run(&both, &Criterion::TotalReward { goal: None }, &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Recurrent { state: 0 }), "{error}");
    let error = run(&both, &Criterion::Reach { goal: vec![0, 2] }, &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "goal[1] is 2, expected a state below 2");
    let limited = Options { max_sweeps: 10, ..Options::default() };
    let found = run(&gambler(1000), &Criterion::Reach { goal: vec![1000] }, &limited).unwrap();
    assert_eq!(found.status, Status::SweepLimit);
    assert_holds(&found, 500, 0.5);
}

#[test]
fn devices_agree() {
    let lake = gambler(10);
    let reach = Criterion::Reach { goal: vec![10] };
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        let options = Options { epsilon: 1e-9, ..Options::default() };
        let found = solve_on(&Local::alone(), device, &lake, &reach, &options, &mut |_| ControlFlow::Continue(()))
            .unwrap()
            .bounded;
        (0..=10).for_each(|i| assert_holds(&found, i, i as f64 / 10.0));
        assert!(found.error() <= 1e-9 && found.status == Status::Solved);
        let found =
            solve_on(&Local::alone(), device, &lake, &Criterion::Average, &options, &mut |_| ControlFlow::Continue(()));
        assert_holds(&found.unwrap().bounded, 5, 0.0);
    }
}
