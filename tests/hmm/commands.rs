//! `warpkov hmm`, run as users and scripts run it.
//!
//! One file, because cargo links every file in `tests/` into a program of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;

fn piped(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).arg("hmm").args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Fails if the process exits early, without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// The output of a command that must succeed.
#[track_caller]
fn run(folder: &Path, arguments: &str) -> String {
    let output = piped(folder, &arguments.split(' ').collect::<Vec<_>>(), "");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The error message of a command that must fail with this exit code.
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

/// A folder with Eisner's ice-cream model and diary.
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
    // P(HHH, O) = .5 · .7 · .8 · .7 · .8 · .1 · .1; HHC has .1 · .7 in place of .8 · .1. CCC and HCC also end in C.
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

/// `--to` names the format of a file whatever its name, and of the standard output.
#[test]
fn to_chooses_the_format() {
    let folder = ice_cream();
    fs::write(folder.path().join("three.txt"), "3 3 1\n1\n").unwrap();
    for (command, formats, standard) in [
        ("decode", &[("text", "txt"), ("csv", "csv"), ("bed", "bed"), ("npy", "npy")][..], "txt"),
        ("score", &[("csv", "csv"), ("npy", "npy")], "csv"),
        ("posterior", &[("csv", "csv"), ("npy", "npy")], "csv"),
    ] {
        let command = format!("{command} ice.json three.txt --device cpu");
        let written = |out: &str| {
            assert_eq!(
                run(folder.path(), &format!("{command} --out {out}")).contains("Sequences"),
                command.starts_with("score")
            );
            fs::read(folder.path().join(out.split(' ').next().unwrap())).unwrap()
        };
        for (format, extension) in formats {
            let expected = written(&format!("named.{extension}"));
            assert_eq!(written(&format!("plain --to {format}")), expected);
            assert_eq!(written(&format!("other.npy --to {format}")), expected);
            assert_eq!(written(&format!("plain --to {extension}")), expected, "an extension is a name, too");
            if *format != "npy" {
                let printed = run(folder.path(), &format!("{command} --out - --to {format}"));
                assert_eq!(printed.as_bytes(), expected);
            }
        }
        let printed = run(folder.path(), &format!("{command} --out -"));
        assert_eq!(printed.as_bytes(), written(&format!("named.{standard}")));
        let known: Vec<&str> = formats.iter().map(|(_, extension)| *extension).collect();
        let message = fails(folder.path(), &format!("{command} --out x.xyz"), 2);
        assert_eq!(message, format!("error: x.xyz: the name must end in .{}\n", known.join(" or .")));
        assert!(fails(folder.path(), &format!("{command} --to csv"), 2).contains("--out"));
        assert!(fails(folder.path(), &format!("{command} --out x --to xyz"), 2).contains("possible values: "));
    }
    let message = fails(folder.path(), "score ice.json three.txt --out - --json", 2);
    assert_eq!(message, "error: --out - and --json both write to the standard output\n");
    run(folder.path(), "decode ice.json three.txt --out runs --to bed --states H");
    assert_eq!(fs::read_to_string(folder.path().join("runs")).unwrap(), "1\t0\t3\tH\n");
    let message = fails(folder.path(), "decode ice.json three.txt --out runs.csv --states H", 2);
    assert!(message.contains("--states selects the states of a .bed file"), "{message}");
}

#[test]
fn impossible_sequences_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [1, 0], "A": [[0.5, 0.5], [0, 1]], "B": [[1, 0], [0, 1]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.txt"), "0 1\n0 1 0\n").unwrap();
    assert_eq!(run(folder.path(), "decode m.json d.txt"), "0 1\nimpossible\n");
    let report = parsed(&run(folder.path(), "score m.json d.txt --json"));
    assert_eq!(report["log_likelihoods"], json!([0.5f64.ln(), "-inf"]));
    assert!(run(folder.path(), "score m.json d.txt").contains("  not possible   1\n"));
    let message = fails(folder.path(), "train m.json d.txt", 2);
    let place = "d.txt: sequence 2, position 3: found symbol 0, which no reachable state emits";
    assert_eq!(message, format!("error: {place}: its likelihood is 0, and stays so\n"));
    for command in ["score", "decode", "posterior"] {
        let output = piped(folder.path(), &[command, "m.json", "d.txt"], "");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("note: {place}\n"));
    }
    // A sequence that is impossible at its end; the message names its id.
    let ends = r#"{"pi": [1, 0], "A": [[0.5, 0.5], [0, 0.5]], "end": [0, 0.5], "B": [[1, 0], [0, 1]]}"#;
    fs::write(folder.path().join("e.json"), ends).unwrap();
    fs::write(folder.path().join("d.csv"), "id,x\nb,0\nb,1\na,0\na,0\n").unwrap();
    let message = fails(folder.path(), "train e.json d.csv --id id", 2);
    let place = "error: d.csv: sequence 2 (a), after position 2, no reachable state can end the sequence";
    assert!(message.starts_with(place), "{message}");
}

