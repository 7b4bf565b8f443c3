//! Runs the `warpkov` binary as users and scripts run it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

/// The 2 × 2 slip grid of Aydin, *Policy Iteration on the GPU* (2025), Listing A.1.
pub const LISTING_A1: &str = r#"{
  "S": 4, "A": 4, "gamma": 0.9, "format": "CSR",
  "P": {
    "indptr": [0,2,5,8,10,12,15,17,20,23,25,28,30,33,35,37,40],
    "indices": [0,1,0,1,2,0,1,2,0,2,0,1,0,1,3,1,3,0,1,3,0,2,3,2,3,0,2,3,0,2,1,2,3,2,3,1,3,1,2,3],
    "data": [0.95,0.05,0.05,0.05,0.90,0.05,0.90,0.05,0.95,0.05,0.05,0.95,0.05,0.05,0.90,0.95,0.05,0.90,0.05,0.05,
             0.90,0.05,0.05,0.95,0.05,0.05,0.05,0.90,0.05,0.95,0.90,0.05,0.05,0.05,0.95,0.05,0.95,0.05,0.90,0.05]
  },
  "R": {
    "indptr": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],
    "indices": [3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3],
    "data": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]
  }
}"#;

pub fn warpkov(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).args(arguments);
    command
}

/// Runs the binary to completion. Panics if the process cannot be started.
pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    warpkov(folder, arguments).output().unwrap()
}

/// Runs the binary with `input` on standard input.
pub fn run_with(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child =
        warpkov(folder, arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        // Fails if the process exits early, without reading its input.
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    })
}

pub fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[track_caller]
pub fn succeeds(folder: &Path, arguments: &[&str]) -> Output {
    let output = run(folder, arguments);
    assert_eq!(code(&output), Some(0), "{arguments:?}: {}", stderr(&output));
    output
}

/// Asserts exit code `expected`, an empty stdout, and each of `words` on stderr.
#[track_caller]
pub fn fails(folder: &Path, arguments: &[&str], expected: i32, words: &[&str]) {
    let output = run(folder, arguments);
    assert_eq!(code(&output), Some(expected), "{arguments:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "", "{arguments:?}");
    for word in words {
        assert!(stderr(&output).contains(word), "{arguments:?}: no '{word}' in: {}", stderr(&output));
    }
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A folder with `grid.json`: 8 × 8 cells with walls and obstacles.
pub fn folder_with_grid() -> tempfile::TempDir {
    let folder = folder();
    let grid = ["mdp", "generate", "grid", "--width", "8", "--height", "8", "--walls", "0.1", "--obstacles", "0.1"];
    succeeds(folder.path(), &[&grid[..], &["--out", "grid.json"]].concat());
    folder
}

/// A folder with the inputs of [`WRITERS`].
pub fn folder_with_inputs() -> tempfile::TempDir {
    let folder = folder_with_grid();
    for command in [
        "pomdp generate tiger --out tiger.pomdp",
        "pomdp solve tiger.pomdp --quiet --out tiger.alpha",
        "hmm generate random --states 2 --symbols 3 --out model.json",
        "hmm sample model.json --sequences 3 --length 5 --out data.txt",
    ] {
        succeeds(folder.path(), &command.split(' ').collect::<Vec<_>>());
    }
    folder
}
