//! The error bounds of all solvers hold on random models that are also solved exactly, and all solvers
//! agree on every family of models.

use DeviceChoice::{Cpu, Emulated};
use Precision::{F32, F64, Mixed, Refined};
use rayon::prelude::*;
use warpkov_mdp::Solve;
use warpkov_mdp::generate::{Garnet, QueueNetwork, SlipGrid, WetFloor};
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts, Objective};
use warpkov_mdp::options::{BlockDivided, Limits, Method, Precision, Reorder, SolveOptions, Spmv, Target};
use warpkov_mdp::solution::{Solution, Status};
use warpkov_runtime::choose::DeviceChoice;

use crate::exact::{distance, linear};
use crate::random::Random;

/// Number of random models.
const MODELS: u64 = 1000;

/// Methods on the CPU, in every precision that they distinguish.
const ON_CPU: [(Option<Method>, Precision); 15] = [
    (Some(Method::Serial), F32),
    (Some(Method::Serial), F64),
    (Some(Method::Parallel), F32),
    (Some(Method::Parallel), F64),
    (Some(Method::Sequential), F32),
    (Some(Method::Sequential), F64),
    (Some(Method::Values), F32),
    (Some(Method::Values), F64),
    (Some(Method::Values), Refined),
    (Some(Method::GaussSeidel), F32),
    (Some(Method::GaussSeidel), F64),
    (Some(Method::Modified), F32),
    (Some(Method::Modified), F64),
    (Some(Method::Krylov), F64),
    (None, Mixed),
];

/// Methods on a device.
const ON_DEVICE: [(Option<Method>, Precision); 12] = [
    (Some(Method::Values), F32),
    (Some(Method::Values), F64),
    (Some(Method::Values), Mixed),
    (Some(Method::Values), Refined),
    (Some(Method::Plain), F64),
    (Some(Method::Projected(Spmv::Own)), F32),
    (Some(Method::Projected(Spmv::Own)), F64),
    (Some(Method::Modified), F32),
    (Some(Method::Modified), F64),
    (Some(Method::ResultDivided), F64),
    (Some(Method::BlockDivided(BlockDivided::PLAIN)), F64),
    (None, Mixed),
];

/// All CPU methods solve the models up to this γ. For models with a larger γ, a few methods take turns.
const ALL_BELOW: f64 = 0.97;

fn solve(mdp: &Mdp, (method, precision): (Option<Method>, Precision), device: DeviceChoice, epsilon: f64) -> Solution {
    // If f32 cannot reach θ, policy evaluation runs up to its limit.
    let patient = precision != F32;
    let limits = Limits {
        target: Target::Epsilon(epsilon),
        max_sweeps: if patient { 2_000_000 } else { 5_000 },
        max_policies: if patient { 1_000 } else { 20 },
        tie: 1e-3 * epsilon * (1.0 - mdp.gamma()),
    };
    let options = SolveOptions { method, device, precision, limits, ..SolveOptions::default() };
    Solve::new(mdp, &options).run().unwrap()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |norm, value| value.abs().max(norm))
}

/// V* by policy iteration with direct evaluation, and a bound on its error: the residuals of LU factorisation with
/// pivoting are a few rounding errors, which 1/(1 − γ) magnifies.
fn exact(mdp: &Mdp) -> (Vec<f64>, f64) {
    let states = mdp.states() as usize;
    let (rewards, sign) = (mdp.expected_rewards(), mdp.objective().sign());
    let q = |values: &[f64], row: usize| {
        let (successors, probs) = mdp.transitions().row(row);
        let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * values[s as usize]).sum();
        sign * (rewards[row] + mdp.gamma() * next)
    };
    let mut policy: Vec<Option<usize>> = (0..states).map(|state| mdp.choices().rows(state).next()).collect();
    for _ in 0..1000 {
        let (mut a, mut b) = (vec![vec![0.0; states]; states], vec![0.0; states]);
        for state in 0..states {
            a[state][state] = 1.0;
            if let Some(row) = policy[state] {
                let (successors, probs) = mdp.transitions().row(row);
                successors.iter().zip(probs).for_each(|(&s, p)| a[state][s as usize] -= mdp.gamma() * p);
                b[state] = rewards[row];
            }
        }
        let values = linear(a, b);
        let (mut stable, tie) = (true, 4e-15 * norm(&values));
        for (state, own) in policy.iter_mut().enumerate() {
            for row in mdp.choices().rows(state) {
                if own.is_some_and(|own| q(&values, row) > q(&values, own) + tie) {
                    (*own, stable) = (Some(row), false);
                }
            }
        }
        if stable {
            let error = 2e-14 * norm(&values) / (1.0 - mdp.gamma());
            return (values, error);
        }
    }
    panic!("policies go round");
}