/// A Gaussian model with two persistent states, and 400 steps sampled from it.
fn returns(variances: [f64; 2]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let [quiet, loud] = variances;
    let model = format!(
        r#"{{"pi": [0.5, 0.5], "A": [[0.95, 0.05], [0.05, 0.95]], "means": [[0], [0]], "covariances": [[{quiet}], [{loud}]]}}"#
    );
    fs::write(folder.path().join("m.json"), model).unwrap();
    run(folder.path(), "sample m.json --length 400 --out d.csv");
    folder
}

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
fn positions_of_states_are_written_as_bed() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.1, 0.9]], "states": ["AT rich", "GC"],
        "symbols": ["A", "C", "G", "T"], "B": [[0.49, 0.01, 0.01, 0.49], [0.01, 0.49, 0.49, 0.01]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.fa"), ">chr1 first\nATaaNCCGgg\nTTTT\n>chr2\nGGCC\n").unwrap();
    let message = fails(folder.path(), "decode m.json d.fa --out x.bed", 2);
    assert!(message.starts_with("error: d.fa:2: record chr1, position 5: found \"N\", which is A or C or G or T, "));
    let bed = |arguments: &str| {
        run(folder.path(), &format!("decode m.json d.fa --out x.bed {arguments}"));
        fs::read_to_string(folder.path().join("x.bed")).unwrap()
    };
    let whole = "chr1\t0\t4\tAT_rich\nchr1\t4\t10\tGC\nchr1\t10\t14\tAT_rich\nchr2\t0\t4\tGC\n";
    let [found, tie] =
        [bed("--missing marginalise"), whole.replace("0\t4\tAT", "0\t5\tAT").replace("\t4\t10", "\t5\t10")];
    assert!(found == whole || found == tie, "{found}");
    let parts = "chr1\t0\t4\tAT_rich\nchr1\t5\t10\tGC\nchr1\t10\t14\tAT_rich\nchr2\t0\t4\tGC\n";
    assert_eq!(bed("--missing split"), parts);
    assert_eq!(bed("--missing split --states GC"), "chr1\t5\t10\tGC\nchr2\t0\t4\tGC\n");
    // Positions are those of the file where an observation was removed.
    assert_eq!(bed("--missing skip"), parts);
    let message = fails(folder.path(), "decode m.json d.fa --missing split --out x.bed --states X", 2);
    assert!(message.ends_with("error: --states: the model has no state \"X\"\n"), "{message}");
    // The compressed file gives the same output.
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&fs::read(folder.path().join("d.fa")).unwrap()).unwrap();
    fs::write(folder.path().join("z.fa.gz"), packed.finish().unwrap()).unwrap();
    run(folder.path(), "decode m.json z.fa.gz --missing split --out z.bed");
    assert_eq!(fs::read_to_string(folder.path().join("z.bed")).unwrap(), parts);
    // The other formats also have the file's names and positions. Every device sums over ambiguous symbols.
    run(folder.path(), "decode m.json d.fa --missing split --out x.csv");
    let written = fs::read_to_string(folder.path().join("x.csv")).unwrap();
    assert!(written.starts_with("sequence,position,state\nchr1,1,AT rich\n") && written.contains("\nchr1,6,GC\n"));
    let report = |device: &str, command: &str| {
        parsed(&run(folder.path(), &format!("{command} m.json d.fa --missing marginalise --json --device {device}")))
    };
    assert_eq!(report("cpu", "score")["names"], json!(["chr1", "chr2"]));
    let numbers = |value: &Value| -> Vec<f64> {
        let key = ["log_likelihoods", "scores", "posteriors"].into_iter().find(|key| value.get(key).is_some());
        let mut all = Vec::new();
        fn collect(value: &Value, all: &mut Vec<f64>) {
            match value {
                Value::Array(values) => values.iter().for_each(|value| collect(value, all)),
                value => all.push(value.as_f64().unwrap()),
            }
        }
        collect(&value[key.unwrap()], &mut all);
        all
    };
    for command in ["score", "decode", "posterior"] {
        let [cpu, emulated] = ["cpu", "emulated"].map(|device| report(device, command));
        let (cpu, emulated) = (numbers(&cpu), numbers(&emulated));
        assert!(cpu.iter().zip(&emulated).all(|(a, b)| (a - b).abs() < 1e-12 * a.abs().max(1.0)), "{command}");
        assert_eq!(cpu.len(), emulated.len());
    }
    // Training divides the counts of N among its letters, on every device and from a checkpoint.
    let train = |more: &str| {
        let command = format!("train m.json d.fa --missing marginalise --tolerance 0 --json {more}");
        let output = piped(folder.path(), &command.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(output.status.code(), Some(1), "not converged: {}", String::from_utf8_lossy(&output.stderr));
        parsed(&String::from_utf8(output.stdout).unwrap())
    };
    let whole = train("--iterations 6 --device cpu");
    let emulated = train("--iterations 6 --device emulated");
    assert_eq!((numbers(&whole).len(), numbers(&emulated).len()), (7, 7));
    for (found, expected) in numbers(&emulated).into_iter().zip(numbers(&whole)) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    train("--iterations 3 --device cpu --checkpoint c.ckpt");
    assert_eq!(numbers(&train("--iterations 6 --device cpu --resume c.ckpt")), numbers(&whole));
    // Another letter of the same code is other data.
    let other = fs::read_to_string(folder.path().join("d.fa")).unwrap().replace("NN", "RR").replace('N', "R");
    fs::write(folder.path().join("d.fa"), other).unwrap();
    let message = fails(folder.path(), "train m.json d.fa --missing marginalise --resume c.ckpt", 2);
    assert!(message.contains("other"), "{message}");
}

