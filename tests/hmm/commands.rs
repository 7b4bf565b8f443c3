//! `warpkov hmm score`, `decode`, `posterior` and `bench`, run as users and scripts run them: results, reports and messages.

use std::fs;
use std::process::Command;

use serde_json::json;
use warpkov_common::io::npy;

use crate::common::{fails, ice_cream, parsed, piped, returns, run};

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

/// The proofs are part of the report.
#[test]
fn results_are_proved() {
    let folder = ice_cream();
    for command in ["score ice.json diary.txt", "decode ice.json diary.txt"] {
        let found = parsed(&run(folder.path(), &format!("{command} --json --verify")));
        let proof = &found["verified"];
        assert_eq!((&proof["proved"], &proof["limit"]), (&json!(true), &json!(1e-9)), "{found}");
        assert!((0.0..=1e-9).contains(&proof["upper"].as_f64().unwrap()), "{found}");
        assert!(parsed(&run(folder.path(), &format!("{command} --json")))["verified"].is_null());
        // No interval has the width 0.
        let output = piped(folder.path(), &format!("{command} --json --verify=0").split(' ').collect::<Vec<_>>(), "");
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert_eq!(parsed(std::str::from_utf8(&output.stdout).unwrap())["verified"]["proved"], false);
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("not proved: ln P(O"));
    }
    let returns = returns([1.0, 9.0]);
    for command in ["score m.json d.csv", "decode m.json d.csv"] {
        let found = parsed(&run(returns.path(), &format!("{command} --json --verify")));
        assert_eq!(found["verified"]["proved"], true, "{found}");
    }
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

#[test]
fn classes_stand_for_their_states() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.4, 0.3, 0.3], "A": [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]],
        "B": [[0.9, 0.1], [0.1, 0.9], [0.2, 0.8]], "states": ["s", "i1", "i2"], "symbols": ["A", "C"],
        "classes": ["", "island", "island"]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.fa"), ">g\nAAACCCCAAA\n").unwrap();
    let bed = |options: &str| {
        run(folder.path(), format!("decode m.json d.fa --out x.bed {options}").trim());
        fs::read_to_string(folder.path().join("x.bed")).unwrap()
    };
    assert_eq!(bed("").lines().count(), 6);
    assert_eq!(bed("--classes"), "g\t0\t3\ts\ng\t3\t7\tisland\ng\t7\t10\ts\n");
    assert_eq!(bed("--classes --states island"), "g\t3\t7\tisland\n");
    let message = fails(folder.path(), "decode m.json d.fa --out x.bed --classes --states i1", 2);
    assert_eq!(message, "error: --states: the model has no state \"i1\"\n");
    assert_eq!(
        run(folder.path(), "decode m.json d.fa --classes --by posterior").split(' ').filter(|s| *s == "island").count(),
        4
    );
    let table = |options: &str| -> Vec<Vec<f64>> {
        let text = run(folder.path(), format!("posterior m.json d.fa {options}").trim());
        let row = |line: &str| line.split(',').skip(2).map(|number| number.parse().unwrap()).collect();
        text.lines().skip(1).map(row).collect()
    };
    for (states, classes) in table("").iter().zip(&table("--classes")) {
        assert!((states[1] + states[2] - classes[1]).abs() < 1e-15 && classes.len() == 2);
    }
    assert!(run(folder.path(), "posterior m.json d.fa --classes").starts_with("sequence,position,s,island\n"));
    piped(folder.path(), &["train", "m.json", "d.fa", "--tie", "--out", "t.json", "--iterations", "3"], "");
    let trained = parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap());
    assert_eq!(trained["B"][1], trained["B"][2]);
    assert_ne!(trained["B"][0], trained["B"][1]);
    assert_eq!(trained["classes"], json!(["", "island", "island"]));
    fs::write(
        folder.path().join("n.json"),
        model.replace("\"classes\": [\"\", \"island\", \"island\"]", "\"comment\": 0"),
    )
    .unwrap();
    let message = fails(folder.path(), "train n.json d.fa --tie", 2);
    assert_eq!(message, "error: --tie: the model has no classes of states\n");
}

#[test]
fn tied_transitions_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("m.json", r#"{"pi": [0.6, 0.4], "A": [[0.7, 0.3], [0.4, 0.6]], "B": [[0.8, 0.2], [0.3, 0.7]]}"#);
    write("d.txt", "0 0 1 1 0 1 1 1 0 0 0 1\n");
    write("ties.txt", "# Both states last as long.\nstays leaves\nleaves stays\n");
    write("ties.csv", "stays,-\n,stays\n");
    let mut array = Vec::new();
    npy::write_header(&mut array, "<i4", &[2, 2]).unwrap();
    array.extend([5_i32, -1, -1, 5].into_iter().flat_map(i32::to_le_bytes));
    fs::write(folder.path().join("ties.npy"), array).unwrap();
    let trained = |options: &str| {
        run(folder.path(), &format!("train m.json d.txt --tolerance 1 --quiet --out t.json {options}"));
        parsed(&fs::read_to_string(folder.path().join("t.json")).unwrap())["A"].clone()
    };
    let a = trained("--tie-transitions ties.txt");
    assert!(a[0][0] == a[1][1] && a[0][1] == a[1][0] && a[0][0] != json!(0.7));
    assert_eq!(trained("--tie-transitions ties.csv")[0][0], a[0][0]);
    assert_eq!(trained("--tie-transitions ties.npy")[0][0], a[0][0]);
    let a = trained("--tie-transitions ties.txt --restarts 3 --by viterbi");
    assert_eq!(a[0][0], a[1][1]);
    write("short.txt", "stays leaves\n");
    write("wide.txt", "stays leaves\nleaves stays -\n");
    write("some.txt", "stays leaves\nstays -\n");
    for (options, expected) in [
        ("--tie-transitions short.txt", "short.txt: 1 rows of classes, expected 2"),
        ("--tie-transitions wide.txt", "wide.txt:2: 3 classes, expected 2"),
        (
            "--tie-transitions some.txt",
            "--tie-transitions: rows 0 and 1 of A share a class of tied transitions, but not all their classes",
        ),
        (
            "--tie-transitions ties.txt --freeze transitions",
            "--tie-transitions changes what --freeze transitions keeps",
        ),
        ("--tie-transitions ties.txt --by variational", "--tie-transitions is not for --by variational"),
    ] {
        assert_eq!(fails(folder.path(), &format!("train m.json d.txt {options}"), 2), format!("error: {expected}\n"));
    }
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
