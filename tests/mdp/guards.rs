//! Guards against another model than the one meant: rows in another order, transposed matrices, and what else looks wrong.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value as Json;
use warpkov::common::choice::Choice;
use warpkov::mdp::analysis::guards::{
    Kind, Purpose, Warning, inspect, inspect_quickly, looks_action_major, rewards_look_action_major,
};
use warpkov::mdp::generate::{
    CarRental, Consensus, Csma, Firewire, Forest, Gambler, Garnet, Inventory, QueueNetwork, RewardOf, SlipGrid,
    SuttonGrid, WetFloor, Zeroconf,
};
use warpkov::mdp::io::{ReadOptions, read_from};
use warpkov::mdp::model::{Choices, Csr, Mdp, MdpParts};

use crate::models::{model, object, printed, replacement, write};

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