/// Removed observations leave a gap in the positions of every table, and of the picture.
#[test]
fn skipped_observations_keep_the_positions_of_the_others() {
    let folder = ice_cream();
    fs::write(folder.path().join("d.csv"), "sequence,ice\na,3\nb,1\na,NA\na,1\nb,NA\nb,NA\nb,2\n").unwrap();
    let places = |command: &str| -> Vec<String> {
        run(folder.path(), &format!("{command} ice.json d.csv --missing skip --out x.csv"));
        let written = fs::read_to_string(folder.path().join("x.csv")).unwrap();
        written.lines().skip(1).map(|line| line.split(',').take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    for command in ["decode", "posterior"] {
        assert_eq!(places(command), ["a 1", "a 3", "b 1", "b 4"], "{command}");
    }
    run(folder.path(), "posterior ice.json d.csv --missing skip --out x.csv --plot x.svg --sequence 2");
    // JSON holds the positions from 0. An array has no place for them, which a note says.
    for command in ["decode", "posterior"] {
        let found = parsed(&run(folder.path(), &format!("{command} ice.json d.csv --missing skip --json")));
        assert_eq!(found["positions"], json!([[0, 2], [0, 3]]), "{command}");
        assert!(parsed(&run(folder.path(), &format!("{command} ice.json diary.txt --json")))["positions"].is_null());
        let arguments = format!("{command} ice.json d.csv --missing skip --out x.npy");
        let output = piped(folder.path(), &arguments.split(' ').collect::<Vec<_>>(), "");
        let note = String::from_utf8(output.stderr).unwrap();
        assert!(note.contains("the array has no rows for missing observations"), "{note}");
    }
    let ring = r#"{"pi": [1, 0], "A": [[0, 1], [1, 0]], "B": [[1, 0], [0, 1]]}"#;
    fs::write(folder.path().join("ring.json"), ring).unwrap();
    fs::write(folder.path().join("r.csv"), "sequence,x\na,0\na,NA\na,0\n").unwrap();
    let output = piped(folder.path(), &["score", "ring.json", "r.csv", "--missing", "skip"], "");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("position 3: found symbol 0, which no reachable state emits"), "{message}");
}

/// Vectors with missing numbers are scored, decoded and trained, with equal results on every device and rank.
#[test]
fn missing_numbers_of_vectors_are_integrated_out() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.2, 0.8]], "means": [[0, 0], [4, 2]],
        "covariances": [[[1, 0.5], [0.5, 1]], [[2, -0.4], [-0.4, 1]]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    // ln P of one vector, whose second number is missing, is that of the mixture of the marginals.
    fs::write(folder.path().join("one.csv"), "x,y\n1,NA\n").unwrap();
    let density = |x: f64, mean: f64, variance: f64| {
        (-(x - mean).powi(2) / (2.0 * variance)).exp() / (std::f64::consts::TAU * variance).sqrt()
    };
    let expected = (0.5 * density(1.0, 0.0, 1.0) + 0.5 * density(1.0, 4.0, 2.0)).ln();
    let score = parsed(&run(folder.path(), "score m.json one.csv --missing marginalise --json"));
    assert!((score["log_likelihood"].as_f64().unwrap() - expected).abs() < 1e-14, "{score}");
    let mut rows = "sequence,x,y\n".to_owned();
    for step in 0..60 {
        let (x, y) = (f64::from(step * 7 % 11) * 0.4, f64::from(step * 5 % 13) * 0.3);
        let (x, y) = match step % 6 {
            1 => ("NA".to_owned(), y.to_string()),
            4 => (x.to_string(), String::new()),
            5 => ("nan".to_owned(), "?".to_owned()),
            _ => (x.to_string(), y.to_string()),
        };
        rows.push_str(&format!("{},{x},{y}\n", step % 2));
    }
    fs::write(folder.path().join("d.csv"), rows).unwrap();
    let message = fails(folder.path(), "score m.json d.csv", 2);
    assert!(message.ends_with("expected a finite number (option missing selects a treatment)\n"), "{message}");
    let report = |command: &str| parsed(&run(folder.path(), &format!("{command} --missing marginalise --json")));
    let number = |value: &Value| value.as_f64().unwrap();
    let close = |one: &Value, other: &Value| (number(one) - number(other)).abs() < 1e-9 * number(one).abs();
    let cpu = report("score m.json d.csv --device cpu");
    assert!(close(&cpu["log_likelihood"], &report("score m.json d.csv --device emulated")["log_likelihood"]));
    let paths = report("decode m.json d.csv --device cpu");
    assert_eq!(paths["paths"], report("decode m.json d.csv --device emulated")["paths"]);
    let posterior = report("posterior m.json d.csv --device cpu");
    assert_eq!(posterior["posteriors"][0].as_array().unwrap().len(), 30);
    for kind in ["full", "diagonal", "spherical", "tied"] {
        let train = |device: &str| {
            let output = piped(
                folder.path(),
                &format!("train m.json d.csv --missing marginalise --covariances {kind} --iterations 20 --tolerance 0 --json --device {device}")
                    .split(' ')
                    .collect::<Vec<_>>(),
                "",
            );
            parsed(&String::from_utf8(output.stdout).unwrap())
        };
        let (cpu, emulated) = (train("cpu"), train("emulated"));
        let logs = |report: &Value| report["log_likelihoods"].as_array().unwrap().clone();
        assert!(logs(&cpu).len() > 5 && logs(&cpu).windows(2).all(|pair| number(&pair[1]) > number(&pair[0]) - 1e-9));
        assert!(logs(&cpu).iter().zip(&logs(&emulated)).all(|(one, other)| close(one, other)), "{kind}");
    }
}

/// Everything that `sample` writes can be read again.
#[test]
fn sampled_fasta_is_read_again_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = |symbols: &[&str], named: bool| {
        let b = vec![1.0 / symbols.len() as f64; symbols.len()];
        let mut model = json!({ "pi": [1], "A": [[1]], "B": [b] });
        if named {
            model["symbols"] = json!(symbols);
        }
        fs::write(folder.path().join("m.json"), model.to_string()).unwrap();
    };
    let readable: [(&[&str], bool); 5] = [
        (&["A", "C", "G", "T"], false),
        (&["a", "A", "-", "."], true),
        (&["N", "X"], true),
        (&["A", "C", "G", "U"], true),
        (&["0", "1", "*"], true),
    ];
    for (symbols, named) in readable {
        model(symbols, named);
        run(folder.path(), "sample m.json --sequences 3 --length 150 --out s.fasta");
        let report = parsed(&run(folder.path(), "score m.json s.fasta --json"));
        let expected = -450.0 * (symbols.len() as f64).ln();
        assert!((report["log_likelihood"].as_f64().unwrap() - expected).abs() < 1e-9, "{symbols:?}");
    }
    let refused: [(&[&str], bool, &str); 6] = [
        (&["A", "C"], false, "one letter each"),
        (&["A", "C", "G"], false, "one letter each"),
        (&["A", "CG"], true, "one letter each"),
        (&[">", "A"], true, "no place for the symbol \">\""),
        (&[";", "A"], true, "no place for the symbol \";\""),
        (&[" ", "A"], true, "no place for the symbol \" \""),
    ];
    for (symbols, named, expected) in refused {
        model(symbols, named);
        let message = fails(folder.path(), "sample m.json --length 20 --out t.fasta", 2);
        assert!(message.starts_with("error: --out: ") && message.contains(expected), "{message}");
        assert!(!folder.path().join("t.fasta").exists());
    }
}

