//! `warpkov hmm` with models of channels: every command works, or says why not.

use std::fs;

use serde_json::json;

use crate::common::{fails, parsed, piped, run};

const MODEL: &str = r#"{
  "states": ["dry", "wet"], "pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.3, 0.7]],
  "columns": ["showers", "thunder", "pressure"],
  "channels": [
    { "family": "poisson", "columns": ["showers"], "rates": [0.5, 4] },
    { "family": "logistic", "columns": ["thunder"], "inputs": ["showers"], "coefficients": [[[0.5]], [[0.2]]], "intercepts": [-4, -1] },
    { "family": "regression", "columns": ["pressure"], "lags": 1, "coefficients": [[[0.9]], [[0.8]]], "intercepts": [0.3, -1], "variances": [1, 2] }
  ]
}"#;

#[test]
fn every_command_takes_channels() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("m.json"), MODEL).unwrap();
    run(folder, "sample m.json --sequences 3 --length 80 --seed 2 --out d.csv --states s.txt");
    let table = fs::read_to_string(folder.join("d.csv")).unwrap();
    assert!(table.starts_with("sequence,showers,thunder,pressure\n1,"), "{table}");
    let score = |model: &str, more: &str| {
        parsed(&run(folder, &format!("score {model} d.csv --json{more}")))["log_likelihood"].as_f64().unwrap()
    };
    let log = score("m.json", "");
    for more in [" --device emulated", " --device emulated --scan always", " --precision f32"] {
        assert!((score("m.json", more) - log).abs() < 1e-4 * log.abs(), "{more}");
    }
    for device in ["cpu", "emulated"] {
        train(folder, &format!("--device {device} --iterations 5 --out {device}.json"));
        assert!(score(&format!("{device}.json"), "") > log);
    }
    assert!((score("cpu.json", "") - score("emulated.json", "")).abs() < 1e-6 * log.abs());
    train(folder, "--restarts 3 --iterations 3 --states s.txt --out known.json");
    let paths = run(folder, "decode m.json d.csv");
    assert_eq!(paths.lines().count(), 3);
    assert_eq!(run(folder, "decode m.json d.csv --device emulated"), paths);
    let filtered = run(folder, "filter m.json d.csv --json");
    assert_eq!(filtered.lines().count(), 240);
    let last = parsed(filtered.lines().nth(79).unwrap());
    assert!((last["log_likelihood"].as_f64().unwrap() - log_of(folder, 0)).abs() < 1e-9);
    assert!(run(folder, "posterior m.json d.csv").starts_with("sequence,position,dry,wet\n1,1,"));
    let wet = parsed(&run(folder, "info m.json --show wet --json"));
    assert_eq!(
        wet["channels"][0],
        json!({ "columns": ["showers"], "family": "poisson", "parameters": { "rates": [4.0] } })
    );
    assert!(
        run(folder, "info m.json").contains("Emissions        3 columns in channels: poisson, logistic, regression\n")
    );
    run(folder, "convert m.json copy.json");
    assert_eq!(score("copy.json", ""), log);
}

/// Trains the model, which need not converge.
fn train(folder: &std::path::Path, options: &str) {
    let output = piped(folder, &format!("train m.json d.csv {options}").split(' ').collect::<Vec<_>>(), "");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
}

/// ln P(O) of a sequence.
fn log_of(folder: &std::path::Path, sequence: usize) -> f64 {
    parsed(&run(folder, "score m.json d.csv --json"))["log_likelihoods"][sequence].as_f64().unwrap()
}

#[test]
fn what_channels_cannot_do_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("m.json"), MODEL).unwrap();
    fs::write(folder.join("d.csv"), "showers,thunder,pressure\n1,0,0.5\n2.5,1,0\n").unwrap();
    let wrong = "sequence 1, position 2, column showers: found 2.5, expected a count, an integer of at least 0";
    assert!(fails(folder, "score m.json d.csv", 2).contains(wrong));
    fs::write(folder.join("d.csv"), "showers,thunder,pressure\n1,0,0.5\n2,1,0\n").unwrap();
    for (command, message) in [
        ("convert m.json m.npz", "no place for these channels"),
        ("convert m.json m.hmm", "no place for"),
        ("train m.json d.csv --covariances full --out t.json", "--covariances is for models that emit numbers"),
        ("train m.json d.csv --freeze means --out t.json", "--freeze start and transitions are for models of channels"),
        ("filter m.json d.csv --observation", "--observation is for models of symbols or of normal densities"),
    ] {
        let output = piped(folder, &command.split(' ').collect::<Vec<_>>(), "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(message), "{command}: {said}");
    }
    fs::write(
        folder.join("inputs.json"),
        MODEL.replacen("{ \"family\": \"poisson\", \"columns\": [\"showers\"], \"rates\": [0.5, 4] },", "", 1),
    )
    .unwrap();
    let said = fails(folder, "sample inputs.json --length 5 --out x.csv", 2);
    assert!(said.contains("channel 0 depends on column showers, which no channel emits"), "{said}");
}
