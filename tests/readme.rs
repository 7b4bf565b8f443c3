//! The commands of the README and of the book run as they stand there.

use std::process::Command;

const README: &str = include_str!("../README.md");
const BOOK: [&str; 1] = [include_str!("../book/hmm.md")];

/// The lines of the blocks of shell commands.
fn commands(text: &str) -> Vec<&str> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_warpkov_command_succeeds() {
    for text in BOOK.into_iter().chain([README]) {
        let folder = tempfile::tempdir().unwrap();
        let ours: Vec<_> = commands(text).into_iter().filter_map(|line| line.strip_prefix("warpkov ")).collect();
        assert!(ours.len() >= 5, "{ours:?}");
        for arguments in ours {
            let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
            let output = command.current_dir(&folder).args(arguments.split(' ')).output().unwrap();
            assert!(output.status.success(), "warpkov {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn every_make_target_exists() {
    let makefile = include_str!("../Makefile");
    let targets: Vec<_> = commands(README).into_iter().filter_map(|line| line.strip_prefix("make ")).collect();
    assert!(targets.contains(&"demo") && targets.contains(&"test"), "{targets:?}");
    for target in targets {
        assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "make {target}");
    }
}
