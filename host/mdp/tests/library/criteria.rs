//! Reachability, total reward, average reward and finite horizons: known values, and random models solved exactly by
//! enumerating their policies.
//!
//! One file, because all criteria share the exact enumeration and the check of bounds.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov_mdp::analysis::graph::{Graph, NO_COMPONENT};
use warpkov_mdp::backend::{GreedySweeps, State, Stop};
use warpkov_mdp::backends::cpu::Serial;
use warpkov_mdp::criterion::{
    Bounded, Boxed, Criterion, Error, Make, Options, Stages, backward, backward_on, solve, solve_on,
};
use warpkov_mdp::generate::{Consensus, Csma, Firewire, Gambler, Zeroconf};
use warpkov_mdp::io::read;
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts, NO_ACTION, Objective};
use warpkov_mdp::solution::{Round, Status};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;

use crate::rational::{Chain, Value, enumerate};

/// A row: successors with probabilities, and the reward. The process ends with probability 1 minus their sum.
type Row = (Vec<(u32, f64)>, f64);

fn model(objective: Objective, states: &[Vec<Row>]) -> Mdp {
    let (mut choices, mut row_ptr, mut col, mut val) = (vec![0], vec![0], Vec::new(), Vec::new());
    let (mut ends, mut action_rewards) = (Vec::new(), Vec::new());
    for state in states {
        for (successors, reward) in state {
            col.extend(successors.iter().map(|(successor, _)| *successor));
            val.extend(successors.iter().map(|(_, p)| *p));
            row_ptr.push(col.len() as u64);
            let end = 1.0 - successors.iter().map(|(_, p)| p).sum::<f64>();
            ends.push(if end.abs() < 1e-9 { 0.0 } else { end });
            action_rewards.push(*reward);
        }
        choices.push(action_rewards.len() as u64);
    }
    MdpParts {
        states: states.len() as u32,
        choices: Choices::Ragged(choices.into()),
        gamma: 1.0,
        objective,
        transitions: Csr::new(row_ptr, col, val).unwrap(),
        ends: ends.into(),
        action_rewards: action_rewards.into(),
        ..MdpParts::default()
    }
    .validated()
    .unwrap()
}

/// Makes backends that use one core.
struct OneCore;

impl Make for OneCore {
    type Error = Infallible;

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, Infallible>, Infallible> {
        Ok(Box::new(Serial::<f64>::new(mdp)))
    }
}

fn run(mdp: &Mdp, criterion: &Criterion, options: &Options) -> Result<Bounded, Error<Infallible>> {
    solve(mdp, criterion, options, &OneCore, &mut |_| ControlFlow::Continue(()))
}

/// Solves, and checks that the bounds are within `epsilon`.
fn solved(mdp: &Mdp, criterion: &Criterion, epsilon: f64) -> Bounded {
    let found = run(mdp, criterion, &Options { epsilon, ..Options::default() }).unwrap();
    assert_eq!(found.status, Status::Solved);
    assert!(found.error() <= epsilon, "{} > {epsilon}", found.error());
    found
}

#[track_caller]
fn assert_holds(found: &Bounded, state: usize, exact: f64) {
    let (lower, upper) = (found.lower[state], found.upper[state]);
    assert!(lower <= exact && exact <= upper, "state {state}: {exact} is not in [{lower}, {upper}]");
}

/// Gambler's ruin with a fair coin: from i to i ± 1 until 0 or `n`. There is one action.
fn gambler(n: u32) -> Mdp {
    let state = |i: u32| match i {
        _ if i == 0 || i == n => vec![(vec![(i, 1.0)], 0.0)],
        _ => vec![(vec![(i - 1, 0.5), (i + 1, 0.5)], 1.0)],
    };
    model(Objective::Maximize, &(0..=n).map(state).collect::<Vec<_>>())
}

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

fn with(objective: Objective, mdp: &Mdp) -> Mdp {
    mdp.clone().with_objective(objective)
}

fn start(mdp: &Mdp) -> usize {
    mdp.labels()["init"][0] as usize
}

