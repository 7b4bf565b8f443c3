//! The solver of POMDPs: its bounds hold, and converge to published values.
//!
//! One file, because all tests share the random models and the check of policies.

use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_common::choice::Choice;
use warpkov_mdp::model::{Choices, Csr, MdpParts, Objective};
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::backend::PointBackup;
use warpkov_pomdp::backends::cpu::{Assembler, PointBased};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::compact::{Compact, Effort, closure, compact};
use warpkov_pomdp::controller::{Controller, Nodes};
use warpkov_pomdp::generate::{Aloha, FourByThree, Inspection, Layout, Maintenance, Maze, RockSample, Tag, Tiger};
use warpkov_pomdp::io::{Format, read_from};
use warpkov_pomdp::model::{Pomdp, PomdpParts};
use warpkov_pomdp::options::{Expansion, Gap, Limits, Precision, Scheme, SolveOptions, earned};
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::simulate::{Options, Simulator};
use warpkov_pomdp::solution::{Solution, Status};
use warpkov_pomdp::solve::bounds::{blind, fib, mdp, qmdp};
use warpkov_pomdp::solve::solve_with;
use warpkov_pomdp::verify::verify;
use warpkov_runtime::choose::DeviceChoice;

use crate::distributions::distributions;
use crate::exact::incremental_pruning;
use crate::random::Random;

/// Options without a time limit, so that no assertion depends on the speed of the machine.
fn options(gap: f64, iterations: u64) -> SolveOptions {
    SolveOptions {
        device: DeviceChoice::Cpu,
        limits: Limits { gap: Gap::Absolute(gap), iterations: Some(iterations), ..Limits::default() },
        ..SolveOptions::default()
    }
}

fn solve(model: &Pomdp, options: &SolveOptions) -> Solution {
    let mut last = (f64::NEG_INFINITY, f64::INFINITY);
    let solution = solve_with(model, options, &mut |round| {
        assert!(round.lower <= round.upper, "{round:?}");
        // Bounds never become worse.
        assert!(round.lower >= last.0 && round.upper <= last.1, "{round:?} after {last:?}");
        last = (round.lower, round.upper);
        ControlFlow::Continue(())
    });
    solution.unwrap()
}

/// A random model of 2 or 3 states, 2 actions and 1 or 2 observations.
fn model(random: &mut Random) -> Pomdp {
    let (states, actions, observations) = (2 + random.below(2) as u32, 2, 1 + random.below(2) as u32);
    let rows = (states * actions) as usize;
    let process = MdpParts {
        states,
        choices: Choices::Uniform(actions),
        gamma: 0.3 + 0.4 * random.unit(),
        objective: if random.unit() < 0.3 { Objective::Minimize } else { Objective::Maximize },
        transitions: distributions(random, rows, states),
        action_rewards: random.signed(rows).into_iter().map(|reward| 2.0 * reward).collect::<Vec<_>>().into(),
        ..MdpParts::default()
    };
    let observed = distributions(random, rows, observations);
    let start = distributions(random, 1, states);
    let start = Belief::new(start.col().to_vec(), start.val().to_vec()).unwrap();
    let model =
        PomdpParts { process, observation_count: observations, observations: observed, start, ..PomdpParts::default() };
    model.validated().unwrap()
}

/// Cassandra's tiger at γ = .95: SARSOP's bounds on V*(b₀) are 19.3711 and 19.3721.
#[test]
fn tiger_is_bracketed() {
    let tiger = Tiger::default().generate().unwrap();
    let solution = solve(&tiger, &options(1e-3, 10_000));
    let end = solution.end();
    assert_eq!(solution.status, Status::Gap);
    assert!(end.lower <= 19.3722 && end.upper >= 19.3711 && end.gap() <= 1e-3, "{end:?}");
    assert!((solution.vectors.best(tiger.start()).unwrap().1 - end.lower).abs() < 1e-9);
    // Listening is the best first action.
    assert_eq!(solution.vectors.actions()[solution.vectors.best(tiger.start()).unwrap().0], 0);
}

/// With every combination of expansion and backups, the bounds enclose SARSOP's for the tiger.
#[test]
fn every_combination_holds() {
    let tiger = Tiger::default().generate().unwrap();
    for &expansion in Expansion::ALL {
        for scheme in [Scheme::Full, Scheme::Randomized, Scheme::Path] {
            // For one expansion, half of the rounds do not help here.
            let iterations = if expansion == Expansion::Mixed { 160 } else { 40 };
            let options = SolveOptions {
                expansion: Some(expansion),
                scheme: Some(scheme),
                beliefs: 32,
                ..options(1e-2, iterations)
            };
            let end = *solve(&tiger, &options).end();
            assert!(end.lower <= 19.3722 && end.upper >= 19.3711, "{expansion} {scheme} {end:?}");
            // Walks by the state never listen, and backups along a walk need a single walk.
            let finds = match expansion {
                Expansion::Random | Expansion::Ssea => scheme != Scheme::Path,
                Expansion::Hsvi | Expansion::Sarsop | Expansion::Mixed => scheme == Scheme::Path,
                Expansion::Ger | Expansion::Fsvi | Expansion::Ssga | Expansion::Walks => false,
            };
            assert!(!finds || end.lower >= 19.0, "{expansion} {scheme} {end:?}");
        }
    }
}