/// A small ragged model with ends, terminal states, rewards of mixed magnitudes and γ up to 0.9999; and an ε.
fn model(number: u64) -> (Mdp, f64) {
    let mut random = Random::new(number);
    let states = 2 + random.below(29) as u32;
    // Every eighth γ is the largest one.
    let distance = if number % 8 == 7 { 1e-4 } else { 10_f64.powf(-3.5 * random.unit().powi(2)) };
    let (gamma, actions, longest) = (1.0 - distance, 1 + random.below(4) as u32, 1 + random.below(6) as u32);
    let mdp = match random.below(2) {
        0 => random.mdp(states, actions, longest, gamma),
        _ => random.ragged(states, actions, longest, gamma),
    };
    let scale = 10_f64.powi(random.below(10) as i32 - 4);
    let mut scaled = |numbers: &[f64]| -> Vec<f64> {
        numbers.iter().map(|x| scale * x * 10_f64.powi(-(random.below(4) as i32))).collect()
    };
    let (action_rewards, rewards) = (scaled(mdp.action_rewards()), scaled(mdp.rewards().val()));
    let objective = if number.is_multiple_of(3) { Objective::Minimize } else { Objective::Maximize };
    let mdp = MdpParts {
        objective,
        action_rewards: action_rewards.into(),
        rewards: mdp.rewards().clone().with_values(rewards).unwrap(),
        ..mdp.into_parts()
    };
    let relative = 10_f64.powf(-3.0 - 6.0 * random.unit());
    (mdp.validated().unwrap(), relative)
}

/// Asserts that the error bound holds. Returns whether ε was reached.
fn honoured(number: u64, mdp: &Mdp, how: (Option<Method>, Precision), device: DeviceChoice, relative: f64) -> bool {
    let (values, error) = exact(mdp);
    // V* can be 0 although the rewards are not.
    let size = norm(&values);
    let epsilon = relative * if size == 0.0 { 1e3 } else { size };
    let solution = solve(mdp, how, device, epsilon);
    let what = format!("model {number}, γ = {}, {how:?} on {device}, ε = {epsilon:e}", mdp.gamma());
    let off = distance(&solution.values, &values);
    let bound = solution.certificate.bound.unwrap_or_else(|| panic!("{what}: nothing is certain"));
    assert!(off <= bound + error, "{what}: off by {off:e}, not {bound:e}; {:?}", solution.run.status);
    let reached = bound <= epsilon;
    assert!(
        reached || how.1 == F32,
        "{what}: {bound:e}, {:?} after {} sweeps",
        solution.run.status,
        solution.run.sweeps()
    );
    reached
}

/// Actions that no policy takes, with rewards up to 10¹⁴ times those of the others, neither loosen the bound nor hide an error.
#[test]
fn avoided_actions_with_large_numbers_cost_nothing() {
    let of_model = |number: u64| {
        let (mdp, relative) = model(number);
        let penalty = -mdp.objective().sign() * 10_f64.powi(4 + (number % 11) as i32) * norm(&mdp.expected_rewards());
        let mut rewards = mdp.action_rewards().to_vec();
        rewards.resize(mdp.rows(), 0.0);
        for state in 0..mdp.states() as usize {
            let rows = mdp.choices().rows(state);
            if rows.len() > 1 {
                rewards[rows.end - 1] += penalty;
            }
        }
        let mdp = MdpParts { action_rewards: rewards.into(), ..mdp.into_parts() }.validated().unwrap();
        for method in [Method::Values, Method::Modified, Method::Parallel] {
            assert!(honoured(number, &mdp, (Some(method), F64), Cpu, relative));
        }
    };
    (0..200).into_par_iter().for_each(of_model);
}

#[test]
fn epsilon_is_honoured() {
    let count = ON_CPU.len() as u64;
    let of_model = |number: u64| {
        let (mdp, relative) = model(number);
        let all = mdp.gamma() <= ALL_BELOW;
        let turn = |place: u64| all || (place + number).is_multiple_of(5);
        let turns = (0..count).filter(|&place| turn(place)).map(|place| ON_CPU[place as usize]);
        let reached = turns.map(|how| (how.1 == F32, honoured(number, &mdp, how, Cpu, relative)));
        reached.filter(|(short, reached)| *short && *reached).count()
    };
    let reached: usize = (0..MODELS).into_par_iter().map(of_model).sum();
    // f32 reaches many of the targets, and many not.
    assert!(reached > 1000, "{reached}");
}

