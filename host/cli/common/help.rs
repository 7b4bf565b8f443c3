//! Help of commands: options in groups, without the rare ones.

use clap::{Arg, Command};

/// Options by heading, the same in all commands. Other options keep their own heading.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Model", &["generate", "format", "model-format", "reward", "costs", "gamma"]),
    ("Data", &["lengths", "columns", "id", "header", "separator", "missing", "on-error"]),
    (
        "Device",
        &[
            "device",
            "device-memory",
            "precision",
            "storage",
            "scan",
            "ranks",
            "rank",
            "master",
            "timeout",
            "trace",
            "usage",
        ],
    ),
    ("Checkpoints", &["checkpoint", "checkpoint-every", "resume", "auto-resume"]),
    ("Output", &["out", "to", "posterior", "states", "paths", "json", "plot", "quiet"]),
];

/// Options that few people need: those for clusters, for layouts and for experiments.
const RARE: [&str; 42] = [
    "all-steps",
    "auto-resume",
    "backups",
    "beliefs",
    "checkpoint-every",
    "companion",
    "costs",
    "device-memory",
    "divide",
    "exponent",
    "floor",
    "format",
    "freeze",
    "header",
    "held-out",
    "local-sweeps",
    "master",
    "max-policies",
    "model-format",
    "no-skip",
    "posterior",
    "prior",
    "rank",
    "ranks",
    "relative",
    "reorder",
    "reward",
    "scan",
    "separator",
    "sticky",
    "storage",
    "terminal-values",
    "tie",
    "tie-transitions",
    "timeout",
    "to",
    "tolerance-absolute",
    "trace",
    "trials",
    "usage",
    "vectors",
    "weights",
];

/// Prints the whole help.
pub const ALL: &str = "--help-all";

fn is_rare(argument: &Arg) -> bool {
    argument.get_long().is_some_and(|long| RARE.contains(&long))
}

/// The command with its options and those of its subcommands under the headings of [`GROUPS`], and with another name for γ. Values
/// may be negative numbers, of which the parser of an option can say why they are wrong.
pub fn grouped(command: Command) -> Command {
    let with_heading = |argument: Arg| {
        let group = GROUPS.iter().find(|group| argument.get_long().is_some_and(|long| group.1.contains(&long)));
        let argument = match argument.get_long() {
            Some("gamma") => argument.visible_alias("discount"),
            _ => argument,
        };
        match group {
            Some(&(heading, _)) if argument.get_help_heading().is_none() => argument.help_heading(heading),
            _ => argument,
        }
    };
    command.allow_negative_numbers(true).mut_args(with_heading).mut_subcommands(grouped)
}

/// The command without help about rare options, unless these are most. The end of its help says so.
pub fn shortened(command: Command) -> Command {
    let rare = command.get_arguments().filter(|argument| is_rare(argument)).count();
    let hide = |argument: Arg| {
        let rare = is_rare(&argument);
        argument.hide_short_help(rare).hide_long_help(rare)
    };
    let hint = format!("{ALL} has {rare} more options.");
    let command = match command.get_after_help() {
        _ if rare == 0 => command,
        Some(end) => {
            let end = format!("{end}\n\n{hint}");
            command.after_help(end)
        }
        None => command.after_help(hint),
    };
    command.mut_args(hide).mut_subcommands(shortened)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(command: &Command, found: &mut BTreeSet<String>) {
        found.extend(command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)));
        command.get_subcommands().for_each(|command| names(command, found));
    }

    #[test]
    fn named_options_exist() {
        let mut found = BTreeSet::new();
        names(&crate::command(), &mut found);
        let all = GROUPS.iter().flat_map(|(_, names)| *names).chain(&RARE);
        for name in all {
            assert!(found.contains(*name), "no command has --{name}");
        }
    }

    /// The help of every command fits on a few pages, and shows no rare option; the whole help shows all.
    #[test]
    fn help_is_short() {
        fn check(mut short: Command, mut whole: Command) {
            let help = short.render_long_help().to_string();
            let (name, lines) = (short.get_name().to_owned(), help.lines().count());
            assert!(lines <= 165, "{name}: {lines} lines");
            let all = whole.render_long_help().to_string();
            for argument in whole.get_arguments().filter(|argument| argument.get_long().is_some()) {
                let long = format!("--{}", argument.get_long().unwrap_or_default());
                // The line of an option begins with it, or with its short name.
                let shows = |help: &str| {
                    let lines = help.lines().filter(|line| line.trim_start().starts_with('-'));
                    let mut options =
                        lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
                    // `--name[=VALUE]` where a value may be absent.
                    options.any(|option| option.split('[').next() == Some(&long))
                };
                assert!(shows(&all), "{name}: {long}");
                assert_eq!(shows(&help), !is_rare(argument), "{name}: {long}");
            }
            for subcommand in whole.get_subcommands().cloned().collect::<Vec<_>>() {
                let name = subcommand.get_name().to_owned();
                check(short.find_subcommand(&name).cloned().unwrap(), subcommand);
            }
        }
        let (mut short, mut whole) = (shortened(crate::command()), crate::command());
        short.build();
        whole.build();
        check(short, whole);
    }
}
