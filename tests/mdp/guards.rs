//! Guards against another model than the one meant, and the commands around a policy: rows in words, certified values,
//! simulation, Q-factors, and the value over γ.

#[allow(dead_code, reason = "policies are not enumerated here")]
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Output};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value as Json, json};
use warpkov::common::choice::Choice;
use warpkov::mdp::analysis::guards::{
    Kind, Purpose, Warning, inspect, inspect_quickly, looks_action_major, rewards_look_action_major,
};
use warpkov::mdp::ask::evaluate::{InvalidPolicy, Options, bounds, chain, plan, unrolled, value};
use warpkov::mdp::ask::q::q_factors;
use warpkov::mdp::ask::select;
use warpkov::mdp::ask::simulate::{self, Simulator};
use warpkov::mdp::criterion::{self, Criterion};
use warpkov::mdp::generate::{
    CarRental, Consensus, Csma, Firewire, Forest, Gambler, Garnet, Inventory, QueueNetwork, RewardOf, SlipGrid,
    SuttonGrid, WetFloor, Zeroconf,
};
use warpkov::mdp::io::{ReadOptions, read_from};
use warpkov::mdp::model::{Choices, Csr, Mdp, MdpParts, NO_ACTION, Objective};
use warpkov::runtime::choose::DeviceChoice;

use crate::rational::{Chain, Value};

/// Successors with probabilities, and a reward.
type Row = (Vec<(u32, f64)>, f64);

/// A model with these rows, by state and action.
fn model(gamma: f64, states: &[Vec<Row>]) -> MdpParts {
    let rows: Vec<_> = states.iter().flatten().collect();
    let mut row_ptr = vec![0];
    row_ptr.extend(rows.iter().scan(0, |end, (next, _)| {
        *end += next.len() as u64;
        Some(*end)
    }));
    let entries: Vec<(u32, f64)> = rows.iter().flat_map(|(next, _)| next.clone()).collect();
    let (col, val): (Vec<u32>, Vec<f64>) = entries.into_iter().unzip();
    let mut offsets = vec![0];
    offsets.extend(states.iter().scan(0, |end, rows| {
        *end += rows.len() as u64;
        Some(*end)
    }));
    MdpParts {
        states: states.len() as u32,
        choices: Choices::Ragged(offsets.into()),
        gamma,
        transitions: Csr::new(row_ptr, col, val).unwrap(),
        action_rewards: rows.iter().map(|(_, reward)| *reward).collect::<Vec<_>>().into(),
        ..MdpParts::default()
    }
}

/// The model that is read if the rows of `mdp` are stored as a·S + s.
fn action_major(mdp: &Mdp) -> Mdp {
    let (states, actions) = (mdp.states() as usize, mdp.choices().max() as usize);
    let rows: Vec<usize> =
        (0..actions).flat_map(|action| (0..states).map(move |state| state * actions + action)).collect();
    let gathered = |matrix: &Csr| {
        let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
        for &row in &rows {
            col.extend_from_slice(matrix.row(row).0);
            val.extend_from_slice(matrix.row(row).1);
            row_ptr.push(col.len() as u64);
        }
        Csr::new(row_ptr, col, val).unwrap()
    };
    let of_rows = |numbers: &[f64]| match numbers {
        [] => Vec::new(),
        numbers => rows.iter().map(|&row| numbers[row]).collect(),
    };
    MdpParts {
        states: mdp.states(),
        choices: Choices::Uniform(actions as u32),
        gamma: mdp.gamma(),
        transitions: gathered(mdp.transitions()),
        ends: of_rows(mdp.ends()).into(),
        rewards: gathered(mdp.rewards()),
        action_rewards: of_rows(mdp.action_rewards()).into(),
        ..MdpParts::default()
    }
    .validated()
    .unwrap()
}

/// Keep a machine of age s, or replace it.
fn replacement(ages: u32) -> Mdp {
    let state = |age: u32| {
        let older = (age + 1).min(ages - 1);
        let keep = if older == age { vec![(age, 1.0)] } else { vec![(age, 0.25), (older, 0.75)] };
        vec![(keep, 10.0 - f64::from(age * age)), (vec![(0, 1.0)], -4.0)]
    };
    let parts = model(0.9, &(0..ages).map(state).collect::<Vec<_>>());
    MdpParts { choices: Choices::Uniform(2), ..parts }.validated().unwrap()
}

/// All families, each with several parameters. Names begin with the family.
fn families() -> Vec<(String, Mdp)> {
    let mut all: Vec<(String, Mdp)> = Vec::new();
    let mut add = |name: String, mdp: Mdp| all.push((name, mdp));
    for ages in [3, 4, 5, 8, 10, 20, 100, 1000] {
        add(format!("forest {ages}"), Forest { ages, ..Forest::default() }.generate().unwrap());
        add(format!("replacement {ages}"), replacement(ages as u32));
    }
    for (width, height) in [(4, 4), (8, 8), (16, 16), (64, 64), (3, 50), (50, 3), (40, 1)] {
        for (slip, walls) in [(0.1, 0.0), (0.0, 0.0), (0.1, 0.3)] {
            let grid = SlipGrid { width, height, slip, walls, obstacles: walls / 2.0, ..SlipGrid::default() };
            add(format!("grid {width}x{height}, slip {slip}, walls {walls}"), grid.generate().unwrap());
        }
        for successors in [1, 2, 4] {
            for redirected in [0.0, 0.1] {
                let (reward_states, gamma, seed) = (Some(2), 0.95, 1);
                let floor = WetFloor {
                    width,
                    height,
                    successors,
                    reward_states,
                    redirected,
                    gamma,
                    seed,
                    ..WetFloor::default()
                };
                add(format!("wetfloor {width}x{height}, {successors}, {redirected}"), floor.generate().unwrap());
            }
        }
    }
    add("sutton".to_owned(), SuttonGrid::default().generate().unwrap());
    for (max_cars, max_moves) in [(5, 5), (8, 2), (20, 5)] {
        add(
            format!("car rental {max_cars}"),
            CarRental { max_cars, max_moves, ..CarRental::default() }.generate().unwrap(),
        );
    }
    for capacity in [3, 10, 30] {
        for max_order in [1, 2, 5, 10, 40] {
            let inventory = Inventory { capacity, max_order: Some(max_order), ..Inventory::default() };
            add(format!("inventory {capacity}, {max_order}"), inventory.generate().unwrap());
        }
    }
    for (queues, capacity) in [(1, 3), (1, 15), (1, 200), (2, 3), (2, 15), (3, 3), (3, 7)] {
        add(
            format!("queues {queues}, {capacity}"),
            QueueNetwork { queues, capacity, ..QueueNetwork::default() }.generate().unwrap(),
        );
    }
    for seed in 0..20 {
        for (states, actions, branching) in [(4, 2, 2), (10, 2, 3), (50, 4, 3), (1000, 2, 5)] {
            let garnet = Garnet { states, actions, branching, seed, ..Garnet::default() };
            add(format!("garnet {states}, {actions}, {seed}"), garnet.generate().unwrap());
        }
        let near = Garnet { states: 500, actions: 3, branching: 4, window: Some(20), seed, ..Garnet::default() };
        add(format!("window {seed}"), near.generate().unwrap());
        let far = Garnet { states: 300, power_law: true, ragged: true, terminals: 0.1, seed, ..Garnet::default() };
        add(format!("garnet ragged {seed}"), far.generate().unwrap());
    }
    let of_transition = Garnet { reward_of: RewardOf::Transition, reward_density: 0.1, ..Garnet::default() };
    add("garnet transition".to_owned(), of_transition.generate().unwrap());
    add("gambler".to_owned(), Gambler::default().generate().unwrap());
    add("consensus".to_owned(), Consensus::default().generate().unwrap());
    add("firewire".to_owned(), Firewire::default().generate().unwrap());
    add("csma".to_owned(), Csma::default().generate().unwrap());
    add("zeroconf".to_owned(), Zeroconf::default().generate().unwrap());
    all
}

