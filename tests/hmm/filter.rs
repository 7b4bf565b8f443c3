//! `warpkov hmm filter`, `info` and `convert`, run as users and scripts run them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{fails, ice_cream, parsed, piped, run};

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
        "State 1, H\n  starts with    0.5\n  leads to       C with 0.1, H with 0.8\n  stays          5 steps\n  ends with      0.1\n  \
         emits          1 with 0.1, 2 with 0.2, 3 with 0.7\n"
    );
    assert_eq!(run(folder, "info ice.json --show 1"), text);
    let row = parsed(&run(folder, "info ice.json --show H --json"));
    assert_eq!((&row["state"], &row["transitions"]), (&json!(1), &json!([["C", 0.1], ["H", 0.8]])));
    assert_eq!(
        (&row["stay"], &parsed(&run(folder, "info ice.json --json"))["stays"]),
        (&json!(5.0), &json!([5.0, 5.0]))
    );
    assert!(run(folder, "info ice.json").contains("Expected stays   5 to 5 steps in a state\n"));
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
