//! `warpkov hmm train`, run as users and scripts run it, on one rank and on several.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{fails, ice_cream, parsed, piped, returns, run};

#[test]
fn variances_scale_with_the_unit_of_the_data() {
    let mut risen = Vec::new();
    for scale in [1e-24, 1e-8, 1.0, 1e24] {
        let folder = returns([scale, 16.0 * scale]);
        let before = parsed(&run(folder.path(), "score m.json d.csv --json"))["log_likelihood"].as_f64().unwrap();
        // The tolerance is relative to ln P, which depends on the unit.
        let arguments = "train m.json d.csv --json --out t.json --tolerance 0 --iterations 30";
        let output = piped(folder.path(), &arguments.split(' ').collect::<Vec<_>>(), "");
        let report = parsed(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(report["floored"], json!({"states": 0, "variances": 0}));
        risen.push(report["log_likelihood"].as_f64().unwrap() - before);
        let trained = parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap());
        let [quiet, loud] = [0, 1].map(|state: usize| trained["covariances"][state][0].as_f64().unwrap() / scale);
        assert!((0.5..2.0).contains(&quiet) && (8.0..32.0).contains(&loud), "{quiet} {loud}");
    }
    // The same data in another unit give the same model.
    assert!(risen.iter().all(|rise| *rise >= 0.0 && (rise - risen[0]).abs() < 1e-6), "{risen:?}");
}

#[test]
fn an_active_variance_floor_is_reported() {
    let folder = returns([1.0, 16.0]);
    // Most observations are equal.
    let still: String = (0..60).map(|t| if t % 20 < 15 { "5\n".to_owned() } else { format!("{}\n", t % 7) }).collect();
    fs::write(folder.path().join("still.csv"), still).unwrap();
    let model = fs::read_to_string(folder.path().join("m.json")).unwrap();
    fs::write(folder.path().join("s.json"), model.replace("[[0], [0]]", "[[5], [3]]").replace("[16]", "[4]")).unwrap();
    for device in ["cpu", "emulated"] {
        let arguments = ["train", "s.json", "still.csv", "--json", "--out", "t.json", "--device", device];
        let output = piped(folder.path(), &arguments, "");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let note = String::from_utf8(output.stderr).unwrap();
        assert_eq!(note, "note: the floor holds variances of 1 of 2 states, 1 in all (floor 1e-9)\n");
        let report = parsed(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(
            (&report["floored"], &report["status"]),
            (&json!({"states": 1, "variances": 1}), &json!("converged"))
        );
        let trained = parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap());
        assert!(trained["covariances"][0][0].as_f64().unwrap() < 1e-8);
    }
    // A given smaller floor is used, and the likelihood does not fall.
    let small = fs::read_to_string(folder.path().join("s.json")).unwrap().replace("[[1]", "[[1e-15]");
    fs::write(folder.path().join("s.json"), small).unwrap();
    let report = parsed(&run(folder.path(), "train s.json still.csv --json --out t.json"));
    assert_eq!(report["fell"], Value::Null);
    let trained = parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap());
    assert_eq!(trained["covariances"][0][0], json!(1e-15));
}

#[test]
fn full_covariances_learn_correlations_from_any_start() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [1], "A": [[1]], "means": [[0, 0]], "covariances": [[[1, 0], [0, 1]]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.csv"), "x,y\n1,1\n2,2.5\n3,2.5\n4,4\n").unwrap();
    let covariance = |arguments: &str| {
        run(folder.path(), &format!("train m.json d.csv {arguments} --out t.npz"));
        run(folder.path(), "train t.npz d.csv --iterations 1 --out t.json");
        let trained = parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap());
        trained["covariances"][0][0].clone()
    };
    assert!((covariance("--quiet")[1].as_f64().unwrap() - 1.125).abs() < 1e-12);
    assert!((covariance("--covariances diagonal").as_f64().unwrap() - 1.25).abs() < 1e-12);
}

