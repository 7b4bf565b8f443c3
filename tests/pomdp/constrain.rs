//! `warpkov pomdp constrain`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The standard output and error of a command that must end with this exit code.
#[track_caller]
fn warpkov(folder: &Path, arguments: &str, code: i32) -> [String; 2] {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    let output = command.current_dir(folder).arg("pomdp").args(arguments.split(' ')).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(code), "{arguments}: {out}{err}");
    [out, err]
}

/// The tiger, and the same model in which opening a door costs 1.
fn tiger() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    warpkov(folder.path(), "generate tiger --out tiger.pomdp", 0);
    let text = fs::read_to_string(folder.path().join("tiger.pomdp")).unwrap();
    let model: Vec<&str> = text.lines().filter(|line| !line.starts_with("R:")).collect();
    let costs = "R: open-left : * : * : * 1\nR: open-right : * : * : * 1\n";
    fs::write(folder.path().join("opened.pomdp"), model.join("\n") + "\n" + costs).unwrap();
    folder
}

#[test]
fn doors_are_opened_as_often_as_permitted() {
    let folder = tiger();
    let folder = folder.path();
    let solved = |options: &str| -> Value {
        let [out, _] = warpkov(folder, &format!("constrain tiger.pomdp --costs opened.pomdp --json {options}"), 0);
        serde_json::from_str(&out).unwrap()
    };
    let number = |found: &Value, name: &str| found[name].as_f64().unwrap();
    // Without a limit that binds, the value is that of the model.
    let free = solved("--at-most 100");
    assert!(number(&free, "lower") > 19.3 && number(&free, "upper") < 19.4 && free["price"] == json!(0.0), "{free}");
    let found = solved("--at-most 2 --out mixed.pg --plot mixed.svg");
    assert!(number(&found, "lower") < 2.0 && number(&found, "upper") > 1.9, "{found}");
    assert!((number(&found, "upper") - number(&found, "lower")) <= number(&found, "gap_limit"), "{found}");
    assert_eq!(
        (&found["constraint"], &found["limit"], &found["stopped_by"]),
        (&json!("at-most"), &json!(2.0), &json!("gap"))
    );
    assert!(fs::read_to_string(folder.join("mixed.svg")).unwrap().contains("<svg"));
    // Each controller of the file has the value and the cost that the report says.
    let parts = found["controllers"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    let [mut value, mut cost] = [0.0; 2];
    for part in parts {
        let (node, probability) = (&part["start"][0], number(part, "probability"));
        for (model, name, sum) in [("tiger.pomdp", "value", &mut value), ("opened.pomdp", "cost", &mut cost)] {
            let arguments = format!("evaluate {model} --policy mixed.pg --node {node} --episodes 10 --json");
            let exact: Value = serde_json::from_str(&warpkov(folder, &arguments, 0)[0]).unwrap();
            let exact = (number(&exact["exact"], "lower") + number(&exact["exact"], "upper")) / 2.0;
            let [lower, upper] = [0, 1].map(|side| part[name][side].as_f64().unwrap());
            assert!(lower <= exact + 1e-6 && exact <= upper + 1e-6, "{part} {exact}");
            *sum += probability * exact;
        }
    }
    assert!(cost <= 2.0 + 1e-6 && value >= number(&found, "lower") - 1e-6, "{cost} {value}");
    // Exact solutions and other seeds have bounds that overlap with these.
    for options in ["--exact", "--seed 3"] {
        let other = solved(&format!("--at-most 2 {options}"));
        assert!(number(&other, "lower") <= number(&found, "upper"), "{options}: {other}");
        assert!(number(&other, "upper") >= number(&found, "lower"), "{options}: {other}");
    }
    // At least so many doors, in six steps.
    let plan = solved("--at-least 3 --horizon 6 --out plan.dot");
    assert!(plan["cost"][0].as_f64().unwrap() >= 3.0 - 1e-6, "{plan}");
    assert!(fs::read_to_string(folder.join("plan.dot")).unwrap().contains("start -> 0;"));
    let [text, _] = warpkov(folder, "constrain tiger.pomdp --costs opened.pomdp --at-most 2", 0);
    assert!(text.contains("Controller: with probability 0."), "{text}");
    let [line, _] = warpkov(folder, "constrain tiger.pomdp --costs opened.pomdp --at-most 2 --quiet", 0);
    assert!(line.starts_with("Value at the start, cost at most 2: 1.9") && line.lines().count() == 1, "{line}");
    let [graph, _] = warpkov(folder, "constrain tiger.pomdp --costs opened.pomdp --at-most 2 --out - --to dot", 0);
    assert!(graph.starts_with("digraph policy"), "{graph}");
}

#[test]
fn what_no_policy_does_is_refused() {
    let folder = tiger();
    let folder = folder.path();
    warpkov(folder, "generate inspection --out machine.pomdp", 0);
    fs::write(
        folder.join("noisy.pomdp"),
        fs::read_to_string(folder.join("opened.pomdp")).unwrap().replace("0.85", "0.8").replace("0.15", "0.2"),
    )
    .unwrap();
    let costs = "constrain tiger.pomdp --costs opened.pomdp";
    for (arguments, code, said) in [
        (
            format!("{costs} --at-most -0.5"),
            1,
            "no policy keeps the cost at most -0.5: that of every policy is at least -0.",
        ),
        (
            format!("{costs} --at-least 20.5"),
            1,
            "no policy keeps the cost at least 20.5: that of every policy is at most 20.",
        ),
        (costs.to_owned(), 2, "--at-most <D>"),
        (format!("{costs} --at-most 1 --at-least 1"), 2, "cannot be used with"),
        (format!("{costs} --at-most nan"), 2, "--at-most"),
        (format!("{costs} --at-most 1 --out x.alpha"), 2, "alpha"),
        (
            "constrain tiger.pomdp --costs machine.pomdp --at-most 1".to_owned(),
            2,
            "machine.pomdp: 3 states, 4 actions and 3 observations, expected 2, 3 and 2",
        ),
        (
            "constrain tiger.pomdp --costs noisy.pomdp --at-most 1".to_owned(),
            2,
            "noisy.pomdp: other observation probabilities than those of the model",
        ),
    ] {
        let [_, text] = warpkov(folder, &arguments, code);
        assert!(text.contains(said), "{arguments}: {text}");
    }
}
