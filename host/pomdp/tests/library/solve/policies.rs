//! Policies earn what is reported, and have few vectors.

use std::ops::ControlFlow;

use warpkov_common::choice::Choice;
use warpkov_pomdp::backend::PointBackup;
use warpkov_pomdp::backends::cpu::{Assembler, PointBased};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::compact::{Compact, Effort, closure, compact};
use warpkov_pomdp::controller::{Controller, Nodes};
use warpkov_pomdp::generate::{FourByThree, Maintenance, Maze};
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::{Expansion, Precision, Scheme, SolveOptions};
use warpkov_pomdp::solution::Status;
use warpkov_pomdp::solve::bounds::blind;
use warpkov_pomdp::solve::solve_with;
use warpkov_pomdp::verify::verify;
use warpkov_runtime::choose::DeviceChoice;

use crate::distributions::distributions;
use crate::random::Random;

use crate::common::{discounted, is_attained, model, options, solve};

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

/// The same model with rewards times `factor`.
fn scaled(model: Pomdp, factor: f64) -> Pomdp {
    let mut parts = model.into_parts();
    let rewards = parts.process.action_rewards.iter().map(|reward| factor * reward).collect::<Vec<_>>();
    parts.process.action_rewards = rewards.into();
    parts.validated().unwrap()
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