#[test]
fn constrained_covariances_and_frozen_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.5, 0.5], "A": [[0.5, 0.5], [0.5, 0.5]], "means": [[0, 0], [6, 6]],
        "covariances": [[1, 2], [3, 4]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.csv"), "x,y\n1,1\n2,2.5\n-1,-2\n8,3\n7,6\n5,6\n0,1\n0,-1\n").unwrap();
    let trained = |arguments: &str| {
        let output = piped(
            folder.path(),
            &format!("train m.json d.csv --tolerance 1e-12 --iterations 500 --json --out t.json {arguments}")
                .split(' ')
                .collect::<Vec<_>>(),
            "",
        );
        let report = parsed(&String::from_utf8(output.stdout).unwrap());
        let bits = |name: &str| report[name].as_f64().unwrap();
        // AIC = 2 k − 2 ln P
        let parameters = (bits("aic") + 2.0 * bits("log_likelihood")) / 2.0;
        (parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap()), parameters.round())
    };
    let (tied, parameters) = trained("--covariances tied");
    assert_eq!((&tied["covariances"][0], parameters), (&tied["covariances"][1], 3.0 + 4.0 + 3.0));
    assert!(tied["covariances"][0][0][1].as_f64().unwrap().abs() > 0.01);
    let (spherical, parameters) = trained("--covariances spherical --restarts 3");
    assert_eq!((&spherical["covariances"][0][0], parameters), (&spherical["covariances"][0][1], 3.0 + 4.0 + 2.0));
    assert_ne!(spherical["covariances"][0], spherical["covariances"][1]);
    let (frozen, _) = trained("--freeze transitions,means --restarts 2");
    assert_eq!(frozen["A"], json!([[0.5, 0.5], [0.5, 0.5]]));
    let number = |value: &Value| value.as_f64().unwrap();
    assert_eq!([0, 1].map(|state: usize| number(&frozen["means"][state][1])), [0.0, 6.0]);
    assert!((number(&frozen["covariances"][1][1]) - 4.0).abs() > 0.1);
    let message = fails(folder.path(), "train m.json d.csv --freeze symbols", 2);
    assert_eq!(message, "error: --freeze symbols is for models that emit symbols\n");
}

#[test]
fn known_states_and_weights() {
    let folder = ice_cream();
    let here = |name: &str| folder.path().join(name);
    run(folder.path(), "sample ice.json --sequences 50 --length 30 --out days.txt --states states.txt");
    run(folder.path(), "sample ice.json --sequences 50 --length 30 --states states.npy");
    // Of known paths, one iteration counts: the second changes nothing.
    let train = |options: &str| {
        run(folder.path(), format!("train ice.json days.txt --out t.json {options}").trim());
        fs::read_to_string(here("t.json")).unwrap()
    };
    let counted = train("--states states.txt");
    assert_eq!(counted, train("--states states.npy"));
    let near = |a: &str, b: &str| {
        let of = |text: &str| parsed(text)["A"][0][1].as_f64().unwrap();
        (of(a) - of(b)).abs() < 1e-9
    };
    assert!(near(&counted, &train("--states states.txt --device emulated")));
    assert_ne!(counted, train("--tolerance 1e-3"));
    let states = fs::read_to_string(here("states.txt")).unwrap();
    let names = parsed(&counted)["states"].clone();
    let [one, two] = [0, 1].map(|state: usize| names[state].as_str().unwrap().to_owned());
    let pairs = states.lines().flat_map(|line| line.split(' ').zip(line.split(' ').skip(1)));
    // Each visit is followed by a transition or by the end.
    let visits = states.split_whitespace().filter(|state| *state == one).count() as f64;
    let moves = pairs.filter(|pair| *pair == (one.as_str(), two.as_str())).count() as f64;
    assert!((parsed(&counted)["A"][0][1].as_f64().unwrap() - moves / visits).abs() < 1e-12);
    // Unknown states, and weights.
    fs::write(here("some.txt"), states.replace(&two, "-")).unwrap();
    fs::write(here("weights.txt"), "2\n".repeat(50)).unwrap();
    let some = train("--states some.txt --tolerance 1e-3");
    let twice = train("--states some.txt --tolerance 1e-3 --weights weights.txt");
    assert_ne!(some, counted);
    assert!(near(&some, &twice));
    let message = |options: &str| fails(folder.path(), &format!("train ice.json days.txt {options}"), 2);
    fs::write(
        here("short.txt"),
        states.lines().map(|line| format!("{}\n", &line[..line.len() / 2])).collect::<String>(),
    )
    .unwrap();
    assert!(message("--states short.txt").starts_with("error: short.txt:"));
    fs::write(here("few.txt"), "1\n2\n").unwrap();
    assert_eq!(message("--weights few.txt"), "error: few.txt: found 2 weights, expected 50, one for each sequence\n");
    fs::write(here("wrong.txt"), "1\nx\n").unwrap();
    assert_eq!(message("--weights wrong.txt"), "error: wrong.txt:2: found \"x\", expected a number\n");
    fs::write(here("foreign.txt"), states.replacen(&two, "wet", 1)).unwrap();
    assert!(message("--states foreign.txt").contains("expected one of the states"));
}

