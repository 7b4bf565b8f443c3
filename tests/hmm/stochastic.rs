//! `warpkov hmm train --by stochastic`.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::Value;
use warpkov::hmm::backends::device::OverPaths;
use warpkov::hmm::io;
use warpkov::hmm::io::sequences::{Batches, ReadOptions};
use warpkov::hmm::model::Emissions;
use warpkov::hmm::options::{Options, Precision, Pseudocounts};
use warpkov::hmm::run::alone;
use warpkov::hmm::stochastic::{Passes, Stochastic};
use warpkov::runtime::choose::DeviceChoice;

use crate::common::{fails, ice_cream, piped, run, trained};

fn logs(report: &Value) -> Vec<f64> {
    report["log_likelihoods"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Passes of the library over batches of a file.
fn by_library(folder: &Path, file: &str, lengths: Option<&str>, exponent: f64, passes: u32) -> (Stochastic, Passes) {
    let model = io::read(&folder.join("m.json"), None).unwrap();
    let options = ReadOptions { lengths: lengths.map(|name| folder.join(name)), ..ReadOptions::default() };
    let training = Options { pseudocounts: Pseudocounts::equal(0.25), ..Options::default() };
    let (mut trained, mut found) = (Stochastic::new(model.clone(), training, exponent).unwrap(), Passes::default());
    for _ in 0..passes {
        let mut batches = Batches::open(&folder.join(file), &options, &model).unwrap();
        let mut sum = 0.0;
        while let Some(records) = batches.next(3).unwrap() {
            let sequences = &records.sequences;
            let (cpu, precision) = (DeviceChoice::Cpu, Precision::F64);
            sum += alone(&model, sequences, cpu, precision, OverPaths::Sums, |recursions| {
                Ok::<f64, Box<dyn Error>>(trained.learn(recursions, sequences)?)
            })
            .unwrap();
        }
        trained.end_pass();
        found.log_likelihoods.push(sum);
    }
    (trained, found)
}

/// Files of all kinds, on CPU and emulator, and by the library.
#[test]
fn the_command_is_the_library() {
    for (seed, kind) in
        ["--symbols 3", "--symbols A,C,G,T --ends", "--dimensions 1", "--dimensions 2 --full"].iter().enumerate()
    {
        let folder = tempfile::tempdir().unwrap();
        let (file, lengths) = match seed {
            0 | 2 => ("d.txt", None),
            1 => ("d.fasta", None),
            _ => ("d.npy", Some("l.npy")),
        };
        run(folder.path(), &format!("generate random --states 3 {kind} --seed {seed} --out m.json"));
        let with_lengths = lengths.map_or(String::new(), |lengths| format!("--lengths {lengths}"));
        let sample = format!("sample m.json --sequences 7 --length 20 --seed {seed} --out {file} {with_lengths}");
        run(folder.path(), sample.trim());
        let options =
            format!("m.json {file} {with_lengths} --by stochastic --batch 3 --iterations 4 --pseudocount 0.25");
        let report = trained(folder.path(), &format!("{options} --exponent 0.8 --device cpu --out t.json"));
        let (expected, passes) = by_library(folder.path(), file, lengths, 0.8, 4);
        assert_eq!(logs(&report), passes.log_likelihoods, "{kind}");
        let written = io::read(&folder.path().join("t.json"), None).unwrap();
        assert_eq!(written.transitions(), expected.model().transitions(), "{kind}");
        assert_eq!(written.emissions(), expected.model().emissions(), "{kind}");
        assert_eq!((&report["batches"], &report["sequences"], &report["batch"]), (&12.into(), &7.into(), &3.into()));
        assert_eq!((&report["by"], &report["exponent"]), (&"stochastic".into(), &0.8.into()));
        for (device, tolerance) in [("emulated", 1e-8), ("cpu --precision f32", 1e-2)] {
            let other = trained(folder.path(), &format!("{options} --exponent 0.8 --device {device}"));
            let close = |(x, y): (&f64, &f64)| (x - y).abs() <= tolerance * y.abs();
            assert!(
                logs(&other).iter().zip(&logs(&report)).all(close),
                "{kind}: {:?}, {:?}",
                logs(&other),
                logs(&report)
            );
        }
    }
}

/// All sequences as one batch: one pass is one iteration of EM.
#[test]
fn one_batch_is_one_iteration() {
    let folder = ice_cream();
    let parameters = |name: &str| {
        let model = io::read(&folder.path().join(name), None).unwrap();
        let Emissions::Categorical { probs, .. } = model.emissions() else { panic!("{name} has no symbols") };
        [model.start(), model.transitions(), probs].concat()
    };
    let near = |found: Vec<f64>, expected: Vec<f64>| found.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-12);
    for options in ["", "--pseudocount 2", "--sticky 3", "--freeze symbols"] {
        let options = format!("ice.json diary.txt {options} --iterations 1 --device cpu");
        trained(folder.path(), &format!("{options} --out em.json"));
        let report = trained(folder.path(), &format!("{options} --by stochastic --out one.json"));
        assert!(near(parameters("one.json"), parameters("em.json")), "{options}");
        assert_eq!(report["status"], "not converged");
    }
}

/// Batches have sets of symbols of their own.
#[test]
fn ambiguous_symbols_are_those_of_their_batch() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate random --states 2 --symbols A,C,G,T --out m.json");
    fs::write(folder.path().join("d.fasta"), ">a\nACGTRACG\n>b\nACGYYTTA\n>c\nGGGGTTTA\n>d\nNACWTRAA\n").unwrap();
    let all = "m.json d.fasta --missing marginalise --iterations 1 --device cpu";
    // The parameters stay, so each batch counts as it does among all.
    let frozen = "--freeze start,transitions,symbols";
    let expected = logs(&trained(folder.path(), &format!("{all} {frozen}")))[0];
    for batch in 1..=4 {
        let report = trained(folder.path(), &format!("{all} {frozen} --by stochastic --batch {batch}"));
        assert!((logs(&report)[0] - expected).abs() < 1e-12 * expected.abs(), "{batch}: {report}, {expected}");
    }
    let refused = fails(folder.path(), "train m.json d.fasta --by stochastic --batch 2", 2);
    assert!(refused.contains("d.fasta:2: record a, position 5"), "{refused}");
}

