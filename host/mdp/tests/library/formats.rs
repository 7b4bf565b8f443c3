//! Models in files: round trips, error messages, and solutions against exact ones of small models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov_mdp::backend::Evaluate;
use warpkov_mdp::backends::cpu::{Parallel, Serial};
use warpkov_mdp::certificate::certify;
use warpkov_mdp::generate::SlipGrid;
use warpkov_mdp::io::{
    Format, ReadOptions, open_parts, read, read_from, read_from_noted, read_json, read_policy, read_values, write,
    write_csv, write_csv_named, write_json, write_npy, write_to,
};
use warpkov_mdp::model::{ActionNames, Csr, Mdp, MdpParts, NO_ACTION, Whole};
use warpkov_mdp::options::{Limits, Target};
use warpkov_mdp::solve::loops::{policy_iteration, to_the_end};

use crate::exact::{distance, linear};

fn data(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("data").join(name)
}

/// The grid of Listing A.1.
fn listing_grid() -> SlipGrid {
    SlipGrid { width: 2, height: 2, ..SlipGrid::default() }
}

/// The Q-factor Σ P·(R + γV) of a row, with R looked up entry by entry.
fn q(mdp: &Mdp, values: &[f64], row: usize) -> f64 {
    let ((successors, probs), (ends, rewards)) = (mdp.transitions().row(row), mdp.rewards().row(row));
    let reward = |s: u32| ends.iter().position(|&end| end == s).map_or(0.0, |i| rewards[i]);
    successors.iter().zip(probs).map(|(&s, p)| p * (reward(s) + mdp.gamma() * values[s as usize])).sum()
}

/// V* by policy iteration with direct evaluation.
fn exact(mdp: &Mdp) -> Vec<f64> {
    let (states, actions) = (mdp.states() as usize, mdp.choices().max() as usize);
    let mut policy = vec![0; states];
    loop {
        let mut a = vec![vec![0.0; states]; states];
        for s in 0..states {
            a[s][s] = 1.0;
            let (successors, probs) = mdp.transitions().row(s * actions + policy[s]);
            for (&successor, p) in successors.iter().zip(probs) {
                a[s][successor as usize] -= mdp.gamma() * p;
            }
        }
        let zero = vec![0.0; states];
        let values = linear(a, (0..states).map(|s| q(mdp, &zero, s * actions + policy[s])).collect());
        let mut stable = true;
        for (s, own) in policy.iter_mut().enumerate() {
            for action in 0..actions {
                if q(mdp, &values, s * actions + action) > q(mdp, &values, s * actions + *own) + 1e-12 {
                    (*own, stable) = (action, false);
                }
            }
        }
        if stable {
            return values;
        }
    }
}

fn solved<B: Evaluate<Error = std::convert::Infallible>>(mut backend: B, theta: f64) -> Vec<f64> {
    let limits = Limits { target: Target::Theta(theta), max_sweeps: 3000, max_policies: 100, tie: 1e-12 };
    let Ok(_) = policy_iteration(&mut backend, theta, &limits, to_the_end);
    let Ok(values) = backend.values();
    values
}

fn same(a: &Mdp, b: &Mdp) {
    let bits = |matrix: &Csr| matrix.val().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(
        (a.states(), a.choices().max(), a.gamma().to_bits()),
        (b.states(), b.choices().max(), b.gamma().to_bits())
    );
    for (a, b) in [(a.transitions(), b.transitions()), (a.rewards(), b.rewards())] {
        assert_eq!((&a.row_ptr()[..], &a.col()[..], bits(a)), (&b.row_ptr()[..], &b.col()[..], bits(b)));
    }
    assert_eq!(a.grid(), b.grid());
}

/// A random model whose P and R have different sparsity patterns.
fn random(seed: u64) -> Mdp {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: u32| random.next_u32() % n;
    let (states, actions) = (1 + below(12), 1 + below(4));
    let gamma = f64::from(below(96)) / 100.0;
    let mut matrix = |least: u32, value: fn(u32) -> f64, distribution: bool| {
        let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
        for _ in 0..states * actions {
            let mut cells: Vec<u32> = (0..states).collect();
            let length = least.max(below(states.min(5) + 1));
            for i in 0..length {
                cells.swap(i as usize, (i + below(states - i)) as usize);
            }
            let values: Vec<f64> = (0..length).map(|_| value(below(1000))).collect();
            let sum: f64 = if distribution { values.iter().sum() } else { 1.0 };
            col.extend(&cells[..length as usize]);
            val.extend(values.iter().map(|x| x / sum));
            row_ptr.push(col.len() as u64);
        }
        Csr::new(row_ptr, col, val).unwrap()
    };
    let transitions = matrix(1, |draw| f64::from(1 + draw), true);
    let rewards = matrix(0, |draw| f64::from(draw) / 100.0 - 5.0, false);
    Mdp::new(states, actions, gamma, transitions, rewards, None).unwrap()
}