fn kinds(warnings: &[Warning]) -> Vec<Kind> {
    warnings.iter().filter_map(|warning| Kind::of_name(warning.kind)).collect()
}

/// No family has rows that look action-major, and the file of nearly every structured model does.
#[test]
fn rows_in_action_major_order_are_found() {
    let (mut right, mut wrong, mut structured) = (0, 0, 0);
    let mut missed = Vec::new();
    for (name, mdp) in families() {
        right += 1;
        assert!(!looks_action_major(&mdp), "false alarm: {name}");
        // A model of protocols has no rewards of its own, or more than one.
        let quick = inspect_quickly(&mdp, Purpose { rewards: false, epsilon: None });
        assert!(quick.is_empty(), "{name}: {quick:?}");
        // A random model looks the same in any order.
        if !matches!(mdp.choices(), Choices::Uniform(2..)) || name.starts_with("garnet") {
            continue;
        }
        structured += 1;
        match looks_action_major(&action_major(&mdp)) {
            true => wrong += 1,
            false => missed.push(name),
        }
    }
    println!("{right} right models, no false alarm; {wrong} of {structured} wrong files found; missed: {missed:?}");
    assert!(structured >= 100 && wrong * 100 >= structured * 90, "{wrong} of {structured}, missed {missed:?}");
}

/// Rewards alone in the other order: no family looks so, and half of the files of those whose rewards are not random do.
#[test]
fn rewards_in_action_major_order_are_found() {
    let (mut wrong, mut found, mut missed) = (0, 0, Vec::new());
    for (name, mdp) in families() {
        assert!(!rewards_look_action_major(&mdp), "false alarm: {name}");
        if mdp.action_rewards().is_empty() || !matches!(mdp.choices(), Choices::Uniform(2..)) {
            continue;
        }
        let (states, actions) = (mdp.states() as usize, mdp.choices().max() as usize);
        let rows = (0..actions).flat_map(|a| (0..states).map(move |s| s * actions + a));
        let rewards: Vec<f64> = rows.map(|row| mdp.action_reward(row)).collect();
        let mdp = MdpParts { action_rewards: rewards.into(), ..mdp.into_parts() }.validated().unwrap();
        // Random rewards look the same in any order, and a forest has two.
        if !["garnet", "window", "forest"].iter().any(|family| name.starts_with(family)) {
            wrong += 1;
            match kinds(&inspect_quickly(&mdp, Purpose::default())).contains(&Kind::ActionMajorRewards) {
                true => found += 1,
                false => missed.push(name),
            }
        }
    }
    println!("{found} of {wrong} found; missed: {missed:?}");
    assert!(wrong >= 15 && found * 2 >= wrong, "{found} of {wrong}, missed {missed:?}");
}

/// Small random models, in which any order looks alike.
#[test]
fn random_models_seldom_look_action_major() {
    let (mut random, mut alarms, mut of_rewards) = (ChaCha8Rng::seed_from_u64(1), 0, 0);
    for seed in 0..5000 {
        let (states, actions) = (2 + random.next_u64() % 13, 2 + random.next_u32() % 4);
        let branching = 1 + random.next_u32() % 4.min(states as u32);
        let garnet = Garnet { states, actions, branching, seed, ..Garnet::default() };
        let mdp = garnet.generate().unwrap();
        alarms += u32::from(looks_action_major(&mdp));
        let rewards: Vec<f64> = (0..mdp.rows()).map(|_| f64::from(random.next_u32() % 7)).collect();
        let mdp = MdpParts { action_rewards: rewards.into(), ..mdp.into_parts() }.validated().unwrap();
        of_rewards += u32::from(rewards_look_action_major(&mdp));
    }
    println!("{alarms} of 5000 small random models look action-major, and the rewards of {of_rewards}");
    assert!(alarms <= 25 && of_rewards <= 25, "{alarms} and {of_rewards} false alarms");
}

