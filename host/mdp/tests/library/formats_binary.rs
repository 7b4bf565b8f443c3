//! Models in the formats of Python tools, PETSc and probabilistic model checkers, against published values; and invalid
//! files.
//!
//! One file, because all formats share the same models and comparisons.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpkov_mdp::generate::SlipGrid;
use warpkov_mdp::io::{
    Format, ReadOptions, read, read_from, read_values, read_with, write, write_as, write_csv, write_npy, write_to,
};
use warpkov_mdp::model::{ActionNames, Choices, Csr, Mdp, MdpParts, NO_ACTION, Objective};

fn data(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("data").join(name)
}

/// V* by plain value iteration from 0, in the model's own sign (rewards or costs).
fn values(mdp: &Mdp, gamma: f64) -> Vec<f64> {
    let (sign, r) = (mdp.objective().sign(), mdp.expected_rewards());
    let mut values = vec![0.0; mdp.states() as usize];
    for _ in 0..100_000 {
        let backup = |state: usize| {
            let q = |row: usize| {
                let (successors, probs) = mdp.transitions().row(row);
                let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * values[s as usize]).sum();
                r[row] + gamma * next
            };
            let best = mdp.choices().rows(state).map(|row| sign * q(row)).reduce(f64::max);
            best.map_or(0.0, |best| sign * best)
        };
        let next: Vec<f64> = (0..values.len()).map(backup).collect();
        let change = values.iter().zip(&next).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        values = next;
        if change < 1e-14 {
            break;
        }
    }
    values
}

#[track_caller]
fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (state, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "state {state}: {a} instead of {b}");
    }
}

/// Asserts that two models are equal, except for the decomposition of a row's reward.
#[track_caller]
fn same_structure(a: &Mdp, b: &Mdp) {
    assert_eq!((a.states(), a.rows()), (b.states(), b.rows()));
    for state in 0..a.states() as usize {
        assert_eq!(a.choices().rows(state), b.choices().rows(state));
    }
    let (p, q) = (a.transitions(), b.transitions());
    assert_eq!((&p.row_ptr()[..], &p.col()[..], &p.val()[..]), (&q.row_ptr()[..], &q.col()[..], &q.val()[..]));
    let names = |mdp: &Mdp| {
        let of_row = |ActionNames { names, of_row }: &ActionNames| -> Vec<String> {
            of_row.iter().map(|&name| names[name as usize].clone()).collect()
        };
        mdp.action_names().map(of_row)
    };
    assert_eq!(names(a), names(b));
}

#[track_caller]
fn same(a: &Mdp, b: &Mdp) {
    same_structure(a, b);
    assert_eq!(a.state_names(), b.state_names());
    assert_eq!((a.gamma(), a.objective(), a.labels(), a.grid()), (b.gamma(), b.objective(), b.labels(), b.grid()));
    assert_eq!((&a.ends()[..], &a.action_rewards()[..]), (&b.ends()[..], &b.action_rewards()[..]));
    let (r, s) = (a.rewards(), b.rewards());
    assert_eq!((&r.row_ptr()[..], &r.col()[..], &r.val()[..]), (&s.row_ptr()[..], &s.col()[..], &s.val()[..]));
}

fn csr(row_ptr: &[u64], col: &[u32], val: &[f64]) -> Csr {
    Csr::new(row_ptr.to_vec(), col.to_vec(), val.to_vec()).unwrap()
}

/// A model with all features: ragged actions, a terminal state, ends, both kinds of rewards, costs, labels, names.
fn everything() -> Mdp {
    let names = ["stay", "go — weiter"].map(str::to_owned);
    MdpParts {
        states: 4,
        choices: Choices::Ragged(vec![0, 2, 3, 3, 5].into()),
        gamma: 0.1 + 0.2,
        objective: Objective::Minimize,
        transitions: csr(&[0, 2, 3, 4, 5, 5], &[0, 1, 2, 3, 0], &[0.25, 0.75, 1.0, 0.5, 1.0]),
        ends: vec![0.0, 0.0, 0.5, 0.0, 1.0].into(),
        rewards: csr(&[0, 1, 1, 2, 3, 3], &[1, 3, 0], &[2.5, -1.0, 1e-3]),
        action_rewards: vec![1.0, 0.0, 3.0, -4.0, 0.125].into(),
        labels: [("init", vec![0]), ("goal", vec![2, 3])].map(|(label, of)| (label.to_owned(), of)).into(),
        action_names: Some(ActionNames { names: names.to_vec(), of_row: vec![0, 1, 0, 1, 0] }),
        state_names: Some(Arc::new(["", "a, b", "\u{1f600} \"c\"\n", "3"].map(str::to_owned).to_vec())),
        ..MdpParts::default()
    }
    .validated()
    .unwrap()
}

