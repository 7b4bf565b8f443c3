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
    fs::write(folder.join("a.pomdp"), MODEL).unwrap();
    for arguments in [&["a.pomdp", "a.json"][..], &["a.json", "b.txt", "--to", "pomdp"], &["b.txt", "c.json"]] {
        let output = run(folder, &[&["convert"], arguments].concat(), "");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    }
    assert_eq!(fs::read(folder.join("a.json")).unwrap(), fs::read(folder.join("c.json")).unwrap());
    let output = run(folder, &["convert", "-", "-", "--from", "pomdp", "--to", "pomdp"], MODEL);
    assert_eq!(output.stdout, fs::read(folder.join("b.txt")).unwrap());
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
            assert!(text(&output.stdout).contains("Value of the start: "));
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
        (&["convert", "a.pomdp", "b.pomdpx"][..], "error: pomdpx is read and not written\n"),
        (&["convert", "a.alpha", "b.pg"], "error: pg needs the model of the policy, expected --model FILE\n"),
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