#[test]
fn info_names_what_looks_wrong() {
    let found = |mdp: &Mdp, kind: Kind| {
        inspect(mdp, Purpose::default()).into_iter().find(|warning| warning.kind == kind.name())
    };
    // 0 → 1 or 2; 1 and 2 are ends; 3 is entered by nothing. Both actions of 0 are equal.
    let step = || (vec![(1, 0.5), (2, 0.5)], 1.0);
    let stay = |state, reward| (vec![(state, 1.0)], reward);
    let states = [vec![step(), step()], vec![stay(1, 0.0)], vec![stay(2, 3.0)], vec![(vec![(0, 1.0)], 0.0)]];
    let names = ["start", "good", "bad", "lost"].map(str::to_owned).to_vec();
    let parts = MdpParts { state_names: Some(names.into()), ..model(0.9, &states) };
    let mdp = parts.clone().validated().unwrap();
    let stuck = found(&mdp, Kind::Stuck).unwrap();
    assert_eq!((stuck.count, &stuck.examples[..]), (2, &["good".to_owned(), "bad".to_owned()][..]));
    assert!(stuck.message.contains("1 of them earn rewards"), "{}", stuck.message);
    let unreachable = found(&mdp, Kind::Unreachable).unwrap();
    assert_eq!(unreachable.examples, ["lost"]);
    assert!(unreachable.message.starts_with("no other state leads to 1 state: lost"), "{}", unreachable.message);
    let copied = found(&mdp, Kind::CopiedActions).unwrap();
    assert_eq!((copied.count, &copied.examples[..]), (1, &["1 equals 0 in 1 of 1 states".to_owned()][..]));

    // A label says that a state may have no way out, and where the process begins.
    let labels = [("init".to_owned(), vec![3]), ("done".to_owned(), vec![1])].into();
    let mdp = MdpParts { labels, ..parts }.validated().unwrap();
    assert_eq!(found(&mdp, Kind::Stuck).unwrap().examples, ["bad"]);
    assert!(found(&mdp, Kind::Unreachable).is_none());
    let labels = [("init".to_owned(), vec![0])].into();
    let mdp = MdpParts { labels, ..mdp.into_parts() }.validated().unwrap();
    assert_eq!(found(&mdp, Kind::Unreachable).unwrap().examples, ["lost"]);

    // Rewards.
    let with = |gamma, rewards: [f64; 2]| {
        let states = [vec![(vec![(1, 1.0)], rewards[0])], vec![(vec![(0, 1.0)], rewards[1])]];
        model(gamma, &states).validated().unwrap()
    };
    let of = |gamma, rewards| kinds(&inspect(&with(gamma, rewards), Purpose::default()));
    assert_eq!(of(0.9, [1.0, 2.0]), []);
    assert_eq!(of(0.9, [0.0, 0.0]), [Kind::NoReward]);
    assert_eq!(of(0.9, [0.99e-7, -0.5e-7]), [Kind::LargeEpsilon]);
    assert_eq!(of(0.9, [1.01e-7, 1.01e-7]), []);
    assert_eq!(of(0.9, [1.0, 0.99e-7]), [Kind::SmallRewards]);
    assert_eq!(of(0.9, [1e9, 1.0]), [Kind::WideRewards]);
    assert_eq!(of(1.0, [1.0, 2.0]), [Kind::Undiscounted]);
    // R has an entry where P has none.
    let parts = with(0.9, [0.0, 0.0]).into_parts();
    let rewards = Csr::new(vec![0, 1, 2], vec![0, 1], vec![5.0, 5.0]).unwrap();
    let warnings = inspect(&MdpParts { rewards, ..parts }.validated().unwrap(), Purpose::default());
    assert_eq!(kinds(&warnings), [Kind::NoReward]);
    assert!(warnings[0].message.contains("2 rewards belong to transitions of probability 0"), "{warnings:?}");
}

/// With as many actions as states, a table of P may be read under the wrong key, which `info` says of it.
#[test]
fn exchangeable_indices_are_told_by_info() {
    let of = |table: &str, key: &str| {
        let text = format!("{{\"gamma\":0.9,\"{key}\":{table},\"R[s]\":[1,2]}}");
        let mdp = read_from(text.as_bytes(), "m", &ReadOptions::default()).unwrap();
        assert!(inspect_quickly(&mdp, Purpose::default()).is_empty(), "a solve says nothing");
        inspect(&mdp, Purpose::default())
    };
    for key in ["P[a][s][s']", "P[s][a][s']"] {
        let warnings = of("[[[0.7,0.3],[0.2,0.8]],[[0.9,0.1],[0.6,0.4]]]", key);
        assert_eq!(kinds(&warnings), [Kind::Exchangeable], "{key}");
        let message = &warnings[0].message;
        assert!(message.starts_with("there are as many actions as states, 2, so a table"), "{message}");
        assert!(message.ends_with("Check state 0, action 1 with option show"), "{message}");
        // Both readings are one model.
        assert_eq!(kinds(&of("[[[0.7,0.3],[0.2,0.8]],[[0.2,0.8],[0.6,0.4]]]", key)), [], "{key}");
    }
}

/// Doubly stochastic matrices can be read as their transposes, which `info` says of them; symmetric and deterministic ones are as they are.
#[test]
fn doubly_stochastic_matrices_are_told_by_info() {
    let cycle = |forward: f64| {
        let state = |s: u32| {
            let mut row = vec![((s + 1) % 5, forward), ((s + 4) % 5, 1.0 - forward)];
            row.retain(|entry| entry.1 > 0.0);
            vec![(row, f64::from(s))]
        };
        let mdp = model(0.9, &(0..5).map(state).collect::<Vec<_>>()).validated().unwrap();
        assert!(inspect_quickly(&mdp, Purpose::default()).is_empty(), "a solve says nothing");
        kinds(&inspect(&mdp, Purpose::default()))
    };
    assert_eq!(cycle(0.75), [Kind::DoublyStochastic]);
    assert_eq!(cycle(0.5), [], "symmetric");
    assert_eq!(cycle(1.0), [], "deterministic");
}

/// Rows that are no distributions, while the columns are: the error says so.
#[test]
fn transposed_files_are_refused_with_the_reason() {
    let mdp = replacement(3);
    let mut parts = mdp.clone().into_parts();
    let entries = |action: usize, next: u32| {
        let of = |state: usize| {
            let (successors, probs) = mdp.transitions().row(2 * state + action);
            let at = successors.iter().position(|&found| found == next)?;
            Some((state as u32, probs[at]))
        };
        (0..3).filter_map(of).collect::<Vec<_>>()
    };
    let rows: Vec<_> = (0..6).map(|row| entries(row % 2, row as u32 / 2)).collect();
    let mut row_ptr = vec![0];
    rows.iter().for_each(|row| row_ptr.push(row_ptr[row_ptr.len() - 1] + row.len() as u64));
    let (col, val): (Vec<u32>, Vec<f64>) = rows.into_iter().flatten().unzip();
    parts.transitions = Csr::new(row_ptr, col, val.clone()).unwrap();
    let message = parts.clone().validated().err().unwrap().to_string();
    assert!(message.ends_with("so P seems to be transposed: expected P[s][s'], found P[s'][s]"), "{message}");
    // Neither rows nor columns.
    parts.transitions = parts.transitions.with_values(vec![0.5; val.len()]).unwrap();
    let message = parts.validated().err().unwrap().to_string();
    assert!(!message.contains("transposed"), "{message}");
}

/// A random model of `states` states with dyadic probabilities, so that rows sum to 1 exactly, and rewards of many
/// magnitudes. Rows end with positive probability if `ends`.
fn random_model(random: &mut ChaCha8Rng, states: u32, gamma: f64, ends: bool, scale: i32) -> Mdp {
    let row = |random: &mut ChaCha8Rng| {
        let mut weights = vec![0_u32; states as usize + 1];
        for _ in 0..64 {
            let next = match random.next_u32() % 4 {
                0 if ends => states,
                1 => random.next_u32() % states,
                _ => (random.next_u32() % states) / 2,
            };
            weights[next as usize] += 1;
        }
        let reward = (f64::from(random.next_u32() % 2001) - 1000.0) * 2f64.powi(scale);
        let small = 2f64.powi(-((random.next_u32() % 20) as i32));
        let entries = weights[..states as usize].iter().zip(0..).filter(|(weight, _)| **weight > 0);
        let entries: Vec<_> = entries.map(|(&weight, next)| (next, f64::from(weight) / 64.0)).collect();
        (entries, reward * small, f64::from(weights[states as usize]) / 64.0)
    };
    let rows: Vec<Vec<_>> =
        (0..states).map(|_| (0..1 + random.next_u32() % 3).map(|_| row(random)).collect()).collect();
    let ends: Vec<f64> = rows.iter().flatten().map(|row| row.2).collect();
    let states: Vec<Vec<_>> = rows.into_iter().map(|rows| rows.into_iter().map(|(p, r, _)| (p, r)).collect()).collect();
    let ends = if ends.iter().any(|&end| end > 0.0) { ends } else { Vec::new() };
    MdpParts { ends: ends.into(), ..model(gamma, &states) }.validated().unwrap()
}