fn grid() -> Mdp {
    let grid = SlipGrid { width: 7, height: 5, walls: 0.2, obstacles: 0.2, ..SlipGrid::default() };
    grid.generate().unwrap()
}

/// The error message of reading these bytes as a model.
#[track_caller]
fn message(bytes: &[u8], name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let error = read(&path).err().expect("the file is read").to_string();
    error.replace(&format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR), "")
}

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

/// The same forest in madupite's form: costs −R, and matrices in PETSc's binary format.
#[test]
fn petsc_matrices_have_their_values() {
    for name in ["forest.P.bin", "forest-64-bit.P.bin"] {
        let mdp = read(&data(name)).unwrap();
        assert_eq!((mdp.objective(), mdp.gamma()), (Objective::Minimize, 1.0));
        close(&values(&mdp, 0.9), &[-26.244, -29.484, -33.484], 1e-9);
    }
    let costs = Some(data("forest.g.bin"));
    let options = ReadOptions { format: Some(Format::Petsc), costs, ..ReadOptions::default() };
    assert!(read_with(&data("forest-64-bit.P.bin"), &options).is_ok());
}

/// A walk on five states, written by umbi 0.2.5. The rewards "mixed" are s/2 for state s, c/4 for choice c, and b for
/// branch b.
#[test]
fn models_written_by_umbi_are_read() {
    let named = |name: &str| ReadOptions { reward: Some(name.into()), ..ReadOptions::default() };
    let [walk, exact] = ["walk.umb", "walk-exact.umb"].map(|file| read_with(&data(file), &named("steps")).unwrap());
    same_structure(&walk, &exact);
    assert_eq!((walk.states(), walk.rows(), walk.choices().count(4)), (5, 8, 0));
    assert_eq!(walk.transitions().row(3), (&[1, 2][..], &[0.1, 0.9][..]));
    assert_eq!((walk.labels()["init"].clone(), walk.labels()["edge"].clone()), (vec![2], vec![0, 4]));
    assert_eq!(walk.action_names().unwrap().names, ["left", "right"]);
    assert_eq!((walk.expected_rewards(), exact.expected_rewards()), (vec![-1.5; 8], vec![-1.0; 8]));
    // With several rewards, the reader takes the first by name.
    let mdp = read(&data("walk.umb")).unwrap();
    // Choice 3 is state 1's second: 0.5 + 0.75 + 0.9·6 + 0.1·7.
    assert!((mdp.expected_rewards()[3] - 7.35).abs() < 1e-12);
    // Choice 0 goes to state 0 twice.
    assert!((mdp.expected_rewards()[0] - 0.1).abs() < 1e-12);
    let error = read_with(&data("walk.umb"), &named("cost")).err().unwrap().to_string();
    assert!(error.contains("found no rewards \"cost\", expected one of [\"mixed\", \"steps\"]"), "{error}");
}

/// Rewards and labels have aliases: Storm's names have letters of one case only.
#[test]
fn aliases_in_umb_are_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.umb");
    let index = |from: &str, to: &str| std::fs::write(&path, changed_umb("index.json", from, to)).unwrap();
    let named = |name: &str| ReadOptions { reward: Some(name.into()), ..ReadOptions::default() };
    index("\"steps\": {", "\"steps\": {\"alias\": \"numberOfSteps\",");
    for name in ["steps", "numberOfSteps"] {
        assert_eq!(read_with(&path, &named(name)).unwrap().expected_rewards(), vec![-1.5; 8]);
    }
    let error = read_with(&path, &named("x")).err().unwrap().to_string();
    assert!(error.ends_with("found no rewards \"x\", expected one of [\"mixed\", \"numberOfSteps\"]"), "{error}");
    index("\"edge\": {", "\"edge\": {\"alias\": \"onEdge\",");
    assert_eq!(read(&path).unwrap().labels()["onEdge"], [0, 4]);
    // An alias that equals another name is ignored.
    index("\"edge\": {", "\"edge\": {\"alias\": \"init\",");
    let labels = read(&path).unwrap().into_parts().labels;
    assert_eq!((&labels["edge"][..], &labels["init"][..]), (&[0, 4][..], &[2][..]));

    let labels = [("goalReached/2", vec![0]), ("b-9_c", vec![1]), ("γ", vec![])];
    let labels: BTreeMap<_, _> = labels.map(|(name, states)| (name.to_owned(), states)).into();
    write(&path, &MdpParts { labels: labels.clone(), ..everything().into_parts() }.validated().unwrap()).unwrap();
    // The initial states are always written.
    let labels = labels.into_iter().chain([("init".to_owned(), vec![])]).collect::<BTreeMap<_, _>>();
    assert_eq!(read(&path).unwrap().labels(), &labels);
}

