//! `warpkov pomdp info` and `convert`, run as users and scripts run them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const MODEL: &str = "\
discount: 0.95
values: cost
states: left right
actions: stay go
observations: cold warm
start: left
T: stay identity
T: go 0 1 1 0
O: * : left 0.75 0.25
O: * : right 0.25 0.75
R: go : * : * : * 1
R: stay : right : * : * 4
";

fn run(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).arg("pomdp").args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Fails if the process exits early, without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn info_describes_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["info", "-", "--json"], MODEL);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&info["states"], &info["actions"], &info["observations"]), (&2.into(), &2.into(), &2.into()));
    assert_eq!((&info["gamma"], &info["objective"], &info["start"]), (&0.95.into(), &"minimize".into(), &1.into()));
    assert_eq!((&info["deterministic"], &info["observed"]), (&true.into(), &false.into()));
    assert_eq!((&info["transitions"]["nnz"], &info["observation"]["nnz"]), (&4.into(), &8.into()));
    assert_eq!(info["rewards"], serde_json::json!([0.0, 4.0]));
    let output = run(folder.path(), &["info", "-"], MODEL);
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(
        lines[..5],
        [
            "States (S)       2",
            "Actions (A)      2",
            "Observations (Ω) 2",
            "Discount (γ)     0.95",
            "Objective        minimize"
        ]
    );
}

#[test]
fn converts_models_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rewards = MODEL.replace("values: cost", "values: reward");
    fs::write(folder.join("a.pomdp"), &rewards).unwrap();
    for arguments in [&["a.pomdp", "a.json"][..], &["a.json", "b.txt", "--to", "pomdp"], &["b.txt", "c.json"]] {
        let output = run(folder, &[&["convert"], arguments].concat(), "");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    }
    assert_eq!(fs::read(folder.join("a.json")).unwrap(), fs::read(folder.join("c.json")).unwrap());
    let output = run(folder, &["convert", "-", "-", "--from", "pomdp", "--to", "pomdp"], &rewards);
    assert_eq!(output.stdout, fs::read(folder.join("b.txt")).unwrap());
}

/// POMDPX has no place for costs and for names with blanks.
#[test]
fn converts_to_pomdpx() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rewards.pomdp"), MODEL.replace("values: cost", "values: reward")).unwrap();
    fs::write(folder.join("costs.pomdp"), MODEL).unwrap();
    for arguments in [
        &["rewards.pomdp", "a.json"][..],
        &["a.json", "b.pomdpx"],
        &["b.pomdpx", "c.json"],
        &["c.json", "d.txt", "--to", "pomdpx"],
    ] {
        let output = run(folder, &[&["convert"], arguments].concat(), "");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{arguments:?}");
    }
    assert_eq!(fs::read(folder.join("a.json")).unwrap(), fs::read(folder.join("c.json")).unwrap());
    assert_eq!(fs::read(folder.join("b.pomdpx")).unwrap(), fs::read(folder.join("d.txt")).unwrap());
    let output = run(folder, &["convert", "costs.pomdp", "e.pomdpx"], "");
    let note = "note: pomdpx has no place for costs, which are written as negated rewards\n";
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), note));
    let output = run(folder, &["convert", "costs.pomdp", "e.pomdp"], "");
    let note = "note: SARSOP takes costs in pomdp for rewards, so they are written as negated rewards\n";
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), note));
    assert!(fs::read_to_string(folder.join("e.pomdp")).unwrap().contains("\nvalues: reward\n"));
    let blank = fs::read_to_string(folder.join("a.json")).unwrap().replace("\"left\"", "\"far left\"");
    let output = run(folder, &["convert", "-", "f.pomdpx", "--from", "json"], &blank);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("pomdpx has no place for the state \"far left\""),
        "{}",
        text(&output.stderr)
    );
    assert!(!folder.join("f.pomdpx").exists());
}

#[test]
fn converts_policies() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.pomdp"), MODEL).unwrap();
    fs::write(folder.join("a.alpha"), "0\n0 80\n\n1\n1 1\n").unwrap();
    for arguments in
        [&["a.alpha", "a.policy"][..], &["a.policy", "b.alpha"], &["a.alpha", "a.pg", "--model", "a.pomdp"]]
    {
        let output = run(folder, &[&["convert"], arguments].concat(), "");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    }
    assert_eq!(fs::read_to_string(folder.join("b.alpha")).unwrap(), "0\n0 80\n\n1\n1 1\n\n");
    // Costs: staying is best on the left, going on the right; a start on the left never observes the right.
    assert_eq!(fs::read_to_string(folder.join("a.pg")).unwrap(), "0 0  0 0\n1 1  0 0\n");
}

