//! `warpkov hmm train --by variational`.

use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};
use warpkov::hmm::backends::device::OverPaths;
use warpkov::hmm::io::sequences::ReadOptions;
use warpkov::hmm::io::{self, beliefs};
use warpkov::hmm::model::{Emissions, Names};
use warpkov::hmm::options::{Constraint, Options, Precision};
use warpkov::hmm::run::alone;
use warpkov::hmm::variational::{Beliefs, TrainedBeliefs, train_beliefs};
use warpkov::runtime::choose::DeviceChoice;

use crate::common::{self, fails, ice_cream, parsed, piped, returns, run};

/// The JSON report of a training, whose bounds rise.
#[track_caller]
fn trained(folder: &Path, arguments: &str) -> Value {
    let report = common::trained(folder, &format!("{arguments} --by variational"));
    let bounds: Vec<f64> = report["lower_bounds"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert!(bounds.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0)), "{bounds:?}");
    assert_eq!(report["lower_bound"].as_f64(), bounds.last().copied());
    report
}

fn bound(report: &Value) -> f64 {
    report["lower_bound"].as_f64().unwrap()
}

fn posterior(folder: &Path, name: &str) -> Beliefs {
    beliefs::read(&folder.join(name)).unwrap().0
}

/// All numbers of a file of JSON.
fn numbers(folder: &Path, name: &str) -> Vec<f64> {
    fn list(value: &Value, found: &mut Vec<f64>) {
        match value {
            Value::Object(map) => map.values().for_each(|value| list(value, found)),
            Value::Array(array) => array.iter().for_each(|value| list(value, found)),
            value => found.extend(value.as_f64()),
        }
    }
    let mut found = Vec::new();
    list(&parsed(&fs::read_to_string(folder.join(name)).unwrap()), &mut found);
    found
}

#[track_caller]
fn near(found: &[f64], expected: &[f64], tolerance: f64) {
    let close = |(x, y): (&f64, &f64)| (x - y).abs() <= tolerance * y.abs().max(1.0);
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(close), "{found:?}\nexpected {expected:?}");
}

/// Random models of all kinds, by the command on CPU, emulator and two ranks, and by the library.
#[test]
fn the_command_is_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let here = |name: &str| folder.path().join(name);
    let kinds = [
        ("--symbols 3", "none"),
        ("--symbols 4 --ends", "none"),
        ("--dimensions 2", "none"),
        ("--dimensions 2 --full", "none"),
        ("--dimensions 2 --full", "tied"),
    ];
    for (seed, (kind, constraint)) in kinds.into_iter().enumerate() {
        run(folder.path(), &format!("generate random --states 3 {kind} --seed {seed} --out m.json"));
        let file = if kind.contains("symbols") { "d.txt" } else { "d.csv" };
        run(folder.path(), &format!("sample m.json --sequences 4 --length 30 --seed {seed} --out {file}"));
        fs::write(here("weights.txt"), "1\n2\n0\n0.5\n").unwrap();
        let tied = if constraint == "tied" { "--covariances tied" } else { "" };
        let options = format!("m.json {file} --weights weights.txt --iterations 12 {tied}");
        let report = trained(folder.path(), &format!("{options} --posterior q.json --out mean.json --device cpu"));
        assert_eq!((&report["by"], &report["models"]), (&json!("variational"), &json!(1)));
        // The library.
        let model = io::read(&here("m.json"), None).unwrap();
        let records = io::sequences::read_with(&here(file), &ReadOptions::default(), &model).unwrap();
        let sequences = records.sequences.with_weights(vec![1.0, 2.0, 0.0, 0.5]).unwrap();
        let constraint = if constraint == "tied" { Constraint::Tied } else { Constraint::None };
        let options_of = Options { iterations: 12, constraint, ..Options::default() };
        let model = model.with_emissions(|emissions| match emissions {
            Emissions::Gaussian { dimensions, means, covariances } if !tied.is_empty() => {
                Emissions::Gaussian { dimensions, means, covariances: covariances.tied(2) }
            }
            others => others,
        });
        let model = model.unwrap();
        let prior = Beliefs::prior(&model, &sequences, &options_of).unwrap();
        let start = prior.start_at(&model, &sequences, &options_of).unwrap();
        let found = alone(&model, &sequences, DeviceChoice::Cpu, Precision::F64, OverPaths::Sums, |recursions| {
            let found = train_beliefs(recursions, &sequences, &prior, vec![start], &options_of, &mut |_| {
                ControlFlow::Continue(())
            });
            Ok::<TrainedBeliefs, Box<dyn Error>>(found?)
        });
        let found = found.unwrap();
        assert_eq!(bound(&report), found.best().bound(), "{kind}");
        assert_eq!(posterior(folder.path(), "q.json"), found.best().beliefs, "{kind}");
        let mean = found.best().beliefs.mean(Names::default()).unwrap();
        let written = io::read(&here("mean.json"), None).unwrap();
        assert_eq!(written.transitions(), mean.transitions());
        // Other devices.
        let q = numbers(folder.path(), "q.json");
        for (device, tolerance) in
            [("emulated", 1e-8), ("emulated --precision f32", 1e-2), ("cpu --precision f32", 1e-2)]
        {
            let arguments = format!("{options} --posterior other.json --device {device}");
            let arguments = format!("train {arguments} --by variational --json");
            let output = piped(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>(), "");
            let other = parsed(&String::from_utf8(output.stdout).unwrap());
            near(&[bound(&other)], &[bound(&report)], tolerance);
            if tolerance < 1e-3 {
                near(&numbers(folder.path(), "other.json"), &q, 1e-6);
            }
        }
    }
}