/// Options that a format does not support are refused.
#[test]
fn unsupported_rewards_and_costs_are_refused() {
    let named = ReadOptions { reward: Some("steps".into()), ..ReadOptions::default() };
    let costs = ReadOptions { costs: Some(data("forest.g.bin")), ..ReadOptions::default() };
    for file in
        ["frozen-lake-4x4.json", "forest-scipy.npz", "forest.P.bin", "forest.xml", "forest.txt", "listing-a1.json"]
    {
        let file = data(file);
        let error = read_with(&file, &named).err().unwrap().to_string();
        assert!(error.contains("rewards have no names in "), "{error}");
        if !file.ends_with("forest.P.bin") {
            let error = read_with(&file, &costs).err().unwrap().to_string();
            assert!(error.contains("only petsc has a separate file of costs"), "{error}");
        }
    }
    assert!(read_with(&data("forest.P.bin"), &costs).is_ok());
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

#[test]
fn umb_preserves_all_but_ends() {
    let grid = grid();
    // The model without ends: the two ending rows get successors.
    let p = csr(&[0, 2, 3, 5, 6, 7], &[0, 1, 2, 0, 3, 0, 3], &[0.25, 0.75, 1.0, 0.5, 0.5, 1.0, 1.0]);
    let without_end =
        MdpParts { ends: Vec::new().into(), transitions: p, ..everything().into_parts() }.validated().unwrap();
    for mdp in [grid, without_end] {
        let mut bytes = Vec::new();
        write_to(&mut bytes, Format::Umb, &mdp).unwrap();
        let found = read_from(&bytes[..], "pipe", &ReadOptions::default()).unwrap();
        same_structure(&mdp, &found);
        close(&found.expected_rewards(), &mdp.expected_rewards(), 0.0);
        let init = |mdp: &Mdp| mdp.labels().get("init").cloned().unwrap_or_default();
        assert_eq!((init(&found), found.labels().get("goal")), (init(&mdp), mdp.labels().get("goal")));
    }
    let mut bytes = Vec::new();
    write_to(&mut bytes, Format::Umb, &everything()).unwrap();
    let ended = read_from(&bytes[..], "pipe", &ReadOptions::default()).unwrap();
    assert_eq!((ended.states(), ended.choices().count(4), ended.gamma()), (5, 0, 1.0));
    close(&values(&ended.with_objective(Objective::Minimize), 0.5)[..4], &values(&everything(), 0.5), 1e-12);
}

#[test]
fn petsc_matrices_preserve_the_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.P.bin");
    for mdp in [everything(), grid()] {
        write(&path, &mdp).unwrap();
        let found = read(&path).unwrap();
        let (objective, sign) = (Objective::Minimize, -mdp.objective().sign());
        assert_eq!((found.objective(), found.choices().max()), (objective, mdp.choices().max()));
        let expected: Vec<f64> = values(&mdp, 0.9).iter().map(|value| sign * value).collect();
        close(&values(&found, 0.9)[..mdp.states() as usize], &expected, 1e-12);
    }
    // The output equals the file that PETSc wrote, byte for byte.
    let forest = read(&data("forest.P.bin")).unwrap();
    write(&path, &forest).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(data("forest.P.bin")).unwrap());
    let error = write(&folder.path().join("model.bin"), &forest).unwrap_err().to_string();
    assert!(error.contains("expected a name that ends in P.bin"), "{error}");
}

