//! The page of a command in Markdown.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use clap::builder::PossibleValue;
use clap::{Arg, Command};

/// The page of a built command. The pages of its subcommands are in the same folder.
pub struct Page<'a>(pub &'a Command);

impl Display for Page<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(command) = *self;
        writeln!(out, "# {}", title(command))?;
        if let Some(about) = command.get_long_about().or(command.get_about()) {
            writeln!(out, "\n{}", Text(&about.to_string()))?;
        }
        let usage = command.clone().render_usage().to_string();
        writeln!(out, "\n## Usage\n\n```text\n{}\n```", usage.trim_start_matches("Usage: "))?;
        if command.has_subcommands() {
            writeln!(out, "\n## Commands\n")?;
        }
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(out, "- [`{}`]({}): {}", title(command), file_name(command), Text(&about))?;
        }
        let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
        let mut headings: Vec<&str> = Vec::new();
        for heading in shown().map(heading) {
            if !headings.contains(&heading) {
                headings.push(heading);
            }
        }
        // Arguments first, then options in the order of the help.
        headings.sort_by_key(|&heading| heading != ARGUMENTS);
        for name in headings {
            writeln!(out, "\n## {name}")?;
            shown()
                .filter(|argument| heading(argument) == name)
                .try_for_each(|argument| write_argument(out, argument))?;
        }
        write_sections(out, &command.get_after_help().map(ToString::to_string).unwrap_or_default())
    }
}

const ARGUMENTS: &str = "Arguments";

/// The words of the command, as a user types them.
fn title(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

/// The name of the page's file: `warpkov-mdp-solve.md`.
pub fn file_name(command: &Command) -> String {
    title(command).replace(' ', "-") + ".md"
}

fn heading(argument: &Arg) -> &str {
    let default = if argument.is_positional() { ARGUMENTS } else { "Options" };
    argument.get_help_heading().unwrap_or(default)
}

/// Writes an item of a list: the argument, its help, possible values and defaults.
fn write_argument(out: &mut dyn Write, argument: &Arg) -> fmt::Result {
    let short = argument.get_short().filter(|_| argument.get_long().is_some());
    let short = short.map(|short| format!("-{short}, ")).unwrap_or_default();
    writeln!(out, "\n- `{short}{argument}`")?;
    if let Some(help) = argument.get_long_help().or(argument.get_help()) {
        writeln!(out, "\n  {}", Text(&help.to_string()).to_string().replace('\n', "\n  "))?;
    }
    if !argument.get_action().takes_values() {
        return Ok(());
    }
    let values: Vec<PossibleValue> = argument.get_possible_values().into_iter().filter(|v| !v.is_hide_set()).collect();
    if values.iter().any(|value| value.get_help().is_some()) {
        writeln!(out, "\n  Possible values:\n")?;
        for value in &values {
            let help = value.get_help().map(|help| format!(": {}", Text(&help.to_string()))).unwrap_or_default();
            writeln!(out, "  - `{}`{help}", value.get_name())?;
        }
    } else if !values.is_empty() {
        writeln!(out, "\n  Possible values: {}", codes(values.iter().map(|value| value.get_name().into())))?;
    }
    let defaults = argument.get_default_values();
    if !defaults.is_empty() && !argument.is_hide_default_value_set() {
        writeln!(out, "\n  Default: {}", codes(defaults.iter().map(|value| value.to_string_lossy())))?;
    }
    Ok(())
}

fn codes<'a>(words: impl Iterator<Item = Cow<'a, str>>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Writes the text after the options of the help: a section for each of its headings, with its line breaks.
fn write_sections(out: &mut dyn Write, text: &str) -> fmt::Result {
    for section in text.split("\n\n").filter(|section| !section.is_empty()) {
        match section.split_once(":\n") {
            Some((heading, lines)) if !heading.contains('\n') => {
                let kind = if heading == "Examples" { "sh" } else { "text" };
                writeln!(out, "\n## {heading}\n\n```{kind}")?;
                lines.lines().try_for_each(|line| writeln!(out, "{}", line.strip_prefix("  ").unwrap_or(line)))?;
                writeln!(out, "```")?;
            }
            _ => writeln!(out, "\n```text\n{section}\n```")?,
        }
    }
    Ok(())
}

/// Text of the help, in which only backticks and lists are markup.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self.0.split('`').collect();
        let paired = parts.len() % 2 == 1;
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                out.write_str(if paired { "`" } else { "\\`" })?;
            }
            if paired && i % 2 == 1 {
                out.write_str(part)?;
                continue;
            }
            for c in part.chars() {
                if matches!(c, '\\' | '*' | '_' | '<' | '>' | '[' | ']' | '|' | '~' | '$' | '#' | '&') {
                    out.write_char('\\')?;
                }
                out.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, arg};

    use super::{Page, Text};

    #[test]
    fn a_page_shows_all_that_the_help_shows() {
        let mut command = Command::new("tool").disable_help_subcommand(true).disable_help_flag(true).subcommand(
            Command::new("run")
                .disable_help_flag(true)
                .about("Runs a * b.")
                .arg(arg!(<FILE> "Input"))
                .arg(arg!(-n --number <N> "Count of `a*b`").default_value("3").help_heading("Options of numbers"))
                .arg(arg!(--kind <KIND> "Kind").value_parser(["x", "y"]))
                .arg(arg!(--secret "Not shown").hide(true))
                .after_help("Examples:\n  tool run f\n  tool run g\n\nExit codes:\n  0  done"),
        );
        command.build();
        assert!(Page(&command).to_string().ends_with("\n## Commands\n\n- [`tool run`](tool-run.md): Runs a \\* b.\n"));
        let page = Page(command.find_subcommand("run").unwrap()).to_string();
        let expected = "\
# tool run

Runs a \\* b.

## Usage

```text
tool run [OPTIONS] <FILE>
```

## Arguments

- `<FILE>`

  Input

## Options of numbers

- `-n, --number <N>`

  Count of `a*b`

  Default: `3`

## Options

- `--kind <KIND>`

  Kind

  Possible values: `x`, `y`

## Examples

```sh
tool run f
tool run g
```

## Exit codes

```text
0  done
```
";
        assert_eq!(page, expected);
    }

    #[test]
    fn only_paired_backticks_are_markup() {
        assert_eq!(Text("‖V − V*‖ of `a_b`, c_d").to_string(), "‖V − V\\*‖ of `a_b`, c\\_d");
        assert_eq!(Text("one ` and <x>").to_string(), "one \\` and \\<x\\>");
    }
}
