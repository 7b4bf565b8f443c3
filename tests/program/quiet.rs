//! `--quiet` prints the result line, and nothing else, in every command that has it.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use tempfile::TempDir;

/// The commands with `--quiet`, the arguments of a run, and how its line begins.
const COMMANDS: [(&str, &str, &str); 11] = [
    ("mdp solve", "forest.json", "Certified: |V − V*| ≤ "),
    ("mdp q", "forest.json", "Certified: |Q − Q*| ≤ "),
    ("mdp policy evaluate", "forest.json policy.csv", "Certified: |V − V^π| ≤ "),
    ("mdp simulate", "forest.json --episodes 100", "Mean: "),
    ("mdp sensitivity", "forest.json --gamma 0.5..0.9 --points 3", "Certified: |V − V*| ≤ "),
    ("pomdp solve", "tiger.pomdp", "Value of the start: 19."),
    ("pomdp reach", "tiger.pomdp --goal tiger-left", "Largest probability of the goal: 1.0"),
    ("pomdp constrain", "tiger.pomdp --costs tiger.pomdp --at-most 10", "Value at the start, cost at most 10: "),
    ("pomdp evaluate", "tiger.pomdp --policy tiger.alpha --episodes 100", "Mean reward "),
    ("pomdp simulate", "tiger.pomdp --policy tiger.alpha --steps 3", ""),
    ("hmm train", "model.json data.txt --iterations 2 --out trained.json", "ln P(O) = "),
];

fn warpkov(folder: &TempDir, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Adds the commands below `path` whose help lists `--quiet`.
fn list(folder: &TempDir, path: &str, found: &mut BTreeSet<String>) {
    let help = text(warpkov(folder, &format!("{path} --help-all")).stdout);
    if help.contains("--quiet") {
        found.insert(path.trim().to_owned());
    }
    let commands = help.split("Commands:\n").nth(1).unwrap_or_default();
    let names = commands.lines().take_while(|line| line.starts_with("  ")).filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        name.split_whitespace().next().filter(|name| *name != "help")
    });
    names.for_each(|name| list(folder, &format!("{path} {name}"), found));
}

#[test]
fn quiet_prints_the_result_line() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        "mdp generate forest --out forest.json",
        "mdp solve forest.json --out policy.csv",
        "pomdp generate tiger --out tiger.pomdp",
        "pomdp solve tiger.pomdp --out tiger.alpha",
        "hmm generate random --states 2 --symbols 3 --out model.json",
        "hmm sample model.json --sequences 3 --length 5 --out data.txt",
    ] {
        let output = warpkov(&folder, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(output.stderr));
    }
    let mut found = BTreeSet::new();
    list(&folder, "", &mut found);
    let listed = COMMANDS.iter().map(|(command, ..)| (*command).to_owned());
    assert_eq!(found, listed.collect(), "commands with --quiet");
    for (command, arguments, begins) in COMMANDS {
        let quiet = warpkov(&folder, &format!("{command} {arguments} --quiet"));
        let (out, err) = (text(quiet.stdout), text(quiet.stderr));
        assert!(out.starts_with(begins) && out.lines().count() == 1 && err.is_empty(), "{command}: {out}{err}");
        assert!(command != "pomdp simulate" || out.contains(" discounted, "), "{command}: {out}");
        let loud = text(warpkov(&folder, &format!("{command} {arguments}")).stdout);
        assert!(loud.lines().count() > 1, "{command}: {loud}");
    }
}