/// Quantitative Verification Benchmark Set, `consensus`: c2, disagree, steps_max, steps_min. For K = 16, a solver
/// that stops when all changes are below 1e-6 returns 3265.6 and 3073.2.
#[test]
fn consensus() {
    let cases = [(2, 2, Some((49.0 / 128.0, 13.0 / 120.0)), 75.0, 48.0), (2, 16, None, 3267.0, 3072.0)];
    for (processes, bound, probabilities, most, least) in cases {
        let mdp = Consensus { processes, bound }.generate().unwrap();
        let init = start(&mdp);
        let finished = Criterion::TotalReward { goal: Some(mdp.labels()["finished"].clone()) };
        let epsilon = 1e-6;
        let found = solved(&with(Objective::Maximize, &mdp), &finished, epsilon);
        assert_holds(&found, init, most);
        let found = solved(&with(Objective::Minimize, &mdp), &finished, epsilon);
        assert_holds(&found, init, least);
        let Some((heads, disagree)) = probabilities else { continue };
        let holds = |label: &str, state: &u32| mdp.labels()[label].binary_search(state).is_ok();
        let all = || mdp.labels()["finished"].iter().copied();
        let goal = all().filter(|state| holds("all_coins_equal_1", state)).collect();
        assert_holds(&solved(&with(Objective::Minimize, &mdp), &Criterion::Reach { goal }, 1e-9), init, heads);
        let goal = all().filter(|state| !holds("agree", state)).collect();
        assert_holds(&solved(&with(Objective::Maximize, &mdp), &Criterion::Reach { goal }, 1e-9), init, disagree);
    }
}

/// `consensus` of four processes: c2, steps_max and steps_min.
#[test]
fn consensus_of_four() {
    let mdp = Consensus { processes: 4, bound: 2 }.generate().unwrap();
    let finished = Criterion::TotalReward { goal: Some(mdp.labels()["finished"].clone()) };
    for (objective, exact) in [(Objective::Maximize, 363.0), (Objective::Minimize, 192.0)] {
        assert_holds(&solved(&with(objective, &mdp), &finished, 1e-6), start(&mdp), exact);
    }
    let heads = |state: &u32| mdp.labels()["all_coins_equal_1"].binary_search(state).is_ok();
    let goal = mdp.labels()["finished"].iter().copied().filter(heads).collect();
    let found = solved(&with(Objective::Minimize, &mdp), &Criterion::Reach { goal }, 1e-9);
    assert_holds(&found, start(&mdp), 325.0 / 1024.0);
}

/// `csma` (all_before_max): deliver all messages before any station has reached the longest backoff. The states of
/// that event are absorbing.
#[test]
fn csma_before_the_longest_wait() {
    let mdp = Csma::default().generate().unwrap();
    let late = &mdp.labels()["collision_max_backoff"];
    let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
    for state in 0..mdp.states() {
        for row in mdp.choices().rows(state as usize) {
            let (cols, probs) = mdp.transitions().row(row);
            match late.binary_search(&state) {
                Ok(_) => {
                    col.push(state);
                    val.push(1.0);
                }
                Err(_) => {
                    col.extend_from_slice(cols);
                    val.extend_from_slice(probs);
                }
            }
            row_ptr.push(col.len() as u64);
        }
    }
    let transitions = Csr::new(row_ptr, col, val).unwrap();
    let MdpParts { states, choices, labels, .. } = mdp.clone().into_parts();
    let stuck =
        MdpParts { states, choices, gamma: 1.0, transitions, labels, ..MdpParts::default() }.validated().unwrap();
    let goal =
        stuck.labels()["all_delivered"].iter().copied().filter(|state| late.binary_search(state).is_err()).collect();
    assert_holds(&solved(&stuck, &Criterion::Reach { goal }, 1e-9), start(&mdp), 7.0 / 8.0);
}