/// `solve --to` names the format of a policy whatever the name of its file, and on the standard output.
#[test]
fn to_chooses_the_format_of_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.pomdp"), MODEL).unwrap();
    let solve = |arguments: &[&str]| {
        run(folder, &[&["solve", "a.pomdp", "--device", "cpu", "--quiet", "--out"], arguments].concat(), "")
    };
    for (format, extension) in [("alpha", "alpha"), ("policy-xml", "policy"), ("pg", "pg"), ("dot", "dot")] {
        let named = format!("named.{extension}");
        for arguments in [&[&*named][..], &["plain", "--to", format], &["other.json", "--to", format]] {
            let output = solve(arguments);
            assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
            let printed = text(&output.stdout);
            assert!(printed.starts_with("Value of the start: ") && printed.lines().count() == 1, "{printed}");
        }
        let expected = fs::read(folder.join(named)).unwrap();
        assert_eq!(fs::read(folder.join("plain")).unwrap(), expected);
        assert_eq!(fs::read(folder.join("other.json")).unwrap(), expected);
        assert_eq!(solve(&["-", "--to", format]).stdout, expected);
    }
    assert_eq!(solve(&["-"]).stdout, fs::read(folder.join("named.alpha")).unwrap());
    for (arguments, message) in [
        (&["x.json"][..], "error: a file in json holds a model, expected alpha vectors or a controller\n"),
        (&["x", "--to", "pomdp"], "error: a file in pomdp holds a model, expected alpha vectors or a controller\n"),
        (&["x.abc"], "error: x.abc: the name must end in .alpha or .policy or .xml or .pg or .dot or .gv\n"),
        (&["-", "--json"], "error: --out - and --json both write to the standard output\n"),
    ] {
        let output = solve(arguments);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), message), "{arguments:?}");
    }
    assert_eq!(run(folder, &["solve", "a.pomdp", "--to", "pg"], "").status.code(), Some(2));
}

#[test]
fn mismatched_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.pomdp"), MODEL).unwrap();
    fs::write(folder.join("a.alpha"), "0\n0 80\n").unwrap();
    for (arguments, message) in [
        (&["convert", "a.alpha", "b.pg"][..], "error: pg needs the model of the policy, expected --model FILE\n"),
        (&["convert", "a.alpha", "b.pomdp"], "error: a.alpha: a file in alpha holds alpha vectors, expected a model\n"),
        (&["convert", "a.pomdp", "b.alpha"], "error: a.pomdp: a file in pomdp holds a model, expected alpha vectors\n"),
        (
            &["convert", "a.pomdp", "b.json", "--model", "a.pomdp"],
            "error: --model is for policies, and json holds a model\n",
        ),
        (
            &["info", "-"],
            "error: standard input:2:11: found `x`, expected the next section\n  states: 2 x\n            ^\n",
        ),
    ] {
        let output = run(folder, arguments, "discount:1\nstates: 2 x\n");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), message), "{arguments:?}");
    }
    let names = fs::read_dir(folder).unwrap().count();
    assert_eq!(names, 2, "nothing half written");
}