/// 200 random models against exact value iteration: V*ₙ, plus the range of the rewards after n steps.
#[test]
fn bounds_hold_on_random_models() {
    let mut random = Random::new(8);
    for index in 0..200 {
        let model = model(&mut random);
        let (horizon, gamma) = (12, model.gamma());
        let maximized = model.to_maximize();
        let exact = incremental_pruning(&maximized, horizon, 4096).unwrap();
        let sign = model.process().objective().sign();
        let value = exact.best(model.start()).unwrap().1;
        let rewards = maximized.expected_rewards();
        let later = gamma.powi(horizon as i32) / (1.0 - gamma);
        let extreme = |pick: fn(f64, f64) -> f64, from: f64| later * rewards.iter().copied().fold(from, pick);
        let range = [value + extreme(f64::min, f64::INFINITY), value + extreme(f64::max, f64::NEG_INFINITY)];
        let [low, high] = if sign < 0.0 { [-range[1], -range[0]] } else { range };
        let scheme = [Scheme::Path, Scheme::Full, Scheme::Randomized][index % 3];
        let expansion = [Expansion::Sarsop, Expansion::Hsvi, Expansion::Fsvi, Expansion::Ssea][index % 4];
        let options = SolveOptions { expansion: Some(expansion), scheme: Some(scheme), ..options(1e-4, 25) };
        let mut ends = vec![*solve(&model, &options).end()];
        if index % 10 == 0 {
            let limits = Limits { iterations: Some(24), ..options.limits };
            let (device, expansion) = (DeviceChoice::Emulated, Some(Expansion::Walks));
            ends.push(
                *solve(&model, &SolveOptions { device, expansion, scheme: None, beliefs: 6, limits, ..options }).end(),
            );
        }
        for end in ends {
            assert!(end.lower <= high + 1e-7, "model {index}: {end:?}, exact {low} to {high}");
            assert!(end.upper >= low - 1e-7, "model {index}: {end:?}, exact {low} to {high}");
        }
    }
}

/// The bounds that use no beliefs hold at all corners and at the centre, in the order blind ≤ V* ≤ FIB ≤ QMDP ≤ MDP.
#[test]
fn initial_bounds_are_ordered() {
    const HORIZON: u32 = 40;
    let mut random = Random::new(11);
    for index in 0..50 {
        let model = model(&mut random).to_maximize();
        let (states, actions) = (model.states(), model.actions() as usize);
        let rewards = model.expected_rewards();
        let seen = mdp::mdp(&model, &rewards, 1e-9, &mut || false).unwrap();
        let at_once = qmdp::qmdp(&model, &rewards, &seen, &mut || false);
        let informed = fib::fib(&model, &rewards, at_once.clone(), 1e-9, &mut || false);
        let blind = blind::blind(&model, &rewards, &Assembler::new(&model, &rewards), 1e-9, &mut || false);
        let exact = incremental_pruning(&model, HORIZON, 4096).unwrap();
        let largest = rewards.iter().fold(0.0, |most: f64, reward| most.max(reward.abs()));
        let later = model.gamma().powi(HORIZON as i32) * largest / (1.0 - model.gamma());
        let corners = (0..states).map(Belief::at);
        for belief in corners.chain([Belief::uniform((0..states).collect())]) {
            let factor = |factors: &[f64], action: usize| -> f64 {
                belief.iter().map(|(s, p)| p * factors[s as usize * actions + action]).sum()
            };
            let best = |factors: &[f64]| (0..actions).map(|a| factor(factors, a)).fold(f64::NEG_INFINITY, f64::max);
            let values = [
                blind.best(&belief).unwrap().1 - later,
                exact.best(&belief).unwrap().1,
                best(&informed) + later,
                best(&at_once) + later,
                belief.dot(&seen) + 2.0 * later,
            ];
            assert!(values.windows(2).all(|pair| pair[0] <= pair[1] + 1e-7), "model {index}: {values:?}");
        }
    }
}

/// The grid of Parr and Russell (1995): by heuristic search, by PBVI, and by simulation of the policy.
#[test]
fn four_by_three_converges() {
    let model = FourByThree::default().generate().unwrap();
    let solution = solve(&model, &options(1e-3, 20_000));
    let end = *solution.end();
    assert_eq!(solution.status, Status::Gap, "{end:?}");
    assert!((end.lower - 1.9040).abs() < 1e-3, "{end:?}");
    let ssea = SolveOptions { expansion: Some(Expansion::Ssea), beliefs: 64, ..options(1e-3, 10) };
    let other = *solve(&model, &ssea).end();
    assert!(other.lower <= end.upper && other.upper >= end.lower && other.lower > 1.9, "{other:?}");
    let found = verify(&model, &solution.vectors, 1e-9, 200, &|| false).unwrap();
    assert!(found.supported == found.vectors && found.certified >= found.value - 1e-3, "{found:?}");
    assert!(found.attained >= 1.88 && found.attained <= end.upper, "{found:?}");
    let earned = Simulator::new(&model, &solution.vectors, &Options::default()).unwrap().evaluate(&|| false).unwrap();
    assert!(earned.holds(end.lower.max(earned.mean.min(end.upper))), "{end:?}, {earned:?}");
}

