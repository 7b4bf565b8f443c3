//! Chains in which values change slowly, paths of exponential length, and components that hardly mix.

use std::ops::ControlFlow;

use warpkov_mdp::backend::{GreedySweeps, State, Stop};
use warpkov_mdp::backends::cpu::Serial;
use warpkov_mdp::criterion::{Criterion, Options, solve_on};
use warpkov_mdp::model::{Choices, MdpParts, Objective};
use warpkov_mdp::solution::{Round, Status};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;

use super::common::{Row, assert_holds, gambler, model, run, solved};

/// P(win from i) = i/n, and a game takes i(n − i) rounds (Feller, vol. 1, XIV.2 and 3). Sweeps change the probability
/// by less than 1e-6 while its error still exceeds 0.1.
#[test]
fn slow_chains_are_solved_to_epsilon() {
    let n = 1000;
    let mdp = gambler(n);
    let mut hasty = MdpParts { choices: Choices::Uniform(1), ..mdp.clone().into_parts() };
    hasty.action_rewards = (0..=n).map(|i| if i == n - 1 { 0.5 } else { 0.0 }).collect::<Vec<_>>().into();
    let hasty = hasty.validated().unwrap();
    let mut backend = Serial::<f64>::new(&hasty);
    let last = backend.backup(Stop::Change(1e-6), u32::MAX).unwrap();
    let off = (backend.values().unwrap()[500] - 0.5).abs();
    assert!(last.residual() < 1e-6 && off > 0.1, "{off}");

    let found = solved(&mdp, &Criterion::Reach { goal: vec![n] }, 1e-6);
    (0..=n).for_each(|i| assert_holds(&found, i as usize, f64::from(i) / f64::from(n)));
    // Without extrapolation, 3,115,618 sweeps.
    assert!(found.sweeps() < 500_000, "{}", found.sweeps());
    let found = solved(&mdp, &Criterion::TotalReward { goal: Some(vec![0, n]) }, 1e-3);
    (0..=n).for_each(|i| assert_holds(&found, i as usize, f64::from(i * (n - i))));
    assert!(found.sweeps() < 500_000, "{}", found.sweeps());
}

/// From each of n states a step leads to the next state or back to the first, each with probability 1/2: 2ⁿ⁺¹ − 2 steps
/// in expectation, to the same successors that `leave` has directly. The states after these are `rest`.
fn long_way(n: u32, leave: &[Row], rest: Vec<Vec<Row>>) -> Vec<Vec<Row>> {
    let state = |i: u32| {
        let on = match i + 1 == n {
            false => (vec![(0, 0.5), (i + 1, 0.5)], 0.0),
            true => (vec![(0, 0.5), (n, 0.5)], 0.0),
        };
        let on = if i == 0 { (vec![(0, 0.5), (1, 0.5)], 0.0) } else { on };
        [vec![on], leave.to_vec()].concat()
    };
    (0..n).map(state).chain(rest).collect()
}

/// Optimal policies that tie with policies of 2^N steps, and models in which all policies take 2^N steps.
#[test]
fn paths_of_exponential_length() {
    for n in [10, 41, 60, 150] {
        let win_or_lose = (vec![(n + 1, 0.25), (n + 2, 0.75)], 0.0);
        let rest = |won: f64| {
            vec![vec![win_or_lose.clone()], vec![(vec![(n + 1, 1.0)], won)], vec![(vec![(n + 2, 1.0)], 0.0)]]
        };
        for leave in [vec![win_or_lose.clone()], Vec::new()] {
            let check = |criterion: &Criterion, won: f64, objective, exact: f64| {
                let mdp = model(objective, &long_way(n, &leave, rest(won)));
                for relative in [false, true] {
                    let options = Options { epsilon: 1e-9, relative, ..Options::default() };
                    let found = run(&mdp, criterion, &options).unwrap();
                    let name = format!("{n} states, {} ways out, {criterion:?}", leave.len());
                    assert_eq!(found.status, Status::Solved, "{name}");
                    (0..=n as usize).for_each(|s| assert_holds(&found, s, exact));
                    assert!(found.sweeps() <= 10_000, "{name}: {} sweeps", found.sweeps());
                }
            };
            for objective in [Objective::Maximize, Objective::Minimize] {
                check(&Criterion::Reach { goal: vec![n + 1] }, 0.0, objective, 0.25);
                check(&Criterion::Average, 1.0, objective, 0.25);
            }
        }
        // As a total reward: 3 at the end, plus 1 for each step of the long path if there is no short one.
        for (cost, leave, exact) in
            [(0.0, vec![(vec![(n, 1.0)], 0.0)], 3.0), (1.0, Vec::new(), 2.0_f64.powi(n as i32 + 1) + 1.0)]
        {
            let mut states = long_way(n, &leave, vec![vec![(vec![(n + 1, 1.0)], 3.0)], Vec::new()]);
            states[..n as usize].iter_mut().for_each(|rows| rows[0].1 = cost);
            for objective in [Objective::Maximize, Objective::Minimize] {
                let mdp = model(objective, &states);
                let options = Options { epsilon: 1e-9, relative: true, ..Options::default() };
                for goal in [None, Some(vec![n + 1])] {
                    let found = run(&mdp, &Criterion::TotalReward { goal }, &options).unwrap();
                    assert_eq!(found.status, Status::Solved, "{n} states, total, {objective:?}");
                    assert_holds(&found, 0, exact);
                }
            }
        }
    }
}

/// Two states that earn 0 and 1, and a long path from each to the other: a component that needs 2^N steps to mix.
#[test]
fn slowly_mixing_components() {
    let n = 60;
    let way = |first: u32, last: u32| {
        (0..n).map(move |i| {
            let next = if i + 1 == n { last } else { first + i + 1 };
            let mut successors = vec![(first, 0.5), (next, 0.5)];
            successors.sort_by_key(|entry| entry.0);
            vec![(successors, f64::from(u8::from(first > 0)))]
        })
    };
    let states: Vec<Vec<Row>> = way(0, n).chain(way(n, 0)).collect();
    for relative in [false, true] {
        let options = Options { epsilon: 1e-9, relative, ..Options::default() };
        let found = run(&model(Objective::Maximize, &states), &Criterion::Average, &options).unwrap();
        assert_eq!(found.status, Status::Solved);
        assert_holds(&found, 5, 0.5);
        assert!(found.sweeps() <= 10_000 && found.bits.is_some(), "{} sweeps", found.sweeps());
    }
}

/// Every device solves by elimination, which stops when asked to.
#[test]
fn devices_eliminate_states() {
    let leave = (vec![(61, 0.25), (62, 0.75)], 0.0);
    let rest = vec![vec![leave.clone()], vec![(vec![(61, 1.0)], 0.0)], vec![(vec![(62, 1.0)], 0.0)]];
    let mdp = model(Objective::Maximize, &long_way(60, &[leave], rest));
    let reach = Criterion::Reach { goal: vec![61] };
    let found = solve_on(&Local::alone(), DeviceChoice::Emulated, &mdp, &reach, &Options::default(), &mut |_| {
        ControlFlow::Continue(())
    });
    let found = found.unwrap().bounded;
    assert_eq!((found.status, found.bits), (Status::Solved, Some(128)));
    assert_holds(&found, 0, 0.25);
    let mut rounds = 0;
    let mut stop = |_: &Round| {
        rounds += 1;
        if rounds < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let found =
        solve_on(&Local::alone(), DeviceChoice::Cpu, &mdp, &reach, &Options::default(), &mut stop).unwrap().bounded;
    assert_eq!(found.status, Status::Interrupted);
    assert_holds(&found, 0, 0.25);
}