fn random_policy(random: &mut ChaCha8Rng, mdp: &Mdp) -> Vec<u32> {
    (0..mdp.states() as usize).map(|state| random.next_u32() % mdp.choices().count(state) as u32).collect()
}

fn on_cpu(epsilon: f64) -> Options {
    let accuracy = criterion::Options { epsilon, ..criterion::Options::default() };
    Options { device: DeviceChoice::Cpu, accuracy, ..Options::default() }
}

/// The bounds of policies enclose their exact values, in rational arithmetic, under all criteria.
#[test]
fn certified_values_of_policies_are_exact() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for round in 0..120 {
        let (states, scale) = (2 + round % 5, (round as i32 * 7) % 61 - 30);
        let gamma = [0.0, 0.5, 0.9, 0.99, 0.9999][round as usize % 5];
        let mdp = random_model(&mut random, states, gamma, round % 2 == 0, scale);
        let mdp = mdp.with_objective([Objective::Maximize, Objective::Minimize][round as usize / 2 % 2]);
        let policy = random_policy(&mut random, &mdp);
        let none = vec![false; states as usize];
        let goal = vec![states - 1];
        let is_goal: Vec<bool> = (0..=states).map(|state| state == states - 1).collect();
        let mut absorbing = none.clone();
        absorbing[states as usize - 1] = true;
        let chain_of = chain(&mdp, &policy).unwrap();
        let unit = 1000.0 * 2f64.powi(scale);
        let check = |criterion: Option<Criterion>, epsilon: f64, exact: Vec<Value>| {
            let found =
                bounds(&chain_of, criterion.as_ref(), &on_cpu(epsilon), &mut |_| ControlFlow::Continue(())).unwrap();
            assert!(found.converged && found.error <= epsilon, "{criterion:?}, round {round}: {}", found.error);
            for (state, value) in exact[..states as usize].iter().enumerate() {
                let (lower, upper) = (found.lower[state], found.upper[state]);
                assert!(
                    value.is_within(lower, upper),
                    "{criterion:?}, round {round}, state {state}: {value:?} not in [{lower}, {upper}]"
                );
            }
        };
        let exact = Chain::new(&mdp, &policy, &none);
        check(None, 1e-7 * unit / (1.0 - gamma), exact.discounted(gamma));
        let stopped = Chain::new(&mdp, &policy, &absorbing);
        check(Some(Criterion::Reach { goal }), 1e-7, stopped.reach(&is_goal));
        if round % 2 == 0 {
            check(Some(Criterion::TotalReward { goal: None }), 1e-7 * unit, exact.cumulative());
        }
        check(Some(Criterion::Average), 1e-7 * unit, exact.gain());
    }
}