#[test]
fn priors_tolerances_and_starts() {
    let folder = ice_cream();
    let report = |options: &str| {
        let arguments = format!("train ice.json diary.txt --json --out t.json {options}");
        let output = piped(folder.path(), &arguments.split(' ').collect::<Vec<_>>(), "");
        parsed(&String::from_utf8(output.stdout).unwrap())
    };
    let stays = || {
        let trained = parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap());
        [0, 1].map(|state: usize| trained["A"][state][state].as_f64().unwrap())
    };
    let number = |report: &Value, name: &str| report[name].as_f64().unwrap();
    let plain = report("--tolerance 1e-4");
    let before = stays();
    assert!(
        (number(&report("--tolerance 1e-4 --sticky 0"), "log_likelihood") - number(&plain, "log_likelihood")).abs()
            == 0.0
    );
    for device in ["cpu", "emulated"] {
        report(&format!("--tolerance 1e-4 --sticky 100 --device {device}"));
        assert!(stays()[0] > before[0] + 0.01 && stays()[1] > before[1] + 0.01, "{:?} {before:?}", stays());
    }
    // An absolute tolerance is alone, unless both are given.
    let course = |options: &str| {
        let report = report(options);
        let logs: Vec<f64> =
            report["log_likelihoods"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        let rises: Vec<f64> = logs.windows(2).map(|pair| pair[1] - pair[0]).collect();
        (report["status"].clone(), rises)
    };
    let (status, rises) = course("--tolerance-absolute 0.01");
    let (last, others) = rises.split_last().unwrap();
    assert!(status == json!("converged") && *last <= 0.01 && others.iter().all(|rise| *rise > 0.01), "{rises:?}");
    assert!(course("--tolerance-absolute 0.01 --tolerance 0.01").1.len() < rises.len());
    let message = fails(folder.path(), "train ice.json diary.txt --start kmeans", 2);
    assert_eq!(message, "error: --start is that of random models, expected --restarts\n");
    // Symbols have no clusters.
    let [random, clustered] = ["random", "kmeans"].map(|how| report(&format!("--restarts 2 --start {how}")));
    assert_eq!(random["all"], clustered["all"]);
}