#[test]
fn epsilon_is_honoured_on_devices() {
    let models: Vec<u64> = (0..MODELS).filter(|&number| model(number).0.gamma() < 0.9).step_by(12).collect();
    models.into_par_iter().for_each(|number| {
        let (mdp, relative) = model(number);
        for how in ON_DEVICE.into_iter().filter(|how| !matches!(how.0, Some(Method::BlockDivided(_)))) {
            honoured(number, &mdp, how, Emulated, relative);
        }
    });
}

#[test]
fn all_methods_agree_on_all_families() {
    let grid = SlipGrid { width: 9, height: 11, ..SlipGrid::default() };
    let walls = SlipGrid { walls: 0.2, obstacles: 0.1, ..grid };
    let garnet = Garnet { states: 80, actions: 3, branching: 4, gamma: 0.9, ..Garnet::default() };
    let ragged = Garnet { ragged: true, terminals: 0.1, power_law: true, seed: 5, ..garnet };
    let models = [
        ("grid", grid.generate().unwrap()),
        ("walls", walls.generate().unwrap()),
        ("wet floor, 1", WetFloor { reward_states: Some(5), ..WetFloor::new(8, 8, 1) }.generate().unwrap()),
        ("wet floor, 4", WetFloor { reward_states: Some(5), ..WetFloor::new(8, 8, 4) }.generate().unwrap()),
        ("garnet", garnet.generate().unwrap()),
        ("ragged garnet", ragged.generate().unwrap()),
        ("queues", QueueNetwork { capacity: 6, gamma: 0.95, ..QueueNetwork::default() }.generate().unwrap()),
    ];
    models.par_iter().for_each(|(name, mdp)| {
        let epsilon = 1e-7;
        let expected = solve(mdp, (Some(Method::Serial), F64), Cpu, epsilon);
        let check = |how: (Option<Method>, Precision), device| {
            let found = solve(mdp, how, device, epsilon);
            let off = distance(&found.values, &expected.values);
            assert!(found.certificate.bound.unwrap() <= epsilon, "{name}, {how:?} on {device}: {:?}", found.run.status);
            assert!(off <= 2.0 * epsilon, "{name}, {how:?} on {device}: {off:e}");
        };
        let exact = |how: &(Option<Method>, Precision)| how.1 != F32;
        ON_CPU.into_iter().filter(exact).for_each(|how| check(how, Cpu));
        ON_DEVICE.into_iter().filter(exact).for_each(|how| check(how, Emulated));
    });
}

/// Probabilities from files have few digits: rows may sum to 1 within 1e-6, and not all to the same. Where a process mixes
/// fast, the span of ΔV is small at once, and V is shifted by a large constant.
#[test]
fn epsilon_is_honoured_where_rows_do_not_sum_to_one() {
    (0..60).into_par_iter().for_each(|number| {
        let mut random = Random::new(1_000_000 + number);
        let (states, actions) = (2 + random.below(9) as u32, 1 + random.below(3) as u32);
        let gamma = 1.0 - 10_f64.powf(-1.0 - random.unit());
        let parts = random.mdp(states, actions, states, gamma).into_parts();
        let common = 9e-7 * (2.0 * random.unit() - 1.0);
        let mut probs = Vec::new();
        for row in 0..states * actions {
            // Each row of some models has a sum of its own.
            let excess = if number % 2 == 0 { common } else { 9e-7 * (2.0 * random.unit() - 1.0) };
            let (successors, _) = parts.transitions.row(row as usize);
            probs.extend(successors.iter().map(|_| (1.0 + excess) / successors.len() as f64));
        }
        let transitions = parts.transitions.clone().with_values(probs).unwrap();
        let mdp = MdpParts { transitions, ..parts }.validated().unwrap();
        for how in ON_CPU {
            honoured(number, &mdp, how, Cpu, 1e-9);
        }
        let how = [(Some(Method::Values), F64), (Some(Method::Values), Refined), (Some(Method::Modified), F64)];
        honoured(number, &mdp, how[number as usize / 2 % 3], Emulated, 1e-8);
    });
}