/// Sutton and Barto, example 4.3, with p = .4 and .25: the probabilities of bold play from 25, 50 and 75. And the
/// undiscounted FrozenLake 8×8 of Gymnasium 1.4, whose goal is reachable with probability 1. On the CPU and emulated.
#[test]
fn textbook_models_undiscounted() {
    // Neither .4 nor 1/3 is exact in binary.
    let assert_near = |found: &Bounded, state: usize, exact: f64| {
        let value = found.values()[state];
        assert!((value - exact).abs() <= 1e-9 + 1e-12, "state {state}: {value}, not {exact}");
    };
    let devices = [DeviceChoice::Cpu, DeviceChoice::Emulated];
    let solved_on = |device, mdp: &Mdp, criterion: &Criterion| {
        let options = Options { epsilon: 1e-9, ..Options::default() };
        let found = solve_on(&Local::alone(), device, mdp, criterion, &options, &mut |_| ControlFlow::Continue(()))
            .unwrap()
            .bounded;
        assert_eq!(found.status, Status::Solved);
        found
    };
    for device in devices {
        for (heads, expected) in [(0.4, [0.16, 0.4, 0.64]), (0.25, [1.0 / 16.0, 0.25, 7.0 / 16.0])] {
            let mdp = Gambler { heads, ..Gambler::default() }.generate().unwrap();
            let goal = Criterion::Reach { goal: mdp.labels()["goal"].clone() };
            for criterion in [goal, Criterion::TotalReward { goal: None }] {
                let found = solved_on(device, &mdp, &criterion);
                [25, 50, 75].into_iter().zip(expected).for_each(|(state, exact)| assert_near(&found, state, exact));
            }
        }
        let coin = with(Objective::Minimize, &Consensus { processes: 2, bound: 2 }.generate().unwrap());
        let finished = Criterion::TotalReward { goal: Some(coin.labels()["finished"].clone()) };
        assert_holds(&solved_on(device, &coin, &finished), start(&coin), 48.0);
    }
    let lake = |name| read(&Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("data").join(name)).unwrap();
    for (name, exact) in [("frozen-lake-4x4.json", 14.0 / 17.0), ("frozen-lake-8x8.json", 1.0)] {
        let found = solved_on(DeviceChoice::Cpu, &lake(name), &Criterion::TotalReward { goal: None });
        assert_near(&found, 0, exact);
    }
}