/// Asserts that the backup of every vector of a policy is at least the vector, and that the policy earns at least its
/// reported value.
fn is_attained(model: &Pomdp, solution: &Solution, episodes: u32, what: &str) {
    let end = solution.end();
    let (maximized, sign) = (model.to_maximize(), model.process().objective().sign());
    let (attained, other) = if sign > 0.0 { (end.lower, end.upper) } else { (-end.upper, -end.lower) };
    let vectors = solution.vectors.clone().times(sign);
    let found = verify(&maximized, &vectors, 1e-7, 300, &|| false).unwrap();
    assert!(found.supported == found.vectors, "{what}: {found:?}");
    let size = 1.0 + found.value.abs();
    assert!(found.value >= attained - 1e-9 * size && found.certified >= attained - 1e-3, "{what}: {found:?}, {end:?}");
    assert!(found.attained <= other + 1e-6, "{what}: {found:?}, {end:?}");
    if episodes > 0 {
        let options = Options { episodes, ..Options::default() };
        let earned = Simulator::new(&maximized, &vectors, &options).unwrap().evaluate(&|| false).unwrap();
        // Four standard errors.
        let least = earned.mean + 2.0 * earned.half_width + earned.tail;
        assert!(least >= attained, "{what}: {earned:?}, {end:?}");
    }
}

/// A machine that wears, γ from .99 to .9999: a policy must keep the vectors that its other vectors refer to, otherwise
/// it earns only part of its reported value.
#[test]
fn policies_of_machines_earn_the_reported_value() {
    for (gamma, parts, iterations, episodes) in
        [(0.99, 2, 60, 500), (0.999, 2, 60, 100), (0.9999, 1, 80, 20), (0.999, 3, 40, 0)]
    {
        let model = Maintenance { gamma, parts, ..Maintenance::default() }.generate().unwrap();
        let solution = solve(&model, &options(1e-3, iterations));
        is_attained(&model, &solution, episodes, &format!("γ {gamma}, {parts} parts"));
    }
}

