//! Bounds hold, and close.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::ValueEnum;
use warpkov::backend::cpu::{Assembler, PointBased};
use warpkov::mdp::model::{Choices, Csr, Mdp, Objective};
use warpkov::mdp::options::DeviceChoice;
use warpkov::pomdp::alpha::AlphaVectors;
use warpkov::pomdp::backup::Backup;
use warpkov::pomdp::belief::Belief;
use warpkov::pomdp::generate::{FourByThree, Layout, RockSample, Tag, Tiger};
use warpkov::pomdp::model::Pomdp;
use warpkov::pomdp::simulate::{Options, Simulator};
use warpkov::pomdp::solve::bounds::{blind, fib, mdp, qmdp};
use warpkov::pomdp::solve::exact::incremental_pruning;
use warpkov::pomdp::solve::options::{Expansion, Limits, Scheme, Solution, SolveOptions, Status};
use warpkov::pomdp::solve::solve_with;
use warpkov::pomdp::verify::verify;

/// No limit of time: whatever is asserted does not depend on the machine.
fn options(gap: f64, iterations: u64) -> SolveOptions {
    SolveOptions {
        device: DeviceChoice::Cpu,
        limits: Limits { gap, iterations: Some(iterations), ..Limits::default() },
        ..SolveOptions::default()
    }
}

fn solve(model: &Pomdp, options: &SolveOptions) -> Solution {
    let mut last = (f64::NEG_INFINITY, f64::INFINITY);
    let solution = solve_with(model, options, &mut |round| {
        assert!(round.lower <= round.upper, "{round:?}");
        // A bound is never given up for a worse one.
        assert!(round.lower >= last.0 && round.upper <= last.1, "{round:?} after {last:?}");
        last = (round.lower, round.upper);
        ControlFlow::Continue(())
    });
    solution.unwrap()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: u32) -> u32 {
        (self.unit() * f64::from(n)) as u32
    }

    /// `rows` distributions over `columns`, about a third of whose entries are 0.
    fn distributions(&mut self, rows: u32, columns: u32) -> Csr {
        let (mut row_ptr, mut col, mut val) = (vec![0_u64], Vec::new(), Vec::new());
        for _ in 0..rows {
            let mut row: Vec<f64> = (0..columns).map(|_| if self.unit() < 0.35 { 0.0 } else { self.unit() }).collect();
            row[self.below(columns) as usize] += 0.25;
            let sum: f64 = row.iter().sum();
            for (column, &x) in (0..).zip(&row).filter(|(_, x)| **x > 0.0) {
                col.push(column);
                val.push(x / sum);
            }
            row_ptr.push(col.len() as u64);
        }
        Csr { row_ptr: row_ptr.into(), col: col.into(), val: val.into() }
    }

    /// A model of 2 to 3 states, 2 actions and 1 to 2 observations.
    fn model(&mut self) -> Pomdp {
        let (states, actions, observations) = (2 + self.below(2), 2, 1 + self.below(2));
        let process = Mdp {
            states,
            choices: Choices::Uniform(actions),
            gamma: 0.3 + 0.4 * self.unit(),
            objective: if self.unit() < 0.3 { Objective::Minimize } else { Objective::Maximize },
            transitions: self.distributions(states * actions, states),
            action_rewards: (0..states * actions).map(|_| 4.0 * self.unit() - 2.0).collect::<Vec<_>>().into(),
            ..Mdp::default()
        };
        let observation_rows = self.distributions(states * actions, observations);
        let start = self.distributions(1, states);
        let start = Belief { states: start.col.to_vec(), probs: start.val.to_vec() };
        let model = Pomdp {
            process,
            observation_count: observations,
            observations: observation_rows,
            start,
            ..Pomdp::default()
        };
        model.validated().unwrap()
    }
}

/// Cassandra's tiger at γ = .95; SARSOP brackets its value by 19.3711 and 19.3721.
#[test]
fn tiger_is_bracketed() {
    let tiger = Tiger::default().generate().unwrap();
    let solution = solve(&tiger, &options(1e-3, 10_000));
    let end = solution.end();
    assert_eq!(solution.status, Status::Gap);
    assert!(end.lower <= 19.3722 && end.upper >= 19.3711 && end.gap() <= 1e-3, "{end:?}");
    assert!((solution.vectors.best(&tiger.start).unwrap().1 - end.lower).abs() < 1e-9);
    // To listen is best at first.
    assert_eq!(solution.vectors.actions[solution.vectors.best(&tiger.start).unwrap().0], 0);
}