/// The bounds of plans enclose their exact values, in rational arithmetic; optimal plans have the optimal values; and simulations of
/// plans hold their values as often as they say.
#[test]
fn plans_act_differently_at_each_step() {
    let mut random = ChaCha8Rng::seed_from_u64(23);
    let (mut held, rounds) = (0, 200_u32);
    for round in 0..rounds {
        let (states, scale, steps) = (2 + round % 5, (round as i32 * 7) % 61 - 30, 2 + random.next_u32() % 7);
        let gamma = [0.0, 0.5, 0.9, 1.0][round as usize % 4];
        let mdp = random_model(&mut random, states, 0.9, round % 2 == 0, scale).with_gamma(gamma).unwrap();
        let mdp = mdp.with_objective([Objective::Maximize, Objective::Minimize][round as usize / 2 % 2]);
        let criterion = Some(Criterion::Horizon(steps));
        let options = on_cpu(1e-6 * 2f64.powi(scale));
        let mut go = |_: &_| ControlFlow::Continue(());
        // Some steps are equal, as most steps of optimal plans are.
        let mut policy = random_policy(&mut random, &mdp);
        let mut planned = Vec::new();
        for _ in 0..steps {
            if random.next_u32() % 2 == 0 {
                policy = random_policy(&mut random, &mdp);
            }
            planned.extend_from_slice(&policy);
        }
        let exact_of = |plan: &[u32]| {
            let mut v = vec![Value::of(0.0); states as usize + 1];
            for policy in plan.chunks(states as usize).rev() {
                v = Chain::new(&mdp, policy, &vec![false; states as usize]).backup(gamma, &v);
            }
            v
        };
        let found = value(&mdp, &planned, criterion.as_ref(), &options, &mut go).unwrap();
        assert!(found.converged, "round {round}: {}", found.error);
        let optimal = plan(&mdp, steps, &options, &mut go).unwrap();
        assert_eq!(optimal.policy.len(), (steps * states) as usize);
        let (of_plan, of_optimal) = (exact_of(&planned), exact_of(&optimal.policy));
        let start = random.next_u32() % states;
        for state in 0..states as usize {
            let (lower, upper) = (found.lower[state], found.upper[state]);
            assert!(
                of_plan[state].is_within(lower, upper),
                "round {round}: {:?} not in [{lower}, {upper}]",
                of_plan[state]
            );
            // What an optimal plan earns is the optimal value, and no plan earns more.
            let (lower, upper) = (optimal.lower[state], optimal.upper[state]);
            let near = of_optimal[state].is_near(f64::midpoint(lower, upper), 1e-6 * 2f64.powi(scale), 0.0);
            assert!(near, "round {round}: {:?} is not near [{lower}, {upper}]", of_optimal[state]);
            let better = if mdp.objective() == Objective::Maximize {
                found.lower[state] - upper
            } else {
                lower - found.upper[state]
            };
            assert!(better <= 0.0, "round {round}: {better}");
        }
        let chain = unrolled(&mdp, &planned, criterion.as_ref()).unwrap();
        let extent = simulate::Options { episodes: 200, steps: None, seed: 1, starts: vec![start], confidence: 0.9 };
        let simulated = Simulator::new(&chain, criterion.as_ref(), extent).unwrap().evaluate(&|| false).unwrap();
        held += u32::from(simulated.holds(found.values[start as usize]));
    }
    println!("{held} of {rounds} intervals of 90 % hold the value of the plan");
    assert!((155..=200).contains(&held), "{held} of {rounds}");
    let mdp = replacement(4);
    let refused = |plan: &[u32], criterion: Option<&Criterion>| {
        let error = value(&mdp, plan, criterion, &on_cpu(1e-6), &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(unrolled(&mdp, plan, criterion).err().unwrap().to_string(), error.to_string());
        error.to_string()
    };
    assert!(refused(&[0; 12], Some(&Criterion::Horizon(4))).contains("a plan of 3 steps, expected one of 4 steps"));
    assert!(refused(&[0; 12], None).contains("the criterion has no steps"));
    assert!(refused(&[0; 13], Some(&Criterion::Horizon(3))).contains("has 13 actions"));
    assert!(refused(&[], Some(&Criterion::Horizon(3))).contains("has 0 actions"));
    assert!(refused(&[0, 0, 0, 0, 0, 2, 0, 0], Some(&Criterion::Horizon(2))).contains("action 2 in state 1"));
}

#[test]
fn policies_must_fit() {
    let mdp = replacement(4);
    assert!(matches!(chain(&mdp, &[0, 0]), Err(InvalidPolicy::Length { found: 2, expected: 4 })));
    assert!(matches!(chain(&mdp, &[0, 2, 0, 0]), Err(InvalidPolicy::Action { actions: 2, .. })));
    assert!(matches!(chain(&mdp, &[0, 0, 0, NO_ACTION]), Err(InvalidPolicy::Action { actions: 2, .. })));
    let garnet = Garnet { states: 50, ragged: true, terminals: 0.3, ..Garnet::default() }.generate().unwrap();
    let of = chain(&garnet, &garnet.first_policy()).unwrap();
    assert!((0..50).all(|state| of.choices().count(state) == garnet.choices().count(state).min(1)));
}

/// The interval of a simulation holds the exact value about as often as its confidence says: for 1000 models with rewards
/// of magnitudes from 10⁻⁶ to 10¹².
#[test]
fn intervals_hold_as_often_as_they_say() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (mut held, mut of_kind) = (0, [(0, 0); 4]);
    for round in 0..1000_u32 {
        let (states, scale) = (2 + round % 7, (round as i32 * 7) % 61 - 30);
        let gamma = [0.5, 0.8, 0.9][round as usize % 3];
        let kind = round as usize % 4;
        let mdp = random_model(&mut random, states, gamma, kind == 2 || round % 8 < 4, scale);
        let policy = random_policy(&mut random, &mdp);
        let chain = chain(&mdp, &policy).unwrap();
        let criterion = match kind {
            0 => None,
            1 => Some(Criterion::Reach { goal: vec![states - 1] }),
            2 => Some(Criterion::TotalReward { goal: None }),
            _ => Some(Criterion::Horizon(20)),
        };
        let start = random.next_u32() % states;
        let options = simulate::Options {
            episodes: 200,
            steps: None,
            seed: u64::from(round),
            starts: vec![start],
            confidence: 0.9,
        };
        let found = Simulator::new(&chain, criterion.as_ref(), options).unwrap().evaluate(&|| false).unwrap();
        let epsilon = 1e-9 * 2f64.powi(scale);
        let epsilon = if kind == 1 { 1e-9 } else { epsilon };
        let exact = bounds(&chain, criterion.as_ref(), &on_cpu(epsilon), &mut |_| ControlFlow::Continue(())).unwrap();
        let holds = found.holds(exact.values[start as usize]);
        held += u32::from(holds);
        of_kind[kind] = (of_kind[kind].0 + u32::from(holds), of_kind[kind].1 + 1);
    }
    println!("{held} of 1000 intervals of 90 % hold the exact value: {of_kind:?}");
    // Five standard deviations of a binomial distribution, and two percent for the normal approximation.
    assert!((830..=970).contains(&held), "{held}: {of_kind:?}");
}