/// The models whose policies of all schemes must earn the reported value.
fn machine_and_grid() -> [(&'static str, Pomdp); 2] {
    let machine = Maintenance { parts: 2, gamma: 0.99, ..Maintenance::default() }.generate().unwrap();
    [("machine", machine), ("grid", FourByThree::default().generate().unwrap())]
}

/// The same for every expansion and every backup scheme.
#[test]
fn policies_of_all_schemes_earn_the_reported_value() {
    for (name, model) in machine_and_grid() {
        for &expansion in Expansion::ALL {
            for scheme in [Scheme::Full, Scheme::Randomized, Scheme::Path] {
                let options =
                    SolveOptions { expansion: Some(expansion), scheme: Some(scheme), beliefs: 24, ..options(1e-3, 12) };
                is_attained(&model, &solve(&model, &options), 0, &format!("{name} {expansion} {scheme}"));
            }
        }
    }
}

/// And on a device. The first walks have 16 steps and the second ones 32: both, and their backups.
fn policies_on_devices_earn_the_reported_value(precision: Precision) {
    for (name, model) in machine_and_grid() {
        let options = SolveOptions { device: DeviceChoice::Emulated, precision, beliefs: 6, ..options(1e-3, 52) };
        is_attained(&model, &solve(&model, &options), 0, &format!("{name} emulated {precision}"));
    }
}

#[test]
fn policies_on_devices_earn_the_reported_value_in_f64() {
    policies_on_devices_earn_the_reported_value(Precision::F64);
}

#[test]
fn policies_on_devices_earn_the_reported_value_in_f32() {
    policies_on_devices_earn_the_reported_value(Precision::F32);
}

/// The same model with another γ.
fn discounted(model: Pomdp, gamma: f64) -> Pomdp {
    let parts = model.into_parts();
    PomdpParts { process: MdpParts { gamma, ..parts.process }, ..parts }.validated().unwrap()
}

/// The same model with rewards times `factor`.
fn scaled(model: Pomdp, factor: f64) -> Pomdp {
    let mut parts = model.into_parts();
    let rewards = parts.process.action_rewards.iter().map(|reward| factor * reward).collect::<Vec<_>>();
    parts.process.action_rewards = rewards.into();
    parts.validated().unwrap()
}

#[test]
fn policies_of_random_models_earn_the_reported_value() {
    let mut random = Random::new(31);
    for index in 0..60 {
        let model = model(&mut random);
        let model = discounted(model, 1.0 - 0.1_f64.powf(3.0 * random.unit() + 0.2));
        let scheme = [Scheme::Path, Scheme::Full, Scheme::Randomized][index % 3];
        let options = SolveOptions { scheme: Some(scheme), ..options(1e-4, 30) };
        is_attained(&model, &solve(&model, &options), 0, &format!("model {index}"));
    }
}

/// An Aloha channel at γ = .999: the bounds keep converging after trials of 500 steps bring no improvement. SARSOP's
/// bounds for Cassandra's file are 535.1 and 544.9.
#[test]
fn gaps_keep_shrinking_for_gamma_near_1() {
    let model = Aloha { backlogs: 4, ..Aloha::default() }.generate().unwrap();
    let run = |iterations| {
        let options = SolveOptions { expansion: Some(Expansion::Hsvi), ..options(1e-3, iterations) };
        *solve(&model, &options).end()
    };
    let ends = [16, 48, 144].map(run);
    assert!(ends.windows(2).all(|pair| pair[1].gap() < 0.95 * pair[0].gap()), "{ends:?}");
    assert!(ends.windows(2).all(|pair| pair[1].upper < pair[0].upper), "{ends:?}");
}

/// Compact policies of random models whose rewards have many magnitudes: every vector is at most its backup, the start keeps its
/// value, and the controller attains it. Without time, the closure stays.
#[test]
fn compact_policies_keep_the_value_of_the_start() {
    let mut random = Random::new(41);
    let mut counts = [0, 0];
    for index in 0..200 {
        let model = model(&mut random).to_maximize();
        let model = discounted(model, 1.0 - 0.1_f64.powf(2.0 * random.unit() + 0.2));
        let model = scaled(model, 10.0_f64.powf(16.0 * random.unit() - 8.0));
        let (states, count) = (model.states(), model.observation_count() as usize);
        let rewards = model.expected_rewards();
        let size = rewards.iter().fold(0.0_f64, |most, reward| most.max(reward.abs())) / (1.0 - model.gamma());
        let assembler = Assembler::new(&model, &rewards);
        let mut all = blind::blind(&model, &rewards, &assembler, 1e-12 * size, &mut || false);
        let mut next: Vec<u32> = (0..all.len() as u32).flat_map(|vector| vec![vector; count]).collect();
        let mut backend = PointBased::new(&model);
        for _ in 0..12 {
            let drawn = distributions(&mut random, 3, states);
            let belief = |row| Belief::new(drawn.row(row).0.to_vec(), drawn.row(row).1.to_vec()).unwrap();
            let beliefs = [belief(0), belief(1), belief(2), model.start().clone()];
            let Ok(()) = backend.set_vectors(&all);
            let Ok(backed) = backend.backup(&beliefs);
            (0..backed.vectors.len()).for_each(|i| all.push(backed.vectors.actions()[i], backed.vectors.vector(i)));
            next.extend(backed.next);
        }
        let value = all.best(model.start()).unwrap().1;
        let found = closure(&model, &all, &next);
        assert_eq!(found.support.value, value, "model {index}");
        let within = |work| compact(&model, &found, &mut Effort { work, vectors: 0, late: &mut |_| false });
        assert!(within(0).is_none(), "model {index}");
        // None if the closure has the value of a fixed point up to rounding.
        let small = within(u64::MAX).unwrap_or(found.clone());
        for Compact { vectors, support } in [&found, &small] {
            let bound = verify(&model, vectors, 1e-12 * size, 200, &|| false).unwrap();
            assert!(bound.supported == vectors.len(), "model {index}: {bound:?}");
            assert!(vectors.actions() == support.actions && support.value == bound.value, "model {index}: {bound:?}");
            let nodes = Nodes {
                numbers: (0..vectors.len() as u32).collect(),
                actions: support.actions.clone(),
                next: support.next.iter().copied().map(Some).collect(),
                starts: support.starts.clone(),
            };
            let values = Controller::new(&model, nodes).unwrap().evaluate(&model, &|| false).unwrap();
            assert!(values.upper >= support.value - 1e-12 * size, "model {index}: {values:?}");
        }
        assert!(small.support.value >= value && small.vectors.len() <= found.vectors.len(), "model {index}");
        counts = [counts[0] + small.vectors.len(), counts[1] + found.vectors.len()];
    }
    assert!(2 * counts[0] < counts[1], "{counts:?}");
}

/// The policies for Hallway2 and Tiger-grid have no more vectors than their values need, and earn at least their bounds.
#[test]
fn policies_for_mazes_are_compact() {
    for (name, maze, most) in [("hallway2", Maze::hallway2(), 250), ("tiger-grid", Maze::tiger_grid(), 100)] {
        let model = maze.generate().unwrap();
        let solution = solve(&model, &options(1e-3, 30));
        let kept = solution.vectors.len();
        assert!(kept <= most && 4 * kept < solution.found, "{name}: {kept} of {}", solution.found);
        assert_eq!(kept, solution.end().vectors, "{name}");
        is_attained(&model, &solution, 200, name);
    }
}

/// If QMDP is interrupted, the remaining states get an upper bound, from the largest value of all states.
#[test]
fn interrupted_qmdp_is_an_upper_bound() {
    let states = 1 << 19;
    let rows =
        |col: Vec<u32>| Csr::new((0..=col.len() as u64).collect::<Vec<_>>(), col, vec![1.0; states as usize]).unwrap();
    let process = MdpParts {
        states,
        choices: Choices::Uniform(1),
        gamma: 0.5,
        transitions: rows((0..states).collect()),
        ..MdpParts::default()
    };
    let (observations, start) = (rows(vec![0; states as usize]), Belief::at(0));
    let model = PomdpParts { process, observation_count: 1, observations, start, ..PomdpParts::default() };
    let model = model.validated().unwrap();
    let values: Vec<f64> = (0..states).map(f64::from).collect();
    let rewards = vec![1.0; states as usize];
    let mut looks = 0;
    let found = qmdp::qmdp(&model, &rewards, &values, &mut || {
        looks += 1;
        true
    });
    let last = 1.0 + 0.5 * values[states as usize - 1];
    assert_eq!(
        (looks, found[0], found[1], found[states as usize / 2], found.len()),
        (1, 1.0, 1.5, last, states as usize)
    );
}

/// An interrupted run stops at once, with a policy whose reported value holds, even during the initial bounds.
#[test]
fn interrupted_runs_have_policies() {
    let model = Maintenance { parts: 2, ..Maintenance::default() }.generate().unwrap();
    let known = *solve(&model, &options(1e-3, 60)).end();
    for looks in [0, 1, 2, 5, 20, 100, 400, 1600] {
        let (mut left, mut backups) = (looks, 0);
        let solution = solve_with(&model, &options(1e-3, 60), &mut |round| {
            backups = round.backups;
            assert!(round.lower <= known.upper && round.upper >= known.lower, "{round:?}");
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        });
        let solution = solution.unwrap();
        assert_eq!(solution.status, Status::Interrupted);
        assert!(solution.end().backups <= backups + 2, "{looks}: {backups}, {:?}", solution.end());
        assert!(solution.end().lower <= known.upper && solution.end().upper >= known.lower);
        is_attained(&model, &solution, 0, &format!("{looks} looks"));
    }
}

/// Cassandra's file of the same grid contains an error: in the third cell of the lowest row, where the wall is to the
/// south, a move to the east slips to the west. SARSOP's bounds for this file are 1.88988 and 1.89085.
#[test]
fn four_by_three_with_the_error_of_the_file() {
    let mut model = FourByThree::default().generate().unwrap().into_parts();
    let transitions = &model.process.transitions;
    let row = 9 * 4 + 2;
    let range = transitions.row_ptr()[row] as usize..transitions.row_ptr()[row + 1] as usize;
    let mut col = transitions.col().to_vec();
    assert_eq!(col[range.clone()], [5, 9, 10]);
    col[range.start + 1] = 8;
    model.process.transitions = Csr::new(transitions.row_ptr().clone(), col, transitions.val().clone()).unwrap();
    let end = *solve(&model.validated().unwrap(), &options(1e-3, 20_000)).end();
    assert!(end.lower <= 1.89085 && end.upper >= 1.88988 && end.gap() <= 1e-3, "{end:?}");
}

/// Solves a maze of Littman, Cassandra and Kaelbling (1995). `lower` and `upper` are SARSOP's bounds after 60 to 250 s.
/// The lower bound must exceed SARSOP's, and no bound may contradict SARSOP's.
fn passes(maze: &Maze, [lower, upper]: [f64; 2], iterations: u64) {
    let end = *solve(&maze.generate().unwrap(), &options(1e-3, iterations)).end();
    assert!(end.lower >= lower && end.lower <= upper && end.upper >= lower, "{end:?}");
}

#[test]
fn tiger_grid_exceeds_the_published_bound() {
    passes(&Maze::tiger_grid(), [2.2578, 2.5316], 2200);
}

#[test]
fn hallway_exceeds_the_published_bound() {
    passes(&Maze::hallway(), [0.9983, 1.2051], 250);
}

#[test]
fn hallway2_exceeds_the_published_bound() {
    passes(&Maze::hallway2(), [0.3559, 0.9039], 120);
}

/// RockSample with ZMDP's layouts and sensors. SARSOP converges to 17.9245 for [4,4]; its bounds are 19.2369 and 20.618
/// for [5,5], and 23.918 and 27.36 for [5,7].
#[test]
fn rock_samples_agree_with_published_bounds() {
    let published = [
        (Layout::R4x4, [17.9245, 17.9245], 20_000, Status::Gap),
        (Layout::R5x5, [19.2369, 20.618], 1000, Status::Iterations),
        (Layout::R5x7, [23.918, 27.36], 100, Status::Iterations),
    ];
    for (layout, [lower, upper], iterations, status) in published {
        let model = RockSample::new(layout).generate().unwrap();
        let solution = solve(&model, &options(1e-3, iterations));
        let end = solution.end();
        assert_eq!(solution.status, status, "{layout:?}: {end:?}");
        assert!(end.lower <= upper + 1e-4 && end.upper >= lower - 1e-4, "{layout:?}: {end:?}");
        // At least the published lower bound.
        assert!(end.lower >= lower - 1e-3, "{layout:?}: {end:?}");
    }
}

/// Tag, 870 states: SARSOP's bounds after a minute are −6.2011 and −1.820; the best known policies earn about −6.
#[test]
fn tag_exceeds_the_published_bound() {
    let model = Tag::default().generate().unwrap();
    let end = *solve(&model, &options(1e-2, 600)).end();
    assert!(end.lower >= -6.45 && end.lower <= -1.82 && end.upper >= -6.2, "{end:?}");
}

/// Equal seeds give equal runs.
#[test]
fn runs_are_reproducible() {
    let model = FourByThree::default().generate().unwrap();
    for &expansion in Expansion::ALL {
        let run = |seed| {
            let limits = Limits { gap: Gap::Absolute(1e-9), iterations: Some(20), ..Limits::default() };
            let options =
                SolveOptions { expansion: Some(expansion), beliefs: 20, seed, limits, ..SolveOptions::default() };
            let solution = solve(&model, &options);
            (solution.vectors.clone(), solution.end().lower, solution.end().upper, solution.end().beliefs)
        };
        assert_eq!(run(5), run(5), "{expansion}");
    }
}

/// On random models, a backup equals the best one-step plan found by brute force, and all vectors are valid.
#[test]
fn a_backup_is_the_best_one_step_plan() {
    let mut random = Random::new(23);
    for index in 0..50 {
        let model = model(&mut random).to_maximize();
        let (states, actions, count) = (model.states(), model.actions(), model.observation_count());
        let mut gamma = AlphaVectors::new(states);
        for action in 0..5 {
            gamma.push(action % actions, &random.signed(states as usize));
        }
        let mut backend = PointBased::new(&model);
        let Ok(()) = backend.set_vectors(&gamma);
        let Ok(backed) = backend.backup(std::slice::from_ref(model.start()));
        let rewards = model.expected_rewards();
        // For each action, the sum over o of the best vector's contribution.
        let plan = |action: u32| {
            let reward: f64 = model.start().iter().map(|(s, p)| p * rewards[(s * actions + action) as usize]).sum();
            let share = |o: u32, i: usize| -> f64 {
                let mut sum = 0.0;
                for (s, b) in model.start().iter() {
                    let (successors, probs) = model.successors(s, action);
                    for (&next, &p) in successors.iter().zip(probs) {
                        let (observed, chances) = model.observed(action, next);
                        let chance = observed.iter().position(|&x| x == o).map_or(0.0, |x| chances[x]);
                        sum += b * p * chance * gamma.vector(i)[next as usize];
                    }
                }
                sum
            };
            let best = |o| (0..gamma.len()).map(|i| share(o, i)).fold(f64::NEG_INFINITY, f64::max);
            reward + model.gamma() * (0..count).map(best).sum::<f64>()
        };
        let expected = (0..actions).map(plan).fold(f64::NEG_INFINITY, f64::max);
        let found = model.start().dot(backed.vectors.vector(0));
        assert!((found - expected).abs() < 1e-6, "model {index}: {found}, expected {expected}");
        assert!(found <= expected + 1e-12, "model {index}: {found} is above {expected}");
    }
}

/// The default gap is relative to the value: it does not depend on the unit of rewards, and ends where the value is 0.
#[test]
fn the_default_gap_is_relative_to_the_value() {
    let limits = Limits { iterations: Some(20_000), ..Limits::default() };
    let run = |factor: f64, gap: Gap| {
        let tiger = Tiger { listen: -factor, treasure: 10.0 * factor, tiger: -100.0 * factor, ..Tiger::default() };
        let options =
            SolveOptions { device: DeviceChoice::Cpu, limits: Limits { gap, ..limits }, ..Default::default() };
        solve(&tiger.generate().unwrap(), &options)
    };
    for exponent in [-40, 0, 40] {
        let factor = 2.0_f64.powi(exponent);
        let found = run(factor, Gap::default());
        let end = found.end();
        assert_eq!(found.status, Status::Gap);
        assert!(end.lower > 19.34 * factor && end.upper < 19.40 * factor, "{end:?}");
        assert_eq!(found.gap_limit, 1e-3 * end.lower);
        assert!(end.gap() <= found.gap_limit && found.relative_gap <= 1e-3, "{end:?}");
        assert_eq!(end.iterations, run(1.0, Gap::default()).end().iterations);
    }
    // Nothing is ever earned: the value is 0, and the limit follows the rewards.
    let options = SolveOptions { limits, ..SolveOptions::default() };
    let none = Tiger { listen: 0.0, treasure: -1.0, ..Tiger::default() }.generate().unwrap();
    let found = solve(&none, &options);
    assert_eq!((found.status, found.gap_limit), (Status::Gap, 1e-3 * 0.01));
    assert!(found.end().lower <= 0.0 && found.end().upper >= 0.0);
    let nothing = Tiger { listen: 0.0, treasure: 0.0, tiger: 0.0, ..Tiger::default() }.generate().unwrap();
    let found = solve(&nothing, &options);
    assert_eq!((found.status, found.relative_gap), (Status::Gap, 0.0));
}

/// Neither an action with a large penalty nor a state in which all actions have one changes the default gap.
#[test]
fn the_default_gap_ignores_what_good_play_avoids() {
    let limits = Limits { iterations: Some(20_000), ..Limits::default() };
    for sign in [1.0, -1.0] {
        for penalty in [0.0, 1e3, 1e6] {
            let model = tiger_with_penalty(sign, penalty);
            let found = solve(&model, &SolveOptions { device: DeviceChoice::Cpu, limits, ..SolveOptions::default() });
            let end = found.end();
            assert_eq!(found.status, Status::Gap, "{penalty}");
            let [lower, upper] = if sign > 0.0 { [end.lower, end.upper] } else { [-end.upper, -end.lower] };
            assert!(lower > 19.34 && upper < 19.40, "{penalty}: {end:?}");
        }
    }
    // What a step earns: rewards, else costs that are not 0, else what the worse actions cost.
    assert_eq!(earned(&[-1.0, 10.0, -1e9, -1e6, -1e7, -1e8], 3), 10.0);
    assert_eq!(earned(&[-1.0, -2.0, -1e6, -1e7, 0.0, -5.0], 2), 1.0);
    assert_eq!((earned(&[0.0, -2.0, 0.0, -3.0], 2), earned(&[0.0; 4], 2)), (2.0, 0.0));
}

/// Tiger with an action that tells nothing and costs `penalty`; with costs, if `sign` is negative.
fn tiger_with_penalty(sign: f64, penalty: f64) -> Pomdp {
    let (objective, number) = if sign > 0.0 { ("reward", 1.0) } else { ("cost", -1.0) };
    let text = format!(
        "discount: 0.95\nvalues: {objective}\nstates: left right\nactions: listen open-left open-right forbidden\n\
         observations: hear-left hear-right\nT: listen identity\nT: open-left uniform\nT: open-right uniform\n\
         T: forbidden identity\nO: listen\n0.85 0.15\n0.15 0.85\nO: open-left uniform\nO: open-right uniform\n\
         O: forbidden uniform\nR: listen : * : * : * {}\nR: open-left : left : * : * {}\nR: open-left : right : * : * {}\n\
         R: open-right : left : * : * {}\nR: open-right : right : * : * {}\nR: forbidden : * : * : * {}\n",
        -number,
        -100.0 * number,
        10.0 * number,
        10.0 * number,
        -100.0 * number,
        -penalty * number
    );
    read_from(text.as_bytes(), "tiger", Some(Format::Pomdp)).unwrap()
}

/// The default search is not much slower than trials alone where walks of the observed process help little.
#[test]
fn mixed_turns_follow_the_progress() {
    let model = Inspection { gamma: 0.97, ..Inspection::default() }.generate().unwrap();
    let backups = [Expansion::Mixed, Expansion::Sarsop, Expansion::Hsvi].map(|expansion| {
        let options = SolveOptions { device: DeviceChoice::Cpu, expansion: Some(expansion), ..options(1.0, 3000) };
        solve(&model, &options).end().backups
    });
    assert!(backups[0] < 2 * backups[1].min(backups[2]), "{backups:?}");
}

/// Every limit ends a run with a valid solution.
#[test]
fn limits_end_runs() {
    let model = Tag::default().generate().unwrap();
    let run = |limits: Limits| {
        solve(
            &model,
            &SolveOptions { limits: Limits { gap: Gap::Absolute(1e-9), ..limits }, ..SolveOptions::default() },
        )
    };
    let none = Limits::default();
    assert_eq!(run(Limits { iterations: Some(3), ..none }).status, Status::Iterations);
    assert_eq!(run(Limits { time: Some(Duration::ZERO), ..none }).status, Status::Time);
    // Data beyond the memory limit is dropped. If not even the beliefs of one trial fit, the run ends.
    let small = run(Limits { memory: Some(4 << 20), iterations: Some(40), ..none });
    assert_eq!(small.status, Status::Iterations);
    let small = run(Limits { memory: Some(1 << 12), ..none });
    assert_eq!(small.status, Status::Memory);
    assert!(!small.vectors.is_empty() && small.end().lower < small.end().upper);
    // Few vectors are the best at a belief; the vectors that they refer to are additional.
    let lengths = [12, 1 << 20].map(|vectors| run(Limits { vectors, iterations: Some(60), ..none }).found);
    assert!(lengths[0] < lengths[1], "{lengths:?}");
    let stopped = solve_with(&model, &SolveOptions::default(), &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((stopped.status, stopped.rounds.len()), (Status::Interrupted, 1));
}

/// Trials with batched updates of the upper bound have the same result on one core and on three.
#[test]
fn cores_do_not_matter() {
    let model = Tag::default().generate().unwrap();
    let options = SolveOptions { expansion: Some(Expansion::Hsvi), trials: Some(8), ..options(1e-3, 30) };
    let ends = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let end = *pool.install(|| solve_with(&model, &options, &mut |_| ControlFlow::Continue(()))).unwrap().end();
        (end.lower.to_bits(), end.upper.to_bits(), end.vectors, end.beliefs)
    });
    assert_eq!(ends[0], ends[1]);
}

