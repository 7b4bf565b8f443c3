//! Finite-state controllers: their files, their exact values, and simulations of them.

use std::path::Path;

use warpkov_mdp::model::{Choices, MdpParts, Objective};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::controller::{Controller, Error, Nodes, Values};
use warpkov_pomdp::generate::{FourByThree, Inspection, Maze, Tiger};
use warpkov_pomdp::io::{self as formats, AnyPolicy, Format, Policy, PolicyGraph};
use warpkov_pomdp::model::{Names, Pomdp, PomdpParts};
use warpkov_pomdp::options::{Gap, Limits, SolveOptions};
use warpkov_pomdp::simulate::{Options, Simulator};
use warpkov_pomdp::solution::Solution;
use warpkov_pomdp::solve::solve_with;
use warpkov_pomdp::verify::verify;
use warpkov_runtime::choose::DeviceChoice;

use crate::distributions::distributions;
use crate::random::Random;

/// A random model with names that need escapes, and rewards of magnitude `scale`.
fn model(random: &mut Random, scale: f64) -> Pomdp {
    let (states, actions, observations) = (2 + random.below(4) as u32, 2, 1 + random.below(3) as u32);
    let rows = (states * actions) as usize;
    let process = MdpParts {
        states,
        choices: Choices::Uniform(actions),
        gamma: [0.0, 0.5, 0.9, 0.99][random.below(4) as usize],
        objective: if random.below(2) == 0 { Objective::Minimize } else { Objective::Maximize },
        transitions: distributions(random, rows, states),
        action_rewards: random.signed(rows).into_iter().map(|reward| scale * reward).collect::<Vec<_>>().into(),
        ..MdpParts::default()
    };
    let start = distributions(random, 1, states);
    let names = |text: &str, count: u32| (0..count).map(|i| format!("{text} \"{i}\\n\\\\")).collect();
    let parts = PomdpParts {
        process,
        observation_count: observations,
        observations: distributions(random, rows, observations),
        start: Belief::new(start.col().to_vec(), start.val().to_vec()).unwrap(),
        names: Names { states: Vec::new(), actions: names("γ", actions), observations: names("[o]", observations) },
        ..PomdpParts::default()
    };
    parts.validated().unwrap()
}

/// A random controller; about a fifth of the nodes end the episode.
fn nodes(random: &mut Random, model: &Pomdp) -> Nodes {
    let (count, observations) = (1 + random.below(5), model.observation_count() as usize);
    let mut next = Vec::new();
    for _ in 0..count {
        let ends = random.below(5) == 0;
        next.extend((0..observations).map(|_| (!ends).then(|| random.below(count) as u32)));
    }
    Nodes {
        numbers: (0..count as u32).map(|node| 3 * node).collect(),
        actions: (0..count).map(|_| random.below(2) as u32).collect(),
        next,
        starts: vec![random.below(count) as u32],
    }
}

/// V of all nodes and states, at node·|S| + state, by Gaussian elimination with pivots.
fn reference(model: &Pomdp, nodes: &Nodes) -> Vec<f64> {
    let (states, count) = (model.states() as usize, nodes.actions.len());
    let observations = model.observation_count() as usize;
    let (size, rewards) = (states * count, model.expected_rewards());
    let mut rows = vec![vec![0.0; size + 1]; size];
    for node in 0..count {
        let action = nodes.actions[node];
        for state in 0..states {
            let row = &mut rows[node * states + state];
            row[node * states + state] += 1.0;
            row[size] = rewards[state * model.actions() as usize + action as usize];
            let (successors, probs) = model.successors(state as u32, action);
            for (&successor, p) in successors.iter().zip(probs) {
                let (observed, seen) = model.observed(action, successor);
                for (&observation, q) in observed.iter().zip(seen) {
                    if let Some(next) = nodes.next[node * observations + observation as usize] {
                        row[next as usize * states + successor as usize] -= model.gamma() * p * q;
                    }
                }
            }
        }
    }
    for column in 0..size {
        let pivot = (column..size).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs())).unwrap();
        rows.swap(column, pivot);
        for row in (0..size).filter(|&row| row != column) {
            let factor = rows[row][column] / rows[column][column];
            let source = rows[column].clone();
            rows[row].iter_mut().zip(source).for_each(|(target, source)| *target -= factor * source);
        }
    }
    (0..size).map(|row| rows[row][size] / rows[row][row]).collect()
}