/// Quantitative Verification Benchmark Set: `csma` (some_before), `firewire` (time_max, time_min) and `zeroconf`
/// (correct_max, to a relative error).
#[test]
fn protocols() {
    let mdp = Csma::default().generate().unwrap();
    let goal = mdp.labels()["early"].clone();
    assert_holds(&solved(&with(Objective::Minimize, &mdp), &Criterion::Reach { goal }, 1e-9), start(&mdp), 0.5);

    let mdp = Firewire::default().generate().unwrap();
    let elected = Criterion::TotalReward { goal: Some(mdp.labels()["elected"].clone()) };
    assert_holds(&solved(&with(Objective::Maximize, &mdp), &elected, 1e-6), start(&mdp), 299.0);
    assert_holds(&solved(&with(Objective::Minimize, &mdp), &elected, 1e-6), start(&mdp), 553.0 / 4.0);

    let mdp = with(Objective::Maximize, &Zeroconf::default().generate().unwrap());
    let collision = Criterion::Reach { goal: mdp.labels()["collision"].clone() };
    let found = run(&mdp, &collision, &Options { epsilon: 1e-6, relative: true, ..Options::default() }).unwrap();
    let (init, exact) = (start(&mdp), 65_341.0 / 3_250_265_341.0);
    assert_eq!(found.status, Status::Solved);
    assert_holds(&found, init, exact);
    assert!(found.upper[init] - found.lower[init] <= 2e-6 * exact);
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

/// A random model of 2 to 4 states with up to 3 actions; some states are terminal, and some rows end the process.
fn random(rng: &mut ChaCha8Rng, reward: impl Fn(u32) -> f64) -> Vec<Vec<Row>> {
    let below = |rng: &mut ChaCha8Rng, n: u32| rng.next_u32() % n;
    let n = 2 + below(rng, 3);
    let state = |rng: &mut ChaCha8Rng| {
        let actions = if below(rng, 10) == 0 { 0 } else { 1 + below(rng, 3) };
        let row = |rng: &mut ChaCha8Rng| {
            let mut weights = vec![0_u32; n as usize + 1];
            let successors = 1 + below(rng, 3);
            for _ in 0..successors {
                let end = below(rng, 20) == 0;
                let next = if end { n } else { below(rng, n) };
                weights[next as usize] += 1 + below(rng, 9);
            }
            let sum: u32 = weights.iter().sum();
            let successors = (0..n).zip(&weights).filter(|(_, w)| **w > 0);
            let successors = successors.map(|(s, &w)| (s, f64::from(w) / f64::from(sum))).collect();
            (successors, reward(below(rng, 4)))
        };
        (0..actions).map(|_| row(rng)).collect()
    };
    (0..n).map(|_| state(rng)).collect()
}

/// Checks the bounds against the values of all policies, and the returned policy's own value.
fn compare(mdp: &Mdp, criterion: &Criterion, value: impl Fn(&[u32]) -> Vec<Value>, case: u64) {
    let best = enumerate(mdp, &value);
    for (epsilon, relative) in [(1e-7, false), (1e-6, true)] {
        let found = run(mdp, criterion, &Options { epsilon, relative, ..Options::default() }).unwrap();
        let attained = value(&found.policy);
        let name = format!("case {case}, {criterion:?}, {:?}, relative {relative}", mdp.objective());
        assert_eq!(found.status, Status::Solved, "{name}");
        for s in 0..mdp.states() as usize {
            let (lower, upper, middle) = (found.lower[s], found.upper[s], found.values()[s]);
            assert!(best[s].is_within(lower, upper), "{name}: {:?} not in [{lower}, {upper}]", best[s]);
            let (absolute, relative) = if relative { (0.0, epsilon) } else { (epsilon, 0.0) };
            assert!(best[s].is_near(middle, absolute, relative), "{name}, state {s}: {middle}, not {:?}", best[s]);
            assert!(
                attained[s].is_near(middle, 2.0 * absolute, 4.0 * relative),
                "{name}, state {s}: the policy {:?} is worth {:?}, not {middle}",
                found.policy,
                attained[s]
            );
        }
    }
}

#[test]
fn random_models_agree_with_enumeration() {
    for case in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        for objective in [Objective::Maximize, Objective::Minimize] {
            // Rewards of both signs, many of them 0.
            let sign = if rng.next_u32().is_multiple_of(2) { 1.0 } else { -1.0 };
            let states = random(&mut rng, |kind| sign * [0.0, 0.0, 1.0, 2.5][kind as usize]);
            if states.iter().all(Vec::is_empty) {
                continue;
            }
            let mdp = model(objective, &states);
            let n = states.len();
            let rewards = mdp.expected_rewards();
            let last = n as u32 - 1;
            let goal: Vec<bool> = (0..=n).map(|s| s == n - 1).collect();
            let none = vec![false; n + 1];

            let reach = |policy: &[u32]| Chain::new(&mdp, policy, &goal).reach(&goal);
            compare(&mdp, &Criterion::Reach { goal: vec![last] }, reach, case);
            // A path that misses the goal earns or pays forever.
            let idle = (0..rewards.len()).all(|row| rewards[row] == 0.0 || mdp.choices().state_of(row) == n - 1);
            let missed = if idle { f64::INFINITY } else { f64::INFINITY.copysign(sign) };
            let total = |policy: &[u32]| Chain::new(&mdp, policy, &goal).total(&goal, missed);
            compare(&mdp, &Criterion::TotalReward { goal: Some(vec![last]) }, total, case);
            let cumulative = |policy: &[u32]| Chain::new(&mdp, policy, &none).cumulative();
            compare(&mdp, &Criterion::TotalReward { goal: None }, cumulative, case);
            let gain = |policy: &[u32]| Chain::new(&mdp, policy, &none).gain();
            compare(&mdp, &Criterion::Average, gain, case);
        }
    }
}

/// A random number of many possible magnitudes and both signs.
fn wide(rng: &mut ChaCha8Rng) -> f64 {
    let sign = if rng.next_u32().is_multiple_of(2) { 1.0 } else { -1.0 };
    let exponent = f64::from(rng.next_u32() % 1300) / 100.0 - 6.0;
    sign * 10_f64.powf(exponent)
}

/// A probability in (0, 1).
fn chance(rng: &mut ChaCha8Rng) -> f64 {
    f64::from(1 + rng.next_u32() % 999) / 1000.0
}

