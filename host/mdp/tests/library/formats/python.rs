//! Formats of Python tools: tables of Gymnasium and arrays.

use warpkov_mdp::io::{Format, ReadOptions, read, read_from, write, write_as};
use warpkov_mdp::model::{ActionNames, MdpParts};

use super::common::{archive, close, data, everything, grid, message, same, same_structure, values};

/// The tables of Gymnasium 1.4, with values by value iteration and by exact policy iteration.
#[test]
fn gymnasium_tables_have_their_values() {
    let value = |name: &str, gamma: f64, state: usize| values(&read(&data(name)).unwrap(), gamma)[state];
    for (name, gamma, state, expected) in [
        ("frozen-lake-4x4.json", 0.9, 0, 0.068890904889),
        ("frozen-lake-4x4.json", 0.95, 0, 0.180471578397),
        ("frozen-lake-4x4.json", 0.99, 0, 0.542025932000),
        ("frozen-lake-4x4.json", 1.0, 0, 14.0 / 17.0),
        ("frozen-lake-8x8.json", 0.9, 0, 0.006411114262),
        ("frozen-lake-8x8.json", 0.99, 0, 0.414640361800),
        ("cliff-walking.json", 0.9, 36, -7.458134171671),
        ("cliff-walking.json", 0.99, 36, -12.247897700103),
        ("taxi.json", 0.9, 0, 17.0),
        ("taxi.json", 0.95, 0, 18.0),
        ("taxi.json", 0.99, 0, 18.8),
    ] {
        close(&[value(name, gamma, state)], &[expected], 1e-9);
    }
    let taxi = values(&read(&data("taxi.json")).unwrap(), 0.99);
    close(&[taxi.iter().sum::<f64>() / 500.0], &[9.422837256540], 1e-9);
    // The goal has outgoing transitions: P[47][0] = (1.0, 35, −1, False).
    let cliff = read(&data("cliff-walking.json")).unwrap();
    assert_eq!((cliff.states(), cliff.rows(), cliff.gamma()), (48, 192, 1.0));
    assert_eq!((cliff.transitions().row(47 * 4), cliff.end(47 * 4)), ((&[35][..], &[1.0][..]), 0.0));
}