/// Each kind of warning comes from the model that has its fault, and from no sound model.
#[test]
fn info_names_what_looks_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let warnings = |model: &str| -> Vec<(String, Value)> {
        let output = run(folder.path(), &["info", "-", "--json"], model);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        let output = run(folder.path(), &["info", "-"], model);
        let words = text(&output.stdout);
        let found = info["warnings"].as_array().unwrap();
        assert_eq!(words.matches("Warning  ").count(), found.len(), "{words}");
        assert!(found.iter().all(|warning| words.contains(warning["message"].as_str().unwrap())), "{words}");
        found.iter().map(|w| (w["kind"].as_str().unwrap().to_owned(), w["examples"].clone())).collect()
    };
    let changed = |from: &str, to: &str| {
        assert!(MODEL.contains(from), "{from}");
        warnings(&MODEL.replace(from, to))
    };
    let one = |kind: &str, examples: Value| vec![(kind.to_owned(), examples)];
    assert_eq!(warnings(MODEL), []);
    assert_eq!(changed("T: go 0 1 1 0", "T: go identity"), one("unreachable-states", serde_json::json!(["right"])));
    let last = "R: stay : right : * : * 4\n";
    let same = "R: stay : right : * : * 4\nR: go : * : * : * 0\nR: go : right : * : * 4\nT: go identity\n";
    let same = MODEL.replace("start: left\n", "").replace(last, same);
    assert_eq!(warnings(&same), one("copied-actions", serde_json::json!(["go = stay"])));
    assert_eq!(
        changed("O: * : right 0.25 0.75", "O: * : right 0.75 0.25"),
        one("uninformative", serde_json::json!(["O"]))
    );
    let certain = MODEL.replace("0.75 0.25", "1 0").replace("0.25 0.75", "0 1");
    assert_eq!(warnings(&certain), one("fully-observed", serde_json::json!(["O"])));
    let three = MODEL
        .replace("cold warm", "cold warm hot")
        .replace("0.75 0.25", "0.75 0.25 0")
        .replace("0.25 0.75", "0.25 0.75 0");
    assert_eq!(warnings(&three), one("unseen-observations", serde_json::json!(["hot"])));
    let free = MODEL.replace(" 1\nR", " 0\nR").replace(last, "");
    assert_eq!(warnings(&free), one("no-reward", serde_json::json!(["R"])));
    let round = "discount: 0.9\nstates: 3\nactions: a\nobservations: 2\nT: a 0.5 0.3 0.2 0.2 0.5 0.3 0.3 0.2 0.5\n\
                 O: * : * uniform\nO: * : 0 1 0\nR: * : 1 : * : * 1\n";
    assert_eq!(warnings(round), one("transposed", serde_json::json!(["a"])));
    // Rows of Z in the order of the rows of P: each state's rows, of its two actions, are equal.
    let json = r#"{"gamma": 0.9, "S": 3, "A": 2, "O": 2, "action_rewards": [1, 0, 0, 2, 0, 0],
        "P": {"indptr": [0, 1, 2, 3, 4, 5, 6], "indices": [1, 0, 2, 0, 1, 1], "data": [1, 1, 1, 1, 1, 1]},
        "Z": {"indptr": [0, 1, 2, 3, 4, 6, 8], "indices": [0, 0, 1, 1, 0, 1, 0, 1], "data": [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5]}}"#;
    assert_eq!(warnings(json), one("state-major", serde_json::json!(["Z"])));
}

#[test]
fn info_shows_a_state_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let show = |state: &str| run(folder.path(), &["info", "-", "--show", state], MODEL);
    let expected = "\
State 0, left
  starts with    1
  stay: reward 0, leads to left with 1
  go: reward 1, leads to right with 1
  reached by stay: gives cold with 0.75, warm with 0.25
  reached by go: gives cold with 0.75, warm with 0.25
";
    assert_eq!((text(&show("left").stdout), text(&show("0").stdout)), (expected, expected));
    let output = show("Left");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "error: \"Left\" is no state of the model, expected a name or a number below 2\n");
}

const NAMES: &str = r#""names": {"states": ["x", "y"], "actions": ["a", "b"]}"#;

