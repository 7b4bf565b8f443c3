//! `warpkov hmm`, driven as people and scripts drive it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

fn piped(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).arg("hmm").args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A process that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// What a command prints that succeeds.
#[track_caller]
fn run(folder: &Path, arguments: &str) -> String {
    let output = piped(folder, &arguments.split(' ').collect::<Vec<_>>(), "");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command says that fails with this code.
#[track_caller]
fn fails(folder: &Path, arguments: &str, code: i32) -> String {
    let output = piped(folder, &arguments.split(' ').collect::<Vec<_>>(), "");
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Eisner's model, and his diary.
fn ice_cream() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate ice-cream --out ice.json");
    let diary = "2 3 3 2 3 2 3 2 2 3 1 3 3 1 1 1 2 1 1 1 3 1 2 1 1 1 2 3 3 2 3 2 2\n";
    fs::write(folder.path().join("diary.txt"), diary).unwrap();
    folder
}

#[test]
fn score_gives_the_published_likelihood() {
    let folder = ice_cream();
    let text = run(folder.path(), "score ice.json diary.txt");
    assert!(text.contains("Sequences        1, 33 observations\nln P(O)          -41.537818, "), "{text}");
    let report = parsed(&run(folder.path(), "score ice.json diary.txt --json --out scores.csv"));
    let log = report["log_likelihoods"][0].as_f64().unwrap();
    assert!((log + 41.537_817_821_1).abs() < 1e-9);
    assert_eq!((&report["sequences"], &report["observations"]), (&json!(1), &json!(33)));
    let written = fs::read_to_string(folder.path().join("scores.csv")).unwrap();
    assert_eq!(written, format!("sequence,log_likelihood\n1,{log:?}\n"));
    let single = parsed(&run(folder.path(), "score ice.json diary.txt --json --precision f32 --device cpu"));
    assert!((single["log_likelihood"].as_f64().unwrap() - log).abs() < 1e-4);
}

#[test]
fn decode_names_states() {
    let folder = ice_cream();
    // H H H has .5 · .7 · .8 · .7 · .8 · .1 · .1, H H C .1 · .7 for .8 · .1; but C C C and H C C add to C in the end.
    fs::write(folder.path().join("three.txt"), "3 3 1\n1\n").unwrap();
    assert_eq!(run(folder.path(), "decode ice.json three.txt"), "H H H\nC\n");
    assert_eq!(run(folder.path(), "decode ice.json three.txt --by posterior"), "H H C\nC\n");
    let report = parsed(&run(folder.path(), "decode ice.json three.txt --json"));
    assert_eq!(report["paths"], json!([["H", "H", "H"], ["C"]]));
    let expected = (0.5 * 0.7 * 0.8 * 0.7 * 0.8 * 0.1 * 0.1_f64).ln();
    assert!((report["scores"][0].as_f64().unwrap() - expected).abs() < 1e-12);
    run(folder.path(), "decode ice.json three.txt --out states.csv");
    let written = fs::read_to_string(folder.path().join("states.csv")).unwrap();
    assert_eq!(written, "sequence,position,state\n1,1,H\n1,2,H\n1,3,H\n2,1,C\n");
}

#[test]
fn what_is_not_possible_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [1, 0], "A": [[0.5, 0.5], [0, 1]], "B": [[1, 0], [0, 1]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.txt"), "0 1\n0 1 0\n").unwrap();
    assert_eq!(run(folder.path(), "decode m.json d.txt"), "0 1\nimpossible\n");
    let report = parsed(&run(folder.path(), "score m.json d.txt --json"));
    assert_eq!(report["log_likelihoods"], json!([0.5f64.ln(), "-inf"]));
    assert!(run(folder.path(), "score m.json d.txt").contains("  not possible   1\n"));
    let message = fails(folder.path(), "train m.json d.txt", 2);
    assert_eq!(message, "error: sequence 2 is not possible by the model: its likelihood is 0, and stays so\n");
}

#[test]
fn posterior_prints_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.5, 0.5], "A": [[0.7, 0.3], [0.3, 0.7]], "B": [[0.9, 0.1], [0.2, 0.8]],
        "states": ["rain", "none"], "symbols": ["umbrella", "no"]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.txt"), "umbrella umbrella no umbrella umbrella\n").unwrap();
    let text = run(folder.path(), "posterior m.json d.txt --plot states.svg");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("sequence,position,rain,none"));
    // Russell and Norvig.
    let rain = [0.8673, 0.8204, 0.3075, 0.8204, 0.8673];
    for (line, expected) in lines.zip(rain) {
        let found: f64 = line.split(',').nth(2).unwrap().parse().unwrap();
        assert!((found - expected).abs() < 5e-5, "{line}");
    }
    assert_eq!(text.lines().count(), 6);
    let picture = fs::read_to_string(folder.path().join("states.svg")).unwrap();
    assert!(picture.contains("rain") && picture.contains("sequence 1: posterior of states"));
    let message = fails(folder.path(), "posterior m.json d.txt --sequence 2", 2);
    assert_eq!(message, "error: --sequence 2: expected 1 to 1, the number of sequences\n");
}