#[test]
fn reports_say_what_was_done() {
    let folder = ice_cream();
    let command = "train ice.json diary.txt --by stochastic --tolerance 1e-2 --plot p.svg";
    let text = run(folder.path(), command);
    assert!(text.starts_with("Status           converged after ") && text.contains(" batches of 256\n"), "{text}");
    assert!(text.contains("in the first pass, -") && text.contains("\nSequences        "), "{text}");
    assert!(fs::read_to_string(folder.path().join("p.svg")).unwrap().contains("ln P(O)"));
    let line = run(folder.path(), &format!("{command} --quiet"));
    assert!(line.starts_with("ln P(O) = -") && line.lines().count() == 1, "{line}");
}

#[test]
fn what_does_not_apply_is_refused() {
    let folder = ice_cream();
    let message = |options: &str| fails(folder.path(), &format!("train ice.json diary.txt {options}"), 2);
    for option in [
        "--restarts 2",
        "--choose-states 1,2",
        "--states s.txt",
        "--weights w.txt",
        "--iterations 0",
        "--checkpoint c",
        "--resume c",
    ] {
        let name = if option.contains("iterations") { option } else { option.split(' ').next().unwrap() };
        let expected = format!("error: {name} is not for --by stochastic\n");
        assert_eq!(message(&format!("--by stochastic {option}")), expected);
    }
    assert_eq!(message("--batch 3"), "error: --batch is for --by stochastic\n");
    assert_eq!(message("--by viterbi --exponent 0.7"), "error: --exponent is for --by stochastic\n");
    assert_eq!(message("--by stochastic --posterior q.json"), "error: --posterior is for --by variational\n");
    for exponent in ["0.5", "1.01"] {
        assert!(message(&format!("--by stochastic --exponent {exponent}")).contains("above 0.5, at most 1"));
    }
    assert!(message("--by stochastic --batch 0").contains("--batch"));
    assert!(message("--by stochastic --device emulated:0,1").contains("emulated"));
    for source in ["-", "/dev/stdin"] {
        let standard = piped(folder.path(), &["train", "ice.json", source, "--by", "stochastic"], "1 2\n");
        let errors = String::from_utf8(standard.stderr).unwrap();
        assert!(
            standard.status.code() == Some(2) && errors.contains("a regular file, which each pass reads"),
            "{errors}"
        );
    }
    // Other formats, and sequences that are impossible, with their places.
    fs::write(folder.path().join("d.csv"), "sequence,observation\n1,1\n1,2\n").unwrap();
    let table = fails(folder.path(), "train ice.json d.csv --by stochastic", 2);
    assert!(table.contains("d.csv") && table.contains("lines, FASTA and NumPy arrays"), "{table}");
    let zeros = r#"{"pi": [1, 0], "A": [[1, 0], [0, 1]], "B": [[1, 0], [0, 1]]}"#;
    fs::write(folder.path().join("zeros.json"), zeros).unwrap();
    fs::write(folder.path().join("two.txt"), "0 0\n0 0\n0 1\n").unwrap();
    let message = fails(folder.path(), "train zeros.json two.txt --by stochastic --batch 2", 2);
    assert!(message.starts_with("error: two.txt after sequence 2: sequence 1, position 2"), "{message}");
}
