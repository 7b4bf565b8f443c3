//! Binary formats: matrices of PETSc, and models of probabilistic model checkers.

use std::collections::BTreeMap;

use warpkov_mdp::io::{Format, ReadOptions, read, read_from, read_with, write, write_to};
use warpkov_mdp::model::{Mdp, MdpParts, Objective};

use super::common::{archive, close, csr, data, everything, grid, message, same, same_structure, values};

/// Forest management in madupite's form: costs −R, and matrices in PETSc's binary format.
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