#[test]
fn filter_reads_tables_and_survives_bad_lines() {
    let folder = ice_cream();
    let answered = |arguments: &str, input: &str, notes: usize| -> Vec<String> {
        let output = piped(folder.path(), &arguments.split(' ').collect::<Vec<_>>(), input);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), told.lines().count()), (Some(0), notes), "{told}");
        String::from_utf8(output.stdout).unwrap().lines().skip(1).map(str::to_owned).collect()
    };
    let plain = answered("filter ice.json -", "2\n3\n\n1\n", 0);
    // The header names the columns; another id begins another sequence.
    let table = "day;ice;mood\na;2;\"so; so\"\na;3;good\nb;1;\n";
    let named = answered("filter ice.json - --format csv --columns ice --id day", table, 0);
    let renamed: Vec<String> = plain.iter().map(|line| line.replacen("1,", "a,", 1).replacen("2,", "b,", 1)).collect();
    assert_eq!(named[0], renamed[0]);
    assert_eq!(named[2], plain[2].replacen("2,", "b,", 1));
    // The rows of an id need not be adjacent, and what a lag has kept back follows at the end, in order of appearance.
    let mixed = |lag: &str| {
        answered(&format!("filter ice.json - --format csv --id day{lag}"), "day,ice\na,2\nb,1\na,3\n\na,2\n", 0)
    };
    let again = plain[0].replacen("1,", "a,", 1);
    assert_eq!(mixed(""), [again.as_str(), &named[2], &named[1], &again]);
    let positions: Vec<String> =
        mixed(" --lag 1").iter().map(|line| line.rsplitn(4, ',').last().unwrap().into()).collect();
    assert_eq!(positions, ["a,1", "a,2", "b,1", "a,1"]);
    // Ids are bytes.
    let latin = b"day,ice\nS\xfcd,2\nS\xe4d,2\nS\xfcd,3\n";
    fs::write(folder.path().join("latin.csv"), latin).unwrap();
    let output = piped(folder.path(), &["filter", "ice.json", "latin.csv", "--id", "day"], "");
    let told = String::from_utf8(output.stdout).unwrap();
    let positions: Vec<&str> = told.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(positions, ["1", "1", "2"], "{told}");
    // A row without an id belongs to no sequence.
    let torn =
        answered("filter ice.json - --format csv --id day --on-error missing", "day,ice\na,2\n7\n,1\nb,1\na,3\n", 2);
    assert_eq!(torn, [again.as_str(), &named[2], &named[1]]);
    fs::write(folder.path().join("d.csv"), "ice\n2\n3\n\n1\n").unwrap();
    assert_eq!(answered("filter ice.json d.csv", "", 0), plain);
    assert_eq!(answered("filter ice.json - --format csv --header no", "2\n3\n\n1\n", 0), plain);
    let fails = |arguments: &str, input: &str, expected: &str| {
        let output = piped(folder.path(), &arguments.split(' ').collect::<Vec<_>>(), input);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && message.contains(expected), "{message}");
    };
    fails("filter ice.json - --format csv --columns ice", "a,b\n1,2\n", "standard input:1: there is no column ice");
    fails("filter ice.json - --format csv --columns x --on-error missing", "a\n1\n", "there is no column x");
    fails("filter ice.json - --columns ice", "1\n", "expected --format csv");
    fails("filter ice.json - --format npy", "1\n", "--format npy: a stream is lines or csv");
    fails("filter ice.json - --format csv", "ice\n1\n2,3\n", "standard input:3: found 2 columns, expected 1");
    // An unreadable line is a step without an observation, or begins another sequence.
    let gap = answered("filter ice.json -", "2\nNA\n3\n", 0);
    assert_eq!(answered("filter ice.json - --on-error missing", "2\nbroken\n3\n", 1), gap);
    assert_eq!(answered("filter ice.json - --format csv --on-error missing", "ice\n2\n7\n3\n", 1), gap);
    let broken = answered("filter ice.json - --on-error restart", "2\n3\nbroken\n1\n", 1);
    assert_eq!(broken, plain);
    // An impossible one as well; a restart takes it as the first if that is possible.
    let ring = r#"{"pi": [0.5, 0.5], "A": [[0, 1], [1, 0]], "B": [[1, 0], [0, 1]]}"#;
    fs::write(folder.path().join("ring.json"), ring).unwrap();
    let ends = |lines: Vec<String>| -> Vec<String> {
        let cells = |line: &String| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{} {} {} {}", cells[0], cells[1], cells[3], cells[4])
        };
        lines.iter().map(cells).collect()
    };
    let missing = ends(answered("filter ring.json - --on-error missing", "0\n0\n0\n", 1));
    assert_eq!(missing, ["1 1 1 0", "1 2 0 1", "1 3 1 0"]);
    let restarted = ends(answered("filter ring.json - --on-error restart", "0\n0\n1\n", 1));
    assert_eq!(restarted, ["1 1 1 0", "2 1 1 0", "2 2 0 1"]);
    // What a lag has kept back comes before the restart.
    let kept = ends(answered("filter ring.json - --on-error restart --lag 5", "0\n1\n1\n", 1));
    assert_eq!(kept, ["1 1 1 0", "1 2 0 1", "2 1 0 1"]);
    // Vectors with missing numbers.
    let pair = r#"{"pi": [0.5, 0.5], "A": [[0.5, 0.5], [0.5, 0.5]], "means": [[0, 0], [9, 9]],
        "covariances": [[1, 1], [1, 1]]}"#;
    fs::write(folder.path().join("pair.json"), pair).unwrap();
    let found = answered("filter pair.json - --format csv", "x,y\n9,NA\n,0\nNA,NA\n", 0);
    let states: Vec<f64> = found.iter().map(|line| line.split(',').nth(4).unwrap().parse().unwrap()).collect();
    assert!(states[0] > 0.999 && states[1] < 1e-3 && (states[2] - 0.5).abs() < 1e-12, "{found:?}");
    assert_eq!(answered("filter pair.json -", "9 NA\nNA 0\nNA\n", 0), found);
}

#[test]
fn names_with_commas_are_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.1, 0.9]], "B": [[0.9, 0.1], [0.2, 0.8]],
        "states": ["dry, warm", "wet"], "symbols": ["no", "rain, hail"]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.csv"), "day;seen\nx,y;no\nx,y;no\nx,y;\"rain, hail\"\n").unwrap();
    let table = run(folder.path(), "posterior m.json d.csv --id day");
    assert!(table.starts_with("sequence,position,\"dry, warm\",wet\n\"x,y\",1,"), "{table}");
    run(folder.path(), "decode m.json d.csv --id day --out p.csv");
    let written = fs::read_to_string(folder.path().join("p.csv")).unwrap();
    assert!(written.starts_with("sequence,position,state\n\"x,y\",1,\"dry, warm\"\n"), "{written}");
    assert!(run(folder.path(), "decode m.json d.csv --id day").starts_with("\"dry, warm\" "));
    run(folder.path(), "score m.json d.csv --id day --out s.csv");
    assert!(fs::read_to_string(folder.path().join("s.csv")).unwrap().contains("\n\"x,y\",-"));
    run(folder.path(), "sample m.json --length 9 --out w.csv");
    assert_eq!(run(folder.path(), "decode m.json w.csv").split('"').count() % 2, 1);
}