fn pg(nodes: &Nodes, observations: usize) -> String {
    let line = |(node, next): (usize, &[Option<u32>])| {
        let next = next.iter().map(|next| next.map_or("-".to_owned(), |next| nodes.numbers[next as usize].to_string()));
        format!("{} {}  {}\n", nodes.numbers[node], nodes.actions[node], next.collect::<Vec<_>>().join(" "))
    };
    nodes.next.chunks(observations).enumerate().map(line).collect()
}

fn write(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn read(path: &Path, model: &Pomdp, node: Option<u32>) -> Result<Controller, String> {
    match formats::read_policy(path, None, model, node).map_err(|error| error.to_string())? {
        AnyPolicy::Controller(controller) => Ok(controller),
        AnyPolicy::Vectors(_) => panic!("vectors"),
    }
}

fn evaluated(controller: &Controller, model: &Pomdp) -> Values {
    controller.evaluate(model, &|| false).unwrap()
}

/// Values enclose those of a direct solver, and means of episodes agree with them.
#[test]
fn controllers_have_the_values_of_their_linear_systems() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(11);
    let mut missed = 0;
    for case in 0..60 {
        let scale = 10_f64.powi(case % 13 - 6);
        let model = model(&mut random, scale);
        let nodes = nodes(&mut random, &model);
        let states = model.states() as usize;
        let expected = reference(&model, &nodes);
        let largest = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let of_node = |node: usize| model.start().dot(&expected[node * states..(node + 1) * states]);

        let start = nodes.starts[0] as usize;
        let controller = Controller::new(&model, nodes.clone()).unwrap();
        let values = evaluated(&controller, &model);
        let slack = 1e-12 * largest;
        assert!(values.lower - slack <= of_node(start) && of_node(start) <= values.upper + slack, "{values:?}");
        assert!(values.upper - values.lower <= 1e-9 * largest, "{case}: {values:?}");

        // The same from a file.
        let path = write(folder.path(), "a.pg", &pg(&nodes, model.observation_count() as usize));
        assert_eq!(read(&path, &model, Some(nodes.numbers[start])).unwrap(), controller);
        // Without a node to begin in, the best one counts.
        let free = Controller::new(&model, Nodes { starts: Vec::new(), ..nodes.clone() }).unwrap();
        let outside = Nodes { starts: vec![nodes.numbers.len() as u32], ..nodes.clone() };
        assert!(Controller::new(&model, outside).unwrap_err().to_string().starts_with("start "));
        assert_eq!(read(&path, &model, None).unwrap(), free);
        if free.depth().is_none() {
            let sign = model.process().objective().sign();
            let best = (0..nodes.actions.len()).map(|node| sign * of_node(node)).fold(f64::NEG_INFINITY, f64::max);
            let free = evaluated(&free, &model);
            assert!(free.lower - slack <= sign * best && sign * best <= free.upper + slack, "{free:?} {best}");
        }

        let options = Options { episodes: 400, steps: None, seed: case as u64 };
        let simulator = Simulator::of_controller(&model, &controller, &values, &options).unwrap();
        let found = simulator.evaluate(&|| false).unwrap();
        let error = (found.mean - of_node(start)).abs() - found.tail - slack;
        assert!(error <= 2.5 * found.half_width, "{case}: {found:?}, {}", of_node(start));
        missed += usize::from(error > found.half_width);
    }
    // Intervals of 95 % miss 3 of 60 on average.
    assert!(missed <= 9, "{missed} of 60 intervals miss the value");
}