/// Equal seeds give equal bits on one thread and on several; cut paths widen the interval.
#[test]
fn simulations_are_reproducible_and_admit_what_they_cut() {
    let mdp = replacement(6);
    let chain = chain(&mdp, &[0, 0, 0, 1, 1, 1]).unwrap();
    let options = |steps| simulate::Options { episodes: 500, steps, seed: 3, starts: vec![0, 1], confidence: 0.99 };
    let run = |criterion: Option<&Criterion>, steps| {
        Simulator::new(&chain, criterion, options(steps)).unwrap().evaluate(&|| false).unwrap()
    };
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (one, three) = (pool(1).install(|| run(None, None)), pool(3).install(|| run(None, None)));
    assert_eq!(one, three);
    let exact = bounds(&chain, None, &on_cpu(1e-9), &mut |_| ControlFlow::Continue(())).unwrap();
    let mean = f64::midpoint(exact.values[0], exact.values[1]);
    assert!(one.holds(mean), "{mean} {one:?}");
    let short = run(None, Some(3));
    assert!(short.cut == 500 && short.holds(mean) && short.tail.0 > 1.0, "{short:?}");
    let total = Criterion::TotalReward { goal: None };
    assert!(run(Some(&total), Some(100)).tail.0.is_infinite(), "a cut path of the total reward may go on to any value");
    let average = run(Some(&Criterion::Average), None);
    let gain = bounds(&chain, Some(&Criterion::Average), &on_cpu(1e-9), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(average.holds(gain.values[0]), "{average:?} {}", gain.values[0]);
}

/// ‖Q − Q*‖∞ is within the bound, and the advantages of greedy actions are 0.
#[test]
fn q_factors_are_within_their_bound() {
    use warpkov::mdp::Solve;
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for round in 0..60 {
        let scale = (round * 7) % 61 - 30;
        let gamma = [0.0, 0.5, 0.9, 0.99][round as usize % 4];
        let objective = [Objective::Maximize, Objective::Minimize][round as usize / 2 % 2];
        let mdp = random_model(&mut random, 5, gamma, round % 3 == 0, scale).with_objective(objective);
        let epsilon = 1e-3 * 2f64.powi(scale);
        let solve = on_cpu(epsilon).discounted(gamma);
        let found = Solve::new(&mdp, &solve).run().unwrap();
        let factors = q_factors(&mdp, &found.values, found.certificate.bound);
        let bound = factors.bound.unwrap();
        assert!(bound <= epsilon, "{bound}");
        // V* by policy iteration with dense solves.
        let n = 5;
        let mut policy = mdp.first_policy();
        let exact = loop {
            let of = |state: usize| mdp.choices().first(state) + policy[state] as usize;
            let matrix = |state: usize| {
                let mut row = vec![0.0; n];
                row[state] = 1.0;
                let (next, p) = mdp.transitions().row(of(state));
                next.iter().zip(p).for_each(|(&next, p)| row[next as usize] -= gamma * p);
                row
            };
            let values =
                crate::exact::linear((0..n).map(matrix).collect(), (0..n).map(|s| mdp.action_reward(of(s))).collect());
            let q = |row: usize| {
                let (next, p) = mdp.transitions().row(row);
                mdp.action_reward(row)
                    + gamma * next.iter().zip(p).map(|(&next, p)| p * values[next as usize]).sum::<f64>()
            };
            let sign = objective.sign();
            let better = |state: usize| {
                let rows = mdp.choices().rows(state);
                let best = rows.clone().max_by(|&a, &b| (sign * q(a)).total_cmp(&(sign * q(b)))).unwrap();
                let current = of(state);
                if sign * (q(best) - q(current)) > 1e-12 * 2f64.powi(scale) {
                    (best - rows.start) as u32
                } else {
                    policy[state]
                }
            };
            let next: Vec<u32> = (0..n).map(better).collect();
            if next == policy {
                break (0..mdp.rows()).map(q).collect::<Vec<_>>();
            }
            policy = next;
        };
        let rounding = 1e-9 * 2f64.powi(scale);
        assert!(crate::exact::distance(&factors.q, &exact) <= bound + rounding, "round {round}: {bound}");
        for state in 0..n {
            let own = &factors.advantages[mdp.choices().rows(state)];
            assert!(own.iter().all(|a| objective.sign() * a <= 0.0) && own.contains(&0.0), "{own:?}");
        }
    }
}

#[test]
fn states_are_chosen_by_name_number_and_range() {
    let names = ["new", "worn, a bit", "7", "0..1"].map(str::to_owned).to_vec();
    let parts = replacement(4).into_parts();
    let mdp = MdpParts { state_names: Some(names.into()), ..parts }.validated().unwrap();
    let found = |text: &str| select::states(&mdp, text).map_err(|error| error.to_string());
    assert_eq!(found("new"), Ok(vec![0]));
    assert_eq!(found("worn, a bit"), Ok(vec![1]));
    assert_eq!(found("7,2, new"), Ok(vec![2, 2, 0]));
    assert_eq!(found("0..1"), Ok(vec![3]), "a name");
    assert_eq!(found("1..3"), Ok(vec![1, 2, 3]));
    assert_eq!(found("3..1"), Err("found the range 3..1, expected the first state first".to_owned()));
    let message = "found 'old', expected a state: one of new, worn, a bit, 7, 0..1, or a number below 4";
    assert_eq!(found("old"), Err(message.to_owned()));
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warpkov")).current_dir(folder).arg("mdp").args(arguments).output().unwrap()
}

/// The output of `warpkov mdp …`, which must have exit code `code`, and what it wrote to the standard error.
#[track_caller]
fn printed(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let output = run(folder, arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    (String::from_utf8(output.stdout).unwrap(), error)
}

#[track_caller]
fn object(folder: &Path, arguments: &[&str]) -> Json {
    serde_json::from_str(&printed(folder, &[arguments, &["--json"]].concat(), 0).0).unwrap()
}

fn write(folder: &Path, name: &str, mdp: &Mdp) {
    warpkov::mdp::io::write(&folder.join(name), mdp).unwrap();
}

/// The file of the replacement problem in the wrong order is valid and has another solution. It is solved, with a warning.
#[test]
fn solve_warns_of_rows_in_the_wrong_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for ages in [3, 4, 6, 10, 100] {
        let mdp = replacement(ages);
        write(folder, "right.json", &mdp);
        write(folder, "wrong.json", &action_major(&mdp));
        let solved = |name: &str| {
            let (text, error) = printed(folder, &["solve", name, "--device", "cpu", "--json"], 0);
            (serde_json::from_str::<Json>(&text).unwrap(), error)
        };
        let ((right, quiet), (wrong, warned)) = (solved("right.json"), solved("wrong.json"));
        assert!(quiet.is_empty() && right["warnings"].is_null(), "{ages}: {quiet}");
        assert!(warned.starts_with("warning: the rows look action-major"), "{ages}: {warned}");
        assert_eq!(wrong["warnings"][0]["kind"], "action-major");
        assert_ne!(right["values"], wrong["values"]);
    }
    let info = object(folder, &["info", "wrong.json"]);
    assert_eq!(info["warnings"][0]["kind"], "action-major");
    assert!(printed(folder, &["info", "wrong.json"], 0).0.contains("\nWarning          the rows look action-major"));
    // Rewards that ε hides, and none at all.
    let tiny = replacement(5).into_parts();
    let rewards: Vec<f64> = tiny.action_rewards.iter().map(|reward| reward * 1e-12).collect();
    write(folder, "tiny.json", &MdpParts { action_rewards: rewards.into(), ..tiny.clone() }.validated().unwrap());
    let (_, error) = printed(folder, &["solve", "tiny.json", "--device", "cpu"], 0);
    assert!(error.starts_with("warning: ε = 1e-6 is as large as the values"), "{error}");
    assert_eq!(printed(folder, &["solve", "tiny.json", "--device", "cpu", "--epsilon", "1e-15"], 0).1, "");
    write(folder, "none.json", &MdpParts { action_rewards: Vec::new().into(), ..tiny }.validated().unwrap());
    let (_, error) = printed(folder, &["solve", "none.json", "--device", "cpu"], 0);
    assert!(error.starts_with("warning: the model has no rewards"), "{error}");
    let reach = ["solve", "none.json", "--device", "cpu", "--criterion", "reach", "--goal", "3"];
    assert_eq!(printed(folder, &reach, 0).1, "");
    assert_eq!(printed(folder, &["solve", "--generate", "forest --ages 9", "--device", "cpu"], 0).1, "");
}

/// The replacement problem with names.
fn named() -> Mdp {
    let mut parts = replacement(3).into_parts();
    parts.state_names = Some(["new", "worn", "old, loud"].map(str::to_owned).to_vec().into());
    let names = ["keep", "replace"].map(str::to_owned).to_vec();
    parts.action_names = Some(warpkov::mdp::model::ActionNames { names, of_row: vec![0, 1, 0, 1, 0, 1] });
    parts.validated().unwrap()
}

#[test]
fn rows_are_shown_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut parts = replacement(3).into_parts();
    parts.labels.insert("done".to_owned(), vec![2]);
    write(folder, "m.json", &parts.validated().unwrap());
    let (text, _) = printed(folder, &["info", "m.json", "--show", "0,2"], 0);
    let expected = "\
State 0
  Action 0: reward 10
    0.25     to 0
    0.75     to 1
  Action 1: reward -4
    1        to 0

State 2, label done
  Action 0: reward 6
    1        to 2
  Action 1: reward -4
    1        to 0
";
    assert_eq!(text, expected);
    let shown = object(folder, &["info", "m.json", "--show", "1"]);
    assert_eq!(
        shown["states"][0]["actions"][0]["successors"][1],
        json!({"state": 2, "name": "2", "probability": 0.75, "reward": 0.0})
    );
    let (_, error) = printed(folder, &["info", "m.json", "--show", "3"], 2);
    assert_eq!(error, "error: --show: found '3', expected a state: a number below 3\n");
    let long = Garnet { states: 100, actions: 20, branching: 40, ..Garnet::default() }.generate().unwrap();
    write(folder, "long.json", &long);
    let (text, _) = printed(folder, &["info", "long.json", "--show", "5"], 0);
    assert!(text.contains("to 28 more states (--all lists them)") && text.contains("… and 8 more actions"), "{text}");
    let (text, _) = printed(folder, &["info", "long.json", "--show", "5", "--all"], 0);
    assert_eq!(text.lines().count(), 1 + 20 * 41);
}