#[test]
fn train_learns_and_draws() {
    let folder = ice_cream();
    let report =
        run(folder.path(), "train ice.json diary.txt --tolerance 1e-10 --iterations 1000 --out t.json --plot t.png");
    assert!(report.starts_with("Status           converged after "), "{report}");
    assert!(fs::read(folder.path().join("t.png")).unwrap().starts_with(b"\x89PNG"));
    let before = parsed(&run(folder.path(), "score ice.json diary.txt --json"))["log_likelihood"].as_f64().unwrap();
    let after = parsed(&run(folder.path(), "score t.json diary.txt --json"))["log_likelihood"].as_f64().unwrap();
    assert!(after > before + 1.0, "{before} {after}");
    // Names stay.
    assert_eq!(parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap())["states"], json!(["C", "H"]));
    let best = parsed(&run(folder.path(), "train ice.json diary.txt --restarts 5 --seed 3 --json --iterations 500"));
    assert_eq!((&best["models"], &best["status"]), (&json!(6), &json!("converged")));
    assert!(best["log_likelihood"].as_f64().unwrap() >= after - 1e-3);
    let logs = best["log_likelihoods"].as_array().unwrap();
    assert!(logs.windows(2).all(|pair| pair[1].as_f64() >= pair[0].as_f64()));
    let same = parsed(&run(folder.path(), "train ice.json diary.txt --restarts 5 --seed 3 --json --iterations 500"));
    assert_eq!(same["all"], best["all"]);
    let one = piped(folder.path(), &["train", "ice.json", "diary.txt", "--iterations", "1", "--out", "-"], "");
    assert_eq!(one.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&one.stderr).starts_with("Status           not converged after 1 iterations"));
    let model = parsed(&String::from_utf8(one.stdout).unwrap());
    assert!((model["A"][0][0].as_f64().unwrap() - 0.8757410).abs() < 1e-7);
}

#[test]
fn samples_go_through_every_command() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate random --states 4 --dimensions 2 --full --seed 1 --out m.npz");
    run(folder.path(), "sample m.npz --sequences 20 --length 30 --out d.npy --lengths l.npy --states s.txt");
    let report = parsed(&run(folder.path(), "score m.npz d.npy --lengths l.npy --json"));
    assert_eq!((&report["sequences"], &report["observations"]), (&json!(20), &json!(600)));
    run(folder.path(), "train m.npz d.npy --lengths l.npy --out t.npz --quiet");
    run(folder.path(), "decode t.npz d.npy --lengths l.npy --out p.txt");
    // Well separated states are found again, nearly always.
    let (hidden, found) = ["s.txt", "p.txt"].map(|name| fs::read_to_string(folder.path().join(name)).unwrap()).into();
    let pairs = || hidden.split_whitespace().zip(found.split_whitespace());
    assert_eq!(pairs().count(), 600);
    assert!(pairs().filter(|(a, b)| a == b).count() > 420);
    let info = run(folder.path(), "info m.npz --plot a.svg");
    assert_eq!(info.lines().next(), Some("States (N)       4, 4 to start in"));
    assert!(info.contains("Emissions        vectors of 2, normal, full covariances\n"), "{info}");
    assert!(fs::read_to_string(folder.path().join("a.svg")).unwrap().contains("transition probabilities"));
    run(folder.path(), "generate left-right --states 5 --jump 2 --symbols 3 --ends --out w.json");
    let info = parsed(&run(folder.path(), "info w.json --json"));
    assert_eq!((&info["left_right"], &info["ends"], &info["transitions"]), (&json!(true), &json!(1), &json!(12)));
    assert_eq!(run(folder.path(), "sample w.json --sequences 3").lines().count(), 3);
}

#[test]
fn models_and_sequences_come_through_pipes() {
    let folder = ice_cream();
    let output = piped(folder.path(), &["score", "ice.json", "-", "--json"], "1 2 3\n");
    assert_eq!(output.status.code(), Some(0));
    let message = fails(folder.path(), "score - -", 2);
    assert_eq!(message, "error: model and sequences cannot both come from the standard input\n");
    let model = run(folder.path(), "generate ice-cream --out -");
    let output = piped(folder.path(), &["decode", "-", "diary.txt"], &model);
    assert_eq!(output.stdout.len(), 2 * 33);
}

