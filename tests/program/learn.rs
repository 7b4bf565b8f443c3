//! `warpkov learn` on a small course, with shell scripts for the programs of students. `scripts/test-learn.sh` tests the real one.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use tempfile::TempDir;

fn learn(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).arg("learn").args(arguments).output().expect("warpkov starts")
}

/// What a command that succeeds prints.
fn prints(folder: &Path, arguments: &[&str]) -> String {
    let output = learn(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Checks that a command ends with exit code 2 and a message with this text.
fn refuses(folder: &Path, arguments: &[&str], text: &str) {
    let output = learn(folder, arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(message.contains(text), "{arguments:?}: {message}");
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a new folder");
    fs::write(path, text).expect("a new file");
}

/// Writes a shell script that can be executed. Another process writes the file: a process that a test beside this one starts would
/// inherit our open file, and then Linux does not execute it.
fn write_script(path: &Path, text: &str) {
    let plain = path.with_extension("text");
    write(&plain, &format!("#!/bin/sh\n{text}\n"));
    let installed = Command::new("install").arg("-m755").args([&plain, path]).status().expect("install starts");
    assert!(installed.success());
    fs::remove_file(plain).expect("a file");
}

/// A course of two exercises.
fn course() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let learn = folder.path().join("learn");
    write(&learn.join("Cargo.toml"), "");
    write(&learn.join("harness/Cargo.toml"), "");
    for name in ["00_first", "07_the_second"] {
        write(&learn.join("exercises").join(name).join("hints.md"), "1. One.\n2. Two,\n   on two lines.\n3. Three.\n");
    }
    write(&folder.path().join("book/course/00-first.md"), "# 0. The first\n");
    folder
}

#[test]
fn exercises_are_found_by_number_and_name() {
    let course = course();
    let here = course.path();
    let list = prints(here, &["list"]);
    assert!(list.contains("00_first") && list.contains("0. The first") && list.contains("0 of 2 solved"), "{list}");
    for inside in ["learn", "learn/exercises/00_first"] {
        assert_eq!(prints(&here.join(inside), &["list"]), list);
    }
    let path = here.join("learn");
    let path = path.to_str().expect("UTF-8");
    assert_eq!(prints(Path::new("/"), &["list", "--course", path]), list);
    assert!(prints(here, &["next"]).contains("exercises/00_first"));
    assert_eq!(prints(here, &["read"]), "# 0. The first\n");
    assert_eq!(prints(here, &["read", "0", "--width", "20"]), "# 0. The first\n");
    refuses(here, &["read", "7"], "07-the-second.md");
    for name in ["7", "07", "the_second", "07_the_second"] {
        assert!(prints(here, &["hint", name, "--all"]).contains("Hint 2 of 3: Two,\non two lines.\n"), "{name}");
    }
    write(
        &here.join("learn/progress.json"),
        "{ \"solved\": [\"00_first\"], \"parts\": { \"07_the_second\": [2, 5] }, \"hints\": {} }",
    );
    let list = prints(here, &["list"]);
    assert!(list.starts_with("solved  00_first") && list.contains("\n2/5     07_the_second"), "{list}");
    assert!(prints(here, &["next"]).contains("exercises/07_the_second"));
    let json: serde_json::Value = serde_json::from_str(&prints(here, &["list", "--json"])).expect("JSON");
    assert_eq!(json["exercises"][0]["solved"], true);
    assert_eq!(json["exercises"][1]["solved"], false);
    assert_eq!(json["exercises"][1]["parts"], serde_json::json!([2, 5]));
}

#[test]
fn hints_come_one_by_one() {
    let course = course();
    for number in ["1", "2", "3", "3"] {
        let hint = prints(course.path(), &["hint"]);
        assert!(hint.starts_with(&format!("Hint {number} of 3: ")), "{hint}");
    }
}

#[test]
fn wrong_arguments_are_explained() {
    let course = course();
    let here = course.path();
    refuses(Path::new("/"), &["list"], "no course in");
    refuses(here, &["list", "--course", "book"], "no course in book");
    for name in ["8", "secon", "", "-1"] {
        refuses(here, &["hint", "--", name], "is no exercise: expected a number, or one of 00_first, 07_the_second");
    }
    refuses(here, &["submit", "nowhere"], "nowhere");
    refuses(here, &["submit", "book"], "no folder has such an exercise");
    refuses(here, &["submit", "book", "--time-limit", "0"], "--time-limit");
    refuses(here, &["pack", "book", "--out", "pack"], "no folder has an exercise");
    refuses(here, &["check", "--watch", "--json"], "cannot be used with");
    write(&here.join("learn/progress.json"), "{");
    refuses(here, &["next"], "progress.json");
}

/// Programs that pass, fail, crash, print nonsense, claim what their exit code denies, print without end, or never end.
#[test]
fn programs_of_students_are_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let pack = folder.path().join("pack");
    let report = |passed: bool, seconds: f64| {
        let failure = if passed { "null" } else { "\"size 3: z[1] is 2\\nmore\"" };
        format!(
            "printf '%s\\n' '{{\"passed\":{passed},\"parts\":[{{\"part\":1,\"passed\":{passed},\"seconds\":{seconds},\"checks\":[{{\"name\":\"results\",\"failure\":{failure}}}]}}]}}'"
        )
    };
    let programs = [
        ("reference", report(true, 2e-6)),
        ("anna", report(true, 3e-6)),
        ("boris", format!("{}; exit 1", report(false, 0.0))),
        ("clara", "echo oops >&2; kill -SEGV $$".to_owned()),
        ("dora", "echo '{\"passed\":true}'".to_owned()),
        ("emil", format!("{}; exit 1", report(true, 1e-9))),
        ("frida", "yes".to_owned()),
        // A grandchild would keep the pipe open.
        ("gina", "sleep 1000 & sleep 1000".to_owned()),
        ("hans", format!("sleep 1000 & {}", report(true, 4e-6))),
    ];
    for (student, program) in &programs {
        let path = pack.join(student).join("00_first");
        write_script(&path, program);
    }
    write(&pack.join("ida/00_first.error"), "warning: w\nerror[E0425]: cannot find `i`\n");
    fs::create_dir_all(pack.join("jan")).expect("a folder");
    let mut arguments = vec!["submit".to_owned()];
    let folders = fs::read_dir(&pack).expect("a folder").map(|entry| entry.expect("an entry").path());
    arguments.extend(folders.map(|path| path.display().to_string()));
    arguments.extend(["--time-limit", "2", "--json", "--out", "table.csv"].map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let json: serde_json::Value = serde_json::from_str(&prints(folder.path(), &arguments)).expect("JSON");
    assert!(begun.elapsed().as_secs() < 60, "programs are killed at their time limit");
    let entries = json["entries"].as_array().expect("entries");
    let outcomes: Vec<_> = entries.iter().map(|entry| [&entry["student"], &entry["outcome"]]).collect();
    let expected = [
        ["anna", "passed"],
        ["boris", "failed"],
        ["clara", "crashed"],
        ["dora", "crashed"],
        ["emil", "crashed"],
        ["frida", "time_limit"],
        ["gina", "time_limit"],
        ["hans", "passed"],
        ["ida", "does_not_compile"],
        ["jan", "missing"],
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(entries[0]["relative"].as_f64().map(|x| (10.0 * x).round()), Some(15.0));
    assert_eq!(entries[1]["note"], "part 1: results: size 3: z[1] is 2");
    assert!(entries[2]["note"].as_str().is_some_and(|note| note.contains("oops")), "{}", entries[2]);
    assert_eq!(entries[8]["note"], "error[E0425]: cannot find `i`");
    let table = fs::read_to_string(folder.path().join("table.csv")).expect("a table");
    assert_eq!(table.lines().count(), 11);
    assert!(
        table.starts_with("student,exercise,outcome,parts,seconds,relative,note\nanna,00_first,passed,1,"),
        "{table}"
    );
}

/// A reference that does not pass here makes relative times meaningless.
#[test]
fn a_wrong_reference_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    for student in ["reference", "anna"] {
        let path = folder.path().join(student).join("00_first");
        write_script(&path, "echo no GPU\nexit 3");
    }
    refuses(
        folder.path(),
        &["submit", "anna", "reference"],
        "the course's own solution of 00_first does not pass here: no GPU",
    );
}
