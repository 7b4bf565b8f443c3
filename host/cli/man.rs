//! `warpkov man`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, ValueEnum};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use warpkov_common::io::{Error as FileError, output};

use super::error::{Error, Outcome};
use markdown::Page;

mod markdown;

/// Writes the manual pages of all commands.
///
/// Each command has a page: warpkov, warpkov-mdp, warpkov-mdp-solve and so on.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Folder of the pages. It is created if it does not exist.
    folder: PathBuf,
    /// Format of the pages.
    #[arg(long, value_enum, default_value_t = Format::Roff)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For man, in section 1: files with the extension .1.
    Roff,
    /// Markdown: files with the extension .md.
    Markdown,
}

const EXAMPLES: &str = "\
Examples:
  warpkov man ~/.local/share/man/man1
  man warpkov-mdp-solve
  warpkov man --format markdown pages";

/// Writes the pages, prints their number.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder).map_err(FileError::write(folder))?;
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    let count = write(&command, arguments.format, folder)?;
    writeln!(out, "{}: {count} manual pages", folder.display())?;
    Ok(Outcome::Success)
}

/// Writes the pages of a command and of its subcommands into a folder, and returns their number.
fn write(command: &Command, format: Format, folder: &Path) -> Result<usize, FileError> {
    let man = Man::new(command.clone()).manual("warpkov");
    let page = match format {
        Format::Roff => folder.join(man.get_filename()),
        Format::Markdown => folder.join(markdown::file_name(command)),
    };
    output::atomic_write(&page, |mut out| match format {
        Format::Roff => render(&man, command, &mut out),
        Format::Markdown => write!(out, "{}", Page(command)),
    })
    .map_err(FileError::write(&page))?;
    command.get_subcommands().try_fold(1, |count, command| Ok(count + write(command, format, folder)?))
}

/// Writes a page. The text after the options of the help is a section for each of its headings, with its line breaks.
fn render(man: &Man, command: &Command, out: &mut dyn Write) -> io::Result<()> {
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(out)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    let mut roff = Roff::new();
    for line in command.get_after_help().map(ToString::to_string).unwrap_or_default().lines() {
        match line.strip_suffix(':') {
            Some(heading) if !heading.starts_with(' ') => {
                roff.control("SH", [heading.to_uppercase().as_str()]).control("nf", []);
            }
            _ => {
                roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
            }
        }
    }
    roff.to_writer(out)
}