#[test]
fn clusters_are_better_starts_of_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.25, 0.25, 0.25, 0.25], "A": [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1],
        [0.1, 0.1, 0.1, 0.7]], "means": [[0, 0], [9, 0], [0, 9], [9, 9]], "covariances": [[1, 1], [1, 1], [1, 1], [1, 1]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    run(folder.path(), "sample m.json --sequences 5 --length 60 --out d.csv");
    let truth = parsed(&run(folder.path(), "score m.json d.csv --json"))["log_likelihood"].as_f64().unwrap();
    let report = |options: &str| {
        let arguments = format!("train m.json d.csv --json --restarts 12 --seed 3 {options}");
        let output = piped(folder.path(), &arguments.split(' ').collect::<Vec<_>>(), "");
        parsed(&String::from_utf8(output.stdout).unwrap())
    };
    let found = |report: &Value| -> Vec<bool> {
        report["all"].as_array().unwrap()[1..].iter().map(|log| log.as_f64().unwrap() > truth).collect()
    };
    let [random, clustered] = ["random", "kmeans"].map(|how| found(&report(&format!("--start {how}"))));
    let count = |found: &[bool]| found.iter().filter(|found| **found).count();
    assert!(count(&clustered) >= 10 && count(&clustered) > count(&random), "{clustered:?} {random:?}");
    // Paths are counted on all devices alike.
    for device in ["cpu", "emulated"] {
        let report = report(&format!("--by viterbi --start kmeans --device {device}"));
        assert_eq!(
            (&report["by"], &report["status"], &report["aic"]),
            (&json!("viterbi"), &json!("converged"), &Value::Null)
        );
        let logs = report["log_likelihoods"].as_array().unwrap();
        assert!(logs.windows(2).all(|pair| pair[1].as_f64() >= pair[0].as_f64()));
        assert!(report["log_likelihood"].as_f64().unwrap() < truth + 50.0);
    }
    let text = run(folder.path(), "train m.json d.csv --by viterbi");
    assert!(text.contains("\nln P(O, q)       -") && !text.contains("AIC"), "{text}");
}

#[test]
fn the_number_of_states_is_chosen() {
    let folder = ice_cream();
    run(folder.path(), "sample ice.json --sequences 40 --length 30 --out d.txt");
    let arguments = "train ice.json d.txt --choose-states 1..3 --restarts 2 --iterations 500 --tolerance 1e-5";
    let command = |options: &str| {
        let arguments = format!("{arguments} {options}");
        let output = piped(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>(), "");
        String::from_utf8(output.stdout).unwrap()
    };
    let figures = |report: &Value, name: &str| -> Vec<f64> {
        report["candidates"].as_array().unwrap().iter().map(|one| one[name].as_f64().unwrap()).collect()
    };
    let report = parsed(&command("--json --out best.json"));
    assert_eq!(figures(&report, "states"), [1.0, 2.0, 3.0]);
    let bics = figures(&report, "bic");
    assert!(bics[1] < bics[0] && bics[1] < bics[2], "{bics:?}");
    assert_eq!((&report["bic"], &report["models"]), (&json!(bics[1]), &json!(3)));
    assert_eq!(parsed(&fs::read_to_string(folder.path().join("best.json")).unwrap())["A"].as_array().unwrap().len(), 2);
    let scored = parsed(&run(folder.path(), "score best.json d.txt --json"));
    assert!((scored["bic"].as_f64().unwrap() - bics[1]).abs() < 1e-6);
    let text = command("");
    assert!(text.contains("\n  2* ") && text.contains("\n  3 "), "{text}");
    // What is held out and what is not are all sequences.
    let held = parsed(&command("--held-out 0.25 --json --out held.json"));
    let (logs, held_out) = (figures(&held, "log_likelihood"), figures(&held, "held_out"));
    let best = (0..3).max_by(|&a, &b| held_out[a].total_cmp(&held_out[b])).unwrap();
    let all = parsed(&run(folder.path(), "score held.json d.txt --json"))["log_likelihood"].as_f64().unwrap();
    assert!((logs[best] + held_out[best] - all).abs() < 1e-6 * all.abs());
    assert!((held_out[best] / all - 0.25).abs() < 0.1);
    let message = |options: &str| fails(folder.path(), &format!("train ice.json diary.txt {options}"), 2);
    assert!(message("--choose-states 3..x").contains("expected numbers of at least 1, as in 1..6 or 2,4,8"));
    assert!(message("--choose-states 3..1").contains("expected numbers of at least 1"));
    assert!(message("--choose-states 1,2 --held-out 1").contains("expected a number between 0 and 1"));
    assert!(message("--held-out 0.5").contains("--choose-states"));
    assert!(message("--choose-states 1,2 --freeze start").contains("cannot be used with"));
    assert!(message("--choose-states 1,2 --held-out 0.5").contains("expected at least 2"));
}

