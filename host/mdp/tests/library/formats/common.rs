//! Models of the tests of formats, their values, comparisons, and messages of faulty files.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov_mdp::generate::SlipGrid;
use warpkov_mdp::io::{ReadOptions, read, read_from};
use warpkov_mdp::model::{ActionNames, Choices, Csr, Mdp, MdpParts, Objective};

pub fn data(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("data").join(name)
}

pub fn from_text(text: &str) -> Mdp {
    read_from(text.as_bytes(), "text", &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub fn fault(text: &str) -> String {
    read_from(text.as_bytes(), "m", &ReadOptions::default())
        .err()
        .unwrap_or_else(|| panic!("{text} is read"))
        .to_string()
}

/// The error message of reading these bytes as a model.
#[track_caller]
pub fn message(bytes: &[u8], name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let error = read(&path).err().expect("the file is read").to_string();
    error.replace(&format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR), "")
}

/// A random model whose P and R have different sparsity patterns.
pub fn random(seed: u64) -> Mdp {
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

/// A model with all features: ragged actions, a terminal state, ends, both kinds of rewards, costs, labels, names.
pub fn everything() -> Mdp {
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

pub fn grid() -> Mdp {
    let grid = SlipGrid { width: 7, height: 5, walls: 0.2, obstacles: 0.2, ..SlipGrid::default() };
    grid.generate().unwrap()
}

pub fn csr(row_ptr: &[u64], col: &[u32], val: &[f64]) -> Csr {
    Csr::new(row_ptr.to_vec(), col.to_vec(), val.to_vec()).unwrap()
}

/// V* by plain value iteration from 0, in the model's own sign (rewards or costs).
pub fn values(mdp: &Mdp, gamma: f64) -> Vec<f64> {
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
pub fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (state, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "state {state}: {a} instead of {b}");
    }
}

/// Asserts that two models are equal, except for the decomposition of a row's reward.
#[track_caller]
pub fn same_structure(a: &Mdp, b: &Mdp) {
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
pub fn same(a: &Mdp, b: &Mdp) {
    same_structure(a, b);
    assert_eq!(a.state_names(), b.state_names());
    assert_eq!((a.gamma(), a.objective(), a.labels(), a.grid()), (b.gamma(), b.objective(), b.labels(), b.grid()));
    assert_eq!((&a.ends()[..], &a.action_rewards()[..]), (&b.ends()[..], &b.action_rewards()[..]));
    let (r, s) = (a.rewards(), b.rewards());
    assert_eq!((&r.row_ptr()[..], &r.col()[..], &r.val()[..]), (&s.row_ptr()[..], &s.col()[..], &s.val()[..]));
}

pub fn same_matrices(a: &Mdp, b: &Mdp) {
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

/// An .npz archive of arrays of f64 or i64, each given as (name, type, shape, numbers).
pub fn archive(arrays: &[(&str, &str, &str, &[f64])]) -> Vec<u8> {
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