/// Two recurrent components of two states each, and two states that lead to them. Their gains cancel, exactly or to a
/// relative 10⁻³ to 10⁻¹³. An error relative to the values is not relative to the gains.
#[test]
fn relative_errors_hold_if_gains_cancel() {
    let epsilon = 1e-6;
    for case in 0..240 {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        let (q, scale) = (chance(&mut rng), wide(&mut rng));
        let off = match rng.next_u32() % 3 {
            0 => 0.0,
            _ => 10_f64.powi(-3 - (rng.next_u32() % 11) as i32),
        };
        // A component of the states i and i + 1 with a gain of about `gain`.
        let component = |rng: &mut ChaCha8Rng, i: u32, gain: f64| {
            let (a, b) = (chance(rng), chance(rng));
            // The stationary distribution is (b, a) / (a + b).
            let spread = gain * chance(rng);
            let rewards = [gain + spread * a, gain - spread * b];
            let row = |p: f64, own: u32, other: u32, reward: f64| {
                let mut successors = vec![(own, 1.0 - p), (other, p)];
                successors.sort_by_key(|entry| entry.0);
                (successors, reward)
            };
            let mut states = vec![vec![row(a, i, i + 1, rewards[0])], vec![row(b, i + 1, i, rewards[1])]];
            if rng.next_u32().is_multiple_of(2) {
                // A worse action that stays in the component.
                states[0].push((vec![(i, 1.0)], gain - gain.abs() / 2.0));
            }
            states
        };
        let mut states = vec![vec![(vec![(2, q), (4, 1.0 - q)], 0.0)], vec![(vec![(0, 0.5), (1, 0.5)], 0.0)]];
        states.extend(component(&mut rng, 2, scale));
        states.extend(component(&mut rng, 4, -scale * q / (1.0 - q) * (1.0 + off)));
        let mdp = model(Objective::Maximize, &states);
        let none = vec![false; states.len() + 1];
        let best = enumerate(&mdp, |policy| Chain::new(&mdp, policy, &none).gain());
        let options = Options { epsilon, relative: true, ..Options::default() };
        let found = run(&mdp, &Criterion::Average, &options).unwrap();
        assert_eq!(found.status, Status::Solved, "case {case}: {:?} to {:?}", found.lower, found.upper);
        for (s, best) in best.iter().enumerate().take(states.len()) {
            let value = found.values()[s];
            assert!(best.is_within(found.lower[s], found.upper[s]), "case {case}, state {s}");
            assert!(best.is_near(value, 0.0, epsilon), "case {case}, state {s}: {value}, not {best:?}");
        }
    }
}

/// Rewards cancel, exactly or nearly, so that a total is 0 or near 0. The rewards are on transitions, on actions, or
/// averaged.
#[test]
fn relative_errors_hold_if_totals_cancel() {
    let epsilon = 1e-6;
    let mut zeros = 0;
    for case in 0..120 {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        let (p, q, earned) = (chance(&mut rng), chance(&mut rng), wide(&mut rng));
        let off = if case % 2 == 0 { 0.0 } else { 10_f64.powi(-((rng.next_u32() % 13) as i32)) };
        // State 0 earns and stays for 1/(1 − p) steps in expectation; state 1 loses this amount in one step.
        let p = if case % 4 == 0 { 0.5 } else { p };
        let states = [
            vec![(vec![(0, p), (1, 1.0 - p)], earned), (vec![(3, 1.0)], -earned.abs())],
            vec![(vec![(2, q), (3, 1.0 - q)], -earned / (1.0 - p) * (1.0 + off))],
            vec![(vec![(2, q), (3, 1.0 - q)], 0.0)],
            Vec::new(),
        ];
        for objective in [Objective::Maximize, Objective::Minimize] {
            let mdp = model(objective, &states);
            let none = vec![false; states.len() + 1];
            let best = enumerate(&mdp, |policy| Chain::new(&mdp, policy, &none).cumulative());
            let options = Options { epsilon, relative: true, ..Options::default() };
            let found = run(&mdp, &Criterion::TotalReward { goal: None }, &options).unwrap();
            assert_eq!(found.status, Status::Solved, "case {case}: {:?} to {:?}", found.lower, found.upper);
            for (s, best) in best.iter().enumerate().take(states.len()) {
                zeros += u32::from(found.values()[s] == 0.0 && s == 0);
                assert!(best.is_within(found.lower[s], found.upper[s]), "case {case}, state {s}");
                assert!(best.is_near(found.values()[s], 0.0, epsilon), "case {case}, state {s}: {best:?}");
            }
        }
    }
    assert!(zeros >= 15, "{zeros} values are exactly 0");
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