/// The numbers of states are those of the file, also if the states have durations or channels.
#[test]
fn the_number_of_states_is_chosen_of_models_with_durations_and_channels() {
    let folder = tempfile::tempdir().unwrap();
    let spells = include_str!("../../data/spells.json");
    let counts = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.1, 0.9]],
        "channels": [{"family": "poisson", "columns": [0], "rates": [1, 20]}]}"#;
    for (name, text) in [("spells.json", spells), ("counts.json", counts)] {
        fs::write(folder.path().join(name), text).unwrap();
        run(folder.path(), &format!("sample {name} --sequences 30 --length 40 --seed 5 --out d.txt"));
        let chosen = "--choose-states 1..3 --restarts 1 --iterations 40 --out best.json";
        let arguments = format!("train {name} d.txt {chosen} --json");
        let output = piped(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>(), "");
        let report = parsed(&String::from_utf8(output.stdout).unwrap());
        let candidates = report["candidates"].as_array().unwrap();
        let of = |name: &str| -> Vec<f64> { candidates.iter().map(|one| one[name].as_f64().unwrap()).collect() };
        assert_eq!(of("states"), [1.0, 2.0, 3.0], "{name}");
        assert!(of("bic")[1] < of("bic")[0], "{name}: {:?}", of("bic"));
        let best = parsed(&fs::read_to_string(folder.path().join("best.json")).unwrap());
        assert_eq!(best["A"].as_array().unwrap().len(), if of("bic")[1] < of("bic")[2] { 2 } else { 3 }, "{name}");
    }
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
    // Training keeps the names.
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

/// A command that a launcher is said to have started as this one of two processes.
fn launched(folder: &Path, arguments: &str, rank: &str, input: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).arg("hmm").args(arguments.split(' '));
    command.env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", "2").env("WARPKOV_MPI", "none.so");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// What no rank can do is an error of the first rank, before the ranks meet.