/// A small model whose γ is .999 to .999999: rows with small probabilities, ends of 1e-7 to 1, few rewards.
fn near_one(number: u64) -> Mdp {
    let mut random = Random::new(2_000_000 + number);
    let decades = |random: &mut Random, most: f64| 10_f64.powf(-most * random.unit());
    let states = 1 + random.below(11) as u32;
    let (skew, scale, ends_at_all) = (3.0 * random.unit(), 1e4 * decades(&mut random, 8.0), random.below(2) == 0);
    let mut offsets = vec![0];
    let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
    let (mut ends, mut action_rewards) = (Vec::new(), Vec::new());
    for state in 0..states {
        let terminal = state > 0 && random.below(8) == 0;
        for _ in 0..if terminal { 0 } else { 1 + random.below(3) } {
            let end = if ends_at_all && random.below(2) == 0 { decades(&mut random, 7.0) } else { 0.0 };
            let mut successors: Vec<u32> =
                (0..1 + random.below(4)).map(|_| random.below(states.into()) as u32).collect();
            successors.sort_unstable();
            successors.dedup();
            let weights: Vec<f64> = successors.iter().map(|_| decades(&mut random, skew)).collect();
            let total: f64 = weights.iter().sum();
            col.extend(successors);
            val.extend(weights.iter().map(|weight| weight / total * (1.0 - end)));
            row_ptr.push(col.len() as u64);
            ends.push(end);
            action_rewards.push(if random.below(2) == 0 { 0.0 } else { scale * (2.0 * random.unit() - 1.0) });
        }
        offsets.push(ends.len() as u64);
    }
    let parts = MdpParts {
        states,
        choices: Choices::Ragged(offsets.into()),
        gamma: 1.0 - 1e-3 * decades(&mut random, 3.0),
        transitions: Csr::new(row_ptr, col, val).unwrap(),
        ends: if ends_at_all { ends.into() } else { Vec::new().into() },
        action_rewards: action_rewards.into(),
        ..MdpParts::default()
    };
    parts.validated().unwrap()
}

/// An inexact evaluation of a policy has an error of its residual over 1 − γ, here up to 10⁶ times as much. What value iteration
/// solves, the other methods solve too, and the values of none leave max |r| / (1 − γ). `WARPKOV_MODELS` is the number of models.
#[test]
fn methods_solve_what_value_iteration_solves_for_gamma_near_one() {
    let count = std::env::var("WARPKOV_MODELS").map_or(200, |count| count.parse().unwrap());
    let methods =
        [(Some(Method::Krylov), F64), (Some(Method::Modified), F64), (Some(Method::Values), Refined), (None, Mixed)];
    let of_model = |number: u64| {
        let mdp = near_one(number);
        let largest = norm(&mdp.expected_rewards());
        let epsilon = largest.max(1e-9) * 10_f64.powf(-3.0 * Random::new(number).unit());
        let solve = |(method, precision): (Option<Method>, Precision)| {
            let limits = Limits {
                target: Target::Epsilon(epsilon),
                // Sweeps of an evaluation are cheaper than those of value iteration.
                max_sweeps: if method == Some(Method::Modified) { 500_000 } else { 50_000 },
                max_policies: 1000,
                tie: precision.tie_for(Target::Epsilon(epsilon), mdp.gamma()),
            };
            let options = SolveOptions { method, device: Cpu, precision, limits, ..SolveOptions::default() };
            Solve::new(&mdp, &options).run().unwrap()
        };
        let expected = solve((Some(Method::Values), F64));
        let solved = expected.certificate.proves(epsilon);
        for how in methods {
            let found = solve(how);
            let what = format!("model {number}, γ = {}, {how:?}, ε = {epsilon:e}", mdp.gamma());
            let bound = found.certificate.bound.unwrap();
            // The evaluation of a bad policy may lead V far away, from where a process that never ends comes back by γ per sweep.
            let may_fail = how.0 == Some(Method::Modified) && found.run.status == Status::SweepLimit;
            assert!(
                !solved || bound <= epsilon || may_fail && number >= 200,
                "{what}: {bound:e}, {:?}, {} sweeps",
                found.run.status,
                found.run.sweeps()
            );
            let off = distance(&found.values, &expected.values);
            assert!(off <= bound + expected.certificate.bound.unwrap(), "{what}: off by {off:e}");
            let most = largest / (1.0 - mdp.gamma());
            assert!(norm(&found.values) <= most * (1.0 + 1e-9) + epsilon, "{what}: {:e}", norm(&found.values));
        }
        u64::from(solved)
    };
    let solved: u64 = (0..count).into_par_iter().map(of_model).sum();
    assert!(solved > count / 2, "{solved}");
}