/// With every combination of expansion and backups the bounds stay on their sides of what SARSOP found for the tiger.
#[test]
fn every_combination_holds() {
    let tiger = Tiger::default().generate().unwrap();
    for &expansion in Expansion::value_variants() {
        for scheme in [Scheme::Full, Scheme::Randomized, Scheme::Path] {
            let options =
                SolveOptions { expansion: Some(expansion), scheme: Some(scheme), beliefs: 32, ..options(1e-2, 40) };
            let end = *solve(&tiger, &options).end();
            assert!(end.lower <= 19.3722 && end.upper >= 19.3711, "{expansion} {scheme} {end:?}");
            // Walks by the state do not listen, and backups along a walk are of use on one only.
            let finds = match expansion {
                Expansion::Random | Expansion::Ssea => scheme != Scheme::Path,
                Expansion::Hsvi | Expansion::Sarsop => scheme == Scheme::Path,
                Expansion::Ger | Expansion::Fsvi | Expansion::Ssga | Expansion::Walks => false,
            };
            assert!(!finds || end.lower >= 19.0, "{expansion} {scheme} {end:?}");
        }
    }
}

/// 200 random models against exact value iteration: V*ₙ, and what can follow after n steps.
#[test]
fn bounds_hold_on_random_models() {
    let mut random = Random(7);
    for index in 0..200 {
        let model = random.model();
        let (horizon, gamma) = (12, model.gamma());
        let maximized = model.to_maximize();
        let exact = incremental_pruning(&maximized, horizon, 4096).unwrap();
        let sign = model.process.objective.sign();
        let value = exact.best(&model.start).unwrap().1;
        let rewards = maximized.expected_rewards();
        let later = gamma.powi(horizon as i32) / (1.0 - gamma);
        let extreme = |pick: fn(f64, f64) -> f64, from: f64| later * rewards.iter().copied().fold(from, pick);
        let range = [value + extreme(f64::min, f64::INFINITY), value + extreme(f64::max, f64::NEG_INFINITY)];
        let [low, high] = if sign < 0.0 { [-range[1], -range[0]] } else { range };
        let scheme = [Scheme::Path, Scheme::Full, Scheme::Randomized][index % 3];
        let expansion = [Expansion::Sarsop, Expansion::Hsvi, Expansion::Fsvi, Expansion::Ssea][index % 4];
        let options = SolveOptions { expansion: Some(expansion), scheme: Some(scheme), ..options(1e-4, 25) };
        let end = *solve(&model, &options).end();
        assert!(end.lower <= high + 1e-7, "model {index}: {end:?}, exact {low} to {high}");
        assert!(end.upper >= low - 1e-7, "model {index}: {end:?}, exact {low} to {high}");
    }
}

/// The bounds that need no belief hold at every corner and in the middle, and are in order: blind ≤ V* ≤ FIB ≤ QMDP ≤ MDP.
#[test]
fn first_bounds_are_in_order() {
    let mut random = Random(11);
    for index in 0..50 {
        let model = random.model().to_maximize();
        let (states, actions) = (model.states(), model.actions() as usize);
        let rewards = model.expected_rewards();
        let seen = mdp::mdp(&model, &rewards, 1e-9).unwrap();
        let at_once = qmdp::qmdp(&model, &rewards, &seen);
        let informed = fib::fib(&model, &rewards, at_once.clone(), 1e-9);
        let blind = blind::blind(&model, &rewards, &Assembler::new(&model, &rewards), 1e-9);
        let exact = incremental_pruning(&model, 40, 4096).unwrap();
        let largest = rewards.iter().fold(0.0, |most: f64, reward| most.max(reward.abs()));
        let later = model.gamma().powi(40) * largest / (1.0 - model.gamma());
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

/// The grid of Parr and Russell (1995) with our rewards: by heuristic search, by PBVI, and by what its policy earns.
#[test]
fn four_by_three_closes() {
    let model = FourByThree::default().generate().unwrap();
    let solution = solve(&model, &options(1e-3, 20_000));
    let end = *solution.end();
    assert_eq!(solution.status, Status::Gap, "{end:?}");
    assert!((end.lower - 1.9065).abs() < 1e-3, "{end:?}");
    let ssea = SolveOptions { expansion: Some(Expansion::Ssea), beliefs: 64, ..options(1e-3, 10) };
    let other = *solve(&model, &ssea).end();
    assert!(other.lower <= end.upper && other.upper >= end.lower && other.lower > 1.9, "{other:?}");
    let attained = verify(&model, &solution.vectors, 1e-9, 32).unwrap().attained;
    assert!(attained >= end.lower - 1e-6 && attained <= end.upper, "{attained}");
    let earned = Simulator::new(&model, &solution.vectors, &Options::default()).unwrap().evaluate();
    assert!(earned.holds(end.lower.max(earned.mean.min(end.upper))), "{end:?}, {earned:?}");
}

/// RockSample of ZMDP's layouts and sensors. SARSOP closes [4,4] at 17.9245; its bounds are 19.2369 and 20.618 for [5,5], and
/// 23.918 and 27.36 for [5,7].
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
        // As good as what was published.
        assert!(end.lower >= lower - 1e-3, "{layout:?}: {end:?}");
    }
}