#[test]
fn help_and_reports_name_precision_and_device() {
    let folder = returns([1.0, 2.0]);
    for command in ["score", "decode", "posterior", "train"] {
        assert!(run(folder.path(), &format!("{command} --help")).contains("emulated"));
    }
    let help = run(folder.path(), "generate --help");
    assert!(help.contains("Generates Eisner's model") && !help.contains("Where to write"), "{help}");
    let message = fails(folder.path(), "score m.json d.csv --device cpu --precision tf32", 2);
    assert_eq!(message, "error: --precision tf32 needs a GPU: on a CPU there is f32\n");
    // Small problems stay on the CPU.
    assert_eq!(parsed(&run(folder.path(), "score m.json d.csv --precision tf32 --json"))["precision"], json!("f32"));
    // An output format that cannot hold the result is refused before any work.
    let message = fails(folder.path(), "train m.json d.csv --out t.hmm", 2);
    assert_eq!(message, "error: --out: UMDHMM's format has no place for end probabilities or vectors\n");
}

#[test]
fn both_axes_of_a_picture_have_the_same_labels() {
    let folder = tempfile::tempdir().unwrap();
    let texts = |name: &str| -> Vec<String> {
        let picture = fs::read_to_string(folder.path().join(name)).unwrap();
        let inner = picture.split("</text>").filter_map(|part| part.rsplit('>').next());
        inner.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
    };
    let count = |texts: &[String], text: &str| texts.iter().filter(|found| *found == text).count();
    run(folder.path(), "generate random --states 3 --symbols 2 --out m.json");
    run(folder.path(), "info m.json --plot a.svg");
    let found = texts("a.svg");
    for label in ["0", "1", "2"] {
        // The labels 0 and 1 also appear on the colour scale.
        assert_eq!(count(&found, label), 2 + usize::from(label != "2"), "{found:?}");
    }
    assert!(count(&found, "from state") == 1 && count(&found, "to state") == 1);
    let model = fs::read_to_string(folder.path().join("m.json")).unwrap();
    let names = "\"states\": [\"a long name\", \"b\", \"c\"]";
    fs::write(folder.path().join("n.json"), model.trim_end().trim_end_matches('}').to_owned() + "," + names + "}")
        .unwrap();
    run(folder.path(), "info n.json --plot a.svg");
    let found = texts("a.svg");
    assert!(["a long name", "b", "c"].iter().all(|label| count(&found, label) == 2), "{found:?}");
    run(folder.path(), "sample m.json --length 4321 --out d.txt");
    run(folder.path(), "posterior m.json d.txt --out p.npy --plot p.svg");
    let found = texts("p.svg");
    assert!(["500", "1000", "4000"].iter().all(|label| count(&found, label) == 1), "{found:?}");
    // A start with a large first increase.
    fs::write(folder.path().join("far.json"), r#"{"pi": [1], "A": [[1]], "means": [[1e4]], "covariances": [[1]]}"#)
        .unwrap();
    let data: String = (0..50).map(|t| format!("{}\n", t * t % 17)).collect();
    fs::write(folder.path().join("d.csv"), data).unwrap();
    let output = piped(
        folder.path(),
        &["train", "far.json", "d.csv", "--plot", "t.svg", "--tolerance", "0", "--iterations", "5"],
        "",
    );
    assert!(output.status.code() == Some(0) || output.status.code() == Some(1));
    assert!(
        texts("t.svg").iter().any(|text| text.starts_with("iterations; 1 point lies below the frame, down to -2.49"))
    );
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

#[test]
fn samples_go_through_every_command() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate random --states 4 --dimensions 2 --full --seed 1 --out m.npz");
    run(folder.path(), "sample m.npz --sequences 20 --length 30 --out d.npy --lengths l.npy --states s.txt");
    let report = parsed(&run(folder.path(), "score m.npz d.npy --lengths l.npy --json"));
    assert_eq!((&report["sequences"], &report["observations"]), (&json!(20), &json!(600)));
    let printed = run(folder.path(), "train m.npz d.npy --lengths l.npy --out t.npz --quiet");
    assert!(printed.starts_with("ln P(O) = ") && printed.lines().count() == 1, "{printed}");
    assert!(printed.ends_with("iterations\n") && printed.contains("converged after "), "{printed}");
    run(folder.path(), "decode t.npz d.npy --lengths l.npy --out p.txt");
    // Decoding recovers well separated states almost always.
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
fn models_and_sequences_are_read_from_pipes() {
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
fn errors_name_the_cause() {
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
    let expected = "error: invalid value '0' for '--states <N>': expected 1 to 32768";
    assert!(message.starts_with(expected), "{message}");
    run(folder.path(), "generate random --states 2 --symbols 2 --out r.json");
    let message = fails(folder.path(), "sample r.json", 2);
    assert_eq!(message, "error: the model has no end probabilities: expected a length, as in --length 100\n");
    let message = fails(folder.path(), "score ice.json diary.txt --lengths l.npy", 2);
    assert!(message.starts_with("error: cannot read l.npy: "), "{message}");
    fs::write(folder.path().join("l.npy"), "").unwrap();
    let message = fails(folder.path(), "score ice.json diary.txt --lengths l.npy", 2);
    assert_eq!(message, "error: l.npy: a file of lengths applies only to NumPy arrays, and diary.txt is lines\n");
}

/// The emulated kernels print the same digits as the CPU.
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
    // 513 steps make two chunks.
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

/// The method slices has the likelihoods of the CPU, and its name in both reports.
#[test]
fn score_by_slices() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate random --states 5 --symbols 4 --seed 3 --out model.json");
    run(folder.path(), "generate random --states 2 --dimensions 2 --out vectors.json");
    fs::write(folder.path().join("data.txt"), "0 1 NA 3 2 1 0\n3\n1 1 0\n2 0 3 NA\n").unwrap();
    fs::write(folder.path().join("vectors.csv"), "0.5,1\n1,2\n").unwrap();
    let files = "score model.json data.txt --missing marginalise";
    let score = |rest: &str| parsed(&run(folder.path(), &format!("{files} {rest} --json")));
    let (cpu, fused) = (score("--device cpu"), score("--device emulated"));
    assert_eq!([&cpu["method"], &fused["method"]], ["fused"; 2]);
    for (precision, tolerance) in [("f64", 1e-13), ("f32", 1e-5)] {
        let found = score(&format!("--device emulated --method slices --precision {precision}"));
        assert_eq!([&found["method"], &found["precision"], &found["device"]], ["slices", precision, "the emulator"]);
        for (a, b) in
            found["log_likelihoods"].as_array().unwrap().iter().zip(cpu["log_likelihoods"].as_array().unwrap())
        {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= tolerance * b.abs(), "{a} {b}");
        }
    }
    let text = run(folder.path(), &format!("{files} --device emulated --method slices"));
    assert!(text.contains("\nDevice           the emulator, f64, method slices\n"), "{text}");
    let error = |arguments: &str| fails(folder.path(), &format!("{arguments} --method slices"), 2);
    assert_eq!(
        error(&format!("{files} --device cpu")),
        "error: the method slices needs a GPU or the emulator as its device: on a CPU there is the method fused\n"
    );
    // Before any file is read.
    assert_eq!(error("score none.json none.txt --device cpu"), error(&format!("{files} --device cpu")));
    assert_eq!(
        error("score vectors.json vectors.csv --device emulated"),
        "error: the method slices is for models that emit symbols: for models that emit numbers there is the method fused\n"
    );
    assert_eq!(
        error(&format!("{files} --device emulated --scan always")),
        "error: the method slices cuts no sequences: the scan is for the method fused\n"
    );
    assert_eq!(
        error(&format!("{files} --device emulated --precision tf32")),
        "error: the method slices uses no tensor cores: expected the precision f32 or f64, or the method fused\n"
    );
    assert!(error("decode model.json data.txt").contains("unexpected argument '--method'"));
}

#[test]
fn json_contains_timings() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate random --states 3 --symbols 4 --out model.json");
    run(folder.path(), "sample model.json --sequences 5 --length 20 --out data.txt");
    for (command, writes) in [
        ("score model.json data.txt --out scores.csv", true),
        ("decode model.json data.txt", false),
        ("posterior model.json data.txt", false),
        ("train model.json data.txt --iterations 200 --tolerance 1e-3 --quiet --out trained.json", true),
    ] {
        let begun = std::time::Instant::now();
        let object = parsed(&run(folder.path(), &format!("{command} --device cpu --json")));
        let all = begun.elapsed().as_secs_f64();
        let phase = |name: &str| object["phases"][name].as_f64().unwrap();
        let [read, start, solve, write] = ["read", "start", "solve", "write"].map(phase);
        assert!(read > 0.0 && start >= 0.0 && solve > 0.0 && (write > 1e-6 || !writes), "{command}: {object}");
        assert!(read + start + solve + write <= all, "{command}: {object}, {all}");
    }
}