#[test]
fn invalid_matrices_are_reported() {
    let p = std::fs::read(data("forest.P.bin")).unwrap();
    let changed = |position: usize, byte: u8| {
        let mut bytes = p.clone();
        bytes[position] = byte;
        message(&bytes, "a.bin")
    };
    assert!(changed(3, 0x51).contains("begins with 1211217, expected 1211216"));
    assert!(changed(7, 5).contains("do not sum to the number of entries, 9"), "fewer rows");
    assert!(changed(11, 2).contains("expected one below 2"));
    assert!(changed(19, 9).contains("do not sum"));
    assert!(changed(43, 7).contains("the columns: [0] is 7, expected one below 3"));
    assert!(message(&p[..100], "a.bin").contains("the values: the file ends in it"));
    assert!(message(&p[..7], "a.bin").contains("rows: the file ends in it"));
    assert!(
        message(&p, "a.bin")
            .contains("found no costs: expected a file of costs (option costs), or a name that ends in P.bin")
    );
    assert!(message(&p, "b.P.bin").contains("cannot read b.g.bin"));
    let options = ReadOptions { costs: Some(data("forest.P.bin")), ..ReadOptions::default() };
    let error = read_with(&data("forest.P.bin"), &options).err().unwrap().to_string();
    assert!(error.contains("has 6 rows and 3 columns, expected S = 3 and A = 2"), "{error}");
}

/// An .npz archive of arrays of f64 or i64, each given as (name, type, shape, numbers).
fn archive(arrays: &[(&str, &str, &str, &[f64])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, descr, shape, numbers) in arrays {
        zip.start_file(format!("{name}.npy"), stored).unwrap();
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        zip.write_all(b"\x93NUMPY\x01\x00").unwrap();
        zip.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        zip.write_all(header.as_bytes()).unwrap();
        for &number in *numbers {
            let bytes = if *descr == "<f8" { number.to_le_bytes() } else { (number as i64).to_le_bytes() };
            zip.write_all(&bytes).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
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

/// A file written by umbi, with a part of one member of its archive replaced.
fn changed_umb(file: &str, from: &str, to: &str) -> Vec<u8> {
    let packed = std::fs::File::open(data("walk.umb")).unwrap();
    let mut changed = tar::Builder::new(Vec::new());
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let (mut header, mut bytes) = (entry.header().clone(), Vec::new());
        std::io::copy(&mut entry, &mut bytes).unwrap();
        if entry.path().unwrap().to_str() == Some(file) {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains(from));
            bytes = text.replace(from, to).into_bytes();
            header.set_size(bytes.len() as u64);
            header.set_cksum();
        }
        let path = entry.path().unwrap().into_owned();
        changed.append_data(&mut header, path, &bytes[..]).unwrap();
    }
    changed.into_inner().unwrap()
}

/// A header of tar may declare any number of zeros.
#[test]
fn sparse_files_in_archives_are_refused() {
    let mut header = tar::Header::new_gnu();
    header.set_path("index.json").unwrap();
    header.set_size(0);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::GNUSparse);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.sparse[0].offset = *b"77777777777\0";
    gnu.sparse[0].numbytes = *b"00000000000\0";
    gnu.realsize = *b"77777777777\0";
    header.set_cksum();
    let bytes = [&header.as_bytes()[..], &[0; 1024]].concat();
    let error = "a.umb: index.json is a sparse file of tar, expected a plain one";
    assert_eq!(message(&bytes, "a.umb"), error);
}

#[test]
fn invalid_archives_are_reported() {
    let index = |from: &str, to: &str| message(&changed_umb("index.json", from, to), "a.umb");
    same(
        &read(&data("walk.umb")).unwrap(),
        &read_from(&changed_umb("index.json", "unknown", "x")[..], "tar", &ReadOptions::default()).unwrap(),
    );
    assert_eq!(index("discrete", "stochastic"), "a.umb: index.json: time is \"stochastic\", expected \"discrete\"");
    assert_eq!(index("#players\": 1", "#players\": 2"), "a.umb: index.json: found 2 players, expected 1");
    assert_eq!(
        index("#states\": 5", "#states\": 6"),
        "a.umb: state-to-choices.bin has 48 bytes, expected 7 numbers of 8 bytes"
    );
    assert_eq!(
        index("#states\": 5", "#states\": -1"),
        "a.umb: index.json: transition-system.#states is -1, expected a count"
    );
    assert_eq!(
        index("#branches\": 16", "#branches\": 18446744073709551614"),
        "a.umb: branch-to-target.bin has 128 bytes, expected 18446744073709551614 numbers of 8 bytes"
    );
    assert!(
        index("{\"type\": \"double\", \"size\": 64}", "{\"type\": \"double-interval\"}")
            .contains("index.json: found numbers of type {\"type\":\"double-interval\"}")
    );
    assert!(index("{\n  \"format", "[").starts_with("a.umb: index.json: "));
    let whole = std::fs::read(data("walk.umb")).unwrap();
    assert!(message(&whole[..whole.len() / 2], "a.umb").starts_with("a.umb: not a UMB tar archive"));
    assert_eq!(message(b"\x1f\x8b\x08", "a.umb"), "a.umb: the gzip data end too early");
    assert!(message(b"", "a.umb").starts_with("a.umb: not a UMB tar archive"));
    let mut empty = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    empty.append_data(&mut header, "other", &[][..]).unwrap();
    assert_eq!(message(&empty.into_inner().unwrap(), "a.umb"), "a.umb: file index.json is missing");
}