/// A plan that `solve` writes is read by all commands around policies, in each of its formats, by names where the model has names.
#[test]
fn a_plan_is_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let names = ["worn", "3", "new, shiny", "0"].map(str::to_owned).to_vec();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mdp = random_model(&mut random, 4, 1.0, true, 0);
    let mdp = MdpParts { state_names: Some(names.into()), ..mdp.into_parts() }.validated().unwrap();
    write(folder, "m.json", &mdp);
    let horizon = ["--horizon", "7", "--device", "cpu"];
    for file in ["plan.csv", "plan.json", "plan.npy"] {
        printed(folder, &[&["solve", "m.json", "--all-steps", file][..], &horizon].concat(), 0);
        let policy = file.replace("plan.npy", "plan.policy.npy");
        let evaluated = object(folder, &[&["policy", "evaluate", "m.json", &policy, "--gap"][..], &horizon].concat());
        // A plan that is followed step by step loses nothing.
        assert_eq!(evaluated["loss"]["states"], 0, "{file}: {evaluated}");
        assert!(evaluated["loss"]["upper"].as_f64().unwrap() < 1e-9, "{file}: {evaluated}");
        let simulate = [&["simulate", "m.json", &policy, "--start", "0"][..], &horizon].concat();
        let (with, without) = (object(folder, &simulate), object(folder, &[&simulate[..2], &simulate[3..]].concat()));
        // Without a policy, the optimal plan is simulated.
        assert_eq!((&with["mean"], &with["lower"]), (&without["mean"], &without["lower"]), "{file}");
        let (_, error) = printed(folder, &["policy", "evaluate", "m.json", &policy, "--horizon", "6"], 2);
        assert!(error.contains("a plan of 7 steps, expected one of 6 steps"), "{error}");
        let (_, error) = printed(folder, &["simulate", "m.json", &policy, "--gamma", "0.9"], 2);
        assert!(error.contains("the criterion has no steps"), "{error}");
    }
    printed(folder, &[&["simulate", "m.json", "plan.csv", "--out", "paths.csv"][..], &horizon].concat(), 0);
    let paths = fs::read_to_string(folder.join("paths.csv")).unwrap();
    assert!(paths.contains("\"new, shiny\"") && paths.contains("worn"), "{paths}");
    let text = fs::read_to_string(folder.join("plan.csv")).unwrap();
    assert!(text.starts_with("step,state,action,value,action_number\n0,worn,"), "{text}");
    fs::write(folder.join("hole.csv"), text.replace("\n3,", "\n30,")).unwrap();
    let (_, error) = printed(folder, &[&["policy", "evaluate", "m.json", "hole.csv"][..], &horizon].concat(), 2);
    assert!(error.contains("has no actions of step 3"), "{error}");
}

