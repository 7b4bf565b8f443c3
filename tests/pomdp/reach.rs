//! `warpkov pomdp reach`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Two doors: listening tells which is right, and the wrong one is the end.
const DOORS: &str = "discount: 1\nvalues: reward\nstates: left right good bad\nactions: listen l r\nobservations: a b\n\
    start: 0.5 0.5 0 0\nT: listen\nidentity\nT: l : left : good 1\nT: l : right : bad 1\nT: l : good : good 1\n\
    T: l : bad : bad 1\nT: r : left : bad 1\nT: r : right : good 1\nT: r : good : good 1\nT: r : bad : bad 1\nO: *\n\
    uniform\nO: listen : left 0.85 0.15\nO: listen : right 0.15 0.85\nR: * : * : * : * 1\n";

/// The standard output and error of a command that must end with this exit code.
#[track_caller]
fn reach(folder: &Path, arguments: &str, code: i32) -> [String; 2] {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    let output = command.current_dir(folder).args(["pomdp", "reach"]).args(arguments.split(' ')).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(code), "{arguments}: {out}{err}");
    [out, err]
}

#[test]
fn doors_are_heard_and_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("doors.pomdp"), DOORS).unwrap();
    fs::write(folder.join("deaf.pomdp"), DOORS.replace("0.85", "0.5").replace("0.15", "0.5")).unwrap();
    let [text, _] = reach(folder, "doors.pomdp --goal good --out doors.dot", 0);
    assert!(text.contains("Largest probability of the goal: 0.999"), "{text}");
    assert!(fs::read_to_string(folder.join("doors.dot")).unwrap().contains("start -> 0;"));
    let json = |arguments: &str| -> Value { serde_json::from_str(&reach(folder, arguments, 0)[0]).unwrap() };
    let bounds = |found: &Value| ["lower", "upper"].map(|name| found[name].as_f64());
    // A device gives the bounds of the CPU, and the text formats are those of other controllers.
    for device in ["cpu", "emulated"] {
        let found = json(&format!("doors.pomdp --goal good --gap 1e-3 --device {device} --json"));
        assert!(matches!(bounds(&found), [Some(0.998..=1.0), Some(0.999..=1.0)]), "{device}: {found}");
        assert_eq!((&found["criterion"], &found["stopped_by"]), (&"reach".into(), &"gap".into()));
    }
    let guessed = json("deaf.pomdp --goal good --json");
    assert!(bounds(&guessed).iter().all(|bound| (bound.unwrap() - 0.5).abs() < 1e-9), "{guessed}");
    // Steps until either end: one, if they cost.
    let steps = json("doors.pomdp --goal good,bad --rewards --minimize --json");
    assert!(bounds(&steps).iter().all(|bound| (bound.unwrap() - 1.0).abs() < 1e-9), "{steps}");
    let endless = json("doors.pomdp --goal !good&!bad&!left&!right --rewards --json");
    assert_eq!(bounds(&endless), [None, None], "{endless}");
    let [line, _] = reach(folder, "doors.pomdp --goal good --iterations 0 --quiet", 1);
    assert_eq!(line, "Largest probability of the goal: 0.500000 to 1.000000, gap 5.0e-1; the limit is 5.0e-4\n");
    reach(folder, "doors.pomdp --goal good --target 0.9 --quiet", 0);
    reach(folder, "doors.pomdp --goal good --plot doors.svg --quiet", 0);
    assert!(fs::read_to_string(folder.join("doors.svg")).unwrap().contains("<svg"));
    for (arguments, said) in [
        ("doors.pomdp --goal exit", "found 'exit', but the model has no labels"),
        ("doors.pomdp --goal 9", "--goal: "),
        ("doors.pomdp", "--goal <STATES>"),
        ("doors.pomdp --goal good --out doors.alpha", "alpha"),
        ("doors.pomdp --goal good --gap 0", "--gap"),
    ] {
        let [_, text] = reach(folder, arguments, 2);
        assert!(text.contains(said), "{arguments}: {text}");
    }
}