#[test]
fn corrupt_files_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(data("forest.g.bin"), folder.path().join("a.g.bin")).unwrap();
    let umb = changed_umb("index.json", "unknown", "x");
    let small = archive(&[
        ("P_data", "<f8", "(2,)", &[1.0, 1.0]),
        ("P_indices", "<i8", "(2,)", &[0.0, 1.0]),
        ("P_indptr", "<i8", "(3,)", &[0.0, 1.0, 2.0]),
        ("P_shape", "<i8", "(2,)", &[2.0, 2.0]),
    ]);
    let gymnasium = std::fs::read(data("frozen-lake-4x4.json")).unwrap()[..600].to_vec();
    for (name, whole) in [
        ("a.P.bin", std::fs::read(data("forest.P.bin")).unwrap()),
        ("a.npz", small),
        ("a.umb", umb),
        ("a.json", gymnasium),
    ] {
        let path = folder.path().join(name);
        for position in (0..whole.len()).step_by(whole.len().div_ceil(2000)) {
            let mut bytes = whole.clone();
            bytes[position] ^= 0x15;
            std::fs::write(&path, &bytes).unwrap();
            let _ = read(&path);
            std::fs::write(&path, &whole[..position]).unwrap();
            let _ = read(&path);
        }
    }
}

#[test]
fn written_values_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (values, policy) = ([1.0 / 3.0, -1e300, 0.0, 5e-324], [1, 0, NO_ACTION, 2]);
    let mut csv = Vec::new();
    write_csv(&mut csv, &values, &policy).unwrap();
    let text = "state,value,action\n0,0.3333333333333333,1\n1,-1e300,0\n2,0.0,\n3,5e-324,2\n";
    assert_eq!(String::from_utf8(csv.clone()).unwrap(), text);
    let mut npy = Vec::new();
    write_npy(&mut npy, &values).unwrap();
    // Bytes written by numpy.save, for an array of four <f8.
    assert_eq!((npy.len(), &npy[..8]), (128 + 32, &b"\x93NUMPY\x01\x00"[..]));
    let mut actions = Vec::new();
    write_npy(&mut actions, &policy).unwrap();
    assert!(String::from_utf8_lossy(&actions).contains("{'descr': '<u4', 'fortran_order': False, 'shape': (4,), }"));

    let json = serde_json::to_vec(&values).unwrap();
    let object = [b"{\"status\": \"solved\", \"values\": ", &json[..], b"}"].concat();
    for (name, bytes) in [("a.csv", csv), ("a.npy", npy), ("list.json", json), ("object.json", object)] {
        std::fs::write(path(name), bytes).unwrap();
        assert_eq!(read_values(&path(name)).unwrap(), values, "{name}");
    }

    let message = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        let error = read_values(&path(name)).unwrap_err().to_string();
        error.replace(&format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR), "")
    };
    assert_eq!(message("b.csv", "value\n1\nx\n"), "b.csv:3: found 'x', expected a value");
    assert_eq!(message("b.csv", "state,value\n1,1\n"), "b.csv:2: found state 1, expected state 0");
    assert_eq!(
        message("b.csv", "s,w\n"),
        "b.csv:1: found the columns state, w, but no value; expected value; optional: state, state_number"
    );
    assert_eq!(message("b.csv", "value\n1\nNaN\n"), "b.csv: the value of state 1 is NaN, expected a finite number");
    assert_eq!(message("b.json", "{}"), "b.json:1:2: missing field `values`");
    assert!(message("b.npy", "x").starts_with("b.npy: "));
}