fn undiscounted_tiger() -> Pomdp {
    let mut parts = Tiger::default().generate().unwrap().into_parts();
    parts.process.gamma = 1.0;
    parts.validated().unwrap()
}

fn solve(model: &Pomdp, horizon: Option<u32>, gap: f64) -> Solution {
    let limits = Limits { gap: Gap::Absolute(gap), iterations: Some(200), ..Limits::default() };
    let options = SolveOptions { device: DeviceChoice::Cpu, horizon, limits, ..SolveOptions::default() };
    solve_with(model, &options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap()
}

fn written(folder: &Path, model: &Pomdp, solution: &Solution) -> [std::path::PathBuf; 2] {
    [(Format::Pg, "plan.pg"), (Format::Dot, "plan.dot")].map(|(format, name)| {
        let path = folder.join(name);
        let Solution { vectors, stages, support, .. } = solution;
        let policy = Policy { vectors, model: Some(model), name: "", stages, support: support.as_ref() };
        formats::write_policy(&path, format, policy).unwrap();
        path
    })
}

/// A plan for T steps attains the lower bound of its solve, ends after T steps, and begins with all of them: to listen
/// costs, so fewer steps would cost less.
#[test]
fn plans_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(5);
    let mut models = vec![undiscounted_tiger()];
    models.extend((0..6).map(|_| model(&mut random, 3.0)));
    for model in models {
        let solution = solve(&model, Some(4), 1e-9);
        let attained = match model.process().objective() {
            Objective::Maximize => solution.end().lower,
            Objective::Minimize => solution.end().upper,
        };
        for path in written(folder.path(), &model, &solution) {
            let controller = read(&path, &model, None).unwrap();
            assert_eq!(controller.depth(), Some(4));
            let values = evaluated(&controller, &model);
            assert!((values.lower - attained).abs() < 1e-8 && values.upper - values.lower < 1e-9, "{values:?}");
            let options = Options { episodes: 3000, steps: None, seed: 1 };
            let simulator = Simulator::of_controller(&model, &controller, &values, &options).unwrap();
            let found = simulator.evaluate(&|| false).unwrap();
            assert_eq!((found.horizon, found.cut, found.tail, found.steps), (4, 0, 0.0, 12_000));
            assert!((found.mean - attained).abs() <= 2.0 * found.half_width + 1e-9, "{found:?}, {attained}");
        }
    }
}

/// A controller of vectors has the value that their certificate states for it, also where beliefs reach a node that
/// allow more observations than its witness.
#[test]
fn written_controllers_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let maze = Maze::tiger_grid().generate().unwrap();
    for (model, gap) in [(Tiger::default().generate().unwrap(), 1e-3), (maze, 0.3)] {
        let solution = solve(&model, None, gap);
        let certificate = verify(&model, &solution.vectors, 1e-6, 1, &|| false).unwrap();
        for path in written(folder.path(), &model, &solution) {
            let values = evaluated(&read(&path, &model, None).unwrap(), &model);
            assert!(values.upper >= certificate.attained, "{values:?}, {certificate:?}");
            assert!(values.upper - values.lower < 1e-7, "{values:?}");
        }
    }
}

/// The controllers that a solve writes attain its bound, although those of the vectors alone may not.
#[test]
fn written_controllers_attain_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let (mut random, mut short) = (Random::new(8), 0);
    let mut models = vec![
        Maze::hallway().generate().unwrap(),
        FourByThree::default().generate().unwrap(),
        Inspection::default().generate().unwrap(),
    ];
    models.extend((0..6).map(|_| model(&mut random, 3.0)));
    for model in models {
        let limits = Limits { gap: Gap::Absolute(1e-3), iterations: Some(40), ..Limits::default() };
        let devices = if model.states() < 10 { 2 } else { 1 };
        for device in [DeviceChoice::Cpu, DeviceChoice::Emulated].into_iter().take(devices) {
            let iterations = Some(if device == DeviceChoice::Cpu { 40 } else { 4 });
            let limits = Limits { iterations, ..limits };
            let options = SolveOptions { device, beliefs: 16, limits, ..SolveOptions::default() };
            let solution = solve_with(&model, &options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
            let (sign, end) = (model.process().objective().sign(), solution.end());
            let attained = if sign > 0.0 { end.lower } else { -end.upper };
            for path in written(folder.path(), &model, &solution) {
                let values = evaluated(&read(&path, &model, None).unwrap(), &model);
                let lower = if sign > 0.0 { values.lower } else { -values.upper };
                assert!(lower >= attained - 1e-8 * (1.0 + attained.abs()), "{values:?}, {attained}");
            }
            short += usize::from(PolicyGraph::shortfall(&model, &solution.vectors).is_some());
        }
    }
    assert!(short > 0, "no controller of vectors alone is worse");
}

