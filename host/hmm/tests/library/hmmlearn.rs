//! Agreement with hmmlearn 0.3.3: with stored results, and with hmmlearn itself if a Python has it installed
//! (`WARPKOV_PYTHON`, otherwise `python3`).

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use warpkov_hmm::backend::Recursions;
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::io::{self, sequences};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::Options;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences, offsets};
use warpkov_hmm::train::{aic, bic, train};

const STORED: &str = include_str!("../../../../data/hmmlearn.json");

/// All numbers of nested arrays.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

fn model(value: &Value) -> Hmm {
    let emissions = match value.get("emissionprob_") {
        Some(probs) => {
            Emissions::Categorical { symbols: probs[0].as_array().unwrap().len() as u32, probs: numbers(probs) }
        }
        None => Emissions::Gaussian {
            dimensions: value["means_"][0].as_array().unwrap().len() as u32,
            means: numbers(&value["means_"]),
            covariances: match value["covars_"][0][0].is_array() {
                true => Covariances::Full(numbers(&value["covars_"])),
                false => Covariances::Diagonal(numbers(&value["covars_"])),
            },
        },
    };
    let (start, transitions) = (numbers(&value["startprob_"]), numbers(&value["transmat_"]));
    HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().unwrap()
}

fn observed(case: &Value, model: &Hmm) -> Sequences {
    let lengths = numbers(&case["lengths"]);
    let values = numbers(&case["observations"]);
    let observations = match model.emissions() {
        Emissions::Categorical { .. } => Observations::Symbols(values.iter().map(|&symbol| symbol as u32).collect()),
        Emissions::Gaussian { dimensions, .. } => Observations::Vectors { dimensions: *dimensions, values },
        Emissions::Channels(_) => panic!("hmmlearn has no channels"),
    };
    let offsets = offsets(lengths.iter().map(|&length| length as usize));
    Sequences::new(offsets, observations).unwrap()
}

#[track_caller]
fn close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(near, "{what}[{at}] is {found}, expected {expected}");
    }
}

fn agrees(case: &Value) {
    let hmm = model(&case["model"]);
    let sequences = observed(case, &hmm);
    let mut batch = Batch::<f64>::new(&sequences);
    let Ok(()) = batch.set_models(std::slice::from_ref(&hmm));
    let (Ok(logs), Ok(posteriors), Ok(decoded)) = (batch.log_likelihoods(), batch.posteriors(), batch.viterbi());
    close("ln P(O)", &logs[0], &numbers(&case["log_likelihoods"]), 1e-12);
    close("γ", &posteriors[0], &numbers(&case["posteriors"]), 1e-12);
    close("Viterbi's score", &decoded[0].scores, &numbers(&case["viterbi_scores"]), 1e-12);
    let states: Vec<f64> = decoded[0].states.iter().map(|&state| state.into()).collect();
    assert_eq!(states, numbers(&case["viterbi_states"]));
    let total = logs[0].iter().sum();
    close("AIC", &[aic(hmm.parameters(), total)], &numbers(&case["aic"]), 1e-12);
    close("BIC", &[bic(hmm.parameters(), &sequences, total)], &numbers(&case["bic"]), 1e-12);
    let step = Options { iterations: 1, tolerance: 0.0, floor: f64::MIN_POSITIVE, ..Options::default() };
    let trained = train(&mut batch, vec![hmm], &step, &mut |_| ControlFlow::Continue(())).unwrap();
    let (found, expected) = (&trained.best().model, model(&case["trained"]));
    close("π", found.start(), expected.start(), 1e-12);
    close("A", found.transitions(), expected.transitions(), 1e-12);
    match (found.emissions(), expected.emissions()) {
        (Emissions::Categorical { probs, .. }, Emissions::Categorical { probs: expected, .. }) => {
            close("B", probs, expected, 1e-12);
        }
        (
            Emissions::Gaussian { means, covariances, .. },
            Emissions::Gaussian { means: expected, covariances: spreads, .. },
        ) => {
            close("μ", means, expected, 1e-12);
            match (covariances, spreads) {
                (Covariances::Diagonal(found), Covariances::Diagonal(expected))
                | (Covariances::Full(found), Covariances::Full(expected)) => close("Σ", found, expected, 1e-11),
                _ => panic!("{covariances:?}, {spreads:?}"),
            }
        }
        _ => panic!("{found:?}"),
    }
}

#[test]
fn agrees_with_stored_numbers() {
    let cases: Value = serde_json::from_str(STORED).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 8);
    cases.iter().for_each(agrees);
}

#[test]
fn agrees_with_hmmlearn_where_it_is_installed() {
    let python = std::env::var("WARPKOV_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let there = Command::new(&python).args(["-c", "import hmmlearn"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        // The test harness captures `eprintln!` of a passing test.
        let _ = writeln!(std::io::stderr(), "skipped: {python} has no hmmlearn; WARPKOV_PYTHON may name one that has");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [file, seen, lengths] = ["model.npz", "seen.npy", "lengths.npy"].map(|name| folder.path().join(name));
    let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("benches/peers/hmmlearn_numbers.py");
    let kinds =
        [Kind::Symbols(6), Kind::Vectors { dimensions: 2, full: false }, Kind::Vectors { dimensions: 2, full: true }];
    for (kind, seed) in kinds.into_iter().cycle().take(12).zip(1..) {
        let states = 1 + seed as u32 % 7;
        let model = Uniform { states, kind, ends: false, seed }.generate().unwrap();
        let drawn = sample(&model, 5, Some(20), seed).unwrap().sequences;
        io::write(&file, io::Format::Npz, &model).unwrap();
        sequences::write(&seen, Some(&lengths), sequences::Format::Npy, &drawn, &model).unwrap();
        let output = Command::new(&python).arg(&script).args([&file, &seen, &lengths]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let case: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(self::model(&case["model"]), model);
        agrees(&case);
    }
}
