//! Runs `warpkov hmm` as users and scripts run it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub fn piped(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).arg("hmm").args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Fails if the process exits early, without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// The output of a command that must succeed.
#[track_caller]
pub fn run(folder: &Path, arguments: &str) -> String {
    let output = piped(folder, &arguments.split(' ').collect::<Vec<_>>(), "");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The error message of a command that must fail with this exit code.
#[track_caller]
pub fn fails(folder: &Path, arguments: &str, code: i32) -> String {
    let output = piped(folder, &arguments.split(' ').collect::<Vec<_>>(), "");
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The JSON report of a training that may end without convergence.
#[track_caller]
pub fn trained(folder: &Path, arguments: &str) -> Value {
    let arguments = format!("train {arguments} --json");
    let output = piped(folder, &arguments.split_whitespace().collect::<Vec<_>>(), "");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let report = parsed(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(report["status"] == "converged", output.status.code() == Some(0));
    report
}

/// A folder with Eisner's ice-cream model and diary.
pub fn ice_cream() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate ice-cream --out ice.json");
    let diary = "2 3 3 2 3 2 3 2 2 3 1 3 3 1 1 1 2 1 1 1 3 1 2 1 1 1 2 3 3 2 3 2 2\n";
    fs::write(folder.path().join("diary.txt"), diary).unwrap();
    folder
}

/// A Gaussian model with two persistent states, and 400 steps sampled from it.
pub fn returns(variances: [f64; 2]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let [quiet, loud] = variances;
    let model = format!(
        r#"{{"pi": [0.5, 0.5], "A": [[0.95, 0.05], [0.05, 0.95]], "means": [[0], [0]], "covariances": [[{quiet}], [{loud}]]}}"#
    );
    fs::write(folder.path().join("m.json"), model).unwrap();
    run(folder.path(), "sample m.json --length 400 --out d.csv");
    folder
}