#[test]
fn malformed_files_are_reported() {
    let expected = std::fs::read(data("malformed/expected.json")).unwrap();
    let expected: BTreeMap<String, String> = serde_json::from_slice(&expected).unwrap();
    let folder = data("malformed");
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "expected.json");
    names.sort();
    assert_eq!(names, expected.keys().cloned().collect::<Vec<_>>());
    let prefix = format!("{}{}", folder.display(), std::path::MAIN_SEPARATOR);
    for (name, message) in expected {
        let found = read(&folder.join(&name)).err().unwrap_or_else(|| panic!("{name} is read")).to_string();
        assert_eq!(found.replace(&prefix, ""), message);
    }
}

#[test]
fn corrupt_safetensors_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.safetensors");
    let mut parts = read(&data("table-3.1.json")).unwrap().into_parts();
    parts.state_names = Some(Arc::new(["é", "", "long name"].map(str::to_owned).to_vec()));
    parts.action_names =
        Some(ActionNames { names: vec!["x".to_owned(), "y".to_owned()], of_row: vec![0, 1, 0, 1, 0, 1] });
    write(&path, &parts.validated().unwrap()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for position in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[position] ^= 0x15;
        std::fs::write(&path, &bytes).unwrap();
        let _ = read(&path);
        if let Ok(Some(mapped)) = open_parts(&path, &ReadOptions::default()) {
            let _ = mapped.rows(0..mapped.states());
            let names = mapped.names();
            names.iter().for_each(|names| drop((0..4).map(|state| names.name_of_state(state)).collect::<Vec<_>>()));
        }
        std::fs::write(&path, &whole[..position]).unwrap();
        assert!(read(&path).is_err());
    }
}

#[test]
fn round_trips_keep_every_bit() {
    let folder = tempfile::tempdir().unwrap();
    let grid = SlipGrid { width: 13, height: 7, walls: 0.2, obstacles: 0.1, ..SlipGrid::default() };
    let grid = SlipGrid { slip: 1.0 / 3.0, gamma: 0.1 + 0.2, goal_reward: 1e-300, obstacle_penalty: 1e300, ..grid };
    let models = (0..50).map(random).chain([grid.generate().unwrap(), listing_grid().generate().unwrap()]);
    for mdp in models {
        let [json, tensors, unnamed] = ["a.json", "a.safetensors", "a"].map(|name| folder.path().join(name));
        write(&json, &mdp).unwrap();
        let from_json = read(&json).unwrap();
        same(&mdp, &from_json);
        write(&tensors, &from_json).unwrap();
        let mapped = read(&tensors).unwrap();
        same(&mdp, &mapped);
        let mut text = Vec::new();
        write_json(&mut text, &mapped).unwrap();
        assert_eq!(text, std::fs::read(&json).unwrap());
        same(&mdp, &read_json(&text[..], "text").unwrap());
        for source in [&json, &tensors] {
            std::fs::copy(source, &unnamed).unwrap();
            same(&mdp, &read(&unnamed).unwrap());
        }
    }
}

#[test]
fn notes_and_any_order_are_accepted() {
    let text = r#" {"R": {"data": [-1.5E0], "indptr": [0, 1], "indices": [0], "_note": {"a": [1, "}"]}},
        "comment": "x", "gamma": 0, "A": 1, "P": {"indices": [0], "data": [1], "indptr": [0, 1]}, "S": 1}
        "#;
    let mdp = read_json(text.as_bytes(), "text").unwrap();
    assert_eq!((mdp.expected_rewards(), mdp.grid()), (vec![-1.5], None));
    let said = |from: &str, to: &str| read_json(text.replace(from, to).as_bytes(), "m").err().unwrap().to_string();
    let message = said("\"gamma\"", "\"gama\"");
    assert!(
        message.starts_with("m:2:31: unknown key \"gama\", did you mean \"gamma\"? (known keys: gamma, "),
        "{message}"
    );
    let message = said("_note", "notes");
    assert!(message.starts_with("m:1:68: R: unknown key \"notes\" (known keys: indptr, indices, data; "), "{message}");
}