/// The bounds for a finite horizon enclose the exact value of incremental pruning, and the plan attains the value of
/// its vectors.
#[test]
fn horizons_have_their_values() {
    let undiscounted = |model: Pomdp| discounted(model, 1.0);
    let tiger = Tiger::default().generate().unwrap();
    let grid = FourByThree::default().generate().unwrap();
    for (model, horizons) in
        [(undiscounted(tiger.clone()), [1, 2, 5, 7]), (tiger, [1, 3, 6, 7]), (undiscounted(grid), [1, 2, 3, 4])]
    {
        for horizon in horizons {
            let limits = Limits { gap: Gap::Absolute(1e-6), ..Limits::default() };
            let options = SolveOptions { horizon: Some(horizon), limits, ..SolveOptions::default() };
            let solution = solve_with(&model, &options, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(solution.status, Status::Gap);
            let end = *solution.end();
            let exact = reference_value(&model, horizon, model.start());
            assert!(end.lower <= exact + 1e-9 && exact <= end.upper + 1e-9, "{horizon}: {end:?}, {exact}");
            assert_eq!(solution.stages.len(), horizon as usize);
            // The value of each plan, from the plans that follow it.
            let rewards = model.expected_rewards();
            let count = model.observation_count() as usize;
            for (stage, pair) in solution.stages.windows(2).enumerate() {
                for plan in 0..pair[0].vectors.len() {
                    let action = pair[0].vectors.actions()[plan];
                    let next = &pair[0].next[plan * count..(plan + 1) * count];
                    for state in 0..model.states() {
                        let (successors, probs) = model.successors(state, action);
                        let future: f64 = successors
                            .iter()
                            .zip(probs)
                            .map(|(&s, p)| {
                                let (seen, chances) = model.observed(action, s);
                                let value = |(&o, q): (&u32, &f64)| {
                                    q * pair[1].vectors.vector(next[o as usize] as usize)[s as usize]
                                };
                                p * seen.iter().zip(chances).map(value).sum::<f64>()
                            })
                            .sum();
                        let worth = rewards[(state * model.actions() + action) as usize] + model.gamma() * future;
                        let own = pair[0].vectors.vector(plan)[state as usize];
                        assert!((own - worth).abs() <= 1e-9 * (1.0 + worth.abs()), "{stage} {plan}: {own} {worth}");
                    }
                }
            }
        }
    }
}

/// The exact value by recursion over actions and observations, without alpha vectors.
fn reference_value(model: &Pomdp, horizon: u32, belief: &Belief) -> f64 {
    let rewards = model.expected_rewards();
    let mut best = f64::NEG_INFINITY;
    for action in 0..if horizon == 0 { 0 } else { model.actions() } {
        let mut value = model.reward(&rewards, belief, action);
        Projection::default().each(model, belief, action, |_, prob, after| {
            value += model.gamma() * prob * reference_value(model, horizon - 1, &after);
        });
        best = best.max(value);
    }
    if horizon == 0 { 0.0 } else { best }
}

/// Two states, always observed, also at the start, with uniform transitions. The reward is 1 if the action names the
/// current state, otherwise 0.
const SEEN: &str = r#"<pomdpx version="1.0"><Discount>0.95</Discount><Variable>
    <StateVar vnamePrev="x0" vnameCurr="x1" fullyObs="true"><NumValues>2</NumValues></StateVar>
    <ActionVar vname="a"><NumValues>2</NumValues></ActionVar><RewardVar vname="r"/></Variable>
    <InitialStateBelief><CondProb><Var>x0</Var><Parent>null</Parent><Parameter type="TBL">
    <Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb></InitialStateBelief>
    <StateTransitionFunction><CondProb><Var>x1</Var><Parent>a x0</Parent><Parameter type="TBL">
    <Entry><Instance>* - -</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb></StateTransitionFunction>
    <RewardFunction><Func><Var>r</Var><Parent>a x0</Parent><Parameter type="TBL">
    <Entry><Instance>a0 s0</Instance><ValueTable>1</ValueTable></Entry>
    <Entry><Instance>a1 s1</Instance><ValueTable>1</ValueTable></Entry></Parameter></Func></RewardFunction></pomdpx>"#;

/// A fully observed variable is known before the first action: 1 per step has the value 20; an unknown first state
/// would give 19.5.
#[test]
fn observed_variables_are_known_at_the_start() {
    let model = warpkov_pomdp::io::read_from(SEEN.as_bytes(), "seen", None).unwrap();
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        let options = SolveOptions { device, ..options(1e-3, 100_000) };
        let solution = solve_with(&model, &options, &mut |_| ControlFlow::Continue(())).unwrap();
        let end = *solution.end();
        assert!(end.lower <= 20.0 + 1e-9 && 20.0 <= end.upper + 1e-9 && end.gap() <= 1e-3, "{device}: {end:?}");
        let simulated =
            Simulator::new(&model, &solution.vectors, &Options { episodes: 50, ..Options::default() }).unwrap();
        let found = simulated.evaluate(&|| false).unwrap();
        assert!((found.mean - 20.0).abs() < 1e-3, "{found:?}");
        let bound = verify(&model, &solution.vectors, 1e-6, 32, &|| false).unwrap();
        assert!((bound.value - 20.0).abs() < 2e-3 && (bound.attained - 20.0).abs() < 1e-3, "{bound:?}");
    }
    let options = SolveOptions { horizon: Some(7), ..options(1e-3, 100_000) };
    let solution = solve_with(&model, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let exact = (1.0 - 0.95_f64.powi(7)) / 0.05;
    assert!((solution.end().lower - exact).abs() < 1e-3, "{:?}", solution.end());
}