#[test]
fn a_policy_is_evaluated_and_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mdp = replacement(3);
    write(folder, "m.json", &mdp);
    fs::write(folder.join("keep.json"), r#"{"policy": [0, 0, 0], "values": [0, 0, 0]}"#).unwrap();
    // V(2) = 6 / (1 − γ) = 60, V(1) = (9 + 0.9·0.75·60) / (1 − 0.9/4), and so on.
    let next = |reward: f64, value: f64| (reward + 0.9 * 0.75 * value) / (1.0 - 0.9 / 4.0);
    let exact = [next(10.0, next(9.0, 60.0)), next(9.0, 60.0), 60.0];
    let found = object(folder, &["policy", "evaluate", "m.json", "keep.json", "--device", "cpu"]);
    let numbers = |name: &str| serde_json::from_value::<Vec<f64>>(found[name].clone()).unwrap();
    let (lower, upper) = (numbers("lower"), numbers("upper"));
    for state in 0..3 {
        assert!(lower[state] <= exact[state] && exact[state] <= upper[state], "{found}");
    }
    assert_eq!((&found["converged"], &found["policy"][0], &found["loss"]), (&json!(true), &json!("0"), &json!(null)));
    // To keep is optimal. To replace every year costs 4 / (1 − γ).
    fs::write(folder.join("replace.json"), r#"{"policy": [1, 1, 1], "values": [0, 0, 0]}"#).unwrap();
    let found = object(folder, &["policy", "evaluate", "m.json", "replace.json", "--device", "cpu", "--gap"]);
    let loss = &found["loss"];
    assert!((loss["max"].as_f64().unwrap() - (exact[0] + 40.0)).abs() < 1e-5, "{loss}");
    let words = [&loss["state"], &loss["action"], &loss["optimal_action"], &loss["states"]];
    assert_eq!(words, [&json!("0"), &json!("1"), &json!("0"), &json!(3)]);
    printed(folder, &["policy", "evaluate", "m.json", "keep.json", "--gap", "--out", "v.csv", "--device", "cpu"], 0);
    let text = fs::read_to_string(folder.join("v.csv")).unwrap();
    assert!(text.starts_with("state,action,value,lower,upper,optimal_action,optimal,loss\n0,0,"), "{text}");
    // An optimal policy loses nothing.
    printed(folder, &["solve", "m.json", "--device", "cpu", "--out", "best.json"], 0);
    let found = object(folder, &["policy", "evaluate", "m.json", "best.json", "--device", "cpu", "--gap"]);
    assert!(found["loss"]["upper"].as_f64().unwrap() < 4e-6, "{}", found["loss"]);
    assert_eq!(found["loss"]["states"], 0);
    let reach = ["policy", "evaluate", "m.json", "keep.json", "--device", "cpu", "--criterion", "reach", "--goal", "2"];
    assert_eq!(object(folder, &reach)["lower"][0], 1.0);
    let average = ["policy", "evaluate", "m.json", "keep.json", "--device", "cpu", "--criterion", "average"];
    assert!((object(folder, &average)["values"][0].as_f64().unwrap() - 6.0).abs() < 1e-6);

    let simulated = |more: &[&str]| {
        let found = object(folder, &[&["simulate", "m.json", "keep.json", "--device", "cpu"], more].concat());
        let number = |name: &str| found[name].as_f64().unwrap();
        (number("lower"), number("upper"), found)
    };
    let (lower, upper, found) = simulated(&["--start", "0", "--confidence", "0.999"]);
    assert!(lower <= exact[0] && exact[0] <= upper && upper - lower < 5.0, "{found}");
    let (lower, upper, found) = simulated(&["--confidence", "0.999"]);
    let mean = exact.iter().sum::<f64>() / 3.0;
    assert!(lower <= mean && mean <= upper, "{found}");
    assert_eq!(found["start_states"], 3);
    printed(
        folder,
        &[
            "simulate",
            "m.json",
            "--start",
            "1..2",
            "--episodes",
            "20",
            "--out",
            "paths.csv",
            "--paths",
            "2",
            "--steps",
            "5",
        ],
        0,
    );
    let paths = fs::read_to_string(folder.join("paths.csv")).unwrap();
    assert!(paths.starts_with("episode,step,state,action,reward,next\n0,0,") && paths.lines().count() == 11, "{paths}");

    for (arguments, word) in [
        (&["simulate", "m.json", "keep.json", "--gamma", "1"][..], "gamma is 1"),
        (&["simulate", "m.json", "--start", "nowhere"], "--start: found 'nowhere'"),
        (&["simulate", "m.json", "--confidence", "1"], "expected a number between 0 and 1"),
        (&["policy", "evaluate", "m.json", "keep.json", "--criterion", "reach"], "needs --goal"),
        (&["policy", "evaluate", "m.json", "none.json"], "none.json"),
        (&["q", "m.json", "--gamma", "1"], "gamma is 1"),
        (&["sensitivity", "m.json", "--gamma", "0.9..0.5"], "expected FROM..TO"),
        (&["sensitivity", "m.json", "--gamma", "0.5..0.9", "--start", "0..1"], "found 2 states, expected one"),
    ] {
        let (_, error) = printed(folder, arguments, 2);
        assert!(error.contains(word), "{arguments:?}: {error}");
    }
}

#[test]
fn names_are_in_reports() {
    use warpkov::common::report::{Report, Results};
    use warpkov::mdp::ask::show::Shown;
    use warpkov::mdp::ask::table::TableFormat;
    let mdp = named();
    let text = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    };
    let shown = text(&|out| Shown::new(&mdp, vec![2], false).write_text(out).unwrap());
    assert!(
        shown.contains("State old, loud (number 2)\n  Action keep (number 0): reward 6\n    1        to old, loud\n"),
        "{shown}"
    );
    let solve = on_cpu(1e-6).discounted(0.9);
    let solution = warpkov::mdp::Solve::new(&mdp, &solve).run().unwrap();
    let factors = q_factors(&mdp, &solution.values, solution.certificate.bound);
    let report = warpkov::mdp::ask::q::QReport { mdp: &mdp, solution: &solution, converged: true, factors: &factors };
    let csv = text(&|out| report.write_as(TableFormat::Csv, out).unwrap());
    assert!(
        csv.starts_with("state,action,q,advantage\nnew,keep,") && csv.contains("\n\"old, loud\",replace,"),
        "{csv}"
    );
    let policy = [0, 0, 1];
    let of = chain(&mdp, &policy).unwrap();
    assert_eq!((of.state_name(1), of.action_name(2, 0)), ("worn".to_owned(), "replace".to_owned()));
    let options = simulate::Options { episodes: 1, steps: Some(4), seed: 0, starts: vec![2], confidence: 0.9 };
    let paths =
        text(&|out| Simulator::new(&of, None, options.clone()).unwrap().write_paths(1, &mdp, &policy, out).unwrap());
    assert!(paths.contains("\n0,0,\"old, loud\",replace,-4.0,new\n0,1,new,keep,10.0,"), "{paths}");
}

/// The value over γ, against a closed form, and the γ at which waiting becomes better than cutting.
#[test]
fn sensitivity_finds_the_change_of_the_action() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // From 0: 1 at once and then nothing, or 3 after two steps: 3γ² > 1 for γ > 1/√3.
    let end = || (vec![(3, 1.0)], 0.0);
    let states = [
        vec![(vec![(3, 1.0)], 1.0), (vec![(1, 1.0)], 0.0)],
        vec![(vec![(2, 1.0)], 0.0)],
        vec![(vec![(3, 1.0)], 3.0)],
        vec![end()],
    ];
    write(folder, "m.json", &model(0.9, &states).validated().unwrap());
    let arguments =
        ["sensitivity", "m.json", "--gamma", "0.1..0.95", "--device", "cpu", "--points", "18", "--plot", "g.svg"];
    let found = object(folder, &arguments);
    let points = found["points"].as_array().unwrap();
    assert_eq!((points.len(), points[0]["gamma"].as_f64(), points[17]["gamma"].as_f64()), (18, Some(0.1), Some(0.95)));
    for point in points {
        let number = |name: &str| point[name].as_f64().unwrap();
        let (gamma, exact) = (number("gamma"), f64::max(1.0, 3.0 * number("gamma").powi(2)));
        assert!((number("value") - exact).abs() <= number("error").max(1e-12) && number("error") <= 1e-6, "{point}");
        assert_eq!(point["action"], if gamma < 0.577 { "0" } else { "1" });
    }
    let changes = found["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    let [low, high] = [0, 1].map(|end| changes[0]["between"][end].as_f64().unwrap());
    let exact = 1.0 / 3f64.sqrt();
    assert!(low <= exact + 1e-6 && exact <= high + 1e-6 && high - low <= 1e-4, "{low} {high}");
    let svg = fs::read_to_string(folder.join("g.svg")).unwrap();
    assert!(svg.contains("V*(0) over the discount factor"), "{svg}");
}

#[test]
fn q_factors_are_written_in_all_forms() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "m.json", &replacement(3));
    let found = object(folder, &["q", "m.json", "--device", "cpu"]);
    let (q, value) = (&found["states"][2]["actions"][0]["q"], &found["states"][2]["value"]);
    assert!(
        q.as_f64().unwrap() <= value.as_f64().unwrap() + 1e-6 && found["bound"].as_f64().unwrap() <= 0.9e-6,
        "{found}"
    );
    printed(folder, &["q", "m.json", "--device", "cpu", "--out", "q.npy"], 0);
    let bytes = fs::read(folder.join("q.npy")).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("'shape': (3, 2)"));
    let (csv, _) = printed(folder, &["q", "m.json", "--device", "cpu", "--out", "-"], 0);
    assert!(csv.starts_with("state,action,q,advantage\n0,0,") && csv.lines().count() == 7, "{csv}");
    let (text, _) = printed(folder, &["q", "m.json", "--device", "cpu"], 0);
    assert!(text.contains("Certified        |Q − Q*| ≤ "), "{text}");
}