#[test]
fn bench_measures_devices() {
    let bench = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
        command.args(["bench", "hmm"]).args(arguments.split(' ')).output().unwrap()
    };
    let output = bench("--device cpu --case 4x3x5 --runs 2 --precision f64 --json");
    let rows = parsed(&String::from_utf8(output.stdout).unwrap());
    let operations: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["forward", "viterbi", "e-step", "baum-welch"]);
    assert!(
        rows[0]["device"].as_str().unwrap().contains("CPU core") && rows[0]["milliseconds"].as_f64().unwrap() > 0.0
    );
    let output = bench("--device emulated --case 4x3x5 --runs 1 --precision f32 --json");
    let rows = parsed(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(rows.as_array().unwrap().len(), 4);
    assert!(rows.as_array().unwrap().iter().all(|row| row["device"] == "the emulator" && row["milliseconds"].is_f64()));
    let output = bench("--device auto --case 4x3x5 --runs 1 --precision f32 --operation forward --json");
    let rows = parsed(&String::from_utf8(output.stdout).unwrap());
    assert!(!rows[0]["device"].as_str().unwrap().is_empty());
    let slices = "--device emulated --case 4x3x5 --runs 1 --precision f64 --method fused --method slices";
    let output = bench(&format!("{slices} --json"));
    let rows = parsed(&String::from_utf8(output.stdout).unwrap());
    let named = |name| rows.as_array().unwrap().iter().map(|row| row[name].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!((named("method"), named("operation")), (vec!["fused", "slices"], vec!["forward"; 2]));
    let text = String::from_utf8(bench(slices).stdout).unwrap();
    let by: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().nth(4)).take(3).collect();
    assert_eq!(by, ["by", "recursion", "slices"]);
    let refused = |arguments: &str| {
        let output = bench(&format!("{arguments} --method slices"));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let message = "error: --method slices is for --operation forward: viterbi has the method fused\n";
    assert_eq!(refused("--device emulated --operation viterbi"), (Some(2), message.to_owned()));
    let (code, message) = refused("--device cpu");
    assert!(
        code == Some(2) && message.starts_with("error: the method slices needs a GPU or the emulator"),
        "{message}"
    );
    assert_eq!(bench("--device cuda:4096").status.code(), Some(3));
    assert_eq!(bench("--device gpu").status.code(), Some(2));
    let output = bench("--device cpu --precision tf32");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "error: --precision tf32 needs a GPU\n");
}

/// A sample that the output format cannot hold is refused before sampling starts.
#[test]
fn samples_that_cannot_be_written_are_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate random --states 2 --symbols 5 --out many.json");
    run(folder.path(), "generate random --states 2 --dimensions 2 --out vectors.json");
    // Sampling this many would take too long.
    let endless = "--sequences 4000000000 --length 4000000000";
    for (model, format, words) in [
        ("many", "fasta", "one letter each"),
        ("vectors", "fasta", "no place for vectors"),
        ("vectors", "lines", "vectors are written to .csv and .npy"),
        ("many", "umdhmm", "one sequence of symbols"),
        ("vectors", "umdhmm", "one sequence of symbols"),
        ("many", "npy", "need --lengths"),
    ] {
        for out in ["x", "-"] {
            let message = fails(folder.path(), &format!("sample {model}.json {endless} --to {format} --out {out}"), 2);
            assert!(message.contains(words), "{model}, {format}: {message}");
        }
    }
    let message = fails(folder.path(), &format!("sample many.json {endless} --out x.csv"), 2);
    assert!(message.contains("x.csv") && message.contains("needs at least"), "{message}");
    assert!(!folder.path().join("x.csv").exists() && !folder.path().join("x").exists());
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