#[test]
fn listing_a1_is_a_generated_grid() {
    let (listing, grid) = (read(&data("listing-a1.json")).unwrap(), listing_grid().generate().unwrap());
    assert_eq!(listing.transitions().row_ptr()[..], grid.transitions().row_ptr()[..]);
    assert_eq!(listing.transitions().col()[..], grid.transitions().col()[..]);
    assert_eq!(listing.transitions().val()[..], grid.transitions().val()[..]);
    assert_eq!(listing.expected_rewards(), grid.expected_rewards());
}

#[test]
fn models_of_the_source_are_solved_exactly() {
    for name in ["listing-a1.json", "table-3.1.json"] {
        let mdp = read(&data(name)).unwrap();
        let found = distance(&solved(Serial::<f64>::new(&mdp), 1e-15), &exact(&mdp));
        assert!(found < 1e-12, "{name}: {found:e}");
    }
}

#[test]
fn random_models_are_solved_and_certified() {
    for seed in 0..200 {
        let mdp = random(seed);
        let optimal = exact(&mdp);
        for theta in [1e-15, 1e-3] {
            for values in [solved(Serial::<f64>::new(&mdp), theta), solved(Parallel::<f64>::new(&mdp), theta)] {
                let (found, bound) = (distance(&values, &optimal), certify(&mdp, &values).bound.unwrap());
                // The reference V* has rounding errors.
                assert!(found <= bound + 1e-12, "{seed}: {found:e} above {bound:e}");
                assert!(theta > 1e-15 || found < 1e-10, "{seed}: {found:e}");
            }
        }
    }
}

/// A model whose probabilities and rewards have many magnitudes, and its P and R as tables with row s·A + a.
fn tables(seed: u64) -> (u32, u32, Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: u32| random.next_u32() % n;
    let (states, actions) = (1 + below(6), 1 + below(4));
    let rows = (states * actions) as usize;
    let p = (0..rows).map(|_| {
        let mut row: Vec<f64> =
            (0..states).map(|_| if below(3) == 0 { 0.0 } else { 10f64.powi(-(below(18) as i32)) }).collect();
        row[below(states) as usize] += 1.0;
        let sum: f64 = row.iter().sum();
        row.iter().map(|p| p / sum).collect()
    });
    let p: Vec<Vec<f64>> = p.collect();
    let sign = |draw: u32| if draw == 0 { -1.0 } else { 1.0 };
    let r = p.iter().map(|row| {
        let reward = |p: &f64| if *p == 0.0 { 0.0 } else { 10f64.powi(below(600) as i32 - 300) * sign(below(2)) };
        row.iter().map(reward).collect()
    });
    let r = r.collect();
    (states, actions, p, r)
}

/// A table with row s·A + a as JSON, in either order.
fn nested(rows: &[Vec<f64>], states: u32, actions: u32, by_action: bool) -> String {
    let row = |s: u32, a: u32| serde_json::to_string(&rows[(s * actions + a) as usize]).unwrap();
    let outer = if by_action { actions } else { states };
    let inner = if by_action { states } else { actions };
    let part = |i: u32| {
        let rows: Vec<_> = (0..inner).map(|j| if by_action { row(j, i) } else { row(i, j) }).collect();
        format!("[{}]", rows.join(","))
    };
    format!("[{}]", (0..outer).map(part).collect::<Vec<_>>().join(",\n"))
}

