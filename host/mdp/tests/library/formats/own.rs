//! Warpkov's own formats: round trips, faults, and exact solutions of what is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpkov_mdp::backend::Evaluate;
use warpkov_mdp::backends::cpu::{Parallel, Serial};
use warpkov_mdp::certificate::certify;
use warpkov_mdp::generate::SlipGrid;
use warpkov_mdp::io::{ReadOptions, open_parts, read, read_json, write, write_json};
use warpkov_mdp::model::{ActionNames, Mdp, Whole};
use warpkov_mdp::options::{Limits, Target};
use warpkov_mdp::solve::loops::{policy_iteration, to_the_end};

use crate::exact::{distance, linear};

use super::common::{data, random, same_matrices};

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
        same_matrices(&mdp, &from_json);
        write(&tensors, &from_json).unwrap();
        let mapped = read(&tensors).unwrap();
        same_matrices(&mdp, &mapped);
        let mut text = Vec::new();
        write_json(&mut text, &mapped).unwrap();
        assert_eq!(text, std::fs::read(&json).unwrap());
        same_matrices(&mdp, &read_json(&text[..], "text").unwrap());
        for source in [&json, &tensors] {
            std::fs::copy(source, &unnamed).unwrap();
            same_matrices(&mdp, &read(&unnamed).unwrap());
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
