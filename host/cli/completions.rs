//! `warpkov completions`.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use super::error::{Error, Outcome};

/// Prints the completion script of a shell.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Shell.
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  warpkov completions bash > ~/.local/share/bash-completion/completions/warpkov
  warpkov completions zsh > ~/.zfunc/_warpkov";

/// Prints the script.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    // clap_complete panics if it cannot write, so it writes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command(), "warpkov", &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Success)
}