#[test]
fn starts_are_compared_and_drawn() {
    let folder = ice_cream();
    let here = |name: &str| folder.path().join(name);
    let command =
        "ice.json diary.txt --restarts 4 --seed 3 --iterations 500 --tolerance 1e-9 --plot l.svg --out t.json";
    let report = trained(folder.path(), command);
    let all = report["all"].as_array().unwrap();
    let bounds: Vec<f64> = all.iter().map(bound).collect();
    assert_eq!((bounds.len(), &report["models"]), (5, &json!(5)));
    assert_eq!(bounds.iter().copied().fold(f64::NEG_INFINITY, f64::max), bound(&report));
    let best = report["best"].as_u64().unwrap() as usize;
    assert_eq!((&all[best]["iterations"], &all[best]["converged"]), (&report["iterations"], &json!(true)));
    assert!(fs::read_to_string(here("l.svg")).unwrap().contains("lower bound"));
    let mean = parsed(&fs::read_to_string(here("t.json")).unwrap());
    assert_eq!(mean["states"], json!(["C", "H"]));
    // The same seed, the same starts.
    assert_eq!(trained(folder.path(), command)["all"], report["all"]);
    let text = run(folder.path(), &format!("train {command} --by variational"));
    assert!(text.contains("\nEvidence         ln P(O) has the lower bound -") && text.contains("\n  5"), "{text}");
    let line = run(folder.path(), &format!("train {command} --by variational --quiet"));
    assert!(line.starts_with("ln P(O) >= -") && line.lines().count() == 1, "{line}");
    // Vectors start at clusters, too.
    let vectors = returns([1.0, 16.0]);
    trained(vectors.path(), "m.json d.csv --restarts 3 --start kmeans --iterations 20");
    let streamed = piped(folder.path(), &["train", "ice.json", "diary.txt", "--by", "variational", "--out", "-"], "");
    assert!(parsed(&String::from_utf8(streamed.stdout).unwrap())["A"].is_array());
    assert!(String::from_utf8(streamed.stderr).unwrap().starts_with("Status           converged after "));
}