/// Each kind of warning comes from the model that has its fault, and from no sound model.
#[test]
fn info_names_what_looks_wrong() {
    let folder = ice_cream();
    let folder = folder.path();
    let warnings = |model: Value| {
        fs::write(folder.join("m.json"), model.to_string()).unwrap();
        let info = parsed(&run(folder, "info m.json --json"));
        let text = run(folder, "info m.json");
        let found = info["warnings"].as_array().unwrap().clone();
        assert_eq!(text.matches("Warning  ").count(), found.len(), "{text}");
        for warning in &found {
            assert!(text.contains(warning["message"].as_str().unwrap()), "{text}");
            assert!(warning["count"].as_u64().unwrap() >= warning["examples"].as_array().unwrap().len() as u64);
        }
        found
    };
    let kinds = |found: &[Value]| found.iter().map(|w| w["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(parsed(&run(folder, "info ice.json --json"))["warnings"], json!([]));
    let b = json!([[0.5, 0.5], [0.25, 0.75]]);
    let sound = json!({ "pi": [1, 0], "A": [[0.5, 0.5], [0.25, 0.75]], "B": b, "states": ["a", "b"] });
    assert_eq!(warnings(sound.clone()), [] as [Value; 0]);
    let changed = |key: &str, value: Value| {
        let mut model = sound.clone();
        model[key] = value;
        warnings(model)
    };
    let found = changed("A", json!([[1, 0], [0.25, 0.75]]));
    assert_eq!(kinds(&found), ["unreachable-states", "stuck-states"]);
    assert_eq!((&found[0]["examples"], &found[1]["examples"]), (&json!(["b"]), &json!(["a"])));
    assert_eq!(found[0]["message"], "no path from the start enters 1 state: b");
    // The last state of a chain that only goes forward is meant to stay.
    assert_eq!(kinds(&changed("A", json!([[0.5, 0.5], [0, 1]]))), [] as [&str; 0]);
    assert_eq!(kinds(&changed("A", json!([[0.25, 0.75], [0.75, 0.25]]))), [] as [&str; 0]);
    assert_eq!(kinds(&changed("B", json!([[0.5, 0.5], [0.5, 0.5]]))), ["uninformative"]);
    assert_eq!(kinds(&changed("B", json!([[1, 0], [1, 0]]))), ["uninformative", "unemitted-symbols"]);
    assert_eq!(kinds(&changed("B", json!([[0.5, 0.5, 0], [0.25, 0.75, 0]]))), ["unemitted-symbols"]);
    let mut model = sound.clone();
    (model["A"], model["end"]) = (json!([[0.5, 0.25], [0, 1]]), json!([0.25, 0]));
    let found = warnings(model);
    assert_eq!((kinds(&found), &found[0]["examples"]), (vec!["endless-states".to_owned()], &json!(["b"])));
    let row = json!([0.5, 0.25, 0.25]);
    let found = warnings(json!({ "pi": row, "A": [row, row, [0, 0.25, 0.75]], "B": [[1, 0], [1, 0], [0, 1]] }));
    assert_eq!((kinds(&found), &found[0]["examples"]), (vec!["copied-states".to_owned()], &json!(["1 = 0"])));
    let turn = json!([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.25, 0.5, 0.25]]);
    let round = json!([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]);
    assert_eq!(kinds(&warnings(json!({ "pi": row, "A": turn, "B": turn }))), [] as [&str; 0], "symmetric");
    let found = warnings(json!({ "pi": row, "A": round, "B": round }));
    assert_eq!(kinds(&found), ["transposed", "transposed"]);
    assert_eq!((&found[0]["examples"], &found[1]["examples"]), (&json!(["A"]), &json!(["B"])));
    let first = json!([1, 0, 0, 0, 0, 0, 0]);
    let many = json!({ "pi": first, "A": vec![&first; 7], "means": vec![[1]; 7], "covariances": vec![[2]; 7] });
    let found = warnings(many);
    assert_eq!(kinds(&found), ["unreachable-states", "stuck-states", "copied-states", "uninformative"]);
    assert_eq!((&found[0]["count"], &found[0]["examples"]), (&json!(6), &json!(["1", "2", "3", "4", "5"])));
    assert_eq!(found[0]["message"], "no path from the start enters 6 states: 1, 2, 3, 4, 5, …");
}

#[test]
fn info_shows_a_state_in_words() {
    let folder = ice_cream();
    let folder = folder.path();
    let text = run(folder, "info ice.json --show H");
    assert_eq!(
        text,
        "State 1, H\n  starts with    0.5\n  leads to       C with 0.1, H with 0.8\n  ends with      0.1\n  emits          \
         1 with 0.1, 2 with 0.2, 3 with 0.7\n"
    );
    assert_eq!(run(folder, "info ice.json --show 1"), text);
    let row = parsed(&run(folder, "info ice.json --show H --json"));
    assert_eq!((&row["state"], &row["transitions"]), (&json!(1), &json!([["C", 0.1], ["H", 0.8]])));
    for wrong in ["2", "h", "-1", "99999999999"] {
        let message = fails(folder, &format!("info ice.json --show={wrong}"), 2);
        assert_eq!(
            message,
            format!("error: \"{wrong}\" is no state of the model, expected a name or a number below 2\n")
        );
    }
    run(folder, "generate random --states 2 --dimensions 2 --full --seed 1 --out v.json");
    let text = run(folder, "info v.json --show 0");
    assert!(text.contains("  emits          vectors of mean [") && text.contains("], covariance ["), "{text}");
}

/// Each line is answered before the next is written.
#[test]
fn filter_answers_each_observation_at_once() {
    let folder = ice_cream();
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder.path()).args(["hmm", "filter", "ice.json", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stream = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(answers.next().unwrap(), "sequence,position,log_likelihood,C,H");
    // The book's days: 2, 3 and 3 ice creams.
    let mut log = 0.0;
    for (day, eaten) in (1..).zip(["2", "3", "3"]) {
        writeln!(stream, "{eaten}").unwrap();
        let answer = answers.next().unwrap();
        let numbers: Vec<f64> = answer.split(',').map(|number| number.parse().unwrap()).collect();
        assert_eq!((numbers[0], numbers[1], numbers.len()), (1.0, f64::from(day), 5), "{answer}");
        assert!(numbers[2] < log && (numbers[3] + numbers[4] - 1.0).abs() < 1e-15, "{answer}");
        log = numbers[2];
    }
    drop(stream);
    assert_eq!(answers.next(), None);
    assert!(child.wait().unwrap().success());
}

#[test]
fn filter_smooths_with_a_lag_and_predicts() {
    let folder = ice_cream();
    let lines = |options: &str, input: &str| {
        let arguments: Vec<&str> = ["filter", "ice.json", "-"].into_iter().chain(options.split_whitespace()).collect();
        let output = piped(folder.path(), &arguments, input);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // A lag of all steps gives the posteriors of each sequence, in order.
    fs::write(folder.path().join("two.txt"), "2 3 3 1\n1 1\n").unwrap();
    let posterior = run(folder.path(), "posterior ice.json two.txt --device cpu");
    let smoothed = lines("--lag 9", "2\n3\n3\n1\n\n\n1\n1\n");
    assert_eq!(smoothed.len(), posterior.lines().count());
    for (found, expected) in smoothed.iter().zip(posterior.lines()).skip(1) {
        let (found, expected): (Vec<_>, Vec<_>) = (found.split(',').collect(), expected.split(',').collect());
        assert_eq!(found[..2], expected[..2]);
        for (found, expected) in found[3..].iter().zip(&expected[2..]) {
            assert!((found.parse::<f64>().unwrap() - expected.parse::<f64>().unwrap()).abs() < 1e-12);
        }
    }
    // The positions of a lag, and of a prediction.
    let positions = |lines: &[String]| -> Vec<String> {
        lines[1..].iter().map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(positions(&lines("--lag 2", "1\n2\n3\n2\n")), ["1", "2", "3", "4"]);
    assert_eq!(positions(&lines("--ahead 3", "1\n2\n")), ["4", "5"]);
    let symbols = lines("--ahead 1 --observation", "1\n");
    assert_eq!(symbols[0], "sequence,position,log_likelihood,1,2,3");
    assert!(symbols[1].starts_with("1,2,-0.916290"), "{}", symbols[1]);
    // A gap is a prediction.
    let gap = lines("--json", "1\nNA\n");
    let (answer, before) = (parsed(&gap[1]), parsed(&lines("--ahead 1 --json", "1\n")[0]));
    assert_eq!(answer["position"], before["position"]);
    let prob = |answer: &Value| answer["probs"][0].as_f64().unwrap();
    // With end probabilities, the gap says as well that the sequence did not end.
    assert!((prob(&answer) - prob(&before)).abs() < 1e-15, "{answer} {before}");
}

#[test]
fn filter_names_the_line_of_a_bad_observation() {
    let folder = ice_cream();
    let fails = |arguments: &str, input: &str, expected: &str| {
        let output = piped(folder.path(), &arguments.split(' ').collect::<Vec<_>>(), input);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
        String::from_utf8(output.stdout).unwrap()
    };
    // What came before is answered.
    let answered =
        fails("filter ice.json -", "1\n2\n7\n", "standard input:3: found \"7\", expected one of the symbols");
    assert_eq!(answered.lines().count(), 3);
    fails("filter ice.json -", "1 2\n", "standard input:1: found 2 symbols, expected 1 on each line");
    fails("filter - -", "", "cannot both come from the standard input");
    fails("filter ice.json absent.txt", "", "absent.txt");
    let pair = r#"{"pi": [1], "A": [[1]], "means": [[0, 0]], "covariances": [[1, 1]]}"#;
    fs::write(folder.path().join("pair.json"), pair).unwrap();
    fails("filter pair.json -", "1\n", "standard input:1: found 1 numbers, expected 2 on each line");
    fails("filter pair.json -", "1,NA,2\n", "standard input:1: found 3 numbers, expected 2 on each line");
    fails("filter pair.json -", "1 inf\n", "expected a finite number");
    let moments = piped(folder.path(), &["filter", "pair.json", "-", "--observation", "--json"], "1,2\nNA NA\nNA\n");
    let moments = String::from_utf8(moments.stdout).unwrap();
    assert_eq!(moments.lines().count(), 3);
    assert_eq!(parsed(moments.lines().last().unwrap())["deviations"], json!([1.0, 1.0]));
    // A chain that cannot emit what comes.
    let ring = r#"{"pi": [1, 0], "A": [[0, 1], [1, 0]], "B": [[1, 0], [0, 1]]}"#;
    fs::write(folder.path().join("ring.json"), ring).unwrap();
    fails(
        "filter ring.json -",
        "0\n1\n1\n",
        "standard input:3: the model cannot emit this after the observations before it",
    );
}

/// Models go from format to format and back without a change; what a format has no place for is noted or refused.
#[test]
fn models_are_converted() {
    let folder = ice_cream();
    run(folder.path(), "generate random --states 3 --symbols A,C,G,T --out dna.json");
    let model = parsed(&fs::read_to_string(folder.path().join("dna.json")).unwrap());
    assert_eq!(model["symbols"], json!(["A", "C", "G", "T"]));
    assert_eq!(model["B"][0].as_array().map(Vec::len), Some(4));
    for (there, names) in [("dna.npz", true), ("dna.hmm", false), ("copy.json", true)] {
        run(folder.path(), &format!("convert dna.json {there}"));
        let back = parsed(&run(folder.path(), &format!("convert {there} -")));
        for key in ["pi", "A", "B"] {
            assert_eq!(back[key], model[key], "{there}, {key}");
        }
        assert_eq!(back.get("symbols").is_some(), names, "{there}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_warpkov"))
        .current_dir(&folder)
        .args(["hmm", "convert", "dna.json", "-", "--to", "umdhmm"])
        .output()
        .unwrap();
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && note.contains("umdhmm has no place for the names"), "{note}");
    run(folder.path(), "generate random --states 2 --dimensions 2 --out vectors.json");
    assert!(fails(folder.path(), "convert vectors.json vectors.hmm", 2).contains("no place for"));
    assert!(fails(folder.path(), "convert dna.json dna.txt", 2).contains("dna.txt"));
    for (symbols, expected) in [("A,,T", "expected a number, or names between commas"), ("A,C,A", "--symbols")] {
        let message = fails(folder.path(), &format!("generate random --symbols {symbols} --out x.json"), 2);
        assert!(message.contains(expected), "{message}");
    }
}