fn from_text(text: &str) -> Mdp {
    read_from(text.as_bytes(), "text", &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn fault(text: &str) -> String {
    read_from(text.as_bytes(), "m", &ReadOptions::default())
        .err()
        .unwrap_or_else(|| panic!("{text} is read"))
        .to_string()
}

#[test]
fn all_forms_of_a_model_are_equal() {
    for seed in 0..200 {
        let (states, actions, p, r) = tables(seed);
        let table = |rows, by_action| nested(rows, states, actions, by_action);
        let by_action = from_text(&format!(
            "{{\"gamma\":0.5,\"P[a][s][s']\":{},\"R[a][s][s']\":{}}}",
            table(&p, true),
            table(&r, true)
        ));
        let by_state = from_text(&format!(
            "{{\"R[s][a][s']\":{},\"P[s][a][s']\":{},\"gamma\":0.5}}",
            table(&r, false),
            table(&p, false)
        ));
        same(&by_action, &by_state);
        assert_eq!((by_action.states(), by_action.choices().max()), (states, actions), "{seed}");
        for (row, expected) in p.iter().enumerate() {
            let (columns, values) = by_action.transitions().row(row);
            let mut found = vec![0.0; states as usize];
            columns.iter().zip(values).for_each(|(&column, &value)| found[column as usize] = value);
            assert_eq!(&found, expected, "{seed}");
        }
        // CSR, CSV and lists of transitions of the same model.
        let mut bytes = Vec::new();
        write_json(&mut bytes, &by_action).unwrap();
        same(&by_action, &read_json(&bytes[..], "csr").unwrap());
        bytes.clear();
        write_to(&mut bytes, Format::Csv, &by_action).unwrap();
        let csv = String::from_utf8(bytes).unwrap();
        same(&by_action, &from_text(&csv).with_gamma(0.5).unwrap());
        let mut lines: Vec<_> = csv.lines().skip(1).collect();
        let entries = lines.iter().map(|line| {
            let fields: Vec<_> = line.split(',').collect();
            let [state, action, next, p, reward] = fields[..] else { panic!("{line}") };
            format!(
                "{{\"next\":{next},\"state\":\"{state}\",\"probability\":{p},\"action\":{action},\"reward\":{reward}}}"
            )
        });
        let list = format!("{{\"gamma\":0.5,\"transitions\":[{}]}}", entries.collect::<Vec<_>>().join(","));
        same(&by_action, &from_text(&list));
        lines.reverse();
        let shuffled = format!("state,action,next,probability,reward\r\n{}", lines.join("\r\n\r\n"));
        same(&by_action, &from_text(&shuffled).with_gamma(0.5).unwrap());
    }
    // Rewards of states and of actions.
    let p = "\"gamma\":0.5,\"P[a][s][s']\":[[[1,0],[0,1]],[[0,1],[1,0]],[[0.5,0.5],[0,1]]]";
    for (rewards, expected) in [
        ("\"R[s]\":[1,-2]", [1.0, 1.0, 1.0, -2.0, -2.0, -2.0]),
        ("\"R[s][a]\":[[1,2,3],[4,5,6]]", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("\"R[a][s]\":[[1,4],[2,5],[3,6]]", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("\"S\":2,\"A\":3", [0.0; 6]),
    ] {
        assert_eq!(from_text(&format!("{{{p},{rewards}}}")).expected_rewards(), expected, "{rewards}");
    }
    let ends =
        from_text("{\"gamma\":1,\"P[s][a][s']\":[[[0.5,0],[0,1]],[[0,1],[1,0]]],\"ends[s][a]\":[[0.5,0],[0,0]]}");
    assert_eq!(ends.ends()[..], [0.5, 0.0, 0.0, 0.0]);
}

#[test]
fn messages_name_states_and_actions() {
    let names = r#""state_names":["cold","hot\u001b"],"action_names":["wait","stop"]"#;
    let of = |rest: &str| fault(&format!("{{\"gamma\":0.5,{names},{rest}}}"));
    let p = "\"P[a][s][s']\":[[[1,0],[0,1]],[[0,1],[0.5,0]]]";
    let message = of(&format!("{p},\"R[s]\":[0,0]"));
    assert!(message.contains("P row 3 (state hot\\u{1b}, action stop): probabilities sum to 0.5"), "{message}");
    let p = "\"P[a][s][s']\":[[[1,0],[0,1]],[[0,1],[1,0]]]";
    let message = of(&format!("{p},\"ends[s][a]\":[[0,0.5],[0,0]],\"R[s]\":[0,0]"));
    assert!(message.contains("P row 1 (state cold, action stop): probabilities sum to 1.5"), "{message}");
    let message = of(&format!("{p},\"ends[s][a]\":[[0,-0.5],[0,0]],\"R[s]\":[0,0]"));
    assert!(message.contains("ends row 1 (state cold, action stop) is -0.5, expected a probability"), "{message}");
}

#[test]
fn names_survive_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let texts = ["new", " worn, \"out\" ", "é\u{1f600}", "7", "end"];
    for seed in 0..20 {
        let mut parts = random(seed).into_parts();
        let (states, rows) = (parts.states, parts.transitions.rows());
        let names = (0..states).map(|s| format!("{}{s}", texts[s as usize % texts.len()])).collect();
        parts.state_names = Some(Arc::new(names));
        let actions = parts.choices.max();
        parts.action_names = Some(ActionNames {
            names: (0..actions).map(|a| format!("{}{a}", texts[a as usize % texts.len()])).collect(),
            of_row: (0..rows as u32).map(|row| row % actions).collect(),
        });
        parts.labels = [("init".to_owned(), vec![states - 1])].into();
        let mdp = parts.validated().unwrap();
        for name in ["a.json", "a.csv", "a.safetensors", "a.npz"] {
            let path = folder.path().join(name);
            write(&path, &mdp).unwrap();
            let back = read(&path).unwrap().with_gamma(mdp.gamma()).unwrap();
            assert_eq!((back.state_names(), back.action_names()), (mdp.state_names(), mdp.action_names()), "{name}");
            assert_eq!(back.transitions().val()[..], mdp.transitions().val()[..], "{name}");
            if let Some(mapped) = open_parts(&path, &ReadOptions::default()).unwrap() {
                let names = mapped.names().unwrap();
                for state in 0..states {
                    assert_eq!(names.name_of_state(state.into()), mdp.state_name(state));
                    let last = actions - 1;
                    assert_eq!(names.name_of_action(state.into(), last), mdp.action_name(state, last));
                }
                for (states, whole) in [(0..1, 0..1), (0..u64::from(states), 0..u64::from(states))] {
                    assert_eq!(mapped.rows(states).unwrap().count(), mdp.choices().max() as usize * whole.count());
                }
            }
        }
        // A state that takes up the end of the process has a name, too.
        let ends = vec![1.0; rows];
        let transitions = Csr::empty(rows);
        let ended = MdpParts { ends: ends.into(), transitions, ..mdp.clone().into_parts() }.validated().unwrap();
        let path = folder.path().join("b.csv");
        write(&path, &ended).unwrap();
        let back = read(&path).unwrap();
        assert_eq!(back.state_names().unwrap()[..states as usize], *mdp.state_names().unwrap());
        assert_eq!(back.states(), states + 1);
    }
    // Labels by name, in any order, and names beside a list of transitions.
    let list = r#"{"gamma":0.9,"state_names":["b","a","c"],"action_names":["y","x"],"labels":{"init":["a","b"]},"transitions":[
        {"state":"a","action":"x","next":"c","probability":1},{"state":"a","action":"y","next":"b","probability":1},
        {"state":"b","action":"x","next":"a","probability":1}]}"#;
    let mdp = from_text(list);
    assert_eq!(mdp.state_names().unwrap(), ["b", "a", "c"]);
    assert_eq!(mdp.labels()["init"], [0, 1]);
    assert_eq!(
        ((0..2).map(|a| mdp.action_name(1, a)).collect::<Vec<_>>(), mdp.action_name(0, 0)),
        (vec!["y".into(), "x".into()], "x".into())
    );
    let wrong = |from: &str, to: &str| fault(&list.replacen(from, to, 1));
    assert!(
        wrong("\"next\":\"c\"", "\"next\":\"cc\"")
            .contains("transitions[0]: found the next state \"cc\", expected one of the given names")
    );
    assert!(
        wrong("[\"a\",\"b\"]", "[\"a\",\"d\"]")
            .contains("label \"init\": found \"d\", expected a state's name or number")
    );
}

#[test]
fn what_is_ambiguous_is_an_error() {
    let p = |table: &str| fault(&format!("{{\"gamma\":0.9,\"P\":{table}}}"));
    assert_eq!(
        p("[[[1,0],[0,1]],[[0,1],[1,0]]]"),
        "m:1:46: P: found a table of 2 × 2 × 2 numbers without its order, expected the key \"P[a][s][s']\" (2 states, 2 actions) \
         or the key \"P[s][a][s']\" (2 states, 2 actions)"
    );
    assert!(p("[[[1,0],[0,1]]]").ends_with(
        "the key \"P[a][s][s']\" (2 states, 1 actions) or the key \"P[s][a][s']\" (does not fit: 1 states and rows of 2)"
    ));
    // Four states: rows of four numbers are not Gymnasium's transitions.
    let four = "[[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]]";
    assert!(p(four).contains("1 × 4 × 4"), "{}", p(four));
    assert!(fault(four).contains("expected an object"), "{}", fault(four));
    let gymnasium = from_text("{\"gamma\":0.9,\"P\":[[[[1,0,5,0]]]]}");
    assert_eq!((gymnasium.states(), gymnasium.gamma()), (1, 0.9));
    assert_eq!(from_text("[[[],[[1,1,5,true]]],[]]".replace("[],[[", "[[").as_str()).ends()[..], [1.0]);
    assert!(fault("{\"P\":[[[[1,0,5,0]]]],\"gama\":0.9}").contains("unknown key \"gama\", did you mean \"gamma\"?"));

    let of = |keys: &str| fault(&format!("{{\"gamma\":0.9,\"P[a][s][s']\":[[[1,0],[0,1]]],{keys}}}"));
    for (keys, message) in [
        ("\"R\":[1,2]", "R: found a table of 2 numbers without its order, expected the key \"R[s]\""),
        (
            "\"R\":[[1],[2]]",
            "R: found a table of 2 × 1 numbers without its order, expected the key \"R[s][a]\" or \"R[a][s]\"",
        ),
        ("\"R[s][a]\":[[1,2]]", "R[s][a] is of 1 × 2 numbers, expected 2 × 1"),
        ("\"R[s][a][s']\":[[[1,2],[1,2]]]", "R[s][a][s'] is of 1 × 2 × 2 numbers, expected 2 × 1 × 2"),
        ("\"R[s]\":[1,2],\"R[s][a]\":[[1],[2]]", "found two tables of rewards, expected one"),
        ("\"action_rewards\":[1,2]", "keys \"R\" and \"action_rewards\" are for the rows of \"P\""),
        ("\"ends\":[0,0]", "key \"ends\" is for the rows of \"P\", expected \"ends[s][a]\""),
        ("\"choices\":[0,1,2]", "key \"choices\" is for the rows of \"P\" only"),
        ("\"S\":3", "S is 3, and the transitions have 2"),
        ("\"A\":2", "A is 2, and the transitions have 1"),
        (
            "\"P\":{\"indptr\":[0],\"indices\":[],\"data\":[]}",
            "found both \"P\" and \"P[a][s][s']\", expected one of them",
        ),
        ("\"action_names\":[\"x\",\"y\"]", "action_names has 2 elements, expected one per action, 1"),
        ("\"state_names\":[\"x\"]", "state_names has 1 elements, expected one per state, 2"),
        ("\"state_names\":[\"x\",\"x\"]", "state_names[1] is \"x\", as state_names[0]; expected distinct names"),
        ("\"statenames\":[]", "unknown key \"statenames\", did you mean \"state_names\"?"),
        ("\"objective\":\"min\"", "objective: found string \"min\", expected \"maximize\" or \"minimize\""),
    ] {
        assert!(of(keys).contains(message), "{keys}: {}", of(keys));
    }
    let table = |key: &str, table: &str| fault(&format!("{{\"gamma\":0.9,\"{key}\":{table}}}"));
    assert!(table("P[s][a][s']", "[[[1,0],[0,1]]]").contains(
        "P[s][a][s'] is of 1 × 2 × 2 numbers, expected S × A × S (as \"P[a][s][s']\" it has 2 states and 1 actions)"
    ));
    assert!(table("P[a][s][s']", "[[[1,0],[0]]]").contains("found 1 entries, expected 2"));
    assert!(table("P[a][s][s']", "[[[1,\"x\"],[0,1]]]").contains("found string \"x\", expected a number"));
    assert!(table("P[a][s][s']", "[]").contains("has 1 levels of arrays, expected 3"));
    assert!(table("P[a][s][s']", "[[[]]]").contains("expected A × S × S"));
    assert!(table("P[a][s][s]", "[[[1]]]").contains("unknown key \"P[a][s][s]\", did you mean \"P[a][s][s']\"?"));
    assert!(table("P[a][s][s']", "[[[0.5,0.4],[0,1]]]").contains("probabilities sum to 0.9"));
    assert!(fault("{\"gamma\":0.9}").contains("key \"P\" is missing (or P[a][s][s'], P[s][a][s'], transitions)"));
}

#[test]
fn tables_of_rows_are_checked() {
    let csv = |rows: &str| fault(&format!("state,action,next,probability,reward\n{rows}"));
    for (rows, message) in [
        ("", "m: found no transitions, expected at least one"),
        ("a,x,b,0.5,1\nb,x,b,1,0\n", "m:2: the probabilities of action x of state a sum to 0.5, expected 1"),
        (
            "a,x,b,1,1\nb,x,b,1,0\na,x,b,1,2",
            "m:4: action x of state a leads to state b here and in line 2, expected once",
        ),
        ("a,x,b,1.5,1", "m:2: found the probability 1.5, expected a number in [0, 1]"),
        ("a,x,b,-1,1", "m:2: found the probability -1, expected a number in [0, 1]"),
        ("a,x,b,NaN,1", "m:2: found \"NaN\", expected a probability"),
        ("a,x,b,1,inf", "m:2: found \"inf\", expected a reward"),
        ("a,x,b,,1", "m:2: found no probability"),
        ("a,,b,1,1", "m:2: found no action, expected a name or a number"),
        ("a,x,,1,1", "m:2: found no next state, expected a name or a number"),
        (",x,b,1,1", "m:2: found no state, expected a name or a number"),
        ("a,x,b,1", "m:2: found 4 fields, expected 5, as in the header"),
        (
            "1,0,2,1,1\n2,0,1,1,1",
            "m: the states are numbered from 1 to 2, expected the numbers from 0 to S − 1 without gaps, or names",
        ),
        (
            "0,0,1,1,1\n\n1,0,4294967290,1,1",
            "m:4: found state 4294967290, but no state 2; expected the numbers from 0 to S − 1 without gaps, or names",
        ),
        ("\"a,x,b,1,1", "m:2: a field in quotation marks does not end in its line"),
    ] {
        assert_eq!(csv(rows), message, "{rows}");
    }
    for (text, message) in [
        (
            "state,action,next,probability,q\n",
            "m:1: found the unknown column \"q\", expected state, action, next, probability; optional: reward",
        ),
        ("state,action,next,probability,p\n", "m:1: found the column probability twice"),
        ("state|action|next|probability\n0|0|0|1", "m:1: found columns separated by vertical bars, expected commas"),
        ("state;action;next;probability\n0;0;0;0,5", "m:2: found \"0,5\", expected a probability"),
        ("state,action,next,probability,state\n", "m:1: found the column state twice"),
    ] {
        assert_eq!(fault(text), message);
    }
    let options = ReadOptions { format: Some(Format::Csv), ..ReadOptions::default() };
    let forced = |text: &str| read_from(text.as_bytes(), "m", &options).err().unwrap().to_string();
    assert!(
        forced("").starts_with("m: the file ends, expected a header with the columns state, action, next, probability")
    );
    assert!(forced("state,value,action\n").starts_with("m:1: found the columns state, value, action, but no next"));

    // A byte-order mark, blanks, quotation marks, fractions; the reward is optional.
    let text = "\u{feff}probability , \"next\",state, action\r\n1/3,\"a, b\", c ,go\r\n2/3,c,c,go\r\n";
    let mut notes = Vec::new();
    let mdp = read_from_noted(text.as_bytes(), "m", &ReadOptions::default(), &mut |note| notes.push(note)).unwrap();
    assert_eq!((mdp.state_names().unwrap(), mdp.gamma()), (&["c", "a, b"].map(str::to_owned)[..], 1.0));
    assert_eq!(mdp.transitions().val()[..], [2.0 / 3.0, 1.0 / 3.0]);
    assert_eq!(notes, ["the state a, b has no actions: the process ends there"]);
    // What other programs write: columns of other names, and separated by semicolons or tabs.
    for separator in [",", ";", "\t"] {
        let text = "s,a,next_state,prob,r\n0,0,1,1/4,2\n0,0,0,0.75,-2\n1,0,1,1,0\n".replace(',', separator);
        let mdp = from_text(&text);
        assert_eq!(mdp.transitions().val()[..], [0.75, 0.25, 1.0], "{separator:?}");
        assert_eq!(mdp.transitions().col()[..], [0, 1, 1]);
    }
    // A state that is said to be terminal needs no note, and has its place in the order.
    notes.clear();
    let text = "state,action,next,probability\nx,,,\na,go,x,1\n";
    let mdp = read_from_noted(text.as_bytes(), "m", &ReadOptions::default(), &mut |note| notes.push(note)).unwrap();
    assert_eq!((mdp.state_names().unwrap(), notes.len()), (&["x", "a"].map(str::to_owned)[..], 0));
    // Numbers of actions with gaps are names.
    let mdp = from_text("state,action,next,probability\n0,7,0,1\n0,3,0,1\n");
    assert_eq!((mdp.action_name(0, 0), mdp.action_name(0, 1), mdp.state_names()), ("3".into(), "7".into(), None));
}

#[test]
fn policies_are_read_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mdp = from_text(
        "state,action,next,probability\nnew,keep,worn,1\nnew,replace,new,1\nworn,keep,end,1\nworn,replace,new,1\nend,,,\n",
    );
    let policy = [0, 1, NO_ACTION];
    let values = [1.5, -2.0, 0.0];
    let mut named = Vec::new();
    write_csv_named(&mut named, &values, &policy, mdp.names().unwrap()).unwrap();
    let text = "state,value,action,state_number,action_number\nnew,1.5,keep,0,0\nworn,-2.0,replace,1,1\nend,0.0,,2,\n";
    assert_eq!(String::from_utf8(named.clone()).unwrap(), text);
    let mut plain = Vec::new();
    write_csv(&mut plain, &values, &policy).unwrap();
    let mut npy = Vec::new();
    write_npy(&mut npy, &policy).unwrap();
    let mut signed = Vec::new();
    write_npy(&mut signed, &[0_i64, 1, -1]).unwrap();
    for (name, bytes) in [
        ("named.csv", &named[..]),
        ("plain.csv", &plain),
        ("a.npy", &npy),
        ("signed.npy", &signed),
        ("hand.csv", b"action,state\nreplace,worn\n0,new\n"),
        ("a.txt", b"Optimal policy: 0 1 -\nOptimal value: 1 2 0\n"),
        ("list.json", b"[\"keep\", 1, null]"),
        ("report.json", b"{\"policy\": [0, 1, null], \"values\": [1, 2, 0], \"policy_names\": [\"keep\"]}"),
        ("object.json", b"{\"worn\": \"replace\", \"new\": 0}"),
        ("one-step.json", b"[[\"keep\", 1, null]]"),
        ("one-step.csv", b"step,action,state\n0,replace,worn\n0,0,new\n"),
    ] {
        std::fs::write(path(name), bytes).unwrap();
        assert_eq!(read_policy(&path(name), &mdp).unwrap(), policy, "{name}");
    }
    assert_eq!(read_values(&path("named.csv")).unwrap(), values);
    // The same file for a model without names: its numbers count.
    let unnamed = MdpParts { state_names: None, action_names: None, ..mdp.clone().into_parts() }.validated().unwrap();
    assert_eq!(read_policy(&path("named.csv"), &unnamed).unwrap(), policy);

    let fault = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        read_policy(&path(name), &mdp).unwrap_err().to_string().replace(&format!("{}/", folder.path().display()), "")
    };
    for (name, text, message) in [
        (
            "b.csv",
            "state,action\nnew,kep\n",
            "b.csv:2: found action kep of state new, expected one of keep, replace, or a number below 2",
        ),
        (
            "b.csv",
            "state,action\nold,keep\n",
            "b.csv:2: found state old, expected one of the 3 names of states, such as new, or a number below 3",
        ),
        (
            "b.csv",
            "state,action\nnew,keep\nnew,keep\n",
            "b.csv:3: state new has a second action, expected one action per state",
        ),
        ("b.csv", "state,action\nnew,keep\n", "b.csv: state worn has no action, expected one for each state"),
        (
            "b.csv",
            "state,action\nend,keep\n",
            "b.csv:2: found action keep of state end, expected none: it has no actions",
        ),
        (
            "b.csv",
            "state,action\nnew,\n",
            "b.csv:2: found no action of state new, expected one of keep, replace, or a number below 2",
        ),
        (
            "b.csv",
            "state,value\nnew,1\n",
            "b.csv:1: found the columns state, value, but no action; expected state, action; optional: state_number, action_number, step",
        ),
        ("b.csv", "step,state,action\nx,new,keep\n", "b.csv:2: found step x, expected a number"),
        (
            "b.csv",
            "step,state,action\n1,new,keep\n1,worn,keep\n",
            "b.csv: has no actions of step 0, expected all steps from 0 on",
        ),
        ("b.json", "[[0, 0, null], [0, 1]]", "b.json: found 2 actions, expected one per state, 3"),
        ("b.json", "[0, 1]", "b.json: found 2 actions, expected one per state, 3"),
        ("b.json", "[0, 1.5, null]", "b.json: found 1.5, expected an action: its name or number"),
        (
            "b.json",
            "[0, 2, null]",
            "b.json: found action 2 of state worn, expected one of keep, replace, or a number below 2",
        ),
        ("b.json", "[0", "b.json:1:2: EOF while parsing a list"),
        ("b.json", r#"{"new": 0, "worn": 0, "new": 1}"#, "b.json:1:31: key \"new\" appears twice"),
        ("b.json", r#"{"policy": [0, 0, null], "policy": []}"#, "b.json:1:38: key \"policy\" appears twice"),
        ("b.txt", "Optimal policy: 0 x -", "b.txt: line 1, entry 2: 'x' is not an action"),
    ] {
        assert_eq!(fault(name, text), message, "{text}");
    }
}