/// Renumbers the states as n·7919 mod S, so that the 300² cells are far from their neighbours.
#[test]
fn the_order_of_states_does_not_matter() {
    let grid = SlipGrid { width: 300, height: 300, ..SlipGrid::default() }.generate().unwrap();
    let states = u64::from(grid.states());
    let order =
        warpkov_mdp::analysis::reorder::Order::new((0..states).map(|n| (n * 7919 % states) as u32).collect()).unwrap();
    let shuffled = order.apply(&grid);
    let solve = |mdp: &Mdp, reorder| {
        let options = SolveOptions { method: Some(Method::Values), device: Cpu, reorder, ..SolveOptions::default() };
        Solve::new(mdp, &options).run().unwrap()
    };
    let expected = solve(&grid, Reorder::None);
    for (reorder, said) in [(Reorder::None, false), (Reorder::Auto, true), (Reorder::Rcm, true)] {
        let found = solve(&shuffled, reorder);
        // Jacobi sweeps are the same in any order of states, except for the order of three terms of a sum.
        assert!(distance(&order.to_old(&found.values), &expected.values) <= 1e-12, "{reorder:?}");
        assert_eq!(found.notes.iter().any(|note| note.contains("Cuthill")), said, "{reorder:?}: {:?}", found.notes);
    }
}

/// A certificate that lacks ε sends a solve on with a tighter rule: the sweeps of all attempts count together.
#[test]
fn limits_count_the_sweeps_of_all_attempts() {
    let mdp = Garnet { states: 300, actions: 3, gamma: 0.999, ..Garnet::default() }.generate().unwrap();
    for method in [Method::Values, Method::GaussSeidel, Method::Modified] {
        let solve = |max_sweeps| {
            let limits = Limits { target: Target::Epsilon(1e-9), max_sweeps, ..Limits::default() };
            let options =
                SolveOptions { method: Some(method), device: Cpu, precision: F64, limits, ..SolveOptions::default() };
            Solve::new(&mdp, &options).run().unwrap().run
        };
        let sweeps = u32::try_from(solve(1_000_000).sweeps()).unwrap();
        for most in [sweeps / 2, sweeps - 1] {
            let found = solve(most);
            assert!(found.sweeps() <= most.into() && found.status != Status::Solved, "{method}: {most} of {sweeps}");
        }
    }
}

/// Runs that a limit stops, of the models of [`model`] and of a grid with few rewards: their values are possible ones, and the bounds hold.
#[test]
fn stopped_runs_stay_among_possible_values() {
    let grid = |gamma| SlipGrid { width: 20, height: 20, gamma, ..SlipGrid::default() }.generate().unwrap();
    let models = (0..150).map(|number| model(number).0).chain([grid(0.99), grid(0.9999)]).collect::<Vec<_>>();
    let outside: usize = models
        .par_iter()
        .enumerate()
        .map(|(number, mdp)| {
            let largest = norm(&mdp.expected_rewards()) / (1.0 - mdp.gamma()) * (1.0 + 1e-10);
            let (values, error) = exact(mdp);
            let mut trivial = 0;
            let methods = ON_CPU.map(|how| (how, Cpu)).into_iter().chain(ON_DEVICE.map(|how| (how, Emulated)));
            for (how, device) in methods.filter(|(_, device)| *device == Cpu || number % 10 == 0 && number < 150) {
                for (max_policies, max_sweeps) in [(1, 2), (2, 5), (3, 100)] {
                    let limits = Limits { target: Target::Epsilon(1e-300), max_sweeps, max_policies, tie: 0.0 };
                    let options =
                        SolveOptions { method: how.0, device, precision: how.1, limits, ..SolveOptions::default() };
                    let solution = Solve::new(mdp, &options).run().unwrap();
                    let what =
                        format!("model {number}, {how:?} on {device}, {max_policies} policies of {max_sweeps} sweeps");
                    let (found, bound) = (norm(&solution.values), solution.certificate.bound.unwrap());
                    assert!(found <= largest, "{what}: {found:e} is above {largest:e}");
                    let off = distance(&solution.values, &values);
                    assert!(off <= bound + error, "{what}: off by {off:e}, not {bound:e}");
                    trivial += usize::from(bound >= largest);
                }
            }
            trivial
        })
        .sum();
    assert!(outside > 10, "only {outside} runs were stopped so early that their bounds say nothing");
}