/// Tables with their order in the key, by numbers and by names, are the model of the sparse matrix.
#[test]
fn forms_written_by_hand_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let read = |model: &str| {
        let output = run(folder.path(), &["convert", "-", "-", "--from", "json", "--to", "json"], model);
        match output.status.code() {
            Some(0) => Ok(text(&output.stdout).to_owned()),
            Some(2) => Err(text(&output.stderr).to_owned()),
            code => panic!("{code:?}"),
        }
    };
    let rest = r#""P": {"indptr": [0, 1, 2, 4, 5], "indices": [0, 1, 0, 1, 0], "data": [1, 1, 0.25, 0.75, 1]},
        "names": {"states": ["x", "y"], "actions": ["a", "b"], "observations": ["l", "m", "r"]}"#;
    let model = |z: &str| format!("{{\"gamma\": 0.5, \"start\": {{\"states\": [1], \"probs\": [1]}}, {z}, {rest}}}");
    let sparse = r#""Z": {"indptr": [0, 2, 3, 4, 7], "indices": [0, 2, 1, 2, 0, 1, 2], "data": [0.5, 0.5, 1, 1, 0.25, 0.25, 0.5]}"#;
    let expected = read(&model(sparse)).unwrap();
    for form in [
        r#""Z[a][s'][o]": [[[0.5, 0, 0.5], [0, 1, 0]], [[0, 0, 1], [0.25, 0.25, 0.5]]]"#,
        r#""Z[s'][a][o]": [[[0.5, 0, 0.5], [0, 0, 1]], [[0, 1, 0], [0.25, 0.25, 0.5]]]"#,
        r#""Z[s'][a][o]": {"y": {"b": {"r": 0.5, "l": 0.25, "m": 0.25}, "a": {"m": 1}}, "x": {"a": {"l": 0.5, "r": 0.5}, "b": {"r": 1}}}"#,
    ] {
        assert_eq!(read(&model(form)).unwrap(), expected, "{form}");
        let sized = model(form).replacen('{', "{\"S\": 2, \"A\": 2, \"O\": 3,", 1);
        assert_eq!(read(&sized).unwrap(), expected, "{form}");
        for start in [r#""start[s]": [0, 1]"#, r#""start[s]": {"y": 1}"#] {
            assert_eq!(
                read(&model(form).replacen(r#""start": {"states": [1], "probs": [1]}"#, start, 1)).unwrap(),
                expected
            );
        }
    }
    let same = read(&model(r#""Z[s'][o]": [[0.5, 0, 0.5], [0, 1, 0]]"#)).unwrap();
    assert_eq!(
        same,
        read(&model(r#""Z[a][s'][o]": [[[0.5, 0, 0.5], [0, 1, 0]], [[0.5, 0, 0.5], [0, 1, 0]]]"#)).unwrap()
    );
    // T and the rewards in the same way.
    let tables = |p: &str, r: &str| {
        read(&format!("{{\"gamma\": 0.5, \"Z[s'][o]\": [[1, 0], [0.25, 0.75]], {p}, {r}, {NAMES}}}"))
    };
    let (p, r) = (
        r#""P": {"indptr": [0, 1, 2, 4, 5], "indices": [0, 1, 0, 1, 0], "data": [1, 1, 0.25, 0.75, 1]}"#,
        r#""action_rewards": [1, 2, -3, 4]"#,
    );
    let expected = tables(p, r).unwrap();
    for form in [
        r#""P[a][s][s']": [[[1, 0], [0.25, 0.75]], [[0, 1], [1, 0]]]"#,
        r#""P[s][a][s']": [[[1, 0], [0, 1]], [[0.25, 0.75], [1, 0]]]"#,
        r#""P[a][s][s']": {"b": {"y": {"x": 1}, "x": {"y": 1}}, "a": {"x": {"x": 1}, "y": {"x": 0.25, "y": 0.75}}}"#,
    ] {
        assert_eq!(tables(form, r).unwrap(), expected, "{form}");
        for rewards in [r#""R[s][a]": [[1, 2], [-3, 4]]"#, r#""R[a][s]": [[1, -3], [2, 4]]"#] {
            assert_eq!(tables(form, rewards).unwrap(), expected, "{form} {rewards}");
        }
        let rewards = r#""R[s][a]": {"y": {"b": 4, "a": -3}, "x": {"a": 1, "b": 2}}"#;
        assert_eq!(tables(form, rewards).unwrap(), expected, "{form} {rewards}");
    }
    let of_transitions = r#""R": {"indptr": [0, 1, 2, 3, 3], "indices": [1, 0, 0], "data": [7, -2, 3]}"#;
    let expected = tables(p, of_transitions).unwrap();
    for rewards in [
        r#""R[s][a][s']": [[[0, 7], [-2, 0]], [[3, 0], [0, 0]]]"#,
        r#""R[a][s][s']": [[[0, 7], [3, 0]], [[-2, 0], [0, 0]]]"#,
        r#""R[a][s][s']": {"b": {"x": {"x": -2}}, "a": {"x": {"y": 7}, "y": {"x": 3}}}"#,
    ] {
        assert_eq!(tables(p, rewards).unwrap(), expected, "{rewards}");
    }
    assert_eq!(tables(p, r#""R[s]": [5, 6]"#).unwrap(), tables(p, r#""action_rewards": [5, 5, 6, 6]"#).unwrap());
    for (p, r, message) in [
        (p, r#""R[s]": [5]"#, "R[s] is 1, expected 2, in the order [state]"),
        (p, r#""R[s]": [5, 6], "R[a][s]": [[1, 2], [3, 4]]"#, "found two tables of rewards, expected one"),
        (p, r#""R[s]": [5, 6], "action_rewards": []"#, "found a table of rewards, and \"R\" or \"action_rewards\""),
        (
            r#""P[a][s][s']": [[[1, 0], [1, 0]]]"#,
            r,
            "P[a][s][s'] is 1 × 2 × 2, expected 2 × 2 × 2, in the order [action][state][next",
        ),
        (r#""P": [[[1, 0], [1, 0]]]"#, r, "P[a][s][s']"),
        (
            r#""A": 4294967295, "P": {"indptr": [0], "indices": [], "data": []}"#,
            r#""R[s]": [1, 2]"#,
            "P.indptr has 1 elements",
        ),
    ] {
        let error = tables(p, r).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    for (form, message) in [
        (
            r#""Z[s'][o]": [[0.5, 0], [0, 1], [0.5, 0]]"#,
            "Z[s'][o] is 3 × 2, expected 2 × 3, in the order [next state][observation]",
        ),
        (
            r#""Z[a][s'][o]": [[[1, 0, 0], [1, 0, 0]]]"#,
            "Z[a][s'][o] is 1 × 2 × 3, expected 2 × 2 × 3, in the order [action][next state][observation]",
        ),
        (
            r#""Z[s'][o]": {"x": {"L": 1}, "y": {"l": 1}}"#,
            "Z[s'][o][\"x\"]: no observation is called \"L\", did you mean \"l\"?",
        ),
        (r#""Z[s'][o]": {"x": {"l": 1}}"#, "O of action a in state y sums to 0, expected 1"),
        (
            r#""O": 3"#,
            "key \"Z\" is missing (or Z[a][s'][o], Z[s'][a][o], Z[s'][o], O[a][s'][o], O[s'][a][o], O[s'][o])",
        ),
        (
            r#""Z[s'][o]": [], "Z": {"indptr": [0], "indices": [], "data": []}"#,
            "found both \"Z\" and \"Z[s'][o]\", expected one of them",
        ),
        (r#""z": 1"#, "unknown key \"z\", did you mean \"Z\"? (known keys: gamma, discount, P, "),
        (r#""S": 0, "Z[s'][o]": [[1, 0, 0], [1, 0, 0]]"#, "Z[s'][o] is 2 × 3, expected 0 × 3"),
    ] {
        let error = read(&model(form)).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    let twice = model(sparse).replace("[\"x\", \"y\"]", "[\"x\", \"x\"]");
    assert!(read(&twice).unwrap_err().contains("two states are called \"x\""));
    // Z[s'][o] of as many states as observations, transposed.
    let square = r#"{"gamma": 0.5, "S": 2, "A": 1, "O": 2, "Z[s'][o]": [[0.9, 0.3], [0.1, 0.7]],
        "P": {"indptr": [0, 1, 2], "indices": [0, 1], "data": [1, 1]}}"#;
    let error = read(square).unwrap_err();
    assert!(
        error.contains("O of action 0 in state 0 sums to 1.2, expected 1, but every column does: O looks trans"),
        "{error}"
    );
}

/// Always `go` costs 20; the vectors that promise 0 lose this as a controller, and the user is told.
#[test]
fn a_controller_worse_than_its_vectors_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.pomdp"), MODEL).unwrap();
    let note = "note: the vectors have the value 0.000000 at the start, this controller 20.000000: it remembers a vector, not the belief. \
                The controller that solve --out writes attains the value of its vectors\n";
    for (vectors, out, expected) in [
        ("1\n0 0\n", "b.pg", note),
        ("1\n0 0\n", "b.dot", note),
        ("1\n20 20\n", "b.pg", ""),
        ("1\n0 0\n", "b.policy", ""),
    ] {
        fs::write(folder.join("a.alpha"), vectors).unwrap();
        let output = run(folder, &["convert", "a.alpha", out, "--model", "a.pomdp"], "");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), expected), "{vectors} {out}");
        assert!(folder.join(out).exists());
    }
}

/// Vectors are those of the first step only; a controller has all steps.
#[test]
fn a_plan_written_as_vectors_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.pomdp"), MODEL).unwrap();
    for (steps, out, format) in [
        ("3", "a.alpha", Some("alpha")),
        ("3", "a.policy", Some("policy-xml")),
        ("1", "a.alpha", None),
        ("3", "a.pg", None),
    ] {
        let solve = ["solve", "a.pomdp", "--horizon", steps, "--out", out];
        let json = run(folder, &[&solve[..], &["--json"]].concat(), "");
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        let output = run(folder, &solve, "");
        let printed = text(&output.stdout);
        match format {
            Some(format) => {
                let note = format!(
                    "{format} holds the vectors of the first of 3 steps: --out FILE.pg or FILE.dot writes the plan of all"
                );
                assert!(json["notes"].as_array().unwrap().contains(&Value::from(note.clone())), "{json}");
                assert!(printed.contains(&format!("Note: {note}\n")), "{printed}");
            }
            None => {
                assert!(!printed.contains("first of") && !json["notes"].to_string().contains("first of"), "{printed}")
            }
        }
        let quiet = run(folder, &[&solve[..], &["--quiet"]].concat(), "");
        assert_eq!((text(&quiet.stdout).lines().count(), text(&quiet.stderr)), (1, ""));
    }
}

/// What ends an MDP is a state of a POMDP.
#[test]
fn ends_are_refused_with_the_way_to_write_them() {
    let folder = tempfile::tempdir().unwrap();
    let rest = r#""Z[s'][o]": [[1]], "gamma": 0.5"#;
    for model in [
        format!(
            r#"{{"S": 1, "A": 1, "P": {{"indptr": [0, 1], "indices": [0], "data": [0.75]}}, "ends": [0.25], {rest}}}"#
        ),
        format!(r#"{{"P[s][a][s']": [[[0.75]]], "ends[s][a]": [[0.25]], {rest}}}"#),
    ] {
        let output = run(folder.path(), &["info", "-"], &model);
        assert_eq!(output.status.code(), Some(2));
        let message = "but a POMDP does not end: expected a further state without rewards, which every action leads to with this \
                       probability and does not leave";
        assert!(
            text(&output.stderr).contains("found the key \"ends") && text(&output.stderr).contains(message),
            "{}",
            text(&output.stderr)
        );
    }
}

/// The start is by numbers or by names, which may have any order.
#[test]
fn a_start_has_names() {
    let folder = tempfile::tempdir().unwrap();
    let model = |start: &str| {
        format!(
            r#"{{"gamma": 0.5, "P[s][a][s']": [[[1, 0, 0]], [[0, 1, 0]], [[0, 0, 1]]], "Z[s'][o]": [[1], [1], [1]],
            "state_names": ["x", "y", "z"], "start": {start}}}"#
        )
    };
    let read = |start: &str| run(folder.path(), &["convert", "-", "-", "--from", "json"], &model(start));
    let expected = read(r#"{"states": [0, 2], "probs": [0.25, 0.75]}"#);
    assert_eq!(expected.status.code(), Some(0), "{}", text(&expected.stderr));
    for states in [r#"["x", "z"]"#, r#"[0, "z"]"#, r#"["x", 2]"#] {
        let found = read(&format!(r#"{{"states": {states}, "probs": [0.25, 0.75]}}"#));
        assert_eq!(text(&found.stdout), text(&expected.stdout), "{states}: {}", text(&found.stderr));
    }
    let found = read(r#"{"probs": [0.75, 0.25], "states": ["z", "x"]}"#);
    assert_eq!(text(&found.stdout), text(&expected.stdout));
    for (start, message) in [
        (
            r#"{"states": ["x", "w"], "probs": [0.25, 0.75]}"#,
            "the start belief is in the state \"w\", expected the name or the number of a state",
        ),
        (r#"{"states": ["x", "x"], "probs": [0.25, 0.75]}"#, "has the state \"x\" twice"),
        (r#"{"states": ["x", 0], "probs": [0.25, 0.75]}"#, "has the state \"x\" twice"),
        (r#"{"states": ["x", 3], "probs": [0.25, 0.75]}"#, "in the state \"3\", expected the name or the number"),
        (r#"{"states": ["x"], "probs": [0.25, 0.75]}"#, "strictly ascending states, each with one probability"),
        (
            r#"{"states": ["x", 0.5], "probs": [0.25, 0.75]}"#,
            "start.states[1]: found 0.5, expected a state: its number, or its name",
        ),
    ] {
        let output = read(start);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}
