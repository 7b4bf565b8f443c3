//! `warpkov pomdp`.

use std::io::Write;

use clap::Subcommand;

use super::{Error, Outcome};

mod file;
mod info;

pub const EXAMPLES: &str = "\
Examples:
  warpkov pomdp info hallway.pomdp";

#[derive(Subcommand)]
pub enum PomdpCommand {
    Info(info::Arguments),
}

/// Runs a command.
pub fn run(command: PomdpCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        PomdpCommand::Info(arguments) => info::run(&arguments, out),
    }
}