#[test]
fn gymnasium_tables_are_read_in_all_their_forms() {
    let read = |text: &str| read_from(text.as_bytes(), "table", &ReadOptions::default()).unwrap();
    let lists = read("[[[[0.5, 1, 1, false], [0.25, 1, 4, 0], [0.25, 0, 8, true]]], []]");
    assert_eq!(lists.transitions().row(0), (&[1][..], &[0.75][..]), "merged");
    assert_eq!((lists.rewards().row(0), lists.end(0)), ((&[1][..], &[2.0][..]), 0.25));
    assert_eq!((lists.expected_rewards(), lists.choices().count(1)), (vec![3.5], 0));
    let objects = r#"{"gamma": 0.5, "P": {"1": {}, "0": {"0": [[1, 1, 0, false]], "1": [[0.5, 0, 2, true], [0.5, 1, 2, false]]}}}"#;
    let mdp = read(objects);
    assert_eq!((mdp.gamma(), mdp.states(), mdp.rows(), mdp.expected_rewards()), (0.5, 2, 2, vec![0.0, 2.0]));
    let top = read(r#"{"0": {"3": [[1, 0, 1, false]], "1": [[1, 0, 0, false]]}}"#);
    let names = ActionNames { names: vec!["1".into(), "3".into()], of_row: vec![0, 1] };
    assert_eq!((top.action_names(), top.expected_rewards()), (Some(&names), vec![0.0, 1.0]));
}

#[test]
fn invalid_gymnasium_tables_are_reported() {
    let message = |text: &str| message(text.as_bytes(), "a.json");
    assert_eq!(message(r#"{"P": [[[[1, 0, 0]]]]}"#), "a.json:1:18: P[0][0][0]: expected [p, s', r, done]",);
    assert_eq!(
        message("[[\n[[1, \"x\", 0, true]]]]"),
        "a.json:2:8: P[0][0][0]: found string \"x\", expected a number, or for done true or false",
    );
    assert_eq!(message("[[[[1, -1, 0, true]]]]"), "a.json:1:19: P[0][0][0]: found -1, expected a state");
    assert!(message("[[[[1, 0.5, 0, true]]]]").contains("found 0.5, expected a state"));
    assert!(message("[[[[1, 0, 0, true, 1]]]]").contains("more than 4 elements"));
    assert!(message(r#"{"0": {"0": {}}}"#).contains("P[0][0]: found an object, expected an array of transitions"));
    assert!(message(r#"{"0": {"left": []}}"#).contains("found key \"left\", expected a number"));
    assert!(message(r#"{"0": {"0": []}, "0": {"0": []}}"#).contains("P has 2 states, and the highest is 0"));
    assert!(message(r#"{"4000000000": {"0": []}}"#).contains("P has 1 states, and the highest is 4000000000"));
    assert!(message(r#"{"0": {"0": [[1, 0, 0, false]], "0": [[1, 0, 0, false]]}}"#).contains("P[0][0] appears twice"));
    assert!(message("[[[[1, 1, 0, false]]]]").contains("expected a state below 1"));
    assert!(message("[[[[0.5, 0, 0, false]]]]").contains("probabilities sum to 0.5"));
    assert!(message("[[[]]]").contains("no successors"));
    assert!(message("[[[[1, 0, 0, false]").contains("EOF while parsing a list"));
}

/// A table written by warpkov is recognised by its content, even if the first states have no actions.
#[test]
fn tables_that_begin_with_terminal_states_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    for table in [
        r#"{"gamma": 0.5, "P": [[], [], [[[1.0, 0, 1.0, false]]]]}"#,
        "[[], [], [[[1.0, 0, 1.0, false]]]]",
        r#"{"0": {}, "1": {}, "2": {"0": [[1.0, 0, 1.0, false]]}}"#,
    ] {
        std::fs::write(&path, table).unwrap();
        let mdp = read(&path).unwrap();
        assert_eq!((mdp.states(), mdp.rows(), mdp.choices().count(0)), (3, 1, 0));
        write_as(&path, Format::Gymnasium, &mdp).unwrap();
        let back = read(&path).unwrap();
        assert_eq!((back.states(), back.rows(), back.gamma()), (3, 1, mdp.gamma()));
    }
}

#[test]
fn gymnasium_tables_preserve_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    for mdp in [everything(), grid()] {
        write_as(&path, Format::Gymnasium, &mdp).unwrap();
        let found = read(&path).unwrap();
        same_structure(&MdpParts { action_names: None, ..mdp.clone().into_parts() }.validated().unwrap(), &found);
        assert_eq!((&found.ends()[..], found.gamma()), (&mdp.ends()[..], mdp.gamma()));
        close(&found.expected_rewards(), &mdp.to_maximize().expected_rewards(), 1e-12);
    }
}

/// Forest management with three states, γ = 0.9 (pymdptoolbox, `example.forest`), in every convention of arrays; and
/// Puterman, *Markov Decision Processes* (1994), § 3.1, γ = 0.95, with an unavailable action. Written by NumPy 2.4 and
/// SciPy 1.17.
#[test]
fn arrays_from_python_have_their_values() {
    let forest = [26.244, 29.484, 33.484];
    for name in [
        "forest-scipy.npz",
        "forest-scipy-rewards.npz",
        "forest-toolbox.npz",
        "forest-toolbox-rewards.npz",
        "forest-quantecon.npz",
    ] {
        let mdp = read(&data(name)).unwrap();
        assert_eq!((mdp.gamma(), mdp.choices().max(), mdp.rows()), (0.9, 2, 6), "{name}");
        close(&values(&mdp, 0.9), &forest, 1e-9);
    }
    let dense = read(&data("forest-toolbox-dense.npz")).unwrap();
    assert_eq!(dense.gamma(), 0.5);
    close(&values(&dense, 0.9), &forest, 1e-9);
    let puterman = read(&data("puterman-quantecon.npz")).unwrap();
    assert_eq!((puterman.choices().count(0), puterman.choices().count(1), puterman.gamma()), (2, 1, 0.95));
    close(&values(&puterman, 0.95), &[-60.0 / 7.0, -20.0], 1e-9);
}

#[test]
fn arrays_preserve_everything() {
    let folder = tempfile::tempdir().unwrap();
    for mdp in [everything(), grid()] {
        let [named, unnamed] = ["a.npz", "a"].map(|name| folder.path().join(name));
        write(&named, &mdp).unwrap();
        same(&mdp, &read(&named).unwrap());
        std::fs::copy(&named, &unnamed).unwrap();
        same(&mdp, &read(&unnamed).unwrap());
    }
}

#[test]
fn invalid_arrays_are_reported() {
    let message = |arrays: &[(&str, &str, &str, &[f64])]| message(&archive(arrays), "a.npz");
    let p: [(&str, &str, &str, &[f64]); 4] = [
        ("P_data", "<f8", "(2,)", &[1.0, 1.0]),
        ("P_indices", "<i8", "(2,)", &[0.0, 1.0]),
        ("P_indptr", "<i8", "(3,)", &[0.0, 1.0, 2.0]),
        ("P_shape", "<i8", "(2,)", &[2.0, 2.0]),
    ];
    let with = |index: usize, array| {
        let mut arrays = p;
        arrays[index] = array;
        message(&arrays)
    };
    assert_eq!(message(&[]), "a.npz: found no transitions: expected arrays P_data …, P_0_data …, P, Q_data … or Q");
    assert_eq!(message(&p[..3]), "a.npz: array P_shape is missing");
    // A small file cannot ask for gigabytes.
    let none: &[f64] = &[];
    let many = message(&[
        ("Q", "<f8", "(0, 4294967295)", none),
        ("R", "<f8", "(0,)", none),
        ("s_indices", "<i8", "(0,)", none),
        ("a_indices", "<i8", "(0,)", none),
    ]);
    assert_eq!(many, "a.npz: Q has 4294967295 columns, one per state, but only 0 rows of 0 entries");
    assert_eq!(
        with(1, ("P_indices", "<i8", "(2,)", &[0.0, -1.0])),
        "a.npz: P_indices: [1] is -1, expected an integer from 0 to 2³² − 1"
    );
    assert_eq!(
        with(1, ("P_indices", "<i8", "(2,)", &[0.0, 2.0])),
        "a.npz: P_indices: found 2, expected a column below 2"
    );
    assert_eq!(
        with(1, ("P_indices", "|O", "(2,)", &[0.0, 2.0])),
        "a.npz: P_indices: found elements of type '|O': Python objects; save the arrays they are made of one by one, expected numbers"
    );
    assert_eq!(
        with(2, ("P_indptr", "<i8", "(3,)", &[0.0, 2.0, 1.0])),
        "a.npz: P_indptr: expected offsets that ascend from 0 to 2"
    );
    assert_eq!(with(2, ("P_indptr", "<i8", "(9,)", &[0.0, 2.0, 1.0])), "a.npz: P_indptr: the file ends in it");
    assert_eq!(
        with(3, ("P_shape", "<i8", "(2,)", &[3.0, 2.0])),
        "a.npz: P_indptr has 3 elements, expected one more than the 3 rows"
    );
    assert_eq!(with(3, ("P_shape", "<i8", "(3,)", &[3.0, 2.0, 1.0])), "a.npz: P_shape has 3 elements, expected 2");
    assert_eq!(with(0, ("P_data", "<f8", "(3,)", &[1.0, 1.0, 1.0])), "a.npz: P_indices has 2 elements, P_data 3");
    assert_eq!(
        with(0, ("P_data", "<f8", "(2,)", &[1.0, 0.5])),
        "a.npz: P row 1 (state 1, action 0): probabilities sum to 0.5, expected 1 within 1e-6"
    );
    let extra = |array| message(&[p[0], p[1], p[2], p[3], array]);
    assert_eq!(extra(("gamma", "<f8", "(2,)", &[0.5, 0.5])), "a.npz: gamma has 2 numbers, expected 1");
    assert_eq!(
        extra(("r", "<f8", "(3,)", &[0.5, 0.5, 1.0])),
        "a.npz: action_rewards has 3 elements, expected none or one per row, 2"
    );
    assert_eq!(extra(("choices", "<i8", "(2,)", &[0.0, 2.0])), "a.npz: choices has 2 elements, expected S + 1 = 3");
    assert_eq!(
        extra(("objective", "<i8", "(1,)", &[0.0])),
        "a.npz: objective: found elements of type '<i8', expected texts, '<U…'"
    );
    let dense =
        |shape, r: (&'static str, &'static str, &'static str, &[f64])| message(&[("P", "<f8", shape, &[1.0; 4]), r]);
    assert_eq!(dense("(2, 2)", ("R", "<f8", "(2,)", &[0.0; 2])), "a.npz: P is of shape [2, 2], expected A×S×S");
    assert_eq!(
        dense("(4, 1, 1)", ("R", "<f8", "(2,)", &[0.0; 2])),
        "a.npz: R is of shape [2], expected S, S×A or A×S×S, S = 1, A = 4"
    );
    assert_eq!(
        dense("(4, 1, 1)", ("x", "<f8", "(2,)", &[0.0; 2])),
        "a.npz: found no rewards: expected R or R_0_data …"
    );
    let q: (&str, &str, &str, &[f64]) = ("Q", "<f8", "(2, 1)", &[1.0; 2]);
    let pairs = |s: &[f64]| {
        message(&[
            q,
            ("R", "<f8", "(2,)", &[0.0; 2]),
            ("s_indices", "<i8", "(2,)", s),
            ("a_indices", "<i8", "(2,)", &[0.0; 2]),
        ])
    };
    assert_eq!(pairs(&[0.0, 0.0]), "a.npz: state 0 has action 0 twice");
    assert_eq!(pairs(&[0.0, 1.0]), "a.npz: s_indices: [1] is 1, expected a state below 1");
}