#[test]
fn what_is_wrong_is_named() {
    let folder = ice_cream();
    fs::write(folder.path().join("bad.txt"), "1 2\n3 4\n").unwrap();
    let message = fails(folder.path(), "score ice.json bad.txt", 2);
    let expected = "error: bad.txt:2: sequence 2, position 2: found \"4\", expected one of the symbols 1, 2 and 3\n";
    assert_eq!(message, expected);
    let message = fails(folder.path(), "score diary.txt diary.txt", 2);
    assert_eq!(message, "error: diary.txt:1: found \"2\", expected M=\n");
    let message = fails(folder.path(), "train ice.json diary.txt --out model.xyz", 2);
    assert_eq!(message, "error: model.xyz: the name must end in .json or .npz or .hmm\n");
    let message = fails(folder.path(), "generate random --states 0 --symbols 2 --out -", 2);
    assert_eq!(message, "error: states is 0, expected 1 to 32768\n");
    run(folder.path(), "generate random --states 2 --symbols 2 --out r.json");
    let message = fails(folder.path(), "sample r.json", 2);
    assert_eq!(message, "error: the model has no ends: expected a length, as in --length 100\n");
    let message = fails(folder.path(), "score ice.json diary.txt --lengths l.npy", 2);
    assert!(message.starts_with("error: cannot read l.npy: "), "{message}");
    fs::write(folder.path().join("l.npy"), "").unwrap();
    let message = fails(folder.path(), "score ice.json diary.txt --lengths l.npy", 2);
    assert_eq!(message, "error: l.npy: lengths are given of NumPy's arrays only, and diary.txt is lines\n");
}

/// The kernels, emulated, say what the CPU says, to the last digits that are printed.
#[test]
fn devices_agree() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_warpkov"))
            .current_dir(&folder)
            .args(arguments.split(' '))
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run("hmm generate random --states 5 --symbols 4 --seed 3 --out model.json");
    std::fs::write(folder.path().join("data.txt"), "0 1 2 3 2 1 0\n3\n1 1 0\n2 0 3 3 1\n").unwrap();
    let value = |command: &str, device: &str| -> serde_json::Value {
        serde_json::from_str(&run(&format!("hmm {command} model.json data.txt --device {device} --json"))).unwrap()
    };
    let [cpu, emulated] = ["cpu", "emulated"].map(|device| value("score", device));
    assert_eq!(emulated["device"], "the emulator");
    let logs = |value: &serde_json::Value| -> Vec<f64> {
        let logs = value["log_likelihoods"].as_array().unwrap();
        logs.iter().map(|log| log.as_f64().unwrap()).collect()
    };
    assert_eq!(logs(&cpu).len(), 4);
    for (a, b) in logs(&cpu).into_iter().zip(logs(&emulated)) {
        assert!((a - b).abs() < 1e-12 * a.abs(), "{a} {b}");
    }
    let paths = |device: &str| run(&format!("hmm decode model.json data.txt --device {device}"));
    assert_eq!(paths("cpu"), paths("emulated"));
    assert_eq!(paths("cpu").lines().count(), 4);
    // 513 steps are two pieces.
    let symbol = |t: u32| if t * t % 7 == 2 { "3" } else { ["0", "1", "2"][t as usize % 3] };
    let long = (0..513).map(symbol).collect::<Vec<_>>().join(" ");
    std::fs::write(folder.path().join("data.txt"), format!("{long}\n1 2\n")).unwrap();
    let cpu = value("score", "cpu");
    let scanned = value("score", "emulated --scan always");
    for (a, b) in logs(&cpu).into_iter().zip(logs(&scanned)) {
        assert!((a - b).abs() < 1e-12 * a.abs(), "{a} {b}");
    }
    assert_eq!(paths("cpu"), paths("emulated --scan always"));
    let usage = |arguments: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_warpkov"));
        let output = command.current_dir(&folder).args(arguments.split(' ')).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, message) = usage("hmm score model.json data.txt --device cpu --scan always");
    assert_eq!((code, &*message), (Some(2), "error: --scan always needs a GPU: on a CPU it would only add work\n"));
    run("hmm generate random --states 65 --symbols 4 --out large.json");
    let (code, message) = usage("hmm score large.json data.txt --device emulated --scan always");
    assert_eq!((code, &*message), (Some(2), "error: --scan always takes up to 64 states, and the model has 65\n"));
}