/// Two batches: of one state, the posterior of one as prior of the other is that of both. Zeros and known states.
#[test]
fn evidence_accumulates() {
    let folder = tempfile::tempdir().unwrap();
    let here = |name: &str| folder.path().join(name);
    for (kind, file) in [("--symbols 3", "txt"), ("--dimensions 2", "csv"), ("--dimensions 2 --full", "csv")] {
        run(folder.path(), &format!("generate random --states 1 {kind} --out m.json"));
        run(folder.path(), &format!("sample m.json --sequences 1 --length 9 --seed 1 --out a.{file}"));
        run(folder.path(), &format!("sample m.json --sequences 1 --length 7 --seed 2 --out b.{file}"));
        let [a, b] = ["a", "b"].map(|name| fs::read_to_string(here(&format!("{name}.{file}"))).unwrap());
        let without_header = |text: &str| text.lines().skip(usize::from(file == "csv")).collect::<Vec<_>>().join("\n");
        fs::write(here(&format!("all.{file}")), format!("{a}{}\n", without_header(&b))).unwrap();
        // A prior for all of them.
        trained(folder.path(), &format!("m.json a.{file} --posterior p.json"));
        let step = |data: &str, prior: &str, posterior: &str| {
            trained(folder.path(), &format!("m.json {data}.{file} --prior {prior}.json --posterior {posterior}.json"));
        };
        step("a", "p", "first");
        step("b", "first", "second");
        step("all", "p", "whole");
        let [one_by_one, at_once] = ["second.json", "whole.json"].map(|name| numbers(folder.path(), name));
        let [before, after] = ["p.json", "whole.json"].map(|name| posterior(folder.path(), name));
        assert_ne!(before, after);
        if file == "txt" {
            near(&one_by_one, &at_once, 1e-9);
            assert_eq!(after.transitions[0] - before.transitions[0], 14.0);
        } else {
            // One sequence in place of two has a transition more.
            let [one_by_one, at_once] = ["second.json", "whole.json"].map(|name| posterior(folder.path(), name));
            assert_eq!(at_once.transitions[0] - one_by_one.transitions[0], 1.0);
            let emissions = |beliefs: &Beliefs| {
                let mut text = Vec::new();
                beliefs::write_to(&mut text, beliefs, &Names::default()).unwrap();
                let found: Value = serde_json::from_slice(&text).unwrap();
                fs::write(here("e.json"), json!([found["m"], found["beta"], found["nu"], found["S"]]).to_string())
                    .unwrap();
                numbers(folder.path(), "e.json")
            };
            near(&emissions(&one_by_one), &emissions(&at_once), 1e-9);
        }
    }
    let folder = ice_cream();
    let here = |name: &str| folder.path().join(name);
    run(folder.path(), "sample ice.json --sequences 20 --length 10 --out days.txt --states states.txt");
    let known = "ice.json days.txt --states states.txt";
    let report = trained(folder.path(), &format!("{known} --iterations 2 --posterior q.json"));
    // The second iteration changes nothing.
    assert_eq!((&report["status"], &report["iterations"]), (&json!("converged"), &json!(2)));
    let counts = posterior(folder.path(), "q.json");
    let states = fs::read_to_string(here("states.txt")).unwrap();
    let visits = states.split_whitespace().filter(|state| *state == "C").count() as f64;
    assert!((counts.transitions[0] + counts.transitions[1] + counts.end.unwrap()[0] - 1.0 - visits).abs() < 1e-9);
    // Known states: the counts add up.
    trained(folder.path(), &format!("{known} --prior q.json --posterior twice.json"));
    trained(folder.path(), &format!("{known} --iterations 2 --posterior once.json"));
    fs::write(here("two.txt"), "2\n".repeat(20)).unwrap();
    trained(folder.path(), &format!("{known} --weights two.txt --posterior both.json"));
    near(&numbers(folder.path(), "twice.json"), &numbers(folder.path(), "both.json"), 1e-9);
    // Pseudocounts are parameters of the prior.
    trained(folder.path(), &format!("{known} --pseudocount 2 --sticky 5 --posterior more.json"));
    let more = posterior(folder.path(), "more.json");
    assert!((more.transitions[0] - counts.transitions[0] - 7.0).abs() < 1e-9);
    assert!((more.transitions[1] - counts.transitions[1] - 2.0).abs() < 1e-9);
    // What is frozen keeps its start, and zeros stay.
    trained(folder.path(), "ice.json days.txt --freeze transitions,symbols --iterations 3 --posterior f.json");
    trained(folder.path(), "ice.json days.txt --freeze transitions,symbols --iterations 0 --posterior s.json");
    let [frozen, start] = ["f.json", "s.json"].map(|name| posterior(folder.path(), name));
    assert_eq!((&frozen.transitions, &frozen.emissions), (&start.transitions, &start.emissions));
    assert_ne!(frozen.start, start.start);
    let model = r#"{"pi": [1, 0], "A": [[0.5, 0.5], [0, 1]], "B": [[0.5, 0.5, 0], [0, 0.5, 0.5]]}"#;
    fs::write(here("zeros.json"), model).unwrap();
    fs::write(here("few.txt"), "0 1 1 2\n0 0 1 2 2\n").unwrap();
    trained(folder.path(), "zeros.json few.txt --restarts 2 --posterior z.json --out mean.json");
    let mean = parsed(&fs::read_to_string(here("mean.json")).unwrap());
    assert_eq!([&mean["pi"][1], &mean["A"][1][0], &mean["B"][0][2]], [&json!(0.0); 3]);
    // The mean is a start of the next batch.
    trained(folder.path(), "mean.json few.txt --prior z.json --posterior y.json");
}