/// Tag, 870 states: SARSOP's bounds are −6.2011 and −1.820 after a minute, the best policies known earn about −6.
#[test]
fn tag_passes_the_published_bound() {
    let model = Tag::default().generate().unwrap();
    let end = *solve(&model, &options(1e-2, 600)).end();
    assert!(end.lower >= -6.45 && end.lower <= -1.82 && end.upper >= -6.2, "{end:?}");
}

/// Equal seeds give equal runs.
#[test]
fn runs_repeat() {
    let model = FourByThree::default().generate().unwrap();
    for expansion in [Expansion::Random, Expansion::Ssea, Expansion::Ger, Expansion::Fsvi, Expansion::Sarsop] {
        let run = |seed| {
            let limits = Limits { gap: 1e-9, iterations: Some(20), ..Limits::default() };
            let options =
                SolveOptions { expansion: Some(expansion), beliefs: 20, seed, limits, ..SolveOptions::default() };
            let solution = solve(&model, &options);
            (solution.vectors.clone(), solution.end().lower, solution.end().upper, solution.end().beliefs)
        };
        assert_eq!(run(5), run(5), "{expansion}");
    }
}

/// A backup is as good as the definition says, and the vectors are valid: by brute force on random models.
#[test]
fn a_backup_is_the_best_one_step_plan() {
    let mut random = Random(23);
    for index in 0..50 {
        let model = random.model().to_maximize();
        let (states, actions, count) = (model.states(), model.actions(), model.observation_count);
        let mut gamma = AlphaVectors::new(states);
        for action in 0..5 {
            let vector: Vec<f64> = (0..states).map(|_| 2.0 * random.unit() - 1.0).collect();
            gamma.push(action % actions, &vector);
        }
        let mut backend = PointBased::new(&model);
        let Ok(()) = backend.set_vectors(&gamma);
        let Ok(backed) = backend.backup(std::slice::from_ref(&model.start));
        let rewards = model.expected_rewards();
        // Σ over o of the best vector's share, action by action.
        let plan = |action: u32| {
            let reward: f64 = model.start.iter().map(|(s, p)| p * rewards[(s * actions + action) as usize]).sum();
            let share = |o: u32, i: usize| -> f64 {
                let mut sum = 0.0;
                for (s, b) in model.start.iter() {
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
        let found = model.start.dot(backed.vector(0));
        assert!((found - expected).abs() < 1e-6, "model {index}: {found}, expected {expected}");
        assert!(found <= expected + 1e-12, "model {index}: {found} is above {expected}");
    }
}

/// Every limit ends a run, with what there is.
#[test]
fn limits_end_runs() {
    let model = Tag::default().generate().unwrap();
    let run = |limits: Limits| {
        solve(&model, &SolveOptions { limits: Limits { gap: 1e-9, ..limits }, ..SolveOptions::default() })
    };
    let none = Limits::default();
    assert_eq!(run(Limits { iterations: Some(3), ..none }).status, Status::Iterations);
    assert_eq!(run(Limits { time: Some(Duration::ZERO), ..none }).status, Status::Time);
    let small = run(Limits { memory: Some(1 << 20), ..none });
    assert_eq!(small.status, Status::Memory);
    assert!(!small.vectors.is_empty() && small.end().lower < small.end().upper);
    let few = run(Limits { vectors: 12, iterations: Some(60), ..none });
    assert!(few.vectors.len() <= 12, "{}", few.vectors.len());
    let stopped = solve_with(&model, &SolveOptions::default(), &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((stopped.status, stopped.rounds.len()), (Status::Interrupted, 1));
}