#[test]
fn wrong_controllers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tiger = Tiger::default().generate().unwrap();
    let (heard, state) = (&tiger.names().observations[1], &tiger.names().states[1]);
    let missing = format!("no successor after observation {heard}, which can follow in state {state}");
    for (name, text, node, message) in [
        ("a.pg", "0 0  0 0\n1 0  0 2\n", None, "a.pg:2:8: found node 2, expected a node of this file"),
        ("a.pg", "0 3  0 0\n", None, "a.pg:1:3: found `3`, expected an action below 3"),
        ("a.pg", "0 listen  0 0\n", None, "a.pg:1:3: found `listen`, expected an action below 3"),
        ("a.pg", "0 0  0 0\n\n1 0  0\n", None, "a.pg:3:3: found 1 next nodes, expected 2, one for each observation"),
        ("a.pg", "0 0  0 0\n0 1  0 0\n", None, "a.pg:2:1: node 0 appears twice"),
        ("a.pg", "0\n", None, "a.pg:1:1: found a node without an action, expected NODE ACTION NEXT…"),
        ("a.pg", "0 0  0 x\n", None, "a.pg:1:8: found `x`, expected the number of a node or `-`"),
        ("a.pg", "\n", None, "a.pg:2:1: the file ends, expected a node"),
        ("a.pg", "0 1  1 1\n1 0  0 -\n", None, &format!("a.pg:2:1: {missing}")),
        ("a.pg", "0 1  0 0\n", Some(1), "a.pg: there is no node 1, in which the controller should begin"),
        ("a.alpha", "0\n1 1\n", Some(1), "a.alpha: a file in alpha holds alpha vectors, which have no nodes"),
        ("a.dot", "graph g {}", None, "a.dot:1:1: found `graph`, expected digraph"),
        ("a.dot", "digraph { 0 [label=bark];\n}", None, "a.dot:1:20: found `bark`, expected an action of the model"),
        ("a.dot", "digraph { 0 [label=listen];", None, "a.dot:1:28: the file ends, expected a node or `}`"),
        ("a.dot", "digraph { 0 -> 1 }", None, "a.dot:1:11: found an edge without a label of observations"),
        (
            "a.dot",
            "digraph { 0 [label=\"listen]; }",
            None,
            "a.dot:1:20: found a text without its closing quotation mark",
        ),
        (
            "a.dot",
            "digraph { start -> 1; 0 [label=listen]; }",
            None,
            "a.dot:1:20: found node 1, expected a node of this file",
        ),
    ] {
        let path = write(folder.path(), name, text);
        let error = match formats::read_policy(&path, None, &tiger, node) {
            Ok(policy) => panic!("{text:?} is read as {policy:?}"),
            Err(error) => error.to_string(),
        };
        let first = error.lines().next().unwrap_or_default();
        assert!(first.ends_with(message), "{text:?}: {first}\nexpected {message}");
    }
    // The observation is missing where it cannot follow.
    let path = write(folder.path(), "a.pg", "5 0  5 5\n7 0  - -\n");
    assert_eq!(read(&path, &tiger, Some(7)).unwrap().depth(), Some(1));
    let endless = undiscounted_tiger();
    assert_eq!(read(&path, &endless, None).unwrap().evaluate(&endless, &|| false), Err(Error::Endless));
}