#[test]
fn the_number_of_states_has_the_highest_bound() {
    let folder = ice_cream();
    run(folder.path(), "sample ice.json --sequences 40 --length 30 --out d.txt");
    let arguments = "ice.json d.txt --choose-states 1..3 --restarts 2 --iterations 500 --tolerance 1e-8";
    let report = trained(folder.path(), &format!("{arguments} --out best.json"));
    let candidates = report["candidates"].as_array().unwrap();
    let bounds: Vec<f64> = candidates.iter().map(bound).collect();
    assert_eq!(candidates.iter().map(|one| one["states"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(bounds[1] > bounds[0] && bounds[1] > bounds[2], "{bounds:?}");
    assert_eq!(bound(&report), bounds[1]);
    assert_eq!(parsed(&fs::read_to_string(folder.path().join("best.json")).unwrap())["A"].as_array().unwrap().len(), 2);
    let text = run(folder.path(), &format!("train {arguments} --by variational"));
    assert!(text.contains("\n  2* ") && text.contains("\nStates "), "{text}");
}

#[test]
fn missing_symbols_are_marginalised_and_vectors_refused() {
    let folder = ice_cream();
    let here = |name: &str| folder.path().join(name);
    fs::write(here("gaps.txt"), "1 2 NA 3 2 NA\nNA 1 1 2\n").unwrap();
    trained(folder.path(), "ice.json gaps.txt --missing marginalise --posterior q.json");
    // Only what is seen counts for B: 8 of 10 steps.
    let parsed_counts = parsed(&fs::read_to_string(here("q.json")).unwrap());
    let counts = parsed_counts["B"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    assert!((counts.map(|x| x.as_f64().unwrap()).sum::<f64>() - 2.0 - 7.0).abs() < 1e-9, "{parsed_counts}");
    let vectors = returns([1.0, 4.0]);
    fs::write(vectors.path().join("gaps.csv"), "1\nNA\n2\n").unwrap();
    let message = fails(vectors.path(), "train m.json gaps.csv --missing marginalise --by variational", 2);
    assert!(
        message.contains("--by variational: vectors have missing components, which variational Bayes does not take")
    );
}

#[test]
fn what_does_not_apply_is_refused() {
    let folder = ice_cream();
    let here = |name: &str| folder.path().join(name);
    let message = |options: &str| fails(folder.path(), &format!("train ice.json diary.txt {options}"), 2);
    for option in ["--tie", "--floor 1e-3", "--checkpoint c", "--resume c", "--covariances spherical"] {
        let name = if option.contains("covariances") { option } else { option.split(' ').next().unwrap() };
        let expected = format!("error: {name} is not for --by variational\n");
        assert_eq!(message(&format!("--by variational {option}")), expected);
    }
    assert_eq!(
        message("--by variational --choose-states 1,2 --held-out 0.5"),
        "error: --held-out is not for --by variational\n"
    );
    assert_eq!(message("--posterior q.json"), "error: --posterior is for --by variational\n");
    assert_eq!(message("--by viterbi --prior q.json"), "error: --prior is for --by variational\n");
    assert!(message("--by variational --posterior q.npz").contains("json"));
    for option in ["--pseudocount 1", "--sticky 1", "--choose-states 1,2"] {
        assert!(message(&format!("--by variational --prior q.json {option}")).contains("cannot be used with"));
    }
    assert!(message("--by variational --prior absent.json").starts_with("error: cannot read absent.json"));
    assert!(message("--by variational --posterior ice.json").contains("expected another file to write to"));
    // Priors of other models.
    run(folder.path(), "train ice.json diary.txt --by variational --posterior q.json --quiet");
    let file = fs::read_to_string(here("q.json")).unwrap();
    for (from, to) in [("\"C\"", "\"cold\""), ("\"1\"", "\"one\"")] {
        fs::write(here("other.json"), file.replace(from, to)).unwrap();
        assert_eq!(
            message("--by variational --prior other.json"),
            "error: --prior other.json: expected the shape, the zeros and the names of MODEL, and its kind of covariances\n"
        );
    }
    fs::write(here("other.json"), r#"{"pi": [1], "A": [[1]], "B": [[1, 1, 1]]}"#).unwrap();
    assert!(message("--by variational --prior other.json").contains("expected the shape, the zeros and the names"));
    for (text, expected) in [
        (r#"{"pi": [1], "A": [[1]]}"#, "key \"B\" is missing (or m)"),
        (r#"{"pi": [1], "A": [[1]], "m": [[0]]}"#, "expected \"beta\", \"nu\" and \"S\" with \"m\""),
        (r#"{"pi": [1], "A": [[1]], "B": [[1]], "nu": [1]}"#, "found \"beta\", \"nu\" or \"S\" without \"m\""),
        (r#"{"pi": [-1], "A": [[1]], "B": [[1]]}"#, "a Dirichlet parameter is -1, expected a number of at least 0"),
        (r#"{"pi": [1], "A": [[1]], "B": [[]]}"#, "B has no symbols"),
        (r#"{"pi": [1], "A": [[1]], "m": [[]], "beta": [1], "nu": [1], "S": [[]]}"#, "m has no dimensions"),
        (
            r#"{"pi": [1], "A": [[1]], "m": [[0, 0]], "beta": [1], "nu": [2], "S": [[[1, 0.5], [0, 1]]]}"#,
            "S is not symmetric",
        ),
    ] {
        fs::write(here("wrong.json"), text).unwrap();
        let message = message("--by variational --prior wrong.json");
        assert!(message.starts_with("error: wrong.json") && message.contains(expected), "{message}");
    }
    let vectors = returns([1.0, 4.0]);
    for part in ["means", "covariances"] {
        let message = fails(vectors.path(), &format!("train m.json d.csv --by variational --freeze {part}"), 2);
        assert!(message.starts_with(&format!("error: --freeze {part} without ")), "{message}");
    }
    trained(vectors.path(), "m.json d.csv --freeze means,covariances --iterations 3");
    let channels = r#"{"pi": [1], "A": [[1]], "channels": [{"family": "poisson", "columns": [0], "rates": [1]}]}"#;
    fs::write(here("channels.json"), channels).unwrap();
    fs::write(here("counts.csv"), "1\n2\n0\n").unwrap();
    let message = fails(folder.path(), "train channels.json counts.csv --by variational", 2);
    assert_eq!(message, "error: --by variational: a model with channels has no variational Bayes\n");
    let durations = r#"{"pi": [1, 0], "A": [[0, 1], [1, 0]], "B": [[0.5, 0.5], [0.5, 0.5]],
        "durations": [{"categorical": [0.5, 0.5]}, null]}"#;
    fs::write(here("durations.json"), durations).unwrap();
    fs::write(here("few.txt"), "0 1 0\n").unwrap();
    let message = fails(folder.path(), "train durations.json few.txt --by variational", 2);
    assert_eq!(message, "error: --by variational: a model with durations has no variational Bayes\n");
    fs::write(here("zeros.json"), r#"{"pi": [1], "A": [[1]], "B": [[1, 0]]}"#).unwrap();
    let message = fails(folder.path(), "train zeros.json few.txt --by variational", 2);
    assert!(message.contains("its likelihood is 0, and stays so"), "{message}");
}