#[test]
fn launched_ranks_refuse_what_they_cannot_share() {
    let folder = ice_cream();
    let expected = "error: Open MPI's mpirun gives the standard input to one process: expected names of files\n";
    for command in ["score", "decode", "posterior", "train"] {
        for files in ["ice.json -", "- diary.txt"] {
            let started = |rank| launched(folder.path(), &format!("{command} {files}"), rank, "1 2 3\n");
            assert_eq!(started("0"), (Some(2), expected.to_owned()));
            assert_eq!(started("1"), (Some(2), String::new()));
        }
        let (code, message) = launched(folder.path(), &format!("{command} ice.json diary.txt"), "0", "");
        assert_eq!(code, Some(3));
        assert!(message.starts_with("error: no MPI library was found (tried none.so)"), "{message}");
    }
    let (code, message) = launched(folder.path(), "info ice.json", "0", "");
    assert_eq!(code, Some(2));
    assert!(message.contains("started 2 processes of a command for one process"), "{message}");
    let wrong = |rank| launched(folder.path(), "score ice.json diary.txt --device gpu", rank, "");
    assert!(wrong("0").1.contains("cuda:all"));
    // Another rank may have other options: one line of its own.
    let (code, message) = wrong("1");
    assert!(code == Some(2) && message.starts_with("rank 1: error: invalid value 'gpu'"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn several_devices_are_several_gpus() {
    let folder = ice_cream();
    for devices in ["cuda:0,0", "cuda:0,", "cuda:,", "cpu,cpu", "cuda:0,x", "cuda:0-1", "all"] {
        for command in ["score", "decode", "posterior", "train"] {
            let message = fails(folder.path(), &format!("{command} ice.json diary.txt --device {devices}"), 2);
            assert!(message.contains("cuda:N,M,… with distinct numbers, cuda:all or emulated"), "{message}");
        }
    }
    // One process alone has no ranks to report.
    let report = parsed(&run(folder.path(), "score ice.json diary.txt --json --device cpu --timeout 5"));
    assert_eq!(report.get("ranks"), None);
    assert!(!run(folder.path(), "train ice.json diary.txt --tolerance 1 --device cpu").contains("Ranks"));
    let message = fails(folder.path(), "train ice.json diary.txt --device cuda:4096,4097", 3);
    assert_eq!(message.lines().count(), 1, "{message}");
}

/// A semi-Markov model through all commands: its own states are shown, and training resumes with the bits of an undisturbed run.
#[test]
fn durations_are_shown_and_trained() {
    let folder = tempfile::tempdir().unwrap();
    let model = json!({
        "pi": [0.5, 0.5], "A": [[0, 1], [1, 0]], "states": ["dry", "wet"],
        "durations": [{"poisson": {"rate": 4, "max": 12}}, {"categorical": [0.25, 0.5, 0.25]}],
        "B": [[0.875, 0.125], [0.25, 0.75]], "symbols": ["sun", "rain"],
    });
    fs::write(folder.path().join("m.json"), model.to_string()).unwrap();
    let run = |arguments: &str| run(folder.path(), arguments);
    let info = run("info m.json");
    assert!(info.contains("States (N)       2, 2 to start in\n"), "{info}");
    assert!(info.contains("Duration         wet: categorical\n"), "{info}");
    assert!(info.contains("Free parameters  6\n"), "{info}");
    let shown = parsed(&run("info m.json --show wet --json"));
    assert_eq!(shown["duration"], json!({"categorical": [0.25, 0.5, 0.25]}));
    run("sample m.json --sequences 6 --length 40 --seed 3 --out d.txt --states steps.txt");
    let steps = fs::read_to_string(folder.path().join("steps.txt")).unwrap();
    let visits: String = steps.split(' ').map(|step| step.split(':').next().unwrap()).collect::<Vec<_>>().join(" ");
    assert!(visits.contains("dry") && visits.contains("wet"), "{steps}");
    // Known steps fix the path.
    let known = parsed(&piped_report(folder.path(), "train m.json d.txt --states steps.txt --iterations 1 --json"));
    assert!(known["log_likelihood"].as_f64().unwrap() < 0.0);
    for by in ["viterbi", "posterior"] {
        let paths = run(&format!("decode m.json d.txt --by {by}"));
        assert!(paths.split_whitespace().all(|state| ["dry", "wet"].contains(&state)), "{paths}");
    }
    let table = run("posterior m.json d.txt --out - --to csv");
    assert!(table.lines().next().unwrap().ends_with("dry,wet"), "{table}");
    let begun = "train m.json d.txt --tolerance 0 --device cpu --json";
    let whole = parsed(&piped_report(folder.path(), &format!("{begun} --iterations 8 --out whole.json")));
    piped_report(folder.path(), &format!("{begun} --iterations 3 --checkpoint c --out part.json"));
    let resumed = parsed(&piped_report(folder.path(), &format!("{begun} --iterations 8 --resume c --out again.json")));
    assert_eq!(resumed["log_likelihood"], whole["log_likelihood"]);
    let files = ["whole.json", "again.json"].map(|file| fs::read(folder.path().join(file)).unwrap());
    assert_eq!(files[0], files[1]);
    let trained = parsed(&String::from_utf8(files[0].clone()).unwrap());
    assert!(trained["durations"][0]["poisson"]["rate"].as_f64().unwrap() > 0.0, "{trained}");
    assert_eq!(trained["states"], json!(["dry", "wet"]));
    let restarted = "train m.json d.txt --restarts 2 --freeze start --iterations 3 --out r.json --quiet";
    piped_report(folder.path(), restarted);
    // Other formats hold the expansion, which has the same likelihood.
    run("convert whole.json e.npz");
    let score = |model: &str| parsed(&run(&format!("score {model} d.txt --json")))["log_likelihood"].as_f64().unwrap();
    assert!((score("e.npz") - score("whole.json")).abs() < 1e-9);
    let verified = parsed(&run("decode m.json d.txt --verify --json"));
    assert_eq!(verified["verified"]["proved"], json!(true), "{verified}");
}

/// The output of a training that may end without convergence.
fn piped_report(folder: &Path, arguments: &str) -> String {
    let output = piped(folder, &arguments.split(' ').collect::<Vec<_>>(), "");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
